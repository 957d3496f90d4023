//! State that the polling thread and the worker of an assigned partition share.
//!
//! The polling thread sends batches over a bounded channel. The worker reports how far everything
//! is durable, and when it has exited. Neither waits for the other, except that the polling thread
//! waits, with a time limit, for the workers of revoked partitions.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::Notify;

use crate::model::scalar::Offset;
use crate::telemetry::Progress;

/// Why a worker asks for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Another instance fenced its writes, although this one holds the partition.
    Fenced,
    /// Its client can write no more: the end of a transaction is unclear.
    Unusable,
    /// The rows of the store are those of everything before this offset only: they were restored.
    Behind(Offset),
}

/// How a partition worker exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerExit {
    /// Every batch that it received is durable.
    Drained,
    /// It was cancelled, failed, or asked for a new one: what it had not acknowledged is discarded.
    BrokenOff,
}

/// An assigned partition.
#[derive(Debug)]
pub struct PartitionHandle {
    partition: i32,
    state: Mutex<WorkerState>,
    /// Notified when the worker has exited: the polling thread waits for that.
    exited: Condvar,
    /// Notified when the worker is cancelled, which its task waits for.
    on_cancel: Notify,
    /// The partition is read from its first offset on whatever position the store has.
    is_settled: bool,
    /// For metrics and status only; no decision depends on it.
    progress: Arc<Progress>,
}

#[derive(Debug)]
struct WorkerState {
    /// Next offset: everything before it is durable.
    acknowledged: Offset,
    ended: Option<WorkerExit>,
    is_cancelled: bool,
    /// Why the worker is to be replaced by a new one.
    restart: Option<Restart>,
    /// Why the worker failed, until it is reported.
    problem: Option<String>,
}

impl PartitionHandle {
    /// Handle of a partition that is read from `first_offset` on.
    #[must_use]
    pub fn new(partition: i32, first_offset: i64) -> Self {
        let acknowledged = Offset(first_offset);
        let (ended, is_cancelled, restart, problem) = (None, false, None, None);
        Self {
            partition,
            state: WorkerState { acknowledged, ended, is_cancelled, restart, problem }.into(),
            exited: Condvar::new(),
            on_cancel: Notify::new(),
            is_settled: false,
            progress: Arc::new(Progress::new(first_offset)),
        }
    }

    /// Reads from there on whatever position the store has.
    #[must_use]
    pub fn settled(self) -> Self {
        Self { is_settled: true, ..self }
    }

    /// Whether the partition is read from its first offset on whatever position the store has.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Partition number, from 0.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// Progress, for metrics and status.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The offset that may be committed.
    #[must_use]
    pub fn acknowledged(&self) -> Offset {
        self.state().acknowledged
    }

    /// Reports that the worker has made everything before an offset durable.
    pub fn acknowledge(&self, next_offset: Offset) {
        self.state().acknowledged = next_offset;
    }

    /// Reports that the worker failed: the partition stops for as long as it is assigned.
    pub fn stop(&self, problem: String) {
        self.progress.stop();
        self.state().problem = Some(problem);
    }

    /// Asks for a new worker. This one does nothing more, so that a member that drains, and starts
    /// none, does not wait for it.
    pub fn restart(&self, why: Restart) {
        self.state().restart = Some(why);
        self.end(WorkerExit::BrokenOff);
    }

    /// Why the worker has asked for a new one, if it has.
    #[must_use]
    pub(crate) fn to_restart(&self) -> Option<Restart> {
        self.state().restart
    }

    /// Takes the reason why the worker failed; `None` once it was taken.
    #[must_use]
    pub(crate) fn take_problem(&self) -> Option<String> {
        self.state().problem.take()
    }

    /// Reports that the worker has exited.
    pub fn end(&self, ended: WorkerExit) {
        self.state().ended = Some(ended);
        self.exited.notify_all();
    }

    /// How the worker exited, if it has.
    #[must_use]
    pub fn has_ended(&self) -> Option<WorkerExit> {
        self.state().ended
    }

    /// Waits for the worker to exit; `None` if it has not by the deadline. Blocks.
    #[must_use]
    pub fn wait(&self, deadline: Instant) -> Option<WorkerExit> {
        let mut state = self.state();
        while state.ended.is_none() {
            let remaining = deadline.checked_duration_since(Instant::now())?;
            let woken = self.exited.wait_timeout(state, remaining);
            state = woken.expect("no holder of the lock panics").0;
        }
        state.ended
    }

    /// Cancels the worker: another member may own the partition already.
    pub(crate) fn cancel(&self) {
        self.state().is_cancelled = true;
        self.on_cancel.notify_waiters();
    }

    /// Waits until the worker is cancelled.
    pub async fn cancelled(&self) {
        // Begins to wait before it looks.
        let cancelled = self.on_cancel.notified();
        let is_cancelled = self.state().is_cancelled;
        if !is_cancelled {
            cancelled.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn nothing_waits_for_a_worker_that_asks_for_a_new_one() {
        let handle = PartitionHandle::new(3, 70);
        handle.restart(Restart::Behind(Offset(50)));
        let long = Instant::now() + Duration::from_secs(60);
        assert_eq!(handle.wait(long), Some(WorkerExit::BrokenOff));
        assert_eq!(handle.to_restart(), Some(Restart::Behind(Offset(50))));
    }

    #[test]
    fn the_wait_for_a_worker_ends_with_it_or_at_the_deadline() {
        let handle = PartitionHandle::new(3, 70);
        assert_eq!(handle.wait(Instant::now() + Duration::from_millis(5)), None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                handle.acknowledge(Offset(80));
                handle.end(WorkerExit::Drained);
            });
            let long = Instant::now() + Duration::from_secs(60);
            assert_eq!(handle.wait(long), Some(WorkerExit::Drained));
        });
        assert_eq!(
            (handle.acknowledged(), handle.has_ended()),
            (Offset(80), Some(WorkerExit::Drained))
        );
    }

    #[test]
    fn a_worker_that_failed_is_reported_once() {
        let handle = PartitionHandle::new(3, 70);
        assert_eq!((handle.partition(), handle.take_problem()), (3, None));
        handle.stop("the store is full".to_owned());
        assert_eq!(handle.take_problem().as_deref(), Some("the store is full"));
        assert_eq!(handle.take_problem(), None);
        assert_eq!((handle.has_ended(), handle.to_restart()), (None, None));
        assert!(!handle.is_settled() && handle.settled().is_settled());
    }

    #[test]
    fn a_worker_waits_until_it_is_cancelled() {
        let handle = PartitionHandle::new(3, 70);
        assert_eq!(handle.cancelled().now_or_never(), None);
        handle.cancel();
        assert_eq!(handle.cancelled().now_or_never(), Some(()));
    }
}
