//! Trip rows in Scylla.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use scylla::response::PagingState;
use scylla::serialize::row::SerializeRow;
use scylla::value::CqlTimestamp;

use super::cql::Cql;
use super::row::{self, Bound, INCOMPLETE, Raw, bucket};
use super::statements::LOOKUP_PAGE;
use super::{ScyllaStore, Shared, devices};
use crate::identity::{self, SHARDS};
use crate::model::epoch::Epoch;
use crate::model::reason::SkipReason;
use crate::model::scalar::{Day, DeviceTime, Offset, Version};
use crate::segment::Kind;
use crate::store::positions::KeptPositions;
use crate::store::skip::{self, is_whole};
use crate::store::{
    DeviceScope, Forget, Order, Result, RowError, TripEnd, TripRow, TripStore, WriteGroup,
};
use crate::telemetry;
use crate::timeline::day_of;

/// A lookup reads at most this many rows; a day needs more only if another program wrote to it.
const LOOKUP_ROWS: usize = 64;

/// The operation of [`Shared::raw_rows`], for errors.
pub(super) const READING_DAY: &str = "reading trips of a day";

/// Rows that decide which trip is nearest to a time, as many as decide a lookup.
const NEAREST: usize = 4;

/// Maximum number of indexed days that a worker caches.
const MAX_LISTED: usize = 50_000;

/// End, start, `t_star`, version and last position of a row. Only the key is always present.
type EndRow = (
    CqlTimestamp,
    CqlTimestamp,
    Option<CqlTimestamp>,
    Option<i64>,
    Option<f64>,
    Option<f64>,
    Option<String>,
);

impl<C: Cql> Shared<C> {
    /// Adds an entry to an index of days.
    async fn list(
        &self,
        doing: &'static str,
        batch: &C::Batch,
        values: impl SerializeRow + Sync,
    ) -> Result<()> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let write = || self.session.execute_all(batch, std::slice::from_ref(&values));
        self.retry.until_acknowledged(doing, write).await
    }

    /// Writes what a group has of a day: one row and the older forms of it together, several rows
    /// before what they replace is deleted. A read repairs only the slice that it read: a replica
    /// may get the delete and one of the rows, and time that the others cover would be lost.
    async fn put(&self, group: &WriteGroup, day: Day, delay: i64) -> Result<()> {
        let _permit = self.permits.acquire().await.expect("it is never closed");
        let values = row::values(group, day, delay);
        if group.rows.len() == 1 {
            return self.put_together(&values).await;
        }
        let (deletes, inserts): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|values| matches!(values, Bound::Delete(_)));
        self.put_together(&inserts).await?;
        self.put_together(&deletes).await
    }

    /// Writes values of a partition in one batch.
    async fn put_together(&self, values: &[Bound<'_>]) -> Result<()> {
        let [delete, insert] = &self.statements.put;
        let statement = |values: &Bound<'_>| match values {
            Bound::Delete(_) => delete.clone(),
            Bound::Insert(_) => insert.clone(),
        };
        let several = match values {
            [] => return Ok(()),
            [Bound::Delete(_), Bound::Insert(_)] => None,
            values => Some(self.session.batch(values.iter().map(statement).collect())),
        };
        let batch = several.as_ref().unwrap_or(&self.statements.put_one);
        let write = || self.session.execute_all(batch, values);
        self.retry.until_acknowledged("writing trips", write).await
    }

    /// The row, if it has a version and can be decoded. Counts any other row.
    fn valid_row(&self, raw: Raw) -> Option<TripRow> {
        match raw.into_row() {
            Ok(Some(row)) => Some(row),
            Ok(None) => {
                self.foreign_rows.add(1);
                telemetry::skipped(SkipReason::NoVersion);
                None
            }
            Err(error) => {
                skip::malformed(&error);
                None
            }
        }
    }

    /// The end of a segment, if the row has a version and the columns. Counts any other row.
    fn valid_end(&self, device_id: &str, day: Day, row: EndRow) -> Option<TripEnd> {
        let (end, start, t_star, version, lat, lon, kind) = row;
        let (end_ms, start_ms) = (DeviceTime(end.0), DeviceTime(start.0));
        let Some(version) = version.map(Version) else {
            self.foreign_rows.add(1);
            telemetry::skipped(SkipReason::NoVersion);
            return None;
        };
        let kind = kind.as_deref().map(Kind::from_name);
        // As whole rows have it, so that a fault is logged once.
        let reason = if kind == Some(None) { "its kind is not valid" } else { INCOMPLETE };
        let (Some(t_star), Some(lat), Some(lon), Some(Some(kind))) = (t_star, lat, lon, kind)
        else {
            skip::malformed(&RowError {
                device: device_id.to_owned(),
                bucket: day.start_ms(),
                start_ms,
                end_ms,
                reason: reason.to_owned(),
            });
            return None;
        };
        let t_star_ms = DeviceTime(t_star.0);
        Some(TripEnd { kind, t_star_ms, start_ms, end_ms, version, lat, lon })
    }

    /// Rows of a device in a day that end at or after a time, by end, as they are stored.
    pub(super) async fn raw_rows(
        &self,
        doing: &'static str,
        (device_id, day): (&str, Day),
        from_ms: DeviceTime,
    ) -> Result<Vec<Raw>> {
        let select = &self.statements.trips.of_day;
        self.rows(doing, select, (device_id, bucket(day), CqlTimestamp(from_ms.ms()))).await
    }

    /// At most `limit` days of a device in `from..=upto`, in the given order.
    pub(super) async fn page_of_days(
        &self,
        device_id: &str,
        (from, upto): (Day, Day),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Day>> {
        let select = match order {
            Order::Asc => &self.statements.trips.days,
            Order::Desc => &self.statements.trips.days_desc,
        };
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let span = (device_id, bucket(from), bucket(upto), limit);
        let days: Vec<(CqlTimestamp,)> =
            self.rows("reading the days of a device", select, span).await?;
        Ok(days.into_iter().map(|(bucket,)| day_of(DeviceTime(bucket.0))).collect())
    }

    /// Whether a device is in the index of a day.
    pub(super) async fn is_device_of_day(
        &self,
        day: Day,
        shard: i32,
        device_id: &str,
    ) -> Result<bool> {
        let (doing, select) = ("reading the day indexes", &self.statements.trips.device_of_day);
        let found: Vec<(String,)> =
            self.rows(doing, select, (bucket(day), shard, device_id)).await?;
        Ok(!found.is_empty())
    }

    /// The devices of a shard of a day.
    async fn devices_of(
        &self,
        day: Day,
        shard: i32,
        after: &str,
        limit: i32,
    ) -> Result<Vec<(String,)>> {
        let select = &self.statements.trips.devices_of_day;
        self.rows("listing devices of a day", select, (bucket(day), shard, after, limit)).await
    }
}

