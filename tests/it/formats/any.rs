//! Files as people have them: each is read by the command that `inspect` prints.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::cli::Folder;
use crate::cli::inspect::{inspect, run_printed};
use crate::support::data;

/// Files that have the same samples, and whether each of them is a vehicle.
const FILES: [&[&str]; 12] = [
    &["german.csv"],
    &["datum-uhrzeit.csv"],
    &["us.csv"],
    &["positions.tsv"],
    &["serial.csv"],
    &["french.csv"],
    &["nameless-0.csv", "nameless-1.csv"],
    &["polish.csv"],
    &["excel-german.csv"],
    &["excel-us.csv"],
    &["excel-unicode.txt"],
    &["table.parquet"],
];

/// A folder with copies of files.
fn folder(files: &[&str]) -> Folder {
    let folder = Folder::new();
    for file in files {
        folder.write(file, std::fs::read(data("any").join(file)).unwrap());
    }
    folder
}

/// Start, end, number of samples and way of each trip, without its device.
fn shown(folder: &Folder) -> Vec<[Value; 4]> {
    let mut trips: Vec<_> = folder.trips("trips.db");
    trips.sort_by_key(|trip| (trip["device_id"].to_string(), trip["start_time"].to_string()));
    let trip = |trip: &Value| {
        let km = (trip["distance_m"].as_f64().unwrap() / 1000.0).round();
        [trip["start_time"].clone(), trip["end_time"].clone(), trip["samples"].clone(), json!(km)]
    };
    trips.iter().map(trip).collect()
}

/// The trips of the vehicles with these numbers.
fn expected(vehicles: usize) -> Vec<[Value; 4]> {
    let trip = |hour: &str, minutes: [u32; 2]| {
        let [start, end] = minutes.map(|it| json!(format!("2026-03-27T{hour}:{it:02}:00.000Z")));
        [start, end, json!(20), json!(17.0)]
    };
    vec![[trip("06", [4, 23]), trip("07", [24, 43])]; vehicles].concat()
}

#[test]
fn files_of_spreadsheets_and_databases_are_read_by_what_inspect_prints() {
    for files in FILES {
        let folder = folder(files);
        let found = inspect(&folder, &files.join(" "));
        assert_eq!((&found["samples"], &found["devices"]), (&json!(80), &json!(2)), "{found:#}");
        let ran = run_printed(&folder, &found, "--json").ends(0);
        let summary = ran.json();
        assert_eq!((&summary["applied"], &summary["delivered"]), (&json!(80), &json!(80)), "{ran}");
        assert_eq!(summary["warnings"], Value::Null, "{ran}");
        assert_eq!(shown(&folder), expected(2), "{files:?}: {}", found["command"]);
        folder.run(&format!("verify {}", files.join(" "))).ends(0);
        // It is recognised, and changes nothing.
        let again = run_printed(&folder, &found, "--json").ends(0).json();
        assert_eq!((&again["applied"], &again["duplicates"]), (&json!(0), &json!(80)), "{again}");
    }
    let names: Vec<_> = ["datum-uhrzeit.csv", "table.parquet"]
        .map(|file| inspect(&folder(&[file]), file)["map"].clone())
        .into();
    let map = json!({
        "device_id": "Kennzeichen", "driver": "Fahrer", "lat": "Geogr. Breite",
        "lon": "Geogr. Länge", "time": "Datum+Uhrzeit",
    });
    assert_eq!(names[0], map);
    assert_eq!(names[1]["ignition"], "/ignition", "{}", names[1]);
}

#[test]
fn several_tracks_of_a_phone_are_one_device() {
    let files = ["phone-monday.gpx", "phone-tuesday.gpx"];
    let folder = folder(&files);
    let each = inspect(&folder, &files.join(" "));
    assert_eq!((&each["devices"], &each["preset"]), (&json!(2), &json!("gpx")));
    assert!(each["notes"].to_string().contains("add --map device_id==NAME"), "{each:#}");
    let one = inspect(&folder, "phone-monday.gpx phone-tuesday.gpx --map device_id==phone");
    assert_eq!((&one["devices"], &one["samples"]), (&json!(1), &json!(40)), "{one:#}");
    run_printed(&folder, &one, "--json").ends(0);
    assert_eq!(shown(&folder), expected(1));
    assert_eq!(folder.trips("trips.db")[0]["device_id"], "phone");
}

