//! Rows as they lie in the file, and a file of the kind that is compared with.

use std::path::Path;
use std::sync::LazyLock;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::{SqliteStore, failed, trips};
use crate::identity;
use crate::store::raw::{COLUMNS, Cell, RawRow, RawRows};
use crate::store::{StoreError, TripRow};
use crate::timeline::{DAY_MS, day_of};

/// Days of devices read at once.
const PAGE: i64 = 64;

/// Days of every device, or of one, after a device and day: for one no other's is looked at.
const DAYS: &str = "SELECT DISTINCT device_id, bucket FROM trips
     WHERE (device_id, bucket) > (?1, ?2) ORDER BY device_id ASC, bucket ASC LIMIT ?3";
const DAYS_OF_ONE: &str = "SELECT DISTINCT device_id, bucket FROM trips
     WHERE device_id = ?1 AND bucket > ?2 ORDER BY device_id ASC, bucket ASC LIMIT ?3";

/// The same of those that were not compared.
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

fn raw(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    Ok(RawRow {
        device_id: row.get(0)?,
        bucket_ms: row.get(1)?,
        end_ms: row.get(2)?,
        start_ms: row.get(3)?,
        cells: (4..4 + COLUMNS.len()).map(|at| cell(row, at)).collect::<rusqlite::Result<_>>()?,
    })
}

fn day(connection: &Connection, device_id: &str, bucket_ms: i64) -> rusqlite::Result<Vec<RawRow>> {
    let mut statement = connection.prepare_cached(&RAW_DAY)?;
    let rows = statement.query_map(params![device_id, bucket_ms], raw)?;
    rows.collect()
}

/// Days of devices, after a device and day, by one of the statements above.
fn days_after(
    connection: &Connection,
    select: &str,
    (device_id, bucket_ms): (&str, i64),
    limit: i64,
) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut days = connection.prepare_cached(select)?;
    let days =
        days.query_map(params![device_id, bucket_ms, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    days.collect()
}

impl RawRows for SqliteStore {
    /// The last device and day that were read.
    type Cursor = (String, i64);

    async fn raw_rows(
        &self,
        device_id: Option<&str>,
        from: Option<Self::Cursor>,
    ) -> Result<(Vec<RawRow>, Option<Self::Cursor>), StoreError> {
        let (after, bucket) = from.unwrap_or_else(|| {
            let first = device_id.map_or_else(String::new, ToOwned::to_owned);
            (first, i64::MIN)
        });
        let read = |connection: &Connection| {
            let select = if device_id.is_some() { DAYS_OF_ONE } else { DAYS };
            let days = days_after(connection, select, (&after, bucket), PAGE)?;
            let mut rows = Vec::new();
            for (device_id, bucket_ms) in &days {
                rows.append(&mut day(connection, device_id, *bucket_ms)?);
            }
            Ok::<_, rusqlite::Error>((rows, days.into_iter().next_back()))
        };
        read(&self.connection()).map_err(failed(&self.place, "reading every trip"))
    }

    async fn raw_day(&self, device_id: &str, at: i64) -> Result<Vec<RawRow>, StoreError> {
        day(&self.connection(), device_id, at * DAY_MS)
            .map_err(failed(&self.place, "reading trips of a day"))
    }

    async fn unlisted(&self, device_id: &str, days: &[i64]) -> Result<Vec<i64>, StoreError> {
        let shard = identity::shard(device_id);
        let is_listed = |connection: &Connection, bucket: i64| {
            let mut listed = connection.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM days_of_device WHERE device_id = ?1 AND bucket = ?2)
                 AND EXISTS (SELECT 1 FROM device_days
                     WHERE bucket = ?2 AND shard = ?3 AND device_id = ?1)",
            )?;
            listed.query_row(params![device_id, bucket, shard], |row| row.get::<_, bool>(0))
        };
        let connection = self.connection();
        let mut lacking = Vec::new();
        for &day in days {
            let listed = is_listed(&connection, day * DAY_MS);
            if !listed.map_err(failed(&self.place, "reading the lists of days"))? {
                lacking.push(day);
            }
        }
        Ok(lacking)
    }

    async fn repair_rows(&self, wrong: &[RawRow], right: &[TripRow]) -> Result<(), StoreError> {
        let set = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            let delete = "DELETE FROM trips WHERE device_id = ?1 AND bucket = ?2
                 AND end_time = ?3 AND start_time = ?4";
            for row in wrong {
                let key = params![row.device_id, row.bucket_ms, row.end_ms, row.start_ms];
                transaction.prepare_cached(delete)?.execute(key)?;
            }
            right.iter().try_for_each(|row| trips::put_again(&transaction, row))?;
            transaction.commit()
        };
        set(&mut self.connection()).map_err(failed(&self.place, "setting trips right"))
    }
}

