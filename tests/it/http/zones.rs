//! Days and times of a zone over HTTP.

use serde_json::{Value, json};

use super::Server;
use crate::cli::zones::{SPRING, store};

const BERLIN: &str = "tz=Europe/Berlin";

fn devices(answer: &Value, list: &str) -> Vec<String> {
    let items = answer[list].as_array().unwrap().iter();
    items.map(|it| it["device_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn days_and_times_are_those_of_the_zone() {
    let folder = store(&SPRING);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    for (target, list) in
        [("/v1/trips?day=2024-03-31", "trips"), ("/v1/devices?day=2024-03-31", "devices")]
    {
        let found =
            |more: &str| devices(&server.get(&format!("{target}{more}")).is(200).json(), list);
        assert_eq!(found(""), ["after", "late"], "{target}");
        assert_eq!(found(&format!("&{BERLIN}")), ["early", "late"], "{target}");
    }
    let first = server.get(&format!("/v1/devices?day=2024-03-31&limit=1&{BERLIN}")).is(200).json();
    assert_eq!(first["devices"][0]["trips"], 1);
    let next = first["next"].as_str().unwrap();
    let target = format!("/v1/devices?day=2024-03-31&limit=1&{BERLIN}&cursor={next}");
    let last = server.get(&target).is(200).json();
    assert_eq!((devices(&last, "devices"), &last["next"]), (vec!["late".into()], &Value::Null));
    let count = |span: &str| {
        let target = format!("/v1/devices/early/trips?{span}&{BERLIN}");
        server.get(&target).is(200).json()["trips"].as_array().unwrap().len()
    };
    assert_eq!(count("from=2024-03-31T00:15:00"), 1);
    assert_eq!(count("from=2024-03-31T00:15:01"), 0);
    assert_eq!(count("day=2024-03-31"), 1);
    assert_eq!(count("day=2024-03-30"), 0);
    let both = format!("/v1/devices/early/trips?day=2024-03-31&from=2024-03-31&{BERLIN}");
    let faults = server.get(&both).fails(400, "bad_request")["faults"].clone();
    let either = json!([{"where": "day", "problem": "give either a day, or from and to"}]);
    assert_eq!(faults, either);
    let lookup = "/v1/trips/lookup?device=early&at=2024-03-31T00:07";
    let trip = server.get(&format!("{lookup}&{BERLIN}")).is(200).json();
    assert_eq!(trip["start_time"], "2024-03-30T23:05:00.000Z");
    let faults = server.get(lookup).fails(400, "bad_request")["faults"].clone();
    assert!(faults[0]["problem"].as_str().unwrap().contains("has no offset"), "{faults}");
    // An hour longer than 31 days, as the clocks are put back.
    let october = "from=2024-10-01&to=2024-11-01";
    server.get(&format!("/v1/trips?{october}&{BERLIN}")).is(200);
    server.get(&format!("/v1/trips?{october}")).fails(400, "bad_request");
}

#[test]
fn csv_has_the_offset_of_the_zone_and_json_does_not() {
    let folder = store(&SPRING);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    for list in ["/v1/devices/late/trips", "/v1/trips"] {
        let get = |form: &str, more: &str| {
            server.get(&format!("{list}{form}?from=2024-03-31&to=2024-04-01&{BERLIN}{more}"))
        };
        let local = "2024-03-31T23:45:00.000+02:00,2024-03-31T23:55:00.000+02:00";
        assert!(get(".csv", "").is(200).text().contains(local), "{list}");
        let trips = get("", "").is(200).json();
        let late = trips["trips"].as_array().unwrap().last().unwrap();
        assert_eq!(late["start_time"], "2024-03-31T21:45:00.000Z");
        assert!(!get(".geojson", "").is(200).text().contains("+02:00"), "{list}");
    }
}

#[test]
fn a_zone_that_does_not_exist_is_a_fault() {
    let folder = store(&SPRING);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    for target in [
        "/v1/trips?day=2024-03-31",
        "/v1/devices?day=2024-03-31",
        "/v1/devices/late/trips?limit=1",
        "/v1/summary?day=2024-03-31",
    ] {
        let problem = server.get(&format!("{target}&tz=Mars/Phobos")).fails(400, "bad_request");
        let problem_text = "`Mars/Phobos` is not a time zone; write an IANA name such as \
                            Europe/Berlin, or UTC";
        let fault = json!([{"where": "tz", "problem": problem_text}]);
        assert_eq!(problem["faults"], fault, "{target}");
    }
    let skipped = server.get(&format!("/v1/devices/late/trips?from=2024-03-31T02:30:00&{BERLIN}"));
    let faults = skipped.fails(400, "bad_request")["faults"].clone();
    assert_eq!(faults[0]["where"], "from");
    assert!(faults[0]["problem"].as_str().unwrap().contains("does not exist in Europe/Berlin"));
}
