//! Ends of trips in SQLite.

use rusqlite::{Connection, Row, params};

use super::trips::unless_malformed;
use super::{SqliteStore, failed};
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::store::{Order, StoreError, TripEnd, TripEnds};
use crate::timeline::day_of;

/// The bucket is the last column.
const ENDS_OF_DAY: &str =
    "SELECT device_id, end_time, start_time, t_star, version, end_lat, end_lon,
     bucket FROM trips WHERE device_id = ?1 AND bucket = ?2
     ORDER BY end_time DESC, start_time DESC LIMIT ?3";

const BUCKET: usize = 7;

fn read(row: &Row<'_>) -> rusqlite::Result<TripEnd> {
    Ok(TripEnd {
        end_ms: DeviceTime(row.get(1)?),
        start_ms: DeviceTime(row.get(2)?),
        t_star_ms: DeviceTime(row.get(3)?),
        version: Version(row.get(4)?),
        lat: row.get(5)?,
        lon: row.get(6)?,
    })
}

impl TripEnds for SqliteStore {
    async fn latest_days(&self, device_id: &str, limit: usize) -> Result<Vec<Day>, StoreError> {
        let span = (day_of(DeviceTime::MIN), day_of(DeviceTime::MAX));
        self.page_of_days(device_id, span, Order::Desc, limit)
    }

    async fn ends_of_day(
        &self,
        device_id: &str,
        day: Day,
        limit: usize,
    ) -> Result<Vec<TripEnd>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let ends = |connection: &Connection| {
            let mut statement = connection.prepare_cached(ENDS_OF_DAY)?;
            let read = |row: &Row<'_>| unless_malformed(row, BUCKET, read(row));
            let rows = statement.query_map(params![device_id, day.start_ms().0, limit], read)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = ends(&self.connection());
        let rows = rows.map_err(failed(&self.location, "reading the last trips of a day"));
        Ok(self.count_rows(rows)?.into_iter().flatten().collect())
    }
}
