//! What `inspect` says of files, and that the command it prints reads them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Folder, Ran};
use crate::formats::{ROWS, Row, paths};

/// What `inspect` finds in an input that has samples.
pub fn inspect(folder: &Folder, words: &str) -> Value {
    folder.run(&format!("inspect {words} --json")).ends(0).json()
}

/// Runs a command that `inspect` printed, by a shell.
pub fn run_printed(folder: &Folder, found: &Value, more: &str) -> Ran {
    let printed = found["command"].as_str().unwrap();
    let words = printed.strip_prefix("tstar ").unwrap();
    let program = env!("CARGO_BIN_EXE_tstar");
    let line = format!("{program} {words} {more}");
    let mut shell = Command::new("sh");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TSTAR_") {
            shell.env_remove(name);
        }
    }
    Ran::run(&line, shell.args(["-c", &line]).current_dir(folder.dir.path()))
}

/// The value of a proposed flag.
fn flag<'a>(found: &'a Value, name: &str) -> &'a Value {
    let flags = found["flags"].as_array().unwrap();
    flags.iter().find(|it| it["flag"] == name).map_or(&Value::Null, |it| &it["value"])
}

/// Names of the files of a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Samples of a car: each `seconds`, `north_m` after the one before, with this speed.
fn track(first: u32, count: u32, (seconds, north_m): (u32, f64), speed: f64) -> String {
    let line = |nth: u32| {
        let time_ms = 1_714_550_400_000 + i64::from(first + nth * seconds) * 1000;
        let lat = 52.0 + f64::from(nth) * north_m / 111_195.08;
        let sample = json!({
            "device_id": "van-1", "time": time_ms, "lat": lat, "lon": 13.5, "speed": speed,
        });
        sample.to_string() + "\n"
    };
    (0..count).map(line).collect()
}

#[test]
fn intervals_are_measured_along_device_time_in_any_order_of_arrival() {
    let drive = track(0, 105, (20, 300.0), 15.0) + &track(5000, 105, (20, 300.0), 15.0);
    let lines: Vec<&str> = drive.lines().collect();
    // 210 and 97 have no common divisor, so that this is each line once.
    let shuffled = (0..lines.len()).map(|nth| lines[nth * 97 % lines.len()]);
    let shuffled = shuffled.fold(String::new(), |text, line| text + line + "\n");
    let folder = Folder::with("ordered", &drive);
    folder.write("shuffled", shuffled);
    let [ordered, shuffled] = ["ordered", "shuffled"].map(|file| inspect(&folder, file));
    for key in ["intervals", "histogram", "flags", "heartbeat", "jumps", "speed"] {
        assert_eq!(ordered[key], shuffled[key], "{key}");
    }
    assert_eq!(
        (&ordered["intervals"]["count"], &ordered["late"]["count"]),
        (&json!(209), &json!(0))
    );
    assert!(shuffled["late"]["count"].as_u64().unwrap() > 100, "{}", shuffled["late"]);
}

#[test]
fn each_format_is_recognised_and_the_command_reads_it() {
    for Row { files, preset, skipped, .. } in ROWS {
        let folder = Folder::new();
        let found = inspect(&folder, &paths(files));
        assert_eq!((&found["reads"], &found["preset"]), (&json!("preset"), &json!(preset)));
        assert_eq!((&found["samples"], &found["devices"]), (&json!(15), &json!(2)), "{files:?}");
        assert_eq!(found["skipped"], skipped, "{files:?}");
        assert_eq!(found["dead_letters"], json!({}), "{files:?}");
        assert_eq!(names(folder.dir.path()), BTreeSet::new(), "nothing is written");
        let summary = run_printed(&folder, &found, "--json").ends(0).json();
        assert_eq!((&summary["applied"], &summary["duplicates"]), (&json!(14), &json!(1)));
        assert_eq!(summary["dead_letters"], json!({}), "{files:?}");
    }
}

