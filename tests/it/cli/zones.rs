//! Days and times of a zone on the command line, around the changes of its clocks.

use serde_json::{Value, json};
use tstar::internals::model::time::parse_time;

use super::Folder;

/// The zone of most tests.
pub const BERLIN: &str = "--tz Europe/Berlin";

/// Trips of ten minutes around the day of Berlin that has 23 hours: on the day before, early and
/// late on that day, and on the day after; each is of a device of its own.
pub const SPRING: [(&str, &str); 4] = [
    ("before", "2024-03-30T22:40:00Z"),
    ("early", "2024-03-30T23:05:00Z"),
    ("late", "2024-03-31T21:45:00Z"),
    ("after", "2024-03-31T22:05:00Z"),
];

/// A store with trips that start at these times.
pub fn store(starts: &[(&str, &str)]) -> Folder {
    let mut log = String::new();
    for (device, start) in starts {
        for minute in [0, 5, 10] {
            let time = parse_time(start).unwrap() + minute * 60_000;
            let lat = 52.0 + 0.01 * minute as f64;
            let sample = json!({"device_id": device, "time": time, "lat": lat, "lon": 13.5});
            log += &format!("{sample}\n");
        }
    }
    let folder = Folder::with("log", log);
    folder.ingest("log");
    folder
}

fn devices(folder: &Folder, words: &str) -> Vec<String> {
    let found = folder.run(&format!("{words} --format ndjson")).ends(0).objects();
    found.iter().map(|it| it["device_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_day_is_that_of_the_zone() {
    let mut folder = store(&SPRING);
    for words in ["trips", "export", "devices"] {
        let found = |flags: &str| {
            let mut found = devices(&folder, &format!("{words} --day 2024-03-31 {flags}"));
            found.sort_unstable();
            found
        };
        assert_eq!(found(""), ["after", "late"], "{words}");
        assert_eq!(found("--tz UTC"), ["after", "late"], "{words}");
        assert_eq!(found(BERLIN), ["early", "late"], "{words}");
        assert_eq!(found("--tz Asia/Kathmandu"), ["before", "early"], "{words}");
    }
    assert_eq!(devices(&folder, &format!("trips early --day 2024-03-31 {BERLIN}")), ["early"]);
    assert_eq!(devices(&folder, "trips early --day 2024-03-31"), [] as [&str; 0]);
    let none = folder.run(&format!("trips --day 2024-04-02 {BERLIN}")).ends(0).prints_nothing();
    none.says(&["no trip touches 2024-04-02 (Europe/Berlin)", "around: 2024-04-01"]);
    // As a setting, too.
    folder.write("tstar.toml", "tz = \"Europe/Berlin\"\n");
    assert_eq!(devices(&folder, "export --day 2024-03-31"), ["early", "late"]);
    folder.env("TSTAR_TZ", "UTC");
    assert_eq!(devices(&folder, "export --day 2024-03-31"), ["after", "late"]);
}

#[test]
fn times_without_an_offset_are_of_the_zone() {
    let folder = store(&SPRING);
    for words in ["trips early", "export --device early"] {
        let count = |flags: &str| devices(&folder, &format!("{words} {flags} {BERLIN}")).len();
        assert_eq!(count("--from 2024-03-31T00:15:00"), 1, "{words}");
        assert_eq!(count("--from 2024-03-31T00:15:01"), 0, "{words}");
        assert_eq!(count("--to 2024-03-31T00:05"), 1, "{words}");
        assert_eq!(count("--to 2024-03-31"), 0, "{words}");
        assert_eq!(count("--from 2024-03-30T23:15:00Z"), 1, "{words}");
        for (flag, says) in [
            ("--from 2024-03-31T02:30:00", "does not exist in Europe/Berlin"),
            ("--to 2024-10-27T02:30:00", "occurs twice in Europe/Berlin"),
        ] {
            let ran = folder.run(&format!("{words} {flag} {BERLIN}")).ends(2).prints_nothing();
            ran.says(&[says, "write it with an offset, such as"]);
        }
        let ran = folder.run(&format!("{words} --from 2024-03-31T00:15:00")).ends(2);
        ran.prints_nothing().says(&["`2024-03-31T00:15:00` has no offset; add one, such as `Z`"]);
        let ran = folder.run(&format!("{words} --tz europe/berlin")).ends(2).prints_nothing();
        ran.says(&["--tz", "`europe/berlin` is not a time zone", "did you mean `Europe/Berlin`?"]);
    }
    let found = folder.run(&format!("lookup early 2024-03-31T00:10 --json {BERLIN}")).ends(0);
    assert_eq!(found.json()["start_time"], "2024-03-30T23:05:00.000Z", "JSON is UTC");
}

/// The columns of the first row of CSV.
fn cells(text: &str, names: &[&str]) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    let cell = |name: &&str| row[head.iter().position(|it| it == *name).unwrap()].to_owned();
    names.iter().map(cell).collect()
}

#[test]
fn tables_and_csv_have_the_offset_of_the_zone() {
    let folder = store(&[("truck-17", "2024-10-27T00:55:00Z")]);
    let times = ["t_star", "start_time", "end_time"];
    // The clocks are put back on the way.
    let local = [
        "2024-10-27T02:55:00.000+02:00",
        "2024-10-27T02:55:00.000+02:00",
        "2024-10-27T02:05:00.000+01:00",
    ];
    let utc = ["2024-10-27T00:55:00.000Z", "2024-10-27T00:55:00.000Z", "2024-10-27T01:05:00.000Z"];
    let id = "truck-17~20241027T005500.000Z";
    for words in ["trips truck-17", "export", &format!("trip {id}")] {
        let csv = |flags: &str| folder.text(&format!("{words} --format csv {flags}"));
        assert_eq!(cells(&csv(BERLIN), &times), local, "{words}");
        assert_eq!(cells(&csv(""), &times), utc, "{words}");
    }
    let points = |flags: &str| folder.text(&format!("export --points --format csv {flags}"));
    assert_eq!(cells(&points(BERLIN), &["time"]), local[..1]);
    assert_eq!(cells(&points(""), &["time"]), utc[..1]);
    for words in ["trips truck-17", "lookup truck-17 2024-10-27T01:00:00Z"] {
        let table = |flags: &str| folder.text(&format!("{words} --format table {flags}"));
        assert!(table(BERLIN).contains(local[0]) && table(BERLIN).contains(local[2]), "{words}");
        assert!(!table(BERLIN).contains(utc[0]) && table("").contains(utc[0]), "{words}");
        assert!(table(BERLIN).contains(id), "ids are UTC");
    }
    for format in ["ndjson", "geojson", "gpx", "kml"] {
        let export = |flags: &str| folder.text(&format!("export --format {format} {flags}"));
        assert_eq!(export(BERLIN), export(""), "{format} is UTC");
    }
    let trip: Value = folder.run(&format!("trip {id} --json {BERLIN}")).ends(0).json();
    assert_eq!(trip["start_time"], utc[0]);
}

/// A year that has more than its days in hours of the zone, as the clocks are put back in it.
#[test]
fn a_summary_reads_a_year_of_the_zone_at_most() {
    let folder = store(&SPRING);
    let summary = |to: &str| {
        let span = format!("--from 2023-10-29 --to {to}");
        folder.run(&format!("summary {span} {BERLIN} --by device --format ndjson"))
    };
    assert_eq!(summary("2024-10-29").ends(0).objects().len(), SPRING.len());
    let more = summary("2024-10-30").ends(2).prints_nothing();
    more.says(&["--to is more than 366 days after --from"]);
}
