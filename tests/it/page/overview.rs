//! The first view: all devices on the map and in the list.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use fantoccini::key::Key;
use serde_json::json;
use tstar::internals::model::time::format_time;

use super::browser::Browser;
use super::serve::Serve;
use super::{World, on_both, opened, stored};

pub(super) const HOUR: i64 = 3600;

/// The time now, ms since 1970.
pub(super) fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Samples of a device that came these seconds ago: it drives, or stands with the ignition off.
pub(super) fn recent(device: &str, ages_s: &[i64], is_driving: bool) -> String {
    let mut lines = String::new();
    for (nth, age) in ages_s.iter().enumerate() {
        let time = format_time(now_ms() - age * 1000);
        let lat = if is_driving { 52.5 + nth as f64 * 0.003 } else { 52.48 };
        let speed = if is_driving { 8 } else { 0 };
        let sample = json!({
            "device_id": device, "time": time, "lat": lat, "lon": 13.4, "speed": speed,
            "ignition": is_driving,
        });
        writeln!(lines, "{sample}").unwrap();
    }
    lines
}

/// Three devices: one of each state.
pub(super) fn three() -> String {
    recent("bus-1", &[120, 80, 40], true)
        + &recent("van-2", &[420, 320, 220, 120, 60], false)
        + &recent("van-10", &[50 * HOUR, 50 * HOUR - 60], true)
}

/// The cells of each row, separated by bars.
pub(super) fn rows(browser: &Browser) -> Vec<String> {
    let rows = "[...document.querySelectorAll('#device-list tr')].map((row) =>
        [...row.children].map((cell) => cell.textContent).join('|'))";
    serde_json::from_value(browser.value(rows)).unwrap()
}

/// The ids in the list.
fn names(browser: &Browser) -> Vec<String> {
    rows(browser).iter().map(|row| row.split('|').next().unwrap().to_owned()).collect()
}

/// Waits until the ids in the list are these.
#[track_caller]
pub(super) fn until_listed(browser: &Browser, names: &[&str]) {
    let listed = "[...document.querySelectorAll('.device')].map((el) => el.textContent).join()";
    browser.until(&format!("{listed} === {}", json!(names.join(","))));
}

/// Waits until the map shows devices.
#[track_caller]
pub(super) fn until_drawn(browser: &Browser) {
    browser.until(
        "(() => {
            const canvas = document.querySelector('.fleet-canvas');
            if (!canvas?.width) return false;
            const context = canvas.getContext('2d');
            const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
            return data.some((value, at) => at % 4 === 3 && value > 0);
        })()",
    );
}

/// Requests for devices and for sums since the last call.
pub(super) fn reads(browser: &Browser) -> [usize; 2] {
    let urls = browser.requests();
    ["/v1/devices?", "/v1/summary?"].map(|path| urls.iter().filter(|it| it.contains(path)).count())
}

#[test]
fn the_first_view_says_where_all_devices_are() {
    on_both(&three(), see_all_devices);
}

fn see_all_devices(world: &World) {
    let World { browser, .. } = world;
    browser.until_says("#fleet-facts", "3 devices");
    until_drawn(browser);
    until_listed(browser, &["bus-1", "van-2", "van-10"]);
    browser.until("!document.querySelector('#device-list').textContent.includes('–')");
    let found = rows(browser);
    assert!(found[0].starts_with("bus-1|Moving|"), "{found:?}");
    assert!(found[1].starts_with("van-2|Standing|"), "{found:?}");
    assert!(found[1].contains(" min ago|"), "{found:?}");
    assert!(found[2].starts_with("van-10|Silent|2 d ago|"), "{found:?}");
    for state in ["Moving", "Standing", "Silent"] {
        let css = format!("[data-state={}]", state.to_lowercase());
        assert_eq!(browser.text(&css), format!("{state} 1"));
    }
    assert_eq!(browser.text("#device-rule"), "Silent: last seen moving, longer ago than 5 min.");
    assert_eq!(browser.value("location.hash"), "");
    browser.picture("fleet");
    browser.scheme("dark");
    browser.picture("fleet-dark");
}

#[test]
fn the_list_sorts_by_each_column() {
    let folder = stored(&three());
    let Some((_serve, browser)) = opened(&folder) else { return };
    until_listed(&browser, &["bus-1", "van-2", "van-10"]);
    let sorted = |column: &str| {
        let script = format!("document.querySelector('th[data-sort={column}]').ariaSort");
        browser.value(&script)
    };
    assert_eq!(sorted("name"), "ascending");
    browser.click("th[data-sort=last] button");
    until_listed(&browser, &["bus-1", "van-2", "van-10"]);
    assert_eq!((sorted("last"), sorted("name")), (json!("descending"), json!(null)));
    assert_eq!(browser.value("location.hash"), "#sort=-last");
    browser.click("th[data-sort=last] button");
    until_listed(&browser, &["van-10", "van-2", "bus-1"]);
    assert_eq!(sorted("last"), "ascending");
    // The keyboard sorts, too.
    browser.js("document.querySelector('th[data-sort=km] button').focus()", &[]);
    browser.key(Key::Enter);
    browser.until("document.querySelector('#device-list .number').textContent !== '0 m'");
    assert_eq!(names(&browser)[0], "bus-1");
    assert_eq!(sorted("km"), "descending");
    browser.click("th[data-sort=trips] button");
    assert_eq!(browser.value("location.hash"), "#sort=-trips");
    browser.click("th[data-sort=name] button");
    until_listed(&browser, &["bus-1", "van-2", "van-10"]);
    assert_eq!(browser.value("location.hash"), "");
}