#[test]
fn standard_names_need_no_preset() {
    let folder = Folder::new();
    let found = inspect(&folder, &paths(&["canonical.ndjson"]));
    assert_eq!((&found["reads"], &found["samples"]), (&json!("standard names"), &json!(15)));
    assert_eq!((&found["preset"], &found["map"]), (&Value::Null, &json!({})));
    assert_eq!(found["files"][0]["format"], "ndjson");
    assert_eq!(found["from"], "2026-11-20T07:00:00.000Z");
    let fields: Vec<_> = found["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["field"].as_str().unwrap())
        .collect();
    assert!(fields.starts_with(&["device_id", "time", "lat", "lon", "speed"]), "{fields:?}");
    let summary = run_printed(&folder, &found, "--json").ends(0).json();
    assert_eq!(summary["applied"], 14, "{summary}");
}

#[test]
fn at_most_ten_thousand_records_are_looked_at() {
    let folder = Folder::new();
    folder.write_fleet("log", "");
    let before = names(folder.dir.path());
    let found = inspect(&folder, "log");
    assert_eq!((&found["records"], &found["files"][0]["whole"]), (&json!(10_000), &json!(false)));
    assert!(found["samples"].as_u64().unwrap() > 9000, "{found}");
    assert!(found["late"]["share"].as_f64().unwrap() > 0.0, "{found}");
    let dead = found["dead_letters"].as_object().unwrap();
    assert!(dead.len() > 3, "{dead:?}");
    assert!(dead.values().all(|it| it["first"]["line"].as_u64().unwrap() > 0), "{dead:?}");
    assert_eq!(names(folder.dir.path()), before, "nothing is written");
    // The second file is not read, but has to exist.
    let found = inspect(&folder, "log log");
    assert_eq!((&found["records"], &found["files_not_read"]), (&json!(10_000), &json!(1)));
    folder.run("inspect log none --json").ends(74).prints_nothing();
}

#[test]
fn units_are_found_by_their_magnitude_and_the_track() {
    let log = track(0, 100, (10, 150.0), 54.0);
    let folder = Folder::with("kmh", &log);
    let found = inspect(&folder, "kmh");
    assert_eq!(flag(&found, "--speed-unit"), "kmh");
    assert_eq!((&found["speed"]["unit"], &found["speed"]["legs"]), (&json!("kmh"), &json!(99)));
    run_printed(&folder, &found, "--json").ends(0);
    assert_eq!(folder.trips("trips.db")[0]["max_speed_mps"], 15.0);

    for (unit, per_s) in [("s", 1), ("ms", 1000), ("us", 1_000_000), ("ns", 1_000_000_000_i64)] {
        let line = |line: &str| {
            let mut sample: Value = serde_json::from_str(line).unwrap();
            sample["time"] = json!(sample["time"].as_i64().unwrap() / 1000 * per_s);
            sample.to_string() + "\n"
        };
        let folder = Folder::with("log", log.lines().map(line).collect::<String>());
        let found = inspect(&folder, "log");
        let expected = if unit == "ms" { Value::Null } else { json!(unit) };
        assert_eq!((&found["samples"], flag(&found, "--time-unit")), (&json!(100), &expected));
        let summary = run_printed(&folder, &found, "--json").ends(0).json();
        assert_eq!(summary["applied"], 100, "{unit}: {summary}");
    }
}

#[test]
fn a_heartbeat_while_parked_is_found_and_stands() {
    let parked = track(1000, 30, (290, 0.0), 0.0);
    let folder = Folder::with("log", track(0, 90, (10, 100.0), 10.0) + &parked);
    let found = inspect(&folder, "log");
    let interval = found["heartbeat"]["interval_s"].as_f64().unwrap();
    assert!((285.0..295.0).contains(&interval), "{interval}");
    assert_eq!(
        (&found["heartbeat"]["stops"], flag(&found, "--stop-speed")),
        (&json!(1), &json!("1.6"))
    );
    run_printed(&folder, &found, "--json").ends(0);
    assert_eq!(folder.trips("trips.db")[0]["duration_s"], 890.0, "the trip ends at the stop");
    let with_gap = inspect(&folder, "log --max-gap 7m");
    let command = with_gap["command"].as_str().unwrap();
    assert_eq!(command, "tstar ingest log --max-gap 7m --stop-speed 1.6");
}

#[test]
fn bad_fixes_are_counted() {
    let zero = r#"{"device_id":"van-1","time":1714550405000,"lat":0,"lon":0}"#;
    let far = r#"{"device_id":"van-1","time":1714551400000,"lat":10,"lon":10}"#;
    let log = track(0, 50, (10, 100.0), 10.0) + zero + "\n" + far + "\n";
    let folder = Folder::with("log", log);
    let found = inspect(&folder, "log");
    assert_eq!((&found["zero_positions"], &found["jumps"]), (&json!(1), &json!(1)));
    assert_eq!(flag(&found, "--max-leg-speed"), "150");
    run_printed(&folder, &found, "--json").ends(0);
}

/// Events, invalid fixes and broken records are usual between those that a preset reads.
#[test]
fn a_few_other_records_leave_the_preset_the_right_one() {
    let text = std::fs::read_to_string(crate::support::data("formats/traccar/kafka.tsv")).unwrap();
    let good: String =
        text.lines().map(|line| line.split_once('\t').unwrap().1.to_owned() + "\n").collect();
    let first = good.lines().next().unwrap();
    let broken = first.replace("\"fixTime\":\"", "\"fixTime\":null,\"was\":\"");
    let no_fix = first.replace("\"valid\":true", "\"valid\":false");
    let event = r#"{"event":{"id":1,"type":"deviceOnline"},"device":{"uniqueId":"van-1"}}"#;
    let folder = Folder::with("log", good + &broken + "\n" + &no_fix + "\n" + event + "\n");
    let found = inspect(&folder, "log");
    assert_eq!((&found["preset"], &found["samples"]), (&json!("traccar"), &json!(15)), "{found}");
    let read = run_printed(&folder, &found, "--json").ends(0).json();
    assert_eq!((&read["applied"], &read["skipped"]), (&json!(14), &json!(1)), "{read}");
    assert_eq!(read["dropped"], json!({"bad_fix": 1}));
}

#[test]
fn a_map_is_proposed_where_no_preset_fits() {
    let record =
        |nth: u32| {
            let time = format!("2026-03-27T06:{nth:02}:00Z");
            json!({"unit": {"imei": 35_000 + nth % 2}, "fixes": [
            {"pos": {"latitude": 52.0, "lng": 13.0 + f64::from(nth) / 1000.0}, "gps_time": time},
        ]}).to_string() + "\n"
        };
    let folder = Folder::with("log", (0..30).map(record).collect::<String>());
    let found = inspect(&folder, "log");
    assert_eq!(found["reads"], "map", "{found}");
    let map = json!({
        "samples": "/fixes", "device_id": "/unit/imei", "lat": "/pos/latitude", "lon": "/pos/lng",
        "time": "/gps_time",
    });
    assert_eq!(
        (&found["map"], &found["samples"], &found["devices"]),
        (&map, &json!(30), &json!(2))
    );
    let summary = run_printed(&folder, &found, "--json").ends(0).json();
    assert_eq!(summary["applied"], 30, "{summary}");
}

#[test]
fn the_column_id_is_the_device_if_its_values_repeat() {
    let row = |id: u32, nth: u32| format!("{id},{},52.{nth:02},13.4\n", 1_774_591_440 + nth * 30);
    for (name, id) in [("trucks", 5), ("rows", 60)] {
        let rows: String = (0..60).map(|nth| row(nth % id, nth)).collect();
        let folder = Folder::with(name, format!("id,ts,lat,lng\n{rows}"));
        let found = inspect(&folder, name);
        let device = if id == 5 { "id" } else { "@file" };
        assert_eq!(found["map"]["device_id"], device, "{name}: {found}");
        let notes = found["notes"].as_array().unwrap();
        let is_said = notes.iter().any(|it| it.as_str().unwrap().contains("each file is taken"));
        assert_eq!(is_said, device == "@file", "{name}: {found}");
    }
}

/// Three vans, each 111 km from the next, in a table that calls them by their colour.
fn vans() -> Folder {
    let row = |nth: u32| {
        let (van, hour, minute, second) = (nth % 3, 6 + nth / 360, nth / 6 % 60, nth % 6 * 10);
        let lat = 50.0 + f64::from(van) + f64::from(nth / 3) * 0.001;
        let colour = ["red", "green", "blue"][van as usize];
        format!("{colour},27/03/2026 {hour:02}:{minute:02}:{second:02},{lat:.6},13.4,8.3\n")
    };
    let rows: String = (0..120).map(row).collect();
    Folder::with("a.csv", format!("Colour,When,Lat.,Long.,Speed (mph)\n{rows}"))
}

#[test]
fn a_fleet_is_not_taken_for_one_device() {
    let folder = vans();
    let found = folder.run("inspect a.csv --json").ends(65).json();
    assert_eq!((&found["missing"], &found["command"]), (&json!(["device_id"]), &Value::Null));
    assert_eq!(found["partial"]["candidates"], json!({"device_id": ["Colour"]}), "{found:#}");
    let partial = found["partial_command"].as_str().unwrap();
    assert_eq!(
        partial,
        "tstar ingest a.csv --map 'device_id=?,lat=Lat.,lon=Long.,speed=Speed (mph),time=When' \
         --time-format '%d/%m/%Y %H:%M:%S' --time-zone UTC --speed-unit mph"
    );
    assert!(found["notes"].to_string().contains("119 of 120 samples would be"), "{found:#}");
    // One of them alone is plausible.
    let text = String::from_utf8(folder.read("a.csv")).unwrap();
    let red = text.lines().filter(|line| line.starts_with("Colour") || line.starts_with("red"));
    folder.write("b.csv", red.fold(String::new(), |text, line| text + line + "\n"));
    let found = inspect(&folder, "b.csv");
    assert_eq!((&found["map"]["device_id"], &found["devices"]), (&json!("@file"), &json!(1)));
    assert!(found["notes"].to_string().contains("it may be `Colour`"), "{found:#}");
}

#[test]
fn what_is_given_holds_and_the_rest_is_found() {
    let folder = vans();
    let found = inspect(&folder, "a.csv --map device_id=Colour --time-zone Europe/Berlin");
    assert_eq!((&found["reads"], &found["devices"]), (&json!("map"), &json!(3)), "{found:#}");
    assert_eq!(found["from"], "2026-03-27T05:00:00.000Z");
    assert_eq!(flag(&found, "--time-zone"), &Value::Null, "it needs no reason");
    let command = found["command"].as_str().unwrap();
    let expected = "tstar ingest a.csv --time-zone Europe/Berlin --map \
        'device_id=Colour,lat=Lat.,lon=Long.,speed=Speed (mph),time=When' --time-format ";
    assert!(command.starts_with(expected), "{command}");
    let summary = run_printed(&folder, &found, "--json").ends(0).json();
    assert_eq!((&summary["applied"], &summary["trips"]), (&json!(120), &json!(3)), "{summary}");
    // A map that reads them is left as it is.
    folder.write("log", track(0, 20, (10, 100.0), 10.0));
    let found = inspect(&folder, "log --map driver=device_id");
    assert_eq!((&found["reads"], flag(&found, "--map")), (&json!("given"), &Value::Null));
}

#[test]
fn an_ignition_of_another_name_is_added_to_the_standard_names() {
    let folder = Folder::new();
    for (name, state, is_noted) in [("Engine State", [0, 1], false), ("Zustand", [2, 3], true)] {
        let words = ["0", "1", "aus", "ein"];
        let row = |nth: u32| {
            let word = words[state[usize::from(nth < 60)]];
            let lat = 50.0 + f64::from(nth.min(60)) * 0.001;
            format!("v,2026-03-27T06:{:02}:{:02}Z,{lat:.3},13.4,{word}\n", nth / 2, nth % 2 * 30)
        };
        let rows: String = (0..120).map(row).collect();
        folder.write("a.csv", format!("device_id,time,lat,lon,{name}\n{rows}"));
        let found = inspect(&folder, "a.csv");
        assert_eq!(flag(&found, "--map"), &json!(format!("ignition={name}")), "{found:#}");
        let note = format!("`{name}` is taken for the ignition by its values");
        assert_eq!(found["notes"].to_string().contains(&note), is_noted, "{found:#}");
        run_printed(&folder, &found, &format!("--store 'sqlite:{name}.db'")).ends(0);
        let found = inspect(&folder, "a.csv --map ignition=none");
        assert_eq!(flag(&found, "--map"), &Value::Null, "{found:#}");
    }
}

#[test]
fn columns_and_local_times_are_found() {
    let row = |nth: u32| format!("7;{nth:02}.03.2026 06:04:03;52,5;13,{nth};30\n");
    let table = "Vehicle ID;Date;Latitude;Longitude;Speed kmh\n".to_owned();
    let folder = Folder::with("a b.csv", table + &(10..28).map(row).collect::<String>());
    let words = ["inspect", "a b.csv", "--json"];
    let ran = Ran::run("inspect", folder.command("").args(words)).ends(0);
    let found = ran.json();
    assert_eq!((&found["samples"], &found["files"][0]["format"]), (&json!(18), &json!("csv")));
    assert_eq!(flag(&found, "--time-format"), "%d.%m.%Y %H:%M:%S");
    assert_eq!(
        (flag(&found, "--time-zone"), flag(&found, "--speed-unit")),
        (&json!("UTC"), &json!("kmh"))
    );
    let summary = run_printed(&folder, &found, "--json").ends(0).json();
    assert_eq!(summary["applied"], 18, "{summary}");
}

#[test]
fn compressed_and_encoded_files_are_described() {
    let log = track(0, 20, (10, 100.0), 10.0);
    let folder = Folder::with("log.zst", zstd::encode_all(log.as_bytes(), 1).unwrap());
    let found = inspect(&folder, "log.zst");
    let file = &found["files"][0];
    assert_eq!((&file["compression"], &file["whole"]), (&json!("zstd"), &json!(true)));
    let utf16: Vec<u8> =
        format!("\u{feff}{log}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    folder.write("utf16", utf16);
    let found = inspect(&folder, "utf16");
    assert_eq!(
        (&found["files"][0]["encoding"], &found["samples"]),
        (&json!("UTF-16LE"), &json!(20))
    );
    folder.write("log", &log);
    let found = folder.run_from("inspect - --json", "log").ends(0).json();
    assert_eq!((&found["samples"], &found["files"][0]["name"]), (&json!(20), &json!("-")));
    let shown = folder.text("inspect log --format table");
    assert!(shown.contains("read by    standard names") && shown.contains("up to 10s"), "{shown}");
    assert!(shown.contains("\n  tstar ingest log --max-gap 5m\n  --max-gap 5m: "), "{shown}");
}

#[test]
fn what_cannot_be_read_is_an_exit_code() {
    let folder = Folder::with("empty", "");
    folder.run("inspect empty --json").ends(1).says(&["the input has no record"]);
    folder.write("none", "{\"a\":{\"latitude\":1,\"lng\":2}}\n".repeat(20));
    let ran = folder.run("inspect none --json").ends(65);
    let found = ran.says(&["no sample was found in 20 records"]).json();
    assert_eq!((&found["reads"], &found["command"]), (&Value::Null, &Value::Null));
    assert_eq!(found["missing"], json!(["time"]));
    assert_eq!(found["dead_letters"]["missing_field"]["count"], 20, "{found}");
    folder.write("noise", (0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    let found = folder.run("inspect noise --json").ends(65).json();
    assert_ne!(found["files"][0]["format"], "gtfs-rt", "{found}");
    folder.write("deep", "[".repeat(100_000) + "\n{\"a\":\n");
    folder.run("inspect deep --json").ends(65);
    folder.write("a.xml", "<kml><Placemark/></kml>");
    let found = folder.run("inspect a.xml --json").ends(65).json();
    assert!(found["notes"][0].as_str().unwrap().contains("not GPX"), "{found}");
    let events = paths(&["owntracks/others.ndjson"]);
    folder.run(&format!("inspect {events}")).ends(65).says(&["no sample was found in 5 records"]);
    let events = folder.run(&format!("inspect {events} --preset owntracks")).ends(65);
    events.says(&["none of the 5 records is a position"]);
    folder.run("inspect missing").ends(74).prints_nothing();
    folder.run("inspect .").ends(65).prints_nothing();
    folder.run("inspect").ends(2).says(&["name files, - for stdin, or --topic"]);
    folder.run("inspect empty --topic a").ends(2).says(&["not both"]);
    folder.run("inspect none --preset owntracks --json").ends(65);
    assert_eq!(names(folder.dir.path()).len(), 5, "nothing is written");
}
