//! Records of other systems: the same samples in every format give the same trips, by its preset.

mod any;
mod encode;
mod property;
mod read;

use serde_json::{Value, json};

use crate::cli::Folder;
use crate::support::data;

/// A file of the reference data, or several with a device each.
pub struct Row {
    pub files: &'static [&'static str],
    pub preset: &'static str,
    /// Ids of the two devices.
    devices: [&'static str; 2],
    has_driver: bool,
    ends: Ends,
    pub skipped: u64,
}

const fn row(files: &'static [&'static str], preset: &'static str) -> Row {
    let devices = ["van-1", "van-2"];
    Row { files, preset, devices, has_driver: false, ends: Ends::Standing, skipped: 0 }
}

/// The formats that are files.
pub const ROWS: [Row; 18] = [
    Row {
        devices: ["134", "135"],
        has_driver: true,
        ends: Ends::Ignition,
        ..row(&["traccar/api-positions.json"], "traccar-api")
    },
    row(&["traccar-client/bodies.ndjson"], "traccar-client"),
    Row { ends: Ends::Silence, ..row(&["owntracks/http-bodies.ndjson"], "owntracks") },
    Row { ends: Ends::Silence, ..row(&["owntracks/recorder.rec"], "owntracks") },
    row(&["overland/batches.ndjson"], "overland"),
    Row { ends: Ends::Ignition, ..row(&["flespi/http-stream.ndjson"], "flespi") },
    row(&["samsara/kafka-asset-location.ndjson"], "samsara"),
    row(&["samsara/vehicles-stats-history.json"], "samsara-history"),
    row(&["gtfs-rt/entities-to-kafka.ndjson"], "gtfs-rt"),
    row(&["gtfs-rt/vehicle-positions-1.pb", "gtfs-rt/vehicle-positions-2.pb"], "gtfs-rt"),
    row(&["mds/telemetry.json"], "mds"),
    Row { skipped: 1, ends: Ends::Ignition, ..row(&["geotab/dig-records.json"], "geotab") },
    row(&["geotab/logrecord-feed.json"], "geotab"),
    row(&["gpslogger/van-1.csv", "gpslogger/van-2.csv"], "gpslogger"),
    row(&["gpslogger/van-1.eu.csv", "gpslogger/van-2.eu.csv"], "gpslogger"),
    row(&["gpslogger/van-1.geojson", "gpslogger/van-2.geojson"], "geojson"),
    row(&["gpx/van-1.gpx", "gpx/van-2.gpx"], "gpx"),
    row(&["kafka-connect/json-with-schema.ndjson"], "kafka-connect"),
];

/// What shows in a format where trips end.
#[derive(Clone, Copy)]
pub enum Ends {
    /// Silence alone: a speed of 0 is left out.
    Silence,
    /// A speed of 0.
    Standing,
    /// The ignition.
    Ignition,
}

/// The trips of the reference samples, without versions, for devices with these ids.
pub fn expected(devices: [&str; 2], has_driver: bool, ends: Ends) -> Vec<Value> {
    let name = match ends {
        Ends::Silence => "trips",
        Ends::Standing => "standing",
        Ends::Ignition => "ignition",
    };
    let file = data(&format!("formats/expected.{name}.ndjson"));
    let text = std::fs::read_to_string(file).unwrap();
    let text = text.replace("\"van-1", &format!("\"{}", devices[0]));
    let text = text.replace("\"van-2", &format!("\"{}", devices[1]));
    let mut trips: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for trip in trips.iter_mut().filter(|_| !has_driver) {
        trip["driver"] = Value::Null;
    }
    comparable(trips)
}

/// Trips by id, without versions, which differ between logs.
pub fn comparable(mut trips: Vec<Value>) -> Vec<Value> {
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips.sort_by_key(|trip| trip["id"].to_string());
    trips
}

/// Whether two values are equal, numbers within a tolerance: coordinates may have 32 bits.
fn is_close(one: &Value, other: &Value, tolerance: f64) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            (one.as_f64().unwrap() - other.as_f64().unwrap()).abs() <= tolerance
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_close(one, other, tolerance))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| {
                    // Some decimetres of distance for each leg.
                    let tolerance = if name == "distance_m" { 1e6 * tolerance } else { tolerance };
                    other.get(name).is_some_and(|other| is_close(value, other, tolerance))
                })
        }
        _ => one == other,
    }
}

pub fn paths(files: &[&str]) -> String {
    let paths = files.iter().map(|file| data("formats").join(file).display().to_string());
    paths.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_file_gives_the_reference_trips() {
    for row in ROWS {
        let Row { files, preset, devices, has_driver, ends, skipped } = row;
        let folder = Folder::new();
        let summary = folder.ingest(&format!("{} --preset {preset}", paths(files)));
        let counts = [&summary["applied"], &summary["duplicates"], &summary["skipped"]];
        assert_eq!(counts, [&json!(14), &json!(1), &json!(skipped)], "{files:?}: {summary}");
        assert_eq!(summary["dead_letters"], json!({}), "{files:?}");
        let trips = comparable(folder.trips("trips.db"));
        let expected = expected(devices, has_driver, ends);
        let tolerance = if files[0].ends_with(".pb") { 4e-6 } else { 0.0 };
        let is_equal = is_close(&json!(trips), &json!(expected), tolerance);
        assert!(is_equal, "{files:?}:\n{trips:#?}\n{expected:#?}");
        folder.run(&format!("verify {}", paths(files))).ends(0);
    }
}

#[test]
fn a_feed_of_json_may_have_a_byte_order_mark() {
    let text = std::fs::read_to_string(data("formats/gtfs-rt/entities-to-kafka.ndjson")).unwrap();
    let utf_16 = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect()
    };
    for (name, content) in [
        ("utf-8", format!("\u{feff}{text}").into_bytes()),
        ("utf-16-le", utf_16(u16::to_le_bytes)),
        ("utf-16-be", utf_16(u16::to_be_bytes)),
    ] {
        let folder = Folder::with("log", content);
        let summary = folder.ingest("log --preset gtfs-rt");
        assert_eq!(summary["applied"], 14, "{name}: {summary}");
        assert_eq!(
            comparable(folder.trips("trips.db")),
            expected(["van-1", "van-2"], false, Ends::Standing)
        );
    }
}

