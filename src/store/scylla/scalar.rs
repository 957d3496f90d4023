//! Binds and reads the number types of the model: times as `timestamp`, others as `bigint`.

use scylla::cluster::metadata::ColumnType;
use scylla::deserialize::value::DeserializeValue;
use scylla::deserialize::{DeserializationError, FrameSlice, TypeCheckError};
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::value::CqlTimestamp;

use crate::model::scalar::{LogTime, Offset, Version};

/// Stores a type as another one, by a conversion in each direction.
macro_rules! stored_as {
    ($($name:ident as $cql:ty: $to:expr, $from:expr;)+) => {$(
        impl SerializeValue for $name {
            fn serialize<'b>(
                &self,
                kind: &ColumnType<'_>,
                writer: CellWriter<'b>,
            ) -> Result<WrittenCellProof<'b>, SerializationError> {
                let to: fn($name) -> $cql = $to;
                to(*self).serialize(kind, writer)
            }
        }

        impl<'frame, 'metadata> DeserializeValue<'frame, 'metadata> for $name {
            fn type_check(kind: &ColumnType<'_>) -> Result<(), TypeCheckError> {
                <$cql>::type_check(kind)
            }

            fn deserialize(
                kind: &'metadata ColumnType<'metadata>,
                value: Option<FrameSlice<'frame>>,
            ) -> Result<Self, DeserializationError> {
                let from: fn($cql) -> $name = $from;
                <$cql>::deserialize(kind, value).map(from)
            }
        }
    )+};
}

stored_as! {
    LogTime as CqlTimestamp: |time| CqlTimestamp(time.0), |time| Self(time.0);
    Version as i64: |version| version.0, Self;
    Offset as i64: |offset| offset.0, Self;
}
