//! Inputs of `ingest`: compressed, piped, as CSV, with other names and units, truncated.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::{Folder, Ran, minutes};

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn csv(log: &str) -> Vec<u8> {
    let names = ["device_id", "time", "lat", "lon", "speed", "heading", "driver"];
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(names).unwrap();
    for line in log.lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        let cell = |name: &&str| match &sample[*name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        writer.write_record(names.iter().map(cell)).unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn every_form_of_one_log_gives_the_same_trips() {
    let folder = Folder::new();
    let log = folder.text("simulate --mix 46,34,19,1 --devices 4 --samples 3000 --seed 5");
    let table = csv(&log);
    let windows = String::from_utf8(table.clone()).unwrap().replace('\n', "\r\n");
    folder.write("log", &log);
    folder.ingest("log --store sqlite:log.db");
    let expected = folder.text("export --path --store sqlite:log.db");
    assert!(expected.lines().count() > 5);
    for (name, content) in [
        ("a.gz", gzip(log.as_bytes())),
        ("b.zst", zstd::encode_all(log.as_bytes(), 3).unwrap()),
        // The content decides, not the name.
        ("c.txt", gzip(log.as_bytes())),
        ("d.csv", table.clone()),
        ("e.csv.gz", gzip(&table)),
        ("f.csv", format!("\u{feff}{windows}").into_bytes()),
    ] {
        folder.write(name, content);
        for piped in [false, true] {
            let store = format!("sqlite:{name}.{piped}.db");
            let ran = if piped {
                folder.run_from(&format!("ingest - --json --store {store}"), name)
            } else {
                folder.run(&format!("ingest {name} --json --store {store}"))
            };
            assert_eq!(ran.ends(0).json()["delivered"], 3000, "{name}");
            let found = folder.text(&format!("export --path --store {store}"));
            assert!(found == expected, "{name}, piped {piped}: other trips");
        }
    }
}

#[test]
fn a_file_that_breaks_off_is_stored_as_far_as_it_goes() {
    let folder = Folder::new();
    let log = folder.text("simulate --mix 46,34,19,1 --devices 4 --samples 5000 --seed 5");
    let whole = gzip(log.as_bytes());
    let cut = &whole[..whole.len() / 2];
    let mut before = Vec::new();
    MultiGzDecoder::new(cut).read_to_end(&mut before).unwrap_err();
    before.truncate(before.iter().rposition(|&byte| byte == b'\n').unwrap() + 1);
    assert!((1000..log.len() - 1000).contains(&before.len()));
    folder.write("cut.gz", cut);
    folder.write("before", &before);
    let ran = folder.run("ingest cut.gz --json").ends(65).says(&["is truncated"]);
    assert_eq!(ran.json()["dead_letters"]["truncated_input"], 1);
    folder.ingest("before --store sqlite:before.db");
    let export = folder.text("export --path");
    assert!(export == folder.text("export --path --store sqlite:before.db"), "other trips");
    assert_eq!(folder.run("dlq ls --reason truncated_input").ends(0).objects().len(), 1);
}

#[test]
fn seconds_read_as_ms_are_kept_and_the_hint_is_given_once() {
    let line = |second: u32| {
        let time = 1_714_550_400 + second;
        format!("{{\"device_id\":\"a\",\"time\":{time},\"lat\":1,\"lon\":2}}\n")
    };
    let folder = Folder::with("log", (0..3).map(line).collect::<String>());
    let ran = folder.run("ingest log --json").ends(65);
    assert_eq!(ran.json()["dead_letters"]["time_before_min"], 3);
    assert_eq!(ran.stderr.matches("hint").count(), 1, "{ran}");
    assert_eq!(ran.stderr.matches("--time-unit s").count(), 1, "{ran}");
    let ran = folder.run("ingest log --json --time-unit s --store sqlite:s.db").ends(0);
    assert!(!ran.stderr.contains("hint"), "{ran}");
    let trips = folder.trips("s.db");
    assert_eq!(trips.len(), 1);
    assert_eq!(trips[0]["start_time"], "2024-05-01T08:00:00.000Z");
    assert_eq!(trips[0]["end_time"], "2024-05-01T08:00:02.000Z");
}

fn only_trip(folder: &Folder, ran: Ran, store: &str) -> Value {
    let summary = ran.ends(0).json();
    assert_eq!(summary["applied"], 1, "{summary}");
    folder.trips(store).remove(0)
}

#[test]
fn names_and_units_can_be_told() {
    let folder = Folder::with(
        "nested",
        "{\"vehicle\":\"v\",\"when\":1714550400000000,\"gps\":{\"lat\":1.5,\"x\":2.5},\"v\":36}\n",
    );
    let map = "device_id=vehicle,time=when,lat=/gps/lat,lon=/gps/x,speed=v";
    let ran = folder.run(&format!(
        "ingest nested --json --map {map} --time-unit us --speed-unit kmh --store sqlite:n.db"
    ));
    let trip = only_trip(&folder, ran, "n.db");
    assert_eq!(trip["id"], "v~20240501T080000.000Z");
    assert_eq!(trip["start"], serde_json::json!({"lat": 1.5, "lon": 2.5}));
    assert_eq!(trip["max_speed_mps"], 10.0);

    folder.write("table", "vehicle,ts,latitude,lng\nv,2024-05-01T10:00:00+02:00,1.5,2.5\n");
    let ran = folder
        .run("ingest table --json --map device_id=vehicle --input-format csv --store sqlite:c.db");
    assert_eq!(only_trip(&folder, ran, "c.db")["id"], "v~20240501T080000.000Z");
    let ran = folder.run("ingest table --json --input-format ndjson --store sqlite:j.db").ends(65);
    assert_eq!(ran.json()["dead_letters"]["bad_json"], 2);
}

#[test]
fn two_aliases_are_ambiguous_and_the_canonical_name_wins() {
    let rest = "\"time\":\"2024-05-01T08:00:00Z\",\"lat\":1,\"lon\":2";
    let folder = Folder::with("log", format!("{{\"deviceId\":\"a\",\"device\":\"b\",{rest}}}\n"));
    let summary = folder.run("ingest log --json").ends(65).json();
    assert_eq!(
        (&summary["dead_letters"]["ambiguous_field"], &summary["applied"]),
        (&1.into(), &0.into())
    );
    let names = "\"deviceId\":\"a\",\"device_id\":\"c\",\"device\":\"b\"";
    folder.write("log", format!("{{{names},{rest}}}\n"));
    assert_eq!(folder.ingest("log")["applied"], 1);
    assert_eq!(folder.text("devices"), "{\"device_id\":\"c\",\"tags\":{}}\n");
}

#[test]
fn several_files_are_one_log() {
    let folder = Folder::with("b", minutes("truck-17", &[0, 2, 6]));
    folder.write("a", minutes("truck-17", &[10, 12]));
    folder.ingest("a b");
    let trips = folder.trips("trips.db");
    assert_eq!(trips.len(), 1);
    assert_eq!(trips[0]["id"], "truck-17~20240501T080000.000Z");
    folder.ingest("b a --store sqlite:other.db");
    assert_eq!(folder.trips("other.db")[0]["absorbed"], serde_json::json!([]));
}

#[test]
fn what_came_before_a_file_that_cannot_be_read_is_stored_and_counted() {
    let folder = Folder::with("good", minutes("truck-17", &[0, 2, 6]));
    folder.write("table.csv", "name,colour\nx,red\n");
    folder.run("ingest table.csv good --json").ends(65).says(&["1 more after it were not read"]);
    let ran = folder.run("ingest good table.csv --json").ends(65).says(&["table.csv", "device_id"]);
    assert_eq!(ran.json()["applied"], 3);
    assert_eq!(folder.trips("trips.db").len(), 1);
}
