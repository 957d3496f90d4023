//! The embedded store: one SQLite file, trips and journal together.
//!
//! One process writes while any number of processes read (WAL). A flush is one transaction with
//! `synchronous = FULL`: once `commit` returns, all of it is on disk. Calls block their thread, so
//! run them on one that may block.

mod backup;
mod claims;
mod ends;
mod forgets;
mod imports;
mod journal;
mod letters;
mod lock;
mod open;
mod reader;
mod row;
mod scalar;
mod scan;
mod schemas;
mod sound;
mod tags;
mod topic;
mod trips;

use std::error::Error;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};

pub use journal::{DeadLetterFilter, KeptDeadLetter};
#[cfg(feature = "internals")]
pub use open::FORMATS;
pub use topic::SqlitePartition;

use self::lock::{ReaderLock, WriterLock};
use super::StoreError;
use super::hooks::TestCounter;

/// A store in one SQLite file.
pub struct SqliteStore {
    connection: Mutex<Connection>,
    location: String,
    writing: Option<Writing>,
    /// Set if the store was opened as one that does not change.
    reading: Option<ReaderLock>,
    keep_changes: u64,
    keep_letters: bool,
    rows_read: TestCounter,
}

/// State of a store that is open for writing.
struct Writing {
    /// Locks out other writers until it is dropped.
    _lock: WriterLock,
    path: PathBuf,
    /// Identity of the file that was opened.
    file: FileId,
}

/// Device and inode of a file, which differ if the file at a path is replaced.
type FileId = (u64, u64);

fn file_id(path: &Path) -> io::Result<FileId> {
    let meta = std::fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("location", &self.location)
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    fn new(
        connection: Connection,
        location: String,
        writing: Option<Writing>,
        keep_changes: u64,
    ) -> Self {
        connection.set_prepared_statement_cache_capacity(32);
        // Otherwise SQLite plans a statement again when its bindings change.
        let stable = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
        debug_assert!(stable.is_ok(), "{stable:?}");
        let (connection, rows_read) = (Mutex::new(connection), TestCounter::default());
        Self {
            connection,
            location,
            writing,
            reading: None,
            keep_changes,
            keep_letters: true,
            rows_read,
        }
    }

    /// Fails if the file is no longer at its path: the system still accepts writes to it, but they
    /// are lost.
    fn check_path(&self) -> Result<(), StoreError> {
        let Some(Writing { path, file, .. }) = &self.writing else { return Ok(()) };
        match file_id(path) {
            Ok(found) if found == *file => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed(&self.location, "checking its path")(error))
            }
            _ => Err(StoreError::Gone { location: self.location.clone() }),
        }
    }

    /// Sets the maximum number of change events that the store keeps.
    pub fn set_keep_changes(&mut self, keep_changes: u64) {
        self.keep_changes = keep_changes;
    }

    /// Sets the size of SQLite's page cache, bytes.
    ///
    /// # Errors
    /// The database fails.
    pub fn set_cache(&self, bytes: u64) -> Result<(), StoreError> {
        let kibibytes = i64::try_from(bytes / 1024).unwrap_or(i64::MAX);
        let set = self.connection().pragma_update(None, "cache_size", -kibibytes);
        set.map_err(failed(&self.location, "setting its cache size"))
    }

    /// Number of rows that queries for trips, days and devices have read.
    #[must_use]
    #[cfg(feature = "internals")]
    pub fn rows_read(&self) -> u64 {
        self.rows_read.get()
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.location
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("no holder of the lock panics")
    }
}

/// Converts an error of the database or the disk; `doing` is the operation that failed.
fn failed<E: Into<Box<dyn Error + Send + Sync>>>(
    location: &str,
    doing: &'static str,
) -> impl Fn(E) -> StoreError {
    let location = location.to_owned();
    move |error| match error.into().downcast::<io::Error>() {
        Ok(error) => StoreError::of_io(location.clone(), doing, *error),
        Err(source) => by_code(location.clone(), doing, source),
    }
}

/// Converts an error of the database by its code.
fn by_code(
    location: String,
    doing: &'static str,
    source: Box<dyn Error + Send + Sync>,
) -> StoreError {
    let error = source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error);
    let Some(&ffi::Error { code, extended_code }) = error else {
        return StoreError::Failed { location, doing, source };
    };
    match (code, extended_code) {
        (ErrorCode::DiskFull, _) => StoreError::Full { location, doing, source },
        (ErrorCode::ReadOnly, _) => StoreError::ReadOnly { location, doing, source },
        (_, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_FSYNC) => {
            StoreError::Unwritable { location, doing, source }
        }
        _ => StoreError::Failed { location, doing, source },
    }
}
