//! The table topic: for each key, the last record is right.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::group::Group;
use tstar::internals::kafka::topic::Topics;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::time::parse_time;

use super::keyspace::{log, store, until_committed};
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
        "samples",
        "distance_m",
        "avg_speed_mps",
        "max_speed_mps",
        "jumps",
        "driver",
        "version",
    ];
    for name in as_is {
        flat[name] = trip[name].clone();
    }
    flat
}

/// Checks that a reader of the table topic holds the trips of `export` and no others. Returns the
/// number of keys that ended without a value.
pub fn holds(topic: &Topic, table: &str, exported: &[Value]) -> usize {
    let mut last = BTreeMap::new();
    let mut partitions = 0;
    for record in topic.records_of(table) {
        let id = String::from_utf8(record.key.expect("a key")).unwrap();
        let before = last.insert(id.clone(), (record.partition, record.value));
        let moved = before.is_some_and(|(partition, _)| partition != record.partition);
        assert!(!moved, "{id} lies in two partitions");
        partitions = partitions.max(record.partition + 1);
    }
    let keys = last.len();
    let held: BTreeMap<_, _> = last
        .into_iter()
        .filter(|(_, (_, value))| !value.is_empty())
        .map(|(id, (partition, value))| {
            let record: Value = serde_json::from_slice(&value).unwrap();
            let device = record["payload"]["device_id"].as_str().unwrap().as_bytes();
            let home = Partitioner::Murmur2.partition(device, PARTITIONS);
            assert_eq!(home, Some(partition), "{id}");
            (id, record["payload"].clone())
        })
        .collect();
    let want = exported.iter().map(|trip| (trip["id"].as_str().unwrap().to_owned(), flat(trip)));
    assert_eq!(held, want.collect());
    keys - held.len()
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
