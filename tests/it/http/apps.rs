//! Samples of apps and services, in their own formats.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::limits::gzip;
use super::{Answer, Server, worked_example};
use crate::cli::{Folder, minutes};
use crate::faults::store::waiting;
use crate::formats::{Ends, comparable, expected};
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::support::data;
use crate::topic::Topic;

const SECRET: &str = "correct-horse:battery";

/// What an app sends.
struct App {
    /// Also the preset of its format.
    name: &'static str,
    file: &'static str,
    answer: &'static str,
    has_driver: bool,
    ends: Ends,
}

const fn app(name: &'static str, file: &'static str) -> App {
    App { name, file, answer: "{}", has_driver: false, ends: Ends::Standing }
}

const APPS: [App; 5] = [
    App { answer: "[]", ends: Ends::Silence, ..app("owntracks", "owntracks/http-bodies.ndjson") },
    App { answer: r#"{"result":"ok"}"#, ..app("overland", "overland/batches.ndjson") },
    App { has_driver: true, ends: Ends::Ignition, ..app("traccar", "traccar/kafka.tsv") },
    app("traccar-client", "traccar-client/bodies.ndjson"),
    App { ends: Ends::Ignition, ..app("flespi", "flespi/http-stream.ndjson") },
];

impl App {
    /// The bodies of a file: its lines, those of a topic without their keys.
    fn bodies(&self) -> Vec<String> {
        let text = std::fs::read_to_string(data("formats").join(self.file)).unwrap();
        let value = |line: &str| line.rsplit('\t').next().unwrap().to_owned();
        text.lines().map(value).collect()
    }

    fn route(&self) -> String {
        format!("/v1/in/{}", self.name)
    }

    /// Posts every body as the app does.
    fn post_all(&self, server: &Server) {
        for body in self.bodies() {
            let answer = post(server, &self.route(), "", body.as_bytes()).is(200);
            assert_eq!(answer.text(), self.answer, "{}", self.name);
            assert_eq!(answer.header("content-type"), Some("application/json"));
        }
    }

    /// The reference trips, as this format has them.
    fn trips(&self) -> Vec<Value> {
        expected(["van-1", "van-2"], self.has_driver, self.ends)
    }
}

pub fn basic(password: &str) -> String {
    format!("authorization: Basic {}\r\n", BASE64.encode(format!("phone:{password}").as_bytes()))
}

fn post(server: &Server, target: &str, headers: &str, body: &[u8]) -> Answer {
    server.request("POST", target, &format!("{}{headers}", basic(SECRET)), body)
}

/// A server over a store with a sample of `other`, whose rules these flags set.
fn serve(folder: &Folder, flags: &str) -> Server {
    folder.write("other", minutes("other", &[0]));
    folder.ingest(&format!("other --store sqlite:t.db {flags}"));
    serve_store(folder)
}

fn serve_store(folder: &Folder) -> Server {
    folder.write("token", format!("ops:read,write:{SECRET}"));
    Server::start(folder, "serve --store sqlite:t.db --token-file token")
}

/// The trips of the store but those of `other`.
fn trips(folder: &Folder) -> Vec<Value> {
    let mut trips = folder.trips("t.db");
    trips.retain(|trip| trip["device_id"] != "other");
    comparable(trips)
}

fn samples(server: &Server, route: &str, result: &str) -> u64 {
    let bearer = format!("authorization: Bearer {SECRET}\r\n");
    let text = server.request("GET", "/metrics", &bearer, b"").is(200).text();
    let series = format!("tstar_http_samples_total{{route=\"{route}\",result=\"{result}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.map_or(0, |value| value.parse().unwrap())
}

fn letters(folder: &Folder) -> Vec<Value> {
    folder.run("dlq ls --format ndjson --store sqlite:t.db").ends(0).objects()
}

#[test]
fn every_app_gives_the_reference_trips() {
    for app in APPS {
        let folder = Folder::new();
        let server = serve(&folder, "");
        app.post_all(&server);
        assert_eq!(trips(&folder), app.trips(), "{}", app.name);
        assert_eq!(samples(&server, &app.route(), "duplicate"), 1, "{}", app.name);
        assert_eq!(letters(&folder), [] as [Value; 0], "{}", app.name);
        assert!(!server.said().contains(SECRET), "the log contains the token");
    }
}

/// Other names and units; and the format of the app itself, of whose file the store has a line.
#[test]
fn stores_with_a_map_of_their_own_take_every_app() {
    let map = "--map device_id=/v/id,lat=/v/y,lon=/v/x,when=_type=fix --speed-unit kn";
    let line = r#"{"_type":"fix","v":{"id":"other","y":1,"x":2},"time":"2026-11-20T07:00:00Z"}"#;
    for app in APPS {
        let folder = Folder::with("line", line);
        folder.ingest(&format!("line --store sqlite:t.db {map}"));
        let server = serve_store(&folder);
        app.post_all(&server);
        assert_eq!(trips(&folder), app.trips(), "{}", app.name);
        server.drain();

        let folder = Folder::with("line", &app.bodies()[0]);
        folder.ingest(&format!("line --store sqlite:t.db --preset {}", app.name));
        let server = serve_store(&folder);
        app.post_all(&server);
        assert_eq!(trips(&folder), app.trips(), "{}", app.name);
        assert_eq!(letters(&folder), [] as [Value; 0], "{}", app.name);
    }
}

#[test]
fn a_topic_takes_every_app() {
    for app in APPS {
        let Some(topic) = Topic::new(2) else { return };
        let folder = Folder::new();
        folder.write("token", format!("ops:read,write:{SECRET}"));
        let words = format!(
            "run {} --store sqlite:t.db --from earliest --token-file token --flush-interval 1s \
             --max-staleness 1s",
            topic.flags()
        );
        let server = Server::start(&folder, &words);
        // The store is opened once the daemon has created it.
        let taken = || (post(&server, &app.route(), "", b"").status == 200).then_some(());
        until("the route to accept samples", LIMIT, taken, || None);
        app.post_all(&server);
        assert_eq!(post(&server, &app.route(), "", b"not json").is(200).text(), app.answer);
        assert_eq!(samples(&server, &app.route(), "sent"), 15, "{}", app.name);
        let all = || (trips(&folder) == app.trips()).then_some(());
        until("the reference trips", LIMIT, all, || None);
        assert_eq!(samples(&server, &app.route(), "dead"), 1, "{}", app.name);
        let dlq = format!("dlq ls --format ndjson --store sqlite:t.db --brokers {}", topic.brokers);
        let kept = || {
            let letters = folder.run(&dlq).ends(0).objects();
            (letters.len() == 1).then_some(())
        };
        until("the dead letter", LIMIT, kept, || None);
        server.drain();
    }
}

#[test]
fn owntracks_names_its_device_in_a_header() {
    let folder = Folder::new();
    let server = serve(&folder, "");
    let app = &APPS[0];
    for body in app.bodies() {
        let mut message: Value = serde_json::from_str(&body).unwrap();
        let topic = message.as_object_mut().unwrap().remove("topic").unwrap();
        let device = topic.as_str().unwrap().rsplit('/').next().unwrap();
        let headers = format!("X-Limit-U: fleet\r\nX-Limit-D: {device}\r\n");
        let answer = post(&server, &app.route(), &headers, message.to_string().as_bytes());
        assert_eq!(answer.is(200).text(), "[]");
    }
    assert_eq!(trips(&folder), app.trips());
    // Other messages are skipped, and counted.
    let others = std::fs::read_to_string(data("formats/owntracks/others.ndjson")).unwrap();
    for other in others.lines() {
        assert_eq!(post(&server, &app.route(), "", other.as_bytes()).is(200).text(), "[]");
    }
    assert_eq!(samples(&server, &app.route(), "skipped"), 5);
    assert_eq!(letters(&folder), [] as [Value; 0]);
}

/// What Traccar Client sent before version 9.
#[test]
fn the_osmand_protocol_is_read_from_the_query() {
    let folder = Folder::new();
    let server = serve(&folder, "");
    let app = &APPS[3];
    let in_knots = 3600.0 / 1852.0;
    for (nth, body) in app.bodies().iter().enumerate() {
        let body: Value = serde_json::from_str(body).unwrap();
        let (location, coords) = (&body["location"], &body["location"]["coords"]);
        let time = location["timestamp"].as_str().unwrap();
        let time = chrono::DateTime::parse_from_rfc3339(time).unwrap().timestamp();
        let mut target = format!(
            "{}?id={}&timestamp={time}&lat={}&lon={}&bearing={}&altitude={}&accuracy={}&batt=&x=y",
            app.route(),
            body["device_id"].as_str().unwrap(),
            coords["latitude"],
            coords["longitude"],
            coords["heading"],
            coords["altitude"],
            coords["accuracy"],
        );
        if let Some(speed) = coords["speed"].as_f64() {
            target += &format!("&speed={}", speed * in_knots);
        }
        let method = if nth % 2 == 0 { "POST" } else { "GET" };
        server.request(method, &target, &basic(SECRET), b"").is(200);
    }
    assert_eq!(trips(&folder), app.trips());
    let target = format!("{}?id=van-1&lat=91&lon=0&timestamp=1795158000", app.route());
    server.request("GET", &target, &basic(SECRET), b"").is(200);
    let letter = &letters(&folder)[0];
    assert_eq!(letter["reason"], "out_of_range", "{letter}");
    server.request("GET", &target, "", b"").fails(401, "unauthorized");
}

#[test]
fn the_token_is_the_password_of_any_user() {
    let folder = Folder::new();
    let server = serve(&folder, "");
    let (route, body) = (APPS[0].route(), APPS[0].bodies().remove(0));
    let try_with = |headers: &str| server.request("POST", &route, headers, body.as_bytes());
    let encoded = |text: &str| {
        try_with(&format!("authorization: Basic {}\r\n", BASE64.encode(text.as_bytes())))
    };
    try_with(&basic(SECRET)).is(200);
    encoded(&format!(":{SECRET}")).is(200);
    try_with(&format!("authorization: Bearer {SECRET}\r\n")).is(200);
    for wrong in ["", "x", SECRET, &format!("a:{SECRET}x"), &format!("{SECRET}:a"), "a:"] {
        let answer = encoded(wrong);
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Basic realm="), "{challenge}");
        answer.fails(401, "unauthorized");
    }
    for wrong in ["", "authorization: Basic\r\n", "authorization: Basic !\r\n"] {
        try_with(wrong).fails(401, "unauthorized");
    }
    // A login is for the page.
    let login = json!({ "token": SECRET }).to_string();
    let login = server.request("POST", "/v1/login", "", login.as_bytes()).is(204);
    let cookie = login.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    try_with(&format!("cookie: {cookie}\r\n")).fails(401, "unauthorized");
    // Other routes take a bearer alone.
    server.request("GET", "/v1/devices", &basic(SECRET), b"").fails(401, "unauthorized");
    server.request("POST", "/v1/samples", &basic(SECRET), b"").fails(401, "unauthorized");
    server.drain();
    let server = Server::start(&folder, "serve --store sqlite:t.db");
    post(&server, &route, "", body.as_bytes()).fails(403, "takes_no_samples");
}

#[test]
fn what_cannot_be_read_becomes_a_dead_letter_and_the_app_goes_its_way() {
    let folder = Folder::new();
    let server = serve(&folder, "");
    let deep = "[".repeat(100_000);
    let huge = format!("{{\"_type\":\"location\",\"x\":\"{}\"}}", "y".repeat(10 << 20));
    for app in &APPS {
        for (headers, body) in [
            ("", "not json"),
            ("", deep.as_str()),
            ("content-type: image/png\r\n", "\u{0}\u{1}"),
            ("content-type: application/x-www-form-urlencoded\r\n", "id=1&lat=2"),
        ] {
            let answer = post(&server, &app.route(), headers, body.as_bytes()).is(200);
            assert_eq!(answer.text(), app.answer, "{}", app.name);
        }
        post(&server, &app.route(), "", b"\xff\xfe").is(200);
        post(&server, &app.route(), "", b" \n").is(200);
        assert_eq!(samples(&server, &app.route(), "dead"), 5, "{}", app.name);
        post(&server, &app.route(), "content-encoding: br\r\n", b"x")
            .fails(415, "unsupported_encoding");
        let bomb = gzip(&vec![b' '; 64 << 20]);
        post(&server, &app.route(), "content-encoding: gzip\r\n", &bomb).fails(413, "too_large");
    }
    post(&server, "/v1/in/owntracks", "", huge.as_bytes()).is(200);
    let letters = letters(&folder);
    assert_eq!(letters.len(), 5 * APPS.len() + 1);
    let reasons: Vec<_> = letters.iter().map(|it| it["reason"].as_str().unwrap()).collect();
    for reason in ["bad_json", "bad_utf8", "missing_field"] {
        assert!(reasons.contains(&reason), "{reasons:?}");
    }
    assert!(server.peak_memory() < 250 << 20, "{} bytes", server.peak_memory());
    server.drain();
}

#[test]
fn bad_elements_are_kept_and_the_good_ones_around_them_used() {
    let folder = Folder::new();
    let server = serve(&folder, "");
    let point = |minute: u32, lat: &str| {
        format!(
            "{{\"type\":\"Feature\",\"geometry\":{{\"type\":\"Point\",\"coordinates\":[13.4,\
             {lat}]}},\"properties\":{{\"timestamp\":\"2024-05-01T08:{minute:02}:00Z\",\
             \"device_id\":\"van-1\"}}}}"
        )
    };
    let bad = point(1, "\"north\"");
    let batch = format!("{{\"locations\":[{},{bad},{}]}}", point(0, "52.5"), point(2, "52.6"));
    post(&server, "/v1/in/overland", "", batch.as_bytes()).is(200);
    assert_eq!(trips(&folder)[0]["samples"], 2);
    let listed = letters(&folder);
    assert_eq!(listed.len(), 1);
    let [reason, value] = ["reason", "value"].map(|name| listed[0][name].as_str().unwrap());
    assert_eq!((reason, value), ("bad_type", &*bad));
    // A sample that only the rules of the store refuse is kept as that store reads it.
    let early = point(3, "52.7").replace("2024", "1999");
    let batch = format!("{{\"locations\":[{early}]}}");
    post(&server, "/v1/in/overland", "", batch.as_bytes()).is(200);
    let listed = letters(&folder);
    let value: Value = serde_json::from_str(listed[1]["value"].as_str().unwrap()).unwrap();
    assert_eq!(value["device_id"], "van-1", "{value}");
    assert_eq!(listed[1]["reason"], "time_before_min");
    // More bad elements than letters: one letter for the batch.
    let batch = format!("{{\"locations\":[{}]}}", vec!["7"; 500].join(","));
    post(&server, "/v1/in/overland", "", batch.as_bytes()).is(200);
    let listed = letters(&folder);
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[2]["value"], batch);
    assert_eq!(samples(&server, "/v1/in/overland", "dead"), 502);
}

#[test]
fn a_map_that_cannot_express_the_samples_is_a_conflict() {
    let folder = Folder::new();
    folder.write("day", r#"{"d":"x","s":[{"time":"2024-05-01T08:00:00Z","lat":1,"lon":2}]}"#);
    folder.ingest("day --map samples=/s,device_id=/d --store sqlite:t.db");
    let server = serve_store(&folder);
    for app in &APPS {
        let body = app.bodies().remove(0);
        let problem =
            post(&server, &app.route(), "", body.as_bytes()).fails(409, "not_expressible");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("(samples=/s)") && detail.contains(app.name), "{detail}");
    }
    // A message that is skipped needs no record.
    post(&server, "/v1/in/owntracks", "", b"{\"_type\":\"lwt\"}").is(200);
    server.drain();
    assert_eq!(trips(&folder).len(), 1, "nothing was added");
    assert_eq!(letters(&folder), [] as [Value; 0]);

    let Some(topic) = Topic::new(1) else { return };
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let schema = data("formats").join("avro/schema.avsc");
    let words = format!(
        "run {} --store sqlite:avro.db --from earliest --token-file token --decode avro --schema {}",
        topic.flags(),
        schema.display()
    );
    let server = Server::start(&folder, &words);
    let body = APPS[2].bodies().remove(0);
    let refused = || {
        let answer = post(&server, "/v1/in/traccar", "", body.as_bytes());
        (answer.status != 503).then(|| answer.fails(409, "not_expressible"))
    };
    let problem = until("an answer", LIMIT, refused, || None);
    assert!(problem["detail"].as_str().unwrap().contains("are not JSON"), "{problem}");
    server.drain();
}

#[test]
fn a_batch_of_several_devices_is_one_record_of_a_topic_only_if_the_map_allows() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let words = format!(
        "run {} --store sqlite:t.db --from earliest --token-file token --flush-interval 1s \
         --max-staleness 1s --preset overland",
        topic.flags()
    );
    let server = Server::start(&folder, &words);
    let several = APPS[1].bodies().remove(0);
    let refused = || {
        let answer = post(&server, "/v1/in/overland", "", several.as_bytes());
        (answer.status != 503).then(|| answer.fails(409, "not_expressible"))
    };
    let problem = until("an answer", LIMIT, refused, || None);
    assert!(problem["detail"].as_str().unwrap().contains("several devices"), "{problem}");
    let mut batch: Value = serde_json::from_str(&several).unwrap();
    let points = batch["locations"].as_array_mut().unwrap();
    points.retain(|point| point["properties"]["device_id"] == "van-1");
    let count = points.len();
    points.push(json!({"geometry": {"type": "Point"}}));
    let pretty = serde_json::to_string_pretty(&batch).unwrap();
    post(&server, "/v1/in/overland", "", pretty.as_bytes()).is(200);
    assert_eq!(samples(&server, "/v1/in/overland", "sent"), count as u64);
    assert_eq!(samples(&server, "/v1/in/overland", "dead"), 1);
    let is_there = || (!trips(&folder).is_empty()).then_some(());
    until("the trip", LIMIT, is_there, || None);
    server.drain();
}

