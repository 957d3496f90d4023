//! The days of a fleet as a list of trips: order, filters, an area, and what it is downloaded as.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fantoccini::key::Key;
use serde_json::json;

use super::browser::Browser;
use super::days::{choose, hash, minutes_of, texts};
use super::spans::texts_of;
use super::{World, on_both, opened, stored};

/// Two devices of a day, whose drivers are Ana and Bo; one drives in the south, and the day before.
fn two() -> String {
    minutes_of("van", "2024-05-01", [480, 500], true)
        + &minutes_of("van", "2024-05-01", [600, 605], true)
        + &minutes_of("bus", "2024-05-01", [540, 550], true)
            .replace("Ana", "Bo")
            .replace("\"lat\":5", "\"lat\":4")
        + &minutes_of("bus", "2024-04-30", [540, 542], true)
}

/// The cells of the first columns.
fn rows(browser: &Browser) -> Vec<String> {
    let rows = "[...document.querySelectorAll('#fleet-trips-rows tr')].map((row) =>
        [...row.cells].slice(0, 3).map((cell) => cell.textContent).join('|'))";
    serde_json::from_value(browser.value(rows)).unwrap()
}

#[test]
fn the_trips_of_a_fleets_day_are_a_list() {
    on_both(&two(), list_a_day);
}

fn list_a_day(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#day=2024-05-01"));
    browser.until_count(".device", 2);
    browser.click("#list-trips");
    browser.until_says("#fleet-trips-state", "3 trips of 2 devices, 19.5 km.");
    let [bus, first, second] =
        ["bus|09:00 – 09:10|5.6 km", "van|08:00 – 08:20|11.1 km", "van|10:00 – 10:05|2.8 km"];
    assert_eq!(rows(browser), [bus, first, second]);
    assert_eq!(hash(browser), "#list=trips&day=2024-05-01");
    browser.picture("fleet-trips");
    browser.click("#fleet-trips-head [data-key=distance] button");
    assert_eq!(rows(browser), [first, bus, second]);
    choose(browser, "#fleet-driver", "Ana");
    browser.until_says("#fleet-trips-state", "2 trips of 1 device, 13.9 km: driver Ana.");
    let shared = hash(browser);
    assert_eq!(shared, "#list=trips&sort=-distance&driver=Ana&day=2024-05-01");
    // The link shows the same; a span has the trips of all of its days.
    browser.goto("about:blank");
    browser.goto(&serve.url(&shared));
    browser.until_says("#fleet-trips-state", "2 trips of 1 device");
    assert_eq!(rows(browser), [first, second]);
    choose(browser, "#fleet-driver", "");
    browser.click("#fleet-range");
    browser.until_says("#fleet-trips-state", "4 trips of 2 devices, 20.6 km.");
    assert!(hash(browser).contains("&day=2024-04-25&to=2024-05-01"), "{}", hash(browser));
    assert_eq!(rows(browser)[3], "bus|04-30 09:00 – 09:02|1.1 km");
    // A trip opens, and Escape leads back to its row.
    browser.js("document.querySelector('#fleet-trips-rows tr .time').focus()", &[]);
    browser.key(Key::Enter);
    browser.until_says(".when", "08:00");
    assert_eq!(hash(browser), "#trip=van~20240501T080000.000Z");
    browser.until("document.activeElement.id === 'detail'");
    browser.key(Key::Escape);
    browser.until("!document.querySelector('#day').hidden");
    browser.key(Key::Escape);
    browser.until("document.activeElement.textContent === '05-01 08:00 – 08:20'");
    // A device opens at the days that the fleet showed.
    browser.click("#fleet-trips-rows tr:nth-child(2) th button");
    browser.until_says("#day-name", "Thu 2024-04-25 to Wed 2024-05-01");
    browser.until_count("#day-rows tr.trip", 2);
}

#[test]
fn the_sums_of_a_fleet_are_of_a_span_of_days() {
    let folder = stored(&two());
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#day=2024-05-01"));
    browser.until_says("#fleet-total", "19.5 km in 3 trips");
    browser.click("#fleet-range");
    browser.until_says("#fleet-total", "20.6 km in 4 trips");
    browser.until_says("#device-list", "6.7 km");
    assert_eq!(hash(&browser), "#day=2024-04-25&to=2024-05-01");
    browser.click("#fleet-before");
    browser.until_says("#fleet-total", "0 m in 0 trips");
    assert_eq!(hash(&browser), "#day=2024-04-18&to=2024-04-24");
    browser.click("#fleet-after");
    browser.until_says("#fleet-total", "20.6 km in 4 trips");
}

#[test]
fn an_area_of_the_map_filters_devices_and_trips() {
    on_both(&two(), filter_the_fleet);
}

