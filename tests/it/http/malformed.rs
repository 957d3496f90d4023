//! A stored trip whose row is malformed, over HTTP.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Server;
use crate::cli::{Folder, minutes};

fn damage(folder: &Folder, which: &str) {
    let connection = Connection::open(folder.path("trips.db")).unwrap();
    let update = format!("UPDATE trips SET path = x'0102030405' WHERE {which}");
    assert!(connection.execute(&update, []).unwrap() > 0);
}

#[test]
fn a_malformed_trip_is_500_and_lists_and_sums_count_it() {
    let log = minutes("truck-1", &[0, 2, 40]) + &minutes("van-1", &[5]);
    let folder = Folder::with("log", log);
    folder.ingest("log");
    damage(&folder, "device_id = 'truck-1' AND samples = 2");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let lookup = |at: &str| server.get(&format!("/v1/trips/lookup?device=truck-1&at={at}"));
    for answer in
        [lookup("2024-05-01T08:01:00Z"), server.get("/v1/trips/truck-1~20240501T080000.000Z")]
    {
        assert_eq!(answer.header("retry-after"), None, "a client would repeat it for ever");
        let problem = answer.fails(500, "malformed_trip");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("truck-1") && detail.contains("verify --repair"), "{detail}");
    }
    let none = lookup("2024-05-01T08:20:00Z").fails(404, "no_trip");
    assert_eq!((&none["previous"], &none["skipped"]), (&Value::Null, &json!(1)), "{none}");
    let pair = |device: &str, minute: u32| {
        let at = format!("2024-05-01T08:{minute:02}:00Z");
        json!({"device": device, "at": at})
    };
    let pairs = json!({"pairs": [pair("truck-1", 1), pair("truck-1", 40), pair("van-1", 6)]});
    let json = "content-type: application/json\r\n";
    let answer = server.request("POST", "/v1/trips/lookup", json, pairs.to_string().as_bytes());
    let answers = answer.is(200).json()["answers"].clone();
    let codes: Vec<_> = (0..3).map(|nth| answers[nth]["code"].clone()).collect();
    assert_eq!(codes, [json!("malformed_trip"), Value::Null, json!("no_trip")]);

    let count = |target: &str| {
        let page = server.get(target).is(200).json();
        (page["trips"].as_array().unwrap().len(), page["skipped"].as_u64().unwrap())
    };
    assert_eq!(count("/v1/devices/truck-1/trips"), (1, 1));
    assert_eq!(count("/v1/devices/truck-1/trips?order=desc"), (1, 1));
    assert_eq!(count("/v1/devices/truck-1/trips?from=2024-05-01T08:30:00Z"), (1, 0));
    assert_eq!(count("/v1/trips?day=2024-05-01"), (2, 1));
    let table = server.get("/v1/trips.csv?day=2024-05-01").is(200);
    assert_eq!(table.header("tstar-skipped"), Some("1"));
    assert_eq!(server.get("/v1/trips.csv?day=2024-05-02").header("tstar-skipped"), None);
    let sums = server.get("/v1/summary?day=2024-05-01").is(200).json();
    assert_eq!((&sums["total"]["trips"], &sums["skipped"]), (&json!(2), &json!(1)), "{sums}");

    damage(&folder, "device_id = 'truck-1'");
    assert_eq!(count("/v1/devices/truck-1/trips"), (0, 2));
    server.get("/v1/devices/truck-2/trips").fails(404, "no_device");
}
