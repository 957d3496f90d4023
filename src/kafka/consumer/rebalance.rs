//! Membership: what happens when partitions come and go. Its callbacks run on the polling thread.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::commits::Commits;
use super::statistics;
use super::{
    AssignedPartition, Assignment, BATCHES_AHEAD, BATCHES_LOW, ConsumerConfig, ConsumerEvent,
    OnConsumerEvent, positions,
};
use crate::kafka::partition_handle::{PartitionHandle, WorkerExit};
use crate::kafka::{KafkaError, client_error};
use crate::source::Batch;
use crate::telemetry::{self, OffsetStorage, PartitionGauge};

/// A partition that is held.
pub(super) struct PartitionState {
    partition: i32,
    holding: Arc<PartitionHandle>,
    /// `None` once no more is handed over.
    to: Option<mpsc::Sender<Batch>>,
    /// What was polled and is not full yet.
    pub(super) batch: Batch,
    /// Offset after the last record of the batches before it.
    finished: i64,
    /// What is to be handed over.
    ready: VecDeque<Batch>,
    paused: bool,
    /// No record at or past it is read.
    upto: i64,
    /// Every record before `upto` was polled.
    at_end: bool,
    commits: Commits,
    origin: Arc<str>,
    /// Goes with it: who holds it next shows it.
    _shown: Option<PartitionGauge>,
}

impl PartitionState {
    /// The brokers keep an offset.
    fn keep(&mut self, offset: i64) {
        self.commits.keep(offset);
        self.holding.progress().committed(offset);
    }

    /// Offset after the last record that was polled.
    fn polled(&self) -> i64 {
        self.batch.next_offset.unwrap_or(self.finished)
    }

    /// What was polled is one batch.
    pub(super) fn finish_batch(&mut self) {
        let Some(next_offset) = self.batch.next_offset else { return };
        self.finished = next_offset;
        let next = Batch { origin: Arc::clone(&self.origin), ..Batch::default() };
        self.ready.push_back(std::mem::replace(&mut self.batch, next));
    }

    /// Whether the record at an offset is to be read.
    pub(super) fn wants(&mut self, offset: i64) -> bool {
        self.at_end |= offset + 1 >= self.upto;
        offset < self.upto
    }

    /// Whether brokers are to give the next record of it.
    fn is_fetching(&self) -> bool {
        self.to.is_some() && !self.paused && !self.at_end
    }

    /// Ends what the owner reads, once it was handed all of it.
    pub(super) fn close_at_end(&mut self, consumer: &BaseConsumer<RebalanceContext>, topic: &str) {
        if self.at_end && self.ready.is_empty() && self.to.take().is_some() {
            self.pause(consumer, topic);
        }
    }

    /// Hands over what fits; pauses the partition where not all does.
    pub(super) fn hand_over(&mut self, consumer: &BaseConsumer<RebalanceContext>, topic: &str) {
        let Some(to) = &self.to else { return };
        while let Some(batch) = self.ready.pop_front() {
            match to.try_send(batch) {
                Ok(()) => (),
                Err(TrySendError::Full(batch)) => {
                    self.ready.push_front(batch);
                    break;
                }
                // The owner has failed, and said so: the partition stands still.
                Err(TrySendError::Closed(_)) => {
                    self.ready.clear();
                    self.to = None;
                    self.pause(consumer, topic);
                    return;
                }
            }
        }
        if !self.ready.is_empty() {
            self.pause(consumer, topic);
        }
    }

    fn pause(&mut self, consumer: &BaseConsumer<RebalanceContext>, topic: &str) {
        // Where this fails it is tried again with the next batch.
        self.paused =
            self.paused || consumer.pause(&single_partition(topic, self.partition)).is_ok();
    }

    pub(super) fn resume(&mut self, consumer: &BaseConsumer<RebalanceContext>, topic: &str) {
        let Some(to) = &self.to else { return };
        if self.paused && self.ready.is_empty() && to.capacity() >= BATCHES_LOW {
            self.paused = consumer.resume(&single_partition(topic, self.partition)).is_err();
        }
    }
}

fn single_partition(topic: &str, partition: i32) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    list
}

/// What the callbacks and the polling loop share; one thread has it at a time.
#[derive(Default)]
pub(super) struct State {
    /// By partition.
    pub(super) held: BTreeMap<i32, PartitionState>,
    /// Why reading cannot go on.
    fault: Option<KafkaError>,
    /// No more is taken: this member is about to leave.
    closing: bool,
}

/// The context of the client.
pub(super) struct RebalanceContext {
    plan: ConsumerConfig,
    handed: mpsc::UnboundedSender<AssignedPartition>,
    hear: OnConsumerEvent,
    state: Mutex<State>,
}

