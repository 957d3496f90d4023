//! Queries for trips and devices, in all their forms.

use serde_json::Value;

use super::{Server, worked_example};
use crate::cli::Folder;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::Topic;

const ID: &str = "truck-17~20240501T080000.000Z";
const RETIRED: &str = "truck-17~20240501T081000.000Z";

#[test]
fn a_time_finds_the_trip_that_covers_it_or_its_neighbours() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let at = |at: &str| server.get(&format!("/v1/trips/lookup?device=truck-17&at={at}"));
    let found = at("2024-05-01T08:05:00Z").is(200);
    assert_eq!(found.json()["id"], ID);
    assert_eq!(found.json()["open"], false);
    // The same time with an offset, and as ms since 1970.
    assert_eq!(at("2024-05-01T10:05:00%2B02:00").is(200).json(), found.json());
    assert_eq!(at("1714550700000").is(200).json(), found.json());
    let expected = folder.run("lookup truck-17 2024-05-01T08:05:00Z --json").ends(0).json();
    assert_eq!(expected, found.json(), "the command line differs");
    let metrics = server.get("/metrics").is(200).text();
    for counted in [
        "tstar_lookup_duration_seconds_count{result=\"found\"} 3",
        "tstar_store_operation_duration_seconds_count{op=\"covering\"} 3",
    ] {
        assert!(metrics.contains(counted), "{counted} is not in {metrics}");
    }

    let between = at("2024-05-01T08:30:00Z").fails(404, "no_trip");
    assert_eq!(between["previous"]["id"], ID);
    assert_eq!(between["next"]["start_time"], "2024-05-01T08:40:00.000Z");
    let before = at("2024-04-01T00:00:00Z").fails(404, "no_trip");
    assert_eq!((&before["previous"], &before["next"]["id"]), (&Value::Null, &ID.into()));
    let other = server.get("/v1/trips/lookup?device=truck-18&at=0").fails(404, "no_device");
    let listed = server.get("/v1/devices/truck-18/trips").fails(404, "no_device");
    assert_eq!(other, listed);

    folder.run("forget truck-17 --before 2024-05-01T08:20:00Z --yes").ends(0);
    at("2024-05-01T08:05:00Z").fails(410, "gone");
    server.get(&format!("/v1/trips/{ID}")).fails(410, "gone");
    folder.run("forget truck-17 --before 2024-05-02T00:00:00Z --yes").ends(0);
    let erased = at("2024-05-02T00:00:00Z").fails(404, "no_trip");
    assert_eq!((&erased["previous"], &erased["next"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_id_of_any_form_finds_its_trip_also_a_retired_one() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let forms = folder.run(&format!("id decode {RETIRED} --json")).ends(0).json();
    let ids = [RETIRED, forms["bytes"].as_str().unwrap(), forms["uuid"].as_str().unwrap()];
    for id in ids {
        let answer = server.get(&format!("/v1/trips/{id}")).is(200);
        assert_eq!(answer.header("content-location"), Some(format!("/v1/trips/{ID}").as_str()));
        let trip = answer.json();
        assert_eq!((&trip["id"], &trip["match"]), (&ID.into(), &"retired".into()), "{trip}");
        assert_eq!((&trip["requested_id"], &trip["merged"]), (&id.into(), &true.into()), "{trip}");
    }
    assert_eq!(server.get(&format!("/v1/trips/{ID}")).json()["match"], "current");
    let inside = "/v1/trips/truck-17~20240501T080300.000Z";
    assert_eq!(server.get(inside).json()["match"], "covers");
    server.get("/v1/trips/truck-17~20240501T090000.000Z").fails(404, "no_trip");
    server.get("/v1/trips/nonsense").fails(400, "bad_id");
    server.get("/v1/trips/truck-17~2024").fails(400, "bad_id");
    let encoded = ID.replace('~', "%7E").replace(':', "%3A");
    assert_eq!(server.get(&format!("/v1/trips/{encoded}")).is(200).json()["id"], ID);

    let geo = server.get(&format!("/v1/trips/{ID}.geojson")).is(200);
    assert_eq!(geo.header("content-type"), Some("application/geo+json"));
    assert_eq!(geo.json()["features"][0]["geometry"]["type"], "LineString");
    let gpx = server.get(&format!("/v1/trips/{ID}.gpx")).is(200);
    assert_eq!(gpx.text().matches("<trkpt").count(), 5);
    let path = |more: &str| server.get(&format!("/v1/trips/{ID}?path=true{more}")).is(200).json();
    assert_eq!(path("")["path"]["times"].as_array().unwrap().len(), 5);
    // All five lie on one meridian.
    assert_eq!(path("&simplify=50")["path"]["times"].as_array().unwrap().len(), 2);
    let feature = server.get(&format!("/v1/trips/{ID}.geojson?simplify=50")).is(200).json();
    let points = feature["features"][0]["geometry"]["coordinates"].as_array().unwrap().len();
    let gpx = server.get(&format!("/v1/trips/{ID}.gpx?simplify=50")).is(200).text();
    assert_eq!((points, gpx.matches("<trkpt").count()), (2, 2));
}

#[test]
fn an_answer_that_the_client_has_already_is_not_sent_again() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let target = format!("/v1/trips/{ID}");
    let tag = server.get(&target).header("etag").unwrap().to_owned();
    let again =
        |tag: &str| server.request("GET", &target, &format!("if-none-match: {tag}\r\n"), b"");
    assert!(again(&tag).is(304).body.is_empty());
    assert!(again(&format!("\"x\", {tag}")).is(304).body.is_empty());
    again("\"x\"").is(200);
    folder.write("late.ndjson", crate::cli::minutes("truck-17", &[13]));
    folder.ingest("late.ndjson --store sqlite:trips.db");
    let grown = again(&tag).is(200);
    assert_ne!(grown.header("etag"), Some(tag.as_str()));
    assert_eq!(grown.json()["end_time"], "2024-05-01T08:13:00.000Z");
}

#[test]
fn pages_together_are_the_whole_list_in_either_order() {
    let folder = Folder::new();
    folder.write_fleet("fleet.ndjson", "");
    folder.ingest("fleet.ndjson --store sqlite:trips.db");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let all = |first: &str, name: &str| {
        let (mut target, mut found, mut pages) = (first.to_owned(), Vec::new(), 0);
        loop {
            let answer = server.get(&target).is(200);
            let page = answer.json();
            found.extend(page[name].as_array().unwrap().iter().cloned());
            pages += 1;
            let Some(next) = page["next"].as_str() else { break };
            let link = answer.header("link").unwrap();
            assert!(link.contains(&format!("cursor={next}>; rel=\"next\"")), "{link}");
            target = link[1..link.find('>').unwrap()].to_owned();
        }
        assert!(pages > 1, "{first} is one page");
        found
    };
    let devices = all("/v1/devices?limit=7", "devices");
    let listed = folder.run("devices --format ndjson").ends(0).objects();
    let ids = |devices: &[Value]| -> Vec<Value> {
        devices.iter().map(|device| device["device_id"].clone()).collect()
    };
    assert_eq!(ids(&devices), ids(&listed));
    let device = devices[3]["device_id"].as_str().unwrap();
    let token = devices[3]["token"].as_str().unwrap();
    for order in ["asc", "desc"] {
        let found = all(&format!("/v1/devices/{token}/trips?limit=3&order={order}"), "trips");
        let expected = folder.run(&format!("trips {device} --order {order}")).ends(0).objects();
        assert_eq!(without_open(found), expected);
    }
    let first = without_open(all(&format!("/v1/devices/{token}/trips?limit=3"), "trips"));
    let day = &first[first.len() / 2]["start_time"].as_str().unwrap()[..10];
    let found = without_open(all(&format!("/v1/trips?day={day}&limit=5"), "trips"));
    let mut expected = folder.run(&format!("trips --day {day}")).ends(0).objects();
    expected.sort_by_key(|trip| (trip["device_id"].to_string(), trip["start_time"].to_string()));
    assert_eq!(found, expected);
    let (from, to) =
        (first[1]["end_time"].as_str().unwrap(), first[3]["start_time"].as_str().unwrap());
    let target = format!("/v1/devices/{token}/trips?from={from}&to={to}");
    let overlapping =
        without_open(server.get(&target).is(200).json()["trips"].as_array().unwrap().clone());
    assert_eq!(overlapping, first[1..=3]);
}

fn without_open(mut trips: Vec<Value>) -> Vec<Value> {
    for trip in &mut trips {
        assert!(trip.as_object_mut().unwrap().remove("open").is_some());
    }
    trips
}

#[test]
fn many_times_are_answered_in_order() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let body = r#"{"pairs":[
        {"device":"a b","at":"2024-05-01T08:05:00Z"},
        {"device":"unknown","at":1714550700000},
        {"device":"truck-17","at":"2024-05-01T08:40:00Z"}]}"#;
    let answer = server.request("POST", "/v1/trips/lookup", "", body.as_bytes()).is(200).json();
    let answers = answer["answers"].as_array().unwrap();
    assert_eq!(answers[0]["trip"]["id"], "a~20b~20240501T080500.000Z");
    assert_eq!((&answers[1]["trip"], &answers[1]["code"]), (&Value::Null, &"no_trip".into()));
    assert_eq!(answers[2]["trip"]["start_time"], "2024-05-01T08:40:00.000Z");
    assert_eq!(
        server.get("/v1/devices/a~20b/trips").is(200).json()["trips"][0],
        answers[0]["trip"]
    );
}

