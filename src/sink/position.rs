//! The position of a partition, kept with the rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use crate::kafka::partition_handle::{PartitionHandle, Restart};
use crate::model::epoch::Epoch;
use crate::model::scalar::Offset;
use crate::store::{Result, TripStore};

/// The position that the sink of a partition keeps in its store. The consumer group has one as
/// well, which is ahead of rows that were restored from a backup: the lower one counts.
pub(super) struct KeptPosition {
    epoch: Arc<Epoch>,
    handle: Arc<PartitionHandle>,
    /// Of the epoch when the worker began. Another one replaces positions that are too high.
    generation: AtomicI32,
    /// The highest offset that this worker has kept, or found.
    next: AtomicI64,
}

impl KeptPosition {
    pub(super) fn new(epoch: Arc<Epoch>, handle: Arc<PartitionHandle>) -> Self {
        Self { epoch, handle, generation: AtomicI32::new(0), next: AtomicI64::new(i64::MIN) }
    }

    /// Compares the kept position with the offset that the partition is to be read from. If the
    /// rows are behind it, asks for a worker that begins there, and waits to be replaced.
    pub(super) async fn begin(&self, store: &impl TripStore) -> Result<()> {
        let (partition, start) = (self.handle.partition(), self.handle.acknowledged());
        let kept = store.positions(self.epoch.epoch).await?;
        self.generation.store(kept.generation, Ordering::Relaxed);
        let next = kept.next_offsets.get(&partition).copied();
        self.next.store(next.unwrap_or(i64::MIN), Ordering::Relaxed);
        match self.epoch.position(partition, next) {
            Some(behind) if behind < start && !self.handle.is_settled() => {
                self.handle.restart(Restart::Behind(behind));
                std::future::pending().await
            }
            _ => self.advance(store, start).await,
        }
    }

    /// Keeps a position, if it is higher than the one that is kept.
    pub(super) async fn advance(&self, store: &impl TripStore, next: Offset) -> Result<()> {
        if next.get() <= self.next.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (partition, generation) =
            (self.handle.partition(), self.generation.load(Ordering::Relaxed));
        store.keep_position(&self.epoch, generation, (partition, next)).await?;
        self.next.store(next.get(), Ordering::Relaxed);
        Ok(())
    }
}
