//! The embedded store: one SQLite file with trips, positions, letters and changes.
//!
//! One process writes while any number of processes read (WAL). A flush is one transaction with
//! `synchronous = FULL`: once `commit` returns, all of it is on disk. Calls block their thread, so
//! run them on one that may block.

mod apart;
mod backup;
mod claims;
mod file;
mod flush;
mod forgets;
mod imports;
mod letters;
mod lock;
mod open;
mod reader;
mod row;
mod scan;
mod sound;
mod topic;
mod trips;

use std::error::Error;
use std::io;
use std::sync::{Mutex, MutexGuard};

use rusqlite::config::DbConfig;
use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, Params, Row, ffi};

pub(crate) use file::FileId;
pub(super) use flush::record_tag;
pub use letters::LetterFilter;
#[cfg(feature = "internals")]
pub use open::FORMATS;

use self::file::StoreFile;
use self::letters::LetterBound;
use self::lock::{ReaderLock, WriterLock};
use super::hooks::TestCounter;
use super::{Result, StoreError};

/// A store in one SQLite file.
pub struct SqliteStore {
    // Fields are dropped in this order: the connection is closed before anything is unlocked.
    connection: Mutex<Connection>,
    pub(super) location: String,
    /// `None` for a file without a name.
    file: Option<StoreFile>,
    /// Locks out other writers, if the store is open for writing.
    writing: Option<WriterLock>,
    /// Set if the store was opened as one that does not change.
    reading: Option<ReaderLock>,
    pub(super) keep_changes: u64,
    keep_letters: bool,
    letters: LetterBound,
    rows_read: TestCounter,
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
        file: Option<StoreFile>,
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
            file,
            writing: None,
            reading: None,
            keep_changes,
            keep_letters: true,
            letters: LetterBound::default(),
            rows_read,
        }
    }

    /// Fails if the file is no longer at its path: the system still accepts writes to it, but they
    /// are lost, and reads miss what is written to its successor.
    pub(in crate::store) fn check_path(&self) -> Result<()> {
        match self.file.as_ref().map_or(Ok(true), StoreFile::is_at_its_path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Gone(self.location.clone())),
            Err(error) => Err(failed(&self.location, "checking its path")(error)),
        }
    }

    /// The file that was opened; `None` if it has no name.
    #[must_use]
    pub(crate) fn file_id(&self) -> Option<FileId> {
        self.file.as_ref().map(StoreFile::id)
    }

    /// Sets the maximum number of change events that the store keeps.
    pub(crate) fn set_keep_changes(&mut self, keep_changes: u64) {
        self.keep_changes = keep_changes;
    }

    /// Sets the size of SQLite's page cache, bytes.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn set_cache(&self, bytes: u64) -> Result<()> {
        let kibibytes = i64::try_from(bytes / 1024).unwrap_or(i64::MAX);
        self.call("setting its cache size", |it| it.pragma_update(None, "cache_size", -kibibytes))
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

    pub(super) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("no holder of the lock panics")
    }

    /// Calls the database; `doing` is the operation, for errors.
    pub(super) fn call<T>(
        &self,
        doing: &'static str,
        call: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        call(&mut self.connection()).map_err(failed(&self.location, doing))
    }

    /// Runs a query.
    pub(super) fn select<T>(
        &self,
        doing: &'static str,
        select: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.call(doing, |connection| all_rows(connection, select, values, read))
    }

    /// The same, and counts the rows.
    fn count_and_select<T>(
        &self,
        doing: &'static str,
        select: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = self.select(doing, select, values, read)?;
        self.rows_read.add(rows.len() as u64);
        Ok(rows)
    }

    /// Executes a statement outside of the transaction of a flush. Returns the number of rows that
    /// it changed.
    pub(super) fn execute(
        &self,
        doing: &'static str,
        statement: &str,
        values: impl Params,
    ) -> Result<usize> {
        self.call(doing, |connection| connection.execute(statement, values))
    }
}

/// A limit as SQLite binds it.
fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The rows of a query.
pub(super) fn all_rows<T>(
    connection: &Connection,
    select: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(select)?;
    let rows = statement.query_map(values, read)?;
    rows.collect()
}

/// The error of a text that cannot be decoded.
pub(super) fn malformed(error: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into())
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
