//! Device ids that could be taken for more than text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{opened, stored};

const KINDS: [&str; 22] = [
    "line\nbreak",
    "\r\n\r\nHTTP/1.1 200 OK",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}]0;title\u{7}",
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "quote\"'`quote",
    "../../etc/passwd",
    "..",
    "%2e%2e%2f%00",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "\u{202e}evig ot thgir\u{202c}",
    "\u{2066}\u{200f}עברית\u{200b}",
    "a&amp;b&lt;c",
    "?device=x&at=#trip=y",
    "truck~20260101T000000.000Z",
    "\u{feff}\u{2028}\u{2029}🚚",
    "\u{61c}mark\u{ad}soft\u{2060}joined",
    "\u{3164}filler\u{fe0f}\u{34f}",
];

/// 500 distinct ids of these kinds.
fn ids() -> BTreeSet<String> {
    let with = |nth: usize| match nth / KINDS.len() {
        0 => KINDS[nth].to_owned(),
        round => format!("{}{round}", KINDS[nth % KINDS.len()]),
    };
    let ids: BTreeSet<String> = (0..500).map(with).collect();
    assert_eq!(ids.len(), 500);
    ids
}

/// How the page shows an id: invisible characters as their codes.
fn visible(id: &str) -> String {
    let is_format = |c: char| {
        let is_space = matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}');
        let is_turn = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let is_mark = matches!(c, '\u{ad}' | '\u{61c}' | '\u{2060}');
        let is_ignored = matches!(c, '\u{34f}' | '\u{3164}' | '\u{fe0f}');
        is_space || is_turn || is_mark || is_ignored
    };
    let mut shown = String::new();
    for c in id.chars() {
        match c.is_control() || is_format(c) {
            true => write!(shown, "⟨U+{:04X}⟩", u32::from(c)).unwrap(),
            false => shown.push(c),
        }
    }
    shown
}

/// Number of elements that the page did not create.
const STRANGE: &str = "document.querySelectorAll(
    'img:not([src=\"/assets/icon.svg\"]), script:not([src]), svg[onload], [onmouseover]').length";

#[test]
fn ids_are_text_and_nothing_else() {
    let ids = ids();
    // Four minutes: one of them is some pixels wide on the lane.
    let sample = |id: &String, minute: u32| {
        let time = format!("2024-05-01T08:0{minute}:00Z");
        let sample = json!({ "device_id": id, "time": time, "lat": 52, "lon": 13, "driver": id });
        format!("{sample}\n")
    };
    let line = |id: &String| sample(id, 0) + &sample(id, 4);
    let folder = stored(&ids.iter().map(line).collect::<String>());
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.js("window.alert = () => (window.ran = true)", &[]);
    browser.until_says("#device-count", "500");
    let all = ids.len() as u64;
    while browser.count(".device") < all {
        let before = browser.count(".device");
        browser.click("#device-more");
        browser.until(&format!("document.querySelectorAll('.device').length > {before}"));
    }
    let shown = "[...document.querySelectorAll('.device bdi')].map((el) => el.textContent)";
    let shown: BTreeSet<String> = serde_json::from_value(browser.value(shown)).unwrap();
    let wanted: BTreeSet<String> = ids.iter().map(|id| visible(id)).collect();
    assert_eq!(shown, wanted);
    browser.picture("hostile");

    for id in KINDS {
        // Selects by the id as typed; an input holds no line breaks.
        let click = "[...document.querySelectorAll('.device')]
            .find((button) => button.device === arguments[0]).click()";
        browser.js(click, &[json!(id)]);
        browser.until(&format!(
            "document.querySelector('#device-name').textContent === {} &&
             document.querySelectorAll('rect.bar').length === 1",
            json!(visible(id))
        ));
        let token = "decodeURIComponent(location.hash)";
        let link = browser.value(token).as_str().unwrap().to_owned();
        let trip = browser.value("document.querySelector('rect.bar').dataset.trip");
        browser.paste("#find-id", trip.as_str().unwrap());
        browser.until_says(".asked[data-match=current]", trip.as_str().unwrap());
        browser.until_says(".numbers", &visible(id));
        assert_eq!(link, format!("#device={}", trip.as_str().unwrap().rsplit_once('~').unwrap().0));
        browser.click_at(".track", 482.0 / 1440.0);
        browser.until_says(".asked", "is covered by");
    }
    assert_eq!(browser.value("window.ran === undefined"), json!(true), "a script ran");
    assert_eq!(browser.value(STRANGE), json!(0));
    // The check detects a script that runs.
    for id in &KINDS[4..7] {
        browser.js("document.body.insertAdjacentHTML('beforeend', arguments[0])", &[json!(id)]);
    }
    assert_eq!(browser.value(STRANGE), json!(3));
    assert_eq!(browser.value("window.ran === undefined"), json!(true), "the policy holds");
    // As a link from another page.
    browser.goto("about:blank");
    browser.goto(&serve.url("#device=~3cimg~20src=x~20onerror=alert~281~29~3e"));
    let name: Value = json!("<img src=x onerror=alert(1)>");
    browser.until(&format!("document.querySelector('#device-name').textContent === {name}"));
    assert_eq!(browser.value(STRANGE), json!(0));
}

