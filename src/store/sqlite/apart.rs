//! Writes by a connection of their own: the lock of the store belongs to the process that writes
//! trips.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::open::{FORMATS, connect, format, newest};
use super::{SqliteStore, failed};
use crate::store::{Result, StoreError};

/// How long such a write waits for the process that writes trips. It blocks its thread.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

impl SqliteStore {
    /// Writes in a transaction of its own.
    pub(in crate::store) fn write_apart<T>(
        &self,
        doing: &'static str,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.check_path()?;
        let failed = failed(&self.location, doing);
        let path = self.connection().path().map(str::to_owned).unwrap_or_default();
        let connection = connect(Path::new(&path)).map_err(&failed)?;
        if format(&connection, &self.location, FORMATS)? != Some(newest(FORMATS)) {
            return Err(StoreError::Gone(self.location.clone()));
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
