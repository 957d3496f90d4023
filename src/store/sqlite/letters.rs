//! Deletes dead letters.

use rusqlite::Connection;

use super::SqliteStore;
use crate::store::StoreError;

fn delete(connection: &Connection, ids: &[i64]) -> rusqlite::Result<()> {
    let mut delete = connection.prepare_cached("DELETE FROM dead_letters WHERE id = ?1")?;
    ids.iter().try_for_each(|id| delete.execute([id]).map(drop))
}

impl SqliteStore {
    /// Deletes dead letters, by number, in one transaction.
    ///
    /// # Errors
    /// The database fails; then none is deleted.
    pub fn delete_letters(&self, ids: &[i64]) -> Result<(), StoreError> {
        let connection = self.connection();
        let done = self
            .begin_transaction(&connection)
            .and_then(|()| delete(&connection, ids))
            .and_then(|()| connection.execute_batch("COMMIT"));
        self.or_rollback(&connection, done)?;
        self.check_path()
    }
}
