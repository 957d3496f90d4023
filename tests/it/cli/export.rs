//! What `export` selects, and where it writes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

#[cfg(target_os = "linux")]
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{Folder, number};
use crate::faults::{Running, until};
#[cfg(target_os = "linux")]
use crate::support::Dice;

/// A fleet, and some trips around the midnight after it.
fn fleet() -> Folder {
    let folder = Folder::new();
    let mut log =
        folder.run("simulate --mix 46,34,19,1 --devices 7 --samples 30000 --seed 5").ends(0).stdout;
    for (device, time) in [
        ("truck-3", "2025-01-01T23:58:00Z"),
        ("truck-3", "2025-01-02T00:01:00Z"),
        ("truck-4", "2025-01-01T23:59:59.999Z"),
        ("truck-4", "2025-01-02T05:00:00Z"),
        ("van-1", "2025-01-02T00:00:00Z"),
        ("van-1", "2025-01-03T00:00:00Z"),
    ] {
        let sample = json!({"device_id": device, "time": time, "lat": 52.5, "lon": 13.5});
        log.extend_from_slice(format!("{sample}\n").as_bytes());
    }
    folder.write("log", log);
    folder.ingest("log");
    folder
}

fn text<'a>(trip: &'a Value, name: &str) -> &'a str {
    trip[name].as_str().unwrap()
}

/// The lines of an export, and those of all trips that a filter accepts.
fn selected(folder: &Folder, flags: &str, filter: impl Fn(&Value) -> bool) -> usize {
    let mut all = folder.trips("trips.db");
    let whole = all.len();
    all.retain(filter);
    assert_eq!(folder.run(&format!("export {flags}")).ends(0).objects(), all, "{flags}");
    assert!(!all.is_empty() && all.len() < whole, "{flags}: {} of {whole}", all.len());
    all.len()
}

#[test]
fn flags_select_by_overlap_day_device_and_prefix() {
    let folder = fleet();
    let all = folder.trips("trips.db");
    let night =
        all.iter().find(|trip| text(trip, "start_time")[..10] < text(trip, "end_time")[..10]);
    let night = night.expect("a trip over midnight");
    let (start, end) = (text(night, "start_time"), text(night, "end_time"));
    let overlaps = |trip: &Value, from: &str, to: &str| {
        text(trip, "end_time") >= from && text(trip, "start_time") <= to
    };
    selected(&folder, &format!("--from {end}"), |it| overlaps(it, end, "9"));
    selected(&folder, &format!("--to {start}"), |it| overlaps(it, "", start));
    selected(&folder, &format!("--from {start} --to {end}"), |it| overlaps(it, start, end));
    for day in [&start[..10], &end[..10]] {
        let (from, to) = (format!("{day}T00:00:00.000Z"), format!("{day}T23:59:59.999Z"));
        let of_day = selected(&folder, &format!("--day {day}"), |it| overlaps(it, &from, &to));
        let is_of_one = |it: &Value| overlaps(it, &from, &to) && it["device_id"] == "truck-3";
        let of_one = selected(&folder, &format!("--day {day} --device truck-3"), is_of_one);
        assert!(of_one < of_day);
    }
    let (token, time) = text(night, "id").split_once('~').unwrap();
    let date = &time[..8];
    let has =
        |it: &Value, prefix: &str| text(it, "id").split('~').nth(1).unwrap().starts_with(prefix);
    selected(&folder, &format!("--prefix {date}"), |it| has(it, date));
    let is_own = |it: &Value| it["device_id"] == token && has(it, date);
    selected(&folder, &format!("--prefix {date} --device {token}"), is_own);
    selected(&folder, &format!("--prefix {token}~{date}"), is_own);
    assert_eq!(folder.text("export --day 1999-01-01"), "");
    for wrong in [
        "--day 2025-01-01 --from 0",
        "--prefix 2025 --to 0",
        "--day monday",
        "--from 1000 --to 0",
        "--prefix truck-1~2025 --device truck-2",
        "--points --path",
        "--points --format gpx",
    ] {
        folder.run(&format!("export {wrong}")).ends(2).prints_nothing();
    }
}

