//! Trips as rows of SQLite.

use std::convert::identity;

use rusqlite::types::{ToSqlOutput, Type, Value, ValueRef};
use rusqlite::{Error, Row};

use crate::codec::kind::{self, ColumnKind};
use crate::codec::trip_row::trip_columns;
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::Kind;
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
    ($($kind:ident, $value:ident => $bound:expr, $read:expr;)*) => {
        $(impl SqlKind for kind::$kind {
            fn bind($value: &Self::Value) -> ToSqlOutput<'_> {
                $bound.into()
            }

            fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self::Value> {
                row.get(at).map($read)
            }
        })*
    };
}

plain_kinds! {
    Time, time => time.ms(), DeviceTime;
    Version, version => version.get(), Version;
    Duration, ms => *ms, identity;
    Int, value => *value, identity;
    Double, value => *value, identity;
    Text, text => text.as_str(), identity;
    Blob, bytes => bytes.as_slice(), identity;
}

impl SqlKind for kind::SegmentKind {
    fn bind(kind: &Self::Value) -> ToSqlOutput<'_> {
        kind.name().into()
    }

    fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self::Value> {
        let name = row.get_ref(at)?.as_str()?;
        Kind::from_name(name).ok_or_else(|| {
            let problem = format!("its kind is `{name}`, neither trip nor stop");
            Error::FromSqlConversionFailure(at, Type::Text, problem.into())
        })
    }
}

impl SqlKind for kind::Histories {
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
                trip.end_ms.ms().into(),
                trip.start_ms.ms().into(),
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
                end_ms: DeviceTime(row.get(1)?),
                start_ms: DeviceTime(row.get(2)?),
                $($field: <$kind as SqlKind>::read(row, next())?,)*
            })
        }
    };
}

trip_columns!(define_values);

/// Reads a kind of segment.
pub(super) fn kind(row: &Row<'_>, at: usize) -> rusqlite::Result<Kind> {
    <kind::SegmentKind as SqlKind>::read(row, at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store::sqlite::open::FORMATS;

    macro_rules! define_columns {
        ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
            /// Name, type, whether it may be null.
            const LISTED: &[(&str, &str, bool)] = &[
                $((
                    stringify!($name),
                    <$kind as ColumnKind>::SQL,
                    <$kind as ColumnKind>::NULLABLE,
                )),*
            ];
        };
    }

    trip_columns!(define_columns);

    #[test]
    fn a_store_has_the_columns() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        FORMATS.iter().for_each(|statements| connection.execute_batch(statements).unwrap());
        let select = "SELECT name, type, NOT \"notnull\" FROM pragma_table_info('trips')";
        let mut select = connection.prepare(select).unwrap();
        let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let found: BTreeSet<(String, String, bool)> = found.unwrap().map(Result::unwrap).collect();
        let key = [("device_id", "TEXT"), ("bucket", "INTEGER"), ("end_time", "INTEGER")];
        let key = key.into_iter().chain([("start_time", "INTEGER")]);
        let expected = key.map(|(name, kind)| (name, kind, false)).chain(LISTED.iter().copied());
        let expected = expected.map(|(name, kind, null)| (name.to_owned(), kind.to_owned(), null));
        assert_eq!(found, expected.collect());
    }
}
