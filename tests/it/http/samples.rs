//! Samples sent by HTTP.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::{Answer, Server, worked_example};
use crate::cli::{Folder, minutes};
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::topic::Topic;

const SECRET: &str = "correct-horse-battery";

fn post(server: &Server, headers: &str, body: &[u8]) -> Answer {
    let headers = format!("authorization: Bearer {SECRET}\r\n{headers}");
    server.request("POST", "/v1/samples", &headers, body)
}

fn statuses(answer: &Value) -> Vec<&str> {
    answer["results"].as_array().unwrap().iter().map(|it| it["status"].as_str().unwrap()).collect()
}

#[test]
fn a_store_of_files_takes_samples_and_says_what_became_of_each() {
    let folder = Folder::new();
    worked_example(&folder);
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    // Without a token, writes are refused.
    let refused = server.request("POST", "/v1/samples", "", minutes("x", &[1]).as_bytes());
    refused.fails(403, "takes_no_samples");
    server.drain();

    folder.write("token", format!("ops:read,write:{SECRET}"));
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let mut lines = minutes("truck-17", &[14, 3, 14, 36, 50]);
    lines.push_str("{\"device_id\":\"truck-17\"}\nnot json\n");
    let answer = post(&server, "", lines.as_bytes()).is(200).json();
    let expected = ["end", "inside", "duplicate", "beginning", "new", "dead", "dead"];
    assert_eq!(statuses(&answer), expected, "{answer}");
    assert_eq!((&answer["taken"], &answer["refused"]), (&5.into(), &2.into()), "{answer}");
    let reasons: Vec<_> =
        answer["results"].as_array().unwrap()[5..].iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons, ["missing_field", "bad_json"]);
    let letters = folder.run("dlq ls --format ndjson").ends(0).objects();
    assert_eq!(letters.len(), 2, "what could not be used is kept: {letters:?}");
    // Durable with the response, and visible at once.
    let bearer = format!("authorization: Bearer {SECRET}\r\n");
    let target = "/v1/trips/lookup?device=truck-17&at=2024-05-01T08:14:00Z";
    assert_eq!(server.request("GET", target, &bearer, b"").is(200).json()["samples"], 7);

    let lines = minutes("truck-17", &[25, 26]);
    let array = format!("[{}]", lines.trim().replace('\n', ","));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(array.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    let answer = post(&server, "content-encoding: gzip\r\n", &packed).is(200).json();
    assert_eq!(statuses(&answer), ["new", "end"]);
    let again = post(&server, "", array.as_bytes()).is(200).json();
    assert_eq!(statuses(&again), ["duplicate", "duplicate"]);

    post(&server, "", b"\n").fails(400, "bad_request");
    assert_eq!(post(&server, "", b"[]").is(200).json()["results"], Value::Array(vec![]));
    post(&server, "", b"[1,").fails(400, "bad_request");
    post(&server, "content-encoding: br\r\n", b"x").fails(415, "unsupported_encoding");
    post(&server, "content-encoding: gzip\r\n", b"x").fails(400, "bad_request");
    // Small when compressed, 64 MB when not.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![b' '; 64 << 20]).unwrap();
    let bomb = gzip.finish().unwrap();
    post(&server, "content-encoding: gzip\r\n", &bomb).fails(413, "too_large");
    assert!(server.peak_memory() < 200 << 20, "{} bytes", server.peak_memory());
}

#[test]
fn a_field_map_reads_headers_and_lists() {
    let folder = Folder::new();
    let sample = |minute: u32| {
        format!(r#"{{"time":"2024-05-01T08:{minute:02}:00Z","lat":52.5,"lon":13.4}}"#)
    };
    folder.write("day", format!(r#"{{"k":1,"d":"van-1","s":[{}]}}"#, sample(0)));
    let map = "samples=/s|/,device_id=/d|@header:X-Limit-D,when=/k=1";
    folder.run(&format!("ingest day --map {map} --store sqlite:map.db")).ends(0);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let server = Server::start(&folder, "serve --store sqlite:map.db --token-file token");
    let list = format!(r#"{{"k":1,"s":[{},{},5]}}"#, sample(1), sample(2));
    let single = sample(3).replacen('{', r#"{"k":1,"#, 1);
    let body = format!("{list}\n{{\"k\":2}}\n{single}\n");
    let answer = post(&server, "x-limit-d: van-2\r\n", body.as_bytes()).is(200).json();
    assert_eq!(statuses(&answer), ["new", "end", "dead", "skipped", "end"], "{answer}");
    assert_eq!((&answer["taken"], &answer["refused"]), (&4.into(), &1.into()), "{answer}");
}

#[test]
fn a_store_of_a_topic_is_written_through_its_topic() {
    let Some(topic) = Topic::new(2) else { return };
    let folder = Folder::new();
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let words = format!(
        "run {} --store sqlite:run.db --from earliest --token-file token --flush-interval 1s \
         --max-staleness 1s",
        topic.flags()
    );
    let server = Server::start(&folder, &words);
    let mut lines = minutes("truck-17", &[10, 12, 0, 2, 6]);
    lines.push_str("nonsense\n");
    let body = lines.into_bytes();
    let sent = || {
        let answer = post(&server, "", &body);
        // The store is opened once the daemon has created it.
        (answer.status == 200).then(|| answer.json())
    };
    let answer = until("the samples to be taken", LIMIT, sent, || None);
    let mut expected = vec!["sent"; 5];
    expected.push("refused");
    assert_eq!(statuses(&answer), expected, "{answer}");
    let bearer = format!("authorization: Bearer {SECRET}\r\n");
    let target = "/v1/trips/truck-17~20240501T081000.000Z";
    let merged = || {
        let answer = server.request("GET", target, &bearer, b"");
        (answer.status == 200 && answer.json()["samples"] == 5).then(|| answer.json())
    };
    let trip = until("the trip", LIMIT, merged, || None);
    assert_eq!(trip["match"], "retired", "{trip}");
    server.drain();
}
