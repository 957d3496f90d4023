//! Partitioners: what clients do, and what is detected.

use tstar::internals::model::partitioner::Partitioner;

use super::{PARTITIONS, sample, send_to};
use crate::cli::Folder;
use crate::replay::Site;
use crate::servers::send_by_java;
use crate::topic::file::until_read;
use crate::topic::{Topic, drain, start};

/// The client in Java; others are librdkafka with the partitioner of that name.
const JAVA: &str = "java";

/// Sends keys by librdkafka, with the partitioner of this name.
fn send_keys(topic: &Topic, partitioner: &str, keys: usize) {
    let keys = names(keys);
    send_to(topic, partitioner, keys.iter().map(|key| (None, &**key, sample(key, 1))));
}

fn names(keys: usize) -> Vec<String> {
    (0..keys).map(|nth| format!("wagon-{}", nth * nth)).collect()
}

/// Sends the same keys by a producer in Java, whose partitioner is murmur2.
fn send_keys_by_java(topic: &Topic, keys: usize) -> Option<()> {
    let line = |key: &String| format!("{key}\t{}\n", sample(key, 1));
    let lines: String = names(keys).iter().map(line).collect();
    send_by_java(&topic.brokers, &topic.name, &["parse.key=true"], &lines)
}

#[test]
fn partitions_are_computed_as_the_client_does() {
    for partitions in [PARTITIONS, 7] {
        for (client, partitioner) in [
            (JAVA, Partitioner::Murmur2),
            ("murmur2_random", Partitioner::Murmur2),
            ("consistent_random", Partitioner::Crc32),
        ] {
            let Some(topic) = Topic::new(partitions) else { return };
            if client == JAVA {
                let Some(()) = send_keys_by_java(&topic, 300) else { return };
            } else {
                send_keys(&topic, client, 300);
            }
            let records = topic.records_of(&topic.name);
            assert_eq!(records.len(), 300);
            for record in records {
                let key = record.key.unwrap();
                let computed = partitioner.partition(&key, partitions);
                assert_eq!(computed, Some(record.partition), "{client}");
            }
        }
    }
}

#[test]
fn the_first_start_finds_the_partitioner_where_all_records_agree() {
    let both: &[&str] = &["murmur2_random", "consistent_random"];
    for (clients, keys, flags, found) in [
        (&both[..1], 40, "", "murmur2"),
        (&both[1..], 40, "", "crc32"),
        (both, 40, "", "none"),
        (&both[..1], 3, "", "none"),
        (&both[..1], 40, "--key any", "none"),
        (&both[..1], 40, "--partitioner crc32", "crc32"),
    ] {
        let Some(topic) = Topic::new(PARTITIONS) else { return };
        let site = Site { topic, folder: Folder::new() };
        clients.iter().for_each(|client| send_keys(&site.topic, client, keys));
        super::read(&site, &format!("--from earliest {flags}"));
        let epoch = site.folder.run("epoch show --store sqlite:t.db").ends(0).json();
        assert_eq!(epoch["partitioner"], found, "{clients:?} {flags}");
        if flags.is_empty() {
            let other = if found == "murmur2" { "crc32" } else { "murmur2" };
            let log = format!("{} --store sqlite:t.db --partitioner {other}", site.topic.flags());
            site.folder.run(&format!("run {log}")).ends(78).says(&["tstar epoch new"]);
            site.folder.run(&format!("epoch new {log}")).ends(0);
            let newest = site.folder.run("epoch show --store sqlite:t.db").ends(0).objects();
            assert_eq!(newest[1]["partitioner"], other);
        }
    }
}

#[test]
fn a_stray_record_does_not_hide_the_partitioner_and_is_a_dead_letter() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let site = Site { topic, folder: Folder::new() };
    // The first record of a device, in another partition than those that follow.
    let stray = &names(1)[0];
    let home = Partitioner::Murmur2.partition(stray.as_bytes(), PARTITIONS).unwrap();
    let elsewhere = Some((home + 1) % PARTITIONS);
    send_to(&site.topic, "murmur2_random", [(elsewhere, &**stray, sample(stray, 1))]);
    send_keys(&site.topic, "murmur2_random", 250);
    let words = format!("run {} --store sqlite:t.db --from earliest", site.topic.flags());
    let running = start(&site.folder, &words);
    until_read(&site.folder, "t.db", &site.topic);
    let ran = drain(running, &words).ends(0);
    // One record here and one there: the device follows none.
    let share = "of 250 devices in the oldest records, 249 follow murmur2 (99.60 %)";
    let ran = ran.says(&["partitioner murmur2: ", share]);
    let summary = ran.json();
    assert_eq!(summary["dead_letters"], serde_json::json!({ "other_partition": 1 }), "{summary}");
    assert_eq!(summary["applied"], 250);
    let doctor = format!("doctor --json --store sqlite:t.db --brokers {}", site.topic.brokers);
    assert!(site.folder.run(&doctor).ends(0).json().to_string().contains(share));
}

#[test]
fn another_key_says_nothing_of_the_partition() {
    let folder = Folder::new();
    let ran = folder.run("run --key any --partitioner murmur2 --from earliest");
    ran.ends(2).says(&["partitioner must be none with --key any"]);
    let ran = folder.run("run --partitioner java --from earliest");
    ran.says(&["murmur2, crc32, none"]);
}
