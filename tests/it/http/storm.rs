//! Hostile requests, generated from a seed, and slow clients of every kind, all at once: the server
//! stays live throughout, serves well-behaved clients afterwards, and its memory stays bounded.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastrand::Rng;

use super::contract::SEED_VARIABLE;
use super::limits::{LONG_TRIP, gzip, long_trip};
use super::{Server, worked_example};
use crate::cli::Folder;
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::support::times;

const SECRET: &str = "correct-horse-battery";

/// Maximum memory of the server, however many requests and clients there are: four of the largest
/// bodies (64 MB), the responses in flight (64 MB), and what it needs for itself and its
/// connections.
const MAX_MEMORY: u64 = 400 << 20;

/// Requests per connection, the last of which may be incomplete.
const BATCH: u64 = 20;

/// Clients that send requests at the same time.
pub const SENDERS: u64 = 8;

/// The seed of the first sender; each has the next one.
pub fn seed() -> u64 {
    times(SEED_VARIABLE, 1)
}

/// Bodies that decompress to far more than their size, made once.
pub struct Bodies {
    bombs: Vec<Vec<u8>>,
}

impl Bodies {
    pub fn new() -> Self {
        let most = 16 << 20;
        let bombs = [
            "\n".repeat(4 * most),
            "0\n".repeat(most / 2),
            format!("[{}0]", "0,".repeat(most / 2 - 2)),
            "[".repeat(most),
            format!("[{}]", vec!["{}"; 90_000].join(",")),
        ];
        Self { bombs: bombs.iter().map(|bomb| gzip(bomb.as_bytes())).collect() }
    }
}

fn noise(rng: &mut Rng, most: usize) -> String {
    (0..rng.usize(..=most)).map(|_| rng.char('!'..='~')).collect()
}

fn number(rng: &mut Rng) -> String {
    match rng.u8(..4) {
        0 => rng.i64(..).to_string(),
        1 => i64::MAX.to_string(),
        2 => (1_714_550_400_000 + rng.i64(..3_600_000)).to_string(),
        _ => format!("{}e{}", rng.i8(..), rng.i16(..)),
    }
}

fn target(rng: &mut Rng) -> String {
    let (odd, number) = (noise(rng, 30), number(rng));
    // Mostly valid characters of a target: others end the connection.
    let is_fine = |char: char| char.is_ascii_alphanumeric() || "~.-_!$&'()*+,;=:@/?".contains(char);
    let odd = if rng.u8(..50) > 0 { odd.replace(|char| !is_fine(char), "~") } else { odd };
    match rng.u8(..19) {
        0 => format!("/v1/trips/lookup?device=truck-17&at={number}"),
        1 => format!("/v1/trips/lookup?device={odd}&at={odd}&x={number}"),
        2 => format!("/v1/trips/{LONG_TRIP}?path=true&simplify={number}"),
        3 => format!("/v1/trips/{odd}"),
        4 => {
            format!("/v1/trips/truck-17~20240501T081000.000Z.{}", rng.choice(["gpx", "x"]).unwrap())
        }
        5 => format!("/v1/devices/{odd}/trips?from={number}&to={odd}&cursor={odd}"),
        6 => format!("/v1/devices?limit={number}"),
        7 => format!("/v1/trips?day={odd}&limit={number}"),
        8 => format!("/v1/changes?after={number}&limit={}", rng.u16(..2000)),
        9 => format!("/assets/{odd}"),
        10 => "/v1/samples".to_owned(),
        11 => "/v1/login".to_owned(),
        12 => "/v1/logout".to_owned(),
        13 => format!("/v1/trips/{odd}/explain"),
        14 => (*rng.choice(["/metrics", "/readyz?verbose", "/version", "/"]).unwrap()).to_owned(),
        15 => {
            let apps = ["owntracks", "overland", "traccar", "traccar-client", "flespi"];
            format!("/v1/in/{}", rng.choice(apps).unwrap())
        }
        16 => format!("/v1/in/traccar-client?id={odd}&lat={number}&lon=1&timestamp={number}"),
        17 => format!("/v1/in/{odd}"),
        _ => format!("/{odd}"),
    }
}

