//! What a unique index on the id costs in SQLite while trips arrive.
//!
//! A table of nothing but the id, its primary key: the tree that such an index is. The write-ahead
//! log holds a frame for each page that a transaction wrote; it is emptied before it grows large,
//! and its frames are counted by then.

use std::path::Path;

use anyhow::{Context as _, ensure};
use rusqlite::Connection;

use crate::schemes::Scheme;

/// Trips that are written in one transaction.
const TRANSACTION: usize = 1000;

/// Transactions between two countings.
const COUNTING: usize = 20;

/// Bytes of a page, SQLite's default; and of the head of a frame, and of the log's own.
const PAGE: u64 = 4096;
const FRAME_HEAD: u64 = 24;
const LOG_HEAD: u64 = 32;

/// What an index cost.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// Pages written to the log.
    pub pages: u64,
    /// Bytes of the file at the end.
    pub bytes: u64,
}

/// Writes the ids in their order.
///
/// # Errors
/// SQLite fails, or two trips have one id.
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
            inserted.with_context(|| format!("{}: an id was given twice", scheme.label()))?;
        }
        drop(insert);
        transaction.commit()?;
        if nth.is_multiple_of(COUNTING) || nth * TRANSACTION >= ids.len() {
            pages += emptied(&connection, &file)?;
        }
    }
    drop(connection);
    let bytes = std::fs::metadata(&file)?.len();
    std::fs::remove_file(&file)?;
    Ok(Index { pages, bytes })
}

/// Moves the log into the file, and returns how many pages it held.
fn emptied(connection: &Connection, file: &Path) -> anyhow::Result<u64> {
    let log = std::fs::metadata(file.with_extension("db-wal"))?.len();
    let frames = log.saturating_sub(LOG_HEAD);
    ensure!(frames % (PAGE + FRAME_HEAD) == 0, "{log} bytes are no log of whole frames");
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_busy: i64 = connection.query_row(checkpoint, [], |row| row.get(0))?;
    ensure!(is_busy == 0, "the log of {} cannot be emptied", file.display());
    Ok(frames / (PAGE + FRAME_HEAD))
}
