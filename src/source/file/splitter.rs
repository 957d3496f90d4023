//! Cuts bytes into records, in bounded memory, with every byte kept or counted.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;
use sha2::{Digest, Sha256};

use crate::model::input_part::HEAD_BYTES;
use crate::source::Cut;
use crate::source::csv::{At, row_end};

/// Sizes, small ones for tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Bytes asked for in one read.
    pub(super) chunk: usize,
    /// Longest record that is kept whole, bytes.
    pub(super) record: usize,
    /// Bytes kept of a longer one.
    pub(super) head: usize,
    /// A batch with that many entries is handed over.
    pub(super) batch_entries: usize,
    /// A batch with that many bytes is handed over.
    pub(super) batch_bytes: usize,
}

/// How records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// At each line end.
    Lines,
    /// At line ends outside of quotes.
    Rows { delimiter: u8 },
}

/// A record, without its line end.
#[derive(Debug)]
pub(super) struct RawRecord {
    pub(super) line: u64,
    pub(super) bytes: Bytes,
}

#[derive(Debug)]
pub(super) enum Bytes {
    /// A record of the buffer.
    Whole(Range<usize>),
    /// The first line of a row whose quotes are not closed in time.
    Unclosed(Range<usize>),
    /// The head of a record that is too long.
    Cut(Vec<u8>, Cut),
}

/// A record that is too long, as it passes.
struct Passing {
    line: u64,
    /// Where it begins.
    place: u64,
    mark: Option<Checkpoint>,
    head: Vec<u8>,
    hash: Sha256,
    bytes: u64,
    /// A CR that is no part of the record if LF is next.
    held: bool,
}

impl Passing {
    fn new(line: u64, place: u64, mark: Option<Checkpoint>) -> Self {
        let (head, hash) = (Vec::new(), Sha256::new());
        Self { line, place, mark, head, hash, bytes: 0, held: false }
    }

    fn pass(&mut self, bytes: &[u8], head: usize) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.held) {
            self.add(b"\r", head);
        }
        let kept = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        self.held = kept.len() < bytes.len();
        self.add(kept, head);
    }

    fn add(&mut self, bytes: &[u8], head: usize) {
        let room = head.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The record, ended by LF or by the end of the input, where a CR is part of it.
    fn end(mut self, by_line_end: bool, head: usize) -> RawRecord {
        if self.held && !by_line_end {
            self.add(b"\r", head);
        }
        let cut = Cut { bytes: self.bytes, sha256: self.hash.finalize().into() };
        RawRecord { line: self.line, bytes: Bytes::Cut(self.head, cut) }
    }
}

/// The records of one input.
pub(super) struct Records {
    input: Box<dyn Read + Send>,
    sizes: Sizes,
    ends: Ends,
    buffer: Vec<u8>,
    /// Where the next record begins.
    start: usize,
    /// No record ends before this place.
    scanned: usize,
    at: At,
    /// A row that is between quotes at a line end before this place is so here too.
    open: usize,
    /// Line of `start`, from 1.
    line: u64,
    passing: Option<Passing>,
    ended: bool,
    /// Bytes of the content before the buffer.
    before: u64,
    seen: Option<Box<Fingerprint>>,
}

/// What the content is known by.
#[derive(Default)]
struct Fingerprint {
    hasher: blake3::Hasher,
    head: Vec<u8>,
    /// Up to this place of the buffer the content is hashed.
    upto: usize,
}

/// A place between two records, and what the content up to there is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) bytes: u64,
    pub(super) line: u64,
    pub(super) head: [u8; 32],
    pub(super) hash: [u8; 32],
}

impl Records {
    /// The records of an input; `is_known_again` tells whether its content will be marked.
    pub(super) fn new(input: Box<dyn Read + Send>, sizes: Sizes, is_known_again: bool) -> Self {
        let buffer = Vec::with_capacity(sizes.chunk);
        Self {
            input,
            sizes,
            ends: Ends::Lines,
            buffer,
            start: 0,
            scanned: 0,
            at: At::default(),
            open: 0,
            line: 1,
            passing: None,
            ended: false,
            before: 0,
            seen: is_known_again.then(Box::default),
        }
    }

    /// Where the next record begins in the content, bytes.
    pub(super) fn content_position(&self) -> u64 {
        self.passing.as_ref().map_or(self.before + self.start as u64, |passing| passing.place)
    }

    /// The place before the next record; `None` for content that is not known again.
    pub(super) fn mark(&mut self) -> Option<Checkpoint> {
        if let Some(passing) = &self.passing {
            return passing.mark;
        }
        self.see();
        let (bytes, line) = (self.content_position(), self.line);
        let seen = self.seen.as_ref()?;
        let head = *blake3::hash(&seen.head).as_bytes();
        Some(Checkpoint { bytes, line, head, hash: *seen.hasher.finalize().as_bytes() })
    }

    /// Hashes what was passed.
    fn see(&mut self) {
        let Some(seen) = &mut self.seen else { return };
        let passed = &self.buffer[seen.upto..self.start];
        let room = (HEAD_BYTES - seen.head.len()).min(passed.len());
        seen.head.extend_from_slice(&passed[..room]);
        seen.hasher.update(passed);
        seen.upto = self.start;
    }

