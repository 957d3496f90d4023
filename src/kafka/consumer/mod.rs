//! The polling thread: rebalances, batches, commits.
//!
//! It never waits for a store. It sends batches to the partition workers over bounded channels, and
//! pauses a partition whose channel is full. It commits what the workers have acknowledged, and
//! only for partitions that are assigned. It waits, with a time limit, only for the workers of
//! revoked partitions.

mod callbacks;
pub mod client;
mod commits;
#[cfg(test)]
mod group_fixture;
mod partition_state;
pub mod poller;
mod positions;
pub mod rebalance;
pub mod statistics;

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::Consumer;
use rdkafka_extra::RecordConsumer;
use tokio::sync::mpsc;

use self::poller::Poller;
pub(crate) use self::positions::{ResumePoint, check_topic_id, resume_point};
use self::rebalance::RebalanceContext;
use super::KafkaError;
use super::client::{Brokers, STATISTICS};
use super::partition_handle::PartitionHandle;
use super::raw_batch::RawBatch;
use super::topics::StartFrom;
use crate::model::epoch::Epoch;
use crate::telemetry;

/// Maximum number of batches queued for a partition worker.
const MAX_QUEUED_BATCHES: usize = 4;

/// A paused partition resumes when its channel has room for this number of batches.
const RESUME_CAPACITY: usize = 2;

/// Interval of the client's statistics (end offsets, committed offsets), ms.
const STATISTICS_MS: &str = "2000";

/// Which partitions this process reads, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// The group assigns partitions to its members; the brokers store the offsets.
    Group {
        /// Where to start a partition that has no valid committed offset.
        from: Option<StartFrom>,
    },
    /// All partitions, from these offsets, by partition; the caller stores the offsets.
    All(Vec<i64>),
    /// All partitions, these offsets of each, by partition. Reading ends after the last of them; no
    /// offset is committed.
    Spans(Vec<Range<i64>>),
}

/// Settings of a member of a consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberSettings {
    /// Consumer group.
    pub group: String,
    /// Static member id (`group.instance.id`), if any.
    pub instance_id: Option<String>,
    /// Time limit for the workers of revoked partitions to store what they have.
    pub revoke_timeout: Duration,
    /// Time limit for all workers to store what they have on shutdown.
    pub drain_timeout: Duration,
}

impl MemberSettings {
    /// A member of a group, without a static id and without time to store what it has.
    #[must_use]
    pub fn new(group: &str) -> Self {
        Self { group: group.to_owned(), ..Self::default() }
    }
}

/// Configuration of the polling thread.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// Connection settings.
    pub brokers: Brokers,
    /// Topic to read.
    pub topic: String,
    /// How this instance is a member of the group.
    pub member: MemberSettings,
    /// Partitions and start offsets.
    pub assignment: Assignment,
    /// Epoch that the topic has to match.
    pub epoch: Epoch,
    /// Memory for queued batches, bytes.
    pub memory: usize,
}

/// A newly assigned partition, for a partition worker.
#[derive(Debug)]
pub struct AssignedPartition {
    /// State shared with the polling thread.
    pub holding: Arc<PartitionHandle>,
    /// Batches to process; the channel closes when the partition is revoked or fully read.
    pub batches: mpsc::Receiver<RawBatch>,
}

