//! Trips as rows, and their paths as bytes: column `path` of a row. The format of the path is
//! documented in `schema/path.proto`, for readers in any language.
//!
//! A blob is one header byte, the checksum of the message, and the message, plain or as a zstd
//! frame. The message stores differences, because compression alone gains little on columns of
//! numbers; a flipped bit in it would move all later samples. Encoding is a pure function of the
//! samples: the same path always gives the same bytes.
//!
//! ```
//! use tstar_core::codec::{decode, encode};
//! use tstar_core::model::limits::LegFilter;
//! use tstar_core::{DeviceTime, Path, PathStats, RawSample, Sample};
//!
//! let raw = |time_ms, lat| RawSample { time_ms, lat, lon: 13.4, ..RawSample::default() };
//! let samples = [raw(DeviceTime(0), 52.5), raw(DeviceTime(60_000), 52.51)];
//! let samples = samples.map(|raw| Sample::quantised(&raw).expect("every field is in range"));
//! let path = Path::from_sorted(samples).expect("there are samples, and their times rise");
//!
//! let read = decode(&encode(&path))?;
//! assert!(read.iter().eq(samples));
//! assert_eq!(PathStats::from_path(&read, LegFilter::default()).distance_m.round(), 1112.0);
//! # Ok::<_, tstar_core::codec::BlobError>(())
//! ```

mod column;
mod decode;
mod encode;
#[cfg(feature = "zstd")]
mod frame;
mod ids;
#[cfg(test)]
mod ids_tests;
pub mod kind;
mod runs;
pub mod trip_row;
mod versions;

#[cfg(feature = "zstd")]
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod schema_tests;
#[cfg(feature = "zstd")]
#[cfg(test)]
mod tests;

pub use decode::{decode, is_same_message};
pub use encode::encode;

use crate::model::reading::readings;
use crate::model::scalar::DeviceTime;
use crate::timeline::{READINGS, ReadingKind, Sample};

/// Header of a plain message.
const PLAIN: u8 = 0x01;

/// Header of a message in a zstd frame.
const ZSTD: u8 = 0x02;

/// The checksum of a message, as it is stored: its CRC-32, the lowest byte first.
#[must_use]
pub fn checksum(message: &[u8]) -> [u8; 4] {
    crc32fast::hash(message).to_le_bytes()
}

/// Maximum weight of a path, samples. `max_samples` may not exceed it, so that the message of
/// every path is within [`MAX_MESSAGE_BYTES`].
pub const MAX_SAMPLES: usize = 2_000_000;

/// Maximum size of the message in a blob, bytes: enough for [`MAX_SAMPLES`] in the worst case. A
/// blob that declares more is refused before memory is allocated for it.
pub const MAX_MESSAGE_BYTES: usize = 96 << 20;

macro_rules! define_message {
    ($($kind:ident: $raw:ident, $field:ident, $present:ident {
        tags: [$tag:tt, $present_tag:tt], $($rest:tt)*
    })*) => {
        /// Message `Path` of `schema/path.proto`.
        ///
        /// In the schema, the columns are packed varints, which are length-delimited bytes on the
        /// wire. Here they stay bytes and are read and written in place, so that a hostile blob
        /// cannot expand to eight times its size.
        #[derive(Clone, PartialEq, Eq, prost::Message)]
        struct Message {
            #[prost(uint32, tag = 1)]
            count: u32,
            #[prost(bytes = "vec", tag = 2)]
            time_ms: Vec<u8>,
            #[prost(bytes = "vec", tag = 3)]
            lat_e7: Vec<u8>,
            #[prost(bytes = "vec", tag = 4)]
            lon_e7: Vec<u8>,
            $(
                #[prost(bytes = "vec", tag = $tag)]
                $field: Vec<u8>,
                #[prost(bytes = "vec", tag = $present_tag)]
                $present: Vec<u8>,
            )*
            #[prost(bytes = "vec", tag = 13)]
            version: Vec<u8>,
            #[prost(bytes = "vec", tag = 14)]
            version_rank: Vec<u8>,
            #[prost(bytes = "vec", tag = 15)]
            class_runs: Vec<u8>,
            #[prost(bytes = "vec", tag = 16)]
            ignition_runs: Vec<u8>,
            #[prost(string, repeated, tag = 17)]
            drivers: Vec<String>,
            #[prost(bytes = "vec", tag = 18)]
            driver_runs: Vec<u8>,
        }

        impl Message {
            /// Writes the columns of the readings and their bitmaps.
            fn fill_readings(&mut self, samples: &[Sample]) {
                $(
                    let readings = samples.iter().map(|sample| sample.$field);
                    encode::fill_readings(readings, &mut self.$field, &mut self.$present);
                )*
            }

            /// The column and the bitmap of each reading.
            fn readings(&self) -> [(ReadingKind, &[u8], &[u8]); READINGS] {
                [$((ReadingKind::$kind, &self.$field, &self.$present)),*]
            }
        }
    };
}

