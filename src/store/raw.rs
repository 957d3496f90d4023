//! Raw rows of table `trips`, valid or not, for checks of a store.

use std::future::Future;

use super::{StoreError, TripRow};
use crate::codec::is_same_message;
use crate::codec::kind::{self, ColumnKind};
use crate::codec::trip_row::trip_columns;
use crate::model::scalar::{Day, DeviceTime, Version};

macro_rules! define_columns {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        /// The columns of a row without its key, in the order of the schema.
        pub const COLUMNS: [&str; NAMES.len()] = [$(stringify!($name)),*];

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Index of each column in [`COLUMNS`].
        #[allow(non_camel_case_types, dead_code, reason = "the names of the columns")]
        enum Index {
            $($name,)*
        }

        /// The cells of a row.
        fn cells(row: TripRow) -> Vec<Cell> {
            vec![$(<$kind as CellKind>::cell(row.$field)),*]
        }
    };
}

trip_columns!(define_columns);

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
    /// The path as encoded, which may be damaged.
    Blob(Vec<u8>),
}

impl Cell {
    /// Whether two cells have the same value. Another version may compress a path to other bytes.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Blob(one), Self::Blob(other)) => is_same_message(one, other),
            _ => self == other,
        }
    }
}

/// A kind of column whose values become cells.
pub(super) trait CellKind: ColumnKind {
    /// The cell with a value.
    fn cell(value: Self::Value) -> Cell;
}

macro_rules! cells {
    ($($kind:ident, $value:ident => $cell:expr;)*) => {
        $(impl CellKind for kind::$kind {
            fn cell($value: Self::Value) -> Cell {
                $cell
            }
        })*
    };
}

cells! {
    Time, time => Cell::Int(time.ms());
    Version, version => Cell::Int(version.get());
    Int, value => Cell::Int(value.into());
    Double, value => Cell::Real(value);
    Text, value => Cell::Text(value);
    Blob, value => Cell::Blob(value);
    Versions, map => Cell::Text(serde_json::to_string(&map).expect("a map of numbers"));
}

impl<K: CellKind> CellKind for kind::Optional<K> {
    fn cell(value: Self::Value) -> Cell {
        value.map_or(Cell::Null, K::cell)
    }
}

/// A row of table `trips` as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RawRow {
    /// Device id.
    pub device_id: String,
    /// First ms of the UTC day, from the key.
    pub bucket_ms: DeviceTime,
    /// `end_time`, ms.
    pub end_ms: DeviceTime,
    /// `start_time`, ms.
    pub start_ms: DeviceTime,
    /// Values of [`COLUMNS`].
    pub cells: Vec<Cell>,
}

impl RawRow {
    /// The row of a trip in a day (whole days since 1970).
    #[must_use]
    pub fn from_trip_row(row: &TripRow, day: Day) -> Self {
        Self {
            device_id: row.device_id.clone(),
            bucket_ms: day.start_ms(),
            end_ms: row.end_ms,
            start_ms: row.start_ms,
            cells: cells(row.clone()),
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
    pub fn version(&self) -> Option<Version> {
        self.int(Index::version as usize).map(Version)
    }

    /// The partition that the row names.
    #[must_use]
    pub fn partition(&self) -> Option<i32> {
        self.int(Index::partition as usize).and_then(|partition| i32::try_from(partition).ok())
    }

    /// The identity time, ms since 1970.
    #[must_use]
    pub fn t_star_ms(&self) -> Option<DeviceTime> {
        self.int(Index::t_star as usize).map(DeviceTime)
    }

    /// Names of the columns in which two rows with the same key differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.cells.iter().zip(&other.cells).zip(COLUMNS);
        pairs.filter(|((left, right), _)| !left.is_same(right)).map(|(_, name)| name).collect()
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
        day: Day,
    ) -> impl Future<Output = Result<Vec<RawRow>, StoreError>> + Send;

    /// Those of the given days of a device that are missing in one of the two day indexes. `days`
    /// is in ascending order.
    fn unlisted(
        &self,
        device_id: &str,
        days: &[Day],
    ) -> impl Future<Output = Result<Vec<Day>, StoreError>> + Send;

    /// Deletes wrong rows and writes right ones, each at its own version. In a store with write
    /// timestamps, data with a later timestamp is kept.
    fn repair_rows(
        &self,
        wrong: &[RawRow],
        right: &[TripRow],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
