//! Handles rebalances. The callbacks run on the polling thread.

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
    AssignedPartition, Assignment, ConsumerConfig, ConsumerEvent, MAX_QUEUED_BATCHES,
    OnConsumerEvent, RESUME_CAPACITY, positions,
};
use crate::kafka::partition_handle::{PartitionHandle, WorkerExit};
use crate::kafka::{KafkaError, client_error};
use crate::source::Batch;
use crate::telemetry::{self, OffsetStorage, PartitionGauge};

/// State of an assigned partition.
pub(super) struct PartitionState {
    partition: i32,
    handle: Arc<PartitionHandle>,
    /// `None` once no more batches are sent.
    sender: Option<mpsc::Sender<Batch>>,
    /// Incomplete batch of polled records.
    pub(super) batch: Batch,
    /// Offset after the last record of all earlier batches.
    finished: i64,
    /// Complete batches that are not sent yet.
    ready: VecDeque<Batch>,
    paused: bool,
    /// End of the range to read: no record at or past it is read.
    end_offset: i64,
    /// Every record before `end_offset` was polled.
    at_end: bool,
    commits: Commits,
    origin: Arc<str>,
    /// Metrics of the partition, removed on drop.
    _gauge: Option<PartitionGauge>,
}

impl PartitionState {
    /// Records that the brokers confirmed a commit.
    fn mark_committed(&mut self, offset: i64) {
        self.commits.mark_committed(offset);
        self.handle.progress().committed(offset);
    }

    /// Offset after the last polled record.
    fn next_offset(&self) -> i64 {
        self.batch.next_offset.map_or(self.finished, |next| next.get())
    }

    /// Completes the current batch, if it is not empty.
    pub(super) fn finish_batch(&mut self) {
        let Some(next_offset) = self.batch.next_offset else { return };
        self.finished = next_offset.get();
        let next = Batch { origin: Arc::clone(&self.origin), ..Batch::default() };
        self.ready.push_back(std::mem::replace(&mut self.batch, next));
    }

    /// Whether the record at an offset lies in the range to read. Notes when the range ends with
    /// it.
    pub(super) fn accepts(&mut self, offset: i64) -> bool {
        self.at_end |= offset + 1 >= self.end_offset;
        offset < self.end_offset
    }

    /// Whether the partition waits for a record from the brokers.
    fn is_fetching(&self) -> bool {
        self.sender.is_some() && !self.paused && !self.at_end
    }

    /// Closes the channel to the worker once it has received every batch.
    pub(super) fn close_at_end(&mut self, consumer: &BaseConsumer<RebalanceContext>, topic: &str) {
        if self.at_end && self.ready.is_empty() && self.sender.take().is_some() {
            self.pause(consumer, topic);
        }
    }

