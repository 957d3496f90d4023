//! Kinds of columns of table `trips`. Each store implements a trait that binds and reads them.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::model::scalar;
use crate::model::scalar::DeviceTime;
use crate::segment::Kind;

/// A kind of column: its value in a row, and its types in the schemas.
#[allow(dead_code, reason = "a test holds the schemas to the types")]
pub trait ColumnKind {
    /// Type of the field of [`TripRow`](super::trip_row::TripRow).
    type Value;
    /// Type in `schema/trips.cql`.
    const CQL: &'static str;
    /// Type in `schema/trips.sql`.
    const SQL: &'static str;
    /// Whether a trip may have no value.
    const NULLABLE: bool = false;

    /// The value, if it is a floating-point number.
    fn real(_value: &Self::Value) -> Option<f64> {
        None
    }
}

/// A time of a device's clock.
pub struct Time;

impl ColumnKind for Time {
    type Value = scalar::DeviceTime;
    const CQL: &'static str = "timestamp";
    const SQL: &'static str = "INTEGER";
}

/// A version of the log.
pub struct Version;

impl ColumnKind for Version {
    type Value = scalar::Version;
    const CQL: &'static str = "bigint";
    const SQL: &'static str = "INTEGER";
}

/// A time from one sample to another, ms.
pub struct Duration;

impl ColumnKind for Duration {
    type Value = i64;
    const CQL: &'static str = "bigint";
    const SQL: &'static str = "INTEGER";
}

/// A 32-bit integer.
pub struct Int;

impl ColumnKind for Int {
    type Value = i32;
    const CQL: &'static str = "int";
    const SQL: &'static str = "INTEGER";
}

/// A floating-point number, which must be finite.
pub struct Double;

impl ColumnKind for Double {
    type Value = f64;
    const CQL: &'static str = "double";
    const SQL: &'static str = "REAL";

    fn real(value: &f64) -> Option<f64> {
        Some(*value)
    }
}

/// A text.
pub struct Text;

impl ColumnKind for Text {
    type Value = String;
    const CQL: &'static str = "text";
    const SQL: &'static str = "TEXT";
}

/// Bytes.
pub struct Blob;

impl ColumnKind for Blob {
    type Value = Vec<u8>;
    const CQL: &'static str = "blob";
    const SQL: &'static str = "BLOB";
}

/// What a segment is, by its name.
pub struct SegmentKind;

impl ColumnKind for SegmentKind {
    type Value = Kind;
    const CQL: &'static str = "text";
    const SQL: &'static str = "TEXT";
}

/// The ids of a row: of each mint point, the versions at which that id was minted, retired, revived
/// and so on.
pub type MintHistories = BTreeMap<DeviceTime, Vec<scalar::Version>>;

/// Mint histories by mint point, ms since 1970. In SQLite a JSON object of arrays in ascending
/// order, so that equal maps give equal texts. In CQL one cell: a map that is not frozen would
/// write a tombstone with each row, and merge with another map cell by cell.
pub struct Histories;

impl ColumnKind for Histories {
    type Value = MintHistories;
    const CQL: &'static str = "frozen<map<bigint, frozen<list<bigint>>>>";
    const SQL: &'static str = "TEXT";
}

/// A column that is null for a trip without a value.
pub struct Optional<K>(PhantomData<K>);

impl<K: ColumnKind> ColumnKind for Optional<K> {
    type Value = Option<K::Value>;
    const CQL: &'static str = K::CQL;
    const SQL: &'static str = K::SQL;
    const NULLABLE: bool = true;

    fn real(value: &Option<K::Value>) -> Option<f64> {
        value.as_ref().and_then(K::real)
    }
}
