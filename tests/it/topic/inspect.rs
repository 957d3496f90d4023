//! What `inspect` says of the first records of a topic.

use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;

use super::formats::{send, text};
use super::{PARTITIONS, Topic, fleet};
use crate::cli::Folder;
use crate::cli::inspect::inspect;

#[test]
fn the_preset_of_a_topic_is_found_without_a_trace() {
    for (file, preset) in [
        ("traccar/kafka.tsv", "traccar"),
        ("owntracks/mqtt-to-kafka.tsv", "owntracks"),
        ("mqtt-bridge/emqx.tsv", "emqx"),
        ("hfp/mqtt-to-kafka.tsv", "hfp"),
        ("nammayatri/kafka.tsv", "namma-yatri"),
        ("tesla/kafka-V-decoded.tsv", "tesla"),
    ] {
        let Some(topic) = Topic::new(1) else { return };
        let Some(()) = send(&topic, &text(file)) else { return };
        let folder = Folder::new();
        let found = inspect(&folder, &topic.flags());
        assert_eq!((&found["preset"], &found["samples"]), (&json!(preset), &json!(15)), "{found}");
        let command = format!("tstar run {} --preset {preset} --max-gap 5m", topic.flags());
        assert_eq!(found["command"], command);
        assert_eq!(std::fs::read_dir(folder.dir.path()).unwrap().count(), 0, "nothing is written");
        assert!(topic.committed("tstar", 1).is_empty(), "nothing is committed");
    }
}

#[test]
fn the_first_records_of_each_partition_are_read() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = Folder::new();
    topic.send_lines(&fleet(&folder, 20_000), "none");
    // Of a partition, what retention left counts.
    topic.delete_records_before(0, 100);
    let found = inspect(&folder, &topic.flags());
    assert_eq!((&found["log_records"], &found["partitions_read"]), (&json!(10_000), &json!(4)));
    assert_eq!(found["reads"], "standard names");
    assert!(found["samples"].as_u64().unwrap() > 9000, "{found}");
    assert!(found["late"]["share"].as_f64().unwrap() > 0.0, "{found}");
    let first = &found["dead_letters"]["no_key"];
    assert_eq!(first, &Value::Null, "every record has a key");
}

#[test]
fn records_that_do_not_suit_a_topic_are_explained() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let record = |nth: u32| {
        let time = 1_714_550_400_000 + i64::from(nth) * 10_000;
        let value = json!({"device_id": "a", "time": time, "lat": 52.5, "lon": 13.4}).to_string();
        let key = Some("tenant-1".into());
        ProducerRecord { key, value: value.into(), ..ProducerRecord::default() }
    };
    topic.send(&[record(0)]);
    topic.delete_records_before(0, 1);
    folder.run(&format!("inspect {} --json", topic.flags())).ends(1).says(&["has no record"]);
    topic.send(&(0..30).map(record).collect::<Vec<_>>());
    let found = inspect(&folder, &topic.flags());
    assert_eq!(found["samples"], 30, "{found}");
    assert!(found["command"].as_str().unwrap().contains(" --key any "), "{found}");

    let Some(topic) = Topic::new(1) else { return };
    let framed = |nth: u8| {
        let value = vec![0, 0, 0, 0, 7, nth, 1, 2];
        ProducerRecord { key: Some("a".into()), value, ..ProducerRecord::default() }
    };
    topic.send(&(0..5).map(framed).collect::<Vec<_>>());
    let found = folder.run(&format!("inspect {} --json", topic.flags())).ends(65).json();
    assert!(found["notes"].to_string().contains("--schema-registry URL"), "{found}");
    let missing = format!("inspect --brokers {} --topic none-{}", topic.brokers, topic.name);
    folder.run(&missing).ends(78).prints_nothing();
}
