//! Tags by the command line and by HTTP, over one file that another process may be writing.

use serde_json::{Value, json};
use tstar::internals::model::rules::Rules;
use tstar::internals::store::sqlite::SqliteStore;

use crate::cli::{Folder, minutes};
use crate::http::{Answer, Server};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::topic::Topic;

const ID: &str = "truck-17~20240501T080000.000Z";
pub const JSON: &str = "content-type: application/json\r\n";

/// A store with two trips of `truck-17` that one sample would join, at 8:00 and 8:10, and a third.
pub fn two_trips() -> Folder {
    let folder = Folder::new();
    let lines = minutes("truck-17", &[0, 2, 10, 12, 40]);
    folder.write("log.ndjson", lines);
    folder.ingest("log.ndjson --store sqlite:trips.db");
    folder
}

/// Ids of the trips of `truck-17`, by start.
fn ids(folder: &Folder, flags: &str) -> Vec<String> {
    let words = format!("trips truck-17 --store sqlite:trips.db --format ndjson {flags}");
    let trips = folder.run(&words).ends(0).objects();
    trips.iter().map(|trip| trip["id"].as_str().unwrap().to_owned()).collect()
}

fn put(server: &Server, id: &str, tag: (&str, &str), headers: &str) -> Answer {
    put_at(server, &format!("/v1/trips/{id}"), tag, headers)
}

/// Sets a tag of a trip or device.
pub fn put_at(server: &Server, of: &str, (key, value): (&str, &str), headers: &str) -> Answer {
    let body = json!({ "value": value }).to_string();
    let target = format!("{of}/tags/{key}");
    server.request("PUT", &target, &format!("{JSON}{headers}"), body.as_bytes())
}

fn delete(server: &Server, id: &str, key: &str, headers: &str) -> Answer {
    server.request("DELETE", &format!("/v1/trips/{id}/tags/{key}"), headers, b"")
}

