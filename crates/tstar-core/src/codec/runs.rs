//! Columns of runs: pairs of a value and the number of samples that have it.

use super::BlobError;
use crate::model::column::{entries, push, take_varint};

/// Writes the runs of a column. A column of which every value is 0 stays empty.
#[derive(Default)]
pub struct RunWriter {
    value: i64,
    samples: i64,
}

impl RunWriter {
    /// Appends the value of the next sample.
    pub fn push(&mut self, column: &mut Vec<u8>, value: i64) {
        if value != self.value && self.samples > 0 {
            self.end_run(column);
        }
        self.value = value;
        self.samples += 1;
    }

    fn end_run(&mut self, column: &mut Vec<u8>) {
        push(column, self.value);
        push(column, self.samples);
        self.samples = 0;
    }

    /// Writes the last run.
    pub fn end(mut self, column: &mut Vec<u8>) {
        if self.value != 0 || !column.is_empty() {
            self.end_run(column);
        }
    }
}

/// Reads a column of runs.
#[derive(Clone, Copy)]
pub struct RunReader<'a> {
    name: &'static str,
    rest: &'a [u8],
    /// Greatest value.
    most: i64,
    value: i64,
    left: i64,
    is_absent: bool,
    /// Whether a value was not 0.
    says_more: bool,
}

impl<'a> RunReader<'a> {
    /// Checks that the column has pairs.
    pub fn new(name: &'static str, column: &'a [u8], most: i64) -> Result<Self, BlobError> {
        if !entries(column).is_multiple_of(2) {
            return Err(BlobError::Column { column: name, reason: "its last run has no length" });
        }
        let is_absent = column.is_empty();
        Ok(Self { name, rest: column, most, value: -1, left: 0, is_absent, says_more: false })
    }

    /// Decodes the value of the next sample.
    #[inline]
    pub fn next(&mut self) -> Result<i64, BlobError> {
        if self.is_absent {
            return Ok(0);
        }
        if self.left == 0 {
            self.start_run()?;
        }
        self.left -= 1;
        Ok(self.value)
    }

    fn start_run(&mut self) -> Result<(), BlobError> {
        let wrong = |reason| BlobError::Column { column: self.name, reason };
        let mut number = || take_varint(&mut self.rest);
        let (value, samples) =
            number().zip(number()).ok_or(wrong("it has a malformed number, or too few runs"))?;
        if !(0..=self.most).contains(&value) {
            return Err(wrong("it has an unknown value"));
        }
        if samples < 1 {
            return Err(wrong("it has a run without samples"));
        }
        if value == self.value {
            return Err(wrong("two neighbouring runs have the same value"));
        }
        (self.value, self.left) = (value, samples);
        self.says_more |= value != 0;
        Ok(())
    }

    /// Checks that the runs end with the samples.
    pub fn end(&self) -> Result<(), BlobError> {
        let wrong = |reason| Err(BlobError::Column { column: self.name, reason });
        if !self.rest.is_empty() || self.left > 0 {
            return wrong("its runs have more samples than the count");
        }
        if !self.is_absent && !self.says_more {
            return wrong("it is redundant: every value is 0");
        }
        Ok(())
    }
}
