//! The change feed over HTTP.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;

use super::{Server, worked_example};
use crate::cli::{Folder, minutes};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::support::block_on;
use crate::topic::Topic;

/// The next event of a stream, as (cursor, name, event).
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

/// The same for a store whose cursors are numbers.
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

/// A cursor `by` records further, in the partition in which the two cursors differ.
fn ahead(before: &str, mark: &str, by: i64) -> String {
    let numbers =
        |mark: &str| -> Vec<i64> { mark.split('.').map(|it| it.parse().unwrap()).collect() };
    let ahead = numbers(before).into_iter().zip(numbers(mark));
    let ahead = ahead.map(|(before, at)| if at > before { at + by } else { at }.to_string());
    ahead.collect::<Vec<_>>().join(".")
}

#[test]
fn events_come_as_they_happen_and_a_client_resumes_where_it_was() {
    let folder = Folder::new();
    worked_example(&folder);
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
    // Streams end with the server, and do not delay its end.
    server.drain();
    let rest = live.count();
    println!("{rest} lines more until the end");
}

#[test]
fn expired_changes_are_gone() {
    let folder = Folder::new();
    folder.write_fleet("fleet.ndjson", "");
    folder.ingest("fleet.ndjson --keep-changes 10 --store sqlite:trips.db");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let expired = server.get("/v1/changes?after=1").fails(410, "changes_gone");
    let oldest = expired["oldest"].as_i64().unwrap();
    let kept = server.get(&format!("/v1/changes?after={}", oldest - 1)).is(200).json();
    assert_eq!(kept["changes"].as_array().unwrap().len(), 10);
    let stream = server.request("GET", "/v1/changes/stream", "last-event-id: 1\r\n", b"");
    stream.fails(410, "changes_gone");
    server.get(&format!("/v1/changes?after={}", oldest + 1000)).fails(404, "no_change");
    server.get("/v1/changes?after=-1").fails(400, "bad_request");
}

#[test]
fn a_keyspace_serves_its_change_feed() {
    let Some(topic) = Topic::new(4) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = format!("scylla://{}/{}", keyspace.url.nodes[0], keyspace.url.keyspace);
    let folder = Folder::new();
    // Served before anything was read into it.
    let early =
        Server::start(&folder, &format!("serve --store {store} --brokers {}", topic.brokers));
    early.get("/v1/changes").fails(501, "no_changes");
    let words = format!(
        "run {} --store {store} --group {} --from earliest --create-topics --max-staleness 1s \
         --flush-interval 1s",
        topic.flags(),
        topic.name
    );
    let run = Server::start(&folder, &words);
    let has_feed = |server: &Server| {
        let page = server.get("/v1/changes");
        (page.status == 200).then(|| page.json()["next"].as_str().unwrap().to_owned())
    };
    let start = until("the topic to be followed", LIMIT, || has_feed(&run), || None);
    assert_eq!(start, "0.0.0.0");
    until("the epoch to be seen", LIMIT, || has_feed(&early), || None);
    assert_eq!(early.get("/v1/page").json()["stream"], true);

    let mut live = follow(&early, "");
    let mut events = Vec::new();
    for (device, at) in
        [("truck-17", &[10, 12][..]), ("truck-17", &[0, 2]), ("truck-17", &[6]), ("truck-18", &[1])]
    {
        topic.send_lines(minutes(device, at).as_bytes(), "no-device");
        events.push(next_marked(&mut live));
    }
    let names: Vec<_> = events.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["started", "started", "merged", "started"]);
    assert_eq!(events[2].2["absorbed"].as_array().unwrap().len(), 1);
    let marks: Vec<_> = events.iter().map(|(mark, ..)| mark.clone()).collect();

    // Another server resumes from any cursor of this one.
    for (nth, after) in [&start].into_iter().chain(&marks).enumerate() {
        let rest = run.get(&format!("/v1/changes?after={after}")).is(200).json();
        let rest_of: Vec<_> = events[nth..].iter().map(|(.., event)| event).collect();
        let found: Vec<_> =
            rest["changes"].as_array().unwrap().iter().map(|it| &it["event"]).collect();
        assert_eq!((found, &rest["next"]), (rest_of, &marks[3].clone().into()), "{after}");
    }
    let mut again = follow(&run, &format!("last-event-id: {}\r\n", marks[0]));
    assert_eq!(next_marked(&mut again), events[1]);
    let page = run.get(&format!("/v1/changes?after={start}&limit=1")).is(200).json();
    assert_eq!(
        (&page["changes"][0]["seq"], &page["next"]),
        (&marks[0].clone().into(), &marks[0].clone().into())
    );
    foreign_records_and_a_client_that_is_ahead(&topic, &run, [&marks[2], &marks[3]]);

    run.get("/v1/changes?after=9.9.9.9").fails(404, "no_change");
    run.get("/v1/changes?after=1.2.3.4.5").fails(404, "no_change");
    run.get("/v1/changes?after=x").fails(400, "bad_request");
    run.drain();
    early.drain();
}

/// A record that is not an event, and a client that is ahead of this server; `marks` are the last
/// two, each of one partition.
fn foreign_records_and_a_client_that_is_ahead(topic: &Topic, run: &Server, marks: [&String; 2]) {
    // A foreign record in the feed is skipped, and counted.
    let (producer, changes) = (topic.producer(), format!("{}.trips", topic.name));
    let send = |value: &[u8]| {
        let (key, value) = (Some(b"truck-18".to_vec()), value.to_vec());
        let record = ProducerRecord { key, value, ..ProducerRecord::default() };
        block_on(producer.send(&changes, &[record])).unwrap();
    };
    send(b"\xff");
    let counted = || {
        let scraped = String::from_utf8(run.get("/metrics").is(200).body.clone()).unwrap();
        scraped.contains("tstar_feed_records_ignored_total 1\n").then_some(())
    };
    until("the foreign record to be counted", LIMIT, counted, || None);
    // A client that read more elsewhere than this server has waits for it.
    let ahead = ahead(marks[0], marks[1], 2);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run.get(&format!("/v1/changes?after={ahead}")));
        send(br#"{"type":"changed"}"#);
        let page = waiting.join().unwrap().is(200).json();
        assert_eq!(page, json!({"changes": [], "next": ahead}));
    });
    let page = run.get(&format!("/v1/changes?after={}", marks[1])).is(200).json();
    let event = json!({"seq": ahead, "event": {"type": "changed"}});
    assert_eq!(page, json!({"changes": [event], "next": ahead}));
}
