//! The table topic: for each key, the last record is right.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::group::Group;
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::kafka::topics::Topics;
use tstar::internals::kafka::transactions::{TransactionRecord, Transactions};
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::time::parse_time;

use super::keyspace::{log, store, until_committed};
use super::schemas::Registry;
use super::{PARTITIONS, Topic, drain, fleet, start};
use crate::cli::{Folder, minutes, number};
use crate::control_keys;
use crate::keyspace::Keyspace;
use crate::support::block_on;

/// A trip of `export` as a flat record shows it.
fn flat(trip: &Value) -> Value {
    let time = |name: &str| parse_time(trip[name].as_str().unwrap()).unwrap();
    let absorbed = trip["absorbed"].as_array().unwrap().iter().map(|id| id.as_str().unwrap());
    let mut flat = json!({
        "t_star": time("t_star"),
        "start_time": time("start_time"),
        "end_time": time("end_time"),
        "start_lat": trip["start"]["lat"],
        "start_lon": trip["start"]["lon"],
        "end_lat": trip["end"]["lat"],
        "end_lon": trip["end"]["lon"],
        "bbox_west": trip["bbox"][0],
        "bbox_south": trip["bbox"][1],
        "bbox_east": trip["bbox"][2],
        "bbox_north": trip["bbox"][3],
        "absorbed": absorbed.collect::<Vec<_>>().join(" "),
    });
    let as_is = [
        "id",
        "device_id",
        "duration_s",
        "moving_s",
        "idle_s",
        "parked_s",
        "samples",
        "distance_m",
        "avg_speed_mps",
        "max_speed_mps",
        "jumps",
        "driver",
        "version",
        "kind",
    ];
    for name in as_is {
        flat[name] = trip[name].clone();
    }
    flat
}

/// The last value of each key and its partition; empty for a key that ended without one.
fn last_values(topic: &Topic, table: &str) -> BTreeMap<String, (i32, Vec<u8>)> {
    let mut last = BTreeMap::new();
    for record in topic.records_of(table) {
        let id = String::from_utf8(record.key.expect("a key")).unwrap();
        let before = last.insert(id.clone(), (record.partition, record.value));
        let moved = before.is_some_and(|(partition, _)| partition != record.partition);
        assert!(!moved, "{id} lies in two partitions");
    }
    last
}

/// Checks that a reader of the table topic holds the trips of `export`, and no others, by `decode`.
/// Returns the number of keys that ended without a value.
fn holds_as(
    decode: impl Fn(Vec<Vec<u8>>) -> Vec<Value>,
    (topic, table): (&Topic, &str),
    exported: &[Value],
) -> usize {
    let mut last = last_values(topic, table);
    let keys = last.len();
    last.retain(|_, (_, value)| !value.is_empty());
    let values = decode(last.values().map(|(_, value)| value.clone()).collect());
    let held: BTreeMap<_, _> = last
        .into_iter()
        .zip(values)
        .map(|((id, (partition, _)), record)| {
            let device = record["device_id"].as_str().unwrap().as_bytes();
            let home = Partitioner::Murmur2.partition(device, PARTITIONS);
            assert_eq!(home, Some(partition), "{id}");
            (id, record)
        })
        .collect();
    let want = exported.iter().map(|trip| (trip["id"].as_str().unwrap().to_owned(), flat(trip)));
    assert_eq!(held, want.collect());
    keys - held.len()
}

/// [`holds_as`] for values in JSON.
pub fn holds(topic: &Topic, table: &str, exported: &[Value]) -> usize {
    let payload = |value: Vec<u8>| {
        let mut record: Value = serde_json::from_slice(&value).unwrap();
        record["payload"].take()
    };
    holds_as(|values| values.into_iter().map(payload).collect(), (topic, table), exported)
}

