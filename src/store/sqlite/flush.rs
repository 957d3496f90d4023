//! Flushes in SQLite: position, changes and imports.

use rusqlite::{Connection, Row, params};

use super::topic::raise_position;
use super::{SqliteStore, at_most, failed, malformed, trips};
use crate::model::input_format::InputFormat;
use crate::model::input_part::{Part, StoredPart};
use crate::model::scalar::{LogTime, Offset};
use crate::model::tag::Tag;
use crate::store::hooks::{self, Step};
use crate::store::{Flush, Position, Result};
use crate::views::{ViewError, event};

fn record_part(connection: &Connection, part: &Part) -> rusqlite::Result<()> {
    let replace = "INSERT OR REPLACE INTO parts (first_offset, from_bytes, upto_bytes, line, head,
         hash, format, by_end, damaged, finished, log_time, import)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
         ifnull((SELECT max(id) FROM imports), 0))";
    connection.prepare_cached(replace)?.execute(params![
        part.first_offset.0,
        part.from_bytes.cast_signed(),
        part.upto_bytes.cast_signed(),
        part.line.cast_signed(),
        part.head,
        part.hash,
        part.format.name(),
        part.by_end,
        part.by_end && part.damaged,
        part.finished,
        part.log_time_ms.0,
    ])?;
    Ok(())
}

fn read_part(row: &Row<'_>) -> rusqlite::Result<StoredPart> {
    let unsigned = |column: &str| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let part = Part {
        first_offset: Offset(row.get("first_offset")?),
        from_bytes: unsigned("from_bytes")?,
        upto_bytes: unsigned("upto_bytes")?,
        line: unsigned("line")?,
        head: row.get("head")?,
        hash: row.get("hash")?,
        format: read_format(row.get_ref("format")?.as_str()?)?,
        by_end: row.get("by_end")?,
        damaged: row.get("damaged")?,
        finished: row.get("finished")?,
        log_time_ms: LogTime(row.get("log_time")?),
    };
    Ok(StoredPart { part, import_finished: row.get("import_finished")? })
}

fn read_format(name: &str) -> rusqlite::Result<InputFormat> {
    InputFormat::from_name(name).ok_or_else(|| malformed(format!("unknown format `{name}`")))
}

/// Records the parts of files that were read, and how far.
fn record_progress(connection: &Connection, flush: &Flush) -> rusqlite::Result<()> {
    flush.parts.iter().try_for_each(|part| record_part(connection, part))?;
    let position = "UPDATE log SET delivered = ?1";
    connection.prepare_cached(position)?.execute([flush.position.delivered.0]).map(drop)
}

fn record_changes(
    connection: &Connection,
    flush: &Flush,
    keep_changes: u64,
) -> rusqlite::Result<()> {
    let is_none = flush.changes().next().is_none() && flush.forgotten.is_empty();
    if is_none || keep_changes == 0 {
        return Ok(());
    }
    let mut insert = connection.prepare_cached(INSERT_CHANGE)?;
    for (change, trip) in flush.changes() {
        let event = event::event(change, trip).map_err(unwritable)?;
        insert.execute(params![trip.device_id, trip.version.0, event])?;
    }
    for forgotten in &flush.forgotten {
        let event = event::forgotten(forgotten);
        insert.execute(params![forgotten.device_id.as_str(), forgotten.forget.version.0, event])?;
    }
    trim_changes(connection, keep_changes)
}

const INSERT_CHANGE: &str = "INSERT INTO changes (device_id, version, event) VALUES (?1, ?2, ?3)";

fn unwritable(error: ViewError) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
}

/// Deletes the oldest events after one was inserted.
fn trim_changes(connection: &Connection, keep_changes: u64) -> rusqlite::Result<()> {
    let kept = i64::try_from(keep_changes).unwrap_or(i64::MAX);
    let newest = connection.last_insert_rowid();
    connection.prepare_cached("DELETE FROM changes WHERE seq <= ?1")?.execute([newest - kept])?;
    Ok(())
}

/// Records the event of a tag in the caller's transaction.
pub(in crate::store) fn record_tag(
    connection: &Connection,
    device_id: &str,
    (tag, is_removed): (&Tag, bool),
    keep_changes: u64,
) -> rusqlite::Result<()> {
    if keep_changes == 0 {
        return Ok(());
    }
    let event = event::tagged(device_id, tag, is_removed).map_err(unwritable)?;
    // It is outside the order of versions.
    let no_version = 0;
    connection.prepare_cached(INSERT_CHANGE)?.execute(params![device_id, no_version, event])?;
    trim_changes(connection, keep_changes)
}