    /// Sends complete batches; pauses the partition if its channel is full.
    pub(super) fn send_ready(&mut self, consumer: &BaseConsumer<RebalanceContext>, topic: &str) {
        let Some(sender) = &self.sender else { return };
        while let Some(batch) = self.ready.pop_front() {
            match sender.try_send(batch) {
                Ok(()) => (),
                Err(TrySendError::Full(batch)) => {
                    self.ready.push_front(batch);
                    break;
                }
                // The worker failed, and has reported why: the partition stops.
                Err(TrySendError::Closed(_)) => {
                    self.ready.clear();
                    self.sender = None;
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
        // If this fails, the next batch pauses it.
        self.paused =
            self.paused || consumer.pause(&single_partition(topic, self.partition)).is_ok();
    }

    pub(super) fn resume(&mut self, consumer: &BaseConsumer<RebalanceContext>, topic: &str) {
        let Some(sender) = &self.sender else { return };
        if self.paused && self.ready.is_empty() && sender.capacity() >= RESUME_CAPACITY {
            self.paused = consumer.resume(&single_partition(topic, self.partition)).is_err();
        }
    }
}

fn single_partition(topic: &str, partition: i32) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    list
}

/// State shared by the callbacks and the polling loop.
#[derive(Default)]
pub(super) struct State {
    /// Assigned partitions, by number.
    pub(super) held: BTreeMap<i32, PartitionState>,
    /// Error that ends reading.
    fault: Option<KafkaError>,
    /// This member is about to leave, and accepts no more partitions.
    closing: bool,
}

/// The context of the client: callbacks and the state that they share with the polling loop.
pub(super) struct RebalanceContext {
    config: ConsumerConfig,
    assigned: mpsc::UnboundedSender<AssignedPartition>,
    on_event: OnConsumerEvent,
    state: Mutex<State>,
}

impl RebalanceContext {
    pub(super) fn new(
        config: ConsumerConfig,
        assigned: mpsc::UnboundedSender<AssignedPartition>,
        on_event: OnConsumerEvent,
    ) -> Self {
        Self { config, assigned, on_event, state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Takes the error of a callback, if one failed.
    pub(super) fn fault(&self) -> Result<(), KafkaError> {
        self.state().fault.take().map_or(Ok(()), Err)
    }

    /// Assigns partitions without a group: these offsets of each.
    pub(super) fn assign_all(
        &self,
        consumer: &BaseConsumer<Self>,
        spans: impl Iterator<Item = (i32, Range<i64>)> + Clone,
    ) -> Result<(), KafkaError> {
        let list = self.list(spans.clone().map(|(partition, span)| (partition, span.start)))?;
        self.start_partitions(spans);
        consumer.assign(&list).map_err(client_error("assigning partitions"))
    }

    fn list(
        &self,
        starts: impl Iterator<Item = (i32, i64)>,
    ) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in starts {
            list.add_partition_offset(&self.config.topic, partition, Offset::Offset(offset))
                .map_err(client_error("naming an offset"))?;
        }
        Ok(list)
    }

    /// Marks a partition as fully polled.
    pub(super) fn mark_at_end(&self, partition: i32) {
        if let Some(held) = self.state().held.get_mut(&partition) {
            held.at_end = true;
        }
    }

    fn start_partitions(&self, spans: impl Iterator<Item = (i32, Range<i64>)>) {
        let mut state = self.state();
        if state.closing {
            // The member leaves: the next owner of the partition starts at the same offset.
            return;
        }
        for (partition, Range { start: offset, end: end_offset }) in spans {
            let (sender, batches) = mpsc::channel(MAX_QUEUED_BATCHES);
            let handle = Arc::new(PartitionHandle::new(partition, offset));
            let origin: Arc<str> = self.config.topic.as_str().into();
            let held = PartitionState {
                partition,
                handle: Arc::clone(&handle),
                sender: Some(sender),
                batch: Batch { origin: Arc::clone(&origin), ..Batch::default() },
                finished: offset,
                ready: VecDeque::new(),
                paused: false,
                end_offset,
                at_end: offset >= end_offset,
                commits: Commits::new(offset),
                origin,
                _gauge: self.register_gauge(&handle),
            };
            state.held.insert(partition, held);
            (self.on_event)(ConsumerEvent::Assigned { partition, from: offset });
            if self.assigned.send(AssignedPartition { holding: handle, batches }).is_err() {
                state.fault = Some(KafkaError::Broken);
            }
        }
    }

    /// Registers the metrics of a partition for as long as it is assigned.
    fn register_gauge(&self, handle: &PartitionHandle) -> Option<PartitionGauge> {
        let storage = match self.config.assignment {
            Assignment::Group { .. } => OffsetStorage::ByBrokers,
            Assignment::All(_) => OffsetStorage::ByStore,
            // A replay has no consumer lag.
            Assignment::Spans(_) => return None,
        };
        telemetry::show(&self.config.topic, handle.partition(), handle.progress(), storage)
    }

    /// Closes the channels of all workers. Returns the assigned partitions.
    pub(super) fn close_all(&self) -> Vec<i32> {
        let mut state = self.state();
        state.closing = true;
        state.held.values_mut().for_each(|held| held.sender = None);
        state.held.keys().copied().collect()
    }

    /// Reports partitions whose workers have failed. Like assignments and revocations, this is
    /// reported from the polling thread, so that a partition is never reported as stopped after it
    /// was revoked.
    pub(super) fn report_stopped(&self) {
        for held in self.state().held.values() {
            self.report_if_stopped(held);
        }
    }

    fn report_if_stopped(&self, held: &PartitionState) {
        if let Some(problem) = held.handle.take_problem() {
            (self.on_event)(ConsumerEvent::Stopped { partition: held.partition, problem });
        }
    }

    pub(super) fn all_ended(&self) -> bool {
        self.state().held.values().all(|held| held.handle.has_ended().is_some())
    }

    /// Partitions that wait for a record from the brokers, each with a lower bound of its offset.
    pub(super) fn fetching(&self) -> Vec<(i32, i64)> {
        let state = self.state();
        let fetching = state.held.values().filter(|held| held.is_fetching());
        fetching.map(|held| (held.partition, held.next_offset())).collect()
    }

    /// Whether any partition waits for a record from the brokers.
    pub(super) fn is_fetching(&self) -> bool {
        self.state().held.values().any(PartitionState::is_fetching)
    }

    /// Cancels all workers, and releases their partitions. Returns how each had exited before.
    pub(super) fn cancel_all(&self) -> Vec<Option<WorkerExit>> {
        let held = std::mem::take(&mut self.state().held);
        let cancel = |held: &PartitionState| {
            let ended = held.handle.has_ended();
            held.handle.cancel();
            ended
        };
        held.values().map(cancel).collect()
    }

    /// Commits the acknowledged offsets that are not committed yet. Returns whether the client
    /// accepted the commit.
    pub(super) fn commit_held(&self, consumer: &BaseConsumer<Self>, mode: CommitMode) -> bool {
        let mut due = Vec::new();
        for held in self.state().held.values() {
            let acknowledged = held.handle.acknowledged().get();
            let is_due = match mode {
                CommitMode::Sync => !held.commits.is_committed(acknowledged),
                CommitMode::Async => held.commits.is_due(acknowledged),
            };
            if is_due {
                due.push((held.partition, acknowledged));
                held.commits
                    .lost()
                    .into_iter()
                    .for_each(|lost| self.report_lost(held.partition, lost));
            }
        }
        if due.is_empty() {
            return true;
        }
        let list = self.list(due.iter().copied());
        let Ok(list) = list else { return false };
        if let Err(error) = consumer.commit(&list, mode) {
            self.warn_not_committed(&error);
            return false;
        }
        let mut state = self.state();
        for (partition, offset) in due {
            let Some(held) = state.held.get_mut(&partition) else { continue };
            match mode {
                CommitMode::Sync => held.mark_committed(offset),
                // Statistics will confirm it.
                CommitMode::Async => held.commits.mark_sent(offset),
            }
        }
        true
    }

    /// Reports a commit that did not reach the brokers, or that they refused; it is repeated.
    fn report_lost(&self, partition: i32, offset: i64) {
        ::metrics::counter!(telemetry::COMMITS_REPEATED).increment(1);
        (self.on_event)(ConsumerEvent::Warning(format!(
            "partition {partition}: the brokers do not keep offset {offset}, which was committed; \
             committing it again"
        )));
    }

    fn warn_not_committed(&self, error: &ClientError) {
        (self.on_event)(ConsumerEvent::Warning(format!("offsets were not committed: {error}")));
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, partitions: &[i32]) -> Result<(), KafkaError> {
        let starts = positions::resolve(consumer, &self.config, partitions, &self.on_event)?;
        let list = self.list(starts.iter().copied())?;
        self.start_partitions(
            starts.into_iter().map(|(partition, offset)| (partition, offset..i64::MAX)),
        );
        let result = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(&list),
            _ => consumer.assign(&list),
        };
        result.map_err(client_error("assigning partitions"))
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, partitions: &[i32]) -> Result<(), KafkaError> {
        let mut revoked: Vec<PartitionState> = {
            let mut state = self.state();
            partitions.iter().filter_map(|partition| state.held.remove(partition)).collect()
        };
        if consumer.assignment_lost() {
            for held in &revoked {
                held.handle.cancel();
                (self.on_event)(ConsumerEvent::Lost { partition: held.partition });
            }
        } else {
            revoked.iter_mut().for_each(|held| held.sender = None);
            self.drain_revoked(consumer, &revoked);
        }
        // A pause outlives the assignment in the client: without this, the partition would stay
        // paused when it is assigned again.
        for held in revoked.iter().filter(|held| held.paused) {
            if let Err(error) =
                consumer.resume(&single_partition(&self.config.topic, held.partition))
            {
                (self.on_event)(ConsumerEvent::Warning(error.to_string()));
            }
        }
        let mut list = TopicPartitionList::new();
        for &partition in partitions {
            list.add_partition(&self.config.topic, partition);
        }
        let result = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(&list),
            _ => consumer.unassign(),
        };
        result.map_err(client_error("revoking partitions"))
    }

    /// Waits for the workers of revoked partitions to store what they have, and commits that.
    fn drain_revoked(&self, consumer: &BaseConsumer<Self>, revoked: &[PartitionState]) {
        let deadline = Instant::now() + self.config.revoke_timeout;
        let mut list = TopicPartitionList::new();
        for held in revoked {
            let ended = held.handle.wait(deadline);
            self.report_if_stopped(held);
            held.handle.cancel();
            let (partition, committed) = (held.partition, held.handle.acknowledged());
            let offset = Offset::Offset(committed.get());
            if list.add_partition_offset(&self.config.topic, partition, offset).is_ok() {
                let late = ended != Some(WorkerExit::Drained);
                (self.on_event)(ConsumerEvent::Revoked {
                    partition,
                    committed: committed.get(),
                    late,
                });
            }
        }
        if list.count() > 0
            && let Err(error) = consumer.commit(&list, CommitMode::Sync)
        {
            // The next owner of the partition reads those records again.
            (self.on_event)(ConsumerEvent::Warning(format!("offsets were not committed: {error}")));
        }
    }
}

impl ClientContext for RebalanceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // The client reports the reason of a failed asynchronous commit only in its log.
        if level as i32 <= RDKafkaLogLevel::Error as i32 || facility == "COMMITFAIL" {
            (self.on_event)(ConsumerEvent::Warning(self.config.brokers.without_secrets(message)));
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        let mut state = self.state();
        for stats in statistics::read(statistics, &self.config.topic) {
            let Some(held) = state.held.get_mut(&stats.partition) else { continue };
            if let Some(end) = stats.end {
                let end = if end.is_polled { held.next_offset() } else { end.offset };
                held.handle.progress().ends_at(end);
            }
            held.commits.observe(stats.committed);
            if let Some(committed) = stats.committed {
                held.handle.progress().committed(committed);
            }
        }
    }

    fn error(&self, error: ClientError, reason: &str) {
        // librdkafka treats the end of a partition as an error; the poll handles it.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::PartitionEOF) {
            let message = self.config.brokers.without_secrets(&format!("{error}: {reason}"));
            (self.on_event)(ConsumerEvent::Warning(message));
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
        let result = if err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assign(consumer, &partitions)
        } else {
            self.revoke(consumer, &partitions)
        };
        if let Err(fault) = result {
            self.state().fault.get_or_insert(fault);
        }
    }
}
