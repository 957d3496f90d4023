//! Keyboard only, dark mode, a phone; and the screenshots in README and docs.

use fantoccini::key::Key;
use serde_json::json;

use super::browser::Browser;
use super::{World, fleet, merged, merged_samples, on_both, opened, stored};

/// The id of the focused element, else its class.
fn focus(browser: &Browser) -> String {
    let focus = "document.activeElement.id || document.activeElement.getAttribute('class')";
    browser.value(focus).as_str().unwrap_or_default().to_owned()
}

/// Presses Tab until an element has the focus, which has to be visible.
#[track_caller]
fn tab_to(browser: &Browser, wanted: &str) {
    for _ in 0..40 {
        browser.key(Key::Tab);
        let found = focus(browser);
        let ring = "getComputedStyle(document.activeElement).outlineStyle !== 'none'";
        assert_eq!(browser.value(ring), json!(true), "no ring around {found}");
        if found.split(' ').any(|name| name == wanted) {
            return;
        }
    }
    panic!("Tab never comes to {wanted}");
}

#[test]
fn keys_alone_do_it_all() {
    on_both(&merged_samples(), by_keys_alone);
}

fn by_keys_alone(world: &World) {
    let World { browser, .. } = world;
    browser.until_count(".device", 1);
    browser.key(Key::Tab);
    assert_eq!(focus(browser), "skip");
    tab_to(browser, "device-search");
    browser.key(Key::Down);
    assert_eq!(focus(browser), "device");
    browser.key(Key::Enter);
    browser.until_count("rect.bar", 2);
    // The newest day has the focus: continue from there.
    browser.until("document.activeElement.classList.contains('track')");
    let says = "document.activeElement.getAttribute('aria-valuetext')";
    browser.keys("p");
    browser.until_says(".trip-id", "van~20240501T080000.000Z");
    assert_eq!(browser.value(says), "08:00:00, trip 08:00:00 to 08:12:00, 12 min");
    browser.keys("n");
    browser.until_says(".trip-id", "van~20240501T084000.000Z");
    (0..5).for_each(|_| browser.key(Key::Left));
    browser.until_says(".asked", "2024-05-01 08:35:00 is not covered by a trip");
    assert_eq!(browser.value(says), "08:35:00, no trip");
    browser.key(Key::PageUp);
    browser.until_says(".asked", "2024-05-01 07:35:00 is not covered by a trip");
    browser.key(Key::PageDown);
    (0..5).for_each(|_| browser.key(Key::Right));
    browser.until_says(".asked", "2024-05-01 08:40:00 is covered by");
    browser.keys("+");
    browser.until_says("#zoom-fit", "12 h");
    browser.keys("-");
    browser.until_says("#zoom-fit", "24 h");
    browser.key(Key::Enter);
    assert_eq!(focus(browser), "detail");
    browser.js("document.querySelector('#find-id').focus()", &[]);
    browser.keys("van~20240501T081000.000Z");
    browser.key(Key::Enter);
    browser.until_count(".asked[data-match=retired]", 1);
    browser.until_says("#says", "retired");
    tab_to(browser, "theme");
    browser.picture("keyboard");
}

#[test]
fn everything_has_a_name() {
    let folder = merged();
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#trip=van~20240501T080000.000Z"));
    browser.until_count(".absorbed", 1);
    let nodes = browser.devtools("Accessibility.getFullAXTree", &json!({}));
    let acts = ["button", "link", "textbox", "searchbox", "slider", "Date"];
    let mut seen = 0;
    for node in nodes["nodes"].as_array().unwrap() {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let is_ignored = node["ignored"] == json!(true);
        if is_ignored || !acts.contains(&role) {
            continue;
        }
        seen += 1;
        let name = node["name"]["value"].as_str().unwrap_or_default();
        assert!(!name.is_empty(), "a {role} without a name: {node}");
    }
    assert!(seen > 10, "only {seen} things to act on");
}

#[test]
fn it_is_dark_where_the_system_or_the_button_says_so() {
    on_both(&merged_samples(), in_the_dark);
}

