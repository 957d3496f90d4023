//! Times the store operations of a partition worker.

use std::sync::Arc;

use crate::kafka::partition_handle::PartitionHandle;
use crate::store::forward::forward_trip_store;
use crate::store::{Flush, Journal, Position, StoreError, TripStore};
use crate::telemetry::operation;

/// A store whose operations are timed while metrics are recorded.
pub(super) struct TimedStore<S> {
    pub(super) store: S,
    pub(super) handle: Arc<PartitionHandle>,
}

macro_rules! timed {
    ($self:expr, $operation:literal, $($call:tt)*) => {
        operation($operation, $self.store.$($call)*).await
    };
}

impl<S: TripStore> TripStore for TimedStore<S> {
    forward_trip_store!(
        timed: apply, covering, rows_of_day, range, devices, forgets, erased, forget, claimed,
        claim,
    );
}

impl<S: Journal> Journal for TimedStore<S> {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        operation("stage", self.store.stage(ahead)).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        operation("commit", self.store.commit(flush)).await?;
        self.handle.progress().acknowledged(flush.position.delivered);
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        operation("position", self.store.position()).await
    }
}
