//! Trips in one place, the journal in another.

use std::ops::Deref;

use super::{DeviceScope, Flush, Forget, Journal, Order, Position, StoreError, TripRow, TripStore};

/// What a processor needs, of two parts: where trips are read, and a journal that also writes them.
pub struct Pair<T, J> {
    /// Where trips are read, and erased.
    pub trips: T,
    /// Where flushes go.
    pub journal: J,
}

impl<T, J> TripStore for Pair<T, J>
where
    T: Deref<Target: TripStore> + Send + Sync,
    J: Send + Sync,
{
    async fn apply(&self, trips: &[TripRow]) -> Result<(), StoreError> {
        self.trips.apply(trips).await
    }

    async fn covering(&self, device_id: &str, time_ms: i64) -> Result<Option<TripRow>, StoreError> {
        self.trips.covering(device_id, time_ms).await
    }

    async fn rows_of_day(&self, device_id: &str, day: i64) -> Result<Vec<TripRow>, StoreError> {
        self.trips.rows_of_day(device_id, day).await
    }

    async fn range(
        &self,
        device_id: &str,
        from_ms: i64,
        upto_ms: i64,
        order: Order,
        limit: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        self.trips.range(device_id, from_ms, upto_ms, order, limit).await
    }

    async fn devices(
        &self,
        whose: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.trips.devices(whose, after, limit).await
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>, StoreError> {
        self.trips.forgets(device_id).await
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>, StoreError> {
        self.trips.erased(device_id).await
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        self.trips.forget(device_id, forget).await
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        self.trips.claimed(device_id, epoch).await
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32, StoreError> {
        self.trips.claim(device_id, epoch, own).await
    }
}

impl<T, J> Journal for Pair<T, J>
where
    T: Send + Sync,
    J: Journal,
{
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        self.journal.stage(ahead).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.journal.commit(flush).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.journal.position().await
    }
}
