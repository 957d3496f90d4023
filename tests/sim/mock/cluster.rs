//! The mock brokers, what is done to them, and what they keep.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::DefaultProducerContext;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Refusal};
use tstar::internals::kafka::producer::ProducerRecord;

use crate::support::Dice;

pub const TOPIC: &str = "samples";
pub const LETTERS: &str = "samples.dlq";
pub const FEED: &str = "samples.trips";
pub const GROUP: &str = "tstar";
pub const PARTITIONS: i32 = 6;
const BROKERS: i32 = 3;

/// The mock brokers keep 5 MiB of a partition, so that the feed needs more of them.
const FEED_PARTITIONS: i32 = 24;

/// Time limit of a request.
const REQUEST: Duration = Duration::from_secs(20);

/// Requests that brokers refuse, each with the answers that they have for it.
const REFUSALS: [(Api, &[Refusal]); 9] = [
    (
        Api::JoinGroup,
        &[
            Refusal::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            Refusal::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
    (
        Api::SyncGroup,
        &[
            Refusal::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            Refusal::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            Refusal::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
        ],
    ),
    (
        Api::Heartbeat,
        &[
            Refusal::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            Refusal::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            Refusal::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
    (
        Api::OffsetCommit,
        &[
            Refusal::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            Refusal::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            Refusal::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
    (
        Api::OffsetFetch,
        &[
            Refusal::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            Refusal::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
    (
        Api::FindCoordinator,
        &[
            Refusal::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
    (
        Api::ListOffsets,
        &[
            Refusal::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
    (
        Api::Fetch,
        &[
            Refusal::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
    (
        Api::Produce,
        &[
            Refusal::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Refusal::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            Refusal::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    ),
];

/// What is done to the brokers during a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    CoordinatorMoves,
    BrokerDown,
    Refusals,
}

pub struct Cluster {
    brokers: MockCluster<'static, DefaultProducerContext>,
    pub addresses: String,
}

impl Cluster {
    pub fn new() -> Self {
        let brokers = MockCluster::new(BROKERS).unwrap();
        for (topic, partitions) in [(TOPIC, PARTITIONS), (LETTERS, 1), (FEED, FEED_PARTITIONS)] {
            brokers.create_topic(topic, partitions, BROKERS).unwrap();
        }
        let addresses = brokers.bootstrap_servers();
        Self { brokers, addresses }
    }

    /// Does something to the brokers, until [`Cluster::heal`].
    pub fn disturb(&self, fault: Fault, dice: &mut Dice) {
        let broker = dice.between(1, i64::from(BROKERS)) as i32;
        match fault {
            Fault::CoordinatorMoves => {
                self.brokers.coordinator(MockCoordinator::Group(GROUP.into()), broker).unwrap();
            }
            Fault::BrokerDown => self.brokers.broker_down(broker).unwrap(),
            Fault::Refusals => {
                let (api, answers) = dice.one_of(&REFUSALS);
                let answers: Vec<_> =
                    (0..dice.between(1, 6)).map(|_| dice.one_of(answers)).collect();
                println!("refused: {api:?} {answers:?}");
                self.brokers.request_errors(api, &answers);
            }
        }
    }

    /// Takes the leader of a partition away, or gives it one.
    pub fn lead(&self, partition: i32, broker: Option<i32>) {
        self.brokers.partition_leader(TOPIC, partition, broker).unwrap();
    }

    pub fn heal(&self) {
        for broker in 1..=BROKERS {
            self.brokers.broker_up(broker).unwrap();
        }
        REFUSALS.iter().for_each(|(api, _)| self.brokers.clear_request_errors(*api));
    }

    fn client(&self, group: &str) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.addresses).set("group.id", group);
        config.set("auto.offset.reset", "error").create().unwrap()
    }

    /// The committed offset of each partition that has one; `None` if the brokers do not answer.
    pub fn committed(&self) -> Option<BTreeMap<i32, i64>> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(TOPIC, 0, PARTITIONS - 1);
        let found = self.client(GROUP).committed_offsets(asked, REQUEST).ok()?;
        let offset = |of: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            Some((of.partition(), of.offset().to_raw().filter(|offset| *offset >= 0)?))
        };
        Some(found.elements().iter().filter_map(offset).collect())
    }

    /// The end offset of each partition of a topic. None of its records was dropped.
    pub fn ends(&self, topic: &str) -> Vec<i64> {
        let client = self.client("ends");
        let partitions = match topic {
            TOPIC => PARTITIONS,
            FEED => FEED_PARTITIONS,
            _ => 1,
        };
        let end = |partition| {
            let (first, end) = client.fetch_watermarks(topic, partition, REQUEST).unwrap();
            assert_eq!(first, 0, "the mock brokers keep all of {topic}");
            end
        };
        (0..partitions).map(end).collect()
    }

    /// All records of a topic, with partition and offset.
    pub fn records(&self, topic: &str) -> Vec<(i32, i64, Arc<ProducerRecord>)> {
        let (client, ends) = (self.client("records"), self.ends(topic));
        let mut assigned = TopicPartitionList::new();
        for partition in 0..ends.len() as i32 {
            assigned.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        client.assign(&assigned).unwrap();
        let count = ends.iter().sum::<i64>() as usize;
        let mut records = Vec::with_capacity(count);
        while records.len() < count {
            let message = client.poll(REQUEST).expect("a record");
            // The client recovers from a closed connection by itself.
            let Ok(message) = message else { continue };
            records.push((message.partition(), message.offset(), Arc::new(copy(&message))));
        }
        records.sort_by_key(|(partition, offset, _)| (*partition, *offset));
        records
    }
}

fn copy(message: &BorrowedMessage<'_>) -> ProducerRecord {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    ProducerRecord {
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().unwrap_or_default().to_vec(),
        headers: headers
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect(),
        timestamp_ms: message.timestamp().to_millis(),
        partition: None,
    }
}
