//! Splits bytes into records in bounded memory. Every byte is kept or counted.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;
use sha2::{Digest, Sha256};

use super::scanner::Scanner;
use crate::model::input_part::HEAD_BYTES;
use crate::source::Cut;
use crate::source::formats::csv::{RowState, row_end};

/// Size limits; tests use small ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Size of one read, bytes.
    pub(super) chunk: usize,
    /// Maximum size of a record that is kept whole, bytes.
    pub(super) record: usize,
    /// Size of the head that is kept of a longer record, bytes.
    pub(super) head: usize,
    /// Number of entries at which a batch is sent.
    pub(super) batch_entries: usize,
    /// Number of bytes at which a batch is sent.
    pub(super) batch_bytes: usize,
}

/// Where records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// At each line end.
    Lines,
    /// At line ends outside of quotes.
    Rows { delimiter: u8 },
    /// At the end of the file: it is one record.
    File,
    /// Where a scanner finds it.
    Scanned(Scanner),
}

/// Maximum size of a file that is one record, bytes.
const MAX_FILE_BYTES: usize = 16 << 20;

/// A record, without its line end.
#[derive(Debug)]
pub(super) struct RawRecord {
    /// Line of its first byte, from 1.
    pub(super) line: u64,
    /// Content position of its first byte.
    pub(super) position: u64,
    pub(super) bytes: Bytes,
}

#[derive(Debug)]
pub(super) enum Bytes {
    /// A whole record, as a range of the buffer.
    Whole(Range<usize>),
    /// The first line of a row with a quote that is not closed within the size limit.
    Unclosed(Range<usize>),
    /// The head of an oversize record.
    Cut(Vec<u8>, Cut),
}

/// An oversize record while it is read: its bytes are hashed and counted, and only the head is
/// kept.
pub(super) struct OversizeRecord {
    line: u64,
    /// Content position of its first byte.
    position: u64,
    /// Checkpoint before the record.
    start: Option<Checkpoint>,
    head: Vec<u8>,
    hash: Sha256,
    bytes: u64,
    /// Whether a CR was read that belongs to the line end if LF follows, else to the record.
    pending_cr: bool,
}

impl OversizeRecord {
    pub(super) fn new(line: u64, position: u64, start: Option<Checkpoint>) -> Self {
        let (head, hash) = (Vec::new(), Sha256::new());
        Self { line, position, start, head, hash, bytes: 0, pending_cr: false }
    }

    pub(super) fn extend(&mut self, bytes: &[u8], head: usize) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.pending_cr) {
            self.add(b"\r", head);
        }
        let kept = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        self.pending_cr = kept.len() < bytes.len();
        self.add(kept, head);
    }

    fn add(&mut self, bytes: &[u8], head: usize) {
        let missing = head.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Ends the record: at LF, or at the end of the input, where a last CR belongs to the record.
    pub(super) fn finish(mut self, by_line_end: bool, head: usize) -> RawRecord {
        if self.pending_cr && !by_line_end {
            self.add(b"\r", head);
        }
        let cut = Cut { bytes: self.bytes, sha256: self.hash.finalize().into() };
        RawRecord { line: self.line, position: self.position, bytes: Bytes::Cut(self.head, cut) }
    }
}

/// The records of one input.
pub(super) struct Records {
    input: Box<dyn Read + Send>,
    pub(super) sizes: Sizes,
    /// Maximum size of a record that is kept whole, bytes.
    pub(super) limit: usize,
    ends: Ends,
    pub(super) buffer: Vec<u8>,
    /// Index in the buffer at which the next record begins.
    pub(super) start: usize,
    /// Index in the buffer before which the next record does not end.
    pub(super) scanned: usize,
    state: RowState,
    /// A row that is between quotes at an earlier line end is between quotes up to this index.
    open: usize,
    /// Line number of `start`, from 1.
    pub(super) line: u64,
    pub(super) oversize: Option<OversizeRecord>,
    pub(super) ended: bool,
    /// An error of [`Records::read_ahead`], for the next [`Records::fill`].
    failed: Option<io::Error>,
    /// Content position of the start of the buffer.
    before: u64,
    fingerprint: Option<Box<Fingerprint>>,
}