#[test]
fn everything_that_is_wrong_with_a_request_is_reported_at_once() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let faults = |problem: &Value| -> Vec<String> {
        let faults = problem["faults"].as_array().unwrap().iter();
        faults.map(|fault| fault["where"].as_str().unwrap().to_owned()).collect()
    };
    let problem = server.get("/v1/trips/lookup?at=yesterday&simplify=-1&colour=red");
    let problem = problem.fails(400, "bad_request");
    assert_eq!(faults(&problem), ["device", "at", "simplify", "colour"]);
    let target = "/v1/devices/a%00b/trips?from=2&to=1&limit=1000000000&order=up&cursor=x";
    let problem = server.get(target).fails(400, "bad_request");
    assert_eq!(faults(&problem), ["token", "order", "limit", "cursor"]);
    let body = br#"{"pairs":[{"device":"","at":"x"},{"device":"d","at":true}]}"#;
    let problem = server.request("POST", "/v1/trips/lookup", "", body).fails(400, "bad_request");
    assert_eq!(faults(&problem), ["pairs[0].device", "pairs[0].at", "pairs[1].at"]);
    for (target, fault) in [
        ("/v1/trips", "from"),
        ("/v1/trips?from=1", "to"),
        ("/v1/trips?from=2&to=1", "to"),
        ("/v1/trips?from=2024-05-01T00:00:00Z&to=2024-06-02T00:00:00Z", "to"),
        ("/v1/trips?day=20251120", "day"),
        ("/v1/trips?day=2025-11-20&from=1", "day"),
        ("/v1/trips?day=2025-11-20&bbox=1,2,3", "bbox"),
        ("/v1/trips?day=2025-11-20&fields=id,colour", "fields"),
        ("/v1/trips.csv?day=2025-11-20&fields=id", "fields"),
        ("/v1/devices/truck-17/trips?simplify=0", "simplify"),
    ] {
        let problem = server.get(target).fails(400, "bad_request");
        assert_eq!(faults(&problem), [fault], "{target}");
    }
    server.get("/v1/devices/a%20b/trips").is(200);
    server.get("/v1/devices/a%20c/trips").fails(404, "no_device");
    let problem = server.get("/v1/devices?cursor=x").fails(400, "bad_request");
    assert_eq!(faults(&problem), ["cursor"]);
    let problem = server.request("POST", "/v1/trips/lookup", "", b"[]").fails(400, "bad_request");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(r#"send {"pairs": [{"device": "truck-17""#), "{detail}");
    let kind = "content-type: application/xml\r\n";
    server.request("POST", "/v1/trips/lookup", kind, b"<a/>").fails(415, "unsupported_type");
    let empty = server.get("/v1/devices/truck-17/trips?from=2&to=1").is(200);
    assert_eq!(empty.json()["trips"], Value::Array(vec![]));
    server.get("/v1/nothing").fails(404, "not_found");
    server.request("DELETE", "/v1/devices", "", b"").fails(405, "method_not_allowed");
    server.get("/assets/..%2fCargo.toml").fails(404, "not_found");
}

