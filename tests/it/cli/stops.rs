//! Stops on the command line: in lists, by a time, by an id, and the silence between segments.

use serde_json::json;

use super::Folder;
use crate::http::Server;

const STOP: &str = "van~20260302T060300.000Z";
const TRIP: &str = "van~20260302T060000.000Z";
const BERLIN: &str = "--tz Europe/Berlin";

/// A store with a trip of two minutes, a stop of ten, a trip after a silence, and a stop over the
/// midnight of Berlin.
fn store() -> Folder {
    let line = |(time, speed, is_on): (&str, i32, bool)| {
        let lat = 48.0 + if time < "06:03" { 0.001 } else { 0.01 };
        let sample = json!({
            "device_id": "van", "time": format!("2026-03-02T{time}:00Z"), "lat": lat, "lon": 11.5,
            "speed": speed, "ignition": is_on,
        });
        format!("{sample}\n")
    };
    let log = [
        ("06:00", 9, true),
        ("06:02", 9, true),
        ("06:03", 0, false),
        ("06:08", 0, false),
        ("06:13", 0, false),
        ("06:40", 9, true),
        ("22:58", 0, false),
        ("23:03", 0, false),
    ];
    let folder = Folder::with("log", log.map(line).concat());
    folder.ingest("log");
    folder
}

#[test]
fn a_stop_is_found_where_it_is_asked_for() {
    let folder = store();
    let stops = folder.run("trips van --kind stop --format ndjson").ends(0).objects();
    assert_eq!(stops[0]["id"], STOP);
    let stands = "it stands from 2026-03-02T06:03:00.000Z to 2026-03-02T06:13:00.000Z";
    folder.run(&format!("trip {STOP}")).ends(1).says(&["no trip has the id", stands]);
    folder.run("lookup van 2026-03-02T06:05:00Z").ends(1).says(&["no trip of device", stands]);
    for kind in ["stop", "all"] {
        let by_id = folder.run(&format!("trip {STOP} --kind {kind} --json")).ends(0).json();
        let by_time = format!("lookup van 2026-03-02T06:05:00Z --kind {kind} --json");
        let by_time = folder.run(&by_time).ends(0).json();
        for (name, value) in stops[0].as_object().unwrap() {
            assert_eq!((&by_id[name], &by_time[name]), (value, value), "{name}");
        }
        assert_eq!(by_id["match"], "current");
    }
    let moves = "it is on a trip from 2026-03-02T06:00:00.000Z to 2026-03-02T06:02:00.000Z";
    folder.run(&format!("trip {TRIP} --kind stop")).ends(1).says(&["no stop has the id", moves]);
    let lookup = "lookup van 2026-03-02T06:01:00Z";
    folder.run(&format!("{lookup} --kind stop")).ends(1).says(&["no stop of device", moves]);
    let trip = folder.run(&format!("{lookup} --kind all --json")).ends(0).json();
    assert_eq!(trip["id"], TRIP);
    let none = folder.run("lookup van 2026-03-02T12:00:00Z --kind all").ends(1);
    none.says(&["no trip or stop of device `van` covers"]);
    let none = folder.run("trip van~20260302T120000.000Z --kind all").ends(1);
    none.says(&["no trip or stop has the id", "no trip or stop of its device covers"]);
}

#[test]
fn the_answer_that_an_id_is_of_a_stop_has_the_stop() {
    let folder = store();
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let problem = server.get(&format!("/v1/trips/{STOP}")).fails(404, "no_trip");
    assert_eq!(
        (&problem["stop"]["id"], &problem["stop"]["parked_s"]),
        (&json!(STOP), &json!(600.0))
    );
}

#[test]
fn why_no_trip_is_found_has_times_of_the_zone() {
    let ran = store().run(&format!("lookup van 2026-03-02T07:05 {BERLIN}")).ends(1);
    ran.says(&[
        "covers 2026-03-02T07:05:00.000+01:00: it stands from 2026-03-02T07:03:00.000+01:00 to ",
        ", which ends 2026-03-02T07:02:00.000+01:00",
        ", which starts 2026-03-02T07:40:00.000+01:00",
    ]);
}

/// The words of the lines of a table: its header, then a line for each.
fn table(folder: &Folder, words: &str) -> Vec<Vec<String>> {
    let text = folder.text(&format!("{words} --format table"));
    let lines = text.lines().filter(|line| line.contains(char::is_alphanumeric));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn tables_have_durations_places_of_stops_and_silences() {
    let folder = store();
    let trips = table(&folder, "trips van");
    let head = ["id", "start_time", "end_time", "duration", "idle", "parked"];
    assert_eq!(trips[0], [&head[..], &["km", "driver", "absorbed"]].concat());
    assert_eq!((trips.len(), trips[1][3].as_str()), (3, "2m0s"));
    let stops = table(&folder, "trips van --kind stop");
    assert_eq!(stops[0], [&head[..], &["place"]].concat());
    assert_eq!(stops[1][3..], ["10m0s", "0s", "10m0s", "48.01000,", "11.50000"]);
    let all = table(&folder, "trips van --kind all --silence");
    let more = ["kind", "km", "driver", "absorbed", "place", "silence", "silence_km"];
    assert_eq!(all[0], [&head[..], &more].concat());
    // Nothing is before the first one; the stop is a minute and a kilometre after it.
    assert!(all[1].ends_with(&["11.50000".into()]), "{:?}", all[1]);
    assert!(all[2].ends_with(&["1m0s".into(), "1.0".into()]), "{:?}", all[2]);
    assert!(all[3].ends_with(&["27m0s".into(), "0.0".into()]), "{:?}", all[3]);
}

#[test]
fn a_summary_ends_where_its_span_ends() {
    let folder = store();
    let rows = |words: &str| {
        let span = "--from 2026-03-02 --to 2026-03-03 --format ndjson";
        folder.run(&format!("summary {span} {BERLIN} {words}")).ends(0).objects()
    };
    // Two minutes of the last stop are of that day.
    let [day] = &rows("")[..] else { panic!("{:?}", rows("")) };
    assert_eq!((&day["key"], &day["parked_s"]), (&json!("2026-03-02"), &json!(720.0)));
    assert_eq!(rows("--by device")[0]["parked_s"], 720.0);
}
