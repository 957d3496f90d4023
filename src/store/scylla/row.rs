//! Trips as CQL rows.

use std::collections::BTreeMap;

use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::value::{CqlTimestamp, MaybeUnset};
use scylla::{DeserializeRow, SerializeRow};

use crate::codec::kind;
use crate::codec::trip_row::trip_columns;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::segment::Kind;
use crate::store::raw::{Cell, CellKind, RawRow};
use crate::store::{Result, RowError, TripRow, WriteGroup};
use crate::timeline::day_of;

/// Why a row without some of its columns is not a trip.
pub(super) const INCOMPLETE: &str = "a column that every trip has is null";

/// Bound values of the delete of a span.
#[derive(SerializeRow)]
pub(super) struct Span<'a> {
    version: i64,
    device_id: &'a str,
    bucket: CqlTimestamp,
    start_time: CqlTimestamp,
    end_time: CqlTimestamp,
}

/// A kind of column whose values CQL binds and reads.
trait CqlKind: CellKind {
    /// A bound value.
    type Bound<'a>;
    /// A value that is not null, as read.
    type Stored;

    /// The value to bind.
    fn bind(value: &Self::Value) -> Self::Bound<'_>;

    /// The value of one that was read; `None` if no trip can have it.
    fn value(stored: Self::Stored) -> Option<Self::Value>;

    /// The cell of one that was read.
    fn stored_cell(stored: Self::Stored) -> Cell {
        Self::value(stored).map_or(Cell::Null, Self::cell)
    }

    /// The value that null means, if it means one.
    fn null() -> Option<Self::Value> {
        None
    }
}

macro_rules! cql_kinds {
    ($($kind:ident: $bound:ty, $stored:ty,
        $value:ident => $bind:expr, $found:ident => $read:expr;)*) => {
        $(impl CqlKind for kind::$kind {
            type Bound<'a> = $bound;
            type Stored = $stored;

            fn bind($value: &Self::Value) -> Self::Bound<'_> {
                $bind
            }

            fn value($found: Self::Stored) -> Option<Self::Value> {
                Some($read)
            }
        })*
    };
}

cql_kinds! {
    Time: CqlTimestamp, CqlTimestamp, time => CqlTimestamp(time.ms()), read => DeviceTime(read.0);
    Version: i64, i64, version => version.get(), read => Version(read);
    Duration: i64, i64, ms => *ms, read => read;
    Int: i32, i32, value => *value, value => value;
    Double: f64, f64, value => *value, value => value;
    Text: &'a str, String, text => text, text => text;
    Blob: &'a [u8], Vec<u8>, bytes => bytes, bytes => bytes;
}

impl CqlKind for kind::SegmentKind {
    type Bound<'a> = &'a str;
    type Stored = String;

    fn bind(kind: &Self::Value) -> Self::Bound<'_> {
        kind.name()
    }

    fn value(stored: Self::Stored) -> Option<Self::Value> {
        Kind::from_name(&stored)
    }

    fn stored_cell(stored: Self::Stored) -> Cell {
        Cell::Text(stored)
    }
}

impl CqlKind for kind::Histories {
    type Bound<'a> = BTreeMap<i64, Vec<i64>>;
    type Stored = BTreeMap<i64, Vec<i64>>;

    fn bind(ids: &Self::Value) -> Self::Bound<'_> {
        let versions = |history: &Vec<Version>| history.iter().map(|it| it.get()).collect();
        ids.iter().map(|(at, history)| (at.ms(), versions(history))).collect()
    }

    fn value(stored: Self::Stored) -> Option<Self::Value> {
        let history = |versions: Vec<i64>| versions.into_iter().map(Version).collect();
        let ids = stored.into_iter().map(|(at, versions)| (DeviceTime(at), history(versions)));
        Some(ids.collect())
    }
}

/// An absent value is unset, as a null would write a tombstone.
impl<K: CqlKind> CqlKind for kind::Optional<K> {
    type Bound<'a> = MaybeUnset<K::Bound<'a>>;
    type Stored = K::Stored;

    fn bind(value: &Self::Value) -> Self::Bound<'_> {
        MaybeUnset::from_option(value.as_ref().map(K::bind))
    }

    fn value(stored: Self::Stored) -> Option<Self::Value> {
        K::value(stored).map(Some)
    }

    fn stored_cell(stored: Self::Stored) -> Cell {
        K::stored_cell(stored)
    }

    fn null() -> Option<Self::Value> {
        Some(None)
    }
}

