//! Tags in SQLite, written by a connection of their own: the lock of the store belongs to the
//! process that writes trips.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::journal::record_tag;
use super::open::{FORMATS, connect, format, newest};
use super::{SqliteStore, failed};
use crate::model::scalar::DeviceTime;
use crate::model::tag::{Revision, Tag, TagKey, TagValue};
use crate::store::tags::TagStore;
use crate::store::{Forget, StoreError};
use crate::timeline::day_of;

/// How long a write of a tag waits for the process that writes trips. It blocks its thread.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

const TAGS: &str = "SELECT t_star, key, value, written, revision FROM trip_tags
     WHERE device_id = ?1 AND t_star BETWEEN ?2 AND ?3 ORDER BY t_star ASC, key ASC";

fn read(row: &Row<'_>) -> rusqlite::Result<Tag> {
    Ok(Tag {
        t_star_ms: DeviceTime(row.get(0)?),
        key: TagKey::from_store(row.get(1)?),
        value: TagValue::from_store(row.get(2)?),
        written_ms: row.get(3)?,
        revision: Revision(row.get(4)?),
    })
}

fn tags(
    connection: &Connection,
    device_id: &str,
    from_ms: DeviceTime,
    upto_ms: DeviceTime,
) -> rusqlite::Result<Vec<Tag>> {
    let mut select = connection.prepare_cached(TAGS)?;
    let found = select.query_map(params![device_id, from_ms.0, upto_ms.0], read)?;
    found.collect()
}

fn revision(connection: &Connection, device_id: &str, tag: &Tag) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT revision FROM trip_tags
         WHERE device_id = ?1 AND t_star = ?2 AND key = ?3";
    let mut select = connection.prepare_cached(select)?;
    let key = params![device_id, tag.t_star_ms.0, tag.key.as_str()];
    select.query_row(key, |row| row.get(0)).optional()
}

impl SqliteStore {
    /// Writes to the table of tags in a transaction of its own.
    fn write_tags<T>(
        &self,
        doing: &'static str,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.check_path()?;
        let failed = failed(&self.location, doing);
        let path = self.connection().path().map(str::to_owned).unwrap_or_default();
        let connection = connect(Path::new(&path)).map_err(&failed)?;
        if format(&connection, &self.location, FORMATS)? != Some(newest(FORMATS)) {
            return Err(StoreError::Gone { location: self.location.clone() });
        }
        connection.busy_timeout(BUSY_TIMEOUT).map_err(&failed)?;
        let settings = "PRAGMA synchronous = FULL; BEGIN IMMEDIATE";
        connection.execute_batch(settings).map_err(&failed)?;
        // Without a commit, closing the connection rolls back.
        let written = write(&connection).map_err(&failed)?;
        connection.execute_batch("COMMIT").map_err(&failed)?;
        Ok(written)
    }
}

impl TagStore for SqliteStore {
    async fn tags(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>, StoreError> {
        tags(&self.connection(), device_id, from_ms, upto_ms)
            .map_err(failed(&self.location, "reading tags"))
    }

    async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool, StoreError> {
        let doing = "writing a tag";
        let written = self.write_tags(doing, |connection| {
            if revision(connection, device_id, tag)?.map(Revision) != replaced {
                return Ok(false);
            }
            let put = "INSERT OR REPLACE INTO trip_tags
                 (device_id, t_star, key, value, written, revision) VALUES (?, ?, ?, ?, ?, ?)";
            let (key, value) = (tag.key.as_str(), tag.value.as_str());
            let values =
                params![device_id, tag.t_star_ms.0, key, value, tag.written_ms, tag.revision.0];
            connection.execute(put, values)?;
            record_tag(connection, device_id, (tag, false), self.keep_changes)?;
            Ok(true)
        })?;
        // A reader keeps the file that it opened, and does not see what is written to another.
        let seen = revision(&self.connection(), device_id, tag);
        let seen = seen.map_err(failed(&self.location, doing))?;
        if written && seen.is_none() {
            return Err(StoreError::Gone { location: self.location.clone() });
        }
        Ok(written)
    }

    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool, StoreError> {
        self.write_tags("deleting a tag", |connection| {
            let delete = "DELETE FROM trip_tags
                 WHERE device_id = ? AND t_star = ? AND key = ? AND revision = ?";
            let key = tag.key.as_str();
            let deleted = connection
                .execute(delete, params![device_id, tag.t_star_ms.0, key, tag.revision.0])?;
            if deleted > 0 {
                record_tag(connection, device_id, (tag, true), self.keep_changes)?;
            }
            Ok(revision(connection, device_id, tag)?.is_none())
        })
    }

    async fn has_tags(&self) -> Result<bool, StoreError> {
        let select = "SELECT EXISTS (SELECT 1 FROM trip_tags)";
        let found = self.connection().query_row(select, [], |row| row.get(0));
        found.map_err(failed(&self.location, "reading tags"))
    }

    async fn tagged_devices(&self) -> Result<Vec<String>, StoreError> {
        let select = |connection: &Connection| {
            let mut select = connection.prepare_cached(
                "SELECT DISTINCT device_id FROM trip_tags ORDER BY device_id ASC",
            )?;
            let found = select.query_map([], |row| row.get(0))?;
            found.collect::<rusqlite::Result<Vec<String>>>()
        };
        select(&self.connection()).map_err(failed(&self.location, "reading the tagged devices"))
    }
}

/// Erases the tags before the floor that no trip covers any more, in the caller's transaction.
pub(super) fn erase(
    connection: &Connection,
    device_id: &str,
    forget: &Forget,
) -> rusqlite::Result<()> {
    let select = "SELECT DISTINCT t_star FROM trip_tags WHERE device_id = ?1 AND t_star < ?2";
    let mut select = connection.prepare_cached(select)?;
    let times = select.query_map(params![device_id, forget.before_ms.0], |row| row.get(0))?;
    let mut covered = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM trips WHERE device_id = ?1 AND bucket = ?2
         AND end_time >= ?3 AND start_time <= ?3)",
    )?;
    let mut delete =
        connection.prepare_cached("DELETE FROM trip_tags WHERE device_id = ?1 AND t_star = ?2")?;
    for t_star_ms in times.collect::<rusqlite::Result<Vec<i64>>>()? {
        let bucket = day_of(DeviceTime(t_star_ms)).start_ms();
        let is_covered: bool =
            covered.query_row(params![device_id, bucket.0, t_star_ms], |row| row.get(0))?;
        if !is_covered {
            delete.execute(params![device_id, t_star_ms])?;
        }
    }
    Ok(())
}
