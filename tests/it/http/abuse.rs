//! Clients that are malicious, or behave as if they were.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::limits::gzip;
use super::{Answer, Server, worked_example};
use crate::cli::Folder;
use tstar::internals::model::scalar::DeviceTime;

/// Maximum memory of the server besides what it serves.
const MAX_MEMORY: u64 = 150 << 20;

/// Rounds of requests until one is rejected.
const ROUNDS: usize = 10;

fn serving(folder: &Folder, more: &str) -> Server {
    worked_example(folder);
    Server::start(folder, &format!("serve --store sqlite:trips.db {more}"))
}

fn is_well(server: &Server) {
    server.get("/v1/trips/lookup?device=truck-17&at=2024-05-01T08:05:00Z").is(200);
    assert!(server.peak_memory() < MAX_MEMORY, "{} bytes", server.peak_memory());
}

#[test]
fn slow_clients_block_no_other_and_are_closed() {
    let folder = Folder::new();
    let server = serving(&folder, "");
    let connect = |_| {
        let mut stream = server.connect();
        stream.write_all(b"GET /v1/devices HTTP/1.1\r\nhost: localhost\r\nx: ").unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..1000).map(connect).collect();
    is_well(&server);
    // They do not hold the server for ever: each is closed, with or without a response.
    for stream in &mut slow {
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        assert!(response.is_empty() || response.starts_with(b"HTTP/1.1 408"), "{response:?}");
    }
    is_well(&server);
}

#[test]
fn one_connection_too_many_is_rejected() {
    let folder = Folder::new();
    let server = serving(&folder, "--max-connections 20");
    let held: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    let refused = || {
        let answer = server.raw(b"");
        answer.starts_with(b"HTTP/1.1 503").then_some(())
    };
    let limit = crate::servers::LIMIT;
    crate::servers::ready::until("a refusal", limit, refused, || None);
    drop(held);
    let answered = || {
        let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        server.raw(request).starts_with(b"HTTP/1.1 200").then_some(())
    };
    crate::servers::ready::until("an answer", limit, answered, || None);
}