#[test]
fn points_are_the_samples_of_the_trips() {
    let folder = fleet();
    let flags = "--device truck-3 --day 2025-01-01";
    let trips = folder.run(&format!("export {flags} --path")).ends(0).objects();
    let points = folder.run(&format!("export {flags} --points")).ends(0);
    let lines: Vec<Value> = points.objects();
    let mut expected = Vec::new();
    for trip in &trips {
        let column = |name: &str| trip["path"][name].as_array().unwrap().clone();
        let times = column("times");
        assert_eq!(times.len() as u64, number(&trip["samples"]));
        for (at, time) in times.into_iter().enumerate() {
            let place = &column("coordinates")[at];
            let (speed, heading) = (&column("speed_mps")[at], &column("heading_deg")[at]);
            expected.push(json!({
                "trip_id": trip["id"], "device_id": "truck-3", "time": time,
                "lat": place[1], "lon": place[0], "speed_mps": speed, "heading_deg": heading,
                "altitude_m": null, "accuracy_m": null,
            }));
        }
    }
    assert!(trips.len() > 1 && expected.len() > 100, "{} {}", trips.len(), expected.len());
    assert_eq!(lines, expected);
    let array = folder.text(&format!("export {flags} --points --json"));
    assert_eq!(serde_json::from_str::<Vec<Value>>(&array).unwrap(), lines);
    let table = folder.text(&format!("export {flags} --points --format csv"));
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let head = reader.headers().unwrap().clone();
    for (row, line) in reader.records().zip(&lines) {
        for (name, cell) in head.iter().zip(&row.unwrap()) {
            let value = match &line[name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                number => number.as_f64().unwrap().to_string(),
            };
            assert_eq!(cell, value, "{name} of {line}");
        }
    }
    assert_eq!(table.lines().count(), 1 + lines.len());
    assert_eq!(folder.text("export --points --day 1999-01-01 --format csv").lines().count(), 1);
}

#[test]
fn a_file_has_what_stdout_has_and_is_whole_or_not_there() {
    let folder = fleet();
    let expected = folder.text("export --format csv");
    let said = folder.run("export --format csv --out new.csv").ends(0).prints_nothing();
    assert_eq!(said.stderr, "", "no progress without a terminal");
    assert_eq!(folder.read("new.csv"), expected.as_bytes());
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("new.csv"), 0o600);
    // An old file is replaced, at its place and with its mode.
    folder.write("old.csv", "old");
    fs::set_permissions(folder.path("old.csv"), Permissions::from_mode(0o644)).unwrap();
    symlink(folder.path("old.csv"), folder.path("link.csv")).unwrap();
    folder.run("export --format csv --out link.csv").ends(0);
    assert_eq!((folder.read("old.csv").len(), mode("old.csv")), (expected.len(), 0o644));
    assert!(folder.path("link.csv").is_symlink());
    // What fails leaves the old one.
    folder.write("bad.csv", "old");
    folder.run("export --format csv --out bad.csv --store sqlite:none.db").ends(74);
    let mut damaged = folder.read("trips.db");
    let half = damaged.len() / 2;
    damaged[half..].fill(0xff);
    folder.write("damaged.db", damaged);
    folder.write("bad.ndjson", "old");
    let ran = folder.run("export --path --out bad.ndjson --store sqlite:damaged.db").ends(74);
    ran.says(&["damaged.db", "malformed"]);
    for name in ["bad.csv", "bad.ndjson"] {
        assert_eq!(folder.read(name), b"old");
    }
    for place in ["/dev/null", "."] {
        folder.run(&format!("export --out {place}")).ends(2).says(&["is not a regular file"]);
    }
    folder.run("export --out none/new.csv").ends(74).says(&["none/new.csv"]);
    assert_eq!(hidden(&folder), [""; 0]);
}

