//! Spans of days of a device: their table and sums, what filters it, and what it is downloaded as.

use fantoccini::key::Key;
use serde_json::{Value, json};

use super::browser::Browser;
use super::days::{choose, hash, minutes_of, tab_until, texts, times};
use super::{World, on_both, opened, stored};

/// The answers to the links that a selector matches.
pub(super) fn texts_of(browser: &Browser, css: &str) -> Vec<String> {
    let script = "return [...document.querySelectorAll(arguments[0])].map((link) => {
        const asked = new XMLHttpRequest();
        asked.open('GET', link.href, false);
        asked.send();
        return asked.responseText;
    })";
    serde_json::from_value(browser.js(script, &[json!(css)])).unwrap()
}

/// Three days of `van`: two trips on the first, one on the third by another driver, in the south.
fn week() -> String {
    let part = |date, span| minutes_of("van", date, span, true);
    part("2024-05-01", [480, 500])
        + &part("2024-05-01", [600, 610])
        + &part("2024-05-03", [480, 490]).replace("Ana", "Bo").replace("\"lat\":5", "\"lat\":4")
}

#[test]
fn a_span_of_days_is_a_table_with_its_sums() {
    on_both(&week(), read_a_span);
}

fn read_a_span(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#device=van&day=2024-05-01&to=2024-05-03"));
    browser.until_says("#day-name", "Wed 2024-05-01 to Fri 2024-05-03");
    browser.until_says("#day-rows .date", "Wed 2024-05-01 2 trips, 16.7 km");
    assert_eq!(browser.count("#day-rows tr.trip"), 3);
    let days = texts(browser, "#day-rows .date");
    assert_eq!(days, ["Wed 2024-05-01 2 trips, 16.7 km", "Fri 2024-05-03 1 trip, 5.6 km"]);
    assert_eq!(texts(browser, "#day-sums dd")[..2], ["3", "22.2 km"]);
    assert_eq!(browser.count(".lane-label[aria-current=date]"), 2);
    browser.picture("span");
    // A day of it alone on the map, and all of them again.
    let third = browser.value("document.querySelector('#day-map').options[2].value");
    choose(browser, "#day-map", third.as_str().unwrap());
    browser.until_says(".date", "on the map");
    assert_eq!(hash(browser), "#device=van&day=2024-05-01&to=2024-05-03&on=2024-05-03");
    browser.click("#day-rows .date button[aria-pressed=true]");
    assert_eq!(hash(browser), "#device=van&day=2024-05-01&to=2024-05-03");
    // The spans before and after it are as long.
    browser.click("#day-before");
    browser.until_says("#day-state", "No trips or stops on these days");
    assert_eq!(hash(browser), "#device=van&day=2024-04-28&to=2024-04-30");
    browser.click("#day-after");
    browser.until_count("#day-rows tr.trip", 3);
    // A trip of it leads back to it, also from its link.
    browser.click("#day-rows tr.trip .time");
    browser.until_says(".when", "08:00");
    let trip = "#trip=van~20240501T080000.000Z&day=2024-05-01&to=2024-05-03";
    assert_eq!(hash(browser), trip);
    browser.goto("about:blank");
    browser.goto(&serve.url(trip));
    browser.until_says(".when", "08:00");
    browser.until(&format!("decodeURIComponent(location.hash) === '{trip}'"));
    browser.click("#day-back");
    browser.until_count("#day-rows .date", 2);
    // One day again, which is the last one.
    browser.click("#day-range");
    browser.until_says("#day-name", "Fri 2024-05-03");
    assert_eq!(hash(browser), "#device=van&day=2024-05-03");
    assert_eq!(times(browser), ["08:00 – 08:10"]);
}

#[test]
fn a_range_has_at_most_the_days_of_the_api() {
    let folder = stored(&week());
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#device=van&day=2024-05-03"));
    browser.until_count("#day-rows tr.trip", 1);
    browser.click("#day-range");
    browser.until_says("#day-name", "Sat 2024-04-27 to Fri 2024-05-03");
    choose(&browser, "#upto", "2024-01-01");
    browser.until_says("[data-days=note]", "At most 31 days: the range now ends on 2024-01-31.");
    assert_eq!(hash(&browser), "#device=van&day=2024-01-01&to=2024-01-31");
    choose(&browser, "#upto-last", "2024-05-03");
    browser.until_says("[data-days=note]", "the range now begins on 2024-04-03.");
    browser.until_count("#day-rows tr.trip", 3);
    assert_eq!(browser.count("#day-sums dd"), 6, "the API has sums of that span");
}

#[test]
fn order_and_filter_of_a_table_are_in_its_url() {
    let folder = stored(&week());
    folder.run("tag van~20240501T080000.000Z job=a=b --store sqlite:trips.db").ends(0);
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#device=van&day=2024-05-01&to=2024-05-03"));
    browser.until_count("#day-rows tr.trip", 3);
    browser.click("[data-key=distance] button");
    choose(&browser, "#day-kind", "trip");
    choose(&browser, "#day-driver", "Ana");
    browser.until_says("#day-state", "2 of 3 rows, 16.7 km: trips only, driver Ana.");
    choose(&browser, "#day-tag", "job=a=b");
    browser.until_says("#day-state", "1 of 3 rows, 11.1 km: trips only, driver Ana, tag job=a=b.");
    let shared = hash(&browser);
    let filter = "&kind=trip&sort=-distance&driver=Ana&tag=job=a=b";
    assert_eq!(shared, format!("#device=van&day=2024-05-01&to=2024-05-03{filter}"));
    let link = browser.value("location.href");
    browser.goto("about:blank");
    browser.goto(link.as_str().unwrap());
    browser.until_says("#day-state", "1 of 3 rows");
    assert_eq!(hash(&browser), shared);
    assert_eq!(browser.count("[aria-sort=descending]"), 1);
    assert_eq!(browser.value("document.querySelector('#day-driver').value"), "Ana");
    // Another device has no such filter.
    browser.goto(&serve.url("#device=van&day=2024-05-01"));
    browser.until_count("#day-rows tr.trip", 2);
    assert_eq!(browser.text("#day-state"), "");
}

