//! Values as devices and other systems write them.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Folder;

fn utf16(text: &str, is_big_endian: bool) -> Vec<u8> {
    let bytes = |unit: u16| if is_big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() };
    text.encode_utf16().flat_map(bytes).collect()
}

fn line(device: &str, second: u32) -> String {
    format!("{device};20.11.2026 08:00:{second:02};52,5{second};13,4;-1;36,0\n")
}

const HEADER: &str = "\u{feff}device;time;lat;lon;heading;speed\n";

/// A table of a German spreadsheet: UTF-16, semicolons, decimal commas, local times.
#[test]
fn a_table_in_utf16_is_read_and_resumed_like_one_in_utf8() {
    let rows: String = (0..9).map(|second| line("Käfer 🚙", second)).collect();
    let bad = "Käfer 🚙;29.03.2026 02:30:00;52,5;13,4;-1;36\n";
    let text = format!("{HEADER}{rows}{bad}");
    let mut kept = None;
    for encode in [|text: &str| utf16(text, false), |text: &str| utf16(text, true)] {
        let mut folder = Folder::with("log", encode(&text));
        folder.env("TSTAR_TIME_FORMAT", "%d.%m.%Y %H:%M:%S");
        folder.env("TSTAR_TIME_ZONE", "Europe/Berlin");
        folder.env("TSTAR_SPEED_UNIT", "kmh");
        let summary = folder.ingest("log");
        assert_eq!((&summary["applied"], &summary["delivered"]), (&json!(9), &json!(10)));
        assert_eq!(summary["dead_letters"], json!({"bad_time": 1}));
        assert_eq!(summary["unknown_readings"], json!({"heading": 9}));
        let letter = folder.text("dlq ls");
        assert!(letter.contains("it may be 2026-03-29T01:30:00.000Z (by +01:00) or"), "{letter}");
        let [trip] = <[Value; 1]>::try_from(folder.trips("trips.db")).expect("one trip");
        assert_eq!(trip["device_id"], "Käfer 🚙");
        assert_eq!(trip["start_time"], "2026-11-20T07:00:00.000Z");
        assert_eq!((&trip["samples"], &trip["max_speed_mps"]), (&json!(9), &json!(10.0)));
        // As in UTF-8.
        let utf8 = Folder::with("log", &text);
        let times = "time_format = '%d.%m.%Y %H:%M:%S'\ntime_zone = 'Europe/Berlin'\n";
        utf8.write("tstar.toml", times);
        utf8.ingest("log --speed-unit kmh");
        assert_eq!(utf8.trips("trips.db"), folder.trips("trips.db"));

        // The file is recognised, and read from where it ended.
        assert_eq!(folder.ingest("log")["duplicates"], 9);
        let mut grown = folder.read("log");
        grown.extend(encode(&line("Käfer 🚙", 20)));
        folder.write("log", grown);
        let summary = folder.ingest("log");
        assert_eq!((&summary["delivered"], &summary["applied"]), (&json!(1), &json!(1)));
        assert_eq!(folder.run("dlq ls").ends(0).objects().len(), 1);
        folder.run("verify log").ends(0);
        let trips = folder.trips("trips.db");
        assert_eq!(*kept.get_or_insert_with(|| trips.clone()), trips);
    }
}

#[test]
fn what_is_not_utf16_spoils_its_own_line_alone() {
    let good = |second| {
        let time = format!("2026-11-20T07:00:0{second}Z");
        json!({"device_id": "a", "time": time, "lat": 1.5, "lon": 2.5}).to_string()
    };
    let mut bytes = utf16(&format!("\u{feff}{}\n{{\"x\":\"", good(0)), false);
    // Half of a pair, a whole line, and half of a unit.
    bytes.extend([0x3d, 0xd8]);
    bytes.extend(utf16(&format!("\"}}\n{}\n", good(1)), false));
    bytes.push(b'{');
    let folder = Folder::with("log", bytes);
    let summary = folder.ingest("log");
    assert_eq!((&summary["applied"], &summary["delivered"]), (&json!(2), &json!(4)));
    assert_eq!(summary["dead_letters"], json!({"bad_json": 1, "missing_field": 1}));
}

