//! Tags by device, time of the id, and key. Those of a device itself have a time of their own.
//!
//! In a file they are written by a connection of their own: the lock of the store belongs to the
//! process that writes trips.

use rusqlite::{Connection, OptionalExtension, Row, params};
use scylla::value::{CqlTimestamp, CqlValue};

use crate::model::scalar::DeviceTime;
use crate::model::tag::{DEVICE_TIME, Revision, Tag, TagKey, TagValue};
#[cfg(feature = "internals")]
use crate::store::memory::MemoryStore;
use crate::store::scylla::cql::{Columns, Cql, Mode, applied};
use crate::store::scylla::{ScyllaStore, statements};
use crate::store::sqlite::{SqliteStore, all_rows, record_tag};
use crate::store::{Forget, Result, StoreError, TimeSpan, TripStore as _};
use crate::timeline::day_of;

const TAGS: &str = "SELECT t_star, key, value, written, revision FROM trip_tags
     WHERE device_id = ? AND t_star >= ? AND t_star <= ? ORDER BY t_star ASC, key ASC";

statements! { Statements, consistency =>
    of_span: Mode::Listed => TAGS,
    to_change: Mode::Serial(consistency) => TAGS,
    add: Mode::Conditional =>
        "INSERT INTO trip_tags (device_id, t_star, key, value, written, revision)
             VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS",
    replace: Mode::Conditional =>
        "UPDATE trip_tags SET value = ?, written = ?, revision = ?
             WHERE device_id = ? AND t_star = ? AND key = ? IF revision = ?",
    delete: Mode::Conditional =>
        "DELETE FROM trip_tags
             WHERE device_id = ? AND t_star = ? AND key = ? IF revision = ?",
    any: Mode::Listed => "SELECT device_id FROM trip_tags LIMIT 1",
    devices: Mode::Listed => "SELECT DISTINCT device_id FROM trip_tags",
}

/// A row of the table, without its device. Another program may have left columns out.
type TagRow = (CqlTimestamp, String, Option<String>, Option<CqlTimestamp>, Option<i64>);

/// `None` without a revision: the row is of another program, and no tag.
fn read_cql((t_star, key, value, written, revision): TagRow) -> Option<Tag> {
    Some(Tag {
        t_star_ms: DeviceTime(t_star.0),
        key: TagKey::from_store(key),
        value: TagValue::from_store(value.unwrap_or_default()),
        written_ms: written.map_or(0, |written| written.0),
        revision: Revision(revision?),
    })
}

/// Whether a conditional write of a tag was applied. If not, the row has this revision; `None` if
/// there is no row.
fn decision(answer: Columns) -> Result<(), Option<Revision>> {
    if applied(&answer) {
        return Ok(());
    }
    let revision = answer.into_iter().find(|(name, _)| name == "revision");
    let revision = revision.and_then(|(_, value)| value.as_ref().and_then(CqlValue::as_bigint));
    Err(revision.map(Revision))
}

impl<C: Cql> ScyllaStore<C> {
    pub(super) async fn tags(&self, device_id: &str, span: TimeSpan) -> Result<Vec<Tag>> {
        let select = &self.shared.statements.side.tags.of_span;
        let values = (device_id, CqlTimestamp(span.0.ms()), CqlTimestamp(span.1.ms()));
        let rows: Vec<TagRow> = self.shared.rows("reading tags", select, values).await?;
        Ok(rows.into_iter().filter_map(read_cql).collect())
    }

    pub(super) async fn tags_to_change(&self, device_id: &str, span: TimeSpan) -> Result<Vec<Tag>> {
        let select = &self.shared.statements.side.tags.to_change;
        let values = (device_id, CqlTimestamp(span.0.ms()), CqlTimestamp(span.1.ms()));
        let tag = |row| Ok(read_cql(row));
        let rows = self.shared.at_once("reading tags", select, values, tag).await?;
        Ok(rows.into_iter().flatten().collect())
    }

