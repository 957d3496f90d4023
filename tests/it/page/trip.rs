//! A selected trip: tags in place, replay, speed on the map, and how it came to be.

use fantoccini::key::Key;
use serde_json::json;

use super::browser::Browser;
use super::days::minutes_of;
use super::serve::Serve;
use super::{World, merged_samples, on_both, opened, stored};

const ID: &str = "van~20240501T080000.000Z";

/// Sets the fields of a tag and saves it.
pub(super) fn save(browser: &Browser, key: &str, value: &str) {
    let script = "const [key, value] = document.querySelectorAll('.tag-form input');
        if (!key.readOnly) key.value = arguments[0];
        value.value = arguments[1];
        value.focus();";
    browser.js(script, &[json!(key), json!(value)]);
    browser.key(Key::Enter);
}

#[test]
fn a_tag_is_set_changed_and_removed_in_place() {
    on_both(&merged_samples(), edit_tags);
}

fn edit_tags(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_count(".chart", 1);
    browser.click("#detail .tag-add .button");
    save(browser, "purpose", "<b>business</b>");
    browser.until_says("#detail .tags dd", "<b>business</b>");
    assert_eq!(browser.count("#detail .tags b"), 0, "a value is text");
    browser.click("[aria-label='Edit the tag purpose']");
    save(browser, "purpose", "private");
    browser.until_says("#detail .tags dd", "private");
    browser.picture("tag-edit");
    // The store has it, and the day shows and finds it.
    let stored = "(() => {
        const asked = new XMLHttpRequest();
        asked.open('GET', '/v1/trips/van~20240501T080000.000Z', false);
        asked.send();
        return JSON.parse(asked.responseText).tags;
    })()";
    assert_eq!(browser.value(stored), json!({ "purpose": "private" }));
    browser.click("#day-back");
    browser.until_says("#day-rows .tag", "purpose: private");
    let filter = "const tag = document.querySelector('#day-tag');
        tag.value = 'purpose=private';
        tag.dispatchEvent(new Event('change'));";
    browser.js(filter, &[]);
    browser.until_count("#day-rows th", 1);
    browser.click("#day-rows button");
    browser.until_says("#detail .tags dd", "private");
    browser.click("[aria-label='Remove the tag purpose']");
    browser.until_count("#detail .tags dd", 0);
    assert_eq!(browser.value(stored), json!({}));
}

#[test]
fn a_token_that_may_only_read_is_named_as_the_reason() {
    let folder = stored(&merged_samples());
    folder.write("token", "maps:read:a-secret-of-some-length-0123456789\n");
    let Some(browser) = Browser::start() else { return };
    let serve = Serve::start(&folder, "--store sqlite:trips.db --token-file token");
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until("document.querySelector('#login').open");
    browser.paste("#login-token", "a-secret-of-some-length-0123456789");
    browser.until_count(".chart", 1);
    browser.until("!document.querySelector('#login').open");
    browser.click("#detail .tag-add .button");
    save(&browser, "purpose", "business");
    browser.until_says("#detail .tag-section .fault", "may only read");
    assert_eq!(browser.count(".tag-form"), 1, "what was typed is still there");
}

/// Where the replay is on the map, the chart and the lane.
const MARKS: &str = "(() => {
    const mark = (css) => document.querySelector(css)?.getAttribute('x1');
    return [document.querySelector('.pin.replayed')?.parentElement.style.transform ?? null,
        mark('.chart .replayed'), mark('.lane .replayed')];
})()";

#[test]
fn a_replay_moves_map_chart_and_lane_together() {
    let folder = stored(&minutes_of("van", "2024-05-01", [480, 500], true));
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_count(".chart", 1);
    assert_eq!(browser.value(MARKS)[0], json!(null));
    // By keys: a minute further with each.
    browser.js("document.querySelector('.scrub').focus()", &[]);
    browser.key(Key::PageUp);
    browser.until_says(".replay-now", "08:01:00");
    browser.until_count(".pin.replayed", 1);
    let before = browser.value(MARKS);
    browser.key(Key::PageUp);
    browser.until_says(".replay-now", "08:02:00");
    let after = browser.value(MARKS);
    for at in 0..3 {
        assert_ne!(before[at], after[at], "{before} {after}");
    }
    // A click on the chart goes there.
    browser.click_at(".chart", 0.51);
    browser.until_says(".replay-now", "08:10:");
    // It runs to the end, and stops there.
    let fast = "const speed = document.querySelector('.replay select');
        speed.value = '300';
        document.querySelector('.replay .button').click();";
    browser.js(fast, &[]);
    browser.until_says(".replay-now", "08:20:00");
    browser.until_says(".replay .button", "Play");
    browser.picture("replay");
    browser.click("#day-back");
    browser.until_count(".pin.replayed", 0);
}