/// Head and hash of the content read so far, by which a later run recognises it.
#[derive(Default)]
struct Fingerprint {
    hasher: blake3::Hasher,
    head: Vec<u8>,
    /// Index in the buffer up to which the content is hashed.
    upto: usize,
}

/// A position between two records, and the hashes of the content before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) bytes: u64,
    pub(super) line: u64,
    pub(super) head: [u8; 32],
    pub(super) hash: [u8; 32],
}

impl Records {
    /// Creates a splitter. `is_resumable`: whether checkpoints of the content are needed.
    pub(super) fn new(input: Box<dyn Read + Send>, sizes: Sizes, is_resumable: bool) -> Self {
        let buffer = Vec::with_capacity(sizes.chunk);
        Self {
            input,
            sizes,
            limit: sizes.record,
            ends: Ends::Lines,
            buffer,
            start: 0,
            scanned: 0,
            state: RowState::default(),
            open: 0,
            line: 1,
            oversize: None,
            ended: false,
            failed: None,
            before: 0,
            fingerprint: is_resumable.then(Box::default),
        }
    }

    /// Content position of the next record, bytes.
    pub(super) fn content_position(&self) -> u64 {
        let start = self.before + self.start as u64;
        self.oversize.as_ref().map_or(start, |oversize| oversize.position)
    }

    /// Checkpoint before the next record; `None` for an input that cannot be resumed.
    pub(super) fn checkpoint(&mut self) -> Option<Checkpoint> {
        if let Some(oversize) = &self.oversize {
            return oversize.start;
        }
        self.hash_consumed();
        let (bytes, line) = (self.content_position(), self.line);
        let fingerprint = self.fingerprint.as_ref()?;
        let head = *blake3::hash(&fingerprint.head).as_bytes();
        let hash = *fingerprint.hasher.finalize().as_bytes();
        Some(Checkpoint { bytes, line, head, hash })
    }

    /// Hashes the consumed bytes of the buffer.
    fn hash_consumed(&mut self) {
        let Some(fingerprint) = &mut self.fingerprint else { return };
        let consumed = &self.buffer[fingerprint.upto..self.start];
        let missing = (HEAD_BYTES - fingerprint.head.len()).min(consumed.len());
        fingerprint.head.extend_from_slice(&consumed[..missing]);
        fingerprint.hasher.update(consumed);
        fingerprint.upto = self.start;
    }

    /// Skips the content up to a position at which a record begins, on line `line`. Returns whether
    /// the content is long enough.
    pub(super) fn skip_to(&mut self, bytes: u64, line: u64) -> io::Result<bool> {
        loop {
            let wanted = usize::try_from(bytes - self.content_position()).unwrap_or(usize::MAX);
            if let Ends::Scanned(mut scanner) = self.ends {
                self.skip_scanned(&mut scanner, wanted);
                self.ends = Ends::Scanned(scanner);
            } else {
                self.start_record(self.start + wanted.min(self.buffer.len() - self.start));
            }
            if self.content_position() == bytes {
                self.line = line;
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            self.fill()?;
        }
    }

    /// Ends the input at a position that is not read yet, or where it is.
    pub(super) fn end_at(&mut self, end: u64) {
        let read = self.before + self.buffer.len() as u64;
        let input = std::mem::replace(&mut self.input, Box::new(io::empty()));
        self.input = Box::new(input.take(end.saturating_sub(read)));
    }

    /// Whether anything is left in the buffer.
    pub(super) fn has_rest(&self) -> bool {
        self.start < self.buffer.len() || self.oversize.is_some()
    }

    /// Whether the next record is surely a line with its end. Of rows with quotes it is not known.
    pub(super) fn has_line(&self) -> bool {
        let may_hold = |line: &[u8]| match self.ends {
            Ends::Lines => true,
            Ends::Rows { .. } => !line.contains(&b'"'),
            Ends::Scanned(_) | Ends::File => false,
        };
        let ahead = self.ahead();
        let end = memchr::memchr(b'\n', ahead);
        self.oversize.is_none() && end.is_some_and(|end| may_hold(&ahead[..end]))
    }

    /// What is missing at the end of the input; `None` if it ends between two records.
    pub(super) fn unfinished(&self) -> Option<&'static str> {
        let Ends::Scanned(scanner) = &self.ends else { return None };
        scanner.unfinished().or(self.has_rest().then_some("some markup is not closed"))
    }

