//! Positions of the records of files in the log.

use std::collections::VecDeque;

use crate::model::input_part::Part;
use crate::model::scalar::{LogTime, Offset};
use crate::source::RecordPosition;

/// Assigns offsets to records.
pub(super) struct Log<'a> {
    /// Offset of the next record that was not delivered before.
    pub(super) next: &'a mut Offset,
    pub(super) log_time_ms: LogTime,
    /// Parts whose records are redelivered, from the current one on.
    pub(super) known: VecDeque<Part>,
    /// Number of records delivered of the first part in `known`.
    pub(super) in_part: i64,
}

impl Log<'_> {
    /// Moves to the content position of the next record. If the previous record was the last
    /// redelivered one, returns the position at which its part ends.
    pub(super) fn move_to(&mut self, bytes: u64) -> Option<u64> {
        let mut after = None;
        // A part whose last record the end of the content ended is not over there: that record may
        // have no bytes.
        let is_over = |part: &&Part| bytes >= part.upto_bytes + u64::from(part.by_end);
        while let Some(part) = self.known.front().filter(is_over) {
            after = Some(part.upto_bytes);
            self.in_part = 0;
            self.known.pop_front();
        }
        after.filter(|_| self.known.is_empty())
    }

    /// The position of the next record.
    pub(super) fn next_record(&mut self, line: u64) -> RecordPosition {
        let again = !self.known.is_empty();
        let (offset, log_time_ms) = match self.known.front() {
            Some(part) => {
                let offset = part.first_offset + self.in_part;
                self.in_part += 1;
                (offset, part.log_time_ms)
            }
            None => {
                let offset = *self.next;
                *self.next = offset.saturating_add(1);
                (offset, self.log_time_ms)
            }
        };
        RecordPosition { offset, line, log_time_ms, again, key: None }
    }
}
