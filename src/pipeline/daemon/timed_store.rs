//! Times what an owner asks of its store.

use std::sync::Arc;

use crate::kafka::partition_handle::PartitionHandle;
use crate::store::{
    DeviceScope, Flush, Forget, Journal, Order, Position, StoreError, TripRow, TripStore,
};
use crate::telemetry::operation;

/// A store whose operations are timed, where anything is.
pub(super) struct TimedStore<S> {
    pub(super) store: S,
    pub(super) holding: Arc<PartitionHandle>,
}

impl<S: TripStore> TripStore for TimedStore<S> {
    async fn apply(&self, trips: &[TripRow]) -> Result<(), StoreError> {
        operation("apply", self.store.apply(trips)).await
    }

    async fn covering(&self, device_id: &str, time_ms: i64) -> Result<Option<TripRow>, StoreError> {
        operation("covering", self.store.covering(device_id, time_ms)).await
    }

    async fn rows_of_day(&self, device_id: &str, day: i64) -> Result<Vec<TripRow>, StoreError> {
        operation("near", self.store.rows_of_day(device_id, day)).await
    }

    async fn range(
        &self,
        device_id: &str,
        from_ms: i64,
        upto_ms: i64,
        order: Order,
        limit: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        operation("range", self.store.range(device_id, from_ms, upto_ms, order, limit)).await
    }

    async fn devices(
        &self,
        whose: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        operation("devices", self.store.devices(whose, after, limit)).await
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>, StoreError> {
        operation("forgets", self.store.forgets(device_id)).await
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>, StoreError> {
        operation("forgets", self.store.erased(device_id)).await
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        operation("forget", self.store.forget(device_id, forget)).await
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        operation("claimed", self.store.claimed(device_id, epoch)).await
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32, StoreError> {
        operation("claim", self.store.claim(device_id, epoch, own)).await
    }
}

impl<S: Journal> Journal for TimedStore<S> {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        operation("stage", self.store.stage(ahead)).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        operation("commit", self.store.commit(flush)).await?;
        self.holding.progress().acknowledged(flush.position.delivered);
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        operation("position", self.store.position()).await
    }
}
