//! Lag of a partition that holds records of another partition's device, whatever its name, and of
//! one whose last offset is not a record.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;

use super::Scrape;
use crate::cli::Folder;
use crate::faults::until;
use crate::servers::free_port;
use crate::topic::{Topic, drain, start};

/// Characters that could break a line, or disguise text.
const HOSTILE: &str = "a\nb\r\u{1b}[31m\u{9b}<img onerror=x>\"'../\u{202e}\u{2028}";

fn sample(device: &str, minute: u32) -> Vec<u8> {
    let time = format!("2024-05-01T08:{minute:02}:00Z");
    json!({"device_id": device, "time": time, "lat": 52, "lon": 13}).to_string().into_bytes()
}

/// Sends samples of the hostile device under a key.
fn send(topic: &Topic, key: &str, minutes: &[u32]) {
    let record = |&minute| ProducerRecord {
        key: Some(key.into()),
        value: sample(HOSTILE, minute),
        ..ProducerRecord::default()
    };
    topic.send(&minutes.iter().map(record).collect::<Vec<_>>());
}

/// A key of each partition.
fn keys(topic: &Topic) -> [String; 2] {
    let send = |key: &str| {
        topic.send(&[ProducerRecord {
            key: Some(key.into()),
            value: b"[]".to_vec(),
            ..ProducerRecord::default()
        }]);
        topic.ends(2)[&1]
    };
    let mut keys = [None, None];
    let mut before = send("first");
    for nth in 0.. {
        let key = format!("key-{nth}");
        let after = send(&key);
        keys[usize::from(after > before)].get_or_insert(key);
        before = after;
        if let [Some(first), Some(second)] = &keys {
            return [first.clone(), second.clone()];
        }
    }
    unreachable!("some key is of each partition")
}

fn lag(scrape: &Scrape, name: &str, partition: &str) -> Option<f64> {
    let in_partition = |value: &&super::Value| value.labels["partition"] == partition;
    scrape.all(name).into_iter().find(in_partition).map(|value| value.value)
}

#[test]
fn a_partition_with_records_of_a_device_of_another_one_continues() {
    for format in ["text", "json"] {
        let Some(topic) = Topic::new(2) else { return };
        let folder = Folder::new();
        let [first, second] = keys(&topic);
        let address = format!("127.0.0.1:{}", free_port());
        let words = format!(
            "run {} --store sqlite:t.db --from earliest --key any --listen {address} \
             --log-format {format}",
            topic.flags()
        );
        let running = start(&folder, &words);
        send(&topic, &first, &[1, 2, 3]);
        let end = f64::from(topic.ends(2)[&0] as i32);
        until("the first partition to be stored", || {
            let scrape = Scrape::fetch(&address)?;
            (lag(&scrape, "tstar_kafka_committed_offset", "0")? == end).then_some(())
        });
        // A device of the first partition also comes in the second, which continues without it.
        send(&topic, &second, &[4, 5, 6]);
        let letters = Some(("reason", "other_partition"));
        let scrape = until("letters", || {
            let scrape = Scrape::fetch(&address)?;
            (scrape.sum("tstar_dead_letters_total", letters) == 3.0).then_some(scrape)
        });
        assert_eq!(scrape.sum("tstar_claims_total", Some(("how", "inserted"))), 1.0);
        for partition in ["0", "1"] {
            until("no lag", || {
                let scrape = Scrape::fetch(&address)?;
                (lag(&scrape, "tstar_kafka_consumer_lag", partition)? == 0.0).then_some(())
            });
        }

        let ran = drain(running, &words);
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert!(!ran.stderr.contains("stopped until"), "{ran}");
        for line in lines {
            assert!(!line.chars().any(char::is_control), "{line:?}");
            if format == "text" {
                assert!(line.starts_with("tstar: "), "{line:?}");
                continue;
            }
            let entry: Value = serde_json::from_str(line).unwrap();
            assert!(entry["message"].is_string() && entry["timestamp"].is_string(), "{line}");
        }
    }
}

#[test]
fn the_end_of_a_transaction_adds_no_lag() {
    let Some(topic) = Topic::new(1) else { return };
    let folder = Folder::new();
    let address = format!("127.0.0.1:{}", free_port());
    let words =
        format!("run {} --store sqlite:t.db --from earliest --listen {address}", topic.flags());
    let running = start(&folder, &words);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &topic.brokers)
        .set("transactional.id", &topic.name)
        .create()
        .unwrap();
    let patience = Duration::from_secs(30);
    producer.init_transactions(patience).unwrap();
    for minute in 1..=5 {
        producer.begin_transaction().unwrap();
        let value = sample("truck-1", minute);
        producer.send(BaseRecord::to(&topic.name).key("truck-1").payload(&value)).unwrap();
        producer.commit_transaction(patience).unwrap();
    }
    assert_eq!(topic.ends(1)[&0], 10, "a mark after each record");
    until("all of it to be processed", || {
        let scrape = Scrape::fetch(&address)?;
        let all = scrape.all("tstar_samples_total");
        (all.iter().map(|value| value.value).sum::<f64>() == 5.0).then_some(())
    });
    until("no lag", || {
        let scrape = Scrape::fetch(&address)?;
        (lag(&scrape, "tstar_kafka_consumer_lag", "0")? == 0.0).then_some(())
    });
    drain(running, &words).ends(0);
    // It is not a record that is still to be read.
    folder.run(&format!("epoch new {} --store sqlite:t.db", topic.flags())).ends(0);
}
