mod maps;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::{SegmentRules, Timeline};
use crate::timeline::{LegFilter, RawSample, Sample};
use crate::views::{Match, TRIP_FIELDS, TagValues, is_open};

/// 2026-11-20T21:38:00.123Z
const T: DeviceTime = DeviceTime(1_795_210_680_123);

fn row(device: &str, driver: Option<&str>, samples: &[RawSample]) -> TripRow {
    let mut timeline = Timeline::in_memory();
    for (raw, version) in samples.iter().zip((0..).step_by(2)) {
        let sample = Sample::quantised(raw).unwrap();
        timeline.absorb(
            &SegmentRules::default(),
            Sample { version: Version(version), ..sample },
            driver,
        );
    }
    let mut trips = timeline.segments();
    let row = TripRow::from_segment(device, trips.next().unwrap(), LegFilter::default());
    assert!(trips.next().is_none(), "one trip");
    row
}

/// A trip of three samples; the last to arrive merged two trips.
fn merged() -> TripRow {
    let at = |after_ms: i64, lat: f64, lon: f64| RawSample {
        time_ms: T + after_ms,
        lat,
        lon,
        speed_mps: Some(10.5),
        ..RawSample::default()
    };
    let heading_deg = Some(90.5);
    row(
        "truck-17",
        Some("Ann <\"A\" & B>"),
        &[
            at(0, 52.5, 13.25),
            RawSample { speed_mps: None, altitude_m: Some(34.5), ..at(400_000, 52.5, 13.5) },
            RawSample { heading_deg, ..at(200_000, 52.5, 13.375) },
        ],
    )
}

/// A trip whose fixes are `step_ms` apart, under a limit of 50 m/s for each leg.
fn limited(step_ms: usize, latitudes: &[f64]) -> TripRow {
    let mut timeline = Timeline::in_memory();
    for (ms, &lat) in (0..).step_by(step_ms).zip(latitudes) {
        let raw = RawSample { time_ms: T + ms, lat, lon: 13.25, ..RawSample::default() };
        let sample = Sample::quantised(&raw).unwrap();
        timeline.absorb(&SegmentRules::default(), Sample { version: Version(0), ..sample }, None);
    }
    let legs = LegFilter { max_speed_cmps: Some(5000), ..LegFilter::default() };
    TripRow::from_segment("far", timeline.segments().next().unwrap(), legs)
}

/// The middle one of five fixes is far away: two of the four legs are jumps.
fn far_away() -> TripRow {
    limited(60_000, &[52.5, 52.501, 0.0, 52.502, 52.503])
}

fn single(device: &str) -> TripRow {
    row(
        device,
        None,
        &[RawSample { time_ms: T, lat: -0.000_000_1, lon: 7.0, ..RawSample::default() }],
    )
}

fn written(form: Form, with_path: bool, rows: &[TripRow], extras: &Extras) -> String {
    let mut out = Vec::new();
    let detail = Detail { path: with_path, ..Detail::default() };
    let mut writer = TripWriter::new(&mut out, form, detail).unwrap();
    for row in rows {
        writer.write(row, extras).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), rows.len() as u64);
    String::from_utf8(out).unwrap()
}

const MERGED: &str = concat!(
    r#"{"id":"truck-17~20261120T213800.123Z","device_id":"truck-17","kind":"trip","#,
    r#""t_star":"2026-11-20T21:38:00.123Z","start_time":"2026-11-20T21:38:00.123Z","#,
    r#""end_time":"2026-11-20T21:44:40.123Z","duration_s":400.0,"moving_s":400.0,"idle_s":0.0,"#,
    r#""parked_s":0.0,"samples":3,"#,
    r#""distance_m":16922.8,"avg_speed_mps":42.31,"max_speed_mps":10.5,"jumps":null,"#,
    r#""driver":"Ann <\"A\" & B>","start":{"lat":52.5,"lon":13.25},"#,
    r#""end":{"lat":52.5,"lon":13.5},"bbox":[13.25,52.5,13.5,52.5],"#,
    r#""absorbed":["truck-17~20261120T214440.123Z"],"version":4"#,
);

#[test]
fn trip_json_matches_the_contract_exactly() {
    let plain = written(Form::Ndjson, false, &[merged()], &Extras::default());
    assert_eq!(plain, format!("{MERGED}}}\n"));
    let path = concat!(
        r#""path":{"times":["2026-11-20T21:38:00.123Z","2026-11-20T21:41:20.123Z","#,
        r#""2026-11-20T21:44:40.123Z"],"coordinates":[[13.25,52.5],[13.375,52.5],[13.5,52.5]],"#,
        r#""speed_mps":[10.5,10.5,null],"heading_deg":[null,90.5,null],"#,
        r#""ignition":[null,null,null],"jumps":[],"#,
        r#""late":[["2026-11-20T21:41:20.123Z","2026-11-20T21:41:20.123Z"]]}"#,
    );
    let with_path = written(Form::Ndjson, true, &[merged()], &Extras::default());
    assert_eq!(with_path, format!("{MERGED},{path}}}\n"));
}

