//! Readers for the columns of a message.

use super::BlobError;
use crate::model::column::{Steps, entries, take_varint};

/// Reads a column of second differences with one entry per sample.
pub struct ColumnReader<'a> {
    name: &'static str,
    rest: &'a [u8],
    steps: Steps,
}

impl<'a> ColumnReader<'a> {
    /// Checks that the column has `count` entries.
    pub fn new(name: &'static str, column: &'a [u8], count: usize) -> Result<Self, BlobError> {
        if entries(column) != count {
            return Err(BlobError::Column {
                column: name,
                reason: "its length differs from the count",
            });
        }
        Ok(Self { name, rest: column, steps: Steps::default() })
    }

    /// Decodes the next value.
    #[inline]
    pub fn next(&mut self) -> Result<i64, BlobError> {
        let entry = take_varint(&mut self.rest)
            .ok_or(BlobError::Column { column: self.name, reason: "it has a malformed number" })?;
        Ok(self.steps.value(entry))
    }

    /// Checks that no bytes are left.
    pub fn end(&self) -> Result<(), BlobError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(BlobError::Column { column: self.name, reason: "bytes follow its last number" })
    }
}
