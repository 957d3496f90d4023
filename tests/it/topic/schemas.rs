//! Records whose schemas a registry knows. The registry is of the tests' own: no registry server
//! can be had here. It answers what the documented API answers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;

use super::{Topic, drain, start};
use crate::cli::Folder;
use crate::faults::until;
use crate::support::data;

const MAP: &str =
    "device_id=vehicle_id,time=ts,lat=/position/lat,lon=/position/lon,speed=speed_kmh";

/// Responses by path, and what was sent to it.
#[derive(Clone, Default)]
pub struct Registry {
    pub answers: Arc<Mutex<BTreeMap<String, Value>>>,
    pub sent: Arc<Mutex<Vec<Value>>>,
}

impl Registry {
    /// The registry of the reference data.
    fn of_reference() -> Self {
        let answers: BTreeMap<String, Value> =
            serde_json::from_slice(&reference("avro/registry.json")).unwrap();
        let path = |(request, body): (String, Value)| {
            (request.strip_prefix("GET ").unwrap().to_owned(), body)
        };
        let registry = Self::default();
        registry.answers.lock().unwrap().extend(answers.into_iter().map(path));
        registry
    }

    pub fn serve(&self, listener: TcpListener) {
        let Self { answers, sent } = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut reader = BufReader::new(&stream);
                let mut lines = reader.by_ref().lines().map_while(Result::ok);
                let request = lines.next().unwrap_or_default();
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                let head = lines.take_while(|line| !line.is_empty());
                let length = head.filter_map(|line| {
                    line.strip_prefix("content-length: ").and_then(|length| length.parse().ok())
                });
                let mut body = vec![0; length.last().unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                sent.lock().unwrap().extend(serde_json::from_slice::<Value>(&body));
                let answer = answers.lock().unwrap().get(&path).cloned();
                let unknown = json!({"error_code": 40403, "message": "Schema not found"});
                let (status, body) = answer.map_or(("404 Not Found", unknown), |it| ("200 OK", it));
                let body = body.to_string();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
                // A client that is gone wants no answer.
                (&stream).write_all((head + &body).as_bytes()).ok();
            }
        });
    }
}

fn reference(name: &str) -> Vec<u8> {
    std::fs::read(data("formats").join(name)).unwrap()
}

