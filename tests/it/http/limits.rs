//! Resource limits per client and for all clients together.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use flate2::Compression;
use flate2::write::GzEncoder;
use socket2::{Domain, Socket, Type};

use super::{Answer, IO_TIMEOUT, Server, worked_example};
use crate::cli::{Folder, minutes};
use crate::servers::LIMIT;
use crate::servers::ready::until;

const SECRET: &str = "correct-horse-battery";

fn bearer() -> String {
    format!("authorization: Bearer {SECRET}\r\n")
}

/// A server over [`worked_example`] that accepts samples.
fn taking(folder: &Folder, more: &str) -> Server {
    worked_example(folder);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    Server::start(folder, &format!("serve --store sqlite:trips.db --token-file token {more}"))
}

pub fn gzip(body: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(body).unwrap();
    gzip.finish().unwrap()
}

/// A trip of `van` with `samples` samples, at most a second apart.
pub fn long_trip(samples: u64) -> String {
    let line = |nth: u64| {
        let time = 1_714_550_400_000 + nth * 800;
        format!(
            "{{\"device_id\":\"van\",\"time\":{time},\"lat\":{}.{:07},\"lon\":13.{:07},\
             \"speed\":{}}}\n",
            nth % 80,
            nth * 7_919 % 10_000_000,
            nth * 104_729 % 10_000_000,
            nth % 30
        )
    };
    (0..samples).map(line).collect()
}

/// The id of [`long_trip`].
pub const LONG_TRIP: &str = "van~20240501T080000.000Z";

/// A connection from another address of this machine.
fn connect_from(server: &Server, address: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let local: SocketAddr = (IpAddr::from(address), 0).into();
    socket.bind(&local.into()).unwrap();
    let remote: SocketAddr = server.address.parse().unwrap();
    socket.connect(&remote.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(IO_TIMEOUT)).unwrap();
    stream
}

fn send(mut stream: &TcpStream, head: &str) {
    stream.write_all(head.as_bytes()).unwrap();
}

/// The start of a response, up to its status.
fn status(mut stream: &TcpStream) -> String {
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    String::from_utf8_lossy(&line[9..]).into_owned()
}

/// A counter of `/metrics`; 0 if absent.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.request("GET", "/metrics", &bearer(), b"").is(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

#[test]
fn a_small_body_of_countless_samples_takes_little_memory() {
    let folder = Folder::new();
    let server = taking(&folder, "");
    let most = 16 << 20;
    let array = format!("[{}0]", "0,".repeat((most - 4) / 2));
    for body in [array, "0\n".repeat(most / 2)] {
        let packed = gzip(body.as_bytes());
        assert!(packed.len() < 64 << 10, "{} bytes", packed.len());
        let headers = format!("{}content-encoding: gzip\r\n", bearer());
        for _ in 0..3 {
            let problem = server.request("POST", "/v1/samples", &headers, &packed);
            let problem = problem.fails(400, "bad_request");
            assert!(problem["detail"].as_str().unwrap().contains("more than 100000"), "{problem}");
        }
    }
    // An array within an array, and the records of an app, whose elements are found when they are
    // decoded.
    let nested = gzip(format!("[[{}0]]", "0,".repeat((most - 8) / 2)).as_bytes());
    let batch = gzip(format!("{{\"locations\":[{}0]}}", "0,".repeat((most - 32) / 2)).as_bytes());
    let headers = format!("{}content-encoding: gzip\r\n", bearer());
    for (target, body) in [("/v1/samples", &nested), ("/v1/in/overland", &batch)] {
        let problem = server.request("POST", target, &headers, body).fails(400, "bad_request");
        assert!(problem["detail"].as_str().unwrap().contains("more than 100000"), "{problem}");
    }
    assert!(server.peak_memory() < 150 << 20, "{} bytes", server.peak_memory());
}

