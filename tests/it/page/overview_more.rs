//! The first view: search, the map, thousands of devices, none, and what the server refuses.

use std::fmt::Write as _;

use fantoccini::key::Key;
use serde_json::json;
use tstar::internals::model::time::format_time;

use super::browser::Browser;
use super::overview::{HOUR, now_ms, reads, recent, rows, three, until_drawn, until_listed};
use super::serve::Serve;
use super::spans::texts_of;
use super::trip::save;
use super::world::{World, on_both};
use super::{opened, stored};
use crate::cli::{Folder, minutes};

#[test]
fn a_device_is_found_by_its_name_and_shown_on_the_map() {
    let folder = stored(&three());
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 3);
    browser.click("#find-id");
    browser.keys("van");
    browser.until_count("#find-list li", 2);
    let active = "document.querySelector('#find-list [aria-selected=true]').textContent";
    let active_id = "document.querySelector('#find-id').getAttribute('aria-activedescendant')";
    assert_eq!(browser.value(active_id), "find-0");
    browser.key(Key::Down);
    browser.until(&format!("{active}.startsWith('van-10')"));
    assert_eq!(browser.value(active_id), "find-1");
    browser.picture("found");
    // The first Escape closes the list only.
    browser.key(Key::Escape);
    browser.until("document.querySelector('#find-list').hidden");
    browser.keys("-");
    browser.until_count("#find-list li", 2);
    browser.key(Key::Down);
    browser.key(Key::Enter);
    browser.until_says("#device-name", "van-10");
    browser.until_count("rect.bar", 1);
    // What is not the name of a device is looked up as an id.
    let trip = browser.value("document.querySelector('rect.bar').dataset.trip");
    browser.key(Key::Escape);
    browser.until("document.body.dataset.view === 'fleet'");
    browser.paste("#find-id", trip.as_str().unwrap());
    browser.until_count("rect.bar.selected", 1);
    browser.paste("#find-id", "no id at all");
    browser.until_says("#detail", "Not a valid trip id");
}

#[test]
fn a_click_on_the_map_opens_a_device() {
    let folder = stored(&recent("van-1", &[60, 30], true));
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_says("#fleet-facts", "1 device");
    until_drawn(&browser);
    // The only one is in the middle.
    browser.click("#fleet-map");
    browser.until_says("#device-name", "van-1");
    browser.until_count("rect.bar", 1);
}

#[test]
fn devices_at_one_place_are_listed() {
    let depot = ["one", "two", "three"].map(|name| recent(name, &[400, 200, 60], false)).concat();
    let folder = stored(&depot);
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_says("#fleet-facts", "3 devices");
    until_drawn(&browser);
    browser.click("#fleet-map");
    browser.until_count(".at-place li", 3);
    browser.until_says(".at-place", "two");
    browser.until_says(".at-place", "standing");
    browser.picture("depot");
    browser.click(".at-place li:nth-child(2) button");
    browser.until("document.body.dataset.view === 'device'");
}

#[test]
fn a_store_without_devices_says_how_samples_come_in() {
    let folder = Folder::with("none.ndjson", "");
    folder.ingest("none.ndjson --store sqlite:trips.db");
    folder.write("token", "ops:read,write:a-secret-of-some-length-0123456789\n");
    let Some(browser) = Browser::start() else { return };
    let serve = Serve::start(&folder, "--store sqlite:trips.db --token-file token");
    browser.goto(&serve.url(""));
    browser.until("document.querySelector('#login').open");
    browser.paste("#login-token", "a-secret-of-some-length-0123456789");
    browser.until_says("#welcome", "tstar ingest FILE");
    browser.until_says("#welcome", &format!("{}/v1/samples", serve.origin()));
    browser.until_says("#live-text", "Live");
    browser.picture("empty");
    // What it says works: the page sends that very sample.
    let body = "document.querySelectorAll('.command code')[1].textContent.match(/'({.*})'/)[1]";
    let send = format!(
        "fetch('/v1/samples', {{ method: 'POST', body: {body},
            headers: {{ 'Content-Type': 'application/x-ndjson' }} }})"
    );
    browser.js(&send, &[]);
    until_listed(&browser, &["van-1"]);
    until_drawn(&browser);
    assert_eq!(browser.value("document.querySelector('#welcome').hidden"), true);
    // An erased store is as one without devices.
    let before = format_time(now_ms() + 60_000);
    let words = format!("forget --all-before {before} --store sqlite:trips.db --yes");
    folder.run(&words).ends(0);
    browser.until("!document.querySelector('#welcome').hidden");
    assert_eq!(browser.count(".device"), 0);
}