macro_rules! define_rows {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        /// Bound values of the insert of a row: every column, because the delete removes the old
        /// row.
        #[derive(SerializeRow)]
        pub(super) struct Insert<'a> {
            device_id: &'a str,
            bucket: CqlTimestamp,
            end_time: CqlTimestamp,
            start_time: CqlTimestamp,
            $($name: <$kind as CqlKind>::Bound<'a>,)*
            /// Write timestamp. Never unset, which would mean the server's clock.
            written: i64,
        }

        impl<'a> Insert<'a> {
            fn new(trip: &'a TripRow, day: Day, written: i64) -> Self {
                Self {
                    device_id: &trip.device_id,
                    bucket: bucket(day),
                    end_time: CqlTimestamp(trip.end_ms.ms()),
                    start_time: CqlTimestamp(trip.start_ms.ms()),
                    $($name: <$kind as CqlKind>::bind(&trip.$field),)*
                    written,
                }
            }
        }

        /// A row as read, in the order of the columns. Only the key is always present.
        #[derive(DeserializeRow)]
        #[scylla(flavor = "enforce_order")]
        pub(super) struct Raw {
            device_id: String,
            bucket: CqlTimestamp,
            end_time: CqlTimestamp,
            start_time: CqlTimestamp,
            $($name: Option<<$kind as CqlKind>::Stored>,)*
        }

        impl Raw {
            /// The raw row.
            pub(super) fn into_raw_row(self) -> RawRow {
                RawRow {
                    device_id: self.device_id,
                    bucket_ms: DeviceTime(self.bucket.0),
                    end_ms: DeviceTime(self.end_time.0),
                    start_ms: DeviceTime(self.start_time.0),
                    cells: vec![$(cell::<$kind>(self.$name)),*],
                }
            }

            /// The row, or the first column that is not one of a trip.
            fn into_trip_row(self) -> Result<TripRow, String> {
                Ok(TripRow {
                    device_id: self.device_id,
                    end_ms: DeviceTime(self.end_time.0),
                    start_ms: DeviceTime(self.start_time.0),
                    $($field: value::<$kind>(self.$name, stringify!($name))?,)*
                })
            }
        }
    };
}

trip_columns!(define_rows);

fn cell<K: CqlKind>(stored: Option<K::Stored>) -> Cell {
    stored.map_or(Cell::Null, K::stored_cell)
}

fn value<K: CqlKind>(stored: Option<K::Stored>, name: &str) -> Result<K::Value, String> {
    match stored {
        Some(stored) => K::value(stored).ok_or_else(|| format!("its {name} is not valid")),
        None => K::null().ok_or_else(|| INCOMPLETE.to_owned()),
    }
}

/// The first ms of a day (whole days since 1970).
pub(super) fn bucket(day: Day) -> CqlTimestamp {
    CqlTimestamp(day.start_ms().ms())
}

/// Rejects a trip whose write would be lost or would delete other trips: a version that is not a
/// valid write timestamp, or an inverted span.
pub(super) fn check(trip: &TripRow) -> Result<()> {
    let reason = if trip.version <= Version(0) {
        format!("its version is {}, but versions are write timestamps above 0", trip.version)
    } else if trip.start_ms > trip.end_ms {
        format!("it starts at {}, after its end", trip.start_ms)
    } else {
        return Ok(());
    };
    let error = RowError {
        device: trip.device_id.clone(),
        bucket: day_of(trip.start_ms).start_ms(),
        start_ms: trip.start_ms,
        end_ms: trip.end_ms,
        reason,
    };
    Err(error.into())
}

/// Bound values of a statement of a group.
pub(super) enum Bound<'a> {
    /// Of the delete of a span.
    Delete(Span<'a>),
    /// Of the insert of a row.
    Insert(Box<Insert<'a>>),
}

impl SerializeRow for Bound<'_> {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        match self {
            Self::Delete(span) => span.serialize(context, writer),
            Self::Insert(row) => row.serialize(context, writer),
        }
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// Bound values of what a group writes in a day, with `delay` added to the write timestamps: the
/// deletes, and the inserts one timestamp later, because a delete wins between equal timestamps.
pub(super) fn values(group: &WriteGroup, day: Day, delay: i64) -> Vec<Bound<'_>> {
    let deletes = group.taken_on(day).map(|span| {
        Bound::Delete(Span {
            version: (span.version + delay).0,
            device_id: group.device_id(),
            bucket: bucket(day),
            start_time: CqlTimestamp(span.start_ms.ms()),
            end_time: CqlTimestamp(span.end_ms.ms()),
        })
    });
    let inserts = group
        .rows_on(day)
        .map(|row| Bound::Insert(Box::new(Insert::new(row, day, (row.version + 1 + delay).0))));
    deletes.chain(inserts).collect()
}

impl Raw {
    /// Whether it is ours: another program writes rows without a version.
    pub(super) fn has_version(&self) -> bool {
        self.version.is_some()
    }

    /// The row; `None` without a version, which means that another program wrote it.
    pub(super) fn into_row(self) -> Result<Option<TripRow>, RowError> {
        if !self.has_version() {
            return Ok(None);
        }
        let device = self.device_id.clone();
        let (bucket, start_ms, end_ms) = (self.bucket.0, self.start_time.0, self.end_time.0);
        self.into_trip_row().map(Some).map_err(|reason| RowError {
            device,
            bucket: DeviceTime(bucket),
            start_ms: DeviceTime(start_ms),
            end_ms: DeviceTime(end_ms),
            reason,
        })
    }
}
