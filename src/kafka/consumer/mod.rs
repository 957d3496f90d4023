//! The thread that polls: who holds which partition, hand-over, commits.
//!
//! It never waits for a store. Batches go to the owners of partitions over bounded channels; a
//! partition whose channel is full is paused until there is room. What owners acknowledge is
//! committed from here, and only for partitions that are held. The one wait is for the owners of
//! partitions that are given back, and it has an end.

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

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(20);

/// How often batches are handed over that are not full.
const HAND_OVER: Duration = Duration::from_millis(20);

/// Batches that wait for an owner, at most.
const BATCHES_AHEAD: usize = 4;

/// A paused partition goes on when so many more fit.
const BATCHES_LOW: usize = 2;

/// A batch is handed over when it has so many entries.
const BATCH_ENTRIES: usize = 4096;

/// A batch is handed over when it has so many bytes, at most; less where many partitions are held.
const BATCH_BYTES: usize = 1 << 20;

/// A batch takes as many bytes however many partitions are held.
const LEAST_BYTES: usize = 16 << 10;

/// The clock is looked at each time so many records were taken.
const LOOK_EVERY: u32 = 64;

/// How long the client may take to go to another offset.
const SEEK: Duration = Duration::from_secs(5);

/// How often offsets are committed.
const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// How often the client tells where partitions end and what was committed, ms, where somebody looks
/// at it.
const STATISTICS_MS: &str = "2000";

/// Who decides which partitions this process reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// The group does, among its members; offsets are kept by the brokers.
    Group {
        /// Where reading begins where no valid offset is kept.
        from: Option<StartFrom>,
    },
    /// All of them, from these offsets on, by partition; offsets are kept elsewhere.
    All(Vec<i64>),
    /// All of them, these offsets of each, by partition. Reading ends with the last of them; no
    /// offset is kept.
    Spans(Vec<Range<i64>>),
}

/// What to read, and how.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// How brokers are reached.
    pub brokers: Brokers,
    /// What is read.
    pub topic: String,
    /// Name of the consumer group.
    pub group: String,
    /// Name of this member, where the group should know it again after a restart.
    pub instance_id: Option<String>,
    /// Which partitions.
    pub assignment: Assignment,
    /// The epoch under which it is read.
    pub epoch: Epoch,
    /// How long owners may take to store what they have when partitions are given back.
    pub revoke_timeout: Duration,
    /// How long they may take at the end.
    pub drain_timeout: Duration,
    /// Memory for batches on their way, bytes.
    pub memory: usize,
}

/// A partition that is held from now on, for an owner.
#[derive(Debug)]
pub struct AssignedPartition {
    /// What the owner reports to.
    pub holding: Arc<PartitionHandle>,
    /// What it reads; it ends when the partition is given back.
    pub batches: mpsc::Receiver<Batch>,
}

/// What the thread tells while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerEvent {
    /// A partition is held from now on, from an offset on.
    Assigned {
        /// Which.
        partition: i32,
        /// The first offset.
        from: i64,
    },
    /// A partition was given back, everything before the offset committed.
    Revoked {
        /// Which.
        partition: i32,
        /// What was committed.
        committed: i64,
        /// Its owner was called off before it had stored all it had.
        late: bool,
    },
    /// A partition has stopped, the others go on. It stays so while it is held.
    Stopped {
        /// Which.
        partition: i32,
        /// Why.
        problem: String,
    },
    /// A partition was lost: somebody else holds it already.
    Lost {
        /// Which.
        partition: i32,
    },
    /// Records are gone that were not read; `--from` said where to go on.
    Expired {
        /// Which.
        partition: i32,
        /// First offset that is gone.
        first: i64,
        /// Where reading goes on.
        next: i64,
    },
    /// The client said something that it gets over by itself.
    Warning(String),
}

/// What hears it.
pub type OnConsumerEvent = Arc<dyn Fn(ConsumerEvent) + Send + Sync>;

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResult {
    /// Everything that was handed over is durable, and committed.
    All,
    /// The time was up before.
    NotInTime,
}

/// Reads until `stop` is set, and drains then. Runs on a thread of its own.
///
/// # Errors
/// The topic is not what the epoch says, records are gone, or the client cannot go on.
pub fn run(
    plan: &ConsumerConfig,
    reader: RecordReader,
    handed: mpsc::UnboundedSender<AssignedPartition>,
    hear: &OnConsumerEvent,
    stop: &AtomicBool,
) -> Result<DrainResult, KafkaError> {
    let context = RebalanceContext::new(plan.clone(), handed, Arc::clone(hear));
    let mut ours = vec![
        ("group.id", plan.group.as_str()),
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
        // Its default, a second, leaves the consumer idle: see deps-and-limits, 2.3.
        ("fetch.queue.backoff.ms", "10"),
        ("check.crcs", "true"),
        ("allow.auto.create.topics", "false"),
    ];
    if let Some(id) = &plan.instance_id {
        ours.push(("group.instance.id", id));
    }
    if let Assignment::Spans(_) = &plan.assignment {
        // The last offset of a span may be none of a record: the mark of a transaction has one.
        ours.push(("enable.partition.eof", "true"));
    }
    if telemetry::is_on() || matches!(plan.assignment, Assignment::Group { .. }) {
        ours.push((STATISTICS, STATISTICS_MS));
    }
    let consumer: BaseConsumer<RebalanceContext> = plan
        .brokers
        .config(&ours)
        // Why a commit failed is a warning.
        .set_log_level(RDKafkaLogLevel::Warning)
        .create_with_context(context)
        .map_err(|error| plan.brokers.refused(&error))?;
    Polling { plan, consumer: &consumer, reader, hear, said: Instant::now(), silent: None }
        .run(stop)
}