impl<C: Cql> ScyllaStore<C> {
    /// Adds the days of rows to the day indexes before the rows are written: a row in a day without
    /// an index entry could not be found by its device or day.
    async fn list_days(&self, groups: &[WriteGroup]) -> Result<()> {
        // Sorted, so that the same trips are always written in the same order.
        let mut unlisted: BTreeMap<(String, DeviceTime), Version> = BTreeMap::new();
        {
            let listed = self.listed();
            for trip in groups.iter().flat_map(|group| &group.rows) {
                for day in trip.days() {
                    let key = (trip.device_id.clone(), day.start_ms());
                    if !listed.contains(&key) {
                        let written = unlisted.entry(key).or_insert(trip.version + 1);
                        *written = (trip.version + 1).max(*written);
                    }
                }
            }
        }
        let (shared, statements) = (&self.shared, &self.shared.statements);
        let mut writes = Vec::with_capacity(unlisted.len());
        for ((device_id, bucket), &written) in &unlisted {
            let bucket = CqlTimestamp(bucket.ms());
            let shard = i32::from(identity::shard(device_id));
            writes.push(async move {
                let of_day = (bucket, shard, device_id, written.0);
                shared.list("indexing a device of a day", &statements.list_device, of_day).await?;
                let of_device = (device_id, bucket, written.0);
                shared.list("indexing a day of a device", &statements.list_day, of_device).await
            });
        }
        shared.all(writes).await?;
        let mut listed = self.listed();
        if listed.len() + unlisted.len() > MAX_LISTED {
            listed.clear();
        }
        listed.extend(unlisted.into_keys().take(MAX_LISTED));
        Ok(())
    }
}

impl<C: Cql> ScyllaStore<C> {
    /// Writes groups, with `delay` added to the write timestamps of their versions.
    pub(super) async fn put(&self, groups: &[WriteGroup], delay: i64) -> Result<()> {
        groups.iter().flat_map(|group| &group.rows).try_for_each(row::check)?;
        self.list_days(groups).await?;
        *self.device_page() = None;
        let shared = &self.shared;
        let mut writes = Vec::with_capacity(groups.len());
        for group in groups {
            for day in group.days() {
                writes.push(async move { shared.put(group, day, delay).await });
            }
        }
        shared.all(writes).await
    }
}

impl<C: Cql> TripStore for ScyllaStore<C> {
    async fn write(&self, groups: &[WriteGroup]) -> Result<()> {
        self.put(groups, 0).await
    }

    async fn covering(&self, device_id: &str, time_ms: DeviceTime) -> Result<Option<TripRow>> {
        let (shared, select) = (&self.shared, &self.shared.statements.trips.covering);
        let day = day_of(time_ms);
        let values = (device_id, bucket(day), CqlTimestamp(time_ms.ms()));
        let mut best: Option<TripRow> = None;
        let (mut read, mut valid) = (0, 0);
        let mut from = Some(PagingState::start());
        // Four rows with a version decide, usually those of the first page.
        while let (Some(at), true) = (from, valid < LOOKUP_PAGE && read < LOOKUP_ROWS) {
            let (page, next) = shared.page("looking up a time", select, &values, at).await?;
            for raw in page {
                read += 1;
                let Some(row) = shared.valid_row(raw) else { continue };
                let newer = best.as_ref().is_none_or(|best| row.version > best.version);
                if row.start_ms <= time_ms && newer {
                    if !is_whole(&row) {
                        continue;
                    }
                    best = Some(row);
                }
                valid += 1;
            }
            from = next;
        }
        Ok(best)
    }