#[test]
fn where_inspect_is_unsure_it_prints_what_is_known() {
    let row = |nth: u32| format!("7,noon {nth},52.{nth:02}1,13.4\n");
    let rows: String = (10..40).map(row).collect();
    let folder = Folder::with("a.csv", format!("vehicle,when,lat,lon\n{rows}"));
    let ran = folder.run("inspect a.csv --json").ends(65);
    let found = ran.json();
    assert_eq!((&found["command"], &found["missing"]), (&Value::Null, &json!(["time"])));
    let command = "tstar ingest a.csv --map 'device_id=vehicle,lat=lat,lon=lon,time=?'";
    assert_eq!(found["partial_command"], command, "{found:#}");
    assert_eq!(found["partial"]["lines"].as_array().unwrap().len(), 4, "{found:#}");
    let shown = folder.run("inspect a.csv --format table").ends(65).text();
    for text in ["vehicle,when,lat,lon", "7,noon 10,52.101,13.4", "Not found: time.", command] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    // Two columns that may both be the time.
    let row = |nth: u32| format!("7;27.03.2026 06:{nth};27.03.2026 07:{nth};52,{nth}1;13,4\n");
    let rows: String = (10..40).map(row).collect();
    folder.write("b.csv", format!("Fahrzeug;von;bis;Breite;Länge\n{rows}"));
    let found = folder.run("inspect b.csv --json").ends(65).json();
    assert_eq!(found["partial"]["candidates"], json!({"time": ["von", "bis"]}), "{found:#}");
    // What `ingest` cannot place names `inspect`.
    folder.run("ingest b.csv").ends(65).says(&["`tstar inspect b.csv`"]);
}

#[test]
fn other_files_have_a_way() {
    let folder = Folder::with("a.xlsx", b"PK\x03\x04\x14\0\x06\0[Content_Types].xml");
    folder.write("a.zip", b"PK\x03\x04\x14\0\x06\0a.csv");
    let mut tar = vec![0; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    let mut tgz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    tgz.write_all(&tar).unwrap();
    folder.write("a.tgz", tgz.finish().unwrap());
    let parquet = std::fs::read(data("any/table.parquet")).unwrap();
    folder.write("cut.parquet", &parquet[..parquet.len() - 9]);
    for (file, way) in [
        ("a.xlsx", "libreoffice --headless --convert-to csv a.xlsx"),
        ("a.zip", "unzip -p a.zip | tstar ingest -"),
        ("a.tgz", "tar -xaOf a.tgz | tstar ingest -"),
        ("cut.parquet", "get the file again"),
    ] {
        folder.run(&format!("ingest {file}")).ends(65).says(&[way]);
    }
    folder.write("table.parquet", &parquet);
    folder.run("ingest table.parquet --input-format csv").ends(65).says(&["it is Parquet"]);
    folder.run("ingest a.zip --input-format parquet").ends(65).says(&["it is not Parquet"]);
    let ran = folder.run_from("ingest -", "table.parquet").ends(65);
    ran.says(&["it is Parquet, which is read from a file on disk"]);
}

#[test]
fn words_of_an_ignition_are_read_and_others_lose_it() {
    let row = |nth: u32, word: &str| {
        format!("v,2026-03-27T06:{:02}:{:02}Z,52.{nth:03},13.4,{word}\n", nth / 60, nth % 60)
    };
    let rows = |words: &dyn Fn(u32) -> &'static str| -> String {
        (100..300).map(|nth| row(nth, words(nth))).collect()
    };
    let head = "device_id,time,lat,lon,ignition\n";
    for (few, is_warned) in [(201, false), (297, true)] {
        let words = move |nth| match nth {
            _ if nth == few || (is_warned && nth > few) => "Standby",
            _ if nth % 2 == 0 => "Ein",
            _ => "AN",
        };
        let folder = Folder::with("a.csv", head.to_owned() + &rows(&words));
        let ran = folder.run("ingest a.csv --json").ends(0);
        let summary = ran.json();
        let lost = if is_warned { 3 } else { 1 };
        assert_eq!((&summary["applied"], &summary["dead_letters"]), (&json!(200), &json!({})));
        assert_eq!(summary["unknown_readings"], json!({"ignition": lost}), "{ran}");
        let warned = ran.stderr.contains("have an ignition that is not known as on");
        assert_eq!(warned, is_warned, "{ran}");
        folder.run("inspect a.csv --json").ends(0);
    }
}

