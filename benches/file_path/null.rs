//! A store that discards everything.

use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::scalar::{Day, DeviceTime, Offset};
use tstar::internals::sink::Sink;
use tstar::internals::store::positions::KeptPositions;
use tstar::internals::store::{
    DeviceScope, Flush, Forget, Order, Position, StoreError, TripRow, TripStore, WriteGroup,
};

/// Discards all writes and returns nothing.
pub struct NullStore;

impl TripStore for NullStore {
    async fn forgets(&self, _: &str) -> Result<Vec<Forget>, StoreError> {
        Ok(Vec::new())
    }

    async fn forget(&self, _: &str, _: &Forget) -> Result<(), StoreError> {
        Ok(())
    }

    async fn claimed(&self, _: &str, _: i32) -> Result<Option<i32>, StoreError> {
        Ok(None)
    }

    async fn claim(&self, _: &str, _: i32, own: i32) -> Result<i32, StoreError> {
        Ok(own)
    }

    async fn positions(&self, _: i32) -> Result<KeptPositions, StoreError> {
        Ok(KeptPositions::default())
    }

    async fn keep_position(&self, _: &Epoch, _: i32, _: (i32, Offset)) -> Result<(), StoreError> {
        Ok(())
    }

    async fn write(&self, _: &[WriteGroup]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn covering(&self, _: &str, _: DeviceTime) -> Result<Option<TripRow>, StoreError> {
        Ok(None)
    }

    async fn rows_of_day(&self, _: &str, _: Day) -> Result<Vec<TripRow>, StoreError> {
        Ok(Vec::new())
    }

    async fn range(
        &self,
        _: &str,
        _: DeviceTime,
        _: DeviceTime,
        _: Order,
        _: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        Ok(Vec::new())
    }

    async fn devices(
        &self,
        _: DeviceScope,
        _: Option<&str>,
        _: usize,
    ) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

impl Sink for NullStore {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        std::hint::black_box(ahead);
        Ok(())
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        std::hint::black_box(flush);
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        Ok(Position::default())
    }
}