fn in_the_dark(world: &World) {
    let World { serve, browser, .. } = world;
    let back = "getComputedStyle(document.body).backgroundColor";
    let (light, dark) = ("rgb(244, 245, 248)", "rgb(14, 19, 27)");
    browser.scheme("light");
    browser.until(&format!("{back} === '{light}'"));
    browser.scheme("dark");
    browser.until(&format!("{back} === '{dark}'"));
    browser.until("document.querySelector('#theme').getAttribute('aria-pressed') === 'true'");
    browser.click("#theme");
    browser.until(&format!("{back} === '{light}'"));
    // The choice is stored.
    browser.goto("about:blank");
    browser.goto(&serve.url("#trip=van~20240501T081000.000Z"));
    browser.until_count("rect.bar.selected", 1);
    assert_eq!(browser.value(back), light);
    browser.click("#theme");
    browser.until(&format!("{back} === '{dark}'"));
    // Text has a contrast of at least 4.5 to 1, as WCAG requires.
    let script = "
        const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const light = (text) => rgb(text).map((c) => c / 255)
          .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
          .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
        const under = (el) => {
          const back = getComputedStyle(el).backgroundColor;
          return /^rgba.*, 0\\)$/.test(back) && el.parentElement ? under(el.parentElement) : back;
        };
        return arguments[0].map((css) => {
          const el = document.querySelector(css);
          const [a, b] = [light(getComputedStyle(el).color), light(under(el))];
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        });";
    let shown = [
        "#device-name",
        "#device-facts",
        ".lane-count",
        ".numbers dt",
        ".asked.retired b",
        ".badge.merged",
        ".absorbed .link",
        ".legend",
        "#live-text",
        ".device[aria-current]",
    ];
    for theme in ["dark", "light"] {
        let ratios = browser.js(script, &[json!(shown)]);
        for (css, ratio) in shown.iter().zip(ratios.as_array().unwrap()) {
            assert!(ratio.as_f64().unwrap() >= 4.5, "{theme}: {css} has {ratio}");
        }
        browser.click("#theme");
    }
}

#[test]
fn a_phone_shows_it_without_scrolling_sideways() {
    on_both(&merged_samples(), on_a_phone);
}

fn on_a_phone(world: &World) {
    let World { serve, browser, .. } = world;
    browser.phone(360, 740);
    let fits = "document.documentElement.scrollWidth <= 360 && innerWidth === 360";
    browser.until(fits);
    browser.until_count(".device", 1);
    browser.picture("phone-devices");
    browser.until(fits);
    browser.click(".device");
    browser.until_count("rect.bar", 2);
    browser.until(fits);
    browser.click_at(".track", 486.0 / 1440.0);
    browser.until_count("rect.bar.selected", 1);
    browser.until_count(".absorbed", 1);
    browser.until(fits);
    browser.goto(&serve.url("#device=van&at=2024-05-01T08:30:00.000Z"));
    browser.until_says(".asked", "is not covered by a trip");
    browser.until(fits);
    // Next to a device, the list is behind a button.
    browser.click("#devices-toggle");
    browser.until("document.activeElement.id === 'device-search'");
    browser.until(fits);
}

#[test]
fn pictures_for_the_readme() {
    let folder = stored(&fleet::samples());
    let Some((serve, browser)) = opened(&folder) else { return };
    let trips = folder.trips("trips.db");
    let merged = trips.iter().filter(|trip| trip["device_id"] == "truck-17");
    let merged = merged.filter(|trip| trip["absorbed"] != json!([]));
    let last = merged.max_by_key(|trip| trip["start_time"].as_str().unwrap().to_owned()).unwrap();
    let retired = last["absorbed"][0].as_str().unwrap();
    for (name, scheme) in [("light", "light"), ("dark", "dark")] {
        browser.scheme(scheme);
        browser.goto("about:blank");
        browser.goto(&serve.url(&format!("#trip={retired}")));
        browser.until_count(".asked[data-match=retired]", 1);
        browser.until_count(".chart", 1);
        browser.until("!document.querySelector('#map-state').textContent");
        browser.picture(name);
    }
    browser.scheme("light");
    browser.phone(360, 740);
    browser.goto("about:blank");
    browser.goto(&serve.url(&format!("#trip={retired}")));
    browser.until_count(".chart", 1);
    browser.js("document.querySelector('#timeline').scrollIntoView()", &[]);
    browser.picture("phone");
}