#[test]
fn a_replay_moves_in_steps_where_motion_is_reduced() {
    let folder = stored(&minutes_of("van", "2024-05-01", [480, 500], true));
    let Some((serve, browser)) = opened(&folder) else { return };
    let feature = json!({ "name": "prefers-reduced-motion", "value": "reduce" });
    browser.devtools("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_count(".chart", 1);
    // No frame may move it.
    browser.js("window.requestAnimationFrame = () => { throw new Error('a frame'); };", &[]);
    let slow = "document.querySelector('.replay select').value = '300';
        document.querySelector('.replay .button').click();";
    browser.js(slow, &[]);
    browser.until_says(".replay-now", "08:20:00");
}

#[test]
fn direction_ends_and_speed_are_seen_without_colour() {
    let folder = stored(&minutes_of("van", "2024-05-01", [480, 500], true));
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_count(".chart", 1);
    // The start is a circle with an A, the end a square with a B.
    browser.until_count("[aria-label='Start, 08:00:00'] circle", 1);
    browser.until_count("[aria-label='End, 08:20:00'] rect", 1);
    assert_eq!(browser.text(".pin.start"), "A");
    assert_eq!(browser.text(".pin.end"), "B");
    browser.click("#by-speed");
    browser.until_count("#speed-legend li", 5);
    browser.until_says("#speed-legend", "30–50 km/h");
    assert_eq!(browser.value("document.querySelector('#by-speed').ariaPressed"), "true");
    browser.picture("by-speed");
    browser.click("#by-speed");
    browser.until("document.querySelector('#speed-legend').hidden");
}

#[test]
fn a_history_names_the_late_sample_that_joined_two_trips() {
    on_both(&merged_samples(), read_a_history);
}

fn read_a_history(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_says(".came summary", "2 trips became one");
    browser.click(".came summary");
    browser.until_count(".steps li", 3);
    let steps = "[...document.querySelectorAll('.steps li')].map((el) => el.textContent)";
    let steps: Vec<String> = serde_json::from_value(browser.value(steps)).unwrap();
    assert!(steps[0].starts_with("Minted. The sample of 08:10:00"), "{steps:?}");
    assert!(steps[1].starts_with("Minted. The sample of 08:00:00"), "{steps:?}");
    assert!(steps[2].starts_with("Joined. The sample of 08:06:00"), "{steps:?}");
    assert_eq!(browser.count("svg.history .cause"), 1, "the late sample is in the picture");
    let name = "document.querySelector('svg.history').getAttribute('aria-label')";
    assert_eq!(browser.value(name), "How the trip came to be, in 3 steps; the list below has each");
    browser.picture("history");
    browser.click(".steps .link");
    browser.until_says(".asked[data-match=retired]", "van~20240501T081000.000Z");
}

#[test]
fn a_split_is_part_of_the_history() {
    // A gap of eight minutes is filled, then the sample in it turns out to be one of a stop.
    let part = |span, moves| minutes_of("van", "2024-05-01", span, moves);
    let samples = part([480, 484], true) + &part([492, 496], true) + &part([488, 488], true);
    let folder = stored(&samples);
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_says(".came summary", "2 trips became one");
    browser.until_says("#live-text", "Live");
    // The vehicle was parked between 08:04 and 08:12.
    folder.write("late.ndjson", part([485, 485], false) + &part([491, 491], false));
    folder.ingest("late.ndjson --store sqlite:trips.db");
    browser.until("document.querySelectorAll('rect.bar').length !== 1");
    browser.goto("about:blank");
    browser.goto(&serve.url("#trip=van~20240501T081200.000Z"));
    browser.until_count(".came", 1);
    browser.click(".came summary");
    browser.until_says(".steps", "Split.");
    browser.picture("split");
}