fn filter_the_fleet(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#day=2024-05-01"));
    browser.until_count(".device", 2);
    browser.click("#fleet-area summary");
    browser.click("#fleet-area .area-box button:nth-of-type(1)");
    browser.drag("#fleet-map", [0.1, 0.55], [0.9, 0.97]);
    browser.until_says("#device-state", "1 device last seen in the area on the map");
    browser.until_says("#fleet-facts", "1 device of 2");
    browser.click("#list-trips");
    let words = "1 trip of 1 device, 5.6 km: bounding box touches the area on the map.";
    browser.until_says("#fleet-trips-state", words);
    browser.until_says("#fleet-facts", "2 devices");
    browser.picture("fleet-area");
    let shared = hash(browser);
    assert!(shared.starts_with("#list=trips&day=2024-05-01&box="), "{shared}");
    browser.goto("about:blank");
    browser.goto(&serve.url(&shared));
    browser.until_says("#fleet-trips-state", words);
    let csv = texts_of(browser, "#fleet-trips-links a[href*='.csv']");
    assert_eq!(csv[0].trim().lines().count(), 2, "{csv:?}");
    browser.click("#fleet-area summary");
    browser.click("#fleet-area .area-box button:nth-of-type(3)");
    browser.until_says("#fleet-trips-state", "3 trips of 2 devices");
}

/// 1,100 trips of 11 devices, of two samples each.
fn many_trips() -> String {
    let mut lines = String::new();
    for nth in 0..1100 {
        let (device, minute) = (nth % 11, (nth / 11) * 14);
        for (at, second) in [(0, 0), (1, 30)] {
            writeln!(
                lines,
                r#"{{"device_id":"van-{device}","time":"2024-05-01T{:02}:{:02}:{second:02}Z","lat":52.{:03},"lon":13.5,"speed":9}}"#,
                minute / 60,
                minute % 60,
                100 + at * 3
            )
            .unwrap();
        }
    }
    lines
}

#[test]
fn more_trips_than_one_answer_are_downloaded_in_parts() {
    let folder = stored(&many_trips());
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#list=trips&day=2024-05-01"));
    browser.until_says("#fleet-trips-state", "1,100 trips of 11 devices");
    browser.until_says("#fleet-trips-state", "The map draws paths of up to 300 trips.");
    assert_eq!(browser.count("#fleet-trips-rows tr"), 100, "further rows wait");
    browser.click("#fleet-trips button.wide");
    browser.until_count("#fleet-trips-rows tr", 200);
    let named = "[...document.querySelectorAll(\"#fleet-trips-links a[href*='.csv']\")]
        .map((link) => link.ariaLabel)";
    assert_eq!(browser.value(named), json!(["CSV, part 1 of 2", "CSV, part 2 of 2"]));
    browser.picture("parts");
    for format in [".csv", ".ndjson"] {
        let parts = texts_of(&browser, &format!("#fleet-trips-links a[href*='{format}']"));
        let lines = parts.iter().flat_map(|part| part.lines());
        let ids: BTreeSet<_> = lines.filter(|line| line.contains("van-")).collect();
        assert_eq!((parts.len(), ids.len()), (2, 1100), "{format}");
    }
    let gpx = texts_of(&browser, "#fleet-trips-links a[href*='.gpx']");
    let tracks: usize = gpx.iter().map(|part| part.matches("<trk>").count()).sum();
    assert_eq!(tracks, 1100);
}

#[test]
fn names_in_the_list_of_trips_are_text() {
    let odd = ["<img src=x onerror=alert(1)>", "مركبة\u{202e}7", "..", "a&b=c#d"];
    let samples: String = odd
        .iter()
        .map(|name| minutes_of(name, "2024-05-01", [480, 482], true).replace("Ana", "<b>Zoë</b>"))
        .collect();
    let folder = stored(&samples);
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#list=trips&day=2024-05-01&driver=%3Cb%3EZo%C3%AB%3C/b%3E"));
    browser.until_says("#fleet-trips-state", "4 trips of 4 devices, 4.4 km: driver <b>Zoë</b>.");
    let shown = texts(&browser, "#fleet-trips-rows th");
    let expected = ["..", "<img src=x onerror=alert(1)>", "a&b=c#d", "مركبة⟨U+202E⟩7"];
    assert_eq!(BTreeSet::from_iter(shown.iter().map(String::as_str)), BTreeSet::from(expected));
    assert_eq!(browser.count("#fleet-trips img, #fleet-trips b"), 0);
    browser.picture("odd-names");
    let gpx = texts_of(&browser, "#fleet-trips-links a[href*='.gpx']");
    assert_eq!(gpx[0].matches("<trk>").count(), 4);
}