    async fn rows_from(
        &self,
        device_id: &str,
        day: Day,
        from_ms: DeviceTime,
    ) -> Result<Vec<TripRow>> {
        let raw = self.shared.raw_rows(READING_DAY, (device_id, day), from_ms).await?;
        Ok(raw.into_iter().filter_map(|raw| self.shared.valid_row(raw)).collect())
    }

    async fn near(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
        order: Order,
    ) -> Result<Vec<TripRow>> {
        let shared = &self.shared;
        let select = match order {
            Order::Asc => &shared.statements.trips.covering,
            Order::Desc => &shared.statements.trips.before,
        };
        let values = (device_id, bucket(day_of(time_ms)), CqlTimestamp(time_ms.ms()));
        let (mut rows, mut read) = (Vec::new(), 0);
        let mut from = Some(PagingState::start());
        // A page may be short, or empty, although more follow.
        while let (Some(at), true) = (from, rows.len() < NEAREST && read < LOOKUP_ROWS) {
            let (page, after) = shared.page("looking up a time", select, &values, at).await?;
            read += page.len();
            rows.extend(page.into_iter().filter_map(|raw| shared.valid_row(raw)));
            from = after;
        }
        Ok(rows)
    }

    async fn days(
        &self,
        device_id: &str,
        span: (Day, Day),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Day>> {
        self.shared.page_of_days(device_id, span, order, limit).await
    }

    async fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>> {
        // No device id is empty, so the empty text sorts before all of them.
        let after = after.unwrap_or("");
        let (day, wanted) = match scope {
            DeviceScope::All => {
                let page = |found: &devices::DevicePage| found.page(after, limit);
                if let Some(page) = self.device_page().as_ref().and_then(page) {
                    return Ok(page);
                }
                let found = self.shared.find_devices(after, limit).await?;
                let page = found.first(limit);
                *self.device_page() = Some(found);
                return Ok(page);
            }
            DeviceScope::OfDay(day) => (day, 0..SHARDS),
            DeviceScope::OfShard(day, shard) => (day, shard..shard + 1),
        };
        let limit_i32 = i32::try_from(limit).unwrap_or(i32::MAX);
        let mut shards = Vec::new();
        for shard in wanted {
            shards.push(self.shared.devices_of(day, shard.into(), after, limit_i32));
        }
        let mut shards = stream::iter(shards).buffer_unordered(SHARDS.into());
        let mut found = Vec::new();
        while let Some(devices) = shards.next().await {
            found.extend(devices?.into_iter().map(|(device,)| device));
        }
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }

    async fn ends_of_day(&self, device_id: &str, day: Day, limit: usize) -> Result<Vec<TripEnd>> {
        let (shared, select) = (&self.shared, &self.shared.statements.trips.ends_of_day);
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let values = (device_id, bucket(day), limit);
        let rows: Vec<EndRow> =
            shared.rows("reading the last trips of a day", select, values).await?;
        Ok(rows.into_iter().filter_map(|row| shared.valid_end(device_id, day, row)).collect())
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>> {
        self.shared.forgets(device_id).await
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>> {
        self.shared.erased(device_id).await
    }

    async fn erased_since(&self, first: Version) -> Result<BTreeMap<String, Version>> {
        self.shared.erased_since(first).await
    }

    async fn begin_forget(&self, device_id: &str, forget: &Forget) -> Result<()> {
        self.record(device_id, forget).await.map(drop)
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<()> {
        let erased = self.erase(device_id, forget).await;
        *self.device_page() = None;
        erased
    }

    async fn positions(&self, epoch: i32) -> Result<KeptPositions> {
        let select = &self.shared.statements.trips.positions;
        let rows: Vec<(i32, i32, i64)> =
            self.shared.rows("reading the positions", select, (epoch,)).await?;
        let Some(&(generation, ..)) = rows.last() else { return Ok(KeptPositions::default()) };
        let newest = rows.into_iter().filter(|(of, ..)| *of == generation);
        let next_offsets = newest.map(|(_, partition, next)| (partition, next)).collect();
        Ok(KeptPositions { generation, next_offsets })
    }

    async fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        (partition, next): (i32, Offset),
    ) -> Result<()> {
        let values = (epoch.epoch, generation, partition, next.get(), epoch.version_at(next).0);
        let insert = &self.shared.statements.trips.keep_position;
        self.shared.execute("keeping a position", insert, values).await
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        self.shared.claimed(device_id, epoch).await
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32> {
        self.shared.claim(device_id, epoch, own).await
    }
}
