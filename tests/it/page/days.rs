//! The days of a device: in the zone of the browser or in UTC, as lanes and as a table with sums.

use std::fmt::Write as _;

use fantoccini::key::Key;
use serde_json::{Value, json};

use super::browser::Browser;
use super::serve::Serve;
use super::{World, on_both, opened, stored};

/// A sample of each minute of a date, from one up to another: moving, or with the ignition off.
pub fn minutes_of(device: &str, date: &str, [from, to]: [u32; 2], moves: bool) -> String {
    let mut lines = String::new();
    for minute in from..=to {
        let (hour, rest) = (minute / 60, minute % 60);
        let lat = 52.0 + f64::from(if moves { minute } else { from - 1 }) * 0.005;
        let speed = if moves { 9.2 } else { 0.0 };
        writeln!(
            lines,
            r#"{{"device_id":"{device}","time":"{date}T{hour:02}:{rest:02}:00Z","lat":{lat:.3},"lon":13.5,"speed":{speed},"ignition":{moves},"driver":"Ana"}}"#
        )
        .unwrap();
    }
    lines
}

/// A morning of `van`: two trips with a stop between them, a third one after a silence.
fn morning() -> String {
    let part = |span, moves| minutes_of("van", "2024-05-01", span, moves);
    part([480, 500], true)
        + &part([501, 520], false)
        + &part([521, 540], true)
        + &part([780, 790], true)
}

/// The zone of the browser, for pages that are loaded from now on.
fn live_in(browser: &Browser, zone: &str) {
    browser.devtools("Emulation.setTimezoneOverride", &json!({ "timezoneId": zone }));
    browser.goto("about:blank");
}

/// The texts of the elements that a selector matches.
pub(super) fn texts(browser: &Browser, css: &str) -> Vec<String> {
    let script = "return [...document.querySelectorAll(arguments[0])]
        .map((el) => el.textContent.trim())";
    serde_json::from_value(browser.js(script, &[json!(css)])).unwrap()
}

/// The times in the first column of the table.
pub(super) fn times(browser: &Browser) -> Vec<String> {
    texts(browser, "#day-rows .time")
}

pub(super) fn choose(browser: &Browser, css: &str, value: &str) {
    let script = "const el = document.querySelector(arguments[0]);
        el.value = arguments[1];
        el.dispatchEvent(new Event('change'));";
    browser.js(script, &[json!(css), json!(value)]);
}

pub(super) fn hash(browser: &Browser) -> String {
    browser.value("decodeURIComponent(location.hash)").as_str().unwrap().to_owned()
}

#[test]
fn a_night_is_on_the_day_of_the_browsers_zone() {
    // From 22:10 to 22:30 of UTC, which is after midnight in Berlin.
    let folder = stored(&minutes_of("van", "2024-05-01", [1330, 1350], true));
    let Some((serve, browser)) = opened(&folder) else { return };
    live_in(&browser, "Europe/Berlin");
    browser.goto(&serve.url("#device=van"));
    browser.until_says(".lane-label", "Thu 2024-05-02");
    browser.until_says("#device-facts", "Europe/Berlin");
    assert_eq!(times(&browser), ["00:10 – 00:30"]);
    browser.picture("berlin");
    choose(&browser, "#tz", "UTC");
    browser.until_says(".lane-label", "Wed 2024-05-01");
    assert_eq!(times(&browser), ["22:10 – 22:30"]);
    browser.until_says("#device-facts", "UTC");
    assert!(hash(&browser).ends_with("tz=UTC"), "{}", hash(&browser));
    // The choice stays with the next view, and with its link.
    browser.click("#day-rows button");
    browser.until_says(".when", "22:10");
    assert_eq!(hash(&browser), "#trip=van~20240501T221000.000Z&tz=UTC");
    browser.goto("about:blank");
    browser.goto(&serve.url("#trip=van~20240501T221000.000Z&tz=UTC"));
    browser.until_says(".when", "22:10");
    assert_eq!(browser.value("document.querySelector('#tz').value"), "UTC");
    // A zone that does not exist is that of the browser.
    browser.goto("about:blank");
    browser.goto(&serve.url("#trip=van~20240501T221000.000Z&tz=No/Where"));
    browser.until_says(".when", "00:10");
}

