//! What the file keeps next to its trips.
//!
//! Tags are written by a connection of their own: the lock of the store belongs to the process that
//! writes trips.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::flush::record_tag;
use super::open::{FORMATS, connect, format, newest};
use super::{SqliteStore, all_rows, failed, malformed};
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, Version};
use crate::model::schema::{SchemaSubject, SchemaVerdict};
use crate::model::tag::{Revision, Tag, TagKey, TagValue};
use crate::store::schemas::{KeptSchema, SLOTS_PER_READ};
use crate::store::{Forget, Result, SideTables, StoreError};
use crate::timeline::day_of;

/// How long a write of a tag waits for the process that writes trips. It blocks its thread.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

fn read_epoch(row: &Row<'_>) -> rusqlite::Result<Epoch> {
    let json = |column: &str| row.get::<_, String>(column);
    Ok(Epoch {
        epoch: row.get("epoch")?,
        topic: row.get("topic")?,
        partitions: row.get("partitions")?,
        start_offsets: serde_json::from_str(&json("start_offsets")?).map_err(malformed)?,
        base: Version(row.get("base")?),
        rules: Rules::from_json(&json("rules")?).map_err(malformed)?,
        partitioner: Partitioner::from_column(&json("partitioner")?).map_err(malformed)?,
        topic_id: row.get("topic_id")?,
        // They are in the same file.
        keeps_positions: true,
    })
}

fn read_tag(row: &Row<'_>) -> rusqlite::Result<Tag> {
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
    /// Writes to the table of tags in a transaction of its own.
    fn write_tags<T>(
        &self,
        doing: &'static str,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
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

impl SideTables for SqliteStore {
    async fn epochs(&self) -> Result<Vec<Epoch>> {
        let select = "SELECT * FROM epochs ORDER BY epoch ASC";
        self.select("reading the epochs", select, [], read_epoch)
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool> {
        let insert = "INSERT OR IGNORE INTO epochs
             (epoch, topic, partitions, start_offsets, base, rules, partitioner, topic_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let start_offsets = serde_json::to_string(&epoch.start_offsets).expect("a map of numbers");
        let values = params![
            epoch.epoch,
            epoch.topic,
            epoch.partitions,
            start_offsets,
            epoch.base.0,
            epoch.rules.to_json(),
            epoch.partitioner.name(),
            epoch.topic_id
        ];
        Ok(self.execute("adding an epoch", insert, values)? == 1)
    }

    async fn control_keys(&self) -> Result<Vec<NamedKey>> {
        let select = "SELECT name, fingerprint FROM control_keys ORDER BY name ASC";
        self.select("reading the control keys", select, [], |row| {
            Ok(NamedKey { name: row.get(0)?, fingerprint: row.get(1)? })
        })
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool> {
        let insert = "INSERT OR IGNORE INTO control_keys (name, fingerprint) VALUES (?1, ?2)";
        let values = params![key.name, key.fingerprint];
        Ok(self.execute("adding a control key", insert, values)? == 1)
    }

    async fn group(&self) -> Result<Option<String>> {
        let select = "SELECT consumer_group FROM log";
        let found = self.select("reading the consumer group", select, [], |row| row.get(0))?;
        Ok(found.into_iter().next().flatten())
    }

    async fn keep_group(&self, former: Option<&str>, group: &str) -> Result<Option<String>> {
        let update = "UPDATE log SET consumer_group = ?1 WHERE consumer_group IS ?2";
        self.execute("keeping the consumer group", update, params![group, former])?;
        self.group().await
    }

    async fn schema_subjects(&self, epoch: i32, from: i32) -> Result<Vec<SchemaSubject>> {
        let select = "SELECT id FROM schemas WHERE epoch = ?1 AND slot >= ?2
             ORDER BY slot ASC LIMIT ?3";
        self.select("reading the ids of schemas", select, [epoch, from, SLOTS_PER_READ], |row| {
            row.get::<_, String>(0)?.parse().map_err(malformed)
        })
    }

    async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>> {
        let select = "SELECT verdict FROM schemas WHERE epoch = ?1 AND slot = ?2";
        let found = self.select("reading a schema", select, [epoch, slot], |row| {
            serde_json::from_str(&row.get::<_, String>(0)?).map_err(malformed)
        });
        Ok(found?.pop())
    }

    async fn add_schema(&self, schema: &KeptSchema) -> Result<()> {
        let insert = "INSERT OR IGNORE INTO schemas (epoch, slot, id, verdict)
             VALUES (?1, ?2, ?3, ?4)";
        let verdict = serde_json::to_string(&schema.verdict).expect("a verdict is plain data");
        let values = params![schema.epoch, schema.slot, schema.id.to_string(), verdict];
        self.execute("keeping a schema", insert, values).map(drop)
    }

    async fn tags(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>> {
        let select = "SELECT t_star, key, value, written, revision FROM trip_tags
             WHERE device_id = ?1 AND t_star BETWEEN ?2 AND ?3 ORDER BY t_star ASC, key ASC";
        self.select("reading tags", select, params![device_id, from_ms.0, upto_ms.0], read_tag)
    }

    async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool> {
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

    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool> {
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

    async fn has_tags(&self) -> Result<bool> {
        let select = "SELECT EXISTS (SELECT 1 FROM trip_tags)";
        Ok(self.select("reading tags", select, [], |row| row.get::<_, bool>(0))? == [true])
    }

    async fn tagged_devices(&self) -> Result<Vec<String>> {
        let select = "SELECT DISTINCT device_id FROM trip_tags ORDER BY device_id ASC";
        self.select("reading the tagged devices", select, [], |row| row.get(0))
    }
}

/// Erases the tags before the floor that no trip covers any more, in the caller's transaction.
pub(super) fn erase_tags(
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
    let mut delete =
        connection.prepare_cached("DELETE FROM trip_tags WHERE device_id = ?1 AND t_star = ?2")?;
    for t_star_ms in times {
        let bucket = day_of(DeviceTime(t_star_ms)).start_ms();
        let is_covered: bool =
            covered.query_row(params![device_id, bucket.0, t_star_ms], |row| row.get(0))?;
        if !is_covered {
            delete.execute(params![device_id, t_star_ms])?;
        }
    }
    Ok(())
}
