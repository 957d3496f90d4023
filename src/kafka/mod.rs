//! The log when it is a Kafka topic.
//!
//! | module | contents |
//! |---|---|
//! | [`client`] | connection settings, and the options that a user may not set |
//! | [`topics`] | topic metadata and administration |
//! | [`raw_batch`] | polled records, which the worker of their partition decodes |
//! | [`record`] | decodes a record into samples, and checks its key |
//! | [`consumer`] | the polling thread: rebalances, batches, commits |
//! | [`control`] | signed control records |
//! | [`dead_letters`] | reads the topic of dead letters |
//! | [`group`] | members and committed offsets of a consumer group |
//! | [`headers`] | reads the headers of a record, also those whose names are not UTF-8 |
//! | [`letter_record`] | encodes a dead letter as a record within the size limit of its topic |
//! | `login` | passwords from a file, and OAuth tokens, which change while clients run |
//! | [`options`] | which client options may be shown |
//! | [`partition_handle`] | state that the polling thread and a partition worker share |
//! | [`partitioning`] | infers the partitioner of the producers |
//! | `problems` | why brokers do not answer |
//! | [`producer`] | sends records and waits for their acknowledgement |
//! | [`rights`] | rights that brokers may deny |
//! | [`scan`] | reads a range of a topic once |
//! | [`tail`] | keeps the latest records of a topic in memory |
//! | `token_endpoint` | issues OAuth tokens |
//! | [`topic_names`] | names of the topics next to the input topic |
//! | [`topic_settings`] | settings of those topics |
//! | [`transactions`] | sends records in transactions |
//! | [`unreadable`] | finds the batches that the client cannot unpack |

pub mod client;
pub mod consumer;
pub mod control;
pub mod dead_letters;
pub(crate) mod first_records;
pub mod group;
pub mod headers;
#[cfg(test)]
pub(crate) mod letter_fixture;
pub mod letter_record;
mod login;
pub mod options;
pub mod partition_handle;
pub(crate) mod partitioning;
mod problems;
pub mod producer;
pub(crate) mod raw_batch;
pub mod record;
pub mod rights;
pub mod scan;
pub mod tail;
mod token_endpoint;
pub(crate) mod topic_names;
pub(crate) mod topic_settings;
pub mod topics;
pub mod transactions;
pub mod unreadable;

use std::collections::BTreeMap;

use rdkafka::TopicPartitionList;
use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::topic_partition_list::Offset;

use self::rights::Right;

