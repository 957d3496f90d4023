//! Trips as CQL rows.

use std::collections::BTreeMap;

use scylla::value::{CqlTimestamp, MaybeUnset};
use scylla::{DeserializeRow, SerializeRow};

use crate::store::raw::{Cell, RawRow};
use crate::store::{DayWrite, RowError, StoreError, TripRow};
use crate::timeline::DAY_MS;

/// Bound values of the delete of a span.
#[derive(SerializeRow)]
pub(super) struct Span<'a> {
    version: i64,
    device_id: &'a str,
    bucket: CqlTimestamp,
    start_time: CqlTimestamp,
    end_time: CqlTimestamp,
}

/// Bound values of the insert of a row: every column, because the delete removes the old row. An
/// absent value is unset, as a null would write a tombstone.
#[derive(SerializeRow)]
pub(super) struct Insert<'a> {
    device_id: &'a str,
    bucket: CqlTimestamp,
    end_time: CqlTimestamp,
    start_time: CqlTimestamp,
    t_star: CqlTimestamp,
    minted: i64,
    absorbed: BTreeMap<CqlTimestamp, i64>,
    version: i64,
    partition: i32,
    samples: i32,
    distance_m: f64,
    max_speed_mps: MaybeUnset<f64>,
    start_lat: f64,
    start_lon: f64,
    end_lat: f64,
    end_lon: f64,
    min_lat: f64,
    min_lon: f64,
    max_lat: f64,
    max_lon: f64,
    driver: MaybeUnset<&'a str>,
    driver_time: MaybeUnset<CqlTimestamp>,
    path: &'a [u8],
    /// Write timestamp. Never unset, which would mean the server's clock.
    written: i64,
}

/// The first ms of a day (whole days since 1970).
pub(super) fn bucket(day: i64) -> CqlTimestamp {
    CqlTimestamp(day.saturating_mul(DAY_MS))
}

/// Rejects a trip whose write would be lost or would delete other trips: a version that is not a
/// valid write timestamp, or an inverted span.
pub(super) fn check(trip: &TripRow) -> Result<(), StoreError> {
    let reason = if trip.version <= 0 {
        format!("its version is {}, but versions are write timestamps above 0", trip.version)
    } else if trip.start_ms > trip.end_ms {
        format!("it starts at {}, after its end", trip.start_ms)
    } else {
        return Ok(());
    };
    let (device, bucket) = (trip.device_id.clone(), trip.days().start() * DAY_MS);
    Err(RowError { device, bucket, end_ms: trip.end_ms, reason }.into())
}

/// Bound values of the copy of a trip in a day: the delete, and the insert one timestamp later,
/// because the delete wins between equal timestamps.
pub(super) fn values<'a>(trip: &'a TripRow, write: &DayWrite) -> (Span<'a>, Insert<'a>) {
    let (device_id, bucket) = (trip.device_id.as_str(), bucket(write.day));
    let (start_time, end_time) = (CqlTimestamp(trip.start_ms), CqlTimestamp(trip.end_ms));
    let span = Span {
        version: write.delete_at,
        device_id,
        bucket,
        start_time: CqlTimestamp(write.delete_from_ms),
        end_time: CqlTimestamp(write.delete_upto_ms),
    };
    let absorbed = trip.absorbed.iter().map(|(&at, &version)| (CqlTimestamp(at), version));
    let insert = Insert {
        device_id,
        bucket,
        end_time,
        start_time,
        t_star: CqlTimestamp(trip.t_star_ms),
        minted: trip.minted,
        absorbed: absorbed.collect(),
        version: trip.version,
        partition: trip.partition,
        samples: trip.samples,
        distance_m: trip.distance_m,
        max_speed_mps: MaybeUnset::from_option(trip.max_speed_mps),
        start_lat: trip.start_lat,
        start_lon: trip.start_lon,
        end_lat: trip.end_lat,
        end_lon: trip.end_lon,
        min_lat: trip.min_lat,
        min_lon: trip.min_lon,
        max_lat: trip.max_lat,
        max_lon: trip.max_lon,
        driver: MaybeUnset::from_option(trip.driver.as_deref()),
        driver_time: MaybeUnset::from_option(trip.driver_ms.map(CqlTimestamp)),
        path: &trip.path,
        written: write.insert_at,
    };
    (span, insert)
}

