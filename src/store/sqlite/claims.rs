//! Which partition a device belongs to, in SQLite.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteStore, failed};
use crate::store::{Forget, StoreError};

impl SqliteStore {
    pub(super) fn claim_of(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        claim_of(&self.connection(), device_id, epoch)
            .map_err(failed(&self.place, "reading a claim"))
    }

    /// Claims in the transaction of the flush: durable with the device's first row.
    pub(super) fn add_claim(
        &self,
        device_id: &str,
        epoch: i32,
        partition: i32,
    ) -> Result<i32, StoreError> {
        let connection = self.connection();
        let claimed = self.begin_transaction(&connection).and_then(|()| {
            if let Some(standing) = claim_of(&connection, device_id, epoch)? {
                return Ok(standing);
            }
            let insert = "INSERT INTO claims (device_id, epoch, partition) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(insert)?.execute(params![device_id, epoch, partition])?;
            Ok(partition)
        });
        self.or_undo(&connection, claimed)
    }
}

fn claim_of(connection: &Connection, device_id: &str, epoch: i32) -> rusqlite::Result<Option<i32>> {
    let select = "SELECT partition FROM claims WHERE device_id = ?1 AND epoch = ?2";
    let mut select = connection.prepare_cached(select)?;
    let standing = select.query_row(params![device_id, epoch], |row| row.get(0)).optional()?;
    if standing.is_some() {
        return Ok(standing);
    }
    Ok(erased(connection, device_id)?.remove(&epoch))
}

/// Claims that forgets erased, by epoch.
fn erased(connection: &Connection, device_id: &str) -> rusqlite::Result<BTreeMap<i32, i32>> {
    let select = "SELECT claims FROM forgets WHERE device_id = ?1 AND claims IS NOT NULL";
    let mut select = connection.prepare_cached(select)?;
    let mut erased = BTreeMap::new();
    for json in select.query_map([device_id], |row| row.get::<_, String>(0))? {
        let claims: BTreeMap<i32, i32> = serde_json::from_str(&json?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
        })?;
        erased.extend(claims);
    }
    Ok(erased)
}

/// Moves the claims of a device to a forget, where no day of it is left.
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
    let mut select = connection.prepare_cached(select)?;
    let claims = select.query_map([device_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let claims: BTreeMap<i32, i32> = claims.collect::<rusqlite::Result<_>>()?;
    if claims.is_empty() {
        return Ok(());
    }
    // With those of one of the same version that was done before.
    let mut all = erased(connection, device_id)?;
    all.extend(claims);
    let json = serde_json::to_string(&all).expect("a map of numbers");
    let keep = "UPDATE forgets SET claims = ?1 WHERE device_id = ?2 AND version = ?3";
    connection.prepare_cached(keep)?.execute(params![json, device_id, forget.version])?;
    connection.prepare_cached("DELETE FROM claims WHERE device_id = ?1")?.execute([device_id])?;
    Ok(())
}
