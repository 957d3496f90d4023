//! The time and the way between two segments of a device, over HTTP and on the command line.

use serde_json::{Value, json};

use super::Server;
use crate::cli::Folder;

/// Two trips with a stop behind the first, and a silence behind that.
fn log() -> String {
    let sample = |(minute, e3, is_on): (u32, u32, bool)| {
        let time = format!("2024-05-01T{:02}:{:02}:00Z", 8 + minute / 60, minute % 60);
        let lat = f64::from(e3) / 1000.0;
        json!({"device_id": "truck-17", "time": time, "lat": lat, "lon": 13.4, "ignition": is_on})
            .to_string()
            + "\n"
    };
    let drive = [(0, 52_500, true), (4, 52_506, true), (6, 52_507, false), (10, 52_507, false)];
    let later = [(60, 52_591, true), (63, 52_594, true)];
    drive.into_iter().chain(later).map(sample).collect()
}

fn silences(answer: &Value) -> Vec<[Option<f64>; 2]> {
    let trips = answer["trips"].as_array().unwrap().iter();
    trips.map(|trip| ["silence_s", "silence_m"].map(|name| trip[name].as_f64())).collect()
}

#[test]
fn each_segment_has_the_silence_before_it_if_that_is_asked_for() {
    let folder = Folder::with("log", log());
    folder.ingest("log");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let list =
        |query: &str| server.get(&format!("/v1/devices/truck-17/trips?{query}")).is(200).json();
    // A thousandth of a degree of latitude is 111.195 m.
    let (none, stop) = ([None, None], [Some(120.0), Some(111.2)]);
    let trip = [Some(3000.0), Some(9340.4)];
    assert_eq!(silences(&list("silence=true&kind=all")), [none, stop, trip]);
    assert_eq!(silences(&list("silence=true")), [none, trip], "a stop lies between");
    assert_eq!(silences(&list("silence=true&order=desc")), [trip, none]);
    let first = list("silence=true&limit=1");
    assert!(
        first["trips"][0]["silence_s"].is_null() && first["trips"][0].get("silence_m").is_some()
    );
    let next = list(&format!("silence=true&limit=1&cursor={}", first["next"].as_str().unwrap()));
    assert_eq!(silences(&next), [trip]);
    let from = "from=2024-05-01T09:01:00Z&silence=true&fields=id";
    assert_eq!(list(from)["trips"][0].as_object().unwrap().len(), 3);
    assert_eq!(silences(&list(from)), [trip]);
    assert!(list("kind=all")["trips"][1].get("silence_s").is_none());
    let text = server.get("/v1/devices/truck-17/trips.csv?silence=true").is(200).text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].ends_with(",silence_s,silence_m") && lines[1].ends_with(",,"), "{text}");
    assert!(lines[2].ends_with(",3000,9340.4"), "{text}");
    server.get("/v1/devices/truck-17/trips.parquet?silence=true").fails(400, "bad_request");
    server.get("/v1/trips?day=2024-05-01&silence=true").fails(400, "bad_request");

    let printed = folder.run("trips truck-17 --silence").ends(0).objects();
    assert_eq!(silences(&json!({ "trips": printed })), [none, trip]);
    let last = folder.run("trips truck-17 --silence --kind all --order desc --limit 2").ends(0);
    assert_eq!(silences(&json!({ "trips": last.objects() })), [trip, stop]);
    folder.run("trips --day 2024-05-01 --silence").ends(2).prints_nothing();
}

/// More stops and trips between two trips than are read at once.
#[test]
fn a_silence_is_found_behind_many_segments() {
    let minute = |minute: u32, is_on: bool| {
        let time = 1_714_521_600_000_u64 + u64::from(minute) * 60_000;
        json!({"device_id": "a", "time": time, "lat": 1, "lon": 2, "ignition": is_on}).to_string()
            + "\n"
    };
    let mut log = minute(0, true);
    log += &(1..=120).map(|nth| minute(nth * 10, false)).collect::<String>();
    log += &minute(1300, true);
    let folder = Folder::with("log", log);
    folder.ingest("log");
    let trips = folder.run("trips a --silence").ends(0).objects();
    assert_eq!(trips.len(), 2);
    assert_eq!(silences(&json!({ "trips": trips })), [[None, None], [Some(6000.0), Some(0.0)]]);
}
