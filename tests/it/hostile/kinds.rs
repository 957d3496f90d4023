//! One bad record of each kind between good ones, each in an import of its own.

use chrono::{DateTime, TimeDelta};
use serde_json::json;

use super::judge::AS_JUDGED;
use super::{letters, summary};
use crate::cli::{Folder, minutes, number};

const GOOD: &str = r#""device_id":"a","time":"2024-05-01T08:01:00Z","lat":52.5,"lon":13.5"#;

/// A record like the good ones with one member replaced.
fn with_member(name: &str, value: &str) -> Vec<u8> {
    let member = |known: &str, good: &str| {
        format!("\"{known}\":{}", if known == name { value } else { good })
    };
    let members = [
        member("device_id", "\"a\""),
        member("time", "\"2024-05-01T08:01:00Z\""),
        member("lat", "52.5"),
        member("lon", "13.5"),
    ];
    format!("{{{}}}", members.join(",")).into_bytes()
}

fn with_extra(member: &str) -> Vec<u8> {
    format!("{{{GOOD},{member}}}").into_bytes()
}

fn nested(depth: usize) -> Vec<u8> {
    with_extra(&format!("\"x\":{}{}", "[".repeat(depth), "]".repeat(depth)))
}

/// A record, and the reason why it is bad.
type Case = (Vec<u8>, &'static str);

fn lines() -> Vec<Case> {
    let text = |text: &str| text.as_bytes().to_vec();
    let id = |length: usize| format!("\"{}\"", "x".repeat(length));
    vec![
        (b"{\"device_id\":\"\xff\",\"time\":1,\"lat\":1,\"lon\":2}".to_vec(), "bad_utf8"),
        (b"\xed\xa0\x80".to_vec(), "bad_utf8"),
        (vec![0; 100], "bad_json"),
        (text(&format!("{{{GOOD}")), "bad_json"),
        (text(r#"{"device_id":"a","time":"2024-05-0"#), "bad_json"),
        (text("{\"device_id\""), "bad_json"),
        (text(&format!("{{{GOOD}}}{{{GOOD}}}")), "bad_json"),
        (text("[1"), "bad_json"),
        (text("null"), "bad_json"),
        (text("\"{}\""), "bad_json"),
        (text("device_id,time,lat,lon"), "bad_json"),
        (with_member("lat", "NaN"), "bad_json"),
        (with_member("lon", "-Infinity"), "bad_json"),
        (with_member("lat", "052.5"), "bad_json"),
        (nested(100_000), "bad_json"),
        ("{\"x\":".repeat(100_000).into_bytes(), "bad_json"),
        (text("{}"), "missing_field"),
        (with_member("device_id", "null"), "missing_field"),
        (with_member("time", "null"), "missing_field"),
        (with_member("device_id", "true"), "bad_type"),
        (with_member("device_id", "1e3"), "bad_type"),
        (with_member("lat", "\"52.5 N\""), "bad_type"),
        (with_member("lat", "[52.5]"), "bad_type"),
        (with_member("lon", "{\"deg\":13}"), "bad_type"),
        (with_member("time", "{}"), "bad_type"),
        (with_extra("\"heading\":\"north\""), "bad_type"),
        (with_member("lat", "91"), "out_of_range"),
        (with_member("lat", "-90.0000001"), "out_of_range"),
        (with_member("lon", "180.5"), "out_of_range"),
        (with_member("lat", "1e999"), "out_of_range"),
        (with_extra("\"speed\":-2"), "out_of_range"),
        (with_extra("\"altitude\":1e7"), "out_of_range"),
        (with_member("time", "\"soon\""), "bad_time"),
        (with_member("time", "\"2024-02-30T00:00:00Z\""), "bad_time"),
        (with_member("time", "\"1714550460000.\""), "bad_time"),
        (with_member("time", "9223372036854775808"), "bad_time"),
        (with_member("time", "\"1980-01-06T00:00:00Z\""), "time_before_min"),
        (with_member("time", "\"1999-12-31T23:59:59.999Z\""), "time_before_min"),
        (with_member("time", "0"), "time_before_min"),
        (with_member("time", "-9223372036854775808"), "out_of_range"),
        (with_member("time", "\"2999-01-01T00:00:00Z\""), "time_in_future"),
        (with_member("time", "9223372036854775807"), "out_of_range"),
        (with_member("device_id", "\"\""), "bad_device_id"),
        (with_member("device_id", &id(257)), "bad_device_id"),
        (with_member("device_id", &format!("\"{}\"", "é".repeat(129))), "bad_device_id"),
        (with_member("device_id", "\"a\\u0000b\""), "bad_device_id"),
        (with_extra("\"lat\":52.5"), "ambiguous_field"),
        (with_extra("\"lat\":null"), "ambiguous_field"),
        (text(r#"{"deviceId":"a","device":"a","time":1,"lat":1,"lon":2}"#), "ambiguous_field"),
        (with_member("device_id", &id(1 << 20)), "oversize"),
    ]
}

fn rows() -> Vec<Case> {
    let row = |row: &str| row.as_bytes().to_vec();
    let id = |length: usize| format!("{},2024-05-01T08:01:00Z,1,2", "x".repeat(length));
    vec![
        (b"\xff,2024-05-01T08:01:00Z,1,2".to_vec(), "bad_utf8"),
        (row("a,2024-05-01T08:01:00Z,1"), "bad_csv"),
        (row("a,2024-05-01T08:01:00Z,1,2,3"), "bad_csv"),
        (row("\"a\"b,2024-05-01T08:01:00Z,1,2"), "bad_csv"),
        (row("a,2024-05-01T08:01:00Z,1,\"2"), "bad_csv"),
        (row(&minutes("a", &[1])[..40]), "bad_csv"),
        (row(",2024-05-01T08:01:00Z,1,2"), "missing_field"),
        (row("a,,1,2"), "missing_field"),
        (row("a,2024-05-01T08:01:00Z,north,2"), "bad_type"),
        (row("a,2024-05-01T08:01:00Z,1;5,2"), "bad_type"),
        (row("a,2024-05-01T08:01:00Z,91,2"), "out_of_range"),
        (row("a,2024-05-01T08:01:00Z,NaN,2"), "out_of_range"),
        (row("a,2024-05-01T08:01:00Z,1,1e999"), "out_of_range"),
        (row("a,1714550460000.,1,2"), "bad_time"),
        (row("a,1980-01-06T00:00:00Z,1,2"), "time_before_min"),
        (row("a,2999-01-01T00:00:00Z,1,2"), "time_in_future"),
        (row(&id(257)), "bad_device_id"),
        (row("a\0b,2024-05-01T08:01:00Z,1,2"), "bad_device_id"),
        (row(&id(1 << 20)), "oversize"),
    ]
}

/// Imports `bad` as line `nth` of a file whose other samples are good.
fn alone(folder: &Folder, name: &str, [before, after]: [&str; 2], (bad, reason): &Case) -> String {
    let nth = before.lines().count() as u64 + 1;
    folder.write(name, [before.as_bytes(), bad, b"\n", after.as_bytes()].concat());
    let shown = String::from_utf8_lossy(&bad[..bad.len().min(60)]).into_owned();
    let store = format!("{name}.db");
    let ran = folder
        .run(&format!("ingest {name} --json --store sqlite:{store} --encoding utf-8 {AS_JUDGED}"));
    let summary = summary(ran, 0);
    assert_eq!(summary["dead_letters"], json!({ *reason: 1 }), "{shown}");
    assert_eq!(summary["applied"], 4, "{shown}");
    let letters = letters(folder, &store);
    let [letter] = &letters[..] else { panic!("{} letters of {shown}", letters.len()) };
    assert_eq!((letter.reason.as_str(), letter.line), (*reason, nth), "{shown}");
    assert!(!letter.message.is_empty() && letter.message.len() < 1000, "{shown}");
    let cut = *reason == "oversize";
    assert_eq!(letter.value_bytes, bad.len() as u64, "{shown}");
    assert_eq!(letter.sha256.is_some(), cut, "{shown}");
    let (kept, whole) = (letter.bytes(), if cut { &bad[..1024] } else { &bad[..] });
    assert!(kept == whole, "not the bytes of {shown}");
    folder.text(&format!("export --path --store sqlite:{store}"))
}

#[test]
fn a_bad_line_costs_itself_alone() {
    let folder = Folder::with("good", minutes("a", &[0, 2, 4, 9]));
    folder.ingest("good --store sqlite:good.db");
    let expected = folder.text("export --path --store sqlite:good.db");
    let (before, after) = (minutes("a", &[0, 2]), minutes("a", &[4, 9]));
    for (case, nth) in lines().iter().zip(0..) {
        let found = alone(&folder, &format!("{nth}"), [&before, &after], case);
        // A dead letter takes an offset of the log, so versions differ, and nothing else does.
        assert_eq!(without_version(&found), without_version(&expected), "case {nth}: {}", case.1);
    }
}

#[test]
fn a_bad_row_costs_itself_alone() {
    let row = |minute: u32| format!("a,2024-05-01T08:{minute:02}:00Z,52.{minute:02},13.5\n");
    let before = format!("device_id,time,lat,lon\n{}{}", row(0), row(2));
    let after = row(4) + &row(9);
    let folder = Folder::with("good", format!("{before}{after}"));
    folder.ingest("good --store sqlite:good.db");
    let expected = folder.text("export --path --store sqlite:good.db");
    for (case, nth) in rows().iter().zip(0..) {
        let found = alone(&folder, &format!("{nth}"), [&before, &after], case);
        assert_eq!(without_version(&found), without_version(&expected), "case {nth}: {}", case.1);
    }
}

fn without_version(export: &str) -> Vec<serde_json::Value> {
    let mut trips: Vec<serde_json::Value> =
        export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for trip in &mut trips {
        assert!(trip.as_object_mut().unwrap().remove("version").is_some());
    }
    trips
}

#[test]
fn all_kinds_in_one_file_are_distinguished() {
    let folder = Folder::new();
    let good = minutes("a", &[0]);
    let cases = lines();
    let mut log = good.clone().into_bytes();
    for (bad, _) in &cases {
        log.extend_from_slice(bad);
        log.extend_from_slice(format!("\n{good}").as_bytes());
    }
    folder.write("log", log);
    let summary = summary(folder.run(&format!("ingest log --json --strict {AS_JUDGED}")), 65);
    assert_eq!(number(&summary["applied"]), 1);
    assert_eq!(number(&summary["duplicates"]), cases.len() as u64);
    let letters = letters(&folder, "trips.db");
    let found: Vec<_> = letters.iter().map(|letter| letter.reason.as_str()).collect();
    assert_eq!(found, cases.iter().map(|case| case.1).collect::<Vec<_>>());
    assert_eq!(json!(super::by_reason(&letters)), summary["dead_letters"]);
}

/// A receiver whose 10-bit week counter rolled over reports a time 1024 weeks too early.
#[test]
fn a_week_number_that_rolled_over_is_before_min_time_or_can_be_made_to_be() {
    let rolled = |text: &str| {
        let time = DateTime::parse_from_rfc3339(text).unwrap() - TimeDelta::weeks(1024);
        time.to_rfc3339()
    };
    for (actual, rolled_over, caught) in [
        ("2026-11-20T21:38:00+00:00", "2007-04-06T21:38:00+00:00", false),
        ("2019-08-17T00:00:00+00:00", "2000-01-01T00:00:00+00:00", false),
        ("2019-08-16T23:59:59+00:00", "1999-12-31T23:59:59+00:00", true),
        ("2019-04-07T00:00:00+00:00", "1999-08-22T00:00:00+00:00", true),
    ] {
        assert_eq!(rolled(actual), rolled_over);
        let sample = with_member("time", &format!("\"{rolled_over}\""));
        let folder = Folder::with("log", [sample.as_slice(), b"\n"].concat());
        let dead = |ran, code| summary(ran, code)["dead_letters"].clone();
        let before_min = json!({ "time_before_min": 1 });
        // A result after 2000 looks like any other time of 2007: only the user can know.
        let expected = if caught { before_min.clone() } else { json!({}) };
        let code = if caught { 65 } else { 0 };
        assert_eq!(dead(folder.run("ingest log --json"), code), expected, "{rolled_over}");
        let words =
            "ingest log --json --min-time 2010-01-01T00:00:00Z --store sqlite:since-2010.db";
        assert_eq!(dead(folder.run(words), 65), before_min, "{rolled_over}");
    }
}