#[test]
fn while_another_process_writes_to_the_store_the_app_comes_again() {
    let folder = Folder::new();
    let (import, _stdin, _) = waiting(&folder);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let (route, body) = (APPS[0].route(), APPS[0].bodies().remove(0));
    let answer = post(&server, &route, "", body.as_bytes());
    assert_eq!(answer.header("retry-after"), Some("1"));
    answer.fails(503, "busy");
    import.kill();
    post(&server, &route, "", body.as_bytes()).is(200);
    server.drain();
}

/// Bodies are posted by several clients until the server is killed: each answer is a promise.
#[test]
fn a_kill_after_the_answer_loses_nothing() {
    let folder = Folder::new();
    let server = serve(&folder, "");
    let (next, answered) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let address = server.address.clone();
    let mut server = Some(server);
    let client = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let body = json!({"_type": "location", "tst": 1_714_550_400 + 1000 * nth, "lat": 1,
                "lon": 2, "topic": "owntracks/u/van-1"});
            if super::try_post(&address, "/v1/in/owntracks", &basic(SECRET), &body) != Some(200) {
                break;
            }
            answered.lock().unwrap().push(nth);
        }
    };
    std::thread::scope(|scope| {
        let clients = [scope.spawn(client), scope.spawn(client), scope.spawn(client)];
        let enough = || (answered.lock().unwrap().len() >= 40).then_some(());
        until("answers", LIMIT, enough, || None);
        // Dropped, it is killed.
        drop(server.take());
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    let stored: Vec<i64> = trips(&folder)
        .iter()
        .map(|trip| trip["start_time"].as_str().unwrap())
        .map(|time| chrono::DateTime::parse_from_rfc3339(time).unwrap().timestamp())
        .collect();
    let answered = answered.into_inner().unwrap();
    assert!(answered.len() >= 40);
    for nth in answered {
        let time = 1_714_550_400 + 1000 * i64::try_from(nth).unwrap();
        assert!(stored.contains(&time), "body {nth} was answered, and is not stored: {stored:?}");
    }
}

#[test]
fn a_page_of_another_origin_sends_nothing_with_a_password_that_the_browser_knows() {
    let folder = Folder::new();
    worked_example(&folder);
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let server = Server::start(&folder, "serve --store sqlite:trips.db --token-file token");
    let osmand = "/v1/in/traccar-client?id=phone&lat=52.5&lon=13.4&timestamp=1714550400";
    for foreign in ["sec-fetch-site: cross-site\r\n", "origin: https://evil.example\r\n"] {
        let with = |login: &str| format!("{login}{foreign}");
        for login in [&*basic(SECRET), ""] {
            let answer = server.request("GET", osmand, &with(login), b"");
            // Nor does it ask for a password.
            assert_eq!(answer.header("www-authenticate"), None);
            answer.fails(403, "foreign_origin");
            let answer = server.request("POST", "/v1/in/owntracks", &with(login), b"{}");
            answer.fails(403, "foreign_origin");
        }
        // A browser adds no bearer token by itself.
        let bearer = with(&format!("authorization: Bearer {SECRET}\r\n"));
        server.request("GET", osmand, &bearer, b"").is(200);
    }
    server.request("GET", osmand, &basic(SECRET), b"").is(200);
}
