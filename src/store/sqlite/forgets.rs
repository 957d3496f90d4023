//! Forgets in SQLite.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteStore, all_rows, claims, malformed};
use crate::identity;
use crate::model::scalar::{DeviceTime, Version};
use crate::store::tables::tags;
use crate::store::{Forget, Result};
use crate::timeline::day_of;

/// The forgets of a device, in log order.
pub(super) const OF_DEVICE: &str =
    "SELECT version, before FROM forgets WHERE device_id = ?1 ORDER BY version ASC";

/// The forgets of a device combined into one.
pub(super) const COMBINED: &str =
    "SELECT max(version), max(before) FROM forgets WHERE device_id = ?1 HAVING count(*) > 0";

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Forget> {
    Ok(Forget { version: Version(row.get(0)?), before_ms: DeviceTime(row.get(1)?) })
}

impl SqliteStore {
    /// The forgets of all devices, in log order.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) fn every_forget(&self) -> Result<Vec<(String, Forget)>> {
        let select = "SELECT device_id, version, before FROM forgets ORDER BY version ASC";
        self.select("reading forgets", select, [], |row| {
            let forget =
                Forget { version: Version(row.get(1)?), before_ms: DeviceTime(row.get(2)?) };
            Ok((row.get(0)?, forget))
        })
    }
}

/// Carries out a forget in the caller's transaction.
pub(super) fn erase(
    connection: &Connection,
    device_id: &str,
    forget: &Forget,
) -> rusqlite::Result<()> {
    let last_bucket = day_of(forget.before_ms).start_ms();
    let mut days: BTreeSet<DeviceTime> = recorded_days(connection, device_id, forget.version)?;
    let listed = "SELECT bucket FROM days_of_device WHERE device_id = ?1 AND bucket <= ?2";
    days.extend(all_rows(connection, listed, params![device_id, last_bucket.0], |row| {
        Ok(DeviceTime(row.get(0)?))
    })?);
    // On conflict keeps the claims of an earlier attempt at the same version.
    let insert = "INSERT INTO forgets (device_id, version, before, days) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET before = excluded.before, days = excluded.days";
    let json = serde_json::to_string(&days).expect("a list of numbers");
    connection.prepare_cached(insert)?.execute(params![
        device_id,
        forget.version.0,
        forget.before_ms.0,
        json
    ])?;
    let mut delete = connection.prepare_cached(
        "DELETE FROM trips WHERE device_id = ?1 AND bucket = ?2 AND end_time < ?3
         AND version < ?4",
    )?;
    // An earlier forget may reach further, so that the day of this one gets no row any more.
    let floor = connection.prepare_cached(COMBINED)?.query_row([device_id], read)?;
    let open = day_of(floor.before_ms).start_ms();
    for &bucket in &days {
        delete.execute(params![device_id, bucket.0, forget.before_ms.0, forget.version.0])?;
        if bucket < open && !has_trip(connection, device_id, bucket)? {
            unlist(connection, device_id, bucket)?;
        }
    }
    tags::erase(connection, device_id, forget)?;
    claims::erase(connection, device_id, forget)
}

/// The days that an earlier attempt at the same version has recorded.
fn recorded_days(
    connection: &Connection,
    device_id: &str,
    version: Version,
) -> rusqlite::Result<BTreeSet<DeviceTime>> {
    let mut select = connection
        .prepare_cached("SELECT days FROM forgets WHERE device_id = ?1 AND version = ?2")?;
    let json: Option<String> =
        select.query_row(params![device_id, version.0], |row| row.get(0)).optional()?;
    let days = json.map(|json| serde_json::from_str(&json)).transpose();
    Ok(days.map_err(malformed)?.unwrap_or_default())
}

fn has_trip(
    connection: &Connection,
    device_id: &str,
    bucket: DeviceTime,
) -> rusqlite::Result<bool> {
    let mut select = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM trips WHERE device_id = ?1 AND bucket = ?2)",
    )?;
    select.query_row(params![device_id, bucket.0], |row| row.get(0))
}

fn unlist(connection: &Connection, device_id: &str, bucket: DeviceTime) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM days_of_device WHERE device_id = ?1 AND bucket = ?2")?
        .execute(params![device_id, bucket.0])?;
    connection
        .prepare_cached(
            "DELETE FROM device_days WHERE bucket = ?1 AND shard = ?2 AND device_id = ?3",
        )?
        .execute(params![bucket.0, identity::shard(device_id), device_id])?;
    Ok(())
}
