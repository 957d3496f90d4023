//! Ends of trips in Scylla.

use scylla::value::CqlTimestamp;

use super::cql::Cql;
use super::row::{INCOMPLETE, bucket};
use super::{ScyllaStore, Shared};
use crate::model::reason::SkipReason;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::store::skip;
use crate::store::{Order, RowError, StoreError, TripEnd, TripEnds};
use crate::telemetry;
use crate::timeline::day_of;

/// End, start, `t_star`, version and last position of a row. Only the key is always present.
type EndRow =
    (CqlTimestamp, CqlTimestamp, Option<CqlTimestamp>, Option<i64>, Option<f64>, Option<f64>);

impl<C: Cql> Shared<C> {
    /// The end of a trip, if the row has a version and the columns. Counts any other row.
    fn valid_end(&self, device_id: &str, day: Day, row: EndRow) -> Option<TripEnd> {
        let (end, start, t_star, version, lat, lon) = row;
        let (end_ms, start_ms) = (DeviceTime(end.0), DeviceTime(start.0));
        let Some(version) = version.map(Version) else {
            self.foreign_rows.add(1);
            telemetry::skipped(SkipReason::NoVersion);
            return None;
        };
        let (Some(t_star), Some(lat), Some(lon)) = (t_star, lat, lon) else {
            skip::malformed(&RowError {
                device: device_id.to_owned(),
                bucket: day.start_ms(),
                start_ms,
                end_ms,
                reason: INCOMPLETE.to_owned(),
            });
            return None;
        };
        let t_star_ms = DeviceTime(t_star.0);
        Some(TripEnd { t_star_ms, start_ms, end_ms, version, lat, lon })
    }
}

impl<C: Cql> TripEnds for ScyllaStore<C> {
    async fn latest_days(&self, device_id: &str, limit: usize) -> Result<Vec<Day>, StoreError> {
        let span = (day_of(DeviceTime::MIN), day_of(DeviceTime::MAX));
        self.shared.page_of_days(device_id, span, Order::Desc, limit).await
    }

    async fn ends_of_day(
        &self,
        device_id: &str,
        day: Day,
        limit: usize,
    ) -> Result<Vec<TripEnd>, StoreError> {
        let (shared, select) = (&self.shared, &self.shared.statements.ends_of_day);
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let values = (device_id, bucket(day), limit);
        let rows: Vec<EndRow> =
            shared.rows("reading the last trips of a day", select, values).await?;
        Ok(rows.into_iter().filter_map(|row| shared.valid_end(device_id, day, row)).collect())
    }
}
