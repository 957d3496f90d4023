//! The columns of a message, to be read.

use super::BlobError;
use crate::model::column::{Steps, entries, take_varint};

/// A column to be read that holds one entry a sample.
pub struct ColumnReader<'a> {
    name: &'static str,
    rest: &'a [u8],
    steps: Steps,
}

impl<'a> ColumnReader<'a> {
    /// A column of second differences, which must have `count` entries.
    pub fn new(name: &'static str, column: &'a [u8], count: usize) -> Result<Self, BlobError> {
        if entries(column) != count {
            return Err(BlobError::Column { column: name, why: "its length is not the count" });
        }
        Ok(Self { name, rest: column, steps: Steps::default() })
    }

    /// The next value.
    #[inline]
    pub fn next(&mut self) -> Result<i64, BlobError> {
        let entry = take_varint(&mut self.rest)
            .ok_or(BlobError::Column { column: self.name, why: "it has a malformed number" })?;
        Ok(self.steps.value(entry))
    }

    /// Checks that nothing is left.
    pub fn end(&self) -> Result<(), BlobError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(BlobError::Column { column: self.name, why: "bytes follow its last number" })
    }
}