#[test]
fn large_and_odd_requests_are_refused() {
    let folder = Folder::new();
    let server = serving(&folder, "");
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    let many = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(1000));
    for bytes in [head, many] {
        assert_eq!(Answer::read(&server.raw(bytes.as_bytes())).status, 431);
    }
    let long = format!("/v1/trips/{}", "y".repeat(100_000));
    assert!(matches!(server.get(&long).status, 400 | 414 | 431));
    let declared = "POST /v1/trips/lookup HTTP/1.1\r\nhost: localhost\r\ncontent-length: 104857600\r\n\
        connection: close\r\n\r\n";
    Answer::read(&server.raw(declared.as_bytes())).fails(413, "too_large");
    // The same without a declared length.
    let mut chunked = b"POST /v1/trips/lookup HTTP/1.1\r\nhost: localhost\r\n\
        transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        .to_vec();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..3 {
        chunked.extend_from_slice(b"100000\r\n");
        chunked.extend_from_slice(&chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    Answer::read(&server.raw(&chunked)).fails(413, "too_large");
    let pairs =
        format!(r#"{{"pairs":[{}]}}"#, vec![r#"{"device":"truck-17","at":0}"#; 1001].join(","));
    server.request("POST", "/v1/trips/lookup", "", pairs.as_bytes()).fails(400, "bad_request");
    server.get("/v1/devices?limit=1000000000").fails(400, "bad_request");
    let wide = "/v1/devices/truck-17/trips?from=1000-01-01T00:00:00Z&to=2999-01-01T00:00:00Z";
    assert_eq!(server.get(wide).is(200).json()["trips"].as_array().unwrap().len(), 2);
    for odd in ["GET", "GET / HTTP/9.9\r\n\r\n", "\0\0\0\0\r\n\r\n", "GET /%ff%fe HTTP/1.1\r\n\r\n"]
    {
        let answer = server.raw(format!("{odd}\r\n\r\n").as_bytes());
        assert!(
            !answer.starts_with(b"HTTP/1.1 5"),
            "{odd:?}: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    server.get("/v1/trips/%ff%fe").fails(400, "bad_request");
    is_well(&server);
}

#[test]
fn numbers_at_the_ends_of_what_there_is_are_answered() {
    let folder = Folder::new();
    let server = serving(&folder, "");
    for number in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
        let targets = [
            format!("/v1/changes?after={number}"),
            format!("/v1/trips/lookup?device=truck-17&at={number}"),
            format!("/v1/devices/truck-17/trips?from={number}"),
            format!("/v1/devices/truck-17/trips?to={number}&order=desc"),
            format!("/v1/devices/truck-17/trips?from={number}&to={number}"),
            format!("/v1/devices?limit={number}"),
            format!("/v1/trips/truck-17~20240501T080000.000Z?simplify={number}"),
        ];
        for target in targets {
            let status = server.get(&target).status;
            assert!(matches!(status, 200 | 400 | 404), "{target}: {status}");
        }
        if !(0..=1).contains(&number) {
            // The two others are followed, without an end.
            let last = format!("last-event-id: {number}\r\n");
            let status = server.request("GET", "/v1/changes/stream", &last, b"").status;
            assert!(matches!(status, 400 | 404), "{number}: {status}");
        }
        let body = format!(r#"{{"pairs":[{{"device":"truck-17","at":{number}}}]}}"#);
        server.request("POST", "/v1/trips/lookup", "", body.as_bytes()).is(200);
        let id = tstar::internals::identity::TripId::new("truck-17", DeviceTime(number))
            .unwrap()
            .key_text();
        assert_eq!(server.get(&format!("/v1/trips/{id}")).status, 404, "{number}");
        let target = format!("/v1/devices/truck-17/trips?cursor={id}");
        server.get(&target).is(200);
        server.get(&format!("{target}&order=desc")).is(200);
        server.get(&format!("/v1/trips?day=2024-05-01&cursor={id}")).is(200);
    }
    for day in ["0000-01-01", "9999-12-31", "+262142-12-31", "-262143-01-01"] {
        let status = server.get(&format!("/v1/trips?day={day}")).status;
        assert!(matches!(status, 200 | 400), "{day}: {status}");
    }
    is_well(&server);
}

#[test]
fn requests_in_one_go_are_answered_in_order() {
    let folder = Folder::new();
    let server = serving(&folder, "");
    let request = |close: &str| format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{close}\r\n");
    let bytes = request("").repeat(2000) + &request("connection: close\r\n");
    let mut stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || writer.write_all(bytes.as_bytes()).unwrap());
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    sending.join().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2001);
    is_well(&server);
}

#[test]
fn requests_over_capacity_are_rejected_and_the_rest_answered() {
    let folder = Folder::new();
    let server = serving(&folder, "--max-requests 4");
    let (done, busy) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Bodies that take a while to unpack, so that others come meanwhile: a lookup alone keeps a
    // thread of the server busy until its end, and there may be fewer threads than requests.
    let body = r#"{"pairs":[{"device":"truck-17","at":"2024-05-01T08:05:00Z"}]}"#.to_owned();
    let body = gzip((body + &" ".repeat(900_000)).as_bytes());
    let ask = || {
        let packed = "content-encoding: gzip\r\n";
        let answer = server.request("POST", "/v1/trips/lookup", packed, &body);
        match answer.status {
            200 => done.fetch_add(1, Ordering::Relaxed),
            503 => {
                assert_eq!(answer.header("retry-after"), Some("1"));
                busy.fetch_add(1, Ordering::Relaxed)
            }
            other => panic!("{other}: {}", answer.text()),
        };
    };
    // How many requests overlap depends on the machine.
    let rounds = (1..=ROUNDS).find(|_| {
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| (0..5).for_each(|_| ask()));
            }
        });
        busy.load(Ordering::Relaxed) > 0
    });
    let (done, busy) = (done.into_inner(), busy.into_inner());
    println!("{done} answered, {busy} rejected as busy, in {rounds:?} rounds");
    assert!(rounds.is_some() && done > 0);
    is_well(&server);
}