#[test]
fn letters_of_one_token_leave_place_for_those_of_others() {
    let folder = Folder::new();
    worked_example(&folder);
    let tokens = ["phone", "other"].map(|name| (name, format!("token-of-the-{name}")));
    let lines = tokens.each_ref().map(|(name, secret)| format!("{name}:read,write:{secret}"));
    folder.write("token", lines.join("\n"));
    folder.write("tstar.toml", "max_dead_letters = \"80KB\"\n");
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let post = |nth: usize, target: &str, body: &str| {
        let bearer = format!("authorization: Bearer {}\r\n", tokens[nth].1);
        server.request("POST", target, &bearer, body.as_bytes())
    };
    let bad = |nth: usize| format!("{{\"bad\":{nth},\"pad\":\"{:1000}\"}}\n", "");
    let full = (0..20).position(|nth| post(0, "/v1/samples", &bad(nth)).status == 507);
    assert!(matches!(full, Some(5..=9)), "{full:?}");
    let problem = post(0, "/v1/samples", &bad(99)).fails(507, "letters_full");
    assert!(problem["detail"].as_str().unwrap().contains("tstar dlq"), "{problem}");
    post(0, "/v1/in/overland", &"x".repeat(1000)).fails(507, "letters_full");
    let good = minutes("late", &[1]);
    post(0, "/v1/samples", &good).is(200);
    // Neither the good sample nor the bad one is stored if the letter has no place.
    let mixed = minutes("mixed", &[1]) + &bad(100);
    post(0, "/v1/samples", &mixed).fails(507, "letters_full");
    let found = post(1, "/v1/samples", &bad(101)).is(200).json();
    assert_eq!((&found["refused"], &found["results"][0]["status"]), (&1.into(), &"dead".into()));
    let bearer = format!("authorization: Bearer {}\r\n", tokens[1].1);
    let target = "/v1/trips/lookup?device=mixed&at=2024-05-01T08:01:00Z";
    server.request("GET", target, &bearer, b"").fails(404, "no_device");
    let text = server.request("GET", "/metrics", &bearer, b"").is(200).text();
    assert!(text.contains("tstar_http_rejected_total{reason=\"dead_letters\"}"), "{text}");
    folder.run("dlq purge --all --yes --store sqlite:trips.db").ends(0);
    post(0, "/v1/samples", &bad(102)).is(200);
}

#[test]
fn equal_bad_samples_of_a_request_are_one_letter() {
    let folder = Folder::new();
    let server = taking(&folder, "");
    let packed = gzip("0\n".repeat(100_000).as_bytes());
    let headers = format!("{}content-encoding: gzip\r\n", bearer());
    let found = server.request("POST", "/v1/samples", &headers, &packed).is(200).json();
    assert_eq!((&found["taken"], &found["refused"]), (&0.into(), &100_000.into()));
    let letters = folder.run("dlq ls --store sqlite:trips.db").ends(0).objects();
    assert_eq!((letters.len(), &letters[0]["count"]), (1, &100_000.into()));
}

#[test]
fn bodies_of_all_requests_share_a_budget() {
    let folder = Folder::new();
    let server = taking(&folder, "");
    let part = vec![b'\n'; 15 << 20];
    let head = format!(
        "POST /v1/samples HTTP/1.1\r\nhost: {}\r\n{}content-length: {}\r\n\r\n",
        server.address,
        bearer(),
        part.len() + 1
    );
    let held: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(head.as_bytes()).unwrap();
            // A refused connection may be closed by now.
            stream.write_all(&part).ok();
            stream
        })
        .collect();
    let name = "tstar_http_rejected_total{reason=\"memory\"} ";
    let refused = || (metric(&server, name) > 0).then_some(());
    until("a refusal", LIMIT, refused, || None);
    assert!(server.peak_memory() < 200 << 20, "{} bytes", server.peak_memory());
    drop(held);
    // The budget they held is released.
    let lines = minutes("late", &[1]) + &" ".repeat(15 << 20);
    let taken = || {
        let answer = server.request("POST", "/v1/samples", &bearer(), lines.as_bytes());
        (answer.status == 200).then_some(())
    };
    until("samples to be taken again", LIMIT, taken, || None);
}

#[test]
fn bodies_that_never_come_are_closed_on_every_route() {
    let folder = Folder::new();
    let server = taking(&folder, "--max-connections 600 --max-requests 4");
    let routes = [
        ("POST", "/v1/login", Some("408")),
        ("POST", "/v1/samples", Some("408")),
        ("POST", "/v1/trips/lookup", Some("408")),
        ("POST", "/v1/logout", None),
        ("DELETE", "/v1/trips/x/tags/y", None),
        ("GET", "/livez", None),
        ("GET", "/", None),
        ("POST", "/openapi.json", None),
        ("PUT", "/nowhere", None),
    ];
    let silent: Vec<_> = (0..50)
        .flat_map(|_| routes)
        .map(|(method, target, expected)| {
            let stream = server.connect();
            let (host, bearer) = (&server.address, bearer());
            send(
                &stream,
                &format!(
                    "{method} {target} HTTP/1.1\r\nhost: {host}\r\n{bearer}content-length: 9\r\n\r\n{{"
                ),
            );
            (stream, target, expected)
        })
        .collect();
    for (mut stream, target, expected) in silent {
        if let Some(expected) = expected {
            assert_eq!(status(&stream), expected, "{target}");
        }
        // The server closes, rather than this side's timeout.
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => (),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{target}"),
        }
    }
}