fn headers(rng: &mut Rng) -> String {
    let mut headers = String::new();
    match rng.u8(..8) {
        0 => headers += &format!("authorization: Basic {}\r\n", noise(rng, 60)),
        1 => headers += &super::apps::basic(SECRET),
        2 => {}
        _ => headers += &format!("authorization: Bearer {SECRET}\r\n"),
    }
    for _ in 0..rng.u8(..4) {
        headers += &match rng.u8(..7) {
            0 => format!("cookie: tstar={}\r\n", noise(rng, 80)),
            1 => "origin: https://evil.example.com\r\n".to_owned(),
            2 => format!("if-none-match: {}\r\n", noise(rng, 40)),
            3 => "accept-encoding: gzip\r\n".to_owned(),
            4 => "host: evil.example.com\r\n".to_owned(),
            5 => format!("last-event-id: {}\r\n", number(rng)),
            _ => format!("x-{}: {}\r\n", rng.u8(..), noise(rng, 2000)),
        };
    }
    headers
}

fn body(rng: &mut Rng, bodies: &Bodies) -> (&'static str, Vec<u8>) {
    let number = number(rng);
    match rng.u8(..64) {
        0 => ("content-encoding: gzip\r\n", rng.choice(&bodies.bombs).unwrap().clone()),
        1..4 => ("content-encoding: gzip\r\n", noise(rng, 200).into_bytes()),
        4..10 => ("", format!(r#"{{"pairs":[{{"device":"van","at":{number}}}]}}"#).into_bytes()),
        10..16 => ("", format!(r#"{{"token":"{}"}}"#, rng.u64(..)).into_bytes()),
        16..24 => (
            "",
            format!(
                "{{\"device_id\":\"d{}\",\"time\":{number},\"lat\":{},\"lon\":{number}}}\n",
                rng.u8(..),
                rng.i16(..)
            )
            .into_bytes(),
        ),
        24..32 => ("", noise(rng, 500).into_bytes()),
        32..40 => (
            "",
            format!(
                "{{\"_type\":\"location\",\"tid\":\"d{}\",\"tst\":{number},\"lat\":1,\
                 \"locations\":[{{}},{number}],\"position\":[],\"lon\":{number}}}",
                rng.u8(..)
            )
            .into_bytes(),
        ),
        _ => ("", Vec::new()),
    }
}

/// `requests` requests, one after the other; the last is sometimes invalid.
fn batch(rng: &mut Rng, bodies: &Bodies, requests: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for nth in 1..=requests {
        let method = rng.choice(["GET", "GET", "POST", "DELETE", "HEAD", "PUT"]).unwrap();
        let (about, body) = body(rng, bodies);
        let mut head = format!("{method} {} HTTP/1.1\r\nhost: localhost\r\n", target(rng));
        head += &headers(rng);
        if nth == requests {
            head += "connection: close\r\n";
        }
        head += &match (nth == requests, rng.u8(..8)) {
            (true, 0) => format!("content-length: {}\r\n\r\n", noise(rng, 5)),
            (true, 1) => format!("transfer-encoding: {}\r\n\r\n", noise(rng, 9)),
            (true, 2) => noise(rng, 40_000),
            _ => format!("{about}content-length: {}\r\n\r\n", body.len()),
        };
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(&body);
    }
    bytes
}

/// The statuses of consecutive responses.
fn statuses(answers: &[u8]) -> Vec<u16> {
    const START: &[u8] = b"HTTP/1.1 ";
    let starts = answers.windows(START.len()).enumerate().filter(|(_, it)| *it == START);
    let text = |at: usize| std::str::from_utf8(answers.get(at..at + 3)?).ok()?.parse().ok();
    starts.filter_map(|(at, _)| text(at + START.len())).collect()
}

/// Sends requests until all are sent.
pub fn send(server: &Server, bodies: &Bodies, seed: u64, left: &AtomicU64, answered: &AtomicU64) {
    let mut rng = Rng::with_seed(seed);
    let next = |left: u64| (left > 0).then(|| left.saturating_sub(BATCH));
    while let Ok(left) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
        let bytes = batch(&mut rng, bodies, left.min(BATCH));
        let answers = server.raw(&bytes);
        let found = statuses(&answers);
        let is_fault = |status: &u16| *status == 500 || !(200..600).contains(status);
        assert!(!found.iter().any(is_fault), "seed {seed}: {found:?} to {bytes:?}");
        answered.fetch_add(found.len() as u64, Ordering::Relaxed);
    }
}

/// A client that starts a request, and does not continue.
pub fn slow(server: &Server, nth: u64) -> TcpStream {
    let mut stream = server.connect();
    let bearer = format!("host: localhost\r\nauthorization: Bearer {SECRET}\r\n");
    let bytes = match nth % 6 {
        0 => String::new(),
        1 => format!("GET /v1/devices HTTP/1.1\r\n{bearer}"),
        2 => format!("POST /v1/login HTTP/1.1\r\n{bearer}content-length: 100\r\n\r\n{{"),
        3 => format!("POST /v1/samples HTTP/1.1\r\n{bearer}content-length: 9999999\r\n\r\n{{"),
        4 => format!("GET /v1/trips/{LONG_TRIP}?path=true HTTP/1.1\r\n{bearer}\r\n"),
        _ => format!("GET /v1/changes/stream HTTP/1.1\r\n{bearer}\r\n"),
    };
    // The connection may exceed the limit.
    drop(stream.write_all(bytes.as_bytes()));
    stream
}

/// CPU time of the server, s.
pub fn cpu(server: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let ticks: f64 = rest.split(' ').skip(12).take(2).map(|it| it.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

#[test]
fn no_request_and_no_client_takes_the_server_down() {
    let (requests, clients) =
        (times("TSTAR_TEST_HOSTILE_REQUESTS", 2000), times("TSTAR_TEST_SLOW_CLIENTS", 40));
    println!("hostile requests of seeds from {}", seed());
    let folder = Folder::with("long.ndjson", long_trip(20_000));
    worked_example(&folder);
    folder.ingest("long.ndjson --store sqlite:trips.db");
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let words = "serve --store sqlite:trips.db --token-file token --max-connections 1000";
    let server = Server::start(&folder, words);
    let slow: Vec<TcpStream> = (0..clients).map(|nth| slow(&server, nth)).collect();
    let (left, answered) = (AtomicU64::new(requests), AtomicU64::new(0));
    let (is_over, alive) = (AtomicBool::new(false), AtomicU64::new(0));
    let bodies = Bodies::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(server.get("/livez").is(200).text(), "ok\n");
                alive.fetch_add(1, Ordering::Relaxed);
            }
        });
        let sending: Vec<_> = (seed()..seed() + SENDERS)
            .map(|seed| {
                let (server, bodies, left, answered) = (&server, &bodies, &left, &answered);
                scope.spawn(move || send(server, bodies, seed, left, answered))
            })
            .collect();
        let ended: Vec<_> = sending.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let (answered, alive) = (answered.into_inner(), alive.into_inner());
    let (memory, cpu) = (server.peak_memory(), cpu(&server));
    println!(
        "{requests} hostile requests, {answered} answered, {clients} slow clients, alive {alive} \
         times, {} MB at most, {cpu} s of CPU",
        memory >> 20
    );
    assert!(answered > requests / 2 && alive > 0);
    assert!(memory < MAX_MEMORY, "{memory} bytes");
    drop(slow);
    let bearer = format!("authorization: Bearer {SECRET}\r\n");
    let target = "/v1/trips/lookup?device=truck-17&at=2024-05-01T08:05:00Z";
    let answer = || {
        let answer = server.request("GET", target, &bearer, b"");
        (answer.status == 200).then(|| answer.json())
    };
    assert_eq!(until("an answer", LIMIT, answer, || None)["samples"], 5);
    assert!(!server.said().contains("internal error"), "{}", server.said());
    server.drain();
}
