//! Times the journal of a partition worker.

use std::sync::Arc;

use crate::kafka::partition_handle::PartitionHandle;
use crate::store::{Flush, Forget, Journal, Position, StoreError};
use crate::telemetry::operation;

/// A journal whose operations are timed while metrics are recorded. Reports what is durable as the
/// progress of the partition.
pub(super) struct TimedJournal<J> {
    pub(super) journal: J,
    pub(super) handle: Arc<PartitionHandle>,
}

impl<J: Journal> Journal for TimedJournal<J> {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        operation("stage", self.journal.stage(ahead)).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        operation("commit", self.journal.commit(flush)).await?;
        self.handle.progress().acknowledged(flush.position.delivered);
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        operation("position", self.journal.position()).await
    }

    async fn announce_erasure(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        let announcing = self.journal.announce_erasure(device_id, forget);
        operation("announce_erasure", announcing).await
    }
}