#[test]
fn odd_values_are_read_and_unknown_ones_counted() {
    let odd = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/formats/odd/odd.ndjson");
    let folder = Folder::with("log", std::fs::read_to_string(odd).unwrap());
    let new = folder.ingest("log --store sqlite:new.db");
    assert_eq!(new["dead_letters"], json!({"bad_time": 1, "time_before_min": 1}));
    let unknown = json!({"accuracy": 1, "heading": 1, "speed": 1});
    assert_eq!(new["unknown_readings"], unknown);
    folder.run("verify log --store sqlite:new.db").ends(0);
    let table = folder.text("ingest log --store sqlite:again.db --format table");
    assert!(table.contains("unknown readings"), "{table}");
}

#[test]
fn a_letter_of_a_local_time_is_replayed_with_a_zone() {
    let log = r#"{"device_id":"a","time":"2026-03-27 06:04:03","lat":52.0,"lon":13.0}"#;
    let good = log.replace(' ', "T").replace("03\"", "03Z\"");
    let folder = Folder::with("log", format!("{good}\n{log}\n"));
    assert_eq!(folder.ingest("log")["dead_letters"], json!({"bad_time": 1}));
    folder.run("dlq replay --time-zone Europe/Berlin").ends(0);
    let starts: Vec<_> =
        folder.trips("trips.db").iter().map(|trip| trip["start_time"].clone()).collect();
    assert_eq!(starts, ["2026-03-27T05:04:03.000Z", "2026-03-27T06:04:03.000Z"]);
}

#[test]
fn zones_and_formats_are_checked_at_the_start() {
    let mut folder = Folder::with("log", "");
    folder.run("ingest log --time-zone europe/berlin").ends(2).says(&["Europe/Berlin`?"]);
    folder.run("ingest log --time-zone Mars").ends(2).says(&["`Mars` is not a time zone"]);
    folder.run("ingest log --time-format %d.%m.%Y").ends(2).says(&["needs a date, hours"]);
    let needs_zone = folder.run("ingest log --time-format %d.%m.%YT%H:%M").ends(2);
    needs_zone.says(&["it has no offset (%z), so that --time-zone is needed"]);
    folder.env("TSTAR_TIME_FORMAT", "%s");
    folder.run("ingest log").ends(78).says(&["TSTAR_TIME_FORMAT", "--time-unit s"]);
}

/// A release with other tables might read other times.
#[test]
fn a_store_with_other_zone_tables_is_refused() {
    let line = r#"{"device_id":"a","time":"2026-03-27 06:04:03","lat":52.0,"lon":13.0}"#;
    let folder = Folder::with("log", line);
    folder.ingest("log --time-zone Europe/Berlin");
    folder.ingest("log --time-zone Europe/Berlin");
    let connection = Connection::open(folder.path("trips.db")).unwrap();
    let read = "SELECT rules FROM log";
    let rules: String = connection.query_row(read, [], |row| row.get(0)).unwrap();
    let (before, after) = rules.split_once(r#""zone_tables":""#).expect(&rules);
    let (tables, after) = after.split_once('"').unwrap();
    let other = format!(r#"{before}"zone_tables":"1999a"{after}"#);
    connection.execute("UPDATE log SET rules = ?1", [other]).unwrap();
    drop(connection);
    for command in ["ingest log", "verify log", "dlq replay"] {
        let ran = folder.run(command).ends(78);
        ran.says(&["time zone tables 1999a, this version of tstar has", tables]);
    }
    let ran = folder.run("ingest log --time-zone Europe/Berlin").ends(78);
    ran.says(&["zone_tables: the store has \"1999a\", requested", tables]);
}

#[test]
fn a_lookup_by_seconds_gets_a_hint() {
    let line = r#"{"device_id":"a","time":"2025-01-01T01:30:00Z","lat":52.0,"lon":13.0}"#;
    let folder = Folder::with("log", line);
    folder.ingest("log");
    let ran = folder.run("lookup a 1735695000").ends(1).prints_nothing();
    ran.says(&[
        "covers 1970-01-21T02:08:15.000Z",
        "in seconds it would be 2025-01-01T01:30:00.000Z, 1735695000000 in ms",
    ]);
    folder.run("lookup a 1735695000000").ends(0);
    for time in ["173569500", "1735695000001", "1970-01-21T02:08:15Z"] {
        let ran = folder.run(&format!("lookup a {time}")).ends(1);
        assert!(!ran.stderr.contains("in seconds"), "{ran}");
    }
}
