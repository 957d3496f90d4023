//! Handles rebalances. The callbacks run on the polling thread.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rdkafka::error::KafkaError as ClientError;
use rdkafka_extra::SharedQueue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::GroupClient;
use super::commits::Commits;
use super::partition_state::PartitionState;
use super::poller::COMMIT_TIMEOUT;
use super::positions::Start;
use super::statistics::PartitionStats;
use super::{
    AssignedPartition, Assignment, ConsumerConfig, ConsumerEvent, MAX_QUEUED_BATCHES,
    OnConsumerEvent, commits, positions,
};
use crate::kafka::partition_handle::{PartitionHandle, Restart, WorkerExit};
use crate::kafka::raw_batch::RawBatch;
use crate::kafka::{KafkaError, client_error};
use crate::model::scalar::Offset;
use crate::telemetry::{self, OffsetStorage, PartitionGauge};

/// State shared by the callbacks and the polling loop.
#[derive(Default)]
pub(super) struct ConsumerState {
    /// Assigned partitions, by number.
    pub(super) held: BTreeMap<i32, PartitionState>,
    /// The highest offset of each partition that this client has committed, or that its statistics
    /// have shown.
    highest: BTreeMap<i32, i64>,
    /// Error that ends reading.
    fault: Option<KafkaError>,
    /// This member is about to leave, and accepts no more partitions.
    closing: bool,
    /// Since then, a partition was taken away before all that was sent to its worker was durable
    /// and committed.
    is_incomplete: bool,
}

impl ConsumerState {
    fn note_commit(&mut self, partition: i32, offset: i64) {
        let highest = self.highest.entry(partition).or_insert(offset);
        *highest = offset.max(*highest);
    }
}

/// How a partition is read from now on.
struct PartitionStart {
    partition: i32,
    /// The offsets to read.
    span: Range<i64>,
    /// Whatever position the store has.
    is_settled: bool,
    /// The group's offset if the rows are behind it.
    catches_up: Option<i64>,
}

impl PartitionStart {
    fn settled((partition, span): (i32, Range<i64>)) -> Self {
        Self { partition, span, is_settled: true, catches_up: None }
    }
}

/// What is reported of a worker that starts again with the table topic.
fn restart_text(why: Restart) -> &'static str {
    match why {
        Restart::Unusable => {
            "it is unclear whether the brokers committed a transaction of the table topic; \
             starting again from the last commit"
        }
        _ => {
            "another instance began to write the table topic; starting again. If this repeats, \
             two stores write one table topic: read their samples from topics of their own"
        }
    }
}

/// The context of the client: callbacks and the state that they share with the polling loop.
pub struct RebalanceContext {
    pub(super) config: ConsumerConfig,
    assigned: mpsc::UnboundedSender<AssignedPartition>,
    pub(super) on_event: OnConsumerEvent,
    state: Mutex<ConsumerState>,
    /// Gets the records of assigned partitions.
    pub(super) queue: OnceLock<SharedQueue>,
    /// Set once this member is to stop.
    stop: Arc<AtomicBool>,
}

impl RebalanceContext {
    /// A context that passes assigned partitions to `assigned`, until `stop` is set.
    #[must_use]
    pub fn new(
        config: ConsumerConfig,
        assigned: mpsc::UnboundedSender<AssignedPartition>,
        on_event: OnConsumerEvent,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let (state, queue) = (Mutex::default(), OnceLock::new());
        Self { config, assigned, on_event, state, queue, stop }
    }

    /// Whether this member is to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn warn(&self, what: String) {
        (self.on_event)(ConsumerEvent::Warning(what));
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ConsumerState> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Takes the error of a callback, if one failed.
    pub(super) fn fault(&self) -> Result<(), KafkaError> {
        self.state().fault.take().map_or(Ok(()), Err)
    }

    /// Assigns partitions without a group: these offsets of each.
    pub(super) fn assign_all(
        &self,
        client: &impl GroupClient,
        spans: impl Iterator<Item = (i32, Range<i64>)> + Clone,
    ) -> Result<(), KafkaError> {
        let starts: Vec<_> =
            spans.clone().map(|(partition, span)| (partition, span.start)).collect();
        self.start_partitions(spans.map(PartitionStart::settled));
        client.assign(&starts).map_err(client_error("assigning partitions"))
    }

    /// Marks a partition as fully polled.
    pub(super) fn mark_at_end(&self, partition: i32) {
        if let Some(held) = self.state().held.get_mut(&partition) {
            held.at_end = true;
        }
    }