    pub(super) async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool> {
        let (shared, doing) = (&self.shared, "writing a tag");
        let (t_star, written) = (CqlTimestamp(tag.t_star_ms.ms()), CqlTimestamp(tag.written_ms));
        let (key, value, revision) = (tag.key.as_str(), tag.value.as_str(), tag.revision.0);
        let (answer, may_have_been) = match replaced {
            None => {
                let values = (device_id, t_star, key, value, written, revision);
                shared.conditional(doing, &shared.statements.side.tags.add, values).await?
            }
            Some(replaced) => {
                let values = (value, written, revision, device_id, t_star, key, replaced.0);
                shared.conditional(doing, &shared.statements.side.tags.replace, values).await?
            }
        };
        Ok(match decision(answer) {
            Ok(()) => true,
            Err(kept) => may_have_been && kept == Some(tag.revision),
        })
    }

    pub(super) async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool> {
        let (key, revision) = (tag.key.as_str(), tag.revision.0);
        let values = (device_id, CqlTimestamp(tag.t_star_ms.ms()), key, revision);
        let statement = &self.shared.statements.side.tags.delete;
        let (answer, _) = self.shared.conditional("deleting a tag", statement, values).await?;
        // If there is none, an earlier attempt or another process deleted it.
        Ok(matches!(decision(answer), Ok(()) | Err(None)))
    }

    pub(super) async fn has_tags(&self) -> Result<bool> {
        let select = &self.shared.statements.side.tags.any;
        let device = |(device,): (String,)| Ok(device);
        Ok(!self.shared.at_once("reading tags", select, (), device).await?.is_empty())
    }

    pub(super) async fn tagged_devices(&self) -> Result<Vec<String>> {
        let select = &self.shared.statements.side.tags.devices;
        let rows: Vec<(String,)> =
            self.shared.rows("reading the tagged devices", select, ()).await?;
        Ok(rows.into_iter().map(|(device,)| device).collect())
    }
}

impl<C: Cql> ScyllaStore<C> {
    /// Erases the tags before the floor that no trip covers any more, and those of the device if
    /// it has no trip or stop any more. Deletes are conditional, so they are ordered with the
    /// writes, which a delete at the version of the forget would not be: most tags are younger.
    pub(in crate::store) async fn erase_tags(
        &self,
        device_id: &str,
        forget: &Forget,
    ) -> Result<()> {
        let upto_ms = forget.before_ms.saturating_sub(1);
        let tags = self.tags_to_change(device_id, (DeviceTime::MIN, upto_ms)).await?;
        let is_left =
            tags.iter().any(Tag::is_of_device) && self.shared.holds_any(device_id).await?;
        for tag in tags {
            let time_ms = tag.t_star_ms;
            let is_covered = if tag.is_of_device() {
                is_left
            } else {
                // Whole rows: a read of some columns would have replicas repaired in these alone.
                let rows = self.rows_of_day(device_id, day_of(time_ms)).await?;
                rows.iter().any(|row| (row.start_ms..=row.end_ms).contains(&time_ms))
            };
            if !is_covered {
                // A write that comes first finds no trip afterwards, and deletes its tag itself.
                self.delete_tag(device_id, &tag).await?;
            }
        }
        Ok(())
    }
}

fn read_sql(row: &Row<'_>) -> rusqlite::Result<Tag> {
    Ok(Tag {
        t_star_ms: DeviceTime(row.get(0)?),
        key: TagKey::from_store(row.get(1)?),
        value: TagValue::from_store(row.get(2)?),
        written_ms: row.get(3)?,
        revision: Revision(row.get(4)?),
    })
}

fn revision(connection: &Connection, device_id: &str, tag: &Tag) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT revision FROM trip_tags
         WHERE device_id = ?1 AND t_star = ?2 AND key = ?3";
    let mut select = connection.prepare_cached(select)?;
    let key = params![device_id, tag.t_star_ms.0, tag.key.as_str()];
    select.query_row(key, |row| row.get(0)).optional()
}

impl SqliteStore {
    pub(super) async fn tags(&self, device_id: &str, span: TimeSpan) -> Result<Vec<Tag>> {
        let select = "SELECT t_star, key, value, written, revision FROM trip_tags
             WHERE device_id = ?1 AND t_star BETWEEN ?2 AND ?3 ORDER BY t_star ASC, key ASC";
        self.select("reading tags", select, params![device_id, span.0.0, span.1.0], read_sql)
    }

