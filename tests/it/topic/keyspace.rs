//! `run` into a keyspace: positions are the group's, changes and dead letters go to topics.

use std::collections::BTreeMap;

use serde_json::Value;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::topics::Topics;

use super::{PARTITIONS, Topic, drain, fleet, start};
use crate::cli::{Folder, minutes, number, sum};
use crate::faults::until;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::block_on;

/// Flags that name the store.
pub fn store(keyspace: &Keyspace) -> String {
    format!("--store scylla://{}/{}", keyspace.url.nodes[0], keyspace.url.keyspace)
}

/// Flags that name the topic, and a group of its own: other tests run on the same brokers.
pub fn log(topic: &Topic) -> String {
    format!("{} --group {}", topic.flags(), topic.name)
}

/// Waits until a group has committed everything that a topic has.
pub fn until_committed(topic: &Topic, group: &str) {
    let ends = topic.ends(PARTITIONS);
    until("everything to be committed", || {
        let committed = topic.committed(group, PARTITIONS);
        let read = |(at, end): (&i32, &i64)| *end == 0 || committed.get(at) == Some(end);
        ends.iter().all(read).then_some(())
    });
}

/// Trips without versions, which differ between logs.
fn spans(trips: Vec<Value>) -> Vec<Value> {
    let mut trips = trips;
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips
}

#[test]
fn a_topic_gives_the_trips_that_a_file_of_its_records_gives() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    let (folder, store, flags) = (Folder::new(), store(&keyspace), log(&topic));
    let lines = fleet(&folder, 20_000);
    topic.send_lines(&lines, "no-device");
    folder.write("all.ndjson", &lines);
    let expected = folder.ingest("all.ndjson --store sqlite:file.db");
    let first = format!("run {flags} {store} --from earliest");
    // Tables first, then topics: each error names the command that creates them.
    folder.write("few.ndjson", minutes("truck-1", &[1]));
    let refused = folder.run(&format!("ingest few.ndjson {store}"));
    refused.ends(2).says(&["would have no order"]);
    folder.run(&format!("lookup truck-1 2024-05-01T08:01:00Z {store}")).ends(78);
    folder.run(&format!("schema apply {store}")).ends(0);
    folder.run(&first).ends(78).says(&[".trips", ".dlq", "--create-topics"]);
    folder.run(&format!("run {flags} {store} --create-topics")).ends(78).says(&["--from earliest"]);

    let words = format!("{first} --create-topics");
    let running = start(&folder, &words);
    until_committed(&topic, &topic.name);
    letters_stay(&topic);
    let summary = drain(running, &words).ends(0).json();
    for count in ["delivered", "applied", "duplicates", "conflicting", "arrivals", "dead_letters"] {
        assert_eq!(summary[count], expected[count], "{count}");
    }
    let exported = folder.run(&format!("export {store}")).ends(0).objects();
    assert_eq!(spans(exported.clone()), spans(folder.trips("file.db")));
    is_announced(&topic, &exported, &expected);

    // The next start reads nothing again (I10), and `--no-feed` sends no events.
    let events = topic.records_of(&format!("{}.trips", topic.name)).len();
    topic.send_lines(minutes("truck-1", &[1, 2]).as_bytes(), "no-device");
    let words = format!("run {flags} {store} --no-feed");
    let running = start(&folder, &words);
    until_committed(&topic, &topic.name);
    let summary = drain(running, &words).ends(0).json();
    assert_eq!(number(&summary["delivered"]), 2);
    assert_eq!(topic.records_of(&format!("{}.trips", topic.name)).len(), events);
}

/// A dead letter has the timestamp of its record, which may be older than the brokers' default
/// retention.
fn letters_stay(topic: &Topic) {
    let brokers = Brokers::new(&topic.brokers, BTreeMap::new()).unwrap();
    let topics = Topics::new(&brokers).unwrap();
    let retention = block_on(topics.setting(&format!("{}.dlq", topic.name), "retention.ms"));
    assert_eq!(retention.unwrap().as_deref(), Some("-1"));
}

/// Every trip is announced as it is now, and every bad sample is in the dead letters.
fn is_announced(topic: &Topic, trips: &[Value], expected: &Value) {
    let events = topic.records_of(&format!("{}.trips", topic.name));
    let event = |trip: &Value| {
        // Events have no tags.
        let mut trip = trip.clone();
        trip.as_object_mut().unwrap().remove("tags").unwrap();
        events.iter().any(|kept| {
            let event: Value = serde_json::from_slice(&kept.value).unwrap();
            let key = event["trip"]["device_id"].as_str().unwrap();
            assert_eq!(kept.key.as_deref(), Some(key.as_bytes()));
            let id = format!("{}@{}", event["id"].as_str().unwrap(), event["version"]);
            assert_eq!(kept.header("ce_id"), id);
            assert_eq!(kept.header("ce_source"), format!("/tstar/{}", topic.name));
            let kind = format!("tstar.trip.{}", event["type"].as_str().unwrap());
            assert_eq!(kept.header("ce_type"), kind);
            event["trip"] == trip && event["version"] == trip["version"]
        })
    };
    let untold: Vec<_> = trips.iter().filter(|trip| !event(trip)).collect();
    assert_eq!(untold, [] as [&Value; 0]);
    let letters = topic.records_of(&format!("{}.dlq", topic.name));
    assert_eq!(letters.len() as u64, sum(&expected["dead_letters"]));
    let records = topic.records_of(&topic.name);
    for letter in &letters {
        assert_eq!(letter.header("__connect.errors.topic"), topic.name);
        let place = |name| letter.header(name).parse::<i64>().unwrap();
        let partition = place("__connect.errors.partition");
        let offset = place("__connect.errors.offset");
        let came = records
            .iter()
            .find(|it| (i64::from(it.partition), it.offset) == (partition, offset))
            .unwrap();
        assert_eq!((&letter.key, &letter.value), (&came.key, &came.value));
        assert_eq!(letter.timestamp_ms, came.timestamp_ms);
        let reason = letter.header("__connect.errors.exception.class.name");
        assert!(expected["dead_letters"][reason].is_u64(), "{reason}");
    }
}

#[test]
fn instances_share_the_partitions_and_one_that_leaves_hands_them_over() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let (folder, store, flags) = (Folder::new(), store(&keyspace), log(&topic));
    let words = format!("run {flags} {store} --from earliest --create-topics");
    let (lines, rest) = (fleet(&folder, 4_000), minutes("truck-1", &[1, 2, 3]));
    topic.send_lines(&lines, "no-device");
    let first = start(&folder, &words);
    until_committed(&topic, &topic.name);
    let mut second = start(&folder, &words);
    let mut said = String::new();
    second.until_says("reading from offset", &mut said);
    let summary = drain(first, &words).ends(0).json();
    assert_eq!(number(&summary["delivered"]), 4_000);
    topic.send_lines(rest.as_bytes(), "no-device");
    until_committed(&topic, &topic.name);
    let again = drain(second, &words).ends(0).json();
    assert_eq!(number(&again["delivered"]), 3, "nothing is read again");
    // The epoch holds the rules: others are refused as long as the store exists.
    let refused = folder.run(&format!("{words} --max-gap 7m"));
    refused.ends(78).says(&["max_gap: the store has 5m, requested 7m"]);
}
