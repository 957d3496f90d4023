//! Raw rows of table `trips`, valid or not, for checks of a store.

use std::collections::VecDeque;

use scylla::response::PagingState;

use super::any::either;
use super::{AnyStore, Result, RowError, TripRow};
use crate::codec::is_same_message;
use crate::codec::kind::{self, ColumnKind};
use crate::codec::trip_row::trip_columns;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::segment::Kind;
use crate::timeline::{LegFilter, day_of};

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

        impl RawRow {
            /// The row of a trip.
            ///
            /// # Errors
            /// The first column whose value a trip cannot have.
            pub(crate) fn to_trip_row(&self) -> Result<TripRow, RowError> {
                let mut cells = self.cells.iter();
                Ok(TripRow {
                    device_id: self.device_id.clone(),
                    end_ms: self.end_ms,
                    start_ms: self.start_ms,
                    $($field: cells.next().and_then(<$kind as CellKind>::from_cell).ok_or_else(
                        || self.malformed(concat!("its ", stringify!($name), " is not valid"))
                    )?,)*
                })
            }
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

    /// The value of a cell; `None` if it is of another kind.
    fn from_cell(cell: &Cell) -> Option<Self::Value>;
}

macro_rules! cells {
    ($($kind:ident, $value:ident => $cell:expr, $read:pat => $back:expr;)*) => {
        $(impl CellKind for kind::$kind {
            fn cell($value: Self::Value) -> Cell {
                $cell
            }

            fn from_cell(cell: &Cell) -> Option<Self::Value> {
                match cell {
                    $read => $back,
                    _ => None,
                }
            }
        })*
    };
}

cells! {
    Time, time => Cell::Int(time.ms()), Cell::Int(ms) => Some(DeviceTime(*ms));
    Version, version => Cell::Int(version.get()), Cell::Int(value) => Some(Version(*value));
    Duration, ms => Cell::Int(ms), Cell::Int(ms) => Some(*ms);
    Int, value => Cell::Int(value.into()), Cell::Int(value) => i32::try_from(*value).ok();
    Double, value => Cell::Real(value), Cell::Real(value) => Some(*value);
    Text, value => Cell::Text(value), Cell::Text(value) => Some(value.clone());
    Blob, value => Cell::Blob(value), Cell::Blob(value) => Some(value.clone());
    SegmentKind, kind => Cell::Text(kind.name().to_owned()),
        Cell::Text(name) => Kind::from_name(name);
    Histories, map => Cell::Text(serde_json::to_string(&map).expect("a map of numbers")),
        Cell::Text(json) => serde_json::from_str(json).ok();
}

impl<K: CellKind> CellKind for kind::Optional<K> {
    fn cell(value: Self::Value) -> Cell {
        value.map_or(Cell::Null, K::cell)
    }

    fn from_cell(cell: &Cell) -> Option<Self::Value> {
        match cell {
            Cell::Null => Some(None),
            cell => K::from_cell(cell).map(Some),
        }
    }
}

/// A row of table `trips` as stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawRow {
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
    pub(crate) fn from_trip_row(row: &TripRow, day: Day) -> Self {
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
    pub(crate) fn version(&self) -> Option<Version> {
        self.int(Index::version as usize).map(Version)
    }

    /// The partition that the row names.
    #[must_use]
    pub(crate) fn partition(&self) -> Option<i32> {
        self.int(Index::partition as usize).and_then(|partition| i32::try_from(partition).ok())
    }

    /// The identity time, ms since 1970.
    #[must_use]
    pub(crate) fn t_star_ms(&self) -> Option<DeviceTime> {
        self.int(Index::t_star as usize).map(DeviceTime)
    }

    fn malformed(&self, reason: impl Into<String>) -> RowError {
        RowError {
            device: self.device_id.clone(),
            bucket: self.bucket_ms,
            start_ms: self.start_ms,
            end_ms: self.end_ms,
            reason: reason.into(),
        }
    }

    /// Checks that the row is a trip, in a day that it touches, and computes again what follows
    /// from its path. `legs` are the rules under which the store was built.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self, legs: LegFilter) -> Result<(), RowError> {
        let row = self.to_trip_row()?;
        let path = row.to_path()?;
        let day = day_of(self.bucket_ms);
        if day.start_ms() != self.bucket_ms || !row.days().any(|touched| touched == day) {
            return Err(self.malformed("the trip does not touch its day"));
        }
        let kept = row.ids.keys().copied();
        if let Some(lost) = kept.chain(row.driver_ms).find(|at| path.get(*at).is_none()) {
            return Err(self.malformed(format!("the path has no sample at {lost} ms")));
        }
        let again = row.rebuilt(&path, legs);
        match *self.differences(&Self::from_trip_row(&again, day)) {
            [] => Ok(()),
            ref names => {
                Err(self.malformed(format!("{} does not follow from the path", names.join(", "))))
            }
        }
    }

    /// Names of the columns in which two rows with the same key differ.
    #[must_use]
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.cells.iter().zip(&other.cells).zip(COLUMNS);
        pairs.filter(|((left, right), _)| !left.is_same(right)).map(|(_, name)| name).collect()
    }
}

/// Where a scan of raw rows continues.
#[derive(Debug)]
pub(crate) enum ScanCursor {
    /// After a day of a device.
    After(String, DeviceTime),
    /// In the whole table, in token order.
    Page(PagingState),
    /// In the remaining days of one device.
    Days(VecDeque<Day>),
}

/// Raw rows of table `trips`, and repairs.
impl AnyStore {
    /// The next rows of all devices or of one, with the days in any order. Rows of the same device
    /// and day are consecutive, also across pages. The cursor is `None` after the last page.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn raw_rows(
        &self,
        device_id: Option<&str>,
        from: Option<ScanCursor>,
    ) -> Result<(Vec<RawRow>, Option<ScanCursor>)> {
        either!(self, raw_rows(device_id, from))
    }

    /// The rows of a device in a day.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn raw_day(&self, device_id: &str, day: Day) -> Result<Vec<RawRow>> {
        either!(self, raw_day(device_id, day))
    }

    /// Those of the given days of a device that are missing in one of the two day indexes. `days`
    /// is in ascending order.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn unlisted(&self, device_id: &str, days: &[Day]) -> Result<Vec<Day>> {
        either!(self, unlisted(device_id, days))
    }

    /// Deletes wrong rows and writes right ones, each at its own version. In a store with write
    /// timestamps, data with a later timestamp is kept.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) async fn repair_rows(&self, wrong: &[RawRow], right: &[TripRow]) -> Result<()> {
        either!(self, repair_rows(wrong, right))
    }
}