struct Polling<'a> {
    plan: &'a ConsumerConfig,
    consumer: &'a BaseConsumer<RebalanceContext>,
    reader: RecordReader,
    hear: &'a OnConsumerEvent,
    /// When commits were sent last.
    said: Instant,
    /// Since when brokers owe a record and give none.
    silent: Option<Instant>,
}

impl Polling<'_> {
    fn run(mut self, stop: &AtomicBool) -> Result<DrainResult, KafkaError> {
        match &self.plan.assignment {
            Assignment::Group { .. } => {
                let subscribed = self.consumer.subscribe(&[&self.plan.topic]);
                subscribed.map_err(client_error("subscribing"))?;
            }
            Assignment::All(offsets) => {
                let endless = |&offset| offset..i64::MAX;
                let spans = (0..).zip(offsets.iter().map(endless));
                self.consumer.context().take_all(self.consumer, spans)?;
            }
            Assignment::Spans(spans) => {
                // Where nothing is to be read, nothing has to be there.
                let spans = (0..).zip(spans.iter().cloned()).filter(|(_, span)| !span.is_empty());
                self.consumer.context().take_all(self.consumer, spans)?;
            }
        }
        while !stop.load(Ordering::Acquire) && !self.is_through() {
            self.poll_for_a_while()?;
            self.consumer.context().fault()?;
            self.hand_over();
            self.commit();
            if let Some(away) = self.brokers_lost() {
                // What was read is stored first.
                self.drain()?;
                return Err(away);
            }
        }
        self.drain()
    }

    /// Takes records until it is time to hand them over, or none comes.
    fn poll_for_a_while(&mut self) -> Result<(), KafkaError> {
        let until = Instant::now() + HAND_OVER;
        let share = self.plan.memory / (BATCHES_AHEAD + 1);
        let limit = share / self.consumer.context().state().held.len().max(1);
        let limit = limit.clamp(LEAST_BYTES, BATCH_BYTES);
        let (mut taken, mut patience) = (0_u32, Duration::ZERO);
        loop {
            match self.consumer.poll(patience) {
                Some(Ok(message)) => {
                    self.silent = None;
                    self.push_record(&message, limit);
                }
                Some(Err(ClientError::PartitionEOF(partition))) => {
                    self.silent = None;
                    self.consumer.context().at_end(partition);
                }
                Some(Err(error)) if unreadable::is_unreadable(&error) => self.pass_unreadable(),
                Some(Err(error)) => self.trouble(&error)?,
                None if patience > Duration::ZERO => return Ok(()),
                // Nothing lies there just now.
                None if Instant::now() < until => {
                    patience = POLL;
                    continue;
                }
                None => return Ok(()),
            }
            // Records that lie there come sooner than the clock is read.
            patience = Duration::ZERO;
            taken += 1;
            if taken.is_multiple_of(LOOK_EVERY) && Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Takes a record; a batch of so many bytes is handed over.
    fn push_record(&mut self, message: &rdkafka::message::BorrowedMessage<'_>, limit: usize) {
        let mut state = self.consumer.context().state();
        // Of one that was given back meanwhile the next owner reads it.
        let Some(held) = state.held.get_mut(&message.partition()) else { return };
        if !held.wants(message.offset()) {
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
        if held.batch.entries.len() >= BATCH_ENTRIES || held.batch.memory() >= limit {
            held.finish_batch();
            held.hand_over(self.consumer, &self.plan.topic);
        }
    }

    /// Keeps a batch that the client cannot unpack as one dead letter, and goes on behind it. The
    /// error does not name the partition, and comes again until the batch is passed.
    fn pass_unreadable(&self) {
        for (partition, offset) in self.consumer.context().awaited() {
            match unreadable::find(&self.plan.brokers, &self.plan.topic, partition, offset) {
                Ok(None) => (),
                Ok(Some(batch)) => self.pass(partition, &batch),
                Err(error) => (self.hear)(ConsumerEvent::Warning(error.to_string())),
            }
        }
    }

    fn pass(&self, partition: i32, batch: &UnreadableBatch) {
        let next = Offset::Offset(batch.last + 1);
        let UnreadableBatch { first, last, problem } = batch;
        if let Err(error) = self.consumer.seek(&self.plan.topic, partition, next, SEEK) {
            return (self.hear)(ConsumerEvent::Warning(format!(
                "partition {partition}: cannot go on behind the batch from offset {first} to {last}: {error}"
            )));
        }
        (self.hear)(ConsumerEvent::Warning(format!(
            "partition {partition}: offsets {first} to {last} are a batch that cannot be unpacked, \
             now one dead letter: {problem}"
        )));
        let mut state = self.consumer.context().state();
        let Some(held) = state.held.get_mut(&partition) else { return };
        if held.wants(*last) {
            self.reader.unreadable(batch, &mut held.batch);
        }
    }

    /// Hands over what there is, and goes on with partitions that have room again.
    fn hand_over(&self) {
        self.consumer.context().tell_stopped();
        let mut state = self.consumer.context().state();
        for held in state.held.values_mut() {
            held.finish_batch();
            held.hand_over(self.consumer, &self.plan.topic);
            held.resume(self.consumer, &self.plan.topic);
            held.close_at_end(self.consumer, &self.plan.topic);
        }
    }

    /// Whether all that was to be read is stored.
    fn is_through(&self) -> bool {
        matches!(self.plan.assignment, Assignment::Spans(_)) && self.consumer.context().all_ended()
    }

    /// What to say of brokers that have been silent for longer than who reads to an end has
    /// patience. Partitions that wait for their owners are none of their doing.
    fn brokers_lost(&mut self) -> Option<KafkaError> {
        let bound = matches!(self.plan.assignment, Assignment::Spans(_));
        let patience = self.plan.brokers.patience().filter(|_| bound)?;
        if !self.consumer.context().awaits_brokers() {
            self.silent = None;
            return None;
        }
        let silent = self.silent.get_or_insert_with(Instant::now).elapsed();
        (silent >= patience).then(|| {
            let patience_ms = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
            let (topic, silent) = (&self.plan.topic, format_duration(patience_ms));
            let problem = format!("topic `{topic}` gave no record for {silent}");
            KafkaError::Unreachable { brokers: self.plan.brokers.addresses().to_owned(), problem }
        })
    }

    /// Commits what is acknowledged, of the partitions that are held.
    fn commit(&mut self) {
        if self.is_group() && self.said.elapsed() >= COMMIT_EVERY {
            self.said = Instant::now();
            self.consumer.context().commit_held(self.consumer, CommitMode::Async);
        }
    }

    fn is_group(&self) -> bool {
        matches!(self.plan.assignment, Assignment::Group { .. })
    }

    fn trouble(&self, error: &ClientError) -> Result<(), KafkaError> {
        use RDKafkaErrorCode as Code;
        let other_life =
            |problem: String| KafkaError::TopicMismatch { topic: self.plan.topic.clone(), problem };
        match error {
            ClientError::MessageConsumptionFatal(_) => Err(client_error("polling")(error.clone())),
            ClientError::MessageConsumption(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                Err(other_life(
                    "has no record at an offset that was to be read next: it was made anew, or its \
                     records expired; start again, which tells which"
                        .to_owned(),
                ))
            }
            ClientError::MessageConsumption(Code::LogTruncation) => Err(other_life(
                "lost records that were read (an unclean leader election): its offsets stand for \
                 other records now; stop all instances, then make a new epoch: tstar epoch new"
                    .to_owned(),
            )),
            // The context has told it already, and the client gets over it.
            _ => Ok(()),
        }
    }

    /// Waits for the owners to store what they have, commits it, and leaves.
    fn drain(self) -> Result<DrainResult, KafkaError> {
        let until = Instant::now() + self.plan.drain_timeout;
        let partitions = self.consumer.context().close_all();
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&self.plan.topic, partition);
        }
        // Else the client goes on fetching what nobody takes.
        if let Err(error) = self.consumer.pause(&list) {
            (self.hear)(ConsumerEvent::Warning(error.to_string()));
        }
        let drained = loop {
            self.consumer.context().tell_stopped();
            if self.consumer.context().all_ended() {
                break DrainResult::All;
            }
            if Instant::now() >= until {
                break DrainResult::NotInTime;
            }
            // Partitions may be taken away meanwhile.
            self.consumer.poll(POLL);
        };
        // A rebalance may be on, which the next try waits for.
        while self.is_group()
            && !self.consumer.context().commit_held(self.consumer, CommitMode::Sync)
            && Instant::now() < until
        {
            self.consumer.poll(POLL);
        }
        let all = self.consumer.context().give_up();
        self.consumer.context().fault()?;
        let all_drained = all.iter().all(|ended| *ended == Some(WorkerExit::Drained));
        Ok(if drained == DrainResult::All && all_drained {
            DrainResult::All
        } else {
            DrainResult::NotInTime
        })
    }
}
