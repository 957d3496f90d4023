//! Tags of devices by the command line and by HTTP, over one file.

use std::slice;

use serde_json::{Value, json};

use super::served::{JSON, put_at, two_trips};
use crate::cli::{Folder, minutes};
use crate::http::Server;

const DEVICE: &str = "/v1/devices/truck-17";

/// The store of [`two_trips`], with a second device.
fn two_devices() -> Folder {
    let folder = two_trips();
    folder.write("other.ndjson", minutes("a b", &[0, 2]));
    folder.ingest("other.ndjson --store sqlite:trips.db");
    folder
}

/// The tags of all devices, by the command line.
fn listed(folder: &Folder) -> Vec<Value> {
    let devices = folder.run("devices --store sqlite:trips.db").ends(0).objects();
    devices.iter().map(|device| device["tags"].clone()).collect()
}

#[test]
fn a_device_has_tags_of_its_own() {
    let folder = two_devices();
    let tag = |words: &str| folder.run(&format!("tag {words} --store sqlite:trips.db"));
    assert_eq!(tag("--device truck-17").ends(0).objects(), [] as [Value; 0]);
    let set = tag("--device truck-17 name=Van-3 group=north").ends(0).objects();
    assert_eq!((&set[0]["key"], &set[0]["value"]), (&json!("group"), &json!("north")));
    assert_eq!((&set[1]["id"], &set[1]["superseded"]), (&Value::Null, &json!([])));
    tag("truck-17 name=Van-4 --device --remove group").ends(0);
    tag("--device truck-17 --remove group").ends(1).says(&["no tag `group`"]);
    tag("--device truck-17 group").ends(2).says(&["`group` has no value; write KEY=VALUE"]);
    tag("--device truck-1 name=x").ends(1).says(&["no device `truck-1`"]);
    assert_eq!(listed(&folder), [json!({}), json!({"name": "Van-4"})]);
    let csv = folder.text("devices --store sqlite:trips.db --format csv");
    assert_eq!(csv, "device_id,tags\na b,\ntruck-17,\"{\"\"name\"\":\"\"Van-4\"\"}\"\n");
    let table = folder.text("devices --store sqlite:trips.db --format table");
    assert!(table.contains("tags") && table.contains("name=Van-4"), "{table}");

    // No trip has them.
    let exported = folder.run("export --store sqlite:trips.db").ends(0).objects();
    assert!(exported.len() == 4 && exported.iter().all(|trip| trip["tags"] == json!({})));
    let found = folder.run("trips truck-17 --tag name --store sqlite:trips.db").ends(0).objects();
    assert_eq!(found, [] as [Value; 0]);
    let rebuild = |words: &str| {
        folder.run(&format!("rebuild log.ndjson other.ndjson --store sqlite:trips.db {words}"))
    };
    let rebuilt = rebuild("--into sqlite:new.db").ends(0).json();
    assert_eq!((&rebuilt["tags_copied"], &rebuilt["tags_uncovered"]), (&json!(1), &json!(0)));
    let copied = folder.run("tag --device truck-17 --store sqlite:new.db").ends(0).objects();
    assert_eq!(copied[0]["value"], "Van-4");
    // Under this rule all samples are dead letters.
    let none = rebuild("--into sqlite:none.db --min-time 2024-05-02T00:00:00Z");
    let why = "tag name=Van-4 of truck-17: the new store has no trip or stop of it";
    let none = none.ends(0).says(&[why]);
    assert_eq!(none.json()["tags_uncovered"], 1);
}

