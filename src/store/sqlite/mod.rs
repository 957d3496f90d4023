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

pub use journal::{DeadLetterFilter, KeptDeadLetter};
pub use open::FORMATS;

use super::StoreError;

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Mutex<Connection>,
    place: String,
    /// Keeps a second writer out for as long as this one lives.
    _lock: Option<File>,
    keep_changes: u64,
}

impl SqliteStore {
    fn new(connection: Connection, place: String, lock: Option<File>, keep_changes: u64) -> Self {
        connection.set_prepared_statement_cache_capacity(32);
        Self { connection: Mutex::new(connection), place, _lock: lock, keep_changes }
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