/// Event of the polling thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerEvent {
    /// A partition was assigned.
    Assigned {
        /// Partition number, from 0.
        partition: i32,
        /// First offset to read.
        from: i64,
    },
    /// A partition was revoked; everything before the offset is committed.
    Revoked {
        /// Partition number, from 0.
        partition: i32,
        /// Committed offset.
        committed: i64,
        /// The worker was cancelled before it had stored everything.
        late: bool,
    },
    /// A worker failed: its partition stops for as long as it is assigned, the others continue.
    Stopped {
        /// Partition number, from 0.
        partition: i32,
        /// Why the worker failed.
        problem: String,
    },
    /// A partition was lost: another member may already read it.
    Lost {
        /// Partition number, from 0.
        partition: i32,
    },
    /// Records expired before they were read; reading resumes where `--from` says.
    Expired {
        /// Partition number, from 0.
        partition: i32,
        /// First expired offset.
        first: i64,
        /// Offset at which reading resumes.
        next: i64,
    },
    /// The rows of the store are behind the group's offset: they were restored. The records between
    /// are read again.
    Behind {
        /// Partition number, from 0.
        partition: i32,
        /// First offset to read.
        from: i64,
        /// The group's offset.
        until: i64,
    },
    /// The rows of the store have what the group's offset says.
    CaughtUp {
        /// Partition number, from 0.
        partition: i32,
    },
    /// The brokers deny this member the group, and what grants it; no partition is read until then.
    Denied(String),
    /// The client reported a problem that it recovers from by itself.
    Warning(String),
}

/// Callback for events of the polling thread.
pub type OnConsumerEvent = Arc<dyn Fn(ConsumerEvent) + Send + Sync>;

/// Result of draining the partition workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResult {
    /// Everything that was sent to the workers is durable, and committed.
    All,
    /// The time limit passed before.
    NotInTime,
    /// A worker had failed, or another member had taken its partition over.
    Interrupted,
}

/// Polls until `stop` is set, then drains, passes the result to `ended`, and leaves the group. Runs
/// on its own thread.
///
/// The result does not wait for the client to close: the brokers may keep a request for as long as
/// other members do not join the group.
///
/// The result is an error if the topic does not match the epoch, records expired, or the client
/// failed.
pub fn run(
    config: &ConsumerConfig,
    assigned: mpsc::UnboundedSender<AssignedPartition>,
    on_event: &OnConsumerEvent,
    stop: Arc<AtomicBool>,
    ended: impl FnOnce(Result<DrainResult, KafkaError>),
) {
    match new_client(config, assigned, on_event, stop) {
        Ok(client) => {
            let client = Rc::new(client);
            ended(Poller::new(Rc::clone(&client)).run());
            client::leave(&client);
        }
        Err(error) => ended(Err(error)),
    }
}

/// Creates the client that the polling thread polls. It has not joined its group yet.
///
/// # Errors
/// An option is unknown to the client.
pub fn new_client(
    config: &ConsumerConfig,
    assigned: mpsc::UnboundedSender<AssignedPartition>,
    on_event: &OnConsumerEvent,
    stop: Arc<AtomicBool>,
) -> Result<RecordConsumer<RebalanceContext>, KafkaError> {
    let context = RebalanceContext::new(config.clone(), assigned, Arc::clone(on_event), stop);
    let mut ours = vec![
        ("group.id", config.member.group.as_str()),
        ("group.protocol", "classic"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "error"),
        ("isolation.level", "read_committed"),
        ("max.poll.interval.ms", "300000"),
        ("session.timeout.ms", "45000"),
        ("queued.max.messages.kbytes", "16384"),
        ("queued.min.messages", "10000"),
        // With the default of 1 s, the consumer idles after its queue was full.
        ("fetch.queue.backoff.ms", "10"),
        ("check.crcs", "true"),
        ("allow.auto.create.topics", "false"),
    ];
    if let Some(id) = &config.member.instance_id {
        ours.push(("group.instance.id", id));
    }
    if let Assignment::Spans(_) = &config.assignment {
        // The last offset of a span may belong to a transaction marker rather than a record.
        ours.push(("enable.partition.eof", "true"));
    }
    if telemetry::is_on() || matches!(config.assignment, Assignment::Group { .. }) {
        ours.push((STATISTICS, STATISTICS_MS));
    }
    let mut options = config.brokers.config(&ours);
    // The reason of a failed commit is logged as a warning.
    options.set_log_level(RDKafkaLogLevel::Warning);
    let client = RecordConsumer::new(config.brokers.create(&options, context)?);
    let queue = &Consumer::context(client.consumer()).queue;
    queue.get_or_init(|| client.queue());
    Ok(client)
}