#[test]
fn a_tag_survives_the_merge_of_its_trip() {
    let folder = two_trips();
    let all = ids(&folder, "");
    let [first, second, third] = &all[..] else { panic!("{all:?}") };
    let tag = |words: &str| folder.run(&format!("tag {words} --store sqlite:trips.db"));
    let tagged = tag(&format!("{first} purpose=business note=toll")).ends(0).objects();
    assert_eq!(tagged.len(), 2);
    assert_eq!((&tagged[1]["key"], &tagged[1]["value"]), (&json!("purpose"), &json!("business")));
    assert_eq!((&tagged[1]["id"], &tagged[1]["superseded"]), (&json!(first), &json!([])));
    tag(&format!("{second} purpose=private")).ends(0);
    assert_eq!(ids(&folder, "--tag purpose"), [first.clone(), second.clone()]);
    assert_eq!(ids(&folder, "--tag purpose=private"), std::slice::from_ref(second));
    assert_eq!(ids(&folder, "--tag purpose=business --tag note"), std::slice::from_ref(first));
    assert_eq!(ids(&folder, "--tag purpose --limit 1 --order desc"), std::slice::from_ref(second));

    folder.write("late.ndjson", minutes("truck-17", &[6]));
    folder.ingest("late.ndjson --store sqlite:trips.db");
    assert_eq!(ids(&folder, ""), [first.clone(), third.clone()]);
    // The newest counts; the other is shown with the id at which it was set.
    let merged = folder.run(&format!("trip {second} --store sqlite:trips.db --json")).json();
    assert_eq!(merged["tags"], json!({"note": "toll", "purpose": "private"}));
    assert_eq!((&merged["id"], &merged["match"]), (&json!(first), &json!("retired")));
    let tags = tag(first).ends(0).objects();
    assert_eq!((&tags[1]["value"], &tags[1]["id"]), (&json!("private"), &json!(second)));
    assert_eq!(tags[1]["superseded"][0]["value"], "business");
    assert_eq!(tags[1]["superseded"][0]["id"], json!(first));
    // A removed key does not bring an older one back.
    let left = tag(&format!("{second} --remove purpose")).ends(0).objects();
    assert_eq!(left.iter().map(|it| &it["key"]).collect::<Vec<_>>(), ["note"]);
    tag(&format!("{second} --remove purpose")).ends(1).says(&["no tag `purpose`"]);
    // Exports have them, too.
    let exported = folder.run("export --store sqlite:trips.db --tag note=toll").ends(0).objects();
    assert_eq!(exported.len(), 1);
    assert_eq!(exported[0]["tags"], json!({"note": "toll"}));
    let csv = folder.run("export --store sqlite:trips.db --format csv").ends(0).text();
    assert!(csv.lines().next().unwrap().ends_with(",version,tags"), "{csv}");
    assert!(csv.contains(r#","{""note"":""toll""}""#), "{csv}");
}

#[test]
fn an_invalid_tag_is_explained() {
    let folder = two_trips();
    let tag = |words: &str| folder.run(&format!("tag {words} --store sqlite:trips.db"));
    tag(&format!("{ID} purpose")).ends(2).says(&["`purpose` has no value; write KEY=VALUE"]);
    tag(&format!("{ID} a/b=c")).ends(2).says(&["`a/b` is not a valid key"]);
    let long = "v".repeat(4097);
    tag(&format!("{ID} a={long}")).ends(2).says(&["4097 bytes is longer than 4096"]);
    tag("truck-17~20240501T090000.000Z a=b").ends(1).says(&["no trip has the id"]);
    tag("nonsense a=b").ends(2);

    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    put(&server, ID, ("a%20b", "x"), "").fails(400, "bad_request");
    put(&server, "x", ("a", "x"), "").fails(400, "bad_id");
    put(&server, ID, ("a", &long), "").fails(400, "bad_request");
    put(&server, ID, ("a", "x\u{0}"), "").fails(400, "bad_request");
    put(&server, ID, ("a", "x"), "if-match: \"nonsense\"\r\n").fails(400, "bad_request");
    put(&server, ID, ("a", "x"), "if-none-match: \"1\"\r\n").fails(400, "bad_request");
    let gone = "truck-17~20240501T090000.000Z";
    put(&server, gone, ("a", "x"), "").fails(404, "no_trip");
    delete(&server, ID, "a", "").fails(404, "no_tag");
    let target = format!("/v1/trips/{ID}/tags/a");
    let form = server.request("PUT", &target, "content-type: image/png\r\n", b"{}");
    form.fails(415, "unsupported_type");
    for body in ["", "[]", "{}", r#"{"value": 1}"#, r#"{"value": "a", "more": 1}"#] {
        let refused = server.request("PUT", &target, JSON, body.as_bytes());
        let problem = refused.fails(400, "bad_request");
        assert!(problem["detail"].as_str().unwrap().contains(r#"send {"value""#), "{problem}");
    }
    let large = format!("{{\"value\": \"{}\"}}", "v".repeat(40_000));
    server.request("PUT", &target, JSON, large.as_bytes()).fails(413, "too_large");
    let foreign = "origin: https://example.com\r\n";
    put(&server, ID, ("a", "x"), foreign).fails(403, "foreign_origin");
    delete(&server, ID, "a", foreign).fails(403, "foreign_origin");
    for number in 0..64 {
        put(&server, ID, (&format!("k{number}"), ""), "").is(200);
    }
    put(&server, ID, ("one-more", ""), "").fails(409, "too_many_tags");
    put(&server, ID, ("k3", "again"), "").is(200);
}

#[test]
fn of_two_clients_one_hears_of_the_other() {
    let folder = two_trips();
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let trip = format!("/v1/trips/{ID}");
    let untagged = server.get(&trip).is(200);
    assert_eq!(untagged.json()["tags"], json!({}));
    let first = put(&server, ID, ("purpose", "business"), "if-none-match: *\r\n").is(200);
    assert_eq!(first.json()["replaced"], Value::Null);
    let read = format!("if-match: {}\r\n", first.header("etag").unwrap());
    let second = put(&server, ID, ("purpose", "private"), &read).is(200);
    assert_eq!(second.json()["replaced"]["value"], "business");
    for conditions in [&*read, "if-none-match: *\r\n"] {
        let late = put(&server, ID, ("purpose", "late"), conditions).fails(412, "changed");
        assert_eq!(late["tag"]["value"], "private");
    }
    delete(&server, ID, "purpose", &read).fails(412, "changed");
    let absent = put(&server, ID, ("note", "x"), "if-match: *\r\n").fails(412, "changed");
    assert_eq!(absent["tag"], Value::Null);

    // Every form of the trip has it, and the cached one is not used any more.
    let tagged = server.get(&trip).is(200);
    assert_eq!(tagged.json()["tags"], json!({"purpose": "private"}));
    assert_ne!(tagged.header("etag"), untagged.header("etag"));
    let feature = server.get(&format!("{trip}.geojson")).is(200).json();
    assert_eq!(feature["features"][0]["properties"]["tags"], json!({"purpose": "private"}));
    let found = server.get("/v1/trips/lookup?device=truck-17&at=2024-05-01T08:01:00Z").is(200);
    assert_eq!(found.json()["tags"], json!({"purpose": "private"}));
    let pairs = json!({"pairs": [{"device": "truck-17", "at": "2024-05-01T08:01:00Z"}]});
    let many = server.request("POST", "/v1/trips/lookup", JSON, pairs.to_string().as_bytes());
    assert_eq!(many.is(200).json()["answers"][0]["trip"]["tags"], json!({"purpose": "private"}));
    for list in ["/v1/trips?day=2024-05-01", "/v1/devices/truck-17/trips?"] {
        let all = server.get(list).is(200).json();
        let tags: Vec<_> = all["trips"].as_array().unwrap().iter().map(|it| &it["tags"]).collect();
        assert_eq!(tags, [&json!({"purpose": "private"}), &json!({}), &json!({})], "{list}");
        for (filter, count) in [("purpose", 1), ("purpose=private", 1), ("purpose=x", 0), ("a", 0)]
        {
            let page = server.get(&format!("{list}&tag={filter}")).is(200).json();
            assert_eq!(page["trips"].as_array().unwrap().len(), count, "{list} {filter}");
        }
        let fields = server.get(&format!("{list}&fields=id,tags&limit=1")).is(200).json();
        assert_eq!(fields["trips"][0], json!({"id": ID, "tags": {"purpose": "private"}}));
        server.get(&format!("{list}&tag=a%20b")).fails(400, "bad_request");
    }
    let listed = server.get(&format!("{trip}/tags")).is(200).json();
    assert_eq!(listed["tags"][0]["revision"], second.json()["revision"]);

    let now = format!("if-match: {}\r\n", second.header("etag").unwrap());
    delete(&server, ID, "purpose", &now).is(204);
    assert_eq!(server.get(&format!("{trip}/tags")).is(200).json(), json!({"tags": []}));
}

#[test]
fn tags_are_written_while_another_process_has_the_store() {
    let folder = two_trips();
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let writer =
        SqliteStore::open_writer(&folder.path("trips.db"), &Rules::default(), 100).unwrap();
    put(&server, ID, ("by", "http"), "").is(200);
    let words = format!("tag {ID} cli=yes --store sqlite:trips.db");
    assert_eq!(folder.run(&words).ends(0).objects().len(), 2);
    drop(writer);
    let seen = server.get(&format!("/v1/trips/{ID}")).is(200).json();
    assert_eq!(seen["tags"], json!({"by": "http", "cli": "yes"}));
}

#[test]
fn the_feed_tells_of_tags() {
    let folder = two_trips();
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let from = server.get("/v1/changes").is(200).json()["next"].clone();
    put(&server, ID, ("purpose", "business"), "").is(200);
    folder.run(&format!("tag {ID} purpose=private --store sqlite:trips.db")).ends(0);
    delete(&server, ID, "purpose", "").is(204);
    let page = server.get(&format!("/v1/changes?after={from}")).is(200).json();
    let events: Vec<_> =
        page["changes"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
    let values: Vec<_> = events.iter().map(|event| &event["value"]).collect();
    assert_eq!(values, [&json!("business"), &json!("private"), &Value::Null]);
    for event in events {
        assert_eq!((&event["type"], &event["key"]), (&json!("tagged"), &json!("purpose")));
        assert_eq!((&event["device_id"], &event["id"]), (&json!("truck-17"), &json!(ID)));
        assert!(event.get("version").is_none(), "{event}");
    }
}

#[test]
fn a_keyspace_announces_tags_in_its_topic() {
    let Some(topic) = Topic::new(2) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = format!("scylla://{}/{}", keyspace.url.nodes[0], keyspace.url.keyspace);
    let folder = Folder::new();
    let words = format!(
        "run {} --store {store} --group {} --from earliest --create-topics --max-staleness 1s \
         --flush-interval 1s",
        topic.flags(),
        topic.name
    );
    let run = Server::start(&folder, &words);
    topic.send_lines(minutes("truck-17", &[0, 2]).as_bytes(), "no-device");
    let started = || {
        let page = run.get("/v1/changes?after=0.0");
        (page.status == 200 && page.json()["changes"][0]["event"]["id"] == ID).then_some(())
    };
    until("the trip to be announced", LIMIT, started, || None);
    let from = run.get("/v1/changes").is(200).json()["next"].as_str().unwrap().to_owned();
    let first = put(&run, ID, ("purpose", "business"), "").is(200);
    let read = format!("if-match: {}\r\n", first.header("etag").unwrap());
    let brokers = &topic.brokers;
    let words = format!("tag {ID} purpose=private --store {store} --brokers {brokers}");
    assert_eq!(folder.run(&words).ends(0).objects()[0]["value"], "private");
    put(&run, ID, ("purpose", "late"), &read).fails(412, "changed");
    topic.send_lines(minutes("truck-17", &[4]).as_bytes(), "no-device");
    delete(&run, ID, "purpose", "").is(204);
    put_at(&run, "/v1/devices/truck-17", ("name", "Blue van"), "").is(200);
    let events = || {
        let page = run.get(&format!("/v1/changes?after={from}")).is(200).json();
        let events = page["changes"].as_array().unwrap().iter().map(|it| it["event"].clone());
        let tagged: Vec<_> = events.filter(|event| event["type"] == "tagged").collect();
        (tagged.len() == 4).then_some(tagged)
    };
    let tagged = until("the events of tags", LIMIT, events, || None);
    let values: Vec<_> = tagged.iter().map(|event| &event["value"]).collect();
    assert_eq!(values, [&json!("business"), &json!("private"), &Value::Null, &json!("Blue van")]);
    assert!(tagged[..3].iter().all(|event| event["id"] == ID && event["key"] == "purpose"));
    assert_eq!((&tagged[3]["id"], &tagged[3]["device_id"]), (&Value::Null, &json!("truck-17")));
    // Without brokers, the tag is stored, and the client hears that the feed lacks it.
    let words = format!("tag {ID} a=b --store {store} --brokers 127.0.0.1:9 --connect-timeout 1s");
    folder.run(&words).ends(69).says(&["the tag is stored", ".trips"]);
    assert_eq!(run.get(&format!("/v1/trips/{ID}")).is(200).json()["tags"], json!({"a": "b"}));
    run.drain();
}

#[test]
fn a_rebuild_copies_tags_and_lists_those_without_a_trip() {
    let folder = two_trips();
    let all = ids(&folder, "");
    for id in &all {
        folder.run(&format!("tag {id} seen={id} --store sqlite:trips.db")).ends(0);
    }
    // Under this rule the first two trips are one.
    let words = "rebuild log.ndjson --store sqlite:trips.db --into sqlite:ten.db --max-gap 10m";
    let first = folder.run(words).ends(0).json();
    assert_eq!((&first["tags_copied"], &first["tags_uncovered"]), (&json!(3), &json!(0)));
    let again = folder.run(words).ends(0).json();
    assert_eq!((&again["tags_copied"], &again["tags_uncovered"]), (&json!(3), &json!(0)));
    let merged = folder.run(&format!("tag {ID} --store sqlite:ten.db")).ends(0).objects();
    assert_eq!(merged[0]["superseded"].as_array().unwrap().len(), 1, "{merged:?}");
    // Under this one, the samples of the first trip are dead letters.
    let early = "rebuild log.ndjson --store sqlite:trips.db --into sqlite:early.db \
        --min-time 2024-05-01T08:05:00Z";
    let ran = folder.run(early).ends(0).says(&["no trip of the new store covers this time"]);
    let report = ran.json();
    assert_eq!((&report["tags_copied"], &report["tags_uncovered"]), (&json!(3), &json!(1)));
}

#[test]
fn a_forget_takes_the_tags_of_its_trips() {
    let folder = two_trips();
    let all = ids(&folder, "");
    for id in &all {
        folder.run(&format!("tag {id} seen=yes --store sqlite:trips.db")).ends(0);
    }
    let before = "--before 2024-05-01T08:11:00Z --yes --store sqlite:trips.db";
    folder.run(&format!("forget truck-17 {before}")).ends(0);
    let count = "SELECT count(*) FROM trip_tags";
    let left = rusqlite::Connection::open(folder.path("trips.db")).unwrap();
    let left: i64 = left.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 2, "the trip at 8:10 is kept whole");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    put(&server, &all[0], ("a", "x"), "").fails(410, "gone");
}
