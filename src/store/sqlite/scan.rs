//! Raw rows, comparisons and repairs of the file.

use std::sync::LazyLock;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::{SqliteStore, all_rows, at_most, trips};
use crate::identity;
use crate::model::scalar::{Day, DeviceTime};
use crate::store::lookup::days::ALL_DAYS;
use crate::store::raw::{COLUMNS, Cell, RawRow, ScanCursor};
use crate::store::{Order, Result, TripRow};

/// Days (device, bucket) read per page.
const PAGE: i64 = 64;

/// Days of all devices or of one, after a device and day. The second reads no other device.
const DAYS: &str = "SELECT DISTINCT device_id, bucket FROM trips
     WHERE (device_id, bucket) > (?1, ?2) ORDER BY device_id ASC, bucket ASC LIMIT ?3";
const DAYS_OF_ONE: &str = "SELECT DISTINCT device_id, bucket FROM trips
     WHERE device_id = ?1 AND bucket > ?2 ORDER BY device_id ASC, bucket ASC LIMIT ?3";

/// The same for days that are not compared yet.
const LEFT: &str = "SELECT DISTINCT device_id, bucket FROM trips
     WHERE (device_id, bucket) > (?1, ?2) AND NOT EXISTS (SELECT 1 FROM compared
         WHERE compared.device_id = trips.device_id AND compared.bucket = trips.bucket)
     ORDER BY device_id ASC, bucket ASC LIMIT ?3";
const LEFT_OF_ONE: &str = "SELECT DISTINCT device_id, bucket FROM trips
     WHERE device_id = ?1 AND bucket > ?2 AND NOT EXISTS (SELECT 1 FROM compared
         WHERE compared.device_id = trips.device_id AND compared.bucket = trips.bucket)
     ORDER BY device_id ASC, bucket ASC LIMIT ?3";

static RAW_DAY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT device_id, bucket, end_time, start_time, {} FROM trips
         WHERE device_id = ?1 AND bucket = ?2 ORDER BY end_time ASC, start_time ASC",
        COLUMNS.join(", ")
    )
});

fn cell(row: &Row<'_>, at: usize) -> rusqlite::Result<Cell> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Int(value),
        ValueRef::Real(value) => Cell::Real(value),
        ValueRef::Text(value) => Cell::Text(text(value)),
        ValueRef::Blob(value) => Cell::Blob(value.to_vec()),
    })
}

fn read_raw(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    Ok(RawRow {
        device_id: row.get(0)?,
        bucket_ms: DeviceTime(row.get(1)?),
        end_ms: DeviceTime(row.get(2)?),
        start_ms: DeviceTime(row.get(3)?),
        cells: (4..4 + COLUMNS.len()).map(|at| cell(row, at)).collect::<rusqlite::Result<_>>()?,
    })
}

fn rows_of_bucket(
    connection: &Connection,
    device_id: &str,
    bucket_ms: DeviceTime,
) -> rusqlite::Result<Vec<RawRow>> {
    all_rows(connection, &RAW_DAY, params![device_id, bucket_ms.0], read_raw)
}

/// Runs one of the statements above.
fn days_after(
    connection: &Connection,
    select: &str,
    (device_id, bucket_ms): (&str, DeviceTime),
    limit: i64,
) -> rusqlite::Result<Vec<(String, DeviceTime)>> {
    let values = params![device_id, bucket_ms.0, limit];
    all_rows(connection, select, values, |row| Ok((row.get(0)?, DeviceTime(row.get(1)?))))
}

/// What [`AnyStore`](crate::store::AnyStore) documents.
impl SqliteStore {
    pub(in crate::store) async fn raw_rows(
        &self,
        device_id: Option<&str>,
        from: Option<ScanCursor>,
    ) -> Result<(Vec<RawRow>, Option<ScanCursor>)> {
        let (after, bucket) = match from {
            Some(ScanCursor::After(device_id, bucket)) => (device_id, bucket),
            _ => (device_id.unwrap_or("").to_owned(), DeviceTime::MIN),
        };
        self.call("reading every trip", |connection| {
            let select = if device_id.is_some() { DAYS_OF_ONE } else { DAYS };
            let days = days_after(connection, select, (&after, bucket), PAGE)?;
            let mut rows = Vec::new();
            for (device_id, bucket_ms) in &days {
                rows.append(&mut rows_of_bucket(connection, device_id, *bucket_ms)?);
            }
            let last = days.into_iter().next_back();
            let next = last.map(|(device_id, bucket)| ScanCursor::After(device_id, bucket));
            Ok((rows, next))
        })
    }

