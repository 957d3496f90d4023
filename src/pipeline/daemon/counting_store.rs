//! Counts what owners write that is there already.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PartitionStores;
use crate::kafka::partition_handle::PartitionHandle;
use crate::store::raw::{RawRow, RawRows};
use crate::store::{Flush, Journal, Pair, Position, StoreError, TripRow};

/// How many rows of trips were written.
#[derive(Debug, Default)]
pub struct RowCounts {
    same: AtomicU64,
    other: AtomicU64,
}

impl RowCounts {
    /// Rows, a copy for each day, that were there already, byte for byte.
    #[must_use]
    pub fn same(&self) -> u64 {
        self.same.load(Ordering::Relaxed)
    }

    /// Rows that were not.
    #[must_use]
    pub fn other(&self) -> u64 {
        self.other.load(Ordering::Relaxed)
    }
}

/// Owners that count what they write.
pub struct CountingStores<O, R> {
    /// They do the work.
    pub owners: O,
    /// What they write to.
    pub rows: Arc<R>,
    /// Where it is counted.
    pub tally: Arc<RowCounts>,
}

impl<O: PartitionStores, R: RawRows + 'static> PartitionStores for CountingStores<O, R> {
    type Store = Pair<Arc<O::Store>, WatchedJournal<O::Store, R>>;

    fn store(&self, holding: &Arc<PartitionHandle>) -> Self::Store {
        let trips = Arc::new(self.owners.store(holding));
        let (rows, tally) = (Arc::clone(&self.rows), Arc::clone(&self.tally));
        let journal = WatchedJournal { inner: Arc::clone(&trips), rows, tally };
        Pair { trips, journal }
    }
}

/// Looks at what is there before a flush is written.
pub struct WatchedJournal<S, R> {
    inner: Arc<S>,
    rows: Arc<R>,
    tally: Arc<RowCounts>,
}

impl<S, R: RawRows> WatchedJournal<S, R> {
    async fn count(&self, trips: &[TripRow]) -> Result<(), StoreError> {
        for trip in trips {
            for day in trip.days() {
                let there = self.rows.raw_day(&trip.device_id, day).await?;
                let is_same = there.contains(&RawRow::from_trip_row(trip, day));
                let count = if is_same { &self.tally.same } else { &self.tally.other };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl<S: Journal, R: RawRows> Journal for WatchedJournal<S, R> {
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
