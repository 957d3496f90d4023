//! A server whose file is removed, moved or replaced.

use std::fs::{remove_file, rename};

use super::{Answer, Server, worked_example};
use crate::cli::{Folder, minutes};

const SECRET: &str = "correct-horse-battery";
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-lock"];

/// Moves a store, with what is next to it.
fn put(folder: &Folder, from: &str, to: &str) {
    for suffix in SUFFIXES {
        let [from, to] = [from, to].map(|name| folder.path(&format!("{name}{suffix}")));
        if from.exists() {
            rename(from, to).unwrap();
        }
    }
}

fn send(server: &Server, (method, target): (&str, &str), body: &str) -> Answer {
    let headers = format!("authorization: Bearer {SECRET}\r\ncontent-type: application/json\r\n");
    server.request(method, target, &headers, body.as_bytes())
}

fn is_ready(server: &Server) -> bool {
    let problem = send(server, ("GET", "/readyz?verbose"), "").json().to_string();
    let ready = server.get("/readyz").status;
    assert_eq!(ready == 503, problem.contains("was removed, moved or replaced"), "{problem}");
    ready == 200
}

#[test]
fn a_server_without_its_file_is_not_ready_takes_nothing_and_makes_no_other() {
    let folder = Folder::new();
    worked_example(&folder);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let post = |minute| send(&server, ("POST", "/v1/samples"), &minutes("truck-17", &[minute]));
    let tag = || {
        let target = "/v1/trips/truck-17~20240501T080000.000Z/tags/note";
        send(&server, ("PUT", target), r#"{"value": "x"}"#)
    };
    post(1).is(200);
    assert!(is_ready(&server));

    put(&folder, "trips.db", "moved.db");
    assert!(!is_ready(&server));
    for answer in [post(3), tag()] {
        let problem = answer.fails(503, "store_unavailable");
        assert!(problem["detail"].as_str().unwrap().contains("moved or replaced"), "{problem}");
    }
    assert!(!folder.has("trips.db") && !folder.has("trips.db-lock"), "another store was made");

    // Another file in its place.
    folder.ingest("worked.ndjson --store sqlite:trips.db");
    assert!(!is_ready(&server));
    for answer in [post(3), tag()] {
        answer.fails(503, "store_unavailable");
    }
    assert_eq!(folder.trips("trips.db").len(), 3);

    for suffix in SUFFIXES {
        // Not all of them exist.
        drop(remove_file(folder.path(&format!("trips.db{suffix}"))));
    }
    put(&folder, "moved.db", "trips.db");
    assert!(is_ready(&server));
    assert_eq!(post(3).is(200).json()["taken"], 1);
}