impl SqliteStore {
    /// Notes that a day of a device was compared.
    ///
    /// # Errors
    /// The database fails.
    pub fn note_compared(&self, device_id: &str, bucket_ms: i64) -> Result<(), StoreError> {
        let note = "INSERT OR IGNORE INTO compared (device_id, bucket) VALUES (?1, ?2)";
        let noted = |connection: &Connection| {
            connection.prepare_cached(note)?.execute(params![device_id, bucket_ms]).map(drop)
        };
        noted(&self.connection()).map_err(failed(&self.place, "noting a day"))
    }

    /// Days of devices, or of one, that hold trips and were not compared, those after a place.
    ///
    /// # Errors
    /// The database fails.
    pub fn not_compared(
        &self,
        device_id: Option<&str>,
        after: Option<&(String, i64)>,
        limit: usize,
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let select = if device_id.is_some() { LEFT_OF_ONE } else { LEFT };
        let first = (device_id.unwrap_or("").to_owned(), i64::MIN);
        let (device, bucket) = after.unwrap_or(&first);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        days_after(&self.connection(), select, (device, *bucket), limit)
            .map_err(failed(&self.place, "reading the days that are left"))
    }

    /// Forgets which days were compared.
    ///
    /// # Errors
    /// The database fails.
    pub fn compare_anew(&self) -> Result<(), StoreError> {
        let begin = "CREATE TABLE IF NOT EXISTS compared (
               device_id TEXT NOT NULL, bucket INTEGER NOT NULL, PRIMARY KEY (device_id, bucket)
             ) WITHOUT ROWID;
             DELETE FROM compared;";
        let begun = self.connection().execute_batch(begin);
        begun.map_err(failed(&self.place, "beginning to compare"))
    }

    /// What SQLite finds wrong with the file; `None`: nothing.
    ///
    /// # Errors
    /// The database fails.
    pub fn is_sound(&self) -> Result<Option<String>, StoreError> {
        let check = "PRAGMA quick_check(1)";
        let found = self.connection().query_row(check, [], |row| row.get::<_, String>(0));
        let found = found.map_err(failed(&self.place, "checking the file"))?;
        Ok(Some(found).filter(|found| found != "ok"))
    }

    /// The days of a device that are listed, rising, as whole days since 1970.
    ///
    /// # Errors
    /// The database fails.
    pub fn listed_days(&self, device_id: &str) -> Result<Vec<i64>, StoreError> {
        self.days_of(device_id, day_of(i64::MIN), day_of(i64::MAX))
    }

    /// A store in a file without a name, for what is compared and thrown away: nothing of it
    /// outlives the process, and nothing waits for the disk. Keeps no dead letters, no changes.
    ///
    /// # Errors
    /// The folder takes no file.
    pub fn scratch(
        folder: &Path,
        rules: &crate::model::rules::Rules,
        of_topic: bool,
    ) -> Result<Self, StoreError> {
        super::open::scratch(folder, rules, of_topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;

    #[test]
    fn of_one_device_no_other_is_looked_at() {
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