#[test]
fn health_does_not_wait_for_anything() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    assert_eq!(server.get("/livez").is(200).text(), "ok\n");
    let ready = server.get("/readyz?verbose").is(200).json();
    assert_eq!(ready["checks"][0]["name"], "store", "{ready}");
    assert!(server.get("/version").is(200).json()["commit"].is_string());
    assert!(server.get("/metrics").is(200).text().contains("tstar_http_requests_total"));
    let page = server.get("/").is(200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'self'"), "{policy}");
    server.drain();

    // Nothing listens there: the server lives, is not ready, and ends on SIGTERM.
    let away = "serve --store scylla://127.0.0.1:1/none --connect-timeout 1s";
    let log = folder.path("away.log");
    let mut command = folder.command(&format!("{away} --listen 127.0.0.1:0"));
    let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let mut server = Server { child, log: log.clone(), address: String::new() };
    let address = || {
        let said = std::fs::read_to_string(&log).unwrap();
        let (_, rest) = said.split_once("listening on http://")?;
        rest.split_once('\n').map(|(address, _)| address.to_owned())
    };
    let limit = crate::servers::LIMIT;
    server.address = crate::servers::ready::until("an address", limit, address, || server.ended());
    assert_eq!(server.get("/livez").is(200).text(), "ok\n");
    let ready = server.get("/readyz?verbose").is(503).json();
    assert_eq!(ready["checks"][0]["ok"], false, "{ready}");
    server.get("/v1/devices").fails(503, "store_unavailable");
    server.drain();
}

