//! What late samples do to trips, as the page shows it where it happens: on the fleet.

use fantoccini::key::Key;

use super::days::minutes_of;
use super::{World, on_both};
use crate::cli::minutes;

/// One trip before a late sample that joins two, and one before another that splits it.
fn before() -> String {
    minutes("van", &[0, 2, 4, 12, 14]) + &minutes_of("bus", "2024-05-01", [480, 490], true)
}

#[test]
fn the_fleet_reports_joins_and_splits_of_trips() {
    on_both(&before(), see_joins_and_splits);
}

fn see_joins_and_splits(world: &World) {
    let World { browser, .. } = world;
    browser.until_count(".device", 2);
    browser.until_says("#live-text", "Live");
    assert_eq!(browser.count(".toast"), 0);
    world.add(&minutes("van", &[8]));
    browser.until_says(".toast", "van: late samples joined 2 trips into one");
    browser.until_says("#says", "The old id still finds it.");
    browser.picture("news-join");
    // The message leads to the trip, by its old id.
    browser.js("document.querySelector('.toast .button').focus()", &[]);
    browser.key(Key::Enter);
    browser.until_says(".asked[data-match=retired]", "van~20240501T081200.000Z");
    browser.key(Key::Escape);
    browser.key(Key::Escape);
    browser.until("document.body.dataset.view === 'fleet'");
    // Late, too: the ignition was off between two samples of the trip.
    let halt = r#"{"device_id":"bus","time":"2024-05-01T08:05:30Z","lat":54.427,"lon":13.5,"ignition":false}"#;
    world.add(&format!("{halt}\n"));
    browser.until_says(".toast", "bus: late samples split a trip. The part from 08:06 on");
    browser.until_says("#says", "the old id still finds the first part.");
    browser.picture("news-split");
}
