//! Raw rows of table `trips`, valid or not, for checks of a store.

use std::future::Future;

use super::{StoreError, TripRow};
use crate::timeline::DAY_MS;

/// The columns of a row without its key, in the order of the schema.
pub const COLUMNS: [&str; 19] = [
    "t_star",
    "minted",
    "absorbed",
    "version",
    "partition",
    "samples",
    "distance_m",
    "max_speed_mps",
    "start_lat",
    "start_lon",
    "end_lat",
    "end_lon",
    "min_lat",
    "min_lon",
    "max_lat",
    "max_lon",
    "driver",
    "driver_time",
    "path",
];

/// Indexes of `t_star`, `version` and `partition` in [`COLUMNS`].
const T_STAR: usize = 0;
const VERSION: usize = 3;
const PARTITION: usize = 4;

/// The value of a column, with the type it is stored as. Times are ms since 1970.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Null or unset.
    Null,
    /// An integer or a time.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// Text; a map as JSON.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<Option<i64>> for Cell {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::Null, Self::Int)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Null, Self::Real)
    }
}

impl From<Option<String>> for Cell {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Null, Self::Text)
    }
}

impl From<Option<Vec<u8>>> for Cell {
    fn from(value: Option<Vec<u8>>) -> Self {
        value.map_or(Self::Null, Self::Blob)
    }
}

/// A row of table `trips` as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RawRow {
    /// Device id.
    pub device_id: String,
    /// First ms of the UTC day, from the key.
    pub bucket_ms: i64,
    /// `end_time`, ms.
    pub end_ms: i64,
    /// `start_time`, ms.
    pub start_ms: i64,
    /// Values of [`COLUMNS`].
    pub cells: Vec<Cell>,
}

impl RawRow {
    /// The row of a trip in a day (whole days since 1970).
    #[must_use]
    pub fn from_trip_row(row: &TripRow, day: i64) -> Self {
        let absorbed = serde_json::to_string(&row.absorbed).expect("a map of numbers");
        let real = |value: f64| Cell::Real(value);
        let cells = vec![
            Cell::Int(row.t_star_ms),
            Cell::Int(row.minted),
            Cell::Text(absorbed),
            Cell::Int(row.version),
            Cell::Int(row.partition.into()),
            Cell::Int(row.samples.into()),
            real(row.distance_m),
            row.max_speed_mps.into(),
            real(row.start_lat),
            real(row.start_lon),
            real(row.end_lat),
            real(row.end_lon),
            real(row.min_lat),
            real(row.min_lon),
            real(row.max_lat),
            real(row.max_lon),
            row.driver.clone().into(),
            row.driver_ms.into(),
            Cell::Blob(row.path.clone()),
        ];
        Self {
            device_id: row.device_id.clone(),
            bucket_ms: day * DAY_MS,
            end_ms: row.end_ms,
            start_ms: row.start_ms,
            cells,
        }
    }

    fn int(&self, at: usize) -> Option<i64> {
        match self.cells.get(at) {
            Some(Cell::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// The version; `None` for a row that another program wrote.
    #[must_use]
    pub fn version(&self) -> Option<i64> {
        self.int(VERSION)
    }

    /// The partition that the row names.
    #[must_use]
    pub fn partition(&self) -> Option<i32> {
        self.int(PARTITION).and_then(|partition| i32::try_from(partition).ok())
    }

    /// The identity time, ms since 1970.
    #[must_use]
    pub fn t_star_ms(&self) -> Option<i64> {
        self.int(T_STAR)
    }

    /// Names of the columns in which two rows with the same key differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.cells.iter().zip(&other.cells).zip(COLUMNS);
        pairs.filter(|((left, right), _)| left != right).map(|(_, name)| name).collect()
    }
}

/// Reads raw rows of a store and repairs them.
pub trait RawRows: Send + Sync {
    /// Where the scan continues.
    type Cursor: Send;

    /// The next rows of all devices or of one, with the days in any order. Rows of the same device
    /// and day are consecutive, also across pages. The cursor is `None` after the last page.
    fn raw_rows(
        &self,
        device_id: Option<&str>,
        from: Option<Self::Cursor>,
    ) -> impl Future<Output = Result<(Vec<RawRow>, Option<Self::Cursor>), StoreError>> + Send;

    /// The rows of a device in a day.
    fn raw_day(
        &self,
        device_id: &str,
        day: i64,
    ) -> impl Future<Output = Result<Vec<RawRow>, StoreError>> + Send;

    /// Those of the given days of a device that are missing in one of the two day indexes. `days`
    /// is in ascending order.
    fn unlisted(
        &self,
        device_id: &str,
        days: &[i64],
    ) -> impl Future<Output = Result<Vec<i64>, StoreError>> + Send;

    /// Deletes wrong rows and writes right ones, each at its own version. In a store with write
    /// timestamps, data with a later timestamp is kept.
    fn repair_rows(
        &self,
        wrong: &[RawRow],
        right: &[TripRow],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