#[test]
fn days_of_23_and_25_hours_keep_the_clock_as_their_axis() {
    let part = |date, from| minutes_of("van", date, [from, from + 10], true);
    // 01:30, 03:30 and 12:00 in Berlin; 02:10 twice and 12:00.
    let spring = part("2024-03-31", 30) + &part("2024-03-31", 90) + &part("2024-03-31", 600);
    let autumn = part("2024-10-27", 10) + &part("2024-10-27", 70) + &part("2024-10-27", 660);
    let folder = stored(&(spring + &autumn));
    let Some((serve, browser)) = opened(&folder) else { return };
    live_in(&browser, "Europe/Berlin");
    browser.goto(&serve.url("#device=van"));
    browser.until_count("rect.bar", 6);
    assert_eq!(texts(&browser, ".lane-count"), ["3 trips · 25 h", "3 trips · 23 h"]);
    let starts = "[...document.querySelectorAll('rect.bar')].map((el) => parseFloat(el.style.x))";
    let starts: Vec<f64> = serde_json::from_value(browser.value(starts)).unwrap();
    // The hour that occurs twice has the space of one; noon is in the middle of each day.
    let expected = [2.0 + 5.0 / 60.0, 2.0 + 35.0 / 60.0, 12.0, 1.5, 3.5, 12.0];
    for (start, hour) in starts.iter().zip(expected) {
        assert!((start - hour / 0.24).abs() < 0.01, "{start} is not {hour} h: {starts:?}");
    }
    let twice = ["02:10 +02:00 – 02:20 +02:00", "02:10 +01:00 – 02:20 +01:00", "12:00 – 12:10"];
    assert_eq!(times(&browser), twice);
    browser.picture("clocks");
    // Each of them is found where it is drawn.
    for (share, id) in [(2.13, "van~20241027T001000.000Z"), (2.63, "van~20241027T011000.000Z")] {
        browser.click_at(".track", share / 24.0);
        browser.until_says(".trip-id", id);
    }
}

#[test]
fn a_day_reads_as_trips_stops_and_silences() {
    on_both(&morning(), read_a_day);
}

fn read_a_day(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#device=van&day=2024-05-01"));
    browser.until_count("#day-rows tr", 5);
    assert_eq!(
        times(browser),
        ["08:00 – 08:20", "08:21 – 08:40", "08:41 – 09:00", "13:00 – 13:10"]
    );
    let kinds = texts(browser, "#day-rows .kind");
    assert_eq!(kinds, ["Trip", "Parked", "Trip", "Trip"]);
    browser.until_says("#day-rows .silence", "No samples for 4 h");
    // The lane and the map have the stop as well.
    assert_eq!(browser.count("rect.stop"), 1);
    assert_eq!(browser.count("rect.bar"), 3);
    browser.until_count("[aria-label^='Stop 08:21:00 to 08:40:00, 19 min']", 1);
    browser.picture("day");
    browser.click("[data-key=distance] button");
    assert_eq!(times(browser)[0], "08:00 – 08:20");
    assert_eq!(browser.count("#day-rows .silence"), 0, "the rows are not in order of time");
    assert_eq!(browser.count("[aria-sort=descending]"), 1);
    choose(browser, "#day-kind", "stop");
    assert_eq!(times(browser), ["08:21 – 08:40"]);
    choose(browser, "#day-kind", "all");
    // A stop is found by its row.
    let stop = "[...document.querySelectorAll('#day-rows tr.stop button')][0].click()";
    browser.js(stop, &[]);
    browser.until_says(".stands", "The vehicle stands");
    browser.until_says(".stands", "off for 19 min");
    browser.click("#day-back");
    browser.until_count("#day-rows tr", 4);
    // The days around it.
    browser.click("#day-before");
    browser.until_says("#day-state", "No trips or stops on this day.");
    // The order stays.
    assert_eq!(hash(browser), "#device=van&day=2024-04-30&sort=-distance");
    browser.click("#day-after");
    browser.until_count("#day-rows th", 4);
}

