//! Trip rows in SQLite.

use rusqlite::{CachedStatement, Connection, Error, Row, params, params_from_iter};

use super::row;
use super::{SqliteStore, at_most, forgets};
use crate::codec::trip_row::trip_columns;
use crate::identity::{self, SHARDS};
use crate::model::epoch::Epoch;
use crate::model::scalar::{Day, DeviceTime, Offset, Version};
use crate::store::positions::KeptPositions;
use crate::store::skip::{self, is_whole};
use crate::store::{
    DeviceScope, Forget, Order, Result, RowError, TripEnd, TripRow, TripStore, WriteGroup,
};
use crate::timeline::day_of;

macro_rules! name_columns {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        concat!("device_id, end_time, start_time", $(", ", stringify!($name)),*)
    };
}

macro_rules! name_placeholders {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        concat!(":device_id, :end_time, :start_time", $(", :", stringify!($name)),*)
    };
}

/// The columns but `bucket`, in the order of [`row::read`] and [`row::values`].
macro_rules! columns {
    () => {
        trip_columns!(name_columns)
    };
}

/// A lookup reads at most this many rows; a day needs more only if another program wrote to it.
const LOOKUP_ROWS: i64 = 64;

/// Rows that a lookup reads at first. If trips are disjoint, the first row decides.
const LOOKUP_PAGE: u32 = 4;

/// Deletes every older row within the span, whatever its key.
const DELETE: &str = "DELETE FROM trips WHERE device_id = ?1 AND bucket = ?2
     AND end_time >= ?3 AND end_time <= ?4 AND version <= ?5";

/// Inserts nothing if a newer row overlaps the span: by the overlap rule that row contains the
/// trip.
const INSERT: &str = concat!(
    "INSERT INTO trips (bucket, ",
    columns!(),
    ") SELECT :bucket, ",
    trip_columns!(name_placeholders),
    "
     WHERE NOT EXISTS (SELECT 1 FROM trips WHERE device_id = :device_id AND bucket = :bucket
       AND end_time >= :start_time AND start_time <= :end_time AND version > :version)"
);

const COVERING: &str = concat!(
    "SELECT ",
    columns!(),
    ", bucket FROM trips WHERE device_id = ?1 AND bucket = ?2 AND end_time >= ?3
     ORDER BY end_time ASC, start_time ASC LIMIT ?4"
);

const OF_DAY: &str = concat!(
    "SELECT ",
    columns!(),
    ", bucket FROM trips WHERE device_id = ?1 AND bucket = ?2 AND end_time >= ?3
     ORDER BY end_time ASC, start_time ASC"
);

/// The rows of a day before a time, the nearest first.
const BEFORE: &str = concat!(
    "SELECT ",
    columns!(),
    ", bucket FROM trips WHERE device_id = ?1 AND bucket = ?2 AND end_time < ?3
     ORDER BY end_time DESC, start_time DESC LIMIT ?4"
);

/// Writes a group in the caller's transaction.
pub(super) fn put(connection: &Connection, group: &WriteGroup) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached(DELETE)?;
    let mut insert = connection.prepare_cached(INSERT)?;
    for day in group.days() {
        let (id, bucket) = (group.device_id(), day.start_ms());
        // If a row of the day is replaced, the day is in the index already.
        let mut is_listed = false;
        for span in group.taken_on(day) {
            let span = params![id, bucket.0, span.start_ms.0, span.end_ms.0, span.version.0];
            is_listed |= delete.execute(span)? > 0;
        }
        for row in group.rows_on(day) {
            let mut values = row::values(row);
            // In the order in which the placeholders first occur.
            values[0] = bucket.ms().into();
            insert.execute(params_from_iter(&values))?;
            if !is_listed {
                list_day(connection, id, bucket)?;
                is_listed = true;
            }
        }
    }
    Ok(())
}

/// Writes the copies of a trip, and adds its days to both indexes without any shortcut.
pub(super) fn put_and_index(connection: &Connection, trip: &TripRow) -> rusqlite::Result<()> {
    put(connection, &trip.clone().into())?;
    let (id, shard) = (&trip.device_id, identity::shard(&trip.device_id));
    for day in trip.days() {
        connection.prepare_cached(LIST_DAY)?.execute(params![id, day.start_ms().0])?;
        connection.prepare_cached(LIST_DEVICE)?.execute(params![day.start_ms().0, shard, id])?;
    }
    Ok(())
}

const LIST_DAY: &str = "INSERT OR IGNORE INTO days_of_device (device_id, bucket) VALUES (?1, ?2)";

const LIST_DEVICE: &str =
    "INSERT OR IGNORE INTO device_days (bucket, shard, device_id) VALUES (?1, ?2, ?3)";

fn list_day(connection: &Connection, device_id: &str, bucket: DeviceTime) -> rusqlite::Result<()> {
    if connection.prepare_cached(LIST_DAY)?.execute(params![device_id, bucket.0])? == 1 {
        let shard = identity::shard(device_id);
        connection.prepare_cached(LIST_DEVICE)?.execute(params![bucket.0, shard, device_id])?;
    }
    Ok(())
}

