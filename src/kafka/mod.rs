//! The log where it is a Kafka topic.
//!
//! | file | what happens there |
//! |---|---|
//! | [`client`] | how brokers are reached, and what a user may not set |
//! | [`topic`] | what a topic is, checked before anything is read from it |
//! | [`record`] | a record to samples, with its key |
//! | [`consumer`] | the thread that polls: who holds which partition, hand-over, commits |
//! | [`fit`] | a dead letter as a record that its topic takes |
//! | [`group`] | a consumer group from outside: members, offsets |
//! | [`headers`] | the headers of a record, whatever their names |
//! | [`holding`] | one partition while it is held: what its owner and that thread tell each other |
//! | [`journal`] | the change feed and the dead letters of a partition |
//! | [`letters`] | the topic of dead letters, seen from outside |
//! | [`options`] | which options of the client may be shown |
//! | [`producer`] | records out, acknowledged |
//! | [`scan`] | what stands in a topic, read once |
//! | [`tail`] | the latest records of a topic, for those who follow it |
//! | [`transactions`] | records out, some at a time: all of them or none |

pub mod client;
pub mod consumer;
pub mod control;
pub mod dead_letters;
pub mod group;
pub mod headers;
pub mod journal;
pub mod letter_limit;
pub mod options;
pub mod partition_handle;
pub mod partitioning;
pub mod producer;
pub mod record;
pub mod scan;
pub mod tail;
pub mod topic;
pub mod transactions;
mod unreadable;

use rdkafka::error::KafkaError as ClientError;

/// The log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    /// A client option that cannot be used.
    #[error("Kafka client: {problem}")]
    Options {
        /// What is wrong, with the option and its value.
        problem: String,
    },
    /// No broker answers.
    #[error("no Kafka broker of `{brokers}` answers: {problem}; is it up, and --brokers right?")]
    Unreachable {
        /// Addresses that were tried.
        brokers: String,
        /// What the client said last.
        problem: String,
    },
    /// The topic of samples is not there. None is made for a name that may be mistyped: how many
    /// partitions it has is for good.
    #[error(
        "there is no topic `{topic}`: see the name and --brokers, or make it, with as many partitions as instances will ever share it: kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} --partitions 4"
    )]
    NoTopic {
        /// Addresses of the brokers.
        brokers: String,
        /// Its name.
        topic: String,
    },
    /// Topics that are written to are not there.
    #[error("{}", no_outputs(.brokers, .topics, .partitions))]
    NoOutputs {
        /// Addresses of the brokers.
        brokers: String,
        /// Their names.
        topics: Vec<String>,
        /// How many partitions each should have.
        partitions: i32,
    },
    /// There is no topic of changes.
    #[error(
        "there is no topic `{topic}`: no changes are told there; `tstar run --create-topics` makes it"
    )]
    NoChanges {
        /// Its name.
        topic: String,
    },
    /// There is no topic of dead letters.
    #[error(
        "there is no topic `{topic}`: no dead letters were kept there; `tstar run --create-topics` makes it"
    )]
    NoDlqTopic {
        /// Its name.
        topic: String,
    },
    /// Somebody else sends under the same name.
    #[error(
        "another `tstar dlq replay` or `tstar dlq purge` has begun since this one (`{name}`), which gave way: what it did before stays done; run it again once the other has ended"
    )]
    Fenced {
        /// The name under which both send.
        name: String,
    },
    /// A record is larger than its topic, or the client, takes.
    #[error("a record is too large: {problem}; see message.max.bytes of the topic, and of --kafka")]
    TooLarge {
        /// What the client said.
        problem: String,
    },
    /// The topic is not fit to be the log.
    #[error("topic `{topic}` cannot be read as a log: {problem}")]
    Unfit {
        /// Its name.
        topic: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The topic is not the one that the epoch was made for.
    #[error("topic `{topic}` {problem}")]
    TopicMismatch {
        /// Its name.
        topic: String,
        /// What differs, and which command helps.
        problem: String,
    },
    /// Records are gone that were not read.
    #[error(
        "records {first} to {last} of partition {partition} of `{topic}` are gone before they were read ({why}); say --from earliest to go on with what is left, or --from latest or TIME"
    )]
    Expired {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The first offset that is gone.
        first: i64,
        /// The last offset that is gone.
        last: i64,
        /// How it is known.
        why: String,
    },
    /// The client cannot go on.
    #[error("the Kafka client cannot go on while {doing}")]
    Client {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: ClientError,
    },
    /// A thread broke off.
    #[error("the thread that polls Kafka broke off; this is a bug, please report it")]
    Broken,
}

fn no_outputs(brokers: &str, topics: &[String], partitions: &i32) -> String {
    let make = |topic: &String| {
        format!(
            "kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} --partitions \
             {partitions}"
        )
    };
    let commands: Vec<String> = topics.iter().map(make).collect();
    let (topics, commands) = (topics.join("`, no topic `"), commands.join("; "));
    format!("there is no topic `{topics}`: start with --create-topics, or make it: {commands}")
}

/// Says what was being done when the client failed.
fn client_error(doing: &'static str) -> impl Fn(ClientError) -> KafkaError {
    move |source| KafkaError::Client { doing, source }
}
