//! Records that may span lines: found by their content, in bounded memory.

use super::Mark;
use super::points::{PointScan, Root};
use super::splitter::{Bytes, OversizeRecord, RawRecord, Records};
use super::values::ValueScan;
use crate::source::formats::ElementNames;

/// Finds where records begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scanner {
    /// JSON values.
    Values(ValueScan),
    /// Elements of XML.
    Points(PointScan),
}

impl Scanner {
    fn next(&mut self, bytes: &[u8], from: &mut usize, ended: bool) -> Option<Mark> {
        match self {
            Self::Values(scan) => scan.next(bytes, from, ended),
            Self::Points(scan) => scan.next(bytes, from),
        }
    }

    fn in_record(&self) -> bool {
        match self {
            Self::Values(scan) => scan.in_record(),
            Self::Points(scan) => scan.in_record(),
        }
    }

    /// What is missing at the end of the input.
    pub(super) fn unfinished(&self) -> Option<&'static str> {
        match self {
            Self::Values(scan) => scan.unfinished(),
            Self::Points(scan) => scan.unfinished(),
        }
    }
}

/// The root of a document that begins with these bytes, if it is seen in them.
pub(super) fn root_of(names: ElementNames, bytes: &[u8]) -> Root {
    let (mut scan, mut from) = (PointScan::new(names), 0);
    while scan.root() == Root::Unknown && scan.next(bytes, &mut from).is_some() {}
    scan.root()
}

impl Records {
    /// The next record that ends in the buffer.
    pub(super) fn scan_record(&mut self, scanner: &mut Scanner) -> Option<RawRecord> {
        loop {
            match scanner.next(&self.buffer, &mut self.scanned, self.ended) {
                Some(Mark::Start(at)) => self.pass(at),
                Some(Mark::End(at)) => return Some(self.take_scanned(at)),
                None if !scanner.in_record() => {
                    self.pass(self.scanned);
                    return None;
                }
                None => {
                    if self.oversize.is_some() || self.scanned - self.start > self.limit {
                        self.extend_oversize(self.scanned);
                    }
                    return None;
                }
            }
        }
    }

    /// Skips content up to a position between two records, or up to the end of the buffer.
    pub(super) fn skip_scanned(&mut self, scanner: &mut Scanner, wanted: usize) {
        let upto = self.buffer.len().min(self.start.saturating_add(wanted));
        while scanner.next(&self.buffer[..upto], &mut self.scanned, false).is_some() {}
        self.pass(self.scanned);
    }

    /// Takes the record up to `end`.
    fn take_scanned(&mut self, end: usize) -> RawRecord {
        if self.oversize.is_some() || end - self.start > self.limit {
            self.extend_oversize(end);
        }
        if let Some(oversize) = self.oversize.take() {
            return oversize.finish(false, self.sizes.head);
        }
        let (range, line, position) = (self.start..end, self.line, self.content_position());
        self.pass(end);
        RawRecord { line, position, bytes: Bytes::Whole(range) }
    }

    /// Moves bytes up to `end` into the record that is too large.
    fn extend_oversize(&mut self, end: usize) {
        let mut oversize = self.oversize.take().unwrap_or_else(|| {
            let (position, start) = (self.content_position(), self.checkpoint());
            OversizeRecord::new(self.line, position, start)
        });
        oversize.extend(&self.buffer[self.start..end], self.sizes.head);
        self.pass(end);
        self.oversize = Some(oversize);
    }

    /// Moves the start of the next record, and counts the lines before it.
    fn pass(&mut self, next: usize) {
        self.line += memchr::memchr_iter(b'\n', &self.buffer[self.start..next]).count() as u64;
        self.start = next;
    }
}