/// Days of a device, at most ?4.
const DAYS: &str = "SELECT bucket FROM days_of_device WHERE device_id = ?1
     AND bucket >= ?2 AND bucket <= ?3 ORDER BY bucket ASC LIMIT ?4";
const DAYS_DESC: &str = "SELECT bucket FROM days_of_device WHERE device_id = ?1
     AND bucket >= ?2 AND bucket <= ?3 ORDER BY bucket DESC LIMIT ?4";

const DEVICES: &str = "SELECT device_id FROM days_of_device WHERE device_id > ?1
     GROUP BY device_id ORDER BY device_id ASC LIMIT ?2";

/// Devices of one shard of a day. A query for all shards would read the whole day for each page.
const DEVICES_OF_SHARD: &str = "SELECT device_id FROM device_days WHERE device_id > ?1
     AND bucket = ?3 AND shard = ?4 ORDER BY device_id ASC LIMIT ?2";

/// The kind has the place that it has in whole rows, so that a fault is logged once. The bucket is
/// the last column.
const ENDS_OF_DAY: &str =
    "SELECT device_id, end_time, start_time, t_star, kind, version, end_lat, end_lon,
     bucket FROM trips WHERE device_id = ?1 AND bucket = ?2
     ORDER BY end_time DESC, start_time DESC LIMIT ?3";

const END_BUCKET: usize = 8;

const LISTING: &str = "listing devices";

fn read_end(row: &Row<'_>) -> rusqlite::Result<TripEnd> {
    Ok(TripEnd {
        end_ms: DeviceTime(row.get(1)?),
        start_ms: DeviceTime(row.get(2)?),
        t_star_ms: DeviceTime(row.get(3)?),
        kind: row::kind(row, 4)?,
        version: Version(row.get(5)?),
        lat: row.get(6)?,
        lon: row.get(7)?,
    })
}

/// A row; `None` if its columns cannot be decoded, which is counted and logged.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<TripRow>> {
    unless_malformed(row, row::BUCKET, row::read(row))
}

