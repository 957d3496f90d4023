//! Stores of a topic: the position of each partition.

use rusqlite::{Connection, params};

use super::SqliteStore;
use crate::store::{Position, Result};

/// Sets the next offset of a partition in the caller's transaction. A replay from an older offset
/// does not lower it.
pub(super) fn raise_position(
    connection: &Connection,
    partition: i32,
    position: Position,
) -> rusqlite::Result<()> {
    let put = "INSERT INTO positions (partition, next_offset) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET next_offset = max(next_offset, excluded.next_offset)";
    connection.prepare_cached(put)?.execute(params![partition, position.delivered.0]).map(drop)
}

impl SqliteStore {
    /// The next offset of a partition; `None` if it was never read.
    ///
    /// # Errors
    /// The database fails.
    pub fn position_of(&self, partition: i32) -> Result<Option<i64>> {
        let select = "SELECT next_offset FROM positions WHERE partition = ?1";
        Ok(self.select("reading a position", select, [partition], |row| row.get(0))?.pop())
    }

    /// Sets the next offset of a partition before it is read.
    ///
    /// # Errors
    /// The database fails.
    pub fn set_position(&self, partition: i32, next_offset: i64) -> Result<()> {
        let replace = "INSERT OR REPLACE INTO positions (partition, next_offset) VALUES (?1, ?2)";
        self.execute("setting a position", replace, params![partition, next_offset]).map(drop)
    }
}
