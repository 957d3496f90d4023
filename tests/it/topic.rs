//! The daemon over a real broker, as its users run it.

mod commits;
mod epochs;
pub mod file;
mod formats;
mod fresh;
mod inspect;
pub mod keyspace;
mod leaving;
mod owners;
mod poisoned;
mod records;
mod schemas;
mod starts;
mod stopped;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::TopicPartitionList;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers as _, Message};
use rdkafka::topic_partition_list::Offset;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::producer::{Producer, ProducerRecord};

use crate::cli::Folder;
use crate::faults::{Running, until, until_handles_term};
use crate::servers;
use crate::servers::LIMIT;
use crate::support::block_on;

/// Timeout of a request to the broker.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Partitions of most topics.
pub const PARTITIONS: i32 = 4;

/// Lines of a fleet, bad ones among them.
fn fleet(folder: &Folder, samples: usize) -> Vec<u8> {
    let words =
        format!("simulate --mix 46,34,19,1 --devices 20 --samples {samples} --seed 5 --bad 0.01");
    folder.run(&words).ends(0).stdout
}

/// A topic of one test, on the broker that all tests share.
pub struct Topic {
    pub brokers: String,
    pub name: String,
    admin: AdminClient<DefaultClientContext>,
}

impl Topic {
    /// A topic with `partitions` partitions; `None` without a broker.
    pub fn new(partitions: i32) -> Option<Self> {
        Self::with(partitions, &[])
    }