/// What was decoded from a row; `None` if its columns cannot be decoded, which is counted and
/// logged. Columns 0 to 2 are the key without the bucket, `bucket_at` is the index of the bucket.
fn unless_malformed<T>(
    row: &Row<'_>,
    bucket_at: usize,
    decoded: rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    match decoded {
        Ok(read) => Ok(Some(read)),
        Err(
            error @ (Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)),
        ) => {
            skip::malformed(&RowError {
                device: String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned(),
                bucket: DeviceTime(row.get(bucket_at)?),
                start_ms: DeviceTime(row.get(2)?),
                end_ms: DeviceTime(row.get(1)?),
                reason: error.to_string(),
            });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The row with the highest version of those that cover a time, and the number of rows read. Reads
/// past the first page only if no row of it covers the time.
fn decide(
    statement: &mut CachedStatement<'_>,
    key: (&str, DeviceTime),
    time_ms: DeviceTime,
) -> rusqlite::Result<(Option<TripRow>, u64)> {
    let mut rows = statement.query(params![key.0, key.1.0, time_ms.0, LOOKUP_ROWS])?;
    let mut best: Option<TripRow> = None;
    let mut rows_seen = 0;
    while let Some(row) = rows.next()? {
        rows_seen += 1;
        let Some(row) = read(row)? else { continue };
        let is_newer = best.as_ref().is_none_or(|best| row.version > best.version);
        if row.start_ms <= time_ms && is_newer && is_whole(&row) {
            best = Some(row);
        }
        if rows_seen >= u64::from(LOOKUP_PAGE) && best.is_some() {
            break;
        }
    }
    Ok((best, rows_seen))
}

impl SqliteStore {
    /// Makes all reads until [`Self::end_snapshot`] see the store as it is at the first of them.
    ///
    /// # Errors
    /// The database fails.
    pub(in crate::store) fn begin_snapshot(&self) -> Result<()> {
        self.call("beginning to read", |connection| connection.execute_batch("BEGIN DEFERRED"))
    }

    /// Ends the snapshot. Nothing was written, so nothing can be lost.
    pub(in crate::store) fn end_snapshot(&self) {
        self.connection().execute_batch("COMMIT").ok();
    }

    /// At most `limit` days of a device in `from..=upto`, in the given order.
    pub(super) fn page_of_days(
        &self,
        device_id: &str,
        (from, upto): (Day, Day),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Day>> {
        let select = match order {
            Order::Asc => DAYS,
            Order::Desc => DAYS_DESC,
        };
        let span = params![device_id, from.start_ms().0, upto.start_ms().0, at_most(limit)];
        let read = |row: &Row<'_>| Ok(day_of(DeviceTime(row.get(0)?)));
        self.count_and_select("reading the days of a device", select, span, read)
    }
}

impl TripStore for SqliteStore {
    async fn write(&self, groups: &[WriteGroup]) -> Result<()> {
        let connection = self.connection();
        let apply = || {
            // A claim may have begun the transaction; it becomes durable with the rows.
            if connection.is_autocommit() {
                connection.execute_batch("BEGIN IMMEDIATE")?;
            }
            groups.iter().try_for_each(|group| put(&connection, group))?;
            connection.execute_batch("COMMIT")
        };
        self.or_rollback(&connection, apply())
    }

    async fn covering(&self, device_id: &str, time_ms: DeviceTime) -> Result<Option<TripRow>> {
        let (best, read) = self.call("looking up a time", |connection| {
            let mut statement = connection.prepare_cached(COVERING)?;
            decide(&mut statement, (device_id, day_of(time_ms).start_ms()), time_ms)
        })?;
        self.rows_read.add(read);
        Ok(best)
    }

    async fn rows_from(
        &self,
        device_id: &str,
        day: Day,
        from_ms: DeviceTime,
    ) -> Result<Vec<TripRow>> {
        let values = params![device_id, day.start_ms().0, from_ms.0];
        let rows = self.count_and_select("reading trips of a day", OF_DAY, values, read)?;
        Ok(rows.into_iter().flatten().collect())
    }

    async fn near(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
        order: Order,
    ) -> Result<Vec<TripRow>> {
        let select = match order {
            Order::Asc => COVERING,
            Order::Desc => BEFORE,
        };
        let values = params![device_id, day_of(time_ms).start_ms().0, time_ms.0, LOOKUP_PAGE];
        let rows = self.count_and_select("looking up a time", select, values, read)?;
        Ok(rows.into_iter().flatten().collect())
    }

    async fn days(
        &self,
        device_id: &str,
        span: (Day, Day),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Day>> {
        self.page_of_days(device_id, span, order, limit)
    }

    async fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>> {
        let (day, shards) = match scope {
            DeviceScope::All => (None, 0..1),
            DeviceScope::OfDay(day) => (Some(day), 0..SHARDS),
            DeviceScope::OfShard(day, shard) => (Some(day), shard..shard + 1),
        };
        // No device id is empty, so the empty text sorts before all of them.
        let (after, max) = (after.unwrap_or(""), at_most(limit));
        let mut found: Vec<String> = Vec::new();
        for shard in shards {
            let read = |row: &Row<'_>| row.get(0);
            found.append(&mut match day.map(|day| day.start_ms()) {
                None => self.count_and_select(LISTING, DEVICES, params![after, max], read)?,
                Some(bucket) => {
                    let values = params![after, max, bucket.0, shard];
                    self.count_and_select(LISTING, DEVICES_OF_SHARD, values, read)?
                }
            });
        }
        // Each shard is sorted on its own.
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }

    async fn ends_of_day(&self, device_id: &str, day: Day, limit: usize) -> Result<Vec<TripEnd>> {
        let values = params![device_id, day.start_ms().0, at_most(limit)];
        let read = |row: &Row<'_>| unless_malformed(row, END_BUCKET, read_end(row));
        let doing = "reading the last trips of a day";
        let rows = self.count_and_select(doing, ENDS_OF_DAY, values, read)?;
        Ok(rows.into_iter().flatten().collect())
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>> {
        self.select("reading forgets", forgets::OF_DEVICE, [device_id], forgets::read)
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>> {
        Ok(self.select("reading forgets", forgets::COMBINED, [device_id], forgets::read)?.pop())
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<()> {
        // In the transaction of the flush, so all steps become durable together.
        let connection = self.connection();
        let erased = self
            .begin_transaction(&connection)
            .and_then(|()| forgets::erase(&connection, device_id, forget));
        self.or_rollback(&connection, erased)
    }

    async fn positions(&self, _epoch: i32) -> Result<KeptPositions> {
        Ok(KeptPositions { generation: 0, next_offsets: self.all_positions()? })
    }

    async fn keep_position(
        &self,
        _epoch: &Epoch,
        _generation: i32,
        (partition, next): (i32, Offset),
    ) -> Result<()> {
        self.set_position(partition, next.get())
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        self.claim_of(device_id, epoch)
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32> {
        self.add_claim(device_id, epoch, own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;

    /// The steps of SQLite's query plan.
    fn plan(connection: &Connection, select: &str) -> Vec<String> {
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {select}")).unwrap();
        let unbound = vec![rusqlite::types::Null; explain.parameter_count()];
        let steps = explain.query_map(rusqlite::params_from_iter(unbound), |row| row.get(3));
        steps.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    #[test]
    fn queries_read_only_the_rows_they_return() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plans.db");
        let store = SqliteStore::open_writer(&path, &Rules::default(), 0).unwrap();
        let of_day = "SEARCH trips USING INDEX trips_key (device_id=? AND bucket=? AND end_time>?)";
        let days =
            "SEARCH days_of_device USING PRIMARY KEY (device_id=? AND bucket>? AND bucket<?)";
        let of_shard =
            "SEARCH device_days USING PRIMARY KEY (bucket=? AND shard=? AND device_id>?)";
        for (select, step) in
            [(COVERING, of_day), (OF_DAY, of_day), (DAYS, days), (DAYS_DESC, days)]
                .into_iter()
                .chain([(DEVICES_OF_SHARD, of_shard)])
        {
            assert_eq!(plan(&store.connection(), select), [step], "{select}");
        }
    }
}