#[test]
fn one_device_of_a_file_has_its_trips() {
    for (file, preset) in [("nmea/van-2.nmea", "nmea"), ("gpx/van-2.gpx", "gpx")] {
        let folder = Folder::new();
        let summary = folder.ingest(&format!("{} --preset {preset}", paths(&[file])));
        assert_eq!(summary["applied"], 5, "{summary}");
        let of_file: Vec<_> = expected(["van-1", "van-2"], false, Ends::Standing)
            .into_iter()
            .filter(|trip| trip["device_id"] == "van-2")
            .collect();
        assert_eq!(comparable(folder.trips("trips.db")), of_file, "{file}");
    }
}

#[test]
fn real_records_are_read() {
    for (file, preset, applied, duplicates, skipped, dropped) in [
        ("gpx/real-with_accuracy.gpx", "gpx", 3, 0, 0, json!({})),
        ("overland/real-from-readme.json", "overland", 1, 0, 0, json!({})),
        ("owntracks/real-from-traccar-tests.ndjson", "owntracks", 5, 1, 0, json!({})),
        ("owntracks/others.ndjson", "owntracks", 0, 0, 5, json!({})),
        ("traccar-client/real-from-traccar-tests.ndjson", "traccar-client", 3, 1, 0, json!({})),
    ] {
        let folder = Folder::new();
        let summary = folder.ingest(&format!("{} --preset {preset}", paths(&[file])));
        assert_eq!(summary["applied"], applied, "{file}: {summary}");
        assert_eq!(summary["duplicates"], duplicates, "{file}: {summary}");
        assert_eq!(summary["skipped"], skipped, "{file}: {summary}");
        assert_eq!(summary["dropped"], dropped, "{file}: {summary}");
        assert_eq!(summary["dead_letters"], json!({}), "{file}");
        let warned = summary["warnings"][0]["warning"] == "all_skipped";
        assert_eq!(warned, applied == 0, "{file}: {summary}");
    }
}

#[test]
fn a_traccar_export_is_read_in_its_zone() {
    let header = "id,deviceId,protocol,serverTime,deviceTime,fixTime,valid,latitude,longitude,\
                  altitude,speed,course,address,accuracy,ignition,sat";
    let row = |time: &str, valid: bool, lat: f64| {
        format!(
            "1,134,h02,2026-03-27 06:05:00,{time},{time},{valid},{lat},13.4,34.0,19.438,45.0,,0.0,\
             true,9"
        )
    };
    let rows = [
        row("2026-03-27 06:04:03", true, 52.52),
        row("2026-03-27 06:05:03", true, 52.53),
        row("2026-03-27 06:06:03", false, 52.54),
    ];
    let folder = Folder::with("positions.csv", format!("{header}\n{}\n", rows.join("\n")));
    let summary = folder.ingest("positions.csv --preset traccar-csv");
    assert_eq!((&summary["applied"], &summary["dropped"]), (&json!(2), &json!({"bad_fix": 1})));
    let trips = folder.trips("trips.db");
    assert_eq!(trips[0]["id"], "134~20260327T060403.000Z");
    assert_eq!(trips[0]["max_speed_mps"], 10.0);
    // A zone that is given wins, and the map replaces single names.
    let flags = "--preset traccar-csv --time-zone Europe/Berlin --map driver=sat";
    folder.ingest(&format!("positions.csv --store sqlite:b.db {flags}"));
    let trips = folder.trips("b.db");
    assert_eq!(trips[0]["id"], "134~20260327T050403.000Z");
    assert_eq!(trips[0]["driver"], "9");
    // The store keeps the preset: the command need not name it again, but may not name another.
    assert_eq!(folder.ingest("positions.csv")["duplicates"], 2);
    let other = folder.run("ingest positions.csv --preset overland");
    other.ends(78).says(&["preset: the store has \"traccar-csv/1\", requested \"overland/1\""]);
}

#[test]
fn presets_are_listed_and_unknown_ones_named() {
    let folder = Folder::new();
    let listed = folder.run("schema presets").ends(0).objects();
    assert!(listed.iter().any(|preset| preset["preset"] == "traccar/1"), "{listed:?}");
    let one = folder.run("schema presets owntracks --json").ends(0).json();
    assert_eq!((&one["time_unit"], &one["speed_unit"]), (&json!("s"), &json!("kmh")));
    folder.run("schema presets owntrack").ends(2).says(&["`owntrack` is not a preset"]);
    let unknown = folder.run("ingest - --preset owntrack").ends(2);
    unknown.says(&["`owntrack` is not one of the presets traccar, ", "did you mean `owntracks`?"]);
}
