//! One partition while it is held: what its owner and the thread that polls tell each other.
//!
//! The thread hands batches over a bounded channel. The owner says how far everything is durable,
//! and when it has ended. Neither waits for the other, but where a partition is given back: then
//! the thread waits for the owner, so long as it may.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::watch;

use crate::telemetry::Progress;

/// How an owner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerExit {
    /// Everything that it was handed is durable.
    Drained,
    /// It was called off, or failed: what it had not acknowledged is lost to it.
    BrokenOff,
}

/// One partition while this process holds it.
#[derive(Debug)]
pub struct PartitionHandle {
    partition: i32,
    /// Offset after the last record before which everything is durable.
    acknowledged: AtomicI64,
    ended: Mutex<Option<WorkerExit>>,
    /// Told when `ended` is set.
    told: Condvar,
    called_off: watch::Sender<bool>,
    /// Why the owner failed, until it is told.
    problem: Mutex<Option<String>>,
    /// For those who look on; nothing is decided by it.
    progress: Arc<Progress>,
}

impl PartitionHandle {
    /// A partition that is read from an offset on.
    #[must_use]
    pub fn new(partition: i32, first_offset: i64) -> Self {
        Self {
            partition,
            acknowledged: AtomicI64::new(first_offset),
            ended: Mutex::new(None),
            told: Condvar::new(),
            called_off: watch::Sender::new(false),
            problem: Mutex::default(),
            progress: Arc::new(Progress::new(first_offset)),
        }
    }

    /// Which partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// How far it is read, for those who look on.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The offset that may be committed.
    #[must_use]
    pub fn acknowledged(&self) -> i64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// The owner has made everything before an offset durable.
    pub fn acknowledge(&self, next_offset: i64) {
        self.acknowledged.store(next_offset, Ordering::Release);
    }

    /// The owner has failed: nothing more of the partition is read while this process holds it.
    pub fn stop(&self, problem: String) {
        self.progress.stop();
        *self.problem() = Some(problem);
    }

    /// Why the owner failed, once.
    #[must_use]
    pub fn take_problem(&self) -> Option<String> {
        self.problem().take()
    }

    /// The owner ends.
    pub fn end(&self, ended: WorkerExit) {
        *self.ended() = Some(ended);
        self.told.notify_all();
    }

    /// How the owner ended, if it has.
    #[must_use]
    pub fn has_ended(&self) -> Option<WorkerExit> {
        *self.ended()
    }

    /// Waits for the owner to end, until a moment at most.
    #[must_use]
    pub fn wait(&self, until: Instant) -> Option<WorkerExit> {
        let mut ended = self.ended();
        while ended.is_none() {
            let left = until.checked_duration_since(Instant::now())?;
            ended = self.told.wait_timeout(ended, left).expect("no holder of the lock panics").0;
        }
        *ended
    }

    /// The partition is somebody else's now: the owner is to stop where it stands.
    pub fn cancel(&self) {
        self.called_off.send_replace(true);
    }

    /// Waits until the partition is somebody else's.
    pub async fn cancelled(&self) {
        let mut called_off = self.called_off.subscribe();
        if called_off.wait_for(|called_off| *called_off).await.is_err() {
            // Nobody is there to call it off.
            std::future::pending::<()>().await;
        }
    }

    fn problem(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().expect("no holder of the lock panics")
    }

    fn ended(&self) -> MutexGuard<'_, Option<WorkerExit>> {
        self.ended.lock().expect("no holder of the lock panics")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_wait_for_an_owner_ends_with_it_or_at_the_moment() {
        let holding = PartitionHandle::new(3, 70);
        assert_eq!(holding.wait(Instant::now() + Duration::from_millis(5)), None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                holding.acknowledge(80);
                holding.end(WorkerExit::Drained);
            });
            let long = Instant::now() + Duration::from_secs(60);
            assert_eq!(holding.wait(long), Some(WorkerExit::Drained));
        });
        assert_eq!((holding.acknowledged(), holding.has_ended()), (80, Some(WorkerExit::Drained)));
    }
}
