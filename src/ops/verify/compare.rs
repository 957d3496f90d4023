//! Compares every day of a store with the reference store, both ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::day::{self, DayResult};
use super::{Difference, DifferenceKind};
use crate::log::reference::Reference;
use crate::model::scalar::{Day, DeviceTime};
use crate::store::raw::RawRow;
use crate::store::{AnyStore, DevicePages, DeviceScope, StoreError, TripRow, TripStore};
use crate::timeline::day_of;

/// Days read in one page.
const PAGE: usize = 256;

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Days of devices that were compared.
    pub days: u64,
    /// Copies of trips that are equal in both stores.
    pub same: u64,
    /// Copies that are newer than the end of what was read.
    pub ahead: u64,
    /// How often each kind of difference was found.
    pub differences: BTreeMap<DifferenceKind, u64>,
    /// How often each kind of difference is left after the repair.
    pub left: BTreeMap<DifferenceKind, u64>,
}

impl Comparison {
    /// How many differences were found.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.differences.values().sum()
    }

    /// How many differences are left after the repair.
    #[must_use]
    pub fn count_left(&self) -> u64 {
        self.left.values().sum()
    }
}

/// Compares the store `found` with the reference store, all devices or one, and repairs differing
/// rows with `repair`. `on_difference` receives each difference and whether it is left after that.
///
/// # Errors
/// One of the stores cannot be read, or the store cannot be repaired.
pub async fn compare(
    expected: Reference<'_>,
    found: &AnyStore,
    (device_id, repair): (Option<&str>, bool),
    on_difference: impl FnMut(&Difference, bool),
) -> Result<Comparison, StoreError> {
    expected.store.compare_anew()?;
    let result = Comparison::default();
    let mut job = CompareJob { expected, found, device_id, repair, on_difference, result };
    job.compare_found_days().await?;
    job.compare_other_days().await?;
    job.compare_day_indexes().await?;
    Ok(job.result)
}

struct CompareJob<'a, F> {
    expected: Reference<'a>,
    found: &'a AnyStore,
    /// Compare this device only; `None`: all devices.
    device_id: Option<&'a str>,
    repair: bool,
    on_difference: F,
    result: Comparison,
}