impl SqliteStore {
    /// Writes a part of the next flush in the transaction of that flush, unless it is empty.
    ///
    /// # Errors
    /// The database fails, or has no place for the dead letters; then the flush is rolled back.
    pub fn stage_flush(&self, ahead: &Flush) -> Result<()> {
        if !ahead.has_news() {
            return Ok(());
        }
        let connection = self.connection();
        self.admit_letters(&connection, &ahead.dead_letters)?;
        self.or_rollback(&connection, self.put(&connection, ahead))
    }

    /// Commits a flush with its position: that of a partition, or that of files with their parts.
    ///
    /// # Errors
    /// As [`Self::stage_flush`].
    pub fn commit_flush(&self, flush: &Flush, partition: Option<i32>) -> Result<()> {
        let connection = self.connection();
        self.admit_letters(&connection, &flush.dead_letters)?;
        let committed = self.put(&connection, flush).and_then(|()| {
            match partition {
                Some(partition) => raise_position(&connection, partition, flush.position)?,
                None => record_progress(&connection, flush)?,
            }
            connection.execute_batch("COMMIT")
        });
        self.or_rollback(&connection, committed)?;
        self.check_path()?;
        hooks::reached(Step::After);
        Ok(())
    }

    /// The position up to which files were read.
    ///
    /// # Errors
    /// The database fails.
    pub fn delivered(&self) -> Result<Position> {
        let select = "SELECT delivered FROM log";
        let delivered = self.select("reading the position", select, [], |row| row.get(0))?;
        Ok(Position { delivered: Offset(delivered.first().copied().unwrap_or(0)) })
    }

    /// Begins the transaction of the next flush unless it is open already.
    pub(super) fn begin_transaction(&self, connection: &Connection) -> rusqlite::Result<()> {
        if !connection.is_autocommit() {
            return Ok(());
        }
        hooks::reached(Step::Before);
        connection.execute_batch("BEGIN IMMEDIATE")
    }

    /// Writes a flush or a part of one in the transaction of the flush, which it begins if needed.
    fn put(&self, connection: &Connection, flush: &Flush) -> rusqlite::Result<()> {
        self.begin_transaction(connection)?;
        flush.groups.iter().try_for_each(|group| trips::put(connection, group))?;
        hooks::reached(Step::Within);
        self.put_letters(connection, &flush.dead_letters)?;
        record_changes(connection, flush, self.keep_changes)
    }

    /// Rolls the transaction of the flush back if a part of it failed.
    pub(super) fn or_rollback<T>(
        &self,
        connection: &Connection,
        done: rusqlite::Result<T>,
    ) -> Result<T> {
        if done.is_err() && !connection.is_autocommit() {
            // If this fails too, closing the file rolls back.
            connection.execute_batch("ROLLBACK").ok();
        }
        done.map_err(failed(&self.location, "committing a flush"))
    }

    /// Every input part that was read, in log order.
    ///
    /// # Errors
    /// The database fails.
    pub fn parts(&self) -> Result<Vec<StoredPart>> {
        let select = "SELECT parts.*, imports.finished AS import_finished FROM parts JOIN imports
             ON imports.id = parts.import
             ORDER BY first_offset ASC, from_bytes ASC";
        self.select("reading the imported parts", select, [], read_part)
    }

    /// Number of trips in the store.
    ///
    /// # Errors
    /// The database fails.
    pub fn count_trips(&self) -> Result<u64> {
        // Counts home rows only: the copy in the day of the start.
        let count = "SELECT count(*) FROM trips WHERE start_time >= bucket AND kind = 'trip'";
        let counted = self.select("counting trips", count, [], |row| row.get::<_, i64>(0))?;
        Ok(counted.first().copied().unwrap_or_default().cast_unsigned())
    }

    /// Numbers of the stored change events: the first one, and the one after the last.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn kept_changes(&self) -> Result<(i64, i64)> {
        let select = "SELECT (SELECT min(seq) FROM changes),
             (SELECT seq FROM sqlite_sequence WHERE name = 'changes')";
        let read = |row: &Row<'_>| {
            let next = row.get::<_, Option<i64>>(1)?.unwrap_or(0) + 1;
            Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(next), next))
        };
        self.call("reading changes", |connection| connection.query_row(select, [], read))
    }

    /// Events of the change feed after a number, as (number, JSON), oldest first.
    ///
    /// # Errors
    /// The database fails.
    pub fn changes(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>> {
        let select = "SELECT seq, event FROM changes WHERE seq > ?1 ORDER BY seq ASC LIMIT ?2";
        let values = params![after, at_most(limit)];
        self.select("reading changes", select, values, |row| Ok((row.get(0)?, row.get(1)?)))
    }
}