    pub(in crate::store) async fn raw_day(&self, device_id: &str, day: Day) -> Result<Vec<RawRow>> {
        let read = |it: &mut Connection| rows_of_bucket(it, device_id, day.start_ms());
        self.call("reading trips of a day", read)
    }

    pub(in crate::store) async fn unlisted(
        &self,
        device_id: &str,
        days: &[Day],
    ) -> Result<Vec<Day>> {
        let shard = identity::shard(device_id);
        let select =
            "SELECT EXISTS (SELECT 1 FROM days_of_device WHERE device_id = ?1 AND bucket = ?2)
             AND EXISTS (SELECT 1 FROM device_days
                 WHERE bucket = ?2 AND shard = ?3 AND device_id = ?1)";
        let mut missing = Vec::new();
        for &day in days {
            let key = params![device_id, day.start_ms().0, shard];
            let is_listed = |row: &Row<'_>| row.get::<_, bool>(0);
            if self.select("reading the day indexes", select, key, is_listed)? == [false] {
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
        self.call("repairing trips", |connection| {
            let transaction = connection.transaction()?;
            let delete = "DELETE FROM trips WHERE device_id = ?1 AND bucket = ?2
                 AND end_time = ?3 AND start_time = ?4";
            for row in wrong {
                let key = params![row.device_id, row.bucket_ms.0, row.end_ms.0, row.start_ms.0];
                transaction.prepare_cached(delete)?.execute(key)?;
            }
            right.iter().try_for_each(|row| trips::put_and_index(&transaction, row))?;
            transaction.commit()
        })
    }
}

impl SqliteStore {
    /// Records that a day of a device was compared.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn note_compared(&self, device_id: &str, bucket_ms: DeviceTime) -> Result<()> {
        let insert = "INSERT OR IGNORE INTO compared (device_id, bucket) VALUES (?1, ?2)";
        self.call("recording a compared day", |connection| {
            connection.prepare_cached(insert)?.execute(params![device_id, bucket_ms.0]).map(drop)
        })
    }

    /// Days with trips that are not compared yet, of all devices or of one, after a device and day.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn not_compared(
        &self,
        device_id: Option<&str>,
        after: Option<&(String, DeviceTime)>,
        limit: usize,
    ) -> Result<Vec<(String, DeviceTime)>> {
        let select = if device_id.is_some() { LEFT_OF_ONE } else { LEFT };
        let first = (device_id.unwrap_or("").to_owned(), DeviceTime::MIN);
        let (device, bucket) = after.unwrap_or(&first);
        let days = |it: &mut Connection| days_after(it, select, (device, *bucket), at_most(limit));
        self.call("reading the days to compare", days)
    }

    /// Clears the record of compared days.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn compare_anew(&self) -> Result<()> {
        let reset = "CREATE TABLE IF NOT EXISTS compared (
               device_id TEXT NOT NULL, bucket INTEGER NOT NULL, PRIMARY KEY (device_id, bucket)
             ) WITHOUT ROWID;
             DELETE FROM compared;";
        self.call("clearing the compared days", |connection| connection.execute_batch(reset))
    }

    /// The indexed days of a device, ascending, as whole days since 1970.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn listed_days(&self, device_id: &str) -> Result<Vec<Day>> {
        self.page_of_days(device_id, ALL_DAYS, Order::Asc, usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;

    #[test]
    fn queries_for_one_device_read_no_other() {
        let store = SqliteStore::scratch(&std::env::temp_dir(), &Rules::default(), true).unwrap();
        store.compare_anew().unwrap();
        for select in [DAYS_OF_ONE, LEFT_OF_ONE] {
            let connection = store.connection();
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {select}")).unwrap();
            let steps = plan.query_map(params!["a", 0, 1], |row| row.get::<_, String>(3)).unwrap();
            let steps: Vec<_> = steps.map(Result::unwrap).collect();
            let of_trips = steps.iter().find(|step| step.contains(" trips ")).unwrap();
            assert!(of_trips.contains("(device_id=? AND bucket>?)"), "{steps:?}");
        }
    }
}
