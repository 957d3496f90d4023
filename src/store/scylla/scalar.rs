//! Binds and reads a version as `bigint`.

use scylla::cluster::metadata::ColumnType;
use scylla::deserialize::value::DeserializeValue;
use scylla::deserialize::{DeserializationError, FrameSlice, TypeCheckError};
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};

use crate::model::scalar::Version;

impl SerializeValue for Version {
    fn serialize<'b>(
        &self,
        kind: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        self.0.serialize(kind, writer)
    }
}

impl<'frame, 'metadata> DeserializeValue<'frame, 'metadata> for Version {
    fn type_check(kind: &ColumnType<'_>) -> Result<(), TypeCheckError> {
        i64::type_check(kind)
    }

    fn deserialize(
        kind: &'metadata ColumnType<'metadata>,
        value: Option<FrameSlice<'frame>>,
    ) -> Result<Self, DeserializationError> {
        i64::deserialize(kind, value).map(Self)
    }
}