readings!(define_message);

/// Without feature `zstd`, no message is compressed.
#[cfg(not(feature = "zstd"))]
mod frame {
    pub fn compress(_: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    pub fn decompress(_: &[u8]) -> Result<Vec<u8>, super::BlobError> {
        Err(super::BlobError::Compressed)
    }
}

#[cfg(all(test, not(feature = "zstd")))]
#[test]
fn a_compressed_path_is_refused() {
    assert_eq!(decode(&[ZSTD, 0, 0, 0, 0, 0]).err(), Some(BlobError::Compressed));
}

/// Why bytes are not a valid path. The row is damaged or was written by another program; its trip
/// can be rebuilt from the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The blob is empty.
    #[error("the path is empty; rebuild the row from the log or its files")]
    Empty,
    /// The header byte is unknown.
    #[error(
        "the path begins with {0:#04x}, but this version reads 0x01 (plain) and 0x02 (zstd); \
         use the tstar version that wrote it"
    )]
    Header(u8),
    /// The message is not the one that was written.
    #[error(
        "the path has another checksum than it was written with; \
         rebuild the row from the log or its files"
    )]
    Checksum,
    /// The message is compressed, and this build cannot decompress.
    #[error("the path is compressed with zstd; build tstar-core with its feature `zstd`")]
    Compressed,
    /// The zstd frame does not declare its content size.
    #[error("the path's zstd frame declares no content size; write it with one")]
    NoSize,
    /// The message is larger than [`MAX_MESSAGE_BYTES`].
    #[error(
        "the path declares a size of {declared} bytes, the maximum is {MAX_MESSAGE_BYTES}; \
         rebuild the row from the log or its files"
    )]
    TooLarge {
        /// Declared size, bytes.
        declared: u64,
    },
    /// The bytes are not exactly one zstd frame of the declared size.
    #[error("the path's zstd frame is damaged: {0}; rebuild the row from the log or its files")]
    Frame(String),
    /// The bytes are not a message `Path`.
    #[error(
        "the path is not a message of schema/path.proto: {0}; \
         rebuild the row from the log or its files"
    )]
    Message(String),
    /// A column does not match the rest of the message.
    #[error("the path's column {column}: {reason}; rebuild the row from the log or its files")]
    Column {
        /// Name of the field in `schema/path.proto`.
        column: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// A value is outside the range of its field.
    #[error(
        "the path's column {column} has {value} at sample {index}, outside of {min} to {max}; \
         rebuild the row from the log or its files"
    )]
    OutOfRange {
        /// Name of the field in `schema/path.proto`.
        column: &'static str,
        /// Index of the sample, from 0.
        index: usize,
        /// The value, in the field's unit.
        value: i64,
        /// Minimum of the field.
        min: i64,
        /// Maximum of the field.
        max: i64,
    },
    /// The times do not rise strictly.
    #[error(
        "the path's times do not rise at sample {index} ({time_ms} ms); \
         rebuild the row from the log or its files"
    )]
    NotRising {
        /// Index of the sample, from 0.
        index: usize,
        /// Time of the sample, ms since 1970.
        time_ms: DeviceTime,
    },
}