/// Answers the first requests for sums with a problem.
fn refuse(browser: &Browser, times: u32, status: u16, code: &str) {
    let script = format!(
        "const real = window.fetch; window.refused = 0;
         window.fetch = (path, ...rest) => {{
           if (!String(path).startsWith('/v1/summary') || window.refused >= {times})
             return real(path, ...rest);
           window.refused += 1;
           const problem = {{ status: {status}, code: '{code}', detail: 'there are too many' }};
           return Promise.resolve(new Response(JSON.stringify(problem), {{ status: {status} }}));
         }};"
    );
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
}

#[test]
fn the_list_does_without_sums_that_are_refused() {
    let folder = stored(&three());
    let Some(browser) = Browser::start() else { return };
    let serve = Serve::start(&folder, "--store sqlite:trips.db");
    refuse(&browser, 100, 400, "bad_request");
    browser.goto(&serve.url(""));
    browser.until_says("#device-state", "are not known: there are too many");
    assert!(rows(&browser)[2].ends_with("2 d ago|–|–"), "{:?}", rows(&browser));
    assert_eq!(browser.value("document.querySelector('#banner').hidden"), true);
}

#[test]
fn sums_of_a_busy_server_come_later() {
    let folder = stored(&three());
    let Some(browser) = Browser::start() else { return };
    let serve = Serve::start(&folder, "--store sqlite:trips.db");
    refuse(&browser, 1, 503, "busy");
    browser.goto(&serve.url(""));
    browser.until("window.refused === 1");
    assert_eq!(browser.value("document.querySelector('#banner').hidden"), true);
    browser.until("!document.querySelector('#device-list').textContent.includes('–')");
    assert_eq!(browser.text("#device-state"), "");
}

/// Samples of 10,000 devices in 100 towns.
fn many() -> String {
    let mut lines = String::new();
    for nth in 0..10_000_i64 {
        let town = nth % 100;
        let (lat, lon) = (40 + town / 10, town % 10);
        for step in 0..2 {
            let time = format_time(now_ms() - (nth + 60 - step * 30) * 1000);
            let moved = (nth / 100 + step) as f64 * 0.003;
            writeln!(
                lines,
                r#"{{"device_id":"van-{nth}","time":"{time}","lat":{},"lon":{},"speed":9}}"#,
                lat as f64 + moved,
                lon as f64 + moved / 2.0
            )
            .unwrap();
        }
    }
    lines
}

#[test]
fn ten_thousand_devices_are_read_once() {
    let folder = stored(&many());
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_says("#fleet-facts", "10,000 devices");
    browser.until("!document.querySelector('#device-list').textContent.includes('–')");
    until_drawn(&browser);
    let first = "Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime)";
    println!("10,000 devices: first content after {} ms", browser.value(first));
    assert_eq!(browser.text("#device-count"), "10,000");
    assert_eq!(browser.count(".device"), 200, "rows beyond the first ones wait");
    assert_eq!(reads(&browser), [10, 1]);
    browser.click("th[data-sort=last] button");
    browser.until("document.querySelector('.device').textContent === 'van-0'");
    browser.click("#device-search");
    browser.keys("van-9999");
    until_listed(&browser, &["van-9999"]);
    browser.until_says("#fleet-facts", "1 device of 10,000");
    // The sums may come before the last pages. Near midnight, this one drove yesterday.
    browser.key(Key::Backspace);
    browser.until_count(".device", 11);
    if now_ms() % 86_400_000 > 1_200_000 {
        assert!(rows(&browser)[0].ends_with("|1"), "{:?}", rows(&browser)[0]);
    }
    assert_eq!(reads(&browser), [0, 0]);
    browser.key(Key::Escape);
    browser.until_count(".device", 200);
    browser.picture("ten-thousand");
    // How long frames take depends on the machine; that devices are drawn together does not.
    let drawn = "const { clustersAt } = await import('/assets/fleet-layer.js');
        const entries = Array.from({ length: 10_000 }, (_, at) => ({ x: at % 100 / 1e4 + 0.5,
          y: Math.floor(at / 100) / 1e4 + 0.3 }));
        const clusters = clustersAt(entries, 6, () => 'moving');
        const sum = clusters.reduce((all, { entries }) => all + entries.length, 0);
        return [clusters.length < 100, sum, clustersAt(entries, 18, () => 'moving').length];";
    let wrapped = format!(
        "window.result = undefined; (async () => {{ {drawn} }})().then((it) => (result = it))"
    );
    browser.js(&wrapped, &[]);
    browser.until("window.result !== undefined");
    assert_eq!(browser.value("window.result"), json!([true, 10_000, 10_000]));
}