#[test]
fn absent_values_are_null_and_extras_follow_the_trip() {
    let extras = Extras {
        tags: Some([("note".to_owned(), "a, \"b\"".to_owned())].into()),
        open: Some(false),
        requested_id: Some("x".into()),
        matched: Some(Match::Retired),
        merged: Some(true),
        ..Extras::default()
    };
    let text = written(Form::Ndjson, false, &[single("a~b")], &extras);
    let expected = concat!(
        r#"{"id":"a~7eb~20261120T213800.123Z","device_id":"a~b","kind":"trip","#,
        r#""t_star":"2026-11-20T21:38:00.123Z","start_time":"2026-11-20T21:38:00.123Z","#,
        r#""end_time":"2026-11-20T21:38:00.123Z","duration_s":0.0,"moving_s":null,"idle_s":null,"#,
        r#""parked_s":0.0,"samples":1,"#,
        r#""distance_m":0.0,"avg_speed_mps":null,"max_speed_mps":null,"jumps":null,"driver":null,"#,
        r#""start":{"lat":-1e-7,"lon":7.0},"end":{"lat":-1e-7,"lon":7.0},"#,
        r#""bbox":[7.0,-1e-7,7.0,-1e-7],"absorbed":[],"version":0,"#,
        r#""tags":{"note":"a, \"b\""},"open":false,"requested_id":"x","match":"retired","merged":true}"#,
    );
    assert_eq!(text.trim_end(), expected);
}

#[test]
fn the_fields_of_a_list_are_those_of_a_trip() {
    let row = merged();
    let detail = Detail { path: true, simplify_m: None };
    let trip = TripJson::detailed(&row, detail).unwrap();
    let extras = Extras {
        tags: Some(TagValues::new()),
        open: Some(true),
        fresh: Some(true),
        owner: None,
        ..Extras::default()
    };
    // In the order in which they are written.
    let text = serde_json::to_string(&Answer { trip, extras: &extras }).unwrap();
    let serde_json::Value::Object(fields) = serde_json::from_str(&text).unwrap() else { panic!() };
    let names: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(names, TRIP_FIELDS.iter().copied().collect());
    let places: Vec<_> = TRIP_FIELDS.iter().map(|it| text.find(&format!("\"{it}\":"))).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn jumps_count_neither_for_distance_nor_for_average_speed() {
    let trip = TripJson::from_row(&far_away()).unwrap();
    // Twice 0.001 degrees of latitude, in two of the four minutes.
    assert_eq!((trip.distance_m, trip.avg_speed_mps), (222.4, Some(1.85)));
    assert_eq!((trip.jumps, trip.duration_s), (Some(2), 240.0));
    assert_eq!(trip.bbox, [13.25, 0.0, 13.25, 52.503]);
    let text = written(Form::Csv, false, &[far_away()], &Extras::default());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let at = reader.headers().unwrap().iter().position(|name| name == "jumps").unwrap();
    assert_eq!(&reader.records().next().unwrap().unwrap()[at], "2");
    let text = written(Form::GeoJson, false, &[far_away()], &Extras::default());
    let collection: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(collection["features"][0]["properties"]["jumps"], 2);
}

#[test]
fn a_trip_of_jumps_alone_has_no_average_speed() {
    let trip = TripJson::from_row(&limited(300, &[52.5, 0.0])).unwrap();
    assert_eq!((trip.distance_m, trip.avg_speed_mps, trip.jumps), (0.0, None, Some(1)));
}

#[test]
fn a_match_is_current_retired_or_covers() {
    let row = merged();
    assert_eq!(Match::classify(T, &row), Match::Current);
    assert_eq!(Match::classify(T + 400_000, &row), Match::Retired);
    assert_eq!(Match::classify(T + 1, &row), Match::Covers);
}

#[test]
fn a_trip_is_open_until_max_gap_and_settle_have_passed() {
    let row = single("a");
    assert!(is_open(&row, 300_000, 60_000, T.ms() + 360_000));
    assert!(!is_open(&row, 300_000, 60_000, T.ms() + 360_001));
    assert!(is_open(&row, i64::MAX, i64::MAX, i64::MAX), "no overflow");
}

#[test]
fn an_array_is_valid_json_even_when_empty() {
    let none = Extras::default();
    assert_eq!(written(Form::Json, false, &[], &none), "[]\n");
    assert_eq!(written(Form::Ndjson, false, &[], &none), "");
    let text = written(Form::Json, false, &[merged(), single("b")], &none);
    let values: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(values[1]["device_id"], "b");
}

#[test]
fn csv_has_a_header_and_quotes_where_needed() {
    let none = Extras::default();
    let empty = written(Form::Csv, false, &[], &none);
    let header = "id,device_id,kind,t_star,start_time,end_time,duration_s,moving_s,idle_s,\
                  parked_s,samples,distance_m,avg_speed_mps,max_speed_mps,jumps,driver,\
                  start_lat,start_lon,end_lat,end_lon,bbox_west,bbox_south,bbox_east,\
                  bbox_north,absorbed,version";
    assert_eq!(empty.trim_end(), header);
    let tags = Some([("note".to_owned(), "a, \"b\"".to_owned())].into());
    let open = Extras { tags, open: Some(true), ..Extras::default() };
    let text = written(Form::Csv, true, &[merged(), single("b,\n")], &open);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().clone();
    let rows: Vec<BTreeMap<String, String>> = reader
        .records()
        .map(|row| {
            columns.iter().map(str::to_owned).zip(row.unwrap().iter().map(str::to_owned)).collect()
        })
        .collect();
    assert!(text.contains(r#","Ann <""A"" & B>","#), "{text}");
    assert_eq!(rows[0]["start_lon"], "13.25");
    assert_eq!(rows[0]["bbox_east"], "13.5");
    assert_eq!(rows[0]["absorbed"], "truck-17~20261120T214440.123Z");
    assert_eq!(rows[0]["open"], "true");
    assert_eq!(rows[0]["tags"], r#"{"note":"a, \"b\""}"#);
    assert_eq!(rows[1]["device_id"], "b,\n");
    assert_eq!(
        (rows[1]["avg_speed_mps"].as_str(), rows[1]["start_lat"].as_str()),
        ("", "-0.0000001")
    );
}