/// A proto3 `bool` without `optional` is false wherever it is not set.
#[test]
fn an_ignition_that_is_always_off_is_left_out_of_the_printed_command() {
    let row = |nth: u32| {
        let lat = 52.0 + f64::from(nth) * 0.001;
        let time = format!("2026-03-27T06:{:02}:{:02}Z", nth / 6, nth % 6 * 10);
        json!({"device_id": "v", "time": time, "lat": lat, "lon": 13.4, "ignition": false})
            .to_string()
            + "\n"
    };
    let folder = Folder::with("log", (0..120).map(row).collect::<String>());
    let found = inspect(&folder, "log");
    assert!(found["command"].as_str().unwrap().contains("--map ignition=none"), "{found:#}");
    assert!(found["notes"].to_string().contains("the ignition is off in 1"), "{found:#}");
    run_printed(&folder, &found, "--json").ends(0);
    assert_eq!(folder.trips("trips.db").len(), 1);
}

#[test]
fn the_hour_that_autumn_repeats_is_read_by_the_order_of_the_file() {
    // Each minute from 01:30 summer time to 03:30 winter time, which is three hours.
    let local = |minute: u32| match minute {
        0..90 => format!("{:02}:{:02}", (90 + minute) / 60, (90 + minute) % 60),
        _ => format!("{:02}:{:02}", (30 + minute) / 60, (30 + minute) % 60),
    };
    let row = |minute: u32| format!("v;2026-10-25 {}:00;52,{:03};13,4\n", local(minute), minute);
    let rows: Vec<String> = (0..180).map(row).collect();
    let head = "device_id;time;lat;lon\n".to_owned();
    let folder = Folder::with("a.csv", head.clone() + &rows.concat());
    let ingest = |store: &str, rule: &str| {
        let words = format!("ingest a.csv --time-zone Europe/Berlin --store sqlite:{store} --json");
        folder.run(&format!("{words} {rule}")).ends(0).json()
    };
    let counts =
        |summary: &Value| ["applied", "duplicates"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(ingest("none.db", "")["dead_letters"], json!({"bad_time": 120}));
    assert_eq!(counts(&ingest("earlier.db", "--time-ambiguous earlier")), [120, 60]);
    assert_eq!(counts(&ingest("later.db", "--time-ambiguous later")), [120, 60]);
    assert_eq!(counts(&ingest("order.db", "--time-ambiguous order")), [180, 0]);
    let trip = folder.trips("order.db")[0].clone();
    assert_eq!(trip["start_time"], "2026-10-24T23:30:00.000Z");
    assert_eq!(
        (&trip["end_time"], &trip["samples"]),
        (&json!("2026-10-25T02:29:00.000Z"), &json!(180))
    );
    folder.run("verify a.csv --store sqlite:order.db").ends(0);
    // It is a rule of the store.
    let other = folder.run("ingest a.csv --store sqlite:order.db --time-ambiguous later").ends(78);
    other.says(&["time_ambiguous: the store has \"order\", requested \"later\""]);
    // A file that has grown in the hour is read on where its order is.
    folder.write("a.csv", head.clone() + &rows[..120].concat());
    assert_eq!(counts(&ingest("grown.db", "--time-ambiguous order")), [120, 0]);
    folder.write("a.csv", head + &rows.concat());
    assert_eq!(counts(&ingest("grown.db", "--time-ambiguous order")), [60, 120]);
    assert_eq!(folder.trips("grown.db")[0]["end_time"], "2026-10-25T02:29:00.000Z");
    folder.run("verify a.csv --store sqlite:grown.db").ends(0);
}

#[test]
fn a_late_row_in_the_hour_that_autumn_repeats_is_warned_of() {
    let row = |minute: &str| format!("v;2026-10-25 {minute}:00;52,1;13,4\n");
    let minutes = ["01:58", "02:02", "02:06", "02:10", "02:04", "02:14", "02:18", "02:22"];
    let folder =
        Folder::with("a.csv", "device_id;time;lat;lon\n".to_owned() + &minutes.map(row).concat());
    let words = "ingest a.csv --time-zone Europe/Berlin --time-ambiguous order --json";
    let ran = folder.run(words).ends(0).says(&["rows that are earlier than one before them: 1;"]);
    let warning = &ran.json()["warnings"][0];
    assert_eq!((&warning["warning"], &warning["count"]), (&json!("repeated_hour"), &json!(1)));
    let [trip] = &folder.trips("trips.db")[..] else { panic!("{ran}") };
    assert_eq!(
        (&trip["end_time"], &trip["samples"]),
        (&json!("2026-10-25T00:22:00.000Z"), &json!(8))
    );
}