#[test]
fn a_login_is_small() {
    let folder = Folder::new();
    let server = taking(&folder, "");
    let body = format!(r#"{{"token":"{}"}}"#, "x".repeat(4096));
    server.request("POST", "/v1/login", "", body.as_bytes()).fails(413, "too_large");
    let packed = gzip(body.as_bytes());
    let headers = "content-encoding: gzip\r\n";
    server.request("POST", "/v1/login", headers, &packed).fails(413, "too_large");
}

#[test]
fn liveness_is_answered_when_all_connections_are_taken() {
    let folder = Folder::new();
    let server = taking(&folder, "--max-connections 20");
    // More than the maximum, and more than are answered beyond it.
    let held: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    for _ in 0..20 {
        assert_eq!(server.get("/livez").is(200).text(), "ok\n");
    }
    let refused = || (server.get("/version").status == 503).then_some(());
    until("a refusal", LIMIT, refused, || None);
    assert_eq!(server.get("/livez").is(200).text(), "ok\n");
    drop(held);
}

#[test]
fn one_address_holds_its_share_of_connections_alone() {
    let folder = Folder::new();
    let server = taking(&folder, "--max-client-connections 5");
    let held: Vec<TcpStream> = (0..5).map(|_| connect_from(&server, [127, 0, 0, 9])).collect();
    let ask = |address| {
        let stream = connect_from(&server, address);
        send(&stream, "GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n");
        status(&stream)
    };
    assert_eq!(ask([127, 0, 0, 9]), "503");
    assert_eq!(ask([127, 0, 0, 8]), "200");
    drop(held);
    let answered = || (ask([127, 0, 0, 9]) == "200").then_some(());
    until("a free connection", LIMIT, answered, || None);
    let words = "serve --store sqlite:trips.db --max-connections 5 --max-client-connections 6";
    folder.run(words).ends(2).says(&["max_client_connections", "0 to 5"]);
}

#[test]
fn one_client_follows_the_changes_so_often_and_no_more() {
    let folder = Folder::new();
    let server = taking(&folder, "--max-client-streams 3");
    let follow = |address| {
        let stream = connect_from(&server, address);
        let bearer = bearer();
        send(&stream, &format!("GET /v1/changes/stream HTTP/1.1\r\nhost: x\r\n{bearer}\r\n"));
        (status(&stream), stream)
    };
    let held: Vec<_> = (0..3).map(|_| follow([127, 0, 0, 9])).collect();
    assert!(held.iter().all(|(status, _)| status == "200"));
    assert_eq!(follow([127, 0, 0, 9]).0, "503");
    assert_eq!(follow([127, 0, 0, 8]).0, "200");
    drop(held);
    let followed = || (follow([127, 0, 0, 9]).0 == "200").then_some(());
    until("a free stream", LIMIT, followed, || None);
}

#[test]
fn large_answers_count_until_they_are_taken_and_slow_readers_are_closed() {
    let folder = Folder::with("long.ndjson", long_trip(50_000));
    folder.ingest("long.ndjson --store sqlite:trips.db");
    let server = taking(&folder, "");
    let readers: Vec<_> = (0..80)
        .map(|_| {
            let stream = server.connect();
            let bearer = bearer();
            let target = format!("/v1/trips/{LONG_TRIP}?path=true");
            send(&stream, &format!("GET {target} HTTP/1.1\r\nhost: x\r\n{bearer}\r\n"));
            stream
        })
        .collect();
    let found: Vec<String> = readers.iter().map(status).collect();
    let count = |status: &str| found.iter().filter(|it| *it == status).count();
    let (answered, refused) = (count("200"), count("503"));
    println!("{answered} answers on their way, {refused} refused, {} bytes", server.peak_memory());
    assert!(answered >= 5 && refused >= 5 && answered + refused == 80, "{found:?}");
    assert!(server.peak_memory() < 250 << 20, "{} bytes", server.peak_memory());
    // They read a little now and then, and are closed nevertheless.
    let name = "tstar_http_rejected_total{reason=\"slow_reader\"} ";
    let left = || {
        for mut stream in &readers {
            // A refused one has ended.
            stream.read_exact(&mut [0; 16]).ok();
        }
        (metric(&server, name) >= answered as u64).then_some(())
    };
    until("all slow readers to be left", LIMIT, left, || None);
    // The memory they held is released, and a client that reads gets the whole response.
    let target = format!("/v1/trips/{LONG_TRIP}?path=true");
    let trip = server.request("GET", &target, &bearer(), b"").is(200).json();
    assert_eq!(trip["path"]["times"].as_array().unwrap().len(), 50_000);
}

#[test]
fn readers_that_are_slow_leave_place_for_those_of_another_token() {
    let folder = Folder::with("long.ndjson", long_trip(50_000));
    folder.ingest("long.ndjson --store sqlite:trips.db");
    let other = "token-of-another-reader";
    folder.write("token", format!("ops:read,write:{SECRET}\nother:read:{other}"));
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let target = format!("/v1/trips/{LONG_TRIP}?path=true");
    let slow = |_| {
        let stream = server.connect();
        send(&stream, &format!("GET {target} HTTP/1.1\r\nhost: x\r\n{}\r\n", bearer()));
        stream
    };
    let readers: Vec<_> = (0..40).map(slow).collect();
    let found: Vec<String> = readers.iter().map(status).collect();
    assert!(found.iter().any(|status| status == "503"), "{found:?}");
    // They do not read, and still hold all that their token may.
    let other = format!("authorization: Bearer {other}\r\n");
    let trip = server.request("GET", &target, &other, b"").is(200).json();
    assert_eq!(trip["path"]["times"].as_array().unwrap().len(), 50_000);
    let text = server.request("GET", "/metrics", &other, b"").is(200).text();
    assert!(text.contains("tstar_http_rejected_total{reason=\"client_answers\"}"), "{text}");
}

#[test]
fn the_bytes_of_an_answer_are_bounded() {
    let line = |time: u64| {
        format!("{{\"device_id\":\"zip\",\"time\":{time},\"lat\":52.5,\"lon\":13.5}}\n")
    };
    let begin = 1_714_550_400_000;
    // Every second sample joins two trips.
    let apart = (0..600).map(|nth| line(begin + nth * 8000));
    let joining = (0..599).map(|nth| line(begin + nth * 8000 + 4000));
    let folder = Folder::with("zip.ndjson", apart.chain(joining).collect::<String>());
    folder.ingest("zip.ndjson --store sqlite:trips.db --max-gap 5s");
    let server = Server::start(&folder, "serve --store sqlite:trips.db");
    let trip = server.get(&format!("/v1/trips/lookup?device=zip&at={begin}")).is(200).json();
    assert_eq!(trip["absorbed"].as_array().unwrap().len(), 599);
    let ask = |pairs: usize| {
        let pair = format!(r#"{{"device":"zip","at":{begin}}}"#);
        let body = format!(r#"{{"pairs":[{}]}}"#, vec![pair; pairs].join(","));
        server.request("POST", "/v1/trips/lookup", "", body.as_bytes())
    };
    ask(20).is(200);
    ask(1000).fails(400, "answer_too_large");
}

#[test]
fn a_request_names_one_host() {
    let folder = Folder::new();
    let server = taking(&folder, "");
    for hosts in ["host: localhost\r\nhost: localhost\r\n", "host: a\r\nHost: b\r\n"] {
        let request = format!("GET /livez HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        Answer::read(&server.raw(request.as_bytes())).fails(421, "foreign_name");
    }
}

#[test]
fn what_never_changes_is_packed_once() {
    let folder = Folder::new();
    let server = taking(&folder, "");
    for target in ["/", "/assets/leaflet.js", "/openapi.json"] {
        let plain = server.get(target).is(200);
        assert_eq!(plain.header("content-encoding"), None, "{target}");
        let packed = server.request("GET", target, "accept-encoding: gzip\r\n", b"").is(200);
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{target}");
        assert_eq!(packed.header("vary"), Some("accept-encoding"), "{target}");
        // It was complete before it was sent.
        let length = packed.header("content-length").map(|it| it.parse().unwrap());
        assert_eq!(length, Some(packed.body.len()), "{target}");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain.body, "{target}");
    }
}

#[test]
fn clients_without_a_token_get_a_one_word_reason() {
    let folder = Folder::new();
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let port = crate::servers::free_port();
    let store = format!("scylla://127.0.0.1:{port}/fleet");
    let server = Server::launch(&folder, &format!("serve --store {store} --token-file token"));
    let ready = |headers: &str| {
        let ready = server.request("GET", "/readyz?verbose", headers, b"").is(503).json();
        ready["checks"][0]["problem"].as_str().unwrap().to_owned()
    };
    assert_eq!(ready(""), "not_reached");
    assert_eq!(ready("authorization: Bearer other\r\n"), "not_reached");
    assert_eq!(ready(&bearer()), "not connected yet");
}
