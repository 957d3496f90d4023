//! The cost of a unique index on the id in SQLite while trips arrive.
//!
//! The index is a table with the id as primary key and nothing else: the same B-tree. The
//! write-ahead log has a frame for each page that a transaction wrote. Its frames are counted each
//! time before it is truncated.

use std::path::Path;

use anyhow::{Context as _, ensure};
use rusqlite::Connection;

use crate::schemes::Scheme;

/// Trips per transaction.
const TRANSACTION: usize = 1000;

/// Transactions between two counts.
const COUNTING: usize = 20;

/// Size of a page (SQLite's default), of a frame header, and of the header of the log, bytes.
const PAGE: u64 = 4096;
const FRAME_HEAD: u64 = 24;
const LOG_HEAD: u64 = 32;

/// The cost of an index.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// Pages written to the log.
    pub pages: u64,
    /// Size of the file at the end, bytes.
    pub bytes: u64,
}

/// Inserts the ids in order.
///
/// # Errors
/// SQLite fails, or two trips have the same id.
pub fn measure(folder: &Path, scheme: Scheme, ids: &[Vec<u8>]) -> anyhow::Result<Index> {
    let file = folder.join("index.db");
    let mut connection = Connection::open(&file)?;
    let kind = if scheme.is_number() { "INTEGER" } else { "BLOB" };
    connection.execute_batch(&format!(
        "PRAGMA page_size = {PAGE}; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE ids (id {kind} PRIMARY KEY) WITHOUT ROWID; PRAGMA wal_checkpoint(TRUNCATE);"
    ))?;
    let mut pages = 0;
    for (nth, batch) in (1_usize..).zip(ids.chunks(TRANSACTION)) {
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare_cached("INSERT INTO ids VALUES (?)")?;
        for id in batch {
            let inserted = match scheme.is_number() {
                true => insert.execute([i64::from_be_bytes(id.as_slice().try_into()?)]),
                false => insert.execute([id]),
            };
            inserted.with_context(|| format!("{}: two trips have the same id", scheme.label()))?;
        }
        drop(insert);
        transaction.commit()?;
        if nth.is_multiple_of(COUNTING) || nth * TRANSACTION >= ids.len() {
            pages += checkpoint(&connection, &file)?;
        }
    }
    drop(connection);
    let bytes = std::fs::metadata(&file)?.len();
    std::fs::remove_file(&file)?;
    Ok(Index { pages, bytes })
}

/// Moves the log into the file, and returns the number of pages that it had.
fn checkpoint(connection: &Connection, file: &Path) -> anyhow::Result<u64> {
    let log = std::fs::metadata(file.with_extension("db-wal"))?.len();
    let frames = log.saturating_sub(LOG_HEAD);
    ensure!(frames % (PAGE + FRAME_HEAD) == 0, "{log} bytes are not a log of whole frames");
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: i64 = connection.query_row(truncate, [], |row| row.get(0))?;
    ensure!(is_busy == 0, "the log of {} cannot be truncated", file.display());
    Ok(frames / (PAGE + FRAME_HEAD))
}