#[test]
fn the_suffix_of_the_file_is_its_format_and_contradicts_none() {
    let folder = fleet();
    for (file, format) in [
        ("trips", "ndjson"),
        ("trips.jsonl", "ndjson"),
        ("trips.ndjson", "ndjson"),
        ("trips.json", "json"),
        ("trips.CSV", "csv"),
        ("trips.geojson", "geojson"),
        ("trips.gpx", "gpx"),
        ("trips.kml", "kml"),
        ("trips.mfjson", "mfjson"),
        ("trips.parquet", "parquet"),
    ] {
        folder.run(&format!("export --out {file}")).ends(0).prints_nothing();
        let expected = folder.run(&format!("export --format {format}")).ends(0).stdout;
        assert!(folder.read(file) == expected, "{file}");
    }
    for (flags, file) in [
        ("--format mfjson", "a.mf.json"),
        ("--format kepler", "a.geojson"),
        ("--format csv", "a.txt"),
    ] {
        folder.run(&format!("export {flags} --out {file}")).ends(0);
        assert_eq!(folder.read(file), folder.run(&format!("export {flags}")).ends(0).stdout);
    }
    for (flags, file, hint) in [
        ("--format csv", "b.parquet", "name the file .csv"),
        ("--json", "b.geojson", "name the file .json"),
        ("--format ndjson", "b.json", "name the file .ndjson"),
        ("", "b.xlsx", "add --format"),
        ("", "b.csv.gz", ".gz is not the suffix"),
    ] {
        let ran = folder.run(&format!("export {flags} --out {file}")).ends(2);
        ran.prints_nothing().says(&[&format!("`--out {file}`"), hint]);
        assert!(!folder.has(file));
    }
}

/// The temporary files in a folder.
fn hidden(folder: &Folder) -> Vec<String> {
    let names = fs::read_dir(folder.dir.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

/// 100 devices with a trip of 100,000 samples each: 228 MiB of times and positions.
#[cfg(target_os = "linux")]
fn long_trips() -> Folder {
    let (mut dice, mut log) = (Dice::new(1), String::new());
    let (mut time, mut lat, mut lon) = (1_763_640_000_000, 525_000_000, 134_000_000);
    for _ in 0..100_000 {
        time += dice.between(200, 600);
        lat += dice.between(-999, 999);
        lon += dice.between(-999, 999);
        let [lat, lon] = [lat, lon].map(|degrees: i64| degrees as f64 / 1e7);
        let speed = dice.between(0, 30);
        let sample =
            json!({"device_id": "truck", "time": time, "lat": lat, "lon": lon, "speed": speed});
        log += &format!("{sample}\n");
    }
    let folder = Folder::with("log", log);
    folder.ingest("log");
    let store = Connection::open(folder.path("trips.db")).unwrap();
    store.execute_batch("CREATE TEMP TABLE copy AS SELECT * FROM trips").unwrap();
    for copy in 1..100 {
        let next = format!(
            "UPDATE copy SET device_id = 'truck-{copy}'; INSERT INTO trips SELECT * FROM copy;
             INSERT INTO days_of_device SELECT device_id, bucket FROM copy"
        );
        store.execute_batch(&next).unwrap();
    }
    folder
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_store() {
    let folder = long_trips();
    for flags in ["parquet", "parquet --points", "ndjson --path", "mfjson"] {
        let words = format!("export --format {flags}");
        let mut running = Running::start(&mut folder.command(&words));
        // It waits until the rest is read, a third or more.
        running.read(96 << 20);
        let peak = running.peak_memory();
        println!("{flags}: {} MiB", peak >> 20);
        assert!(peak < 160 << 20, "{flags}: {peak} bytes");
        running.kill();
    }
}

#[test]
fn a_signal_leaves_neither_a_part_nor_a_temporary_file() {
    let folder = Folder::new();
    folder.write(
        "log",
        folder.run("simulate --mix 46,34,19,1 --devices 40 --samples 200000").ends(0).stdout,
    );
    folder.ingest("log");
    let mut running = Running::start(&mut folder.command("export --path --out trips.json"));
    until("the export writes", || {
        let new = hidden(&folder).pop()?;
        let bytes = fs::metadata(folder.path(&new)).ok()?.len();
        (bytes > 0).then_some(())
    });
    running.signal("TERM");
    let ran = running.ran("export");
    ran.ends(143).prints_nothing().says(&["stopping", "nothing was changed; rerun to start over"]);
    assert!(!folder.has("trips.json"));
    assert_eq!(hidden(&folder), [""; 0]);
}
