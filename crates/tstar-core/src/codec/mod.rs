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
#[cfg(all(feature = "unzstd", any(test, not(feature = "zstd"))))]
mod pure_frame;
mod runs;
pub mod trip_fields;
pub mod trip_row;
mod versions;
mod wire;

#[cfg(feature = "zstd")]
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod schema_tests;
#[cfg(feature = "zstd")]
#[cfg(test)]
mod tests;

pub use decode::{decode, is_same_message, message};
pub use encode::encode;

pub use crate::model::limits::MAX_SAMPLES;

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

/// Maximum size of the message in a blob, bytes: enough for [`MAX_SAMPLES`] in the worst case. A
/// blob that declares more is refused before memory is allocated for it.
pub const MAX_MESSAGE_BYTES: usize = 96 << 20;

/// A field of message `Path`: its number, and its bytes.
type Field<B> = (u32, B);

macro_rules! define_message {
    ($($kind:ident: $raw:ident, $field:ident, $present:ident {
        tags: [$tag:literal, $present_tag:literal], $($rest:tt)*
    })*) => {
        /// Message `Path` of `schema/path.proto`.
        ///
        /// In the schema, the columns are packed varints, which are length-delimited bytes on the
        /// wire. Here they stay bytes and are read and written in place, so that a hostile blob
        /// cannot expand to eight times its size.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        struct Message {
            count: u32,
            time_ms: Vec<u8>,
            lat_e7: Vec<u8>,
            lon_e7: Vec<u8>,
            $($field: Vec<u8>, $present: Vec<u8>,)*
            version: Vec<u8>,
            version_rank: Vec<u8>,
            class_runs: Vec<u8>,
            ignition_runs: Vec<u8>,
            drivers: Vec<String>,
            driver_runs: Vec<u8>,
        }

        impl Message {
            /// The fields that are bytes, in the order of their numbers.
            fn fields(&self) -> [Field<&Vec<u8>>; 8 + 2 * READINGS] {
                [
                    (2, &self.time_ms),
                    (3, &self.lat_e7),
                    (4, &self.lon_e7),
                    $(($tag, &self.$field),)*
                    $(($present_tag, &self.$present),)*
                    (13, &self.version),
                    (14, &self.version_rank),
                    (15, &self.class_runs),
                    (16, &self.ignition_runs),
                    (18, &self.driver_runs),
                ]
            }

            /// The field of [`Message::fields`] with a number.
            fn field_mut(&mut self, number: u32) -> Option<&mut Vec<u8>> {
                Some(match number {
                    2 => &mut self.time_ms,
                    3 => &mut self.lat_e7,
                    4 => &mut self.lon_e7,
                    $($tag => &mut self.$field,)*
                    $($present_tag => &mut self.$present,)*
                    13 => &mut self.version,
                    14 => &mut self.version_rank,
                    15 => &mut self.class_runs,
                    16 => &mut self.ignition_runs,
                    18 => &mut self.driver_runs,
                    _ => return None,
                })
            }

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
    #[cfg(feature = "unzstd")]
    pub use super::pure_frame::decompress;

    pub fn compress(_: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    #[cfg(not(feature = "unzstd"))]
    pub fn decompress(_: &[u8]) -> Result<Vec<u8>, super::BlobError> {
        Err(super::BlobError::Compressed)
    }
}

#[cfg(all(test, not(any(feature = "zstd", feature = "unzstd"))))]
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
    #[error(
        "the path is compressed with zstd; build tstar-core with its feature `unzstd` or `zstd`"
    )]
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
