//! `doctor`, over healthy and broken stores and topics.

use serde_json::Value;

use crate::cli::{Folder, minutes, number};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::run_kafka_tool;
use crate::topic::file::until_read;
use crate::topic::keyspace::{log, until_committed};
use crate::topic::{Topic, drain, start};

/// The findings of one check, as (state, detail).
fn findings_of<'v>(findings: &'v Value, check: &str) -> Vec<(&'v str, &'v str)> {
    let all = findings.as_array().unwrap().iter().filter(|it| it["check"] == check);
    all.map(|it| (it["state"].as_str().unwrap(), it["detail"].as_str().unwrap())).collect()
}

fn states<'v>(findings: &'v Value, check: &str) -> Vec<&'v str> {
    findings_of(findings, check).into_iter().map(|(state, _)| state).collect()
}

#[test]
fn a_store_of_files_is_well_and_one_that_is_not_there_is_told() {
    let folder = Folder::with("a.ndjson", minutes("truck-1", &[0, 1]));
    folder.ingest("a.ndjson");
    let findings = folder.run("doctor --json").ends(0).json();
    for check in ["permissions", "disk", "store", "file", "rows", "partitioner", "log"] {
        assert_eq!(states(&findings, check), ["ok"], "{check}");
    }
    assert!(folder.text("doctor --format table").contains("no fault"));

    let none = folder.run("doctor --store sqlite:none.db --json").ends(1);
    assert_eq!(states(&none.json(), "store"), ["fail"]);
    assert!(!folder.has("none.db"));
    folder.run("doctor --format csv").ends(2);

    folder.write("text.db", "not a database at all, and long enough for a database's header");
    let foreign = folder.run("doctor --store sqlite:text.db --json").ends(1).json();
    assert!(findings_of(&foreign, "store")[0].1.contains("not a tstar store"), "{foreign}");
}

#[test]
fn a_log_that_cannot_be_read_on_fails() {
    let Some(topic) = Topic::new(4) else { return };
    let folder = Folder::new();
    topic.send_lines(minutes("truck-1", &[0, 1]).as_bytes(), "no-device");
    let words = format!("run {} --store sqlite:t.db --from earliest", topic.flags());
    let running = start(&folder, &words);
    until_read(&folder, "t.db", &topic);
    drain(running, &words).ends(0);
    let doctor = format!("doctor --json --store sqlite:t.db --brokers {}", topic.brokers);
    let findings = folder.run(&doctor).ends(0).json();
    for (check, count) in [("brokers", 1), ("epoch", 1), ("retention", 1), ("position", 4)] {
        assert_eq!(states(&findings, check), vec!["ok"; count], "{check}");
    }
    // Kafka's default: a producer may write any time into a record.
    assert_eq!(states(&findings, "timestamps"), ["warn"]);
    assert!(findings.to_string().contains("message.timestamp.type=LogAppendTime"), "{findings}");
    assert_eq!(states(&findings, "compression"), ["warn"]);
    assert!(findings.to_string().contains("compression.type=uncompressed"), "{findings}");
    assert!(findings_of(&findings, "position").iter().all(|(_, detail)| detail.contains("lag 0")));

    topic.grow(5);
    let grown = folder.run(&doctor).ends(1).json();
    assert!(findings_of(&grown, "epoch")[0].1.contains("has 5 partitions, and had 4"), "{grown}");

    // Nothing listens on port 1.
    let none = folder.run("doctor --json --store sqlite:t.db --brokers 127.0.0.1:1").ends(1);
    assert_eq!(states(&none.json(), "brokers"), ["fail"]);
    topic.remove();
}

/// Runs the commands that a message names.
fn run_topic_commands(message: &str) {
    let commands = message.split("kafka-topics.sh ").skip(1);
    for command in commands.map(|rest| rest.split(';').next().unwrap()) {
        let words: Vec<_> = command.split_whitespace().collect();
        run_kafka_tool("org.apache.kafka.tools.TopicCommand", &words);
    }
}