    fn start_partitions(&self, starts: impl Iterator<Item = PartitionStart>) {
        let mut state = self.state();
        for start in starts {
            let PartitionStart { partition, span, is_settled, catches_up } = start;
            let Range { start: offset, end: end_offset } = span;
            let (sender, batches) = mpsc::channel(MAX_QUEUED_BATCHES);
            let handle = PartitionHandle::new(partition, offset);
            let handle = Arc::new(if is_settled { handle.settled() } else { handle });
            let held = PartitionState {
                partition,
                handle: Arc::clone(&handle),
                sender: Some(sender),
                batch: RawBatch::of_partition(partition),
                finished: offset,
                ready: VecDeque::new(),
                paused: false,
                end_offset,
                at_end: offset >= end_offset,
                commits: Commits::new(
                    catches_up.unwrap_or(offset),
                    state.highest.get(&partition).copied(),
                ),
                catches_up,
                _gauge: self.register_gauge(&handle),
            };
            state.held.insert(partition, held);
            (self.on_event)(ConsumerEvent::Assigned { partition, from: offset });
            if let Some(until) = catches_up {
                (self.on_event)(ConsumerEvent::Behind { partition, from: offset, until });
            }
            if self.assigned.send(AssignedPartition { holding: handle, batches }).is_err() {
                state.fault = Some(KafkaError::Broken);
            }
        }
    }

    /// The partitions whose workers ask to be replaced, and why.
    pub(super) fn to_restart(&self) -> Vec<(i32, Restart)> {
        let state = self.state();
        let why = |held: &PartitionState| Some((held.partition, held.handle.to_restart()?));
        state.held.values().filter_map(why).collect()
    }

    /// Replaces the worker of a partition by one that reads on from an offset. Does nothing if the
    /// client cannot move there, or brokers do not answer: it is tried again.
    ///
    /// # Errors
    /// The records from there on have expired.
    pub(super) fn restart(
        &self,
        client: &impl GroupClient,
        (partition, why): (i32, Restart),
    ) -> Result<(), KafkaError> {
        let warn = |what: String| {
            self.warn(format!("partition {partition}: {what}"));
        };
        let (acknowledged, to_commit) = {
            let state = self.state();
            let Some(held) = state.held.get(&partition) else { return Ok(()) };
            (held.handle.acknowledged().get(), held.to_commit())
        };
        let resumed = match why {
            Restart::Fenced | Restart::Unusable => Ok(acknowledged),
            Restart::Behind(Offset(behind)) => {
                let offsets = (partition, behind, to_commit);
                positions::resume_at(client, &self.config, offsets, &self.on_event)?
            }
        };
        let moved = resumed.and_then(|offset| client.seek(partition, offset).map(|()| offset));
        let offset = match moved {
            Ok(offset) => offset,
            Err(error) => {
                warn(error.to_string());
                return Ok(());
            }
        };
        let Some(mut held) = self.state().held.remove(&partition) else { return Ok(()) };
        held.handle.cancel();
        held.unpause(client);
        let span = offset..held.end_offset;
        let start = match why {
            Restart::Fenced | Restart::Unusable => {
                warn(restart_text(why).to_owned());
                PartitionStart { partition, span, is_settled: false, catches_up: held.catches_up }
            }
            Restart::Behind(_) => {
                let catches_up = (offset < to_commit).then_some(to_commit);
                PartitionStart { partition, span, is_settled: true, catches_up }
            }
        };
        drop(held);
        self.start_partitions(std::iter::once(start));
        Ok(())
    }