#[test]
fn a_shared_link_shows_the_same_devices() {
    let folder = stored(&three());
    let Some((serve, browser)) = opened(&folder) else { return };
    until_listed(&browser, &["bus-1", "van-2", "van-10"]);
    browser.click("#device-search");
    browser.keys("van");
    until_listed(&browser, &["van-2", "van-10"]);
    browser.until_says("#fleet-facts", "2 devices of 3");
    browser.click("[data-state=silent]");
    until_listed(&browser, &["van-10"]);
    browser.until_says("#device-state", "1 device found");
    browser.click("th[data-sort=last] button");
    browser.click("#fleet .leaflet-control-zoom-in");
    browser.until("location.hash.includes('map=')");
    let hash = browser.value("location.hash");
    let hash = hash.as_str().unwrap();
    assert!(hash.starts_with("#sort=-last&q=van&state=silent&map=52."), "{hash}");
    browser.goto("about:blank");
    browser.goto(&serve.url(hash));
    until_listed(&browser, &["van-10"]);
    until_drawn(&browser);
    assert_eq!(browser.value("document.querySelector('#device-search').value"), "van");
    let pressed = "document.querySelector('[data-state=silent]').ariaPressed";
    assert_eq!(browser.value(pressed), "true");
    assert_eq!(browser.value("location.hash"), hash, "showing it does not move the map");
    // The whole fleet again.
    browser.click("[data-state=silent]");
    browser.click("#device-search");
    browser.key(Key::Escape);
    browser.until_count(".device", 3);
    browser.click("#fleet-fit");
    assert_eq!(browser.value("location.hash"), "#sort=-last");
}

#[test]
fn a_change_moves_a_device_without_a_request() {
    on_both(&three(), see_a_change);
}

fn see_a_change(world: &World) {
    let World { browser, .. } = world;
    browser.until_says("#live-text", "Live");
    browser.until("!document.querySelector('#device-list').textContent.includes('–')");
    until_drawn(browser);
    browser.until_says("[data-state=silent]", "Silent 1");
    let [devices, sums] = reads(browser);
    assert!(devices >= 1 && sums >= 1, "{devices} reads of devices, {sums} of sums");
    world.add(&(recent("van-10", &[3], true) + &recent("new-3", &[2], true)));
    browser.until_says("[data-state=moving]", "Moving 3");
    browser.until_says("#fleet-facts", "4 devices");
    until_listed(browser, &["bus-1", "new-3", "van-2", "van-10"]);
    assert!(rows(browser)[3].starts_with("van-10|Moving|"), "{:?}", rows(browser));
    // A late sample changes the past: the device stays where it is.
    world.add(&recent("van-10", &[49 * HOUR], true));
    world.add(&recent("late-4", &[49 * HOUR], true));
    browser.until_says("#device-list", "late-4");
    assert!(rows(browser).iter().any(|row| row.starts_with("van-10|Moving|")));
    assert_eq!(reads(browser), [0, 0], "the events have all that is shown");
}

#[test]
fn ages_grow_without_requests() {
    let folder = stored(&three());
    let Some(browser) = Browser::start() else { return };
    let serve = Serve::start(&folder, "--store sqlite:trips.db");
    let ahead = "const now = Date.now; window.ahead = 0; Date.now = () => now() + window.ahead;";
    let script = json!({ "source": ahead });
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &script);
    browser.goto(&serve.url(""));
    browser.until_says("[data-state=moving]", "Moving 1");
    browser.until("!document.querySelector('#device-list').textContent.includes('–')");
    reads(&browser);
    browser.js("window.ahead = 20 * 60_000", &[]);
    browser.until_says("[data-state=silent]", "Silent 2");
    assert_eq!(browser.text("[data-state=standing]"), "Standing 1", "a parked receiver may sleep");
    assert!(rows(&browser)[0].starts_with("bus-1|Silent|20 min ago|"), "{:?}", rows(&browser));
    // Midnight may have come: then the sums are those of another day.
    assert_eq!(reads(&browser)[0], 0);
}

#[test]
fn escape_and_the_name_of_the_page_lead_to_all_devices() {
    on_both(&three(), lead_to_all_devices);
}

fn lead_to_all_devices(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#sort=-last"));
    until_listed(browser, &["bus-1", "van-2", "van-10"]);
    browser.key(Key::Escape);
    assert_eq!(browser.value("document.body.dataset.view"), "fleet");
    browser.js("document.querySelector('.device').focus()", &[]);
    browser.key(Key::Enter);
    browser.until("document.body.dataset.view === 'device'");
    browser.until_says("#device-name", "bus-1");
    browser.until("document.activeElement.classList.contains('track')");
    assert_eq!(browser.count(".fleet-canvas"), 0, "one map at a time");
    browser.key(Key::Escape);
    browser.until("document.body.dataset.view === 'fleet'");
    browser.until("document.activeElement.textContent === 'bus-1'");
    assert_eq!(browser.value("location.hash"), "#sort=-last");
    assert_eq!(browser.value("document.querySelector('#timeline').hidden"), true);
    until_drawn(browser);
    // The history has both.
    browser.js("history.back()", &[]);
    browser.until("document.body.dataset.view === 'device'");
    browser.until_says("#device-name", "bus-1");
    browser.click("#brand");
    browser.until("document.body.dataset.view === 'fleet'");
    until_drawn(browser);
}
