//! Raw rows and repairs in Scylla.

use std::collections::BTreeSet;

use scylla::response::PagingState;
use scylla::value::CqlTimestamp;

use super::ScyllaStore;
use super::cql::Cql;
use super::row::Raw;
use crate::identity;
use crate::model::scalar::{Day, DeviceTime};
use crate::store::lookup::days::ALL_DAYS;
use crate::store::raw::{RawRow, ScanCursor};
use crate::store::{Order, Result, TripRow, TripStore as _};

const READING: &str = "reading every trip";

impl<C: Cql> ScyllaStore<C> {
    async fn every_row(&self, from: PagingState) -> Result<(Vec<RawRow>, Option<ScanCursor>)> {
        let (shared, select) = (&self.shared, &self.shared.statements.trips.all_rows);
        let (page, next) = shared.page::<Raw>(READING, select, &(), from).await?;
        let rows = page.into_iter().map(Raw::into_raw_row).collect();
        Ok((rows, next.map(ScanCursor::Page)))
    }
}

/// What [`AnyStore`](crate::store::AnyStore) documents.
impl<C: Cql> ScyllaStore<C> {
    pub(in crate::store) async fn raw_rows(
        &self,
        device_id: Option<&str>,
        from: Option<ScanCursor>,
    ) -> Result<(Vec<RawRow>, Option<ScanCursor>)> {
        let Some(device_id) = device_id else {
            return match from {
                Some(ScanCursor::Page(state)) => self.every_row(state).await,
                _ => self.every_row(PagingState::start()).await,
            };
        };
        let mut days = match from {
            Some(ScanCursor::Days(days)) => days,
            _ => self.days(device_id, ALL_DAYS, Order::Asc, usize::MAX).await?.into(),
        };
        let Some(day) = days.pop_front() else { return Ok((Vec::new(), None)) };
        let rows = self.raw_day(device_id, day).await?;
        Ok((rows, Some(ScanCursor::Days(days))))
    }

    pub(in crate::store) async fn raw_day(&self, device_id: &str, day: Day) -> Result<Vec<RawRow>> {
        let rows = self.shared.raw_rows(READING, (device_id, day), DeviceTime::MIN).await?;
        Ok(rows.into_iter().map(Raw::into_raw_row).collect())
    }

    pub(in crate::store) async fn unlisted(
        &self,
        device_id: &str,
        days: &[Day],
    ) -> Result<Vec<Day>> {
        let (Some(&first), Some(&last)) = (days.first(), days.last()) else {
            return Ok(Vec::new());
        };
        let listed = self.days(device_id, (first, last), Order::Asc, usize::MAX).await?;
        let listed: BTreeSet<Day> = listed.into_iter().collect();
        let shard = i32::from(identity::shard(device_id));
        let mut missing = Vec::new();
        for &day in days {
            let is_listed = listed.contains(&day)
                && self.shared.is_device_of_day(day, shard, device_id).await?;
            if !is_listed {
                missing.push(day);
            }
        }
        Ok(missing)
    }

    pub(in crate::store) async fn repair_rows(
        &self,
        wrong: &[RawRow],
        right: &[TripRow],
    ) -> Result<()> {
        let remove = &self.shared.statements.trips.remove;
        for row in wrong {
            // A right row with the same key replaces it. A deletion would also hide the right row.
            let is_replaced =
                |right: &TripRow| (right.end_ms, right.start_ms) == (row.end_ms, row.start_ms);
            // Without a version the write timestamp of the row is unknown.
            let Some(written) = row.version().and_then(|version| version.get().checked_add(1))
            else {
                continue;
            };
            if right.iter().any(is_replaced) {
                continue;
            }
            let (bucket, end) = (CqlTimestamp(row.bucket_ms.ms()), CqlTimestamp(row.end_ms.ms()));
            let start = CqlTimestamp(row.start_ms.ms());
            let values = (written, &row.device_id, bucket, end, start);
            self.shared.execute("removing a wrong trip", remove, values).await?;
        }
        // The cache may contain days that are missing in the indexes.
        self.listed().clear();
        // Writes one timestamp later than usual: an existing row of the same version would have
        // equal timestamps, and then the larger cell value wins. The next version of the trip still
        // replaces this one: versions are 2 apart, and a deletion wins between equal timestamps.
        let right: Vec<_> = right.iter().cloned().map(Into::into).collect();
        self.put(&right, 1).await
    }
}