    /// Reports partitions whose rows have caught up with the group's offset.
    pub(super) fn report_caught_up(&self) {
        let mut state = self.state();
        for held in state.held.values_mut().filter_map(|held| held.note_caught_up().then_some(held))
        {
            (self.on_event)(ConsumerEvent::CaughtUp { partition: held.partition });
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

    /// Closes the channels of all workers, and accepts no more partitions. Returns those assigned.
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

    /// Whether a partition was taken away while this member was about to leave, before everything
    /// that was sent to its worker was durable and committed.
    pub(super) fn is_incomplete(&self) -> bool {
        self.state().is_incomplete
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

    /// Commits the acknowledged offsets that are not committed yet. With a deadline, waits for the
    /// brokers until then. Returns whether the client, or the brokers, accepted the commit.
    pub(super) fn commit_held(&self, client: &impl GroupClient, deadline: Option<Instant>) -> bool {
        let mut due = Vec::new();
        for held in self.state().held.values() {
            let acknowledged = held.to_commit();
            let is_due = match deadline {
                Some(_) => !held.commits.is_committed(acknowledged),
                None => held.commits.is_due(acknowledged),
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
        let committed = match deadline {
            Some(deadline) => client.commit_by(&due, deadline),
            None => client.commit_later(&due),
        };
        if let Err(error) = committed {
            self.warn_not_committed(&error);
            return false;
        }
        let mut state = self.state();
        for (partition, offset) in due {
            state.note_commit(partition, offset);
            let Some(held) = state.held.get_mut(&partition) else { continue };
            match deadline {
                Some(_) => held.mark_committed(offset),
                // Statistics will confirm it.
                None => held.commits.mark_sent(offset),
            }
        }
        true
    }

    /// Reports a commit that did not reach the brokers, or that they refused; it is repeated.
    fn report_lost(&self, partition: i32, offset: i64) {
        ::metrics::counter!(telemetry::COMMITS_REPEATED).increment(1);
        self.warn(format!(
            "partition {partition}: the brokers do not keep offset {offset}, which was committed; \
             committing it again"
        ));
    }

    fn warn_not_committed(&self, error: &ClientError) {
        self.warn(format!("offsets were not committed: {}", commits::failure_text(error)));
    }

    /// Processes a rebalance: partitions are assigned to this member, or else revoked.
    pub fn rebalanced(&self, client: &impl GroupClient, is_assigned: bool, partitions: &[i32]) {
        ::metrics::counter!(telemetry::REBALANCES).increment(1);
        let result = if is_assigned {
            self.assign(client, partitions)
        } else {
            self.revoke(client, partitions)
        };
        if let Err(fault) = result {
            self.state().fault.get_or_insert(fault);
            // Without an answer, librdkafka would never close.
            let answered = match is_assigned {
                true => client.answer_assignment(&[]),
                false => client.answer_revocation(&[]),
            };
            answered.unwrap_or_else(|error| self.warn(error.to_string()));
        }
    }

    fn assign(&self, client: &impl GroupClient, partitions: &[i32]) -> Result<(), KafkaError> {
        // A member that leaves takes none of them, but has to answer: librdkafka closes only then.
        // It sends no request, which would fail: a client that is being closed gets no offsets.
        let partitions = if self.state().closing { &[] } else { partitions };
        let starts = match partitions {
            [] => Vec::new(),
            _ => match positions::resolve(client, &self.config, partitions, &self.on_event) {
                Err(KafkaError::Unreachable { .. }) if self.is_stopping() => Vec::new(),
                starts => starts?,
            },
        };
        let start = |&(partition, ref start): &(i32, Start)| PartitionStart {
            partition,
            span: start.offset..i64::MAX,
            is_settled: start.is_chosen,
            catches_up: None,
        };
        self.start_partitions(starts.iter().map(start));
        let starts: Vec<_> =
            starts.into_iter().map(|(partition, start)| (partition, start.offset)).collect();
        client.answer_assignment(&starts).map_err(client_error("assigning partitions"))
    }

    fn revoke(&self, client: &impl GroupClient, partitions: &[i32]) -> Result<(), KafkaError> {
        let mut revoked: Vec<PartitionState> = {
            let mut state = self.state();
            partitions.iter().filter_map(|partition| state.held.remove(partition)).collect()
        };
        let is_complete = if client.is_assignment_lost() {
            for held in &revoked {
                held.handle.cancel();
                (self.on_event)(ConsumerEvent::Lost { partition: held.partition });
            }
            revoked.iter().all(PartitionState::is_complete)
        } else {
            revoked.iter_mut().for_each(|held| held.sender = None);
            self.drain_revoked(client, &revoked)
        };
        {
            let mut state = self.state();
            state.is_incomplete |= state.closing && !is_complete;
        }
        // A pause outlives the assignment in the client: without this, the partition would stay
        // paused when it is assigned again.
        for held in revoked.iter().filter(|held| held.paused) {
            if let Err(error) = client.resume(&[held.partition]) {
                self.warn(error.to_string());
            }
        }
        // Without those that were not taken.
        let partitions: Vec<i32> = revoked.iter().map(|held| held.partition).collect();
        client.answer_revocation(&partitions).map_err(client_error("revoking partitions"))
    }

    /// Waits for the workers of revoked partitions to store what they have, and commits that.
    /// Returns whether everything that was sent to them is durable and committed.
    fn drain_revoked(&self, client: &impl GroupClient, revoked: &[PartitionState]) -> bool {
        let deadline = Instant::now() + self.config.member.revoke_timeout;
        let (mut offsets, mut all_drained) = (Vec::with_capacity(revoked.len()), true);
        for held in revoked {
            let ended = client.wait(&held.handle, deadline);
            self.report_if_stopped(held);
            held.handle.cancel();
            let (partition, committed) = (held.partition, held.to_commit());
            offsets.push((partition, committed));
            let late = ended != Some(WorkerExit::Drained);
            all_drained &= !late;
            (self.on_event)(ConsumerEvent::Revoked { partition, committed, late });
        }
        offsets.iter().for_each(|&(partition, offset)| {
            self.state().note_commit(partition, offset);
        });
        let commit_by = deadline.max(Instant::now() + COMMIT_TIMEOUT);
        if !offsets.is_empty()
            && let Err(error) = client.commit_by(&offsets, commit_by)
        {
            // The next owner of the partition reads those records again.
            self.warn_not_committed(&error);
            return false;
        }
        all_drained
    }

    /// Processes statistics of partitions.
    pub fn observe(&self, statistics: Vec<PartitionStats>) {
        let mut state = self.state();
        for stats in statistics {
            if let Some(committed) = stats.committed {
                state.note_commit(stats.partition, committed);
            }
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
}

#[cfg(test)]
#[path = "rebalance_tests.rs"]
mod tests;