impl RebalanceContext {
    pub(super) fn new(
        plan: ConsumerConfig,
        handed: mpsc::UnboundedSender<AssignedPartition>,
        hear: OnConsumerEvent,
    ) -> Self {
        Self { plan, handed, hear, state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// The fault that a callback met.
    pub(super) fn fault(&self) -> Result<(), KafkaError> {
        self.state().fault.take().map_or(Ok(()), Err)
    }

    /// Takes partitions without a group: these offsets of each.
    pub(super) fn take_all(
        &self,
        consumer: &BaseConsumer<Self>,
        spans: impl Iterator<Item = (i32, Range<i64>)> + Clone,
    ) -> Result<(), KafkaError> {
        let list = self.list(spans.clone().map(|(partition, span)| (partition, span.start)))?;
        self.hold(spans);
        consumer.assign(&list).map_err(client_error("taking the partitions"))
    }

    fn list(
        &self,
        starts: impl Iterator<Item = (i32, i64)>,
    ) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in starts {
            list.add_partition_offset(&self.plan.topic, partition, Offset::Offset(offset))
                .map_err(client_error("naming an offset"))?;
        }
        Ok(list)
    }

    /// Every record that a partition has was polled.
    pub(super) fn at_end(&self, partition: i32) {
        if let Some(held) = self.state().held.get_mut(&partition) {
            held.at_end = true;
        }
    }

    fn hold(&self, spans: impl Iterator<Item = (i32, Range<i64>)>) {
        let mut state = self.state();
        if state.closing {
            // Nobody would read it to its end; who gets it next begins where this one would have.
            return;
        }
        for (partition, Range { start: offset, end: upto }) in spans {
            let (to, batches) = mpsc::channel(BATCHES_AHEAD);
            let holding = Arc::new(PartitionHandle::new(partition, offset));
            let origin: Arc<str> = self.plan.topic.as_str().into();
            let held = PartitionState {
                partition,
                holding: Arc::clone(&holding),
                to: Some(to),
                batch: Batch { origin: Arc::clone(&origin), ..Batch::default() },
                finished: offset,
                ready: VecDeque::new(),
                paused: false,
                upto,
                at_end: offset >= upto,
                commits: Commits::new(offset),
                origin,
                _shown: self.show(&holding),
            };
            state.held.insert(partition, held);
            (self.hear)(ConsumerEvent::Assigned { partition, from: offset });
            if self.handed.send(AssignedPartition { holding, batches }).is_err() {
                state.fault = Some(KafkaError::Broken);
            }
        }
    }

    /// Shows how far a partition is read, until it is held no more.
    fn show(&self, holding: &PartitionHandle) -> Option<PartitionGauge> {
        let kept = match self.plan.assignment {
            Assignment::Group { .. } => OffsetStorage::ByBrokers,
            Assignment::All(_) => OffsetStorage::ByStore,
            // Whoever reads once more is nobody's lag.
            Assignment::Spans(_) => return None,
        };
        telemetry::show(&self.plan.topic, holding.partition(), holding.progress(), kept)
    }

    /// Hands no more over. Returns the partitions that are held.
    pub(super) fn close_all(&self) -> Vec<i32> {
        let mut state = self.state();
        state.closing = true;
        state.held.values_mut().for_each(|held| held.to = None);
        state.held.keys().copied().collect()
    }

    /// Tells of partitions whose owners have failed. It is told from here, as is what is held and
    /// what is given back: nobody hears that a partition stopped after it went elsewhere.
    pub(super) fn tell_stopped(&self) {
        for held in self.state().held.values() {
            self.tell_if_stopped(held);
        }
    }

    fn tell_if_stopped(&self, held: &PartitionState) {
        if let Some(problem) = held.holding.take_problem() {
            (self.hear)(ConsumerEvent::Stopped { partition: held.partition, problem });
        }
    }

    pub(super) fn all_ended(&self) -> bool {
        self.state().held.values().all(|held| held.holding.has_ended().is_some())
    }

    /// The partitions whose next record the brokers are to give, and its offset at the least.
    pub(super) fn awaited(&self) -> Vec<(i32, i64)> {
        let state = self.state();
        let awaited = state.held.values().filter(|held| held.is_fetching());
        awaited.map(|held| (held.partition, held.polled())).collect()
    }

    /// Whether brokers are to give the next record of any partition.
    pub(super) fn awaits_brokers(&self) -> bool {
        self.state().held.values().any(PartitionState::is_fetching)
    }

    /// Calls off every owner that has not ended. Returns how each ended before.
    pub(super) fn give_up(&self) -> Vec<Option<WorkerExit>> {
        let held = std::mem::take(&mut self.state().held);
        let give_up = |held: &PartitionState| {
            let ended = held.holding.has_ended();
            held.holding.cancel();
            ended
        };
        held.values().map(give_up).collect()
    }

    /// Commits what is acknowledged beyond what was committed. Tells whether the client took it.
    pub(super) fn commit_held(&self, consumer: &BaseConsumer<Self>, mode: CommitMode) -> bool {
        let mut news = Vec::new();
        for held in self.state().held.values() {
            let acknowledged = held.holding.acknowledged();
            let is_news = match mode {
                CommitMode::Sync => !held.commits.is_kept(acknowledged),
                CommitMode::Async => held.commits.is_due(acknowledged),
            };
            if is_news {
                news.push((held.partition, acknowledged));
                held.commits.lost().into_iter().for_each(|lost| self.lost(held.partition, lost));
            }
        }
        if news.is_empty() {
            return true;
        }
        let list = self.list(news.iter().copied());
        let Ok(list) = list else { return false };
        if let Err(error) = consumer.commit(&list, mode) {
            self.not_committed(&error);
            return false;
        }
        let mut state = self.state();
        for (partition, offset) in news {
            let Some(held) = state.held.get_mut(&partition) else { continue };
            match mode {
                CommitMode::Sync => held.keep(offset),
                // Statistics will show it.
                CommitMode::Async => held.commits.send(offset),
            }
        }
        true
    }

    /// A commit has not come to the brokers, or they refused it: it is made again.
    fn lost(&self, partition: i32, offset: i64) {
        ::metrics::counter!(telemetry::COMMITS_REPEATED).increment(1);
        (self.hear)(ConsumerEvent::Warning(format!(
            "partition {partition}: the brokers do not keep offset {offset}, which was committed; \
             committing again"
        )));
    }

    fn not_committed(&self, error: &ClientError) {
        (self.hear)(ConsumerEvent::Warning(format!("offsets were not committed: {error}")));
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, partitions: &[i32]) -> Result<(), KafkaError> {
        let starts = positions::resolve(consumer, &self.plan, partitions, &self.hear)?;
        let list = self.list(starts.iter().copied())?;
        self.hold(starts.into_iter().map(|(partition, offset)| (partition, offset..i64::MAX)));
        let assigned = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(&list),
            _ => consumer.assign(&list),
        };
        assigned.map_err(client_error("taking partitions"))
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, partitions: &[i32]) -> Result<(), KafkaError> {
        let mut going: Vec<PartitionState> = {
            let mut state = self.state();
            partitions.iter().filter_map(|partition| state.held.remove(partition)).collect()
        };
        if consumer.assignment_lost() {
            for held in &going {
                held.holding.cancel();
                (self.hear)(ConsumerEvent::Lost { partition: held.partition });
            }
        } else {
            going.iter_mut().for_each(|held| held.to = None);
            self.give_back(consumer, &going);
        }
        // The client keeps a pause beyond the assignment: here again, it would stay paused.
        for held in going.iter().filter(|held| held.paused) {
            if let Err(error) = consumer.resume(&single_partition(&self.plan.topic, held.partition))
            {
                (self.hear)(ConsumerEvent::Warning(error.to_string()));
            }
        }
        let mut list = TopicPartitionList::new();
        for &partition in partitions {
            list.add_partition(&self.plan.topic, partition);
        }
        let given = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(&list),
            _ => consumer.unassign(),
        };
        given.map_err(client_error("giving partitions back"))
    }

    /// Waits for owners to store what they have, and commits that.
    fn give_back(&self, consumer: &BaseConsumer<Self>, going: &[PartitionState]) {
        let until = Instant::now() + self.plan.revoke_timeout;
        let mut list = TopicPartitionList::new();
        for held in going {
            let ended = held.holding.wait(until);
            self.tell_if_stopped(held);
            held.holding.cancel();
            let (partition, committed) = (held.partition, held.holding.acknowledged());
            let offset = Offset::Offset(committed);
            if list.add_partition_offset(&self.plan.topic, partition, offset).is_ok() {
                let late = ended != Some(WorkerExit::Drained);
                (self.hear)(ConsumerEvent::Revoked { partition, committed, late });
            }
        }
        if list.count() > 0
            && let Err(error) = consumer.commit(&list, CommitMode::Sync)
        {
            // The next owner reads again what it brings.
            (self.hear)(ConsumerEvent::Warning(format!("offsets were not committed: {error}")));
        }
    }
}