/// Flat records by another implementation of Avro.
fn from_avro(schema: &str, values: &[Vec<u8>]) -> Vec<Value> {
    let python = crate::export_readers::python().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/topic/avro.py");
    let input = NamedTempFile::new().unwrap();
    let values: Vec<_> = values.iter().map(|value| HEXLOWER.encode(value)).collect();
    serde_json::to_writer(&input, &json!({"schema": schema, "values": values})).unwrap();
    let ran = Command::new(python).arg(script).arg(input.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn the_table_follows_merges_and_erasures() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    let (folder, store) = (control_keys::folder(), store(&keyspace));
    let flags = format!("{} {store} --table-topic --table-partitions {PARTITIONS}", log(&topic));
    let table = format!("{}.trips.table", topic.name);
    let words = format!("run {flags} --from earliest --create-topics --create-schema");
    topic.send_lines(&fleet(&folder, 5_000), "no-device");
    let running = start(&folder, &words);
    until_committed(&topic, &topic.name);
    drain(running, &words).ends(0);
    let exported = || folder.run(&format!("export {store}")).ends(0).objects();
    let trips = exported();
    let retired: usize = trips.iter().map(|it| it["absorbed"].as_array().unwrap().len()).sum();
    assert!(retired > 0, "the log has merges");
    assert_eq!(holds(&topic, &table, &trips), retired);
    is_compacted(&topic, &table);

    let device = trips.last().unwrap()["device_id"].as_str().unwrap();
    assert_ne!(device, "truck-1");
    folder.run(&format!("forget {device} --yes {} {store}", topic.flags())).ends(0);
    topic.send_lines(minutes("truck-1", &[1, 2, 9]).as_bytes(), "no-device");
    let running = start(&folder, &words);
    until_committed(&topic, &topic.name);
    drain(running, &words).ends(0);
    let left = exported();
    let of_device = |it: &&Value| it["device_id"] == device;
    assert_eq!(left.iter().filter(of_device).count(), 0);
    let erased = trips.iter().filter(of_device).count();
    assert_eq!(holds(&topic, &table, &left), retired + erased);

    // Read again from the start, it says the same again.
    let records = topic.records_of(&table).len();
    let brokers = Brokers::new(&topic.brokers, BTreeMap::new()).unwrap();
    let start_offsets = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
    Group::new(&brokers, &topic.name).unwrap().set(&topic.name, &start_offsets).unwrap();
    let running = start(&folder, &words);
    until_committed(&topic, &topic.name);
    let summary = drain(running, &words).ends(0).json();
    assert!(number(&summary["delivered"]) > 5_000);
    assert!(topic.records_of(&table).len() > records);
    assert_eq!(holds(&topic, &table, &left), retired + erased);
}

/// A sample of a device that stands or moves.
fn with_speed(minute: i64, speed: f64, is_on: bool) -> String {
    let time = format!("2024-05-01T08:{minute:02}:00Z");
    json!({"device_id": "truck-1", "time": time, "lat": 52.5, "lon": 13.4, "speed": speed,
        "ignition": is_on})
    .to_string()
        + "\n"
}

#[test]
fn stops_have_records_if_they_are_chosen() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    let (folder, store) = (control_keys::folder(), store(&keyspace));
    let flags = format!("{} {store} --table-topic --table-kind all", log(&topic));
    let words = format!(
        "run {flags} --table-partitions {PARTITIONS} --from earliest --create-topics \
         --create-schema"
    );
    let table = format!("{}.trips.table", topic.name);
    let read = |lines: String| {
        topic.send_lines(lines.as_bytes(), "no-device");
        let running = start(&folder, &words);
        until_committed(&topic, &topic.name);
        drain(running, &words).ends(0);
        folder.run(&format!("export --kind all {store}")).ends(0).objects()
    };
    let kinds = |found: &[Value]| -> Vec<String> {
        found.iter().map(|it| it["kind"].as_str().unwrap().to_owned()).collect()
    };
    let off = with_speed(20, 0.0, false) + &with_speed(24, 0.0, false);
    let found = read(with_speed(0, 0.0, true) + &with_speed(1, 0.0, true) + &off);
    assert_eq!(kinds(&found), ["stop", "stop"]);
    assert_eq!(holds(&topic, &table, &found), 0);
    // Movement takes the first one in, and its id is retired.
    let found = read(with_speed(2, 9.0, true));
    assert_eq!(kinds(&found), ["trip", "stop"]);
    assert_eq!(holds(&topic, &table, &found), 1);
    folder.run(&format!("forget truck-1 --yes {} {store}", topic.flags())).ends(0);
    let found = read(minutes("truck-2", &[1]));
    assert_eq!(kinds(&found), ["trip"]);
    assert_eq!(holds(&topic, &table, &found), 3);
}