/// Names, groups and other tags of devices: what anybody with the right to write may set.
const NAMES: [&str; 7] = [
    "<img src=x onerror=alert(1)>",
    "\u{202e}evig ot thgir\u{202c}",
    "line\nbreak\ttab",
    "=cmd|' /C calc'!A0",
    "\u{200b}",
    "{{7*7}}${7*7}",
    "javascript:alert(1)",
];

#[test]
fn names_and_tags_of_devices_are_text_and_nothing_else() {
    let line = |id: &str| {
        let sample = |minute: u32| {
            let time = format!("2024-05-01T08:0{minute}:00Z");
            json!({ "device_id": id, "time": time, "lat": 52, "lon": 13, "driver": NAMES[0] })
        };
        format!("{}\n{}\n", sample(0), sample(4))
    };
    let long = "ש".repeat(128);
    let ids: Vec<String> =
        (0..NAMES.len()).map(|nth| format!("van-{nth}")).chain([long.clone()]).collect();
    let folder = stored(&ids.iter().map(|id| line(id)).collect::<String>());
    let tag = |id: &str, tag: String| {
        let words = ["tag", "--store", "sqlite:trips.db", "--device", id, &tag];
        let ran = folder.command("").args(words).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    for (id, name) in ids.iter().zip(NAMES) {
        tag(id, format!("name={name}"));
        tag(id, format!("group={name}"));
    }
    tag(&long, format!("name={}", "N".repeat(4096)));
    // Keys that objects of JavaScript have themselves, and one that browsers leave out of a URL.
    for key in ["__proto__", "constructor", "toString", ".."] {
        tag("van-0", format!("{key}={}", NAMES[0]));
    }
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.js("window.alert = () => (window.ran = true)", &[]);
    browser.until_says("#fleet-facts", "8 devices");
    for name in &NAMES[..6] {
        browser.until_says(".device", &visible(name));
    }
    browser.picture("hostile-names");
    assert!(browser.value("document.body.scrollWidth <= innerWidth").as_bool().unwrap());
    browser.goto(&serve.url("#device=van-0"));
    browser.until_says("#device-name", NAMES[0]);
    browser.click("#device-tags summary");
    for key in ["__proto__", "constructor", "toString", ".."] {
        browser.until_says("#device-tags dt", key);
    }
    assert_eq!(browser.count("#device-tags [aria-label='Remove the tag ..']"), 0);
    browser.click("[aria-label='Remove the tag __proto__']");
    browser.until("!document.querySelector('#device-tags').textContent.includes('__proto__')");
    browser.until_says("#device-tags dt", "constructor");
    // A trip has no tag of that name.
    let filter = "const tag = document.querySelector('#day-tag');
        tag.value = 'constructor';
        tag.dispatchEvent(new Event('change', { bubbles: true }));";
    browser.js(filter, &[]);
    browser.until_count("#day-rows th", 0);
    browser.picture("hostile-tags");
    // 256 bytes that are written from right to left, and a name of four kilobytes.
    browser.goto(&serve.url(&format!("#device={}", "~d7~a9".repeat(128))));
    browser.until_says("#device-name", &long);
    browser.until_count("rect.bar", 1);
    assert!(browser.value("document.body.scrollWidth <= innerWidth").as_bool().unwrap());
    let high = browser.value("document.querySelector('#device-name').clientHeight");
    assert!(high.as_f64().unwrap() < 100.0, "the name hides the day: {high}");
    browser.picture("hostile-long");
    assert_eq!(browser.value("window.ran === undefined"), json!(true), "a script ran");
    assert_eq!(browser.value(STRANGE), json!(0));
}

#[test]
fn links_with_impossible_days_and_times_open_the_device() {
    let folder = super::merged();
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.js("window.onerror = () => (window.failed = true)", &[]);
    for value in [
        "day=%2B275760-09-13",
        "day=-271821-04-20",
        "day=0000-01-01",
        "day=2024-02-31",
        "at=%2B275760-09-13T00:00:00Z",
        "at=-000044-03-15T00:00:00Z",
        "at=0001-01-01T00:00:00Z",
    ] {
        browser.goto("about:blank");
        browser.goto(&serve.url(&format!("#device=van&{value}")));
        browser.until_says("#day-name", "2024-05-01");
        browser.until_count("rect.bar", 2);
        browser.goto("about:blank");
        browser.goto(&serve.url(&format!("#{value}")));
        browser.until_says("#fleet-facts", "1 device");
    }
    // A state that there is none of hides no device.
    browser.goto("about:blank");
    browser.goto(&serve.url("#state=bogus"));
    browser.until_count(".device", 1);
}
