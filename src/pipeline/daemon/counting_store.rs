//! Counts written rows by whether the store already contained them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PartitionStores;
use crate::kafka::partition_handle::PartitionHandle;
use crate::store::raw::{RawRow, RawRows};
use crate::store::{Flush, Forget, Journal, Position, StoreError, TripRow};

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
    type Trips = O::Trips;
    type Journal = CountingJournal<O::Journal, R>;

    fn open(&self, handle: &Arc<PartitionHandle>) -> (Self::Trips, Self::Journal) {
        let (trips, journal) = self.owners.open(handle);
        let (rows, tally) = (Arc::clone(&self.rows), Arc::clone(&self.tally));
        (trips, CountingJournal { journal, rows, tally })
    }
}

/// A journal that reads the stored rows before it writes a flush.
pub struct CountingJournal<J, R> {
    journal: J,
    rows: Arc<R>,
    tally: Arc<RowCounts>,
}

impl<J, R: RawRows> CountingJournal<J, R> {
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

impl<J: Journal, R: RawRows> Journal for CountingJournal<J, R> {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        self.count(&ahead.trips).await?;
        self.journal.stage(ahead).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.count(&flush.trips).await?;
        self.journal.commit(flush).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.journal.position().await
    }

    async fn announce_erasure(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        self.journal.announce_erasure(device_id, forget).await
    }
}