/// A row as read, in the order of the columns. Only the key is always present.
#[derive(DeserializeRow)]
#[scylla(flavor = "enforce_order")]
pub(super) struct Raw {
    device_id: String,
    bucket: CqlTimestamp,
    end_time: CqlTimestamp,
    start_time: CqlTimestamp,
    t_star: Option<CqlTimestamp>,
    minted: Option<i64>,
    absorbed: Option<BTreeMap<CqlTimestamp, i64>>,
    version: Option<i64>,
    partition: Option<i32>,
    samples: Option<i32>,
    distance_m: Option<f64>,
    max_speed_mps: Option<f64>,
    start_lat: Option<f64>,
    start_lon: Option<f64>,
    end_lat: Option<f64>,
    end_lon: Option<f64>,
    min_lat: Option<f64>,
    min_lon: Option<f64>,
    max_lat: Option<f64>,
    max_lon: Option<f64>,
    driver: Option<String>,
    driver_time: Option<CqlTimestamp>,
    path: Option<Vec<u8>>,
}

impl Raw {
    /// The raw row.
    pub(super) fn into_raw_row(self) -> RawRow {
        let time = |value: Option<CqlTimestamp>| Cell::from(value.map(|time| time.0));
        let count = |value: Option<i32>| Cell::from(value.map(i64::from));
        let absorbed = self.absorbed.map(|map| {
            let map: BTreeMap<i64, i64> = map.into_iter().map(|(at, it)| (at.0, it)).collect();
            serde_json::to_string(&map).expect("a map of numbers")
        });
        let cells = vec![
            time(self.t_star),
            self.minted.into(),
            // Neither Scylla nor Cassandra distinguishes an empty map from an absent one.
            Cell::Text(absorbed.unwrap_or_else(|| "{}".to_owned())),
            self.version.into(),
            count(self.partition),
            count(self.samples),
            self.distance_m.into(),
            self.max_speed_mps.into(),
            self.start_lat.into(),
            self.start_lon.into(),
            self.end_lat.into(),
            self.end_lon.into(),
            self.min_lat.into(),
            self.min_lon.into(),
            self.max_lat.into(),
            self.max_lon.into(),
            self.driver.into(),
            time(self.driver_time),
            self.path.into(),
        ];
        RawRow {
            device_id: self.device_id,
            bucket_ms: self.bucket.0,
            end_ms: self.end_time.0,
            start_ms: self.start_time.0,
            cells,
        }
    }

    /// The row; `None` without a version, which means that another program wrote it.
    pub(super) fn into_row(self) -> Result<Option<TripRow>, StoreError> {
        let Some(version) = self.version else { return Ok(None) };
        let (device, bucket, end_ms) = (self.device_id.clone(), self.bucket.0, self.end_time.0);
        let reason = "a column that every trip has is null".to_owned();
        let malformed = || RowError { device, bucket, end_ms, reason }.into();
        self.into_row_of_version(version).map(Some).ok_or_else(malformed)
    }

    fn into_row_of_version(self, version: i64) -> Option<TripRow> {
        Some(TripRow {
            device_id: self.device_id,
            end_ms: self.end_time.0,
            start_ms: self.start_time.0,
            t_star_ms: self.t_star?.0,
            minted: self.minted?,
            absorbed: self.absorbed?.into_iter().map(|(at, version)| (at.0, version)).collect(),
            version,
            partition: self.partition?,
            samples: self.samples?,
            distance_m: self.distance_m?,
            max_speed_mps: self.max_speed_mps,
            start_lat: self.start_lat?,
            start_lon: self.start_lon?,
            end_lat: self.end_lat?,
            end_lon: self.end_lon?,
            min_lat: self.min_lat?,
            min_lon: self.min_lon?,
            max_lat: self.max_lat?,
            max_lon: self.max_lon?,
            driver: self.driver,
            driver_ms: self.driver_time.map(|time| time.0),
            path: self.path?,
        })
    }
}
