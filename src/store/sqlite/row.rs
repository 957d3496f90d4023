//! Trips as rows of SQLite.

use rusqlite::types::{ToSqlOutput, Type, Value, ValueRef};
use rusqlite::{Error, Row};

use crate::codec::kind::{self, ColumnKind};
use crate::codec::trip_row::trip_columns;
use crate::store::TripRow;
use crate::store::raw::COLUMNS;

/// Index of the first column after the key.
const FIRST: usize = 3;

/// Index of `bucket`, which is the last column in reads.
pub(super) const BUCKET: usize = FIRST + COLUMNS.len();

/// A kind of column whose values SQLite binds and reads.
trait SqlKind: ColumnKind {
    /// The value to bind.
    fn bind(value: &Self::Value) -> ToSqlOutput<'_>;

    /// The value at an index of a row.
    fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self::Value>;
}

macro_rules! plain_kinds {
    ($($kind:ident, $value:ident => $bound:expr;)*) => {
        $(impl SqlKind for kind::$kind {
            fn bind($value: &Self::Value) -> ToSqlOutput<'_> {
                $bound.into()
            }

            fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self::Value> {
                row.get(at)
            }
        })*
    };
}

plain_kinds! {
    Time, ms => *ms;
    Version, version => version.get();
    Int, value => *value;
    Double, value => *value;
    Text, text => text.as_str();
    Blob, bytes => bytes.as_slice();
}

impl SqlKind for kind::Versions {
    fn bind(map: &Self::Value) -> ToSqlOutput<'_> {
        serde_json::to_string(map).expect("a map of numbers").into()
    }

    fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self::Value> {
        serde_json::from_str(row.get_ref(at)?.as_str()?)
            .map_err(|error| Error::FromSqlConversionFailure(at, Type::Text, error.into()))
    }
}

impl<K: SqlKind> SqlKind for kind::Optional<K> {
    fn bind(value: &Self::Value) -> ToSqlOutput<'_> {
        value.as_ref().map_or(ToSqlOutput::Owned(Value::Null), K::bind)
    }

    fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self::Value> {
        Ok(match row.get_ref(at)? {
            ValueRef::Null => None,
            _ => Some(K::read(row, at)?),
        })
    }
}

/// Bound values of a row: the bucket, then the columns as in reads.
pub(super) type Values<'a> = [ToSqlOutput<'a>; 4 + COLUMNS.len()];

macro_rules! define_values {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        /// The values of a row, with 0 as the bucket.
        pub(super) fn values(trip: &TripRow) -> Values<'_> {
            [
                0.into(),
                trip.device_id.as_str().into(),
                trip.end_ms.into(),
                trip.start_ms.into(),
                $(<$kind as SqlKind>::bind(&trip.$field)),*
            ]
        }

        /// Reads a row. By index: a lookup by name costs more than reading the value.
        pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<TripRow> {
            let mut at = FIRST;
            let mut next = || {
                at += 1;
                at - 1
            };
            Ok(TripRow {
                device_id: row.get(0)?,
                end_ms: row.get(1)?,
                start_ms: row.get(2)?,
                $($field: <$kind as SqlKind>::read(row, next())?,)*
            })
        }
    };
}

trip_columns!(define_values);
