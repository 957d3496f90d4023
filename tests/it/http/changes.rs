//! The change feed over HTTP.

use std::io::{BufRead, BufReader, Write};

use serde_json::Value;

use super::{Server, worked};
use crate::cli::{Folder, minutes};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::topic::Topic;

/// The next event of a stream, as (mark, name, event).
fn next_marked(lines: &mut impl Iterator<Item = String>) -> (String, String, Value) {
    let (mut mark, mut name) = (String::new(), String::new());
    for line in lines {
        match line.split_once(": ") {
            Some(("id", text)) => text.clone_into(&mut mark),
            Some(("event", text)) => text.clone_into(&mut name),
            Some(("data", text)) => return (mark, name, serde_json::from_str(text).unwrap()),
            _ => (),
        }
    }
    panic!("the stream ended");
}

/// The same of a store, whose marks are numbers.
fn next(lines: &mut impl Iterator<Item = String>) -> (i64, String, Value) {
    let (mark, name, event) = next_marked(lines);
    (mark.parse().unwrap(), name, event)
}

fn follow(server: &Server, headers: &str) -> impl Iterator<Item = String> + use<> {
    let mut stream = server.connect();
    let request =
        format!("GET /v1/changes/stream HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", server.address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    lines
}

#[test]
fn events_come_as_they_happen_and_a_client_goes_on_where_it_was() {
    let folder = Folder::new();
    worked(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let newest = server.get("/v1/changes").is(200).json();
    assert_eq!(newest["changes"], Value::Array(vec![]));
    let newest = newest["next"].as_i64().unwrap();
    let all = server.get("/v1/changes?after=0").is(200).json();
    assert_eq!(all["next"], newest);
    assert_eq!(all["changes"].as_array().unwrap().len() as i64, newest);

    let mut live = follow(&server, "");
    let far = minutes("truck-17", &[30, 32]);
    folder.write("far.ndjson", far);
    folder.ingest("far.ndjson --store sqlite:trips.db");
    let (seq, name, event) = next(&mut live);
    assert_eq!((seq, name.as_str()), (newest + 1, "started"));
    assert_eq!(event["trip"]["samples"], 2);
    // 8:36 joins 8:32 and 8:40.
    folder.write("between.ndjson", minutes("truck-17", &[36]));
    folder.ingest("between.ndjson --store sqlite:trips.db");
    let (seq, name, event) = next(&mut live);
    assert_eq!((seq, name.as_str()), (newest + 2, "merged"));
    assert_eq!(event["absorbed"].as_array().unwrap().len(), 1);

    let mut again = follow(&server, &format!("last-event-id: {newest}\r\n"));
    assert_eq!(next(&mut again).0, newest + 1);
    assert_eq!(next(&mut again).0, newest + 2);
    // Streams end with the server, and do not hold it up.
    server.drain();
    let rest = live.count();
    println!("{rest} lines more until the end");
}

#[test]
fn what_is_not_kept_any_more_is_gone() {
    let folder = Folder::new();
    folder.write_fleet("fleet.ndjson", "");
    folder.ingest("fleet.ndjson --keep-changes 10 --store sqlite:trips.db");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let gone = server.get("/v1/changes?after=1").tells(410, "changes_gone");
    let oldest = gone["oldest"].as_i64().unwrap();
    let kept = server.get(&format!("/v1/changes?after={}", oldest - 1)).is(200).json();
    assert_eq!(kept["changes"].as_array().unwrap().len(), 10);
    let stream = server.ask("GET", "/v1/changes/stream", "last-event-id: 1\r\n", b"");
    stream.tells(410, "changes_gone");
    server.get(&format!("/v1/changes?after={}", oldest + 1000)).tells(404, "no_change");
    server.get("/v1/changes?after=-1").tells(400, "bad_request");
}

#[test]
fn a_keyspace_tells_what_its_topic_of_changes_tells() {
    let Some(topic) = Topic::new(4) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = format!("scylla://{}/{}", keyspace.place.nodes[0], keyspace.place.keyspace);
    let folder = Folder::new();
    // Served before anything was read into it.
    let early =
        Server::start(&folder, &format!("serve --store {store} --brokers {}", topic.brokers));
    early.get("/v1/changes").tells(501, "no_changes");
    let words = format!(
        "run {} --store {store} --group {} --from earliest --create-topics --max-staleness 1s \
         --flush-interval 1s",
        topic.flags(),
        topic.name
    );
    let run = Server::start(&folder, &words);
    let is_told = |server: &Server| {
        let page = server.get("/v1/changes");
        (page.status == 200).then(|| page.json()["next"].as_str().unwrap().to_owned())
    };
    let start = until("the topic to be followed", LIMIT, || is_told(&run), || None);
    assert_eq!(start, "0.0.0.0");
    until("the epoch to be seen", LIMIT, || is_told(&early), || None);
    assert_eq!(early.get("/v1/page").json()["stream"], true);

    let mut live = follow(&early, "");
    let mut told = Vec::new();
    for (device, at) in
        [("truck-17", &[10, 12][..]), ("truck-17", &[0, 2]), ("truck-17", &[6]), ("truck-18", &[1])]
    {
        topic.send_lines(minutes(device, at).as_bytes(), "nobody");
        told.push(next_marked(&mut live));
    }
    let names: Vec<_> = told.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["started", "started", "merged", "started"]);
    assert_eq!(told[2].2["absorbed"].as_array().unwrap().len(), 1);
    let marks: Vec<_> = told.iter().map(|(mark, ..)| mark.clone()).collect();

    // Another server goes on where this one was, at whichever place.
    for (nth, after) in [&start].into_iter().chain(&marks).enumerate() {
        let rest = run.get(&format!("/v1/changes?after={after}")).is(200).json();
        let rest_of: Vec<_> = told[nth..].iter().map(|(.., event)| event).collect();
        let events: Vec<_> =
            rest["changes"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
        assert_eq!((events, &rest["next"]), (rest_of, &marks[3].clone().into()), "{after}");
    }
    let mut again = follow(&run, &format!("last-event-id: {}\r\n", marks[0]));
    assert_eq!(next_marked(&mut again), told[1]);
    let page = run.get(&format!("/v1/changes?after={start}&limit=1")).is(200).json();
    assert_eq!(
        (&page["changes"][0]["seq"], &page["next"]),
        (&marks[0].clone().into(), &marks[0].clone().into())
    );
    run.get("/v1/changes?after=9.9.9.9").tells(404, "no_change");
    run.get("/v1/changes?after=1.2.3.4.5").tells(404, "no_change");
    run.get("/v1/changes?after=x").tells(400, "bad_request");
    run.drain();
    early.drain();
}
