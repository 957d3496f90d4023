//! A path as bytes, both ways: the column `path` of a row. `schema/path.proto` is the format, for
//! readers in any language.
//!
//! One byte of header, then the message, plain or as a zstd frame. Differences first, since
//! compression alone hardly helps rows of numbers. A pure function of the samples: the same path
//! gives the same bytes wherever and after whatever it is encoded.

mod column;
mod decode;
mod encode;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::encode;

/// Header of a message as it is.
const PLAIN: u8 = 0x01;

/// Header of a message in a zstd frame.
const ZSTD: u8 = 0x02;

/// Largest message that a blob may hold, bytes: some two million samples at the worst, twenty times
/// what `max_samples` allows by default. A blob that states more is refused before any of it is
/// made room for.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Message `Path` of `schema/path.proto`.
///
/// The columns are packed varints there. On the wire these are bytes of a length, and bytes they
/// are here: written and read in place, a hostile blob cannot make them swell to eight times their
/// size.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Message {
    #[prost(uint32, tag = "1")]
    count: u32,
    #[prost(bytes = "vec", tag = "2")]
    time_ms: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    lat_e7: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    lon_e7: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    speed_cmps: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    heading_ddeg: Vec<u8>,
    #[prost(bytes = "vec", tag = "7")]
    altitude_dm: Vec<u8>,
    #[prost(bytes = "vec", tag = "8")]
    accuracy_dm: Vec<u8>,
    #[prost(bytes = "vec", tag = "9")]
    speed_present: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    heading_present: Vec<u8>,
    #[prost(bytes = "vec", tag = "11")]
    altitude_present: Vec<u8>,
    #[prost(bytes = "vec", tag = "12")]
    accuracy_present: Vec<u8>,
}

/// Why bytes are not a path. Such a row was damaged, or written by something else: its trip can be
/// rebuilt from the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// No bytes at all.
    #[error("the path is empty; rebuild the row from the log or its files")]
    Empty,
    /// An unknown first byte.
    #[error(
        "the path begins with {0:#04x}; this version reads 0x01 (plain) and 0x02 (zstd), \
         so a newer tstar or another program wrote it: read it with that"
    )]
    Header(u8),
    /// A zstd frame that does not say how much it holds.
    #[error("the path's zstd frame states no size; write it with its content size")]
    NoSize,
    /// A message over the bound.
    #[error(
        "the path states a size of {stated} bytes, at most {MAX_MESSAGE_BYTES} are read; \
             rebuild the row from the log or its files"
    )]
    TooLarge {
        /// Bytes stated.
        stated: u64,
    },
    /// Not one whole zstd frame of the size it states.
    #[error("the path's zstd frame is damaged: {0}; rebuild the row from the log or its files")]
    Frame(String),
    /// Not the message.
    #[error(
        "the path is no message of schema/path.proto: {0}; \
             rebuild the row from the log or its files"
    )]
    Message(String),
    /// A column that does not hold what the message says.
    #[error("the path's column {column}: {why}; rebuild the row from the log or its files")]
    Column {
        /// Name of the field in `schema/path.proto`.
        column: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A value that no sample has.
    #[error(
        "the path's column {column} has {value} at sample {index}, {least} to {most} is \
             possible; rebuild the row from the log or its files"
    )]
    OutOfRange {
        /// Name of the field in `schema/path.proto`.
        column: &'static str,
        /// Which sample, from 0.
        index: usize,
        /// The value, in the field's unit.
        value: i64,
        /// Smallest value possible.
        least: i64,
        /// Largest value possible.
        most: i64,
    },
    /// Times that do not rise.
    #[error(
        "the path's times do not rise at sample {index} ({time_ms} ms); \
             rebuild the row from the log or its files"
    )]
    NotRising {
        /// Which sample, from 0.
        index: usize,
        /// Its time, ms since 1970.
        time_ms: i64,
    },
}