    /// The content from the next record on, as far as it is read.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Sets where the records from here on end.
    pub(super) fn set_ends(&mut self, ends: Ends) {
        self.ends = ends;
        if ends == Ends::File {
            self.sizes.record = MAX_FILE_BYTES;
        }
        (self.scanned, self.state, self.open) = (self.start, RowState::default(), 0);
    }

    /// Whether the input was read to its end.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Capacity of the buffer, bytes.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Skips a byte order mark. Returns the first byte that is not white space.
    pub(super) fn first_byte(&mut self) -> io::Result<Option<u8>> {
        while self.buffer.len() < 3 && !self.ended {
            self.fill()?;
        }
        if self.buffer.starts_with(b"\xef\xbb\xbf") {
            (self.start, self.scanned) = (3, 3);
        }
        loop {
            let ahead = &self.buffer[self.start..];
            let first = ahead.iter().copied().find(|byte| !byte.is_ascii_whitespace());
            if first.is_some() || self.ended || ahead.len() > self.sizes.record {
                return Ok(first);
            }
            self.fill()?;
        }
    }

    /// Reads one chunk into the buffer, to detect the format. Returns whether there is more.
    pub(super) fn read_ahead(&mut self) -> bool {
        if self.ended || self.failed.is_some() {
            return false;
        }
        self.failed = self.fill().err();
        !self.ended && self.failed.is_none()
    }