/// The records of a file of the reference data.
fn records(name: &str, header: Option<&str>) -> Vec<ProducerRecord> {
    let text = String::from_utf8(reference(name)).unwrap();
    let hex = |text: &str| HEXLOWER.decode(text.as_bytes()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let record = |line: &str| {
        let (key, value) = line.split_once('\t').unwrap();
        let header = header.map(|id| ("__value_schema_id".to_owned(), Some(hex(id))));
        ProducerRecord {
            key: Some(key.into()),
            value: hex(value),
            headers: header.into_iter().collect(),
            ..ProducerRecord::default()
        }
    };
    lines.map(record).collect()
}

/// Trips without versions, which differ between logs.
fn without_versions(mut trips: Vec<Value>) -> Vec<Value> {
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips
}

fn expected() -> Vec<Value> {
    let lines = String::from_utf8(reference("expected.ignition.ndjson")).unwrap();
    without_versions(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Runs until a store has the reference trips; returns the summary.
fn read(folder: &Folder, words: &str, store: &str) -> Value {
    let running = start(folder, words);
    until("the reference trips", || {
        let exported = folder.run(&format!("export --store sqlite:{store}"));
        let trips = if exported.code == Some(0) { exported.objects() } else { vec![] };
        (without_versions(trips) == expected()).then_some(())
    });
    drain(running, words).ends(0).json()
}

#[test]
fn every_wire_form_gives_the_reference_trips() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    Registry::of_reference().serve(listener);
    let schema = data("formats").join("avro/schema.avsc");
    let proto = data("formats").join("protobuf/vehicle_position.proto");
    let of_file = |path: &std::path::Path| format!("--schema {}", path.display());
    let registry = format!("--schema-registry {url}");
    let proto_map = MAP.replace("time=ts", "time=ts_ms");
    let guid = Some("016f8d2b1e7c3a4e5f9a0b1c2d3e4f5a6b");
    for (decode, file, header, from, map) in [
        ("avro", "avro/confluent.hex.tsv", None, registry.clone(), MAP),
        ("avro", "avro/header-id.hex.tsv", guid, registry.clone(), MAP),
        ("avro", "avro/bare.hex.tsv", None, of_file(&schema), MAP),
        ("protobuf", "protobuf/confluent.hex.tsv", None, registry, &proto_map),
        (
            "protobuf",
            "protobuf/bare.hex.tsv",
            None,
            format!("{} --message VehiclePosition", of_file(&proto)),
            &proto_map,
        ),
    ] {
        let Some(topic) = Topic::new(1) else { return };
        let folder = Folder::new();
        topic.send(&records(file, header));
        let words = format!(
            "run {} --store sqlite:t.db --from earliest --decode {decode} {from} --map {map} \
             --speed-unit kmh",
            topic.flags()
        );
        let summary = read(&folder, &words, "t.db");
        assert_eq!(
            (&summary["applied"], &summary["duplicates"]),
            (&14.into(), &1.into()),
            "{file}"
        );
        // What the registry said is kept: it is not asked again.
        folder.run(&format!("verify --store sqlite:t.db --brokers {}", topic.brokers)).ends(0);
    }
}

#[test]
fn a_partition_waits_for_its_registry_and_keeps_to_its_first_answer() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    topic.send(&records("avro/confluent.hex.tsv", None));
    let of_nine = ProducerRecord {
        key: Some("van-1".into()),
        value: vec![0, 0, 0, 0, 9, 1, 2, 3],
        ..ProducerRecord::default()
    };
    topic.send(std::slice::from_ref(&of_nine));
    let words = format!(
        "run {} --store sqlite:t.db --from earliest --decode avro --map {MAP} --speed-unit kmh \
         --schema-registry http://{address}",
        topic.flags()
    );
    let mut running = start(&folder, &words);
    let mut said = String::new();
    running.until_says("cannot be reached", &mut said);
    // It stops nevertheless: what waits is read again.
    drain(running, &words).ends(0);
    assert_eq!(folder.run("export --store sqlite:t.db").ends(0).objects(), Vec::<Value>::new());
    let mut running = start(&folder, &words);
    running.until_says("cannot be reached", &mut String::new());
    let registry = Registry::of_reference();
    registry.serve(TcpListener::bind(address).unwrap());
    until("the dead letter", || {
        let found = folder.run("dlq ls --store sqlite:t.db");
        let letters = if found.code == Some(0) { found.objects() } else { vec![] };
        (letters.len() == 1).then_some(()).inspect(|()| {
            assert_eq!(letters[0]["reason"], "bad_schema");
        })
    });
    drain(running, &words).ends(0);
    assert_eq!(without_versions(folder.trips("t.db")), expected());

    // The registry now says something else of both ids: what was said first stands.
    let other = json!({"schema": "\"string\""});
    for id in [7, 9] {
        registry.answers.lock().unwrap().insert(format!("/schemas/ids/{id}"), other.clone());
    }
    let mut again = records("avro/confluent.hex.tsv", None);
    again.push(of_nine);
    topic.send(&again);
    let running = start(&folder, &words);
    until("the second dead letter", || {
        let letters = folder.run("dlq ls --store sqlite:t.db").ends(0).objects();
        (letters.len() == 2).then_some(())
    });
    let summary = drain(running, &words).ends(0).json();
    assert_eq!(summary["duplicates"], 15);
    // Schema 9 was unknown only until now.
    assert_eq!(summary["dead_letters"], json!({"bad_record": 1}));
    folder.run(&format!("verify --store sqlite:t.db --brokers {}", topic.brokers)).ends(0);
    // Neither does a rebuild ask.
    let rebuild = format!(
        "rebuild --store sqlite:t.db --into sqlite:new.db --brokers {} --decode avro --map {MAP} \
         --speed-unit kmh --max-gap 10m",
        topic.brokers
    );
    folder.run(&rebuild).ends(0);
    let exported = folder.run("epoch export --store sqlite:t.db").ends(0).json();
    assert_eq!(
        exported["schemas"][1],
        json!({"epoch": 1, "slot": 1, "id": "0:15", "verdict": "unknown"})
    );
    assert_eq!(exported["schemas"][2]["id"], "9");
}

/// A wrapper without the field that its name promises.
const WRAPPER: &str = "syntax = \"proto3\"; package google.protobuf; message StringValue {} \
                       message M { StringValue vehicle_id = 1; }";

/// Messages that refer to each other 4,000 deep.
fn chain() -> String {
    let chain = (0..4000).map(|at| format!("message M{at} {{ M{} x = 1; }}", at + 1));
    format!("syntax = \"proto3\"; {} message M4000 {{}}", chain.collect::<String>())
}

/// Schemas that an attacker registers or names: one whose messages refer to each other 4,000 deep,
/// one whose wrapper has no field, and ids that no schema has yet.
#[test]
fn no_schema_stops_a_run_or_is_spoilt_before_it_exists() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let registry = Registry::of_reference();
    for (id, schema) in [(57, chain()), (58, WRAPPER.to_owned())] {
        let answer = json!({"schema": schema, "schemaType": "PROTOBUF"});
        registry.answers.lock().unwrap().insert(format!("/schemas/ids/{id}"), answer);
    }
    registry.serve(listener);
    let good = records("protobuf/confluent.hex.tsv", None);
    let of = |id: u8, record: &ProducerRecord| {
        let value = [&[0, 0, 0, 0, id], &record.value[5..]].concat();
        ProducerRecord { value, ..record.clone() }
    };
    let hostile = ProducerRecord { value: vec![0, 0, 0, 0, 58, 2, 2, 10, 0], ..good[0].clone() };
    // The same samples by a schema that will exist, and after all a good one.
    let early: Vec<_> = good.iter().map(|record| of(59, record)).collect();
    topic.send(&[vec![of(57, &good[0]), hostile], early.clone(), good[..1].to_vec()].concat());
    let words = format!(
        "run {} --store sqlite:t.db --from earliest --decode protobuf --map {} --speed-unit kmh \
         --schema-registry {url}",
        topic.flags(),
        MAP.replace("time=ts", "time=ts_ms")
    );
    let read = |letters: usize, applied: u64| {
        let running = start(&folder, &words);
        until("all records", || {
            let found = folder.run("dlq ls --store sqlite:t.db");
            let found = if found.code == Some(0) { found.objects().len() } else { 0 };
            let trips = folder.run("export --kind all --store sqlite:t.db");
            let trips = if trips.code == Some(0) { trips.objects() } else { vec![] };
            let samples: u64 = trips.iter().map(|trip| trip["samples"].as_u64().unwrap()).sum();
            ((found, samples) == (letters, applied)).then_some(())
        });
        drain(running, &words).ends(0).json()
    };
    let summary = read(2 + early.len(), 1);
    let bad = &summary["dead_letters"];
    assert_eq!(bad["bad_schema"], 1 + early.len(), "{bad}");
    // Whoever starts next does not compile it again, and reads on.
    let schemas = folder.run("epoch export --store sqlite:t.db").ends(0).json();
    let kept = schemas["schemas"].as_array().unwrap().iter();
    let chain = kept.clone().find(|kept| kept["id"] == "57").unwrap();
    let problem = &chain["verdict"]["unusable"]["problem"];
    assert_eq!(problem, "it has more than 2000 types");
    // Now it exists: records after that are good, and so are the letters.
    let schema =
        registry.answers.lock().unwrap()[&format!("/schemas/ids/{}", id_of(&good[0]))].clone();
    registry.answers.lock().unwrap().insert("/schemas/ids/59".into(), schema);
    topic.send(&early[1..2]);
    let summary = read(2 + early.len(), 2);
    assert_eq!((&summary["applied"], &summary["dead_letters"]), (&1.into(), &json!({})));
    let replay = format!(
        "dlq replay --store sqlite:t.db --brokers {} --reason bad_schema --schema-registry {url}",
        topic.brokers
    );
    let replayed = folder.run(&replay).ends(0).json();
    assert_eq!(
        (&replayed["replayed"], &replayed["still_failing"]),
        (&early.len().into(), &json!({"bad_schema": 1}))
    );
    read(2, 14);
    assert_eq!(without_versions(folder.trips("t.db")), expected());
    // Read again, each record is decided as it was.
    folder.run(&format!("verify --store sqlite:t.db --brokers {}", topic.brokers)).ends(0);
}

/// The id before a record.
fn id_of(record: &ProducerRecord) -> u32 {
    u32::from_be_bytes(record.value[1..5].try_into().unwrap())
}
