//! The day under other rules, computed by the page: it is what a store with these rules has.

use serde_json::json;

use super::browser::Browser;
use super::days::minutes_of;
use super::serve::Serve;
use super::{opened, stored};
use crate::cli::Folder;

/// Two days of `van` without drivers: a night drive, a stop with the ignition off, standing at a
/// light for six minutes, and a silence of four hours.
fn two_days() -> String {
    let part =
        |date, span, moves| minutes_of("van", date, span, moves).replace(r#","driver":"Ana""#, "");
    let light = |from| {
        let standing = part("2024-05-02", [from, from + 6], false);
        standing.replace(r#""ignition":false"#, r#""ignition":true"#)
    };
    part("2024-05-01", [1400, 1439], true)
        + &part("2024-05-02", [0, 30], true)
        + &part("2024-05-02", [480, 500], true)
        + &part("2024-05-02", [501, 520], false)
        + &part("2024-05-02", [521, 540], true)
        + &light(541)
        + &part("2024-05-02", [548, 560], true)
        + &part("2024-05-02", [800, 810], true)
}

/// The rows and sums that the day shows.
fn day(browser: &Browser) -> serde_json::Value {
    browser.value(
        "[[...document.querySelectorAll('#day-rows tr')].map((row) => row.innerText),
          document.querySelector('#day-sums .numbers')?.innerText]",
    )
}

/// Opens the second day, and waits for its sums.
fn open_day(browser: &Browser, serve: &Serve) {
    browser.goto("about:blank");
    browser.goto(&serve.url("#device=van&day=2024-05-02"));
    browser.until_count("#day-sums .numbers", 1);
}

/// Writes a value into a field of the panel.
fn write(browser: &Browser, rule: &str, value: &str) {
    let script = "const input = document.querySelector(arguments[0]);
        input.value = arguments[1];
        input.dispatchEvent(new Event('input'));";
    browser.js(script, &[json!(format!("#if-{rule}")), json!(value)]);
}

/// Number of requests to the API that the page has sent.
fn calls(browser: &Browser) -> u64 {
    let calls = "performance.getEntriesByType('resource')
        .filter(({ name }) => new URL(name).pathname.startsWith('/v1/') &&
            !name.includes('/v1/changes')).length";
    browser.value(calls).as_u64().unwrap()
}

/// Rules as typed into the panel, the same as flags, and what the panel says of them.
type Case = ([(&'static str, &'static str); 2], &'static str, &'static str);

/// Compares the second day of the page with stores that have the rules of each case.
fn compare(browser: &Browser, serve: &Serve, cases: &[Case]) {
    for (rules, flags, says) in cases {
        let other = Folder::with("samples.ndjson", two_days());
        other.ingest(&format!("samples.ndjson --store sqlite:trips.db {flags}"));
        let other_serve = Serve::start(&other, "--store sqlite:trips.db");
        open_day(browser, serve);
        browser.click("#what-if");
        browser.until_says(".what-if-says", "Computed here");
        let sent = calls(browser);
        for (rule, value) in rules {
            write(browser, rule, value);
        }
        browser.until_says(".what-if-says", says);
        assert_eq!(calls(browser), sent, "other rules need no request");
        let found = day(browser);
        browser.picture("what-if");
        open_day(browser, &other_serve);
        assert_eq!(found, day(browser), "{flags}");
    }
}

#[test]
fn a_day_under_other_rules_is_what_a_store_with_them_has() {
    let folder = stored(&two_days());
    let Some((serve, browser)) = opened(&folder) else { return };
    open_day(&browser, &serve);
    let before = day(&browser);
    let loaded = "performance.getEntriesByType('resource')
        .some(({ name }) => /what-if|wasm/.test(name))";
    assert_eq!(browser.value(loaded), json!(false), "it is loaded when it is opened");

    browser.click("#what-if");
    browser.until_says(".what-if-says", "4 trips");
    assert!(!browser.text(".what-if-says").contains("other trips"), "as it is stored");
    assert_eq!(day(&browser), before, "under the rules of the store");
    browser.until_count(".lane.what-if", 1);
    assert!(browser.text("#day-name").contains("not what is stored"));
    browser.click(".what-if-tools .button:last-child");
    browser.until_count(".lane.what-if", 0);
    browser.until_count("#day-sums .numbers", 1);
    assert_eq!(day(&browser), before, "what is stored is shown again");
    assert!(!browser.text("#day-name").contains("not what is stored"));

    let jam = "--min-stop off --max-gap 30m";
    let cases = [
        ([("max_gap_ms", "240"), ("min_stop_ms", "5")], "--max-gap 4h", "3 trips instead of 4"),
        ([("max_gap_ms", "5"), ("min_stop_ms", "10")], "--min-stop 10m", "3 trips instead of 4"),
        ([("max_gap_ms", "30"), ("min_stop_ms", "")], jam, "3 trips instead of 4"),
    ];
    compare(&browser, &serve, &cases);
}

#[test]
fn a_day_of_another_zone_is_as_exact() {
    let folder = stored(&two_days());
    let Some((serve, browser)) = opened(&folder) else { return };
    // The night drive begins after its midnight, and before that of UTC.
    let zone = json!({ "timezoneId": "Europe/Berlin" });
    browser.devtools("Emulation.setTimezoneOverride", &zone);
    let rules = [("max_gap_ms", "240"), ("min_stop_ms", "10")];
    compare(&browser, &serve, &[(rules, "--max-gap 4h --min-stop 10m", "3 trips instead of 5")]);
    browser.devtools("Emulation.setTimezoneOverride", &json!({ "timezoneId": "" }));
}

#[test]
fn the_page_itself_runs_no_webassembly() {
    let folder = stored(&two_days());
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.js(
        "const empty = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);
         WebAssembly.compile(empty).then(() => (window.ran = 'yes'), () => (window.ran = 'no'));",
        &[],
    );
    browser.until("window.ran !== undefined");
    assert_eq!(browser.value("window.ran"), json!("no"), "only the worker may");
}

#[test]
fn of_a_span_of_days_a_single_one_has_to_be_chosen() {
    let folder = stored(&two_days());
    let Some((serve, browser)) = opened(&folder) else { return };
    open_day(&browser, &serve);
    browser.click("#what-if");
    browser.until_count(".lane.what-if", 1);
    write(&browser, "max_gap_ms", "240");
    browser.until_says(".what-if-says", "3 trips instead of 4");

    browser.click("#day-range");
    browser.until_says(".what-if-says", "Only a single day");
    browser.until_count("#day-rows .date", 2);
    assert_eq!(browser.count(".lane.what-if"), 0, "what is stored is shown");
    assert!(!browser.text("#day-name").contains("not what is stored"));
    browser.click("#day-range");
    browser.until_says(".what-if-says", "3 trips instead of 4");
    browser.until_count(".lane.what-if", 1);
}
