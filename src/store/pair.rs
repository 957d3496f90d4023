//! Combines a trip store with a separate journal.

use std::ops::Deref;

use super::forward::forward_trip_store;
use super::{Flush, Journal, Position, StoreError, TripStore};

/// A trip store and a journal, which together are what a processor needs.
pub struct Pair<T, J> {
    /// Reads and erases trips.
    pub trips: T,
    /// Commits flushes, with their trips.
    pub journal: J,
}

macro_rules! trips {
    ($self:expr, $operation:literal, $($call:tt)*) => {
        $self.trips.$($call)*.await
    };
}

impl<T, J> TripStore for Pair<T, J>
where
    T: Deref<Target: TripStore> + Send + Sync,
    J: Send + Sync,
{
    forward_trip_store!(
        trips: apply, covering, rows_of_day, range, devices, forgets, erased, forget, claimed,
        claim,
    );
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