    pub(super) async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool> {
        let doing = "writing a tag";
        let written = self.write_apart(doing, |connection| {
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
        let seen = self.call(doing, |connection| revision(connection, device_id, tag))?;
        if written && seen.is_none() {
            return Err(StoreError::Gone(self.location.clone()));
        }
        Ok(written)
    }

    pub(super) async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool> {
        self.write_apart("deleting a tag", |connection| {
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

    pub(super) async fn has_tags(&self) -> Result<bool> {
        let select = "SELECT EXISTS (SELECT 1 FROM trip_tags)";
        Ok(self.select("reading tags", select, [], |row| row.get::<_, bool>(0))? == [true])
    }

    pub(super) async fn tagged_devices(&self) -> Result<Vec<String>> {
        let select = "SELECT DISTINCT device_id FROM trip_tags ORDER BY device_id ASC";
        self.select("reading the tagged devices", select, [], |row| row.get(0))
    }
}

#[cfg(feature = "internals")]
impl MemoryStore {
    pub(super) async fn tags(&self, device_id: &str, span: TimeSpan) -> Result<Vec<Tag>> {
        let state = self.state();
        let is_wanted = |(device, time_ms, _): &(String, DeviceTime, TagKey)| {
            device == device_id && (span.0..=span.1).contains(time_ms)
        };
        let found = state.tags.iter().filter(|(key, _)| is_wanted(key));
        Ok(found.map(|(_, tag)| tag.clone()).collect())
    }

    pub(super) async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool> {
        let key = (device_id.to_owned(), tag.t_star_ms, tag.key.clone());
        let mut state = self.state();
        let is_same = state.tags.get(&key).map(|tag| tag.revision) == replaced;
        if is_same {
            state.tags.insert(key, tag.clone());
        }
        Ok(is_same)
    }

    pub(super) async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool> {
        let key = (device_id.to_owned(), tag.t_star_ms, tag.key.clone());
        let mut state = self.state();
        if state.tags.get(&key).is_some_and(|found| found.revision == tag.revision) {
            state.tags.remove(&key);
        }
        Ok(!state.tags.contains_key(&key))
    }

    pub(super) async fn has_tags(&self) -> Result<bool> {
        Ok(!self.state().tags.is_empty())
    }

    pub(super) async fn tagged_devices(&self) -> Result<Vec<String>> {
        let mut devices: Vec<String> =
            self.state().tags.keys().map(|(device, ..)| device.clone()).collect();
        devices.dedup();
        Ok(devices)
    }
}

/// Erases the tags before the floor that no trip covers any more, and those of the device if it has
/// no trip or stop any more, in the caller's transaction.
pub(in crate::store) fn erase(
    connection: &Connection,
    device_id: &str,
    forget: &Forget,
) -> rusqlite::Result<()> {
    let select = "SELECT DISTINCT t_star FROM trip_tags WHERE device_id = ?1 AND t_star < ?2";
    let times: Vec<i64> =
        all_rows(connection, select, params![device_id, forget.before_ms.0], |row| row.get(0))?;
    let mut covered = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM trips WHERE device_id = ?1 AND bucket = ?2
         AND end_time >= ?3 AND start_time <= ?3)",
    )?;
    let mut left =
        connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM trips WHERE device_id = ?1)")?;
    let mut delete =
        connection.prepare_cached("DELETE FROM trip_tags WHERE device_id = ?1 AND t_star = ?2")?;
    for t_star_ms in times {
        let bucket = day_of(DeviceTime(t_star_ms)).start_ms();
        let is_covered: bool = if t_star_ms == DEVICE_TIME.0 {
            left.query_row([device_id], |row| row.get(0))?
        } else {
            covered.query_row(params![device_id, bucket.0, t_star_ms], |row| row.get(0))?
        };
        if !is_covered {
            delete.execute(params![device_id, t_star_ms])?;
        }
    }
    Ok(())
}