#[test]
fn dead_letters_that_expire_and_a_second_group_fail() {
    let (Some(topic), Some(keyspace)) = (Topic::new(4), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let (folder, group) = (Folder::new(), &topic.name);
    topic.send_lines(minutes("truck-1", &[0, 1]).as_bytes(), "no-device");
    let words = format!("run {} --store {} --from earliest", log(&topic), keyspace.url);
    // What it prints creates the same as --create-topics.
    run_topic_commands(&folder.run(&words).ends(78).stderr);
    let running = start(&folder, &words);
    until_committed(&topic, group);
    let ran = drain(running, &words).ends(0);
    assert!(!ran.stderr.contains("warning: "), "{ran}");
    let doctor = |group: &str| {
        let url = &keyspace.url;
        format!("doctor --json --store {url} --brokers {} --group {group}", topic.brokers)
    };
    let well = folder.run(&doctor(group)).ends(0).json();
    assert_eq!(states(&well, "outputs"), ["ok", "ok"]);
    assert_eq!(findings_of(&well, "group"), [("ok", &*format!("`{group}` reads the topic"))]);

    // As brokers create a topic without settings.
    let name = format!("{group}.dlq");
    let letters = Topic::on(topic.brokers.clone(), name.clone(), 4, &[]);
    letters.set("retention.ms", "604800000");
    let ill = folder.run(&doctor(group)).ends(1).json();
    assert_eq!(states(&ill, "outputs"), ["ok", "fail"]);
    let correction = format!("--entity-name {name} --add-config retention.ms=-1");
    assert!(ill.to_string().contains(&correction), "{ill}");
    let mut warned = start(&folder, &words);
    let mut said = String::new();
    warned.until_says(&format!("warning: topic `{name}` has retention.ms=604800000"), &mut said);
    assert!(said.contains(&correction), "{said}");
    drain(warned, &words).ends(0);
    letters.set("cleanup.policy", "compact");
    folder.run(&words).ends(78).says(&[&name, "--add-config cleanup.policy=delete"]);
    letters.set("retention.ms", "-1");

    // A second group would read everything again.
    let other = format!("{group}-other");
    let second = words.replace(&format!("--group {group}"), &format!("--group {other}"));
    folder.run(&second).ends(78).says(&[&format!("pass --group {group}"), "--group-change"]);
    let ill = folder.run(&doctor(&other)).ends(1).json();
    assert_eq!(states(&ill, "group"), ["fail"]);
    topic.send_lines(minutes("truck-1", &[2, 3, 4]).as_bytes(), "no-device");
    let second = format!("{second} --group-change");
    let running = start(&folder, &second);
    until_committed(&topic, &other);
    let summary = drain(running, &second).ends(0).json();
    assert_eq!(number(&summary["delivered"]), 3, "it continues where the first one was");
    folder.run(&words).ends(78).says(&[&format!("pass --group {other}")]);
}

#[test]
fn a_foreign_row_fails() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let folder = Folder::new();
    let doctor = format!("doctor --json --store {}", keyspace.url);
    let well = folder.run(&doctor).ends(0).json();
    for check in ["store", "servers", "server clock", "rows", "partitioner", "log"] {
        assert_eq!(states(&well, check), ["ok"], "{check}");
    }
    assert!(
        findings_of(&well, "schema")
            .iter()
            .any(|(_, detail)| detail.contains("replication factor 1"))
    );

    keyspace.run("ALTER TABLE trips WITH gc_grace_seconds = 60");
    keyspace
        .run("INSERT INTO trips (device_id, bucket, end_time, start_time) VALUES ('x', 0, 2, 1)");
    let ill = folder.run(&doctor).ends(1).json();
    assert!(findings_of(&ill, "rows")[0].1.contains("1 of 1 looked at have no version"), "{ill}");
    assert!(
        findings_of(&ill, "schema")
            .iter()
            .any(|(_, detail)| detail.contains("gc_grace_seconds = 60"))
    );

    for partition in [0, 1] {
        keyspace.run(&format!(
            "INSERT INTO trips (device_id, bucket, end_time, start_time, version, partition) \
             VALUES ('y', {partition}, 2, 1, 10, {partition})"
        ));
    }
    let mixed = folder.run(&doctor).ends(1).json();
    assert!(findings_of(&mixed, "partitioner")[0].1.contains("partitions 0 and 1"), "{mixed}");
}
