//! Pick a device, click a time, paste an id: on both stores.

use super::browser::Browser;
use super::{World, merged_samples, on_both};

/// The position of a minute of the day on a lane, from 0 to 1.
fn share(minute: u32) -> f64 {
    f64::from(minute) / 1440.0
}

/// Times and ids of `van`.
struct Day {
    /// Start and end of the first trip, minutes of the day as all times here.
    trip: [u32; 2],
    /// A time in no trip.
    between: u32,
    /// A time in a later trip.
    later: u32,
    /// The id of the first trip.
    id: &'static str,
    /// An id that a merge into the first trip retired.
    retired: &'static str,
    /// An id of a time inside the first trip.
    covers: &'static str,
}

/// Runs all lookups, on either store.
fn look_up(browser: &Browser, day: &Day) {
    browser.until_count(".device", 1);
    assert_eq!(browser.text(".device"), "van");
    browser.click(".device");
    browser.until_count("rect.bar", 2);
    assert_eq!(browser.count("rect.bar.merged"), 1);
    assert_eq!(browser.count("circle.retired"), 1, "the retired id is marked");
    assert_eq!(browser.text("#device-name"), "van");
    assert!(browser.text("#device-facts").starts_with("2 trips · 1 merged"));

    // A bar is thin: a click near the trip's exact time selects the trip.
    browser.click_at(".track", share(day.trip[0].midpoint(day.trip[1])));
    browser.until_says(".asked", "is covered by");
    assert_eq!(browser.text(".trip-id"), day.id);
    assert_eq!(browser.count("rect.bar.selected"), 1);
    browser.until_count(".chart", 1);
    assert_eq!(browser.value("decodeURIComponent(location.hash)"), format!("#trip={}", day.id));

    browser.click_at(".track", share(day.between));
    browser.until_says(".asked", "is not covered by a trip");
    assert_eq!(browser.count("rect.bar.selected"), 0);
    browser.click("[data-side=next]");
    browser.until_count("rect.bar.selected", 1);
    assert_ne!(browser.text(".trip-id"), day.id);

    for (id, word) in [(day.retired, "retired"), (day.covers, "covers"), (day.id, "current")] {
        browser.paste("#find-id", id);
        browser.until_count(&format!(".asked[data-match={word}]"), 1);
        browser.until_says(".asked", id);
        assert_eq!(browser.text(".trip-id"), day.id, "{word}");
        assert_eq!(browser.text(".absorbed li"), day.retired);
    }
    browser.click_at(".track", share(day.later));
    browser.until_says(".asked", "is covered by");
}

#[test]
fn a_time_and_any_id_find_the_trip() {
    on_both(&merged_samples(), find_it);
}

fn find_it(world: &World) {
    let World { serve, browser, .. } = world;
    look_up(
        browser,
        &Day {
            trip: [480, 492],
            between: 506,
            later: 522,
            id: "van~20240501T080000.000Z",
            retired: "van~20240501T081000.000Z",
            covers: "van~20240501T080300.000Z",
        },
    );
    // Every form of an id.
    for form in ["bytes", "uuid"] {
        let words = format!("id encode van 2024-05-01T08:10:00Z --form {form}");
        let id = world.text(&words);
        browser.paste("#find-id", id.trim());
        browser.until_says(".asked[data-match=retired]", id.trim());
    }
    browser.paste("#find-id", "no id at all");
    browser.until_says("#detail", "Not a valid trip id");
    browser.paste("#find-id", "van~20230101T000000.000Z");
    browser.until_says("#detail", "Trip not found");
    // The link of a trip leads back to it in a fresh page.
    browser.goto("about:blank");
    browser.goto(&serve.url("#trip=van~20240501T081000.000Z"));
    browser.until_count(".asked[data-match=retired]", 1);
    browser.until_count("rect.bar.selected", 1);
    browser.goto("about:blank");
    browser.goto(&serve.url("#device=van"));
    browser.until_count("rect.bar", 2);
}
