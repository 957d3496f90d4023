//! Partition claims of devices in SQLite.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteStore, all_rows, malformed};
use crate::store::{Forget, Result};

impl SqliteStore {
    pub(super) fn claim_of(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        self.call("reading a claim", |connection| claim_of(connection, device_id, epoch))
    }

    /// Claims in the transaction of the flush, so the claim becomes durable with the device's first
    /// row.
    pub(super) fn add_claim(&self, device_id: &str, epoch: i32, partition: i32) -> Result<i32> {
        let connection = self.connection();
        let claimed = self.begin_transaction(&connection).and_then(|()| {
            if let Some(existing) = claim_of(&connection, device_id, epoch)? {
                return Ok(existing);
            }
            let insert = "INSERT INTO claims (device_id, epoch, partition) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(insert)?.execute(params![device_id, epoch, partition])?;
            Ok(partition)
        });
        self.or_rollback(&connection, claimed)
    }
}

fn claim_of(connection: &Connection, device_id: &str, epoch: i32) -> rusqlite::Result<Option<i32>> {
    let select = "SELECT partition FROM claims WHERE device_id = ?1 AND epoch = ?2";
    let mut select = connection.prepare_cached(select)?;
    let existing = select.query_row(params![device_id, epoch], |row| row.get(0)).optional()?;
    if existing.is_some() {
        return Ok(existing);
    }
    Ok(archived(connection, device_id)?.remove(&epoch))
}

/// Claims that forgets have moved to their records, by epoch.
fn archived(connection: &Connection, device_id: &str) -> rusqlite::Result<BTreeMap<i32, i32>> {
    let select = "SELECT claims FROM forgets WHERE device_id = ?1 AND claims IS NOT NULL";
    let archived = all_rows(connection, select, [device_id], |row| {
        serde_json::from_str::<BTreeMap<i32, i32>>(&row.get::<_, String>(0)?).map_err(malformed)
    });
    Ok(archived?.into_iter().flatten().collect())
}

/// Moves the claims of a device to the record of a forget if the device has no day left.
pub(super) fn erase(
    connection: &Connection,
    device_id: &str,
    forget: &Forget,
) -> rusqlite::Result<()> {
    let has_day = "SELECT EXISTS (SELECT 1 FROM days_of_device WHERE device_id = ?1)";
    if connection.prepare_cached(has_day)?.query_row([device_id], |row| row.get(0))? {
        return Ok(());
    }
    let select = "SELECT epoch, partition FROM claims WHERE device_id = ?1";
    let claims: Vec<(i32, i32)> =
        all_rows(connection, select, [device_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if claims.is_empty() {
        return Ok(());
    }
    // Includes the claims that an earlier attempt at the same version has moved.
    let mut all = archived(connection, device_id)?;
    all.extend(claims);
    let json = serde_json::to_string(&all).expect("a map of numbers");
    let archive = "UPDATE forgets SET claims = ?1 WHERE device_id = ?2 AND version = ?3";
    connection.prepare_cached(archive)?.execute(params![json, device_id, forget.version.0])?;
    connection.prepare_cached("DELETE FROM claims WHERE device_id = ?1")?.execute([device_id])?;
    Ok(())
}
