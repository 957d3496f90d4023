//! The embedded store: one SQLite file, trips and journal together.
//!
//! One process writes, any number read meanwhile (WAL). A flush is one transaction with
//! `synchronous = FULL`: when `commit` returns it is on the disk, whole. Calls block the thread
//! they run on; give them one that may wait.

mod journal;
mod open;
mod trips;

use std::fs::File;
use std::sync::{Mutex, MutexGuard};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

pub use journal::{DeadLetterFilter, KeptDeadLetter};
pub use open::FORMATS;

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
    /// Keeps a second writer out for as long as this one lives.
    _lock: Option<File>,
    keep_changes: u64,
    on_step: Box<dyn Fn(Step) + Send + Sync>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("place", &self.place).finish_non_exhaustive()
    }
}

impl SqliteStore {
    fn new(connection: Connection, place: String, lock: Option<File>, keep_changes: u64) -> Self {
        connection.set_prepared_statement_cache_capacity(32);
        // Else SQLite plans a statement anew for every other set of bindings.
        let stable = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
        debug_assert!(stable.is_ok(), "{stable:?}");
        let (connection, on_step) = (Mutex::new(connection), Box::new(|_| ()));
        Self { connection, place, _lock: lock, keep_changes, on_step }
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

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("no holder of the lock panics")
    }
}

/// Says what was being done when the database, or the disk, failed.
fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    place: &str,
    doing: &'static str,
) -> impl Fn(E) -> StoreError {
    let place = place.to_owned();
    move |error| StoreError::Failed { place: place.clone(), doing, source: error.into() }
}
