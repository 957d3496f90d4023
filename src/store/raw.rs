//! Rows as they lie in the tables, whoever wrote them: for those who check a store.

use std::future::Future;

use super::{StoreError, TripRow};
use crate::timeline::DAY_MS;

/// The columns of a row beside its key, in the order of the schema.
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

/// Place of `t_star`, `version` and `partition` among [`COLUMNS`].
const T_STAR: usize = 0;
const VERSION: usize = 3;
const PARTITION: usize = 4;

/// A value of a column, of whatever type lies there. Times are ms since 1970.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number, or a time.
    Int(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text; of a map its JSON.
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

/// A row of table `trips`, as it lies there.
#[derive(Clone, Debug, PartialEq)]
pub struct RawRow {
    /// Device id.
    pub device_id: String,
    /// First ms of the UTC day, as the key has it.
    pub bucket_ms: i64,
    /// `end_time`, ms.
    pub end_ms: i64,
    /// `start_time`, ms.
    pub start_ms: i64,
    /// Values of [`COLUMNS`].
    pub cells: Vec<Cell>,
}

impl RawRow {
    /// The copy of a trip in a day (whole days since 1970).
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

    /// Its version; `None`: somebody else wrote the row.
    #[must_use]
    pub fn version(&self) -> Option<i64> {
        self.int(VERSION)
    }

    /// The partition that it says it is of.
    #[must_use]
    pub fn partition(&self) -> Option<i32> {
        self.int(PARTITION).and_then(|partition| i32::try_from(partition).ok())
    }

    /// Its identity time, ms.
    #[must_use]
    pub fn t_star_ms(&self) -> Option<i64> {
        self.int(T_STAR)
    }

    /// Names of the columns in which two rows of one key differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.cells.iter().zip(&other.cells).zip(COLUMNS);
        pairs.filter(|((one, two), _)| one != two).map(|(_, name)| name).collect()
    }
}

/// Reads a store as it lies, and writes to it as one who sets it right.
pub trait RawRows: Send + Sync {
    /// Where reading goes on.
    type Cursor: Send;

    /// The next rows of all devices, or of one, in any order of days; rows of one device and day
    /// come one after the other, over pages, too. `None` for the place after the last.
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

    /// Of these days of a device, rising, those that one of the two lists of days lacks.
    fn unlisted(
        &self,
        device_id: &str,
        days: &[i64],
    ) -> impl Future<Output = Result<Vec<i64>, StoreError>> + Send;

    /// Makes wrong rows go and right ones come, at the versions they have. Where writes carry
    /// timestamps a later one stands all the same.
    fn repair_rows(
        &self,
        wrong: &[RawRow],
        right: &[TripRow],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
