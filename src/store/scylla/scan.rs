//! Rows as they lie in the tables.

use std::collections::{BTreeSet, VecDeque};

use scylla::response::PagingState;
use scylla::value::CqlTimestamp;

use super::ScyllaStore;
use super::row::{Raw, bucket};
use crate::identity;
use crate::store::raw::{RawRow, RawRows};
use crate::store::{StoreError, TripRow};
use crate::timeline::day_of;

/// Where reading goes on.
#[derive(Debug)]
pub enum ScanCursor {
    /// In the whole table, in the order of tokens.
    Everywhere(PagingState),
    /// In these days of one device.
    Days(VecDeque<i64>),
}

const READING: &str = "reading every trip";

impl ScyllaStore {
    async fn every_row(
        &self,
        from: PagingState,
    ) -> Result<(Vec<RawRow>, Option<ScanCursor>), StoreError> {
        let (shared, select) = (&self.shared, &self.shared.statements.every);
        let (page, next) = shared.page::<Raw>(READING, select, &(), from).await?;
        let rows = page.into_iter().map(Raw::into_raw_row).collect();
        Ok((rows, next.map(ScanCursor::Everywhere)))
    }
}

impl RawRows for ScyllaStore {
    type Cursor = ScanCursor;

    async fn raw_rows(
        &self,
        device_id: Option<&str>,
        from: Option<ScanCursor>,
    ) -> Result<(Vec<RawRow>, Option<ScanCursor>), StoreError> {
        let Some(device_id) = device_id else {
            return match from {
                Some(ScanCursor::Everywhere(state)) => self.every_row(state).await,
                _ => self.every_row(PagingState::start()).await,
            };
        };
        let mut days = match from {
            Some(ScanCursor::Days(days)) => days,
            _ => {
                let (first, last) = (day_of(i64::MIN), day_of(i64::MAX));
                self.shared.days_of(device_id, first, last).await?.into()
            }
        };
        let Some(day) = days.pop_front() else { return Ok((Vec::new(), None)) };
        let rows = self.raw_day(device_id, day).await?;
        Ok((rows, Some(ScanCursor::Days(days))))
    }

    async fn raw_day(&self, device_id: &str, day: i64) -> Result<Vec<RawRow>, StoreError> {
        let (shared, select) = (&self.shared, &self.shared.statements.of_day);
        let of_day = (device_id, bucket(day), CqlTimestamp(i64::MIN));
        let rows: Vec<Raw> = shared.rows(READING, select, of_day).await?;
        Ok(rows.into_iter().map(Raw::into_raw_row).collect())
    }

    async fn unlisted(&self, device_id: &str, days: &[i64]) -> Result<Vec<i64>, StoreError> {
        let (Some(&first), Some(&last)) = (days.first(), days.last()) else {
            return Ok(Vec::new());
        };
        let listed = self.shared.days_of(device_id, first, last).await?;
        let listed: BTreeSet<i64> = listed.into_iter().collect();
        let shard = i32::from(identity::shard(device_id));
        let mut lacking = Vec::new();
        for &day in days {
            let is_listed = listed.contains(&day)
                && self.shared.is_device_of_day(day, shard, device_id).await?;
            if !is_listed {
                lacking.push(day);
            }
        }
        Ok(lacking)
    }

    /// What was written with a later timestamp than its version says stays.
    async fn repair_rows(&self, wrong: &[RawRow], right: &[TripRow]) -> Result<(), StoreError> {
        let remove = &self.shared.statements.remove;
        for row in wrong {
            // A right row of the same key is written over it: its deletion would outlive that, too.
            let is_replaced = |it: &TripRow| (it.end_ms, it.start_ms) == (row.end_ms, row.start_ms);
            // Of a row without a version nobody knows when it was written.
            let Some(written) = row.version().and_then(|version| version.checked_add(1)) else {
                continue;
            };
            if right.iter().any(is_replaced) {
                continue;
            }
            let (bucket, end) = (CqlTimestamp(row.bucket_ms), CqlTimestamp(row.end_ms));
            let start = CqlTimestamp(row.start_ms);
            let values = (written, &row.device_id, bucket, end, start);
            self.shared.execute("removing a wrong trip", remove, values).await?;
        }
        // The days may be thought to be listed, and not be.
        self.listed().clear();
        // A row of the same version may be there, stamped as this one would be: of two cells of one
        // timestamp the larger stays. The next version of the trip is stamped later than this, and
        // so is its deletion: versions are 2 apart, and of equal timestamps the deletion wins.
        self.put(right, 1).await
    }
}
