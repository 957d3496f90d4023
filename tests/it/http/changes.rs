//! The change feed over HTTP.

use std::io::{BufRead, BufReader, Write};

use serde_json::Value;

use super::{Server, worked};
use crate::cli::{Folder, minutes};

/// The next event of a stream, as (number, name, event).
fn next(lines: &mut impl Iterator<Item = String>) -> (i64, String, Value) {
    let (mut seq, mut name) = (0, String::new());
    for line in lines {
        match line.split_once(": ") {
            Some(("id", number)) => seq = number.parse().unwrap(),
            Some(("event", text)) => text.clone_into(&mut name),
            Some(("data", text)) => return (seq, name, serde_json::from_str(text).unwrap()),
            _ => (),
        }
    }
    panic!("the stream ended");
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