#[test]
fn a_keyspace_is_served_as_a_file_is() {
    let Some(topic) = Topic::new(4) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let (node, name) = (&keyspace.url.nodes[0], &keyspace.url.keyspace);
    let store = format!("scylla://{node}/{name}");
    let folder = Folder::new();
    worked_example(&folder);
    topic.send_lines(&folder.read("worked.ndjson"), "no-device");
    let words = format!(
        "run {} --store {store} --group {} --from earliest --create-topics --max-staleness 1s \
         --flush-interval 1s",
        topic.flags(),
        topic.name
    );
    let server = Server::start(&folder, &words);
    let target = "/v1/trips/lookup?device=truck-17&at=2024-05-01T08:05:00Z";
    // Lists read the store, which has the trips some time after they are found.
    let merged = || {
        let (answer, list) = (server.get(target), server.get("/v1/trips?day=2024-05-01"));
        let is_stored = list.status == 200 && list.json()["trips"].as_array()?.len() == 3;
        (is_stored && answer.is(200).json()["samples"] == 5).then_some(())
    };
    crate::servers::ready::until("the trips", crate::servers::LIMIT, merged, || None);
    let ready = server.get("/readyz?verbose").is(200).json();
    assert_eq!(ready["checks"][1]["name"], "log", "{ready}");
    let found = server.get(&format!("/v1/trips/{RETIRED}")).is(200).json();
    assert_eq!((&found["id"], &found["match"]), (&ID.into(), &"retired".into()));
    assert_eq!(server.get("/v1/devices").json()["devices"].as_array().unwrap().len(), 2);
    assert_eq!(server.get("/v1/trips?day=2024-05-01").json()["trips"].as_array().unwrap().len(), 3);
    let explained = server.get(&format!("/v1/trips/{RETIRED}/explain")).is(200).json();
    let expected = folder.run(&format!("explain {RETIRED} --store {store} --json")).ends(0).json();
    assert_eq!(explained["retired"]["epoch"], 1, "{explained}");
    for (name, value) in explained.as_object().unwrap() {
        assert_eq!(*value, expected[name], "{name}");
    }
    server.drain();
    // Without the broker there is no change feed.
    let unused_port = crate::servers::free_port();
    let server =
        Server::start(&folder, &format!("serve --store {store} --brokers 127.0.0.1:{unused_port}"));
    server.get("/v1/changes").fails(501, "no_changes");
    server.get("/v1/changes/stream").fails(501, "no_changes");
    assert_eq!(server.get("/v1/page").json()["stream"], false);
    server.drain();
}
