//! How far an input was read, and how its content is recognised later.
//!
//! An input is identified by BLAKE3 of its decompressed bytes, whatever its name and compression.
//! What one run read of it is a [`Part`]. A part that begins at a byte above 0 continues where
//! another part ends.

use serde::{Deserialize, Serialize};

use super::input_format::InputFormat;
use super::scalar::{LogTime, Offset};

/// Bytes at the start of an input that are hashed first: enough to distinguish most inputs.
pub(crate) const HEAD_BYTES: usize = 4096;

/// A run of consecutive records of one input in the log. The file that records a replay has it as
/// JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Log offset of its first record.
    #[serde(rename = "first")]
    pub first_offset: Offset,
    /// Position in the content at which it begins, bytes.
    pub from_bytes: u64,
    /// Position in the content at which it ends, after a whole record, bytes.
    pub upto_bytes: u64,
    /// Line at which the next record begins, from 1.
    pub line: u64,
    /// BLAKE3 of the content up to [`HEAD_BYTES`], or up to `upto_bytes` if that is less.
    #[serde(with = "hex")]
    pub head: [u8; 32],
    /// BLAKE3 of the content up to `upto_bytes`.
    #[serde(with = "hex")]
    pub hash: [u8; 32],
    /// Format by which it was split into records.
    pub format: InputFormat,
    /// Whether the last record was ended by the end of the content, such as a last line without a
    /// line break. If the input has grown since, that record may have been incomplete.
    pub by_end: bool,
    /// Whether damaged data ended the content, such as a truncated gzip file.
    pub damaged: bool,
    /// Whether the content ended here.
    pub finished: bool,
    /// Log timestamp used for its records, ms since 1970.
    pub log_time_ms: LogTime,
}

impl Part {
    /// Key of the part in a store: log offset of its first record, byte at which it begins.
    #[must_use]
    pub fn key(&self) -> (i64, u64) {
        (self.first_offset.get(), self.from_bytes)
    }
}

/// A part as recorded in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// The part.
    pub part: Part,
    /// Whether the import that read it finished. Also set for the parts of the import that runs
    /// now, so that a second copy of a file in it counts as read completely.
    pub import_finished: bool,
}

/// A hash as text.
mod hex {
    use data_encoding::HEXLOWER;
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&HEXLOWER.encode(hash))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let hash = HEXLOWER.decode(text.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
        hash.ok_or_else(|| D::Error::custom("a hash is malformed"))
    }
}
