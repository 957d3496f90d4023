//! The polling thread: rebalances, batches, commits.
//!
//! It never waits for a store. It sends batches to the partition workers over bounded channels, and
//! pauses a partition whose channel is full. It commits what the workers have acknowledged, and
//! only for partitions that are assigned. It waits, with a time limit, only for the workers of
//! revoked partitions.

mod commits;
mod positions;
mod rebalance;
mod statistics;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::mpsc;

pub use self::positions::{ResumePoint, resume_point};
use self::rebalance::RebalanceContext;
use super::client::{Brokers, STATISTICS};
use super::partition_handle::{PartitionHandle, WorkerExit};
use super::record::{Record, RecordContent, RecordReader};
use super::topic::StartFrom;
use super::unreadable::{self, UnreadableBatch};
use super::{KafkaError, client_error};
use crate::model::epoch::Epoch;
use crate::model::time::format_duration;
use crate::source::Batch;
use crate::telemetry;

/// Maximum wait of one poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(20);

/// Interval at which incomplete batches are sent.
const SEND_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of batches queued for a partition worker.
const MAX_QUEUED_BATCHES: usize = 4;

/// A paused partition resumes when its channel has room for this number of batches.
const RESUME_CAPACITY: usize = 2;

/// Maximum number of entries of a batch.
const MAX_BATCH_ENTRIES: usize = 4096;

/// Maximum size of a batch, bytes; the more partitions are assigned, the smaller.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// Lower limit of the batch size, however many partitions are assigned, bytes.
const MIN_BATCH_BYTES: usize = 16 << 10;

/// The clock is read once per this number of records.
const CLOCK_CHECK_INTERVAL: u32 = 64;

/// Time limit of a seek.
const SEEK_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of commits.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

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

/// Configuration of the polling thread.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// Connection settings.
    pub brokers: Brokers,
    /// Topic to read.
    pub topic: String,
    /// Consumer group.
    pub group: String,
    /// Static member id (`group.instance.id`), if any.
    pub instance_id: Option<String>,
    /// Partitions and start offsets.
    pub assignment: Assignment,
    /// Epoch that the topic has to match.
    pub epoch: Epoch,
    /// Time limit for the workers of revoked partitions to store what they have.
    pub revoke_timeout: Duration,
    /// Time limit for all workers to store what they have on shutdown.
    pub drain_timeout: Duration,
    /// Memory for queued batches, bytes.
    pub memory: usize,
}

/// A newly assigned partition, for a partition worker.
#[derive(Debug)]
pub struct AssignedPartition {
    /// State shared with the polling thread.
    pub holding: Arc<PartitionHandle>,
    /// Batches to process; the channel closes when the partition is revoked or fully read.
    pub batches: mpsc::Receiver<Batch>,
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
    /// The time limit passed before, or a worker failed.
    NotInTime,
}

/// Polls until `stop` is set, then drains. Runs on its own thread.
///
/// # Errors
/// The topic does not match the epoch, records expired, or the client failed.
pub fn run(
    config: &ConsumerConfig,
    reader: RecordReader,
    assigned: mpsc::UnboundedSender<AssignedPartition>,
    on_event: &OnConsumerEvent,
    stop: &AtomicBool,
) -> Result<DrainResult, KafkaError> {
    let context = RebalanceContext::new(config.clone(), assigned, Arc::clone(on_event));
    let mut ours = vec![
        ("group.id", config.group.as_str()),
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
    if let Some(id) = &config.instance_id {
        ours.push(("group.instance.id", id));
    }
    if let Assignment::Spans(_) = &config.assignment {
        // The last offset of a span may belong to a transaction marker rather than a record.
        ours.push(("enable.partition.eof", "true"));
    }
    if telemetry::is_on() || matches!(config.assignment, Assignment::Group { .. }) {
        ours.push((STATISTICS, STATISTICS_MS));
    }
    let consumer: BaseConsumer<RebalanceContext> = config
        .brokers
        .config(&ours)
        // The reason of a failed commit is logged as a warning.
        .set_log_level(RDKafkaLogLevel::Warning)
        .create_with_context(context)
        .map_err(|error| config.brokers.refused(&error))?;
    Poller {
        config,
        consumer: &consumer,
        reader,
        on_event,
        last_commit: Instant::now(),
        silent_since: None,
    }
    .run(stop)
}

struct Poller<'a> {
    config: &'a ConsumerConfig,
    consumer: &'a BaseConsumer<RebalanceContext>,
    reader: RecordReader,
    on_event: &'a OnConsumerEvent,
    /// Time of the last commit.
    last_commit: Instant,
    /// Start of the current wait for a record from the brokers.
    silent_since: Option<Instant>,
}