    /// Reads one chunk into the buffer.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.start > 0 {
            self.hash_consumed();
            if let Some(fingerprint) = &mut self.fingerprint {
                fingerprint.upto = 0;
            }
            self.before += self.start as u64;
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.open = self.open.saturating_sub(self.start);
            self.start = 0;
        }
        if self.buffer.capacity() / 4 > self.buffer.len() + self.sizes.chunk + self.sizes.record {
            // After a large document.
            self.buffer.shrink_to(self.buffer.len() + self.sizes.chunk);
        }
        let filled = self.buffer.len();
        self.buffer.resize(filled + self.sizes.chunk, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
        self.ended = read? == 0;
        Ok(())
    }

    /// The next record that ends in the buffer.
    pub(super) fn next_record(&mut self) -> Option<RawRecord> {
        if let Ends::Scanned(mut scanner) = self.ends {
            let record = self.scan_record(&mut scanner);
            self.ends = Ends::Scanned(scanner);
            return record;
        }
        if self.oversize.is_some() {
            return self.read_oversize();
        }
        match self.find_end() {
            Some(end) => {
                let content = self.buffer[self.start..end].strip_suffix(b"\r");
                let length = content.map_or(end - self.start, <[u8]>::len);
                if length > self.sizes.record {
                    return self.split_oversize();
                }
                Some(self.take_whole(self.start + length, end + 1))
            }
            None if self.buffer.len() - self.start > self.sizes.record + 1 => self.split_oversize(),
            None if !self.ended || self.start == self.buffer.len() => None,
            None if self.state == RowState::Quoted
                || self.buffer.len() - self.start > self.sizes.record =>
            {
                self.split_oversize()
            }
            None => Some(self.take_whole(self.buffer.len(), self.buffer.len())),
        }
    }

    /// The rest of a truncated input: the beginning of a record, or nothing.
    pub(super) fn rest(&mut self) -> RawRecord {
        if let Some(oversize) = self.oversize.take() {
            return oversize.finish(false, self.sizes.head);
        }
        let end = self.buffer.len();
        if end - self.start > self.limit {
            let mut oversize = OversizeRecord::new(self.line, self.content_position(), None);
            oversize.extend(&self.buffer[self.start..end], self.sizes.head);
            self.start_record(end);
            return oversize.finish(false, self.sizes.head);
        }
        self.take_whole(end, end)
    }

    fn find_end(&mut self) -> Option<usize> {
        match self.ends {
            Ends::Rows { delimiter } => {
                let (from, state, open) = (&mut self.scanned, &mut self.state, &mut self.open);
                row_end(&self.buffer, from, state, open, delimiter)
            }
            Ends::Lines => {
                let end = memchr(b'\n', &self.buffer[self.scanned..]);
                let end = end.map(|end| self.scanned + end);
                self.scanned = end.unwrap_or(self.buffer.len());
                end
            }
            Ends::File | Ends::Scanned(_) => None,
        }
    }

    /// Takes the record up to `end`; the next one begins at `next`.
    fn take_whole(&mut self, end: usize, next: usize) -> RawRecord {
        let range = self.start..end;
        let (line, position) = (self.line, self.content_position());
        let lines = match self.ends {
            Ends::Lines | Ends::File => u64::from(next > end),
            Ends::Rows { .. } | Ends::Scanned(_) => {
                memchr::memchr_iter(b'\n', &self.buffer[self.start..next]).count() as u64
            }
        };
        self.line += lines;
        self.start_record(next);
        RawRecord { line, position, bytes: Bytes::Whole(range) }
    }

    fn start_record(&mut self, next: usize) {
        (self.start, self.scanned, self.state) = (next, next, RowState::default());
    }

    /// Handles a record that does not end within the size limit. A row of several lines most likely
    /// has a quote that is not closed: only its first line is taken, so that the lines after it are
    /// read.
    fn split_oversize(&mut self) -> Option<RawRecord> {
        let first_line = memchr(b'\n', &self.buffer[self.start..]).map(|end| self.start + end);
        let several = |end: usize| self.buffer.len() > end + 1 || self.state == RowState::Quoted;
        let in_quotes = matches!(self.ends, Ends::Rows { .. }) && first_line.is_some_and(several);
        if let (Some(end), true) = (first_line, in_quotes) {
            let content = self.buffer[self.start..end].strip_suffix(b"\r");
            let length = content.map_or(end - self.start, <[u8]>::len);
            if length <= self.sizes.record {
                let record = self.take_whole(self.start + length, end + 1);
                let Bytes::Whole(range) = record.bytes else { return None };
                return Some(RawRecord { bytes: Bytes::Unclosed(range), ..record });
            }
        }
        if first_line.is_none() && self.ended && self.buffer.len() - self.start <= self.sizes.record
        {
            // The last line, with a quote that is not closed.
            return Some(self.take_whole(self.buffer.len(), self.buffer.len()));
        }
        let (position, start) = (self.content_position(), self.checkpoint());
        self.oversize = Some(OversizeRecord::new(self.line, position, start));
        self.read_oversize()
    }

    /// Reads an oversize record, up to the next line end.
    fn read_oversize(&mut self) -> Option<RawRecord> {
        let mut oversize = self.oversize.take()?;
        let has_lines = self.ends != Ends::File;
        let end = has_lines.then(|| memchr(b'\n', &self.buffer[self.start..])).flatten();
        let end = end.map(|end| self.start + end);
        let chunk = &self.buffer[self.start..end.unwrap_or(self.buffer.len())];
        oversize.extend(chunk, self.sizes.head);
        self.start_record(end.map_or(self.buffer.len(), |end| end + 1));
        if end.is_none() && !self.ended {
            self.oversize = Some(oversize);
            return None;
        }
        self.line += u64::from(end.is_some());
        Some(oversize.finish(end.is_some(), self.sizes.head))
    }
}
