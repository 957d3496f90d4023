//! Counts written rows by whether the store already contained them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PartitionStores;
use crate::kafka::partition_handle::PartitionHandle;
use crate::store::raw::{RawRow, RawRows};
use crate::store::{Flush, Journal, Pair, Position, StoreError, TripRow};

/// Number of written trip rows.
#[derive(Debug, Default)]
pub struct RowCounts {
    same: AtomicU64,
    other: AtomicU64,
}

impl RowCounts {
    /// Rows that the store already contained, byte for byte; a trip has one row for each day.
    #[must_use]
    pub fn same(&self) -> u64 {
        self.same.load(Ordering::Relaxed)
    }

    /// Rows that the store did not contain, or contained with other bytes.
    #[must_use]
    pub fn other(&self) -> u64 {
        self.other.load(Ordering::Relaxed)
    }
}

/// Partition stores that count the rows written to them.
pub struct CountingStores<O, R> {
    /// The wrapped partition stores.
    pub owners: O,
    /// The stored rows, read before each write.
    pub rows: Arc<R>,
    /// The counters.
    pub tally: Arc<RowCounts>,
}

impl<O: PartitionStores, R: RawRows + 'static> PartitionStores for CountingStores<O, R> {
    type Store = Pair<Arc<O::Store>, CountingJournal<O::Store, R>>;

    fn store(&self, handle: &Arc<PartitionHandle>) -> Self::Store {
        let trips = Arc::new(self.owners.store(handle));
        let (rows, tally) = (Arc::clone(&self.rows), Arc::clone(&self.tally));
        let journal = CountingJournal { inner: Arc::clone(&trips), rows, tally };
        Pair { trips, journal }
    }
}

/// A journal that reads the stored rows before it writes a flush.
pub struct CountingJournal<S, R> {
    inner: Arc<S>,
    rows: Arc<R>,
    tally: Arc<RowCounts>,
}

impl<S, R: RawRows> CountingJournal<S, R> {
    async fn count(&self, trips: &[TripRow]) -> Result<(), StoreError> {
        for trip in trips {
            for day in trip.days() {
                let stored = self.rows.raw_day(&trip.device_id, day).await?;
                let is_same = stored.contains(&RawRow::from_trip_row(trip, day));
                let count = if is_same { &self.tally.same } else { &self.tally.other };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl<S: Journal, R: RawRows> Journal for CountingJournal<S, R> {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        self.count(&ahead.trips).await?;
        self.inner.stage(ahead).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.count(&flush.trips).await?;
        self.inner.commit(flush).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.inner.position().await
    }
}
