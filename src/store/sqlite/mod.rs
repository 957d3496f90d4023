//! The embedded store: one SQLite file, trips and journal together.
//!
//! One process writes, any number read meanwhile (WAL). A flush is one transaction with
//! `synchronous = FULL`: when `commit` returns it is on the disk, whole. Calls block the thread
//! they run on; give them one that may wait.

mod claims;
mod forgets;
mod journal;
mod letters;
mod open;
mod scan;
mod topic;
mod trips;

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};

pub use journal::{DeadLetterFilter, KeptDeadLetter};
pub use letters::{LetterUpdates, RetryJournal};
pub use open::FORMATS;
pub use topic::SqlitePartition;

use super::StoreError;

/// A point of a flush at which a run may break off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing of the flush is in the store yet.
    Before,
    /// The trips are in the transaction, the position is not.
    Within,
    /// The flush is durable; the run does not know it yet.
    After,
}

impl Step {
    /// Every step with its name.
    pub const NAMES: [(&str, Self); 3] =
        [("before", Self::Before), ("within", Self::Within), ("after", Self::After)];
}

/// A store in one SQLite file.
pub struct SqliteStore {
    connection: Mutex<Connection>,
    place: String,
    writing: Option<Writing>,
    keep_changes: u64,
    keep_letters: bool,
    rows_read: AtomicU64,
    on_step: Box<dyn Fn(Step) + Send + Sync>,
}

/// What only a store that is written to has.
struct Writing {
    /// Keeps a second writer out for as long as this one lives.
    _lock: File,
    path: PathBuf,
    /// What lay at the path when it was opened.
    file: FileId,
}

/// Device and number of a file: another one at the same path has others.
type FileId = (u64, u64);

fn file_id(path: &Path) -> io::Result<FileId> {
    let meta = std::fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("place", &self.place).finish_non_exhaustive()
    }
}

impl SqliteStore {
    fn new(
        connection: Connection,
        place: String,
        writing: Option<Writing>,
        keep_changes: u64,
    ) -> Self {
        connection.set_prepared_statement_cache_capacity(32);
        // Else SQLite plans a statement anew for every other set of bindings.
        let stable = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
        debug_assert!(stable.is_ok(), "{stable:?}");
        let (connection, on_step) = (Mutex::new(connection), Box::new(|_| ()));
        let rows_read = AtomicU64::new(0);
        Self { connection, place, writing, keep_changes, keep_letters: true, rows_read, on_step }
    }

    /// Refuses to go on where the file is not at its path any more: the system lets a process write
    /// to it all the same, and then it is gone.
    fn is_in_place(&self) -> Result<(), StoreError> {
        let Some(Writing { path, file, .. }) = &self.writing else { return Ok(()) };
        match file_id(path) {
            Ok(found) if found == *file => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed(&self.place, "looking for it")(error))
            }
            _ => Err(StoreError::Gone { place: self.place.clone() }),
        }
    }

    /// Calls back at each step of each flush: tests break a run off there.
    pub fn on_step(&mut self, call: impl Fn(Step) + Send + Sync + 'static) {
        self.on_step = Box::new(call);
    }

    /// Sets how much of the file the store keeps in memory, bytes.
    ///
    /// # Errors
    /// The database refuses.
    pub fn set_cache(&self, bytes: u64) -> Result<(), StoreError> {
        let kibibytes = i64::try_from(bytes / 1024).unwrap_or(i64::MAX);
        let set = self.connection().pragma_update(None, "cache_size", -kibibytes);
        set.map_err(failed(&self.place, "setting its cache"))
    }

    /// How many rows questions for trips, days and devices have read.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.place
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("no holder of the lock panics")
    }
}

/// Says what was being done when the database, or the disk, failed.
fn failed<E: Into<Box<dyn Error + Send + Sync>>>(
    place: &str,
    doing: &'static str,
) -> impl Fn(E) -> StoreError {
    let place = place.to_owned();
    move |error| match error.into().downcast::<io::Error>() {
        Ok(error) => StoreError::of_io(place.clone(), doing, *error),
        Err(source) => by_code(place.clone(), doing, source),
    }
}

/// Why the database failed, by the code that it gave.
fn by_code(place: String, doing: &'static str, source: Box<dyn Error + Send + Sync>) -> StoreError {
    let error = source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error);
    let Some(&ffi::Error { code, extended_code }) = error else {
        return StoreError::Failed { place, doing, source };
    };
    match (code, extended_code) {
        (ErrorCode::DiskFull, _) => StoreError::Full { place, doing, source },
        (ErrorCode::ReadOnly, _) => StoreError::ReadOnly { place, doing, source },
        (_, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_FSYNC) => {
            StoreError::Unwritable { place, doing, source }
        }
        _ => StoreError::Failed { place, doing, source },
    }
}