#[test]
fn the_sums_of_a_day_are_those_of_the_api() {
    // The last trip is over midnight.
    let night = minutes_of("van", "2024-05-01", [1420, 1439], true)
        + &minutes_of("van", "2024-05-02", [0, 20], true).replace("52.", "59.");
    let folder = stored(&(morning() + &night));
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#device=van&day=2024-05-01"));
    browser.until_says("#day-sums", "Trips and stops over midnight count with their part");
    let sums = "(() => {
        const asked = new XMLHttpRequest();
        asked.open('GET', '/v1/summary?by=device&device=van&day=2024-05-01', false);
        asked.send();
        return JSON.parse(asked.responseText).total;
    })()";
    let sums = browser.value(sums);
    let shown = texts(&browser, "#day-sums dd");
    let km = |metres: &Value| format!("{:.1} km", metres.as_f64().unwrap() / 1000.0);
    let min = |seconds: &Value| seconds.as_f64().unwrap() / 60.0;
    assert_eq!(shown[0], sums["trips"].to_string());
    assert_eq!(shown[1], km(&sums["distance_m"]));
    assert!((min(&sums["duration_s"]) - 70.0).abs() < 2.0, "{sums}");
    assert!(shown[2].starts_with("1 h "), "{shown:?}");
    assert_eq!(shown[5], format!("{:.0} min", min(&sums["parked_s"])));
    // What is shown can be downloaded, with the same filter.
    choose(&browser, "#day-kind", "trip");
    let rows = texts(&browser, "#day-rows th").len();
    let lines = "(() => {
        const asked = new XMLHttpRequest();
        asked.open('GET', document.querySelector('#day-links a').href, false);
        asked.send();
        return asked.responseText.trim().split('\\n').length;
    })()";
    assert_eq!(browser.value(lines), json!(rows + 1));
}

#[test]
fn miles_are_shown_by_choice_and_kept_in_the_url() {
    let folder = stored(&morning());
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#device=van&day=2024-05-01"));
    browser.until_says("#day-rows", "11.1 km");
    choose(&browser, "#units", "mi");
    browser.until_says("#day-rows", "6.9 mi");
    browser.until_says("#day-head", "mph");
    browser.click("#day-rows button");
    browser.until_says(".speed", "mph");
    browser.until_says(".numbers", "6.9 mi");
    browser.until_says(".leaflet-control-scale-line", "mi");
    assert_eq!(hash(&browser), "#trip=van~20240501T080000.000Z&units=mi");
}

#[test]
fn a_day_is_read_by_keys_alone() {
    let folder = stored(&morning());
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.goto(&serve.url("#device=van&day=2024-05-01"));
    browser.until_count("#day-rows tr", 5);
    tab_until(&browser, "document.activeElement.closest('#day-rows') !== null");
    browser.key(Key::Enter);
    browser.until_says(".when", "08:00");
    tab_until(&browser, "document.activeElement.id === 'trip-after'");
    browser.key(Key::Enter);
    browser.until_says(".when", "08:41");
    browser.js("document.querySelector('#detail').focus()", &[]);
    browser.key(Key::Escape);
    browser.until("!document.querySelector('#day').hidden");
    // At the row of the trip that was left.
    browser.until("document.activeElement.textContent.startsWith('08:41')");
}

/// Presses Tab until an expression is true.
#[track_caller]
pub(super) fn tab_until(browser: &Browser, expression: &str) {
    for _ in 0..60 {
        if browser.value(expression) == json!(true) {
            return;
        }
        browser.key(Key::Tab);
    }
    panic!("Tab never comes to {expression}");
}

#[test]
fn a_day_follows_the_changes_of_the_store() {
    on_both(&minutes_of("van", "2024-05-01", [480, 490], true), follow_a_day);
}

fn follow_a_day(world: &World) {
    let World { serve, browser, .. } = world;
    let serve: &Serve = serve;
    browser.goto(&serve.url("#device=van"));
    browser.until_count("#day-rows th", 1);
    browser.until_says("#live-text", "Live");
    world.add(&minutes_of("van", "2024-05-01", [600, 610], true));
    browser.until_count("#day-rows th", 2);
    browser.until("document.querySelector('#day-sums dd').textContent === '2'");
}