#[test]
fn a_trip_of_five_years_ago_has_its_day() {
    let old = minutes("old", &[0, 2]);
    let folder = stored(&old.replace("2024-", "2020-"));
    let Some((_serve, browser)) = opened(&folder) else { return };
    until_listed(&browser, &["old"]);
    browser.until_says("#device-list", "2020-05-01");
    browser.until_says("[data-state=silent]", "Silent 1");
    until_drawn(&browser);
    browser.click(".device");
    browser.until_count("rect.bar", 1);
}

#[test]
fn a_phone_shows_the_map_above_the_list() {
    let folder = stored(&three());
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.phone(390, 844);
    browser.until_count(".device", 3);
    until_drawn(&browser);
    browser.until("document.documentElement.scrollWidth <= 390 && innerWidth === 390");
    let order = "document.querySelector('#fleet').getBoundingClientRect().bottom <=
        document.querySelector('#device-search').getBoundingClientRect().top";
    assert_eq!(browser.value(order), true);
    browser.picture("phone-fleet");
    browser.click("#device-list tr:nth-child(2) td.last");
    browser.until_says("#device-name", "van-2");
}

#[test]
fn the_kilometres_of_another_day_are_shown_and_downloaded() {
    let folder = stored(&three());
    let Some((serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 3);
    browser.until_says("#fleet-total", "today");
    let day = &format_time(now_ms() - 50 * HOUR * 1000)[..10];
    browser.goto(&serve.url(&format!("#day={day}")));
    browser.until("document.querySelector('#fleet-total').textContent.endsWith('in 1 trip')");
    assert_eq!(browser.value("document.querySelector('#fleet-date').value"), day);
    browser.click("#list-trips");
    browser.until_says("#fleet-trips-state", "1 trip of 1 device");
    let csv = texts_of(&browser, "#fleet-trips-links a[href*='.csv']");
    assert_eq!(csv[0].trim().lines().count(), 2, "a header and a trip");
    browser.picture("another-day");
    browser.click("#list-devices");
    // Back to today, which the URL does not name.
    while browser.value("location.hash.includes('day=')") == true {
        browser.click("#fleet-after");
        browser.until("document.querySelector('#fleet-total').textContent !== ''");
    }
    browser.until_says("#fleet-total", "today");
}

#[test]
fn a_device_is_called_and_found_by_its_name_and_group() {
    on_both(&three(), name_devices);
}

fn name_devices(world: &World) {
    let World { serve, browser, .. } = world;
    browser.goto(&serve.url("#device=van-10"));
    browser.until_says("#device-name", "van-10");
    browser.click("#device-tags summary");
    for (key, value) in [("name", "<i>Blue</i> van"), ("group", "north")] {
        browser.click("#device-tags .tag-add .button");
        save(browser, key, value);
        browser.until_says("#device-tags .tags", value);
    }
    browser.until_says("#device-name", "<i>Blue</i> van");
    browser.picture("named");
    browser.key(Key::Escape);
    browser.until("document.body.dataset.view === 'fleet'");
    browser.until_says("#device-list", "<i>Blue</i> van");
    assert_eq!(browser.count(".device i"), 0, "a name is text");
    let search = "const input = document.querySelector('#device-search');
        input.value = arguments[0];
        input.dispatchEvent(new InputEvent('input', { bubbles: true }));";
    for typed in ["north", "blue", "van-10"] {
        browser.js(search, &[json!(typed)]);
        browser.until_count(".device", 1);
        browser.until_says(".device", "van-10");
    }
    browser.paste("#find-id", "<i>b");
    browser.until_says("#device-name", "<i>Blue</i> van");
}