impl<F: FnMut(&Difference, bool)> CompareJob<'_, F> {
    /// Compares the days that the store has.
    async fn compare_found_days(&mut self) -> Result<(), StoreError> {
        let (mut group, mut from): (Vec<RawRow>, _) = (Vec::new(), None);
        loop {
            let (rows, next) = self.found.raw_rows(self.device_id, from).await?;
            for row in rows {
                let is_same_day = group.first().is_none_or(|first| {
                    first.bucket_ms == row.bucket_ms && first.device_id == row.device_id
                });
                if !is_same_day {
                    self.compare_day(std::mem::take(&mut group)).await?;
                }
                group.push(row);
            }
            if next.is_none() {
                break;
            }
            from = next;
        }
        if group.is_empty() { Ok(()) } else { self.compare_day(group).await }
    }

    async fn compare_day(&mut self, rows: Vec<RawRow>) -> Result<(), StoreError> {
        let (device_id, bucket_ms) = (rows[0].device_id.clone(), rows[0].bucket_ms);
        self.expected.store.note_compared(&device_id, bucket_ms)?;
        self.inspect(&device_id, day_of(bucket_ms), rows).await
    }

    /// Compares the days that only the reference store has.
    async fn compare_other_days(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let days = self.expected.store.not_compared(self.device_id, after.as_ref(), PAGE)?;
            let Some(last) = days.last() else { return Ok(()) };
            after = Some(last.clone());
            for (device_id, bucket_ms) in days {
                let day = day_of(bucket_ms);
                let rows = self.found.raw_day(&device_id, day).await?;
                self.inspect(&device_id, day, rows).await?;
            }
        }
    }

    /// Compares a day of a device, and repairs it if requested.
    async fn inspect(
        &mut self,
        device_id: &str,
        day: Day,
        rows: Vec<RawRow>,
    ) -> Result<(), StoreError> {
        let expected = self.expected.store.rows_of_day(device_id, day).await?;
        self.result.days += 1;
        let mut seen = self.diff_day((device_id, day), rows, &expected).await?;
        if !seen.differences.is_empty() {
            // The day may have changed while it was read. These rows are not newer than the limit,
            // which is read after them.
            let rows = self.found.raw_day(device_id, day).await?;
            if self.expected.bounds.follow().await? {
                seen = self.diff_day((device_id, day), rows, &expected).await?;
            }
        }
        self.result.same += seen.same;
        self.result.ahead += seen.ahead;
        if seen.differences.is_empty() {
            return Ok(());
        }
        let mut left = Vec::new();
        if self.repair {
            self.found.repair_rows(&seen.wrong, &expected).await?;
            let rows = self.found.raw_day(device_id, day).await?;
            left = self.diff_day((device_id, day), rows, &expected).await?.differences;
        }
        let key = |it: &Difference| (it.span_ms, it.kind);
        let has = |list: &[Difference], it: &Difference| list.iter().any(|one| key(one) == key(it));
        for difference in &seen.differences {
            self.report(difference, !self.repair || has(&left, difference));
        }
        // Differences that were hidden by others before the repair.
        for difference in left.iter().filter(|it| !has(&seen.differences, it)) {
            self.report(difference, true);
        }
        Ok(())
    }

    fn report(&mut self, difference: &Difference, is_left: bool) {
        *self.result.differences.entry(difference.kind).or_default() += 1;
        if is_left {
            *self.result.left.entry(difference.kind).or_default() += 1;
        }
        (self.on_difference)(difference, is_left);
    }

    /// Finds the differences of a day. A missing trip that a newer forget erased does not count.
    async fn diff_day(
        &self,
        (device_id, day): (&str, Day),
        rows: Vec<RawRow>,
        expected: &[TripRow],
    ) -> Result<DayResult, StoreError> {
        let mut result = day::compare((device_id, day), rows, expected, &self.expected.bounds);
        if result.differences.iter().any(|it| it.kind == DifferenceKind::Missing) {
            self.drop_erased(device_id, expected, &mut result).await?;
        }
        for difference in &mut result.differences {
            if matches!(difference.kind, DifferenceKind::Missing | DifferenceKind::Different)
                && self.has_correct_copy(difference, expected).await?
            {
                difference.kind = DifferenceKind::Copy;
            }
        }
        Ok(result)
    }

    /// Removes missing trips that a newer record erased.
    async fn drop_erased(
        &self,
        device_id: &str,
        expected: &[TripRow],
        result: &mut DayResult,
    ) -> Result<(), StoreError> {
        let Some(floor_ms) = self.newer_floor(device_id, expected).await? else { return Ok(()) };
        result.differences.retain(|it| {
            let end_ms = it.span_ms.map_or(DeviceTime::MAX, |(_, end_ms)| end_ms);
            it.kind != DifferenceKind::Missing || end_ms >= floor_ms
        });
        Ok(())
    }

    /// The floor that newer records set for the device of these rows, ms.
    async fn newer_floor(
        &self,
        device_id: &str,
        rows: &[TripRow],
    ) -> Result<Option<DeviceTime>, StoreError> {
        let partition = rows.iter().max_by_key(|row| row.version).map(|row| row.partition);
        let forgets = self.found.forgets(device_id).await?;
        let newer =
            forgets.iter().filter(|it| self.expected.bounds.is_newer(partition, it.version));
        Ok(newer.map(|forget| forget.before_ms).max())
    }

    async fn has_correct_copy(
        &self,
        difference: &Difference,
        expected: &[TripRow],
    ) -> Result<bool, StoreError> {
        let is_trip = |row: &&TripRow| Some((row.start_ms, row.end_ms)) == difference.span_ms;
        let Some(trip) = expected.iter().find(is_trip) else { return Ok(false) };
        for day in trip.days().filter(|day| *day != difference.day) {
            let rows = self.found.raw_day(&trip.device_id, day).await?;
            if rows.contains(&RawRow::from_trip_row(trip, day)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares the day indexes.
    async fn compare_day_indexes(&mut self) -> Result<(), StoreError> {
        if let Some(device_id) = self.device_id {
            return self.compare_device_index(device_id).await;
        }
        let store = Arc::clone(&self.expected.store);
        let mut pages = DevicePages::new(&*store, DeviceScope::All);
        while let Some(devices) = pages.next().await? {
            for device_id in &devices {
                self.compare_device_index(device_id).await?;
            }
        }
        Ok(())
    }

    async fn compare_device_index(&mut self, device_id: &str) -> Result<(), StoreError> {
        let days = self.expected.store.listed_days(device_id)?;
        let mut lacking = self.found.unlisted(device_id, &days).await?;
        if lacking.is_empty() {
            return Ok(());
        }
        let rows = self.expected.store.rows_of_day(device_id, lacking[lacking.len() - 1]).await?;
        if let Some(floor_ms) = self.newer_floor(device_id, &rows).await? {
            lacking.retain(|day| day.start_ms() >= floor_ms);
        }
        let mut left = lacking.clone();
        if self.repair {
            for &day in &lacking {
                let rows = self.expected.store.rows_of_day(device_id, day).await?;
                self.found.repair_rows(&[], &rows).await?;
            }
            left = self.found.unlisted(device_id, &lacking).await?;
        }
        for day in lacking {
            let difference = Difference {
                kind: DifferenceKind::Unlisted,
                device_id: device_id.to_owned(),
                day,
                span_ms: None,
                t_star_ms: None,
                columns: Vec::new(),
                version: None,
            };
            self.report(&difference, left.contains(&day));
        }
        Ok(())
    }
}
