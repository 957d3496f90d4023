//! `dlq replay` into a topic sends every letter at least once, and the trips are those of the
//! letters sent once.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Version;
use tstar::internals::model::time::format_time;
use tstar::internals::store::SideTables;

use super::Row;
use crate::cli::{Folder, Ran};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::replay_files::spans;
use crate::support::{Dice, block_on};
use crate::topic::{PARTITIONS, Topic};

/// Letters of a round.
const LETTERS: i64 = 4000;

/// Devices of the letters, each with a sample a minute.
const DEVICES: i64 = 50;

/// 2024-05-01T08:00:00Z, ms.
const BEGIN: i64 = 1_714_550_400_000;

/// Device and device time.
type Key = (String, String);

pub struct Replay {
    folder: Folder,
    topic: Topic,
    letters: Topic,
    /// Sees what has been sent so far.
    watch: BaseConsumer,
    keyspace: Keyspace,
    /// Number of letters so far.
    made: i64,
    /// End of the topic as the round begins.
    begin: i64,
}

fn key(nth: i64) -> Key {
    let time = BEGIN + nth / DEVICES * 60_000;
    (format!("truck-{}", nth % DEVICES), format_time(time))
}

/// A sample that calls its time so.
fn sample(nth: i64, time: &str) -> Vec<u8> {
    let (device, at) = key(nth);
    let lat = 52.0 + (nth / DEVICES) as f64 / 1000.0;
    json!({"device_id": device, time: at, "lat": lat, "lon": 13.5}).to_string().into_bytes()
}

impl Replay {
    /// A dead letter as the daemon writes it, of a record that does not exist.
    fn letter(&self, nth: i64) -> ProducerRecord {
        let header = |(name, value): (&str, &str)| {
            (format!("__connect.errors.{name}"), Some(value.as_bytes().to_vec()))
        };
        // As any device, all its records are in one partition.
        let partition = nth % DEVICES % i64::from(PARTITIONS);
        let offset = nth.to_string();
        let headers = [
            ("topic", self.topic.name.as_str()),
            ("partition", &partition.to_string()),
            ("offset", &offset),
            ("connector.name", "tstar"),
            ("exception.class.name", "missing_field"),
            ("exception.message", "time is absent"),
        ];
        ProducerRecord {
            key: Some(key(nth).0.into_bytes()),
            value: sample(nth, "when"),
            headers: headers.map(header).to_vec(),
            ..ProducerRecord::default()
        }
    }

    /// The end of the topic.
    fn end(&self) -> i64 {
        let timeout = Duration::from_secs(30);
        let end = |at| self.watch.fetch_watermarks(&self.topic.name, at, timeout).unwrap().1;
        (0..PARTITIONS).map(end).sum()
    }

    /// The values that were sent, in the order of partitions.
    fn sent(&self) -> Vec<Vec<u8>> {
        let records = self.topic.records_of(&self.topic.name);
        records.into_iter().map(|record| record.value).collect()
    }

    /// The samples that were sent.
    fn keys(&self) -> BTreeSet<Key> {
        let key = |value: &Vec<u8>| {
            let value: Value = serde_json::from_slice(value).unwrap();
            let text = |name: &str| value[name].as_str().unwrap().to_owned();
            (text("device_id"), text("time"))
        };
        self.sent().iter().map(key).collect()
    }
}

impl Row for Replay {
    const KILLS: u64 = 2;
    const KILLS_IN_A_ROW: usize = 4;
    const SPINS: usize = 400_000;

    fn new(_: &mut Dice) -> Option<Self> {
        let topic = Topic::new(PARTITIONS)?;
        let keyspace = Keyspace::new(ClusteringOrder::Desc)?;
        let epoch = Epoch {
            epoch: 1,
            topic: topic.name.clone(),
            partitions: PARTITIONS,
            start_offsets: (0..PARTITIONS).map(|partition| (partition, 0)).collect(),
            base: Version(1),
            rules: Rules::default(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        };
        let store = keyspace.store();
        assert!(keyspace.runtime.block_on(store.add_epoch(&epoch)).unwrap());
        let name = format!("{}.dlq", topic.name);
        let letters = Topic::on(topic.brokers.clone(), name, PARTITIONS, &[]);
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &topic.brokers).set("group.id", "none");
        let watch = config.set("isolation.level", "read_uncommitted").create().unwrap();
        let folder = Folder::new();
        Some(Self { folder, topic, letters, watch, keyspace, made: 0, begin: 0 })
    }

    fn begin(&mut self) {
        let letters: Vec<_> =
            (self.made..self.made + LETTERS).map(|nth| self.letter(nth)).collect();
        block_on(self.letters.producer().send(&self.letters.name, &letters)).unwrap();
        self.made += LETTERS;
        self.begin = self.end();
    }

    fn command(&self) -> (&Folder, String) {
        let (store, brokers) = (&self.keyspace.url, &self.topic.brokers);
        (&self.folder, format!("dlq replay --map time=when --store {store} --brokers {brokers}"))
    }

    fn done(&self) -> i64 {
        self.end() - self.begin
    }

    fn all(&self) -> i64 {
        LETTERS
    }

    /// It was sending, and some letters were left.
    fn is_hit(&self, before: i64) -> bool {
        self.done() > before && (self.keys().len() as i64) < self.made
    }

    fn check(&mut self, _: &Ran) {
        let made: BTreeSet<Key> = (0..self.made).map(key).collect();
        assert!(self.keys() == made, "{} of {} letters", self.keys().len(), made.len());
        let lines = |samples: Vec<Vec<u8>>| samples.join(&b'\n');
        let spans = |name: &str, samples: Vec<Vec<u8>>| {
            self.folder.remove_store(name);
            self.folder.write("sent.ndjson", lines(samples));
            self.folder.ingest(&format!("sent.ndjson --store sqlite:{name}"));
            spans(&self.folder, name)
        };
        let once = (0..self.made).map(|nth| sample(nth, "time")).collect();
        assert!(spans("sent.db", self.sent()) == spans("once.db", once), "other trips");
    }
}