impl ClientContext for RebalanceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // The client has no other way to tell why a commit failed that nobody waited for.
        if level as i32 <= RDKafkaLogLevel::Error as i32 || facility == "COMMITFAIL" {
            (self.hear)(ConsumerEvent::Warning(self.plan.brokers.without_secrets(message)));
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        let mut state = self.state();
        for known in statistics::read(statistics, &self.plan.topic) {
            let Some(held) = state.held.get_mut(&known.partition) else { continue };
            if let Some(end) = known.end {
                let end = if end.is_polled { held.polled() } else { end.offset };
                held.holding.progress().ends_at(end);
            }
            held.commits.observe(known.committed);
            if let Some(committed) = known.committed {
                held.holding.progress().committed(committed);
            }
        }
    }

    fn error(&self, error: ClientError, reason: &str) {
        // The end of a partition is one to us, and is told by the poll.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::PartitionEOF) {
            let said = self.plan.brokers.without_secrets(&format!("{error}: {reason}"));
            (self.hear)(ConsumerEvent::Warning(said));
        }
    }
}

impl ConsumerContext for RebalanceContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        err: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let partitions: Vec<i32> = list.elements().iter().map(|it| it.partition()).collect();
        ::metrics::counter!(telemetry::REBALANCES).increment(1);
        let done = if err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, &partitions)
        } else {
            self.revoke(consumer, &partitions)
        };
        if let Err(fault) = done {
            self.state().fault.get_or_insert(fault);
        }
    }
}
