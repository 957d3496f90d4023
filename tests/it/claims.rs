//! The partition of a device, and what happens to its records in another one.

mod found;
mod race;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rusqlite::Connection;
use tstar::internals::model::partitioner::Partitioner;

use crate::cli::{Folder, minutes};
use crate::control_keys;
use crate::replay::Site;
use crate::servers::LIMIT;
use crate::topic::file::until_read;
use crate::topic::{Topic, drain, start};

const PARTITIONS: i32 = 4;

/// Sends records to the given partitions, or to those that a partitioner chooses.
fn send_to<'r>(
    topic: &Topic,
    partitioner: &str,
    records: impl IntoIterator<Item = (Option<i32>, &'r str, String)>,
) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &topic.brokers).set("partitioner", partitioner);
    let producer: BaseProducer = config.create().unwrap();
    for (partition, key, value) in records {
        let mut record = BaseRecord::to(&topic.name).key(key).payload(&value);
        if let Some(partition) = partition {
            record = record.partition(partition);
        }
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(LIMIT).unwrap();
}

fn sample(device: &str, minute: u32) -> String {
    minutes(device, &[minute]).trim().to_owned()
}

/// A device that belongs to a partition.
fn device_of(partition: i32) -> String {
    let names = (0..).map(|nth| format!("truck-{nth}"));
    let computed = |name: &String| Partitioner::Murmur2.partition(name.as_bytes(), PARTITIONS);
    names.into_iter().find(|name| computed(name) == Some(partition)).unwrap()
}

/// Runs until everything is read.
fn read(site: &Site, flags: &str) -> serde_json::Value {
    let words = format!("run {} --store sqlite:t.db {flags}", site.topic.flags());
    let running = start(&site.folder, &words);
    until_read(&site.folder, "t.db", &site.topic);
    drain(running, &words).ends(0).json()
}

fn claims(site: &Site) -> i64 {
    let connection = Connection::open(site.folder.path("t.db")).unwrap();
    connection.query_row("SELECT count(*) FROM claims", [], |row| row.get(0)).unwrap()
}

/// Sends a record of each of two devices to the partition of the other one.
fn astray(topic: &Topic, [first, second]: [&str; 2]) {
    let (at, other) = (Some(1), Some(2));
    send_to(
        topic,
        "murmur2_random",
        [
            (at, first, sample(first, 1)),
            (other, second, sample(second, 1)),
            (other, first, sample(first, 2)),
            (at, second, sample(second, 2)),
            (at, first, sample(first, 3)),
            (other, second, sample(second, 3)),
        ],
    );
}

#[test]
fn a_record_in_another_partition_is_a_dead_letter_and_goes_where_it_belongs() {
    for (flags, claimed) in [("--partitioner murmur2", 0), ("--key any", 2)] {
        let Some(topic) = Topic::new(PARTITIONS) else { return };
        let site = Site { topic, folder: Folder::new() };
        let (first, second) = (device_of(1), device_of(2));
        if claimed > 0 {
            // Which of two partitions is read first is chance: decide it here.
            let before =
                [(Some(1), &*first, sample(&first, 0)), (Some(2), &second, sample(&second, 0))];
            send_to(&site.topic, "murmur2_random", before);
            read(&site, &format!("{flags} --from earliest"));
        }
        astray(&site.topic, [&first, &second]);
        let summary = read(&site, &format!("{flags} --from earliest"));
        assert_eq!(summary["dead_letters"]["other_partition"], 2, "{summary}");
        assert_eq!(claims(&site), claimed);
        let letters =
            site.folder.run("dlq ls --store sqlite:t.db --format ndjson").ends(0).objects();
        assert_eq!(letters.len(), 2);
        for letter in &letters {
            assert_eq!(letter["reason"], "other_partition");
            let message = letter["message"].as_str().unwrap();
            assert!(message.contains("belongs to partition") && message.contains("dlq replay"));
        }
        let of = format!("--store sqlite:t.db --brokers {}", site.topic.brokers);
        site.folder.run(&format!("verify {of}")).ends(0);
        let sent = site.folder.run(&format!("dlq replay {of}")).ends(0).json();
        assert_eq!(sent["replayed"], 2);
        let behind =
            [(Some(1), &*first, sample(&first, 4)), (Some(2), &second, sample(&second, 4))];
        send_to(&site.topic, "murmur2_random", behind);
        let summary = read(&site, flags);
        assert_eq!(summary["applied"], 4, "{summary}");
        let samples = site.folder.trips("t.db").into_iter();
        let all: u64 = samples.map(|trip| trip["samples"].as_u64().unwrap()).sum();
        assert_eq!(all, if claimed > 0 { 10 } else { 8 });
        site.folder.run(&format!("verify {of}")).ends(0);
        let topic = site.topic.flags();
        site.folder.run(&format!("epoch new {topic} {flags} --store sqlite:t.db")).ends(0);
    }
}

#[test]
fn a_forget_that_leaves_nothing_of_a_device_leaves_no_claim_and_the_decision() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let site = Site { topic, folder: control_keys::folder() };
    let sample = |minute| [(Some(3), "key", sample("truck-1", minute))];
    send_to(&site.topic, "murmur2_random", sample(1));
    read(&site, "--key any --from earliest");
    assert_eq!(claims(&site), 1);
    let flags = format!("--store sqlite:t.db --brokers {}", site.topic.brokers);
    site.folder.run(&format!("forget truck-1 --before 2024-06-01T00:00:00Z --yes {flags}")).ends(0);
    read(&site, "--key any");
    assert_eq!((claims(&site), site.count("t.db", "forgets")), (0, 1));
    let later = self::sample("truck-1", 1).replace("2024", "2025");
    send_to(&site.topic, "murmur2_random", [(Some(0), "key", later.clone())]);
    let summary = read(&site, "--key any");
    assert_eq!(summary["dead_letters"]["other_partition"], 1, "{summary}");
    send_to(&site.topic, "murmur2_random", [(Some(3), "key", later)]);
    assert_eq!(read(&site, "--key any")["applied"], 1);
    site.folder.run(&format!("verify {flags}")).ends(0);
}
