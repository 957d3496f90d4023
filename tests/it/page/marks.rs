//! Jumps and late parts of a trip: on the map, the chart and the lane, and in words.

use fantoccini::key::Key;
use serde_json::json;

use super::browser::Browser;
use super::days::minutes_of;
use super::serve::Serve;
use super::{World, on_both};
use crate::cli::{Folder, minutes};

const ID: &str = "van~20240501T080000.000Z";

/// A drive of twenty minutes: the second half arrives first, and a fix between them is far away.
fn torn() -> String {
    let part = |span| minutes_of("van", "2024-05-01", span, true);
    let far = part([490, 490]).replace("54.450", "55.450");
    part([491, 500]) + &part([480, 489]) + &far
}

/// The page over a store whose rules know jumps.
fn limited(samples: &str) -> Option<(Serve, Browser)> {
    let folder = Folder::with("samples.ndjson", samples);
    folder.ingest("samples.ndjson --store sqlite:trips.db --max-leg-speed 100");
    super::opened(&folder)
}

#[test]
fn jumps_and_late_parts_are_marked_in_shapes_and_words() {
    let Some((serve, browser)) = limited(&torn()) else { return };
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_count(".chart", 1);
    // A triangle on the map for each jump, with its name.
    browser.until_count(".pin.jump path", 2);
    let names = "[...document.querySelectorAll('[aria-label^=Jump]')].map((el) => el.ariaLabel)";
    let expected = ["08:09:00: 112 km in 1 min", "08:10:00: 111 km in 1 min"];
    assert_eq!(browser.value(names), json!(expected.map(|text| format!("Jump at {text}"))));
    assert_eq!(browser.text("#mark-legend"), "2 jumps1 late part");
    for (css, count) in [
        (".chart .jump", 2),
        (".chart .late", 1),
        (".lane .jump", 2),
        (".lane .late", 1),
        (".legend .mark-jump", 1),
    ] {
        assert_eq!(browser.count(css), count, "{css}");
    }
    assert!(browser.value("!document.querySelector('#key-late').hidden").as_bool().unwrap());
    browser.picture("marks");
    // In words, by the keyboard: each leads to its time.
    browser.js("document.querySelector('.path-marks summary').focus()", &[]);
    browser.key(Key::Enter);
    browser.until_says(".path-marks li", "Arrived late: 08:00:00 to 08:10:00");
    browser.keys(&char::from(Key::Tab).to_string().repeat(2));
    browser.key(Key::Enter);
    browser.until_says(".replay-now", "08:10:00");
    browser.click(".path-marks li:nth-child(3) button");
    browser.until_says(".replay-now", "08:00:00");
    browser.picture("marks-in-words");
    // A jump has no speed: the fastest way to the next sample is not drawn.
    browser.click("#by-speed");
    browser.until_count("#speed-legend li", 5);
    assert_eq!(browser.count(".pin.jump"), 2);
    browser.picture("marks-by-speed");
    browser.click("#day-back");
    browser.until_count(".lane .late", 0);
    browser.until("document.querySelector('#mark-legend').hidden");
    browser.until("document.querySelector('#key-jump').hidden");
}

#[test]
fn a_jump_is_not_the_speed_of_a_trip_that_reports_none() {
    let samples = minutes("van", &[0, 1, 2, 4, 5]).replace("52.02", "53.02");
    let Some((serve, browser)) = limited(&samples) else { return };
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_count(".chart .jump", 2);
    // A hundredth of a degree in a minute is 67 km/h.
    browser.until_says(".speed figcaption", "0–70 km/h");
}

#[test]
fn a_part_that_arrives_late_is_marked_while_it_is_watched() {
    on_both(&minutes("van", &[0, 2, 4, 10, 12]), watch_a_late_part);
}

fn watch_a_late_part(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url(&format!("#trip={ID}")));
    browser.until_count(".chart", 1);
    assert_eq!(browser.count(".path-marks"), 0);
    browser.until_says("#live-text", "Live");
    world.add(&minutes("van", &[3, 6, 8]));
    browser.until_says(".path-marks summary", "2 late parts");
    browser.until_count(".lane .late", 2);
    browser.picture("late");
}
