//! Records of other systems in a topic, with their keys.

use serde_json::{Value, json};
use tstar::internals::model::partitioner::Partitioner;

use super::{Topic, drain, start};
use crate::cli::Folder;
use crate::faults::until;
use crate::formats::{Ends, comparable, expected};
use crate::servers::{send_by_java, send_by_kcat};
use crate::support::data;

/// The text of a file with a record in each line: key, tab, value.
pub fn text(name: &str) -> String {
    std::fs::read_to_string(data("formats").join(name)).unwrap()
}

/// Sends lines of key, tab, value as a producer in Java does.
pub fn send(topic: &Topic, lines: &str) -> Option<()> {
    send_by_java(&topic.brokers, &topic.name, &["parse.key=true"], lines)
}

/// Sends the same lines by kcat.
fn send_as_kcat(topic: &Topic, lines: &str) -> Option<()> {
    send_by_kcat(&topic.brokers, &topic.name, &["source=kcat"], lines)
}

#[test]
fn every_topic_gives_the_reference_trips() {
    let (vans, vins) = (["van-1", "van-2"], ["5YJ3E1EA0PF000001", "5YJ3E1EA0PF000002"]);
    for (file, preset, devices, has_driver, ends) in [
        ("traccar/kafka.tsv", "traccar", vans, true, Ends::Ignition),
        ("traccar/kafka-epoch-ms.tsv", "traccar", vans, true, Ends::Ignition),
        ("traccar/kafka-offset-0000.tsv", "traccar", vans, true, Ends::Ignition),
        ("owntracks/mqtt-to-kafka.tsv", "owntracks", vans, false, Ends::Silence),
        ("mqtt-bridge/emqx.tsv", "emqx", vans, false, Ends::Silence),
        ("hfp/mqtt-to-kafka.tsv", "hfp", vans, false, Ends::Standing),
        ("nammayatri/kafka.tsv", "namma-yatri", vans, false, Ends::Standing),
        ("tesla/kafka-V-decoded.tsv", "tesla", vins, false, Ends::Standing),
    ] {
        for send in [send, send_as_kcat] {
            let Some(topic) = Topic::new(1) else { return };
            let folder = Folder::new();
            let Some(()) = send(&topic, &text(file)) else { return };
            check_trips(&topic, &folder, preset, &expected(devices, has_driver, ends));
        }
    }
}

/// Runs a daemon with a preset until it has the trips of the reference samples.
fn check_trips(topic: &Topic, folder: &Folder, preset: &str, expected: &[Value]) {
    let flags = topic.flags();
    let words = format!("run {flags} --store sqlite:t.db --from earliest --preset {preset}");
    let running = start(folder, &words);
    until("the reference trips", || {
        let exported = folder.run("export --store sqlite:t.db");
        let trips = if exported.code == Some(0) { exported.objects() } else { vec![] };
        (comparable(trips) == expected).then_some(())
    });
    let summary = drain(running, &words).ends(0).json();
    let counts = (&summary["applied"], &summary["duplicates"]);
    assert_eq!(counts, (&json!(14), &json!(1)), "{preset}: {summary}");
    folder.run(&format!("verify --store sqlite:t.db --brokers {}", topic.brokers)).ends(0);
}

#[test]
fn a_header_names_the_device() {
    let Some(topic) = Topic::new(1) else { return };
    let bodies = text("owntracks/mqtt-to-kafka.tsv");
    let line = |line: &str| {
        let (key, body) = line.split_once('\t').unwrap();
        let device = key.rsplit('/').next().unwrap();
        format!("x-limit-d:{device}\tphone of {device}\t{body}\n")
    };
    let lines: String = bodies.lines().map(line).collect();
    let properties = ["parse.headers=true", "parse.key=true"];
    let sent = send_by_java(&topic.brokers, &topic.name, &properties, &lines);
    let Some(()) = sent else { return };
    check_trips(
        &topic,
        &Folder::new(),
        "owntracks",
        &expected(["van-1", "van-2"], false, Ends::Silence),
    );
    // By kcat, each device at once: its headers are those of all its records.
    let Some(topic) = Topic::new(1) else { return };
    for device in ["van-1", "van-2"] {
        let own = |line: &&str| line.split('\t').next().unwrap().ends_with(device);
        let bodies = bodies.lines().filter(own).map(|line| line.split_once('\t').unwrap().1);
        let lines: String = bodies.map(|body| format!("phone of {device}\t{body}\n")).collect();
        let header = format!("x-limit-d={device}");
        let sent = send_by_kcat(&topic.brokers, &topic.name, &[&header], &lines);
        let Some(()) = sent else { return };
    }
    check_trips(
        &topic,
        &Folder::new(),
        "owntracks",
        &expected(["van-1", "van-2"], false, Ends::Silence),
    );
}

#[test]
fn keys_have_the_partitions_of_a_producer_in_java() {
    const PARTITIONS: i32 = 16;
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let keys = (0..10_000).map(|nth| match nth % 4 {
        0 => format!("van-{nth}"),
        1 => format!("{:x}", u64::MAX / (nth + 1)),
        2 => format!("Käfer 🚙 {nth}"),
        _ => "k".repeat(1 + nth as usize % 200) + &nth.to_string(),
    });
    let lines: String = keys.map(|key| key + "\tx\n").collect();
    let Some(()) = send(&topic, &lines) else { return };
    let records = topic.records_of(&topic.name);
    assert_eq!(records.len(), 10_000);
    for record in records {
        let partition = Partitioner::Murmur2.partition(record.key.as_ref().unwrap(), PARTITIONS);
        assert_eq!(partition, Some(record.partition), "{:?}", record.key);
    }
}

#[test]
fn traps_of_traccar_are_no_trips() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let Some(()) = send(&topic, &text("traccar/traps.tsv")) else { return };
    let words = format!(
        "run {} --store sqlite:t.db --from earliest --preset traccar --max-gap 10m",
        topic.flags()
    );
    let running = start(&folder, &words);
    until("the trip", || {
        let exported = folder.run("export --store sqlite:t.db");
        let trips = if exported.code == Some(0) { exported.objects() } else { vec![] };
        trips.iter().any(|trip: &Value| trip["samples"] == 2).then_some(())
    });
    let summary = drain(running, &words).ends(0).json();
    // No fix; the last fix again; from the buffer; an event, whose position came before.
    assert_eq!((&summary["applied"], &summary["skipped"]), (&json!(2), &json!(1)), "{summary}");
    assert_eq!(summary["dropped"], json!({"bad_fix": 1}));
}