#[test]
fn with_a_registry_its_values_are_avro() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    if crate::export_readers::python().is_none() {
        return;
    }
    let (folder, store) = (Folder::new(), store(&keyspace));
    let table = format!("{}.trips.table", topic.name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (registry, address) = (Registry::default(), listener.local_addr().unwrap());
    let words = format!(
        "run {} {store} --from earliest --create-topics --create-schema --table-topic \
         --table-partitions {PARTITIONS} --schema-registry http://{address}",
        log(&topic)
    );
    // As long as the registry gives no id, the daemon waits.
    registry.serve(listener);
    topic.send_lines(&fleet(&folder, 2_000), "no-device");
    let mut running = start(&folder, &words);
    running.until_says("needs the id of its schema", &mut String::new());
    let path = format!("/subjects/{table}-value/versions");
    registry.answers.lock().unwrap().insert(path, json!({"id": 0x0102}));
    until_committed(&topic, &topic.name);
    drain(running, &words).ends(0);

    let sent = registry.sent.lock().unwrap().clone();
    let schema = sent[0]["schema"].as_str().unwrap();
    assert!(sent.iter().all(|it| it["schema"] == schema && it["schemaType"] == "AVRO"), "{sent:?}");
    let decode = |values: Vec<Vec<u8>>| {
        let framed = |value: Vec<u8>| {
            assert_eq!(value[..5], [0, 0, 0, 1, 2]);
            value[5..].to_vec()
        };
        from_avro(schema, &values.into_iter().map(framed).collect::<Vec<_>>())
    };
    let trips = folder.run(&format!("export {store}")).ends(0).objects();
    let retired: usize = trips.iter().map(|it| it["absorbed"].as_array().unwrap().len()).sum();
    assert_eq!(holds_as(decode, (&topic, &table), &trips), retired);
}

fn is_compacted(topic: &Topic, table: &str) {
    let topics = Topics::new(&Brokers::new(&topic.brokers, BTreeMap::new()).unwrap()).unwrap();
    let policy = block_on(topics.setting(table, "cleanup.policy"));
    assert_eq!(policy.unwrap().as_deref(), Some("compact"));
}

#[test]
fn a_table_that_could_not_be_right_is_refused() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    let (folder, store) = (Folder::new(), store(&keyspace));
    let into_file = format!("run {} --from earliest --table-topic", log(&topic));
    folder.run(&into_file).ends(2).says(&["--table-topic is for a keyspace", "view `trip`"]);
    let name = format!("{}.trips.table", topic.name);
    let words =
        format!("run {} {store} --from earliest --create-schema --table-topic", log(&topic));
    folder.run(&format!("{words} --table-partitions 0 --create-topics")).ends(2);
    let feed = Topic::on(topic.brokers.clone(), format!("{}.trips", topic.name), PARTITIONS, &[]);
    let letters = Topic::on(topic.brokers.clone(), format!("{}.dlq", topic.name), PARTITIONS, &[]);
    folder.run(&words).ends(78).says(&[&name, "--create-topics", "--partitions 8"]);
    let table = Topic::on(topic.brokers.clone(), name, PARTITIONS, &[]);
    folder.run(&words).ends(78).says(&["has 4 partitions", "--table-partitions says 8"]);
    let refused = folder.run(&format!("{words} --table-partitions {PARTITIONS}"));
    refused.ends(78).says(&["cleanup.policy=delete", "cleanup.policy=compact"]);
    for topic in [topic, feed, letters, table] {
        topic.remove();
    }
}

#[test]
fn of_two_transactional_producers_the_first_is_fenced() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let brokers = Brokers::new(&topic.brokers, BTreeMap::new()).unwrap();
    let name = format!("tstar-table-{}-0", topic.name);
    let record = |value: &str| TransactionRecord {
        topic: topic.name.clone(),
        record: ProducerRecord {
            value: value.into(),
            partition: Some(2),
            ..ProducerRecord::default()
        },
        is_tombstone: false,
    };
    let mut first = Transactions::init(&brokers, &name, None).unwrap();
    first.send(&[record("a"), record("b")]).unwrap();
    let mut second = Transactions::init(&brokers, &name, None).unwrap();
    let refused = first.send(&[record("c")]).unwrap_err();
    assert!(matches!(refused, KafkaError::Fenced { .. }), "{refused:?}");
    second.send(&[record("d")]).unwrap();
    let kept = topic.records_of(&topic.name);
    let values: Vec<_> = kept.iter().map(|it| (it.partition, &it.value[..])).collect();
    assert_eq!(values, [(2, &b"a"[..]), (2, b"b"), (2, b"d")]);
}
