//! The HTTP server of `run` answers from memory what the store does not have yet.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::keyspace::{log, store};
use super::{PARTITIONS, Topic};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::http::document::{faults, schema_of};
use crate::http::{Answer, Server};
use crate::keyspace::{ClusteringOrder, Keyspace};

/// Samples whose way into a lookup is measured.
const SAMPLES: u32 = 9;

/// Half of them are in a lookup within this time.
const SOON: Duration = Duration::from_millis(1_500);

fn lookup(server: &Server, minute: u32) -> Answer {
    server.get(&format!("/v1/trips/lookup?device=truck-1&at=2024-05-01T08:{minute:02}:00Z"))
}

/// A trip without the fields that depend on where it was found and when.
fn trip(answer: &Value) -> Value {
    let mut trip = answer.clone();
    let fields = trip.as_object_mut().unwrap();
    fields.retain(|name, _| !matches!(name.as_str(), "fresh" | "open"));
    trip
}

/// Sends samples, and looks each up until it is found, in a store that gets nothing for an hour.
fn samples_are_found_before_they_are_stored(store: &str) {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let (folder, flags) = (Folder::new(), log(&topic));
    let waits = "--flush-interval 1h --max-staleness 1h";
    let words = format!("run {flags} {store} --from earliest --create-topics {waits}");
    let server = Server::start(&folder, &words);
    let mut took = Vec::new();
    for minute in 0..=SAMPLES {
        topic.send_lines(minutes("truck-1", &[minute]).as_bytes(), "no-device");
        let sent = Instant::now();
        let found = || Some(lookup(&server, minute)).filter(|answer| answer.status == 200);
        let found = until("the sample to be found", found).json();
        took.push(sent.elapsed());
        assert_eq!((&found["fresh"], &found["samples"]), (&json!(true), &json!(minute + 1)));
    }
    // The first one waits for the assignment of the partitions.
    took.remove(0);
    took.sort();
    println!("{store}: found after {took:.1?}");
    assert!(took[took.len() / 2] <= SOON, "{took:?}");
    let found = lookup(&server, 3).json();
    let (id, version) = (found["id"].as_str().unwrap(), found["version"].as_i64().unwrap());
    let by_id = server.get(&format!("/v1/trips/{id}")).is(200).json();
    assert_eq!((&by_id["fresh"], &by_id["match"]), (&json!(true), &json!("current")));
    let document = server.get("/openapi.json").is(200).json();
    let schema = schema_of(&document, "/v1/trips/{id}", "get", 200);
    assert_eq!(faults(&document, schema, &by_id), [] as [String; 0]);
    let list = server.get("/v1/devices/truck-1/trips").is(200).json();
    assert_eq!(list["trips"], json!([found]));
    // A table has the same columns, whatever is fresh in it.
    let csv = |span: &str| {
        let list = server.get(&format!("/v1/devices/truck-1/trips.csv{span}")).is(200);
        String::from_utf8(list.body).unwrap().trim_end().to_owned()
    };
    let (header, row) = (csv("?from=2024-06-01T00:00:00Z"), csv(""));
    assert!(header.ends_with(",tags,open,fresh"), "{header}");
    assert!(row.starts_with(&format!("{header}\n{id},")) && row.ends_with(",true"), "{row}");
    let at = "2024-05-01T08:03:00Z";
    let pairs = format!("{{\"pairs\":[{{\"device\":\"truck-1\",\"at\":\"{at}\"}}]}}\n");
    let many = server.request("POST", "/v1/trips/lookup", "", pairs.as_bytes()).is(200).json();
    assert_eq!(many["answers"][0]["trip"], found);
    requires_a_version(&server, id, version);
    // The command line reads the store, which has nothing yet.
    folder.run(&format!("lookup truck-1 {at} {store}")).ends(1);
    assert!(server.metric("tstar_memory_questions_total{result=\"answered\"}") > Some(0.0));
    server.drain();

    let server = Server::start(&folder, &format!("serve {store}"));
    let stored = lookup(&server, 3).is(200).json();
    assert_eq!((trip(&stored), &stored["fresh"]), (trip(&found), &Value::Null));
    requires_a_version(&server, id, version);
    let said = server.drain();
    assert!(said.contains("stopping; a second signal stops at once"), "it stores nothing: {said}");
}

/// An answer includes the version that a request names, or there is none.
fn requires_a_version(server: &Server, id: &str, version: i64) {
    let at = |minute: u32| format!("2024-05-01T08:{minute:02}:00Z");
    for (target, found) in [
        (format!("/v1/trips/lookup?device=truck-1&at={}", at(3)), 200),
        (format!("/v1/trips/lookup?device=truck-1&at={}", at(50)), 404),
        (format!("/v1/trips/{id}?"), 200),
        ("/v1/devices/truck-1/trips?".to_owned(), 200),
    ] {
        server.get(&target).is(found);
        let later = server.get(&format!("{target}&min_version={}", version + 1_000));
        assert_eq!(later.header("retry-after"), Some("1"), "{later:?}");
        later.fails(503, "not_yet");
        if found == 200 {
            server.get(&format!("{target}&min_version={version}")).is(200);
        }
    }
    server.get(&format!("/v1/trips/{id}?min_version=x")).fails(400, "bad_request");
}

/// The row of a stop that only grows is written seldom; where the device was last is known.
#[test]
fn a_parked_device_was_last_seen_at_its_latest_sample() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let (folder, flags) = (Folder::new(), log(&topic));
    let store = "--store sqlite:trips.db";
    let waits = "--flush-interval 50ms --max-staleness 1s --stop-staleness 1h";
    let words = format!("run {flags} {store} --from earliest --create-topics {waits}");
    let server = Server::start(&folder, &words);
    for minute in 0..3 {
        let time = format!("2024-05-01T08:{minute:02}:00.000Z");
        let sample = json!({
            "device_id": "van", "time": time, "lat": 1.0, "lon": 2.0, "ignition": false
        });
        topic.send_lines(format!("{sample}\n").as_bytes(), "no-device");
        let is_last = || {
            let found = server.get("/v1/devices");
            let last = (found.status == 200).then(|| found.json()["devices"][0]["last"].clone());
            last.filter(|last| last["time"] == time)
        };
        let last = until("the last sample of the device", is_last);
        assert_eq!(last["kind"], "stop");
    }
    let stored =
        folder.run(&format!("trips van --kind stop {store} --format ndjson")).ends(0).objects();
    assert_eq!(stored[0]["samples"], 1, "its row waits");
    server.drain();
}

#[test]
fn samples_are_found_before_a_file_has_them() {
    let folder = Folder::new();
    let path = folder.path("fresh.db");
    samples_are_found_before_they_are_stored(&format!("--store sqlite:{}", path.display()));
}

#[test]
fn samples_are_found_before_a_keyspace_has_them() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    samples_are_found_before_they_are_stored(&store(&keyspace));
}
