//! The list of devices, with where each was last.

use rusqlite::Connection;
use serde_json::Value;

use super::{Server, worked_example};
use crate::cli::Folder;

/// The devices of all pages of a list.
fn devices(server: &Server, first: &str) -> Vec<Value> {
    let (mut target, mut found) = (first.to_owned(), Vec::new());
    loop {
        let page = server.get(&target).is(200).json();
        found.extend(page["devices"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { return found };
        target = format!("{first}&cursor={next}");
    }
}

#[test]
fn a_device_has_the_end_of_its_last_trip() {
    let folder = Folder::new();
    folder.write_fleet("fleet.ndjson", "");
    folder.ingest("fleet.ndjson --store sqlite:trips.db");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let all = devices(&server, "/v1/devices?limit=7");
    assert!(all.len() > 7, "{} devices", all.len());
    for device in all {
        let token = device["token"].as_str().unwrap();
        let target = format!("/v1/devices/{token}/trips?order=desc&limit=1");
        let trip = &server.get(&target).is(200).json()["trips"][0];
        let last = &device["last"];
        assert_eq!(
            (&last["time"], &last["position"], &last["trip_id"]),
            (&trip["end_time"], &trip["end"], &trip["id"]),
            "{device}"
        );
        assert_eq!(device["trips"], Value::Null);
    }
    let without = devices(&server, "/v1/devices?limit=7&last=false");
    assert!(without.iter().all(|device| device["last"].is_null()), "{without:?}");
    server.drain();
}

#[test]
fn the_devices_of_a_day_have_their_number_of_trips() {
    let folder = Folder::new();
    worked_example(&folder);
    // It ends on the day after its start.
    let time = |minute| format!("2024-05-0{minute}Z\",\"lat\":52.5,\"lon\":13.5}}\n");
    let times = ["1T23:57:00", "2T00:01:00"].map(time);
    let line = times.map(|time| format!("{{\"device_id\":\"night\",\"time\":\"{time}"));
    folder.write("night.ndjson", line.concat());
    folder.ingest("night.ndjson --store sqlite:trips.db");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let counts = |day: &str| -> Vec<(String, u64)> {
        let found = devices(&server, &format!("/v1/devices?day={day}&limit=1"));
        let count = |device: &Value| {
            (device["device_id"].as_str().unwrap().to_owned(), device["trips"].as_u64().unwrap())
        };
        found.iter().map(count).collect()
    };
    let named = |counts: &[(&str, u64)]| -> Vec<(String, u64)> {
        counts.iter().map(|(device, count)| ((*device).to_owned(), *count)).collect()
    };
    assert_eq!(counts("2024-05-01"), named(&[("a b", 1), ("night", 1), ("truck-17", 2)]));
    assert_eq!(counts("2024-05-02"), named(&[("night", 1)]));
    assert_eq!(counts("2024-05-03"), named(&[]));
    let night = &devices(&server, "/v1/devices?day=2024-05-01")[1]["last"];
    assert_eq!(night["time"], "2024-05-02T00:01:00.000Z");
    assert_eq!(night["trip_id"], "night~20240501T235700.000Z");
    server.drain();
}

/// The tags of a page take megabytes: not those of all lists at once. Answers have a limit of their
/// own; these have no device.
#[test]
fn lists_of_devices_with_many_tags_take_turns() {
    let folder = Folder::new();
    let sample = |nth| {
        format!(
            "{{\"device_id\":\"d{nth}\",\"time\":\"2024-05-01T08:00:00Z\",\"lat\":52,\"lon\":13}}\n"
        )
    };
    folder.write("samples.ndjson", (0..40).map(sample).collect::<String>());
    folder.ingest("samples.ndjson --store sqlite:trips.db");
    folder.run("tag --device d0 key=value --store sqlite:trips.db").ends(0);
    let store = Connection::open(folder.path("trips.db")).unwrap();
    let devices = "WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 62)
        INSERT INTO trip_tags SELECT device_id, t_star, 'key' || n, ?1, 1, n + 1
        FROM n, (SELECT DISTINCT device_id FROM days_of_device), (SELECT t_star FROM trip_tags)";
    assert_eq!(store.execute(devices, [&"\"".repeat(4096)]).unwrap(), 40 * 63);
    drop(store);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let page = server.get("/v1/devices?last=false").is(200).json();
    assert!(page["devices"].as_array().unwrap().len() < 40 && page["next"].is_string());
    let target = "/v1/devices?last=false&tag=none";
    let alone = server.peak_memory();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| server.get(target).is(200));
        }
    });
    let more = server.peak_memory() - alone;
    assert!(more < 128 << 20, "{more} bytes more than for one list");
    server.drain();
}