impl Poller<'_> {
    fn run(mut self, stop: &AtomicBool) -> Result<DrainResult, KafkaError> {
        match &self.config.assignment {
            Assignment::Group { .. } => {
                let result = self.consumer.subscribe(&[&self.config.topic]);
                result.map_err(client_error("subscribing"))?;
            }
            Assignment::All(offsets) => {
                let unbounded = |&offset| offset..i64::MAX;
                let spans = (0..).zip(offsets.iter().map(unbounded));
                self.consumer.context().assign_all(self.consumer, spans)?;
            }
            Assignment::Spans(spans) => {
                // An empty span need not exist.
                let spans = (0..).zip(spans.iter().cloned()).filter(|(_, span)| !span.is_empty());
                self.consumer.context().assign_all(self.consumer, spans)?;
            }
        }
        while !stop.load(Ordering::Acquire) && !self.is_finished() {
            self.poll_records()?;
            self.consumer.context().fault()?;
            self.send_batches();
            self.commit();
            if let Some(error) = self.brokers_lost() {
                // Store what was read before failing.
                self.drain()?;
                return Err(error);
            }
        }
        self.drain()
    }

    /// Polls records until the next send is due, or none is available.
    fn poll_records(&mut self) -> Result<(), KafkaError> {
        let deadline = Instant::now() + SEND_INTERVAL;
        let budget = self.config.memory / (MAX_QUEUED_BATCHES + 1);
        let limit = budget / self.consumer.context().state().held.len().max(1);
        let limit = limit.clamp(MIN_BATCH_BYTES, MAX_BATCH_BYTES);
        let (mut polled, mut timeout) = (0_u32, Duration::ZERO);
        loop {
            match self.consumer.poll(timeout) {
                Some(Ok(message)) => {
                    self.silent_since = None;
                    self.push_record(&message, limit);
                }
                Some(Err(ClientError::PartitionEOF(partition))) => {
                    self.silent_since = None;
                    self.consumer.context().mark_at_end(partition);
                }
                Some(Err(error)) if unreadable::is_unreadable(&error) => self.skip_unreadable(),
                Some(Err(error)) => self.handle_error(&error)?,
                None if timeout > Duration::ZERO => return Ok(()),
                // No record is available without waiting: wait once.
                None if Instant::now() < deadline => {
                    timeout = POLL_TIMEOUT;
                    continue;
                }
                None => return Ok(()),
            }
            // Fetch buffered records without waiting, and read the clock only now and then.
            timeout = Duration::ZERO;
            polled += 1;
            if polled.is_multiple_of(CLOCK_CHECK_INTERVAL) && Instant::now() >= deadline {
                return Ok(());
            }
        }
    }

    /// Adds a record to the batch of its partition, and sends the batch once it reaches `limit`
    /// bytes.
    fn push_record(&mut self, message: &rdkafka::message::BorrowedMessage<'_>, limit: usize) {
        let mut state = self.consumer.context().state();
        // The partition was revoked meanwhile: its next worker reads the record.
        let Some(held) = state.held.get_mut(&message.partition()) else { return };
        if !held.accepts(message.offset()) {
            return;
        }
        let record = Record::from_message(message);
        match self.reader.read(&record, &mut held.batch) {
            RecordContent::Samples => (),
            RecordContent::Control(control) => {
                held.finish_batch();
                record.put_control(control, &mut held.batch);
                held.finish_batch();
            }
        }
        if held.batch.entries.len() >= MAX_BATCH_ENTRIES || held.batch.memory() >= limit {
            held.finish_batch();
            held.send_ready(self.consumer, &self.config.topic);
        }
    }

    /// Replaces each batch that the client cannot unpack with one dead letter, and continues after
    /// it. The error does not name the partition, and recurs until the batch is skipped.
    fn skip_unreadable(&self) {
        for (partition, offset) in self.consumer.context().fetching() {
            match unreadable::find(&self.config.brokers, &self.config.topic, partition, offset) {
                Ok(None) => (),
                Ok(Some(batch)) => self.skip_batch(partition, &batch),
                Err(error) => (self.on_event)(ConsumerEvent::Warning(error.to_string())),
            }
        }
    }

    fn skip_batch(&self, partition: i32, batch: &UnreadableBatch) {
        let next = Offset::Offset(batch.last + 1);
        let UnreadableBatch { first, last, problem } = batch;
        if let Err(error) = self.consumer.seek(&self.config.topic, partition, next, SEEK_TIMEOUT) {
            return (self.on_event)(ConsumerEvent::Warning(format!(
                "partition {partition}: cannot skip the batch from offset {first} to {last}: \
                 {error}"
            )));
        }
        (self.on_event)(ConsumerEvent::Warning(format!(
            "partition {partition}: the batch from offset {first} to {last} cannot be unpacked, \
             and is now one dead letter: {problem}"
        )));
        let mut state = self.consumer.context().state();
        let Some(held) = state.held.get_mut(&partition) else { return };
        if held.accepts(*last) {
            self.reader.push_unreadable(batch, &mut held.batch);
        }
    }

    /// Sends all batches, and resumes partitions whose channels have room again.
    fn send_batches(&self) {
        self.consumer.context().report_stopped();
        let mut state = self.consumer.context().state();
        for held in state.held.values_mut() {
            held.finish_batch();
            held.send_ready(self.consumer, &self.config.topic);
            held.resume(self.consumer, &self.config.topic);
            held.close_at_end(self.consumer, &self.config.topic);
        }
    }

    /// Whether every span was read and processed.
    fn is_finished(&self) -> bool {
        matches!(self.config.assignment, Assignment::Spans(_))
            && self.consumer.context().all_ended()
    }

    /// Returns an error if the brokers of a bounded read have sent no record for longer than their
    /// timeout. Time spent waiting for workers does not count.
    fn brokers_lost(&mut self) -> Option<KafkaError> {
        let is_bounded = matches!(self.config.assignment, Assignment::Spans(_));
        let timeout = self.config.brokers.timeout().filter(|_| is_bounded)?;
        if !self.consumer.context().is_fetching() {
            self.silent_since = None;
            return None;
        }
        let silent_for = self.silent_since.get_or_insert_with(Instant::now).elapsed();
        (silent_for >= timeout).then(|| {
            let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            let (topic, timeout) = (&self.config.topic, format_duration(timeout_ms));
            let problem = format!("no record of topic `{topic}` for {timeout}");
            KafkaError::Unreachable { brokers: self.config.brokers.addresses().to_owned(), problem }
        })
    }

    /// Commits acknowledged offsets of the assigned partitions, at most once per interval.
    fn commit(&mut self) {
        if self.is_group() && self.last_commit.elapsed() >= COMMIT_INTERVAL {
            self.last_commit = Instant::now();
            self.consumer.context().commit_held(self.consumer, CommitMode::Async);
        }
    }

    fn is_group(&self) -> bool {
        matches!(self.config.assignment, Assignment::Group { .. })
    }

    fn handle_error(&self, error: &ClientError) -> Result<(), KafkaError> {
        use RDKafkaErrorCode as Code;
        let mismatch = |problem: String| KafkaError::TopicMismatch {
            topic: self.config.topic.clone(),
            problem,
        };
        match error {
            ClientError::MessageConsumptionFatal(_) => Err(client_error("polling")(error.clone())),
            ClientError::MessageConsumption(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                Err(mismatch(
                    "has no record at the next offset: it was recreated, or its records expired; \
                     restart to find out which"
                        .to_owned(),
                ))
            }
            ClientError::MessageConsumption(Code::LogTruncation) => Err(mismatch(
                "lost records that were already read (unclean leader election), and reuses their \
                 offsets; stop all instances, then start a new epoch: tstar epoch new"
                    .to_owned(),
            )),
            // The context has already reported it, and the client recovers by itself.
            _ => Ok(()),
        }
    }

    /// Waits for the workers to store what they have, commits it, and leaves the group.
    fn drain(self) -> Result<DrainResult, KafkaError> {
        let deadline = Instant::now() + self.config.drain_timeout;
        let partitions = self.consumer.context().close_all();
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&self.config.topic, partition);
        }
        // Without the pause, the client would keep fetching records that no worker takes.
        if let Err(error) = self.consumer.pause(&list) {
            (self.on_event)(ConsumerEvent::Warning(error.to_string()));
        }
        let drained = loop {
            self.consumer.context().report_stopped();
            if self.consumer.context().all_ended() {
                break DrainResult::All;
            }
            if Instant::now() >= deadline {
                break DrainResult::NotInTime;
            }
            // Polling handles a rebalance that revokes partitions meanwhile.
            self.consumer.poll(POLL_TIMEOUT);
        };
        // The commit fails during a rebalance: retry once polling has completed it.
        while self.is_group()
            && !self.consumer.context().commit_held(self.consumer, CommitMode::Sync)
            && Instant::now() < deadline
        {
            self.consumer.poll(POLL_TIMEOUT);
        }
        let exits = self.consumer.context().cancel_all();
        self.consumer.context().fault()?;
        let all_drained = exits.iter().all(|exit| *exit == Some(WorkerExit::Drained));
        Ok(if drained == DrainResult::All && all_drained {
            DrainResult::All
        } else {
            DrainResult::NotInTime
        })
    }
}
