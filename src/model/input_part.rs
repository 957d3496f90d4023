//! How far an input was read, and how its content is known again.
//!
//! An input is known by what it holds, whatever its name and compression: by BLAKE3 of the
//! decompressed bytes. What was read of it at one go is a [`Part`]. Parts follow each other: one
//! that begins at a byte above 0 goes on where another ends.

/// Bytes at the beginning of an input that tell most inputs apart.
pub const HEAD_BYTES: usize = 4096;

/// Records of one input that follow each other in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of its first record.
    pub first_offset: i64,
    /// Byte of the content at which it begins.
    pub from_bytes: u64,
    /// Byte of the content at which it ends, after a whole record.
    pub upto_bytes: u64,
    /// Line of the content, from 1, at which the next record begins.
    pub line: u64,
    /// BLAKE3 of the content up to [`HEAD_BYTES`], or up to `upto_bytes` where that is less.
    pub head: [u8; 32],
    /// BLAKE3 of the content up to `upto_bytes`.
    pub hash: [u8; 32],
    /// Whether the records were rows of a table; else they were JSON.
    pub is_csv: bool,
    /// Whether it was the end of the content that told where its records end, as of a last line
    /// without a line end: where more follows now, they were not whole.
    pub by_end: bool,
    /// Whether the content ended here.
    pub finished: bool,
    /// Stands in for the log's timestamp of its records, ms since 1970.
    pub log_time_ms: i64,
}

impl Part {
    /// What a store keeps it by: offset of its first record, byte at which it begins.
    #[must_use]
    pub fn key(&self) -> (i64, u64) {
        (self.first_offset, self.from_bytes)
    }
}

/// A part that a store keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// The part.
    pub part: Part,
    /// Whether the import that read it came to its end. So are parts of the import that goes on
    /// now: another copy of a file in it is one that was read whole.
    pub import_finished: bool,
}