#[test]
fn an_area_of_the_map_filters_a_table() {
    on_both(&week(), filter_by_area);
}

fn filter_by_area(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#device=van&day=2024-05-01&to=2024-05-03"));
    browser.until_count("#day-rows tr.trip", 3);
    browser.until("!document.querySelector('#map-state').textContent");
    browser.click("#area-tools summary");
    browser.click("#area-tools .area-box button:nth-of-type(1)");
    browser.key(Key::Escape);
    browser.until_count(".area-sheet", 0);
    assert_eq!(browser.value("document.body.dataset.view"), "device", "Escape ended the drawing");
    browser.click("#area-tools .area-box button:nth-of-type(1)");
    // The map shows all trips from the south to the north: the lower half is one of them.
    browser.drag("#map", [0.1, 0.55], [0.9, 0.97]);
    let words = "1 of 3 rows, 5.6 km: bounding box touches the area on the map.";
    browser.until_says("#day-state", words);
    assert_eq!(times(browser), ["08:00 – 08:10"]);
    assert!(hash(browser).contains("&box="), "{}", hash(browser));
    browser.picture("area");
    // A download has the same rows, and the link the same area.
    let csv = texts_of(browser, "#day-links a[href*='.csv']");
    assert_eq!(csv[0].trim().lines().count(), 2, "{csv:?}");
    let link = browser.value("location.href");
    browser.goto("about:blank");
    browser.goto(link.as_str().unwrap());
    browser.until_says("#day-state", words);
    assert_eq!(browser.count("#map .leaflet-overlay-pane svg path"), 1, "it is drawn");
    // By keys alone: the view of the map is the area, which goes as it came.
    browser.js("document.querySelector('#map').focus()", &[]);
    tab_until(browser, "document.activeElement.matches('#area-tools summary')");
    browser.key(Key::Enter);
    tab_until(browser, "document.activeElement.textContent === 'Use this view'");
    browser.key(Key::Enter);
    browser.until_says("#day-state", "3 of 3 rows");
    tab_until(browser, "document.activeElement.textContent === 'Remove'");
    browser.key(Key::Enter);
    browser.until("document.querySelector('#day-state').textContent === ''");
    assert!(!hash(browser).contains("box="), "{}", hash(browser));
    browser.until("document.activeElement.matches('#area-tools summary')");
}

#[test]
fn days_are_downloaded_as_gpx() {
    on_both(&week(), download_gpx);
}

fn download_gpx(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#device=van&day=2024-05-01"));
    browser.until_count("#day-rows tr.trip", 2);
    assert_eq!(texts(browser, "#day-links a"), ["CSV", "GeoJSON", "GPX", "NDJSON", "Parquet"]);
    let name = "document.querySelector(\"#day-links a[href*='.gpx']\").download";
    assert_eq!(browser.value(name), "van-2024-05-01.gpx");
    let of_day = texts_of(browser, "#day-links a[href*='.gpx']");
    assert_eq!(of_day[0].matches("<trk>").count(), 2);
    assert_eq!(of_day[0].matches("<trkpt").count(), 32);
    browser.goto(&serve.url("#device=van&day=2024-05-01&to=2024-05-03"));
    browser.until_count("#day-rows tr.trip", 3);
    assert_eq!(browser.value(name), "van-2024-05-01-2024-05-03.gpx");
    let of_span = texts_of(browser, "#day-links a[href*='.gpx']");
    assert_eq!(of_span[0].matches("<trk>").count(), 3);
    assert_eq!(of_span[0].matches("</gpx>").count(), 1);
}

#[test]
fn the_colours_of_speed_are_in_the_url() {
    let folder = stored(&week());
    let Some((serve, browser)) = opened(&folder) else { return };
    let trip = "#trip=van~20240501T080000.000Z";
    browser.goto(&serve.url(trip));
    browser.until_count(".chart", 1);
    browser.click("#by-speed");
    browser.until_says("#speed-legend", "km/h");
    assert_eq!(hash(&browser), format!("{trip}&colour=speed"));
    browser.goto("about:blank");
    browser.goto(&serve.url(&format!("{trip}&colour=speed")));
    browser.until_says("#speed-legend", "km/h");
    let pressed: Value = browser.value("document.querySelector('#by-speed').ariaPressed");
    assert_eq!(pressed, "true");
    // The choice stays with the next trip.
    browser.click("#trip-after");
    browser.until_says(".when", "10:00");
    assert_eq!(hash(&browser), "#trip=van~20240501T100000.000Z&colour=speed");
    browser.click("#by-speed");
    assert_eq!(hash(&browser), "#trip=van~20240501T100000.000Z");
}