#[test]
fn clients_set_and_filter_tags_of_devices() {
    let folder = two_devices();
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let from = server.get("/v1/changes").is(200).json()["next"].clone();
    let first = put_at(&server, DEVICE, ("group", "north"), "if-none-match: *\r\n").is(200);
    let read = format!("if-match: {}\r\n", first.header("etag").unwrap());
    let answer = first.json();
    assert_eq!((&answer["id"], &answer["replaced"]), (&Value::Null, &Value::Null));
    let second = put_at(&server, DEVICE, ("group", "south"), &read).is(200);
    assert_eq!(second.json()["replaced"]["value"], "north");
    let late = put_at(&server, DEVICE, ("group", "late"), &read).fails(412, "changed");
    assert_eq!((&late["tag"]["value"], &late["tag"]["id"]), (&json!("south"), &Value::Null));
    put_at(&server, "/v1/devices/a%20b", ("name", "Blue van"), "").is(200);
    let tags = server.get(&format!("{DEVICE}/tags")).is(200).json();
    assert_eq!(tags["tags"][0]["revision"], second.json()["revision"]);

    let ids = |query: &str| -> Vec<(Value, Value)> {
        let page = server.get(&format!("/v1/devices?{query}")).is(200).json();
        let devices = page["devices"].as_array().unwrap().iter();
        devices.map(|it| (it["device_id"].clone(), it["tags"].clone())).collect()
    };
    let blue = (json!("a b"), json!({"name": "Blue van"}));
    let south = (json!("truck-17"), json!({"group": "south"}));
    assert_eq!(ids("last=false"), [blue.clone(), south.clone()]);
    assert_eq!(ids("tag=name%3DBlue%20van"), slice::from_ref(&blue));
    assert_eq!(ids("tag=group=south&day=2024-05-01"), slice::from_ref(&south));
    assert!(ids("tag=group=north").is_empty());
    // A page of a filter may be empty, and yet have a next one.
    let page = server.get("/v1/devices?tag=group&limit=1").is(200).json();
    assert_eq!(page["devices"], json!([]));
    let next = page["next"].as_str().unwrap();
    assert_eq!(ids(&format!("tag=group&limit=1&cursor={next}")), [south]);
    server.get("/v1/devices?tag=a%20b").fails(400, "bad_request");
    let trips = server.get(&format!("{DEVICE}/trips")).is(200).json();
    assert!(trips["trips"].as_array().unwrap().iter().all(|trip| trip["tags"] == json!({})));

    let target = format!("{DEVICE}/tags/group");
    server.request("DELETE", &target, &read, b"").fails(412, "changed");
    server.request("DELETE", &target, "", b"").is(204);
    server.request("DELETE", &target, "", b"").fails(404, "no_tag");
    let page = server.get(&format!("/v1/changes?after={from}")).is(200).json();
    let events: Vec<_> =
        page["changes"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
    let values: Vec<_> = events.iter().map(|event| &event["value"]).collect();
    assert_eq!(values, [&json!("north"), &json!("south"), &json!("Blue van"), &Value::Null]);
    for event in events {
        assert_eq!((&event["type"], &event["id"]), (&json!("tagged"), &Value::Null));
    }
}

#[test]
fn an_invalid_tag_of_a_device_is_explained() {
    let folder = two_devices();
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    server.get("/v1/devices/none/tags").fails(404, "no_device");
    put_at(&server, "/v1/devices/none", ("name", "x"), "").fails(404, "no_device");
    put_at(&server, DEVICE, ("a%20b", "x"), "").fails(400, "bad_request");
    put_at(&server, DEVICE, ("a", &"v".repeat(4097)), "").fails(400, "bad_request");
    put_at(&server, DEVICE, ("a", "x"), "if-match: \"nonsense\"\r\n").fails(400, "bad_request");
    let target = format!("{DEVICE}/tags/a");
    server
        .request("PUT", &target, "content-type: image/png\r\n", b"{}")
        .fails(415, "unsupported_type");
    server.request("PUT", &target, JSON, b"[]").fails(400, "bad_request");
    server
        .request("PUT", &format!("{target}?x=1"), JSON, b"{\"value\":\"\"}")
        .fails(400, "bad_request");
    let foreign = "origin: https://example.com\r\n";
    put_at(&server, DEVICE, ("a", "x"), foreign).fails(403, "foreign_origin");
    server.request("DELETE", &target, foreign, b"").fails(403, "foreign_origin");
    for number in 0..64 {
        put_at(&server, DEVICE, (&format!("k{number}"), ""), "").is(200);
    }
    put_at(&server, DEVICE, ("one-more", ""), "").fails(409, "too_many_tags");
}

/// Forty devices with as many tags as the server accepts, ten megabytes in all.
#[test]
fn a_page_of_devices_with_many_tags_is_bounded() {
    let names: Vec<_> = (10..50).map(|number| format!("van-{number}")).collect();
    let log: String = names.iter().map(|name| minutes(name, &[0, 2])).collect();
    let folder = Folder::with("log.ndjson", log);
    folder.ingest("log.ndjson --store sqlite:trips.db");
    folder.run("tag --device van-10 name=first --store sqlite:trips.db").ends(0);
    let mut file = rusqlite::Connection::open(folder.path("trips.db")).unwrap();
    let writes = file.transaction().unwrap();
    let copy = "INSERT INTO trip_tags SELECT ?1, t_star, ?2, ?3, written, revision FROM trip_tags
         WHERE device_id = 'van-10' AND key = 'name'";
    for name in &names {
        for number in 0..63 {
            let value = "v".repeat(4096);
            writes.execute(copy, rusqlite::params![name, format!("k{number}"), value]).unwrap();
        }
    }
    writes.commit().unwrap();
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = server.get(&format!("/v1/devices?limit=1000&last=false{cursor}")).is(200);
        assert!(answer.body.len() < 6 << 20, "{} bytes", answer.body.len());
        let page = answer.json();
        let devices = page["devices"].as_array().unwrap().iter();
        found.extend(devices.map(|it| it["device_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, names, "each once");
    assert_eq!(listed(&folder).len(), names.len());
}

#[test]
fn a_forget_takes_the_tags_of_a_device_with_its_last_trip() {
    let folder = two_devices();
    for device in ["truck-17", "a b"] {
        let mut tag = folder.command("tag --device --store sqlite:trips.db");
        assert!(tag.args([device, "name=Van-3"]).output().unwrap().status.success());
    }
    let forget = |flags: &str| {
        folder.run(&format!("forget truck-17 {flags} --yes --store sqlite:trips.db")).ends(0);
    };
    forget("--before 2024-05-01T08:11:00Z");
    let van = json!({"name": "Van-3"});
    assert_eq!(listed(&folder), [van.clone(), van.clone()]);
    forget("");
    assert_eq!(listed(&folder), [van]);
    folder.run("tag --device truck-17 --store sqlite:trips.db").ends(1).says(&["no trip or stop"]);
    let left = rusqlite::Connection::open(folder.path("trips.db")).unwrap();
    let count = "SELECT count(*) FROM trip_tags WHERE device_id = 'truck-17'";
    assert_eq!(left.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    server.get(&format!("{DEVICE}/tags")).fails(404, "no_device");
    put_at(&server, DEVICE, ("name", "x"), "").fails(404, "no_device");
}
