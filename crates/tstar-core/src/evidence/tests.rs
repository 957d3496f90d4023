//! Evidence holds, and whatever is changed about it shows.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fleet::{Fleet, Record};
use crate::model::sample::{RawSample, Sample};
use crate::model::scalar::{DeviceTime, LogTime};

/// 2026-11-20T20:00:00Z.
const EVENING: DeviceTime = DeviceTime(1_795_204_800_000);

fn raw(minute: i64) -> RawSample {
    let (time_ms, speed_mps) = (EVENING + minute * 60_000, Some(9.0));
    RawSample { time_ms, lat: 52.5, lon: 13.4, speed_mps, ..RawSample::default() }
}

/// The evidence of the last segment of samples, one for each record.
fn evidence(rules: &Rules, samples: &[(RawSample, Option<&str>)]) -> Evidence {
    let (mut fleet, mut records) = (Fleet::new(rules), Vec::new());
    for ((sample, driver), version) in samples.iter().zip((0..).step_by(2)) {
        fleet.absorb(&Record { driver: *driver, ..Record::new("truck-17", *sample) });
        let sample = Sample::quantised(sample).unwrap();
        let sample = Sample { version: Version(version), ..sample };
        records.push(EvidenceRecord::of_sample(&sample, *driver, Some(LogTime::MAX)));
    }
    let (device_id, trip) = fleet.segments().last().unwrap();
    let row = fleet.row(device_id, trip);
    records.retain(|record| record.version <= row.version);
    Evidence::new(rules, &row, records)
}

/// Arrivals at minutes 10 12 0 2 6, the ignition off at 4, and minute 2 again.
fn worked() -> Evidence {
    let samples = [10, 12, 0, 2, 6, 2].map(|minute| (raw(minute), Some("ann")));
    evidence(&Rules::default(), &samples)
}

fn differences(evidence: &Evidence) -> Vec<String> {
    evidence.verify().unwrap().differences.into_iter().map(|it| it.fact).collect()
}

#[test]
fn a_trip_follows_from_its_records() {
    let evidence = worked();
    let verified = evidence.verify().unwrap();
    assert_eq!((verified.follows(), verified.records, verified.kept), (true, 5, 5));
    assert_eq!(verified.rules_hash, Rules::default().hash());
    assert_eq!(Evidence::from_json(&evidence.to_json()).unwrap(), evidence);
    assert_eq!(evidence.trip.id, "truck-17~20261120T200000.000Z");
}

#[test]
fn whatever_differs_is_named() {
    type Change = fn(&mut Evidence);
    let cases: [(Change, &[&str]); 9] = [
        (|it| it.trip.id = "truck-17~20261120T201000.000Z".into(), &["id"]),
        (|it| it.trip.ids[1].1 = vec![Version(0)], &["ids"]),
        (|it| it.trip.distance_dm += 1, &["distance_dm"]),
        (|it| it.trip.driver = None, &["driver"]),
        (|it| it.trip.kind = "stop".into(), &["kind"]),
        (|it| it.records[1].position_e7 = Some((1, 1)), &["distance_dm", "path_sha256"]),
        (|it| it.records[3].speed_cmps = Some(901), &["path_sha256"]),
        // No trip covers its start.
        (|it| it.trip.start_ms = EVENING - 1, &["id"]),
        (
            |it| it.rules.max_samples = 1,
            &["end_ms", "ids", "moving_ms", "path_sha256", "samples", "version"],
        ),
    ];
    for (change, expected) in cases {
        let mut evidence = worked();
        change(&mut evidence);
        let mut found = differences(&evidence);
        found.sort();
        assert_eq!(found, expected);
    }
    let mut evidence = worked();
    // The one that joined the trips.
    evidence.records.remove(4);
    assert!(differences(&evidence).contains(&"ids".to_owned()));
    evidence.records.clear();
    assert_eq!(differences(&evidence), ["id"]);
}

#[test]
fn what_was_erased_does_not_count() {
    let mut evidence = worked();
    let mut later = evidence.records.clone();
    let shift = 100 * 60_000;
    evidence.records.iter_mut().for_each(|it| it.time_ms = it.time_ms.map(|at| at - shift));
    evidence.records.push(EvidenceRecord::of_forget(Version(8), EVENING));
    later.iter_mut().for_each(|it| it.version = Version(8));
    evidence.records.append(&mut later);
    // The same trip, at another version.
    assert_eq!(differences(&evidence), ["ids", "path_sha256"]);
}