    /// A topic with the given options.
    pub fn with(partitions: i32, options: &[(&str, &str)]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let brokers = servers::kafka()?;
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}-{nth}", std::process::id());
        Some(Self::on(brokers, name, partitions, options))
    }

    /// A topic on a broker of the test's own.
    pub fn on(brokers: String, name: String, partitions: i32, options: &[(&str, &str)]) -> Self {
        let mut config = ClientConfig::new();
        let admin = config.set("bootstrap.servers", &brokers).create().unwrap();
        let topic = Self { brokers, name, admin };
        topic.make(partitions, options);
        topic
    }

    /// A topic whose partitions are all on one broker of a cluster.
    pub fn placed(brokers: String, name: String, partitions: i32, broker: i32) -> Self {
        let admin = ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
        let topic = Self { brokers, name, admin };
        let replicas = [broker];
        let replicas = vec![&replicas[..]; usize::try_from(partitions).unwrap()];
        let replicas = TopicReplication::Variable(&replicas);
        topic.create(&NewTopic::new(&topic.name, partitions, replicas));
        topic
    }

    pub fn make(&self, partitions: i32, options: &[(&str, &str)]) {
        let mut new = NewTopic::new(&self.name, partitions, TopicReplication::Fixed(1));
        for (name, value) in options {
            new = new.set(name, value);
        }
        self.create(&new);
    }

    fn create(&self, new: &NewTopic<'_>) {
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_TIMEOUT));
        let made = block_on(self.admin.create_topics([new], &options)).unwrap();
        for made in made {
            // No other test has the name: the client repeats a request whose answer came too late.
            let is_made = matches!(made, Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)));
            assert!(is_made, "{made:?}");
        }
        self.wait_for_leaders(usize::try_from(new.num_partitions).unwrap());
    }

    /// Brokers accept a change of topics before they know its outcome themselves.
    fn wait_for_leaders(&self, partitions: usize) {
        until("a leader of each partition", || {
            let metadata = self.admin.inner().fetch_metadata(Some(&self.name), REQUEST_TIMEOUT);
            let metadata = metadata.ok()?;
            let led = metadata.topics()[0].partitions().iter().filter(|it| it.leader() >= 0);
            (led.count() == partitions).then_some(())
        });
    }

    pub fn remove(&self) {
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_TIMEOUT));
        let results = block_on(self.admin.delete_topics(&[&self.name], &options)).unwrap();
        results.into_iter().for_each(|results| drop(results.unwrap()));
    }

    pub fn grow(&self, partitions: usize) {
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_TIMEOUT));
        let new = NewPartitions::new(&self.name, partitions);
        let grown = block_on(self.admin.create_partitions([&new], &options)).unwrap();
        grown.into_iter().for_each(|grown| drop(grown.unwrap()));
        self.wait_for_leaders(partitions);
    }

    /// Sets an option; the others get their defaults.
    pub fn set(&self, name: &str, value: &str) {
        let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
        let changed = AlterConfig::new(ResourceSpecifier::Topic(&self.name)).set(name, value);
        let results = block_on(self.admin.alter_configs([&changed], &options)).unwrap();
        results.into_iter().for_each(|result| drop(result.unwrap()));
    }

    /// Deletes the records of a partition before an offset, as retention would.
    pub fn delete_records_before(&self, partition: i32, before: i64) {
        let mut lost = TopicPartitionList::new();
        lost.add_partition_offset(&self.name, partition, Offset::Offset(before)).unwrap();
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_TIMEOUT));
        block_on(self.admin.delete_records(&lost, &options)).unwrap();
    }

    /// Flags that name the topic.
    pub fn flags(&self) -> String {
        format!("--brokers {} --topic {}", self.brokers, self.name)
    }

    pub fn producer(&self) -> Producer {
        let brokers = Brokers::new(&self.brokers, BTreeMap::new()).unwrap();
        Producer::new(&brokers, Arc::new(|_: &str| ())).unwrap()
    }

    pub fn send(&self, records: &[ProducerRecord]) {
        block_on(self.producer().send(&self.name, records)).unwrap();
    }

    /// Sends lines of NDJSON, each keyed by its device, or else by `key`.
    pub fn send_lines(&self, lines: &[u8], key: &str) {
        self.send(&records(lines, key));
    }

    fn consumer(&self, group: &str) -> BaseConsumer {
        ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", group)
            // A completed commit would end a poll with nothing, like a timeout.
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .create()
            .unwrap()
    }

    /// State of a group, and the number of its members.
    pub fn group(&self, name: &str) -> Option<(String, usize)> {
        let groups = self.consumer("none").fetch_group_list(Some(name), REQUEST_TIMEOUT).ok()?;
        let group = groups.groups().iter().find(|it| it.name() == name)?;
        Some((group.state().to_owned(), group.members().len()))
    }

    /// What a group has committed, by partition.
    pub fn committed(&self, group: &str, partitions: i32) -> BTreeMap<i32, i64> {
        let mut wanted = TopicPartitionList::new();
        (0..partitions).for_each(|partition| {
            wanted.add_partition(&self.name, partition);
        });
        let consumer = self.consumer(group);
        // A coordinator may have to be found, or to load what it keeps.
        let is_moving = |error: &KafkaError| {
            use RDKafkaErrorCode as Code;
            matches!(
                error.rdkafka_error_code(),
                Some(
                    Code::NotCoordinator
                        | Code::CoordinatorNotAvailable
                        | Code::CoordinatorLoadInProgress
                )
            )
        };
        let ask = || consumer.committed_offsets(wanted.clone(), REQUEST_TIMEOUT);
        let is_answer = |it: &Result<_, KafkaError>| !it.as_ref().err().is_some_and(is_moving);
        let answer = until("a coordinator", || Some(ask()).filter(is_answer)).unwrap();
        let offset = |(at, offset): ((String, i32), Offset)| match offset {
            Offset::Offset(offset) => Some((at.1, offset)),
            _ => None,
        };
        answer.to_topic_map().into_iter().filter_map(offset).collect()
    }

    pub fn exists(&self) -> bool {
        let metadata = self.consumer("none").fetch_metadata(None, REQUEST_TIMEOUT).unwrap();
        metadata.topics().iter().any(|topic| topic.name() == self.name)
    }

    /// The offset of the next record of each partition.
    pub fn ends(&self, partitions: i32) -> BTreeMap<i32, i64> {
        let consumer = self.consumer("none");
        let end = |at| {
            // The broker may know a topic before it leads its partitions.
            let leads = |error: &KafkaError| {
                error.rdkafka_error_code() != Some(RDKafkaErrorCode::NotLeaderForPartition)
            };
            let ask = || consumer.fetch_watermarks(&self.name, at, REQUEST_TIMEOUT);
            let answer =
                until("a leader", || Some(ask()).filter(|it| it.as_ref().err().is_none_or(leads)));
            (at, answer.unwrap().1)
        };
        (0..partitions).map(end).collect()
    }

    /// Every record of a topic of this broker, by partition and offset.
    pub fn records_of(&self, topic: &str) -> Vec<StoredRecord> {
        let consumer = self.consumer("none");
        let metadata = consumer.fetch_metadata(Some(topic), REQUEST_TIMEOUT).unwrap();
        let partitions = metadata.topics()[0].partitions().len();
        let mut list = TopicPartitionList::new();
        for partition in 0..i32::try_from(partitions).unwrap() {
            list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        // The end of a partition is reported again after further records.
        let (mut kept, mut ended) = (Vec::new(), BTreeSet::new());
        while ended.len() < partitions {
            // Long: on a busy machine the client may delay a partition for a while.
            match consumer.poll(LIMIT).expect("an answer in time") {
                Ok(message) => kept.push(StoredRecord::from_message(&message)),
                Err(KafkaError::PartitionEOF(partition)) => drop(ended.insert(partition)),
                // Of a broker that has none of these partitions: it may be down.
                Err(KafkaError::MessageConsumption(RDKafkaErrorCode::BrokerTransportFailure)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        kept.sort_by_key(|kept| (kept.partition, kept.offset));
        kept
    }
}

/// A record that was read back.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRecord {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub headers: BTreeMap<String, Vec<u8>>,
    pub timestamp_ms: i64,
}

impl StoredRecord {
    fn from_message(message: &impl Message) -> Self {
        let headers = message.headers().map_or_else(BTreeMap::new, |headers| {
            let pairs = headers.iter();
            pairs.map(|it| (it.key.to_owned(), it.value.unwrap_or_default().to_vec())).collect()
        });
        Self {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().unwrap_or_default().to_vec(),
            headers,
            timestamp_ms: message.timestamp().to_millis().unwrap(),
        }
    }

    /// The text of a header.
    pub fn header(&self, name: &str) -> &str {
        std::str::from_utf8(&self.headers[name]).unwrap()
    }
}

/// Lines of NDJSON as records.
pub fn records(lines: &[u8], key: &str) -> Vec<ProducerRecord> {
    let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let record = |line: &[u8]| {
        let object: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        let device = object.as_ref().and_then(|it| it["device_id"].as_str());
        let device = device.filter(|device| !device.is_empty()).unwrap_or(key);
        ProducerRecord {
            key: Some(device.into()),
            value: line.to_vec(),
            ..ProducerRecord::default()
        }
    };
    lines.map(record).collect()
}

/// Starts a daemon in a folder. Growth of a trip is written within a second, unless the words say
/// otherwise, and not within the default of 30.
pub fn start(folder: &Folder, words: &str) -> Running {
    Running::start(folder.command(words).env("TSTAR_MAX_STALENESS", "1s"))
}

/// Ends a daemon as an operator would.
pub fn drain(mut running: Running, words: &str) -> crate::cli::Ran {
    until_handles_term(running.child());
    running.signal("TERM");
    running.ran(words)
}