/// An error of reading or writing Kafka.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    /// A client option has an invalid value, or must not be set.
    #[error("Kafka client: {problem}")]
    Options {
        /// The option, its value and what is wrong with it.
        problem: String,
    },
    /// No broker responds.
    #[error(
        "no Kafka broker of `{brokers}` answers: {problem}; {}", problems::next_step(.problem)
    )]
    Unreachable {
        /// Addresses of the brokers, as given.
        brokers: String,
        /// The client's last error.
        problem: String,
    },
    /// The brokers deny the user a right.
    #[error(
        "the brokers deny {right} to {principal}; grant it: {}; the page on security lists what \
         each command needs",
        .right.grant(.brokers, .principal)
    )]
    Denied {
        /// Addresses of the brokers, as given.
        brokers: String,
        /// The user, as Kafka's tools write it.
        principal: String,
        /// The right that is missing.
        right: Right,
    },
    /// The input topic does not exist. It is never created automatically: its name may be mistyped,
    /// and its partition count is permanent.
    #[error(
        "topic `{topic}` does not exist; check its name and --brokers, or create it with at \
         least as many partitions as instances will ever share it: kafka-topics.sh \
         --bootstrap-server {brokers} --create --topic {topic} --partitions 4"
    )]
    NoTopic {
        /// Addresses of the brokers.
        brokers: String,
        /// Name of the topic.
        topic: String,
    },
    /// Output topics do not exist.
    #[error("{}", no_outputs(.brokers, .topics, .partitions))]
    NoOutputs {
        /// Addresses of the brokers.
        brokers: String,
        /// Names of the missing topics.
        topics: Vec<String>,
        /// Partition count that each should have.
        partitions: i32,
    },
    /// A topic that is read next to the input topic does not exist.
    #[error("topic `{topic}` does not exist, so {lack}; `tstar run --create-topics` creates it")]
    NoOutput {
        /// Name of the topic.
        topic: String,
        /// What there is not, as part of a sentence.
        lack: &'static str,
    },
    /// Another producer has started with the same transactional id.
    #[error(
        "another instance began to use the transactional id `{name}`, so this one stopped; rerun it \
         once the other has ended"
    )]
    Fenced {
        /// The transactional id.
        name: String,
    },
    /// The client of a transactional id can do nothing more with it: whether the brokers committed
    /// the last transaction is unclear, or they ended the session of its producer.
    #[error(
        "the transaction `{name}` can neither be committed nor aborted: {problem}; the partition \
         is read again from its last commit"
    )]
    Unusable {
        /// The transactional id.
        name: String,
        /// The client's error.
        problem: String,
    },
    /// The table topic does not have the partition count of the settings.
    #[error(
        "topic `{topic}` has {found} partitions, and --table-partitions says {expected}: pass the \
         number that the topic was created with, or delete the topic and let its readers start \
         again; if partitions were added, ids may lie in two of them"
    )]
    TablePartitions {
        /// Name of the table topic.
        topic: String,
        /// Number of its partitions.
        found: i32,
        /// Number in the settings.
        expected: i32,
    },
    /// A record exceeds the limit of its topic, or of the client.
    #[error(
        "a record is too large: {problem}; raise max.message.bytes of the topic, and \
         message.max.bytes in --kafka"
    )]
    TooLarge {
        /// The client's error.
        problem: String,
    },
    /// The topic is unsuitable as a log.
    #[error("topic `{topic}` cannot be read as a log: {problem}")]
    Unsuitable {
        /// Name of the topic.
        topic: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The topic does not match the epoch.
    #[error("topic `{topic}` {problem}")]
    TopicMismatch {
        /// Name of the topic.
        topic: String,
        /// What differs, and which command helps.
        problem: String,
    },
    /// Records expired before they were read.
    #[error(
        "records {first} to {last} of partition {partition} of `{topic}` expired before they \
         were read ({reason}); pass --from earliest to continue with the oldest \
         record, or --from latest or TIME"
    )]
    Expired {
        /// Name of the topic.
        topic: String,
        /// Partition number, from 0.
        partition: i32,
        /// First expired offset.
        first: i64,
        /// Last expired offset.
        last: i64,
        /// What shows that they expired.
        reason: String,
    },
    /// The client failed.
    #[error("the Kafka client failed while {doing}")]
    Client {
        /// What the client was asked to do.
        doing: &'static str,
        /// The client's error.
        source: ClientError,
    },
    /// The polling thread panicked, or one of its channels closed too early.
    #[error("the thread that polls Kafka stopped; this is a bug, please report it")]
    Broken,
}

fn no_outputs(brokers: &str, topics: &[String], partitions: &i32) -> String {
    let command = |topic: &String| topic_settings::create_command(brokers, topic, *partitions);
    let commands: Vec<String> = topics.iter().map(command).collect();
    let (noun, verb) = if topics.len() == 1 { ("topic", "does") } else { ("topics", "do") };
    let (topics, commands) = (topics.join("`, `"), commands.join("; "));
    format!(
        "{noun} `{topics}` {verb} not exist; start with --create-topics, or create \
         by hand: {commands}"
    )
}

/// Offsets of partitions of a topic, as the client takes them.
fn offset_list(
    topic: &str,
    offsets: impl IntoIterator<Item = (i32, i64)>,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    }
    Ok(list)
}

/// Partitions of a topic, as the client takes them.
fn partition_list(topic: &str, partitions: impl IntoIterator<Item = i32>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(topic, partition);
    }
    list
}

/// The offsets of a list, by partition, of those that have one.
fn offsets_of(list: &TopicPartitionList) -> KafkaResult<BTreeMap<i32, i64>> {
    let mut offsets = BTreeMap::new();
    for element in list.elements() {
        element.error()?;
        if let Offset::Offset(offset) = element.offset() {
            offsets.insert(element.partition(), offset);
        }
    }
    Ok(offsets)
}

/// Adds to an error of the client what it was asked to do.
fn client_error(doing: &'static str) -> impl Fn(ClientError) -> KafkaError {
    move |source| KafkaError::Client { doing, source }
}