#[test]
fn contradictions_are_refused_and_named() {
    type Change = fn(&mut Evidence);
    let cases: [(Change, &str); 16] = [
        (|it| it.records.swap(0, 2), "below that of the one before it"),
        (|it| it.records[4].version = Version(9), "is past that of the trip, 8"),
        (|it| it.records[0].version = Version(-2), "below that of the one before it, 0"),
        (|it| it.records[0].time_ms = None, "record 0, from 0: it has no time_ms"),
        (|it| it.records[0].time_ms = Some(DeviceTime::MAX), "years 0000 to 9999"),
        (|it| it.records[1].position_e7 = None, "record 1, from 0: it has no position_e7"),
        (|it| it.records[1].position_e7 = Some((900_000_001, 0)), "its latitude, 900000001"),
        (|it| it.records[1].heading_ddeg = Some(3600), "its heading_ddeg, 3600, is outside"),
        (|it| it.records[1].speed_cmps = Some(i32::MIN), "its speed_cmps"),
        (|it| it.records[1].driver = Some(String::new()), "its driver"),
        (|it| it.records[1].forget_before_ms = Some(EVENING), "a sample and an erasure"),
        (|it| it.rules.max_gap_ms = i64::MAX, "max_gap_ms is 9223372036854775807; it must be 1 to"),
        (|it| it.rules.quantisation = "m".into(), "its rule quantisation is `m`; this version has"),
        (|it| it.rules.blob = 99, "its rule blob is 99; it must be 1 to 1"),
        (|it| it.rules.min_stop_ms = Some(i64::MIN), "min_stop_ms is -9223372036854775808"),
        (|it| it.trip.device_id = "a\0".into(), "its device: "),
    ];
    for (change, expected) in cases {
        let mut evidence = worked();
        change(&mut evidence);
        let error = evidence.verify().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut evidence = worked();
    evidence.records = vec![EvidenceRecord::default(); MAX_RECORDS + 1];
    assert!(matches!(evidence.verify(), Err(EvidenceError::TooMany)));
}

/// A document of a few megabytes may have as many records.
#[test]
fn of_too_many_records_only_those_are_kept_that_show_it() {
    let json = worked().to_json();
    let (head, _) = json.split_once("[\n{\"version\"").unwrap_or_else(|| panic!("{json}"));
    let many = format!("{head}[{}{{}}]}}", "{},".repeat(MAX_RECORDS + 10));
    let evidence = Evidence::from_json(&many).unwrap();
    assert_eq!(evidence.records.len(), MAX_RECORDS + 1);
    assert!(matches!(evidence.verify(), Err(EvidenceError::TooMany)));
}

#[test]
fn other_documents_are_refused() {
    let good: Value = serde_json::from_str(&worked().to_json()).unwrap();
    let cases: [(&str, Value, &str); 4] = [
        ("/format", json!("tstar-trip/2"), "tstar-trip/2"),
        ("/records/0/lat", json!(3), "unknown field `lat`"),
        ("/trip/samples", json!(-1), "invalid value"),
        ("/rules/max_gap_ms", json!(1.5), "invalid type"),
    ];
    for (at, value, expected) in cases {
        let mut document = good.clone();
        let (parent, name) = at.rsplit_once('/').unwrap();
        let parent =
            if parent.is_empty() { &mut document } else { document.pointer_mut(parent).unwrap() };
        parent[name] = value;
        let error = Evidence::from_json(&document.to_string()).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error} {source}").contains(expected), "{error} {source}");
    }
    for text in ["", "{}", "[]", "null", "{\"format\":\"tstar-trip/1\"}", "\u{feff}{}"] {
        assert!(Evidence::from_json(text).is_err(), "{text}");
    }
}

fn record() -> impl Strategy<Value = (RawSample, Option<&'static str>)> {
    let moves = prop_oneof![3 => Just(Some(9.0)), 2 => Just(Some(0.0)), 1 => Just(None)];
    let driver = prop_oneof![Just(None), Just(Some("ann")), Just(Some("bob"))];
    let ignition = prop_oneof![4 => Just(None), 1 => Just(Some(false))];
    // Around a midnight, four hours later.
    (180..300_i64, moves, ignition, driver).prop_map(|(minute, speed_mps, ignition, driver)| {
        (RawSample { speed_mps, ignition, ..raw(minute) }, driver)
    })
}

proptest! {
    /// It is never taken for another trip, and whatever is in it, nothing panics.
    #[test]
    fn a_change_shows_unless_nothing_changed(
        samples in prop::collection::vec(record(), 1..60),
        nth: prop::sample::Index,
        minute in -10_000..10_000_i64,
        version in -3..200_i64,
    ) {
        let evidence = evidence(&Rules::default(), &samples);
        prop_assert!(evidence.verify().unwrap().follows());
        let mut other = evidence.clone();
        let record = nth.get(&evidence.records);
        let at = nth.index(other.records.len());
        other.records[at].time_ms = Some(EVENING + minute * 60_000);
        other.records[at].version = Version(version);
        let is_kept = |it: &Evidence| it.verify().is_ok_and(|verified| verified.follows());
        let span_ms = evidence.trip.start_ms..=evidence.trip.end_ms;
        let covers = span_ms.contains(&record.time_ms.unwrap());
        let is_duplicate = evidence.records[..at].iter().any(|it| it.time_ms == record.time_ms);
        if covers && !is_duplicate && other.records[at] != *record {
            prop_assert!(!is_kept(&other));
        }
    }
}
