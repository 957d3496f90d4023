//! A store that discards everything.

use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::scalar::{Day, DeviceTime, Offset};
use tstar::internals::sink::Sink;
use tstar::internals::store::positions::KeptPositions;
use tstar::internals::store::{
    DeviceScope, Flush, Forget, Order, Position, Result, TripRow, TripStore, WriteGroup,
};

/// Discards all writes and returns nothing.
pub struct NullStore;

impl TripStore for NullStore {
    async fn forgets(&self, _: &str) -> Result<Vec<Forget>> {
        Ok(Vec::new())
    }

    async fn forget(&self, _: &str, _: &Forget) -> Result<()> {
        Ok(())
    }

    async fn claimed(&self, _: &str, _: i32) -> Result<Option<i32>> {
        Ok(None)
    }

    async fn claim(&self, _: &str, _: i32, own: i32) -> Result<i32> {
        Ok(own)
    }

    async fn positions(&self, _: i32) -> Result<KeptPositions> {
        Ok(KeptPositions::default())
    }

    async fn keep_position(&self, _: &Epoch, _: i32, _: (i32, Offset)) -> Result<()> {
        Ok(())
    }

    async fn write(&self, _: &[WriteGroup]) -> Result<()> {
        Ok(())
    }

    async fn rows_from(&self, _: &str, _: Day, _: DeviceTime) -> Result<Vec<TripRow>> {
        Ok(Vec::new())
    }

    async fn days(&self, _: &str, _: (Day, Day), _: Order, _: usize) -> Result<Vec<Day>> {
        Ok(Vec::new())
    }

    async fn devices(&self, _: DeviceScope, _: Option<&str>, _: usize) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

impl Sink for NullStore {
    async fn stage(&self, ahead: &Flush) -> Result<()> {
        std::hint::black_box(ahead);
        Ok(())
    }

    async fn commit(&self, flush: &Flush) -> Result<()> {
        std::hint::black_box(flush);
        Ok(())
    }

    async fn position(&self) -> Result<Position> {
        Ok(Position::default())
    }
}