    /// Passes the content up to a place where a record begins, on a known line. Returns whether the
    /// content reaches that far.
    pub(super) fn skip_to(&mut self, bytes: u64, line: u64) -> io::Result<bool> {
        loop {
            let wanted = usize::try_from(bytes - self.content_position()).unwrap_or(usize::MAX);
            self.start_record(self.start + wanted.min(self.buffer.len() - self.start));
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

    /// Whether anything is left in the buffer.
    pub(super) fn has_rest(&self) -> bool {
        self.start < self.buffer.len() || self.passing.is_some()
    }

    /// Says how the records from here on end.
    pub(super) fn set_ends(&mut self, ends: Ends) {
        self.ends = ends;
        (self.scanned, self.at, self.open) = (self.start, At::default(), 0);
    }

    /// Whether the input was read to its end.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes of memory in use.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    pub(super) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.buffer[place]
    }

    /// Skips a byte order mark, and tells the first byte that is not white space.
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

    /// Reads on.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.see();
            if let Some(seen) = &mut self.seen {
                seen.upto = 0;
            }
            self.before += self.start as u64;
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.open = self.open.saturating_sub(self.start);
            self.start = 0;
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

    /// The next record that is in the buffer to its end.
    pub(super) fn next_record(&mut self) -> Option<RawRecord> {
        if self.passing.is_some() {
            return self.pass();
        }
        match self.find_end() {
            Some(end) => {
                let content = self.buffer[self.start..end].strip_suffix(b"\r");
                let length = content.map_or(end - self.start, <[u8]>::len);
                if length > self.sizes.record {
                    return self.too_long();
                }
                Some(self.whole(self.start + length, end + 1))
            }
            None if self.buffer.len() - self.start > self.sizes.record + 1 => self.too_long(),
            None if !self.ended || self.start == self.buffer.len() => None,
            None if self.at == At::Quoted || self.buffer.len() - self.start > self.sizes.record => {
                self.too_long()
            }
            None => Some(self.whole(self.buffer.len(), self.buffer.len())),
        }
    }

    /// What is left when the input breaks off: the beginning of a record, or nothing.
    pub(super) fn rest(&mut self) -> RawRecord {
        if let Some(passing) = self.passing.take() {
            return passing.end(false, self.sizes.head);
        }
        let end = self.buffer.len();
        if end - self.start > self.sizes.record {
            let mut passing = Passing::new(self.line, self.content_position(), None);
            passing.pass(&self.buffer[self.start..end], self.sizes.head);
            self.start_record(end);
            return passing.end(false, self.sizes.head);
        }
        self.whole(end, end)
    }

    fn find_end(&mut self) -> Option<usize> {
        match self.ends {
            Ends::Rows { delimiter } => {
                let (from, at, open) = (&mut self.scanned, &mut self.at, &mut self.open);
                row_end(&self.buffer, from, at, open, delimiter)
            }
            Ends::Lines => {
                let end = memchr(b'\n', &self.buffer[self.scanned..]);
                let end = end.map(|end| self.scanned + end);
                self.scanned = end.unwrap_or(self.buffer.len());
                end
            }
        }
    }

    /// Takes the record up to `end`; the next one begins at `next`.
    fn whole(&mut self, end: usize, next: usize) -> RawRecord {
        let place = self.start..end;
        let line = self.line;
        let lines = match self.ends {
            Ends::Lines => u64::from(next > end),
            Ends::Rows { .. } => {
                memchr::memchr_iter(b'\n', &self.buffer[self.start..next]).count() as u64
            }
        };
        self.line += lines;
        self.start_record(next);
        RawRecord { line, bytes: Bytes::Whole(place) }
    }

    fn start_record(&mut self, next: usize) {
        (self.start, self.scanned, self.at) = (next, next, At::default());
    }

    /// A record that does not end in time. A row of several lines is most likely one with a quote
    /// that is not closed: its first line stands for it, so that the lines after it are read.
    fn too_long(&mut self) -> Option<RawRecord> {
        let first_line = memchr(b'\n', &self.buffer[self.start..]).map(|end| self.start + end);
        let several = |end: usize| self.buffer.len() > end + 1 || self.at == At::Quoted;
        let in_quotes = matches!(self.ends, Ends::Rows { .. }) && first_line.is_some_and(several);
        if let (Some(end), true) = (first_line, in_quotes) {
            let content = self.buffer[self.start..end].strip_suffix(b"\r");
            let length = content.map_or(end - self.start, <[u8]>::len);
            if length <= self.sizes.record {
                let RawRecord { line, bytes } = self.whole(self.start + length, end + 1);
                let Bytes::Whole(place) = bytes else { return None };
                return Some(RawRecord { line, bytes: Bytes::Unclosed(place) });
            }
        }
        if first_line.is_none() && self.ended && self.buffer.len() - self.start <= self.sizes.record
        {
            // The last line, with a quote that is not closed.
            return Some(self.whole(self.buffer.len(), self.buffer.len()));
        }
        self.passing = Some(Passing::new(self.line, self.content_position(), self.mark()));
        self.pass()
    }

    /// Lets a record that is too long pass, up to the next line end.
    fn pass(&mut self) -> Option<RawRecord> {
        let mut passing = self.passing.take()?;
        let end = memchr(b'\n', &self.buffer[self.start..]).map(|end| self.start + end);
        passing.pass(&self.buffer[self.start..end.unwrap_or(self.buffer.len())], self.sizes.head);
        self.start_record(end.map_or(self.buffer.len(), |end| end + 1));
        if end.is_none() && !self.ended {
            self.passing = Some(passing);
            return None;
        }
        self.line += u64::from(end.is_some());
        Some(passing.end(end.is_some(), self.sizes.head))
    }
}
