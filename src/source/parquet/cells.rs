//! The values of a column as JSON.

use std::io::Write;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetUnit};
use parquet::column::reader::ColumnReader;
use parquet::data_type::Int96;
use parquet::errors::Result;
use parquet::schema::types::ColumnDescriptor;

use super::pages::damaged;
use crate::model::rules::TimeUnit;
use crate::source::time::text_of;

/// Number of bytes of a text that are written: with more, a record is too large in any case.
const MAX_TEXT: usize = 1 << 20;

/// What a value is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// As its physical type.
    Plain,
    Unsigned,
    Date,
    Clock(TimeUnit),
    /// Whether it is in UTC.
    Stamp(TimeUnit, bool),
    Decimal(usize),
    Half,
    Uuid,
}

impl Kind {
    fn of_column(column: &ColumnDescriptor) -> Self {
        let unit = |unit: &ParquetUnit| match unit {
            ParquetUnit::MILLIS => TimeUnit::Millis,
            ParquetUnit::MICROS => TimeUnit::Micros,
            ParquetUnit::NANOS => TimeUnit::Nanos,
        };
        let scale = usize::try_from(column.type_scale()).unwrap_or(0).min(38);
        match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Timestamp(it)), _) => {
                Self::Stamp(unit(&it.unit), it.is_adjusted_to_u_t_c)
            }
            (Some(LogicalType::Time(it)), _) => Self::Clock(unit(&it.unit)),
            (Some(LogicalType::Integer(it)), _) if !it.is_signed => Self::Unsigned,
            (Some(LogicalType::Uuid), _) => Self::Uuid,
            (Some(LogicalType::Float16), _) => Self::Half,
            (Some(LogicalType::Date), _) | (_, ConvertedType::DATE) => Self::Date,
            (Some(LogicalType::Decimal(_)), _) | (_, ConvertedType::DECIMAL) => {
                Self::Decimal(scale)
            }
            (_, ConvertedType::TIMESTAMP_MILLIS) => Self::Stamp(TimeUnit::Millis, true),
            (_, ConvertedType::TIMESTAMP_MICROS) => Self::Stamp(TimeUnit::Micros, true),
            (_, ConvertedType::TIME_MILLIS) => Self::Clock(TimeUnit::Millis),
            (_, ConvertedType::TIME_MICROS) => Self::Clock(TimeUnit::Micros),
            (
                _,
                ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64,
            ) => Self::Unsigned,
            _ => Self::Plain,
        }
    }
}

/// A value as it is stored.
enum Cell<'a> {
    Bool(bool),
    /// With the number of its bits.
    Integer(i64, u32),
    Single(f32),
    Double(f64),
    /// Whether they are a text, if they are UTF-8.
    Bytes(&'a [u8], bool),
    Julian(&'a Int96),
}

macro_rules! define_batches {
    ($($variant:ident: $value:ty, $reader:ident, $stored:ident => $cell:expr;)*) => {
        /// The values of some rows.
        enum Values {
            $($variant(Vec<$value>),)*
        }

        impl Values {
            fn new(reader: &ColumnReader) -> Self {
                match reader {
                    $(ColumnReader::$reader(_) => Self::$variant(Vec::new()),)*
                }
            }

            /// Reads the values of at most `rows` rows. Returns the number of rows.
            fn read(
                &mut self,
                reader: &mut ColumnReader,
                rows: usize,
                definitions: Option<&mut Vec<i16>>,
            ) -> Result<usize> {
                match (self, reader) {
                    $((Self::$variant(values), ColumnReader::$reader(reader)) => {
                        values.clear();
                        Ok(reader.read_records(rows, definitions, None, values)?.0)
                    })*
                    _ => Err(damaged("a column changes its type")),
                }
            }

            fn get(&self, index: usize) -> Option<Cell<'_>> {
                Some(match self {
                    $(Self::$variant(values) => {
                        let $stored = values.get(index)?;
                        $cell
                    })*
                })
            }
        }
    };
}

define_batches! {
    Bool: bool, BoolColumnReader, stored => Cell::Bool(*stored);
    Int32: i32, Int32ColumnReader, stored => Cell::Integer(i64::from(*stored), 32);
    Int64: i64, Int64ColumnReader, stored => Cell::Integer(*stored, 64);
    Julian: Int96, Int96ColumnReader, stored => Cell::Julian(stored);
    Single: f32, FloatColumnReader, stored => Cell::Single(*stored);
    Double: f64, DoubleColumnReader, stored => Cell::Double(*stored);
    Bytes: parquet::data_type::ByteArray, ByteArrayColumnReader, stored => {
        Cell::Bytes(stored.data(), true)
    };
    Fixed: parquet::data_type::FixedLenByteArray, FixedLenByteArrayColumnReader, stored => {
        Cell::Bytes(stored.data(), false)
    };
}

/// A column of a row group.
pub(super) struct Column {
    /// Its name as JSON.
    name: String,
    kind: Kind,
    reader: ColumnReader,
    values: Values,
    /// Of each row, whether it has a value; unset: each has one.
    definitions: Option<(Vec<i16>, i16)>,
    /// Index of the next value.
    next: usize,
}

impl Column {
    pub(super) fn new(column: &ColumnDescriptor, reader: ColumnReader) -> Self {
        let most = column.max_def_level();
        Self {
            name: serde_json::Value::from(column.path().string()).to_string(),
            kind: Kind::of_column(column),
            values: Values::new(&reader),
            reader,
            definitions: (most > 0).then(|| (Vec::new(), most)),
            next: 0,
        }
    }

    /// Reads the values of at most `rows` rows. Returns the number of rows.
    pub(super) fn read(&mut self, rows: usize) -> Result<usize> {
        self.next = 0;
        let levels = self.definitions.as_mut().map(|(levels, _)| {
            levels.clear();
            levels
        });
        self.values.read(&mut self.reader, rows, levels)
    }

    /// Appends the member of an object that is the value of a row, if it has one. Called once for
    /// each row.
    pub(super) fn write(&mut self, row: usize, is_first: bool, out: &mut Vec<u8>) -> bool {
        let is_present = |(levels, most): &(Vec<i16>, i16)| levels.get(row) == Some(most);
        if !self.definitions.as_ref().is_none_or(is_present) {
            return false;
        }
        let Some(cell) = self.values.get(self.next) else { return false };
        self.next += 1;
        let before = out.len();
        out.extend_from_slice(if is_first { b"" } else { b"," });
        out.extend_from_slice(self.name.as_bytes());
        out.push(b':');
        let is_written = self.kind.write(&cell, out).is_some();
        if !is_written {
            out.truncate(before);
        }
        is_written
    }
}

impl Kind {
    /// Appends a value as JSON; `None` if it has none, as a NaN.
    fn write(self, cell: &Cell<'_>, out: &mut Vec<u8>) -> Option<()> {
        let text = match (self, cell) {
            (Self::Date, Cell::Integer(days, _)) => {
                let text = text_of(days.checked_mul(86_400)?, TimeUnit::Seconds, "");
                text.get(..10)?.to_owned()
            }
            (Self::Clock(unit), Cell::Integer(value, _)) => {
                text_of(*value, unit, "").get(11..)?.to_owned()
            }
            (Self::Stamp(unit, is_utc), Cell::Integer(value, _)) => {
                text_of(*value, unit, if is_utc { "Z" } else { "" })
            }
            (_, Cell::Julian(value)) => text_of(value.to_millis(), TimeUnit::Millis, "Z"),
            (Self::Uuid, Cell::Bytes(bytes, _)) => uuid::Uuid::from_slice(bytes).ok()?.to_string(),
            (Self::Decimal(scale), Cell::Integer(value, _)) => {
                return write!(out, "{}", decimal(i128::from(*value), scale)).ok();
            }
            (Self::Decimal(scale), Cell::Bytes(bytes, _)) => {
                return write!(out, "{}", decimal(big_endian(bytes)?, scale)).ok();
            }
            (Self::Half, Cell::Bytes(bytes, _)) => {
                let value = half(u16::from_le_bytes(*bytes.first_chunk()?));
                return value.is_finite().then(|| write!(out, "{value}").ok())?;
            }
            (Self::Unsigned, Cell::Integer(value, bits)) => {
                let value = value.cast_unsigned() & (u64::MAX >> (64 - bits));
                return write!(out, "{value}").ok();
            }
            (_, Cell::Integer(value, _)) => return write!(out, "{value}").ok(),
            (_, Cell::Bool(value)) => return write!(out, "{value}").ok(),
            (_, Cell::Single(value)) => {
                return value.is_finite().then(|| write!(out, "{value}").ok())?;
            }
            (_, Cell::Double(value)) => {
                return value.is_finite().then(|| write!(out, "{value}").ok())?;
            }
            (_, Cell::Bytes(bytes, true)) => {
                let text = std::str::from_utf8(bytes).ok()?;
                let text = crate::source::head_of(text, MAX_TEXT + 1);
                return serde_json::to_writer(out, text).ok();
            }
            // Bytes other than text.
            (_, Cell::Bytes(_, false)) => return None,
        };
        serde_json::to_writer(out, &text).ok()
    }
}

/// A number of `scale` decimals.
fn decimal(value: i128, scale: usize) -> String {
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// A signed number of at most 16 bytes, the highest first.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    if bytes.len() > 16 {
        return None;
    }
    let fill = if first >= 0x80 { -1 } else { 0 };
    Some(bytes.iter().fold(fill, |value, byte| (value << 8) | i128::from(*byte)))
}

/// A number of 16 bits.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff) / 1024.0);
    match exponent {
        0 => sign * fraction * libm::powf(2.0, -14.0),
        31 => f32::NAN,
        #[expect(clippy::cast_precision_loss, reason = "it has 5 bits")]
        _ => sign * (1.0 + fraction) * libm::powf(2.0, (exponent - 15) as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_other_bits_are_written() {
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(481_370_000, 7), "48.1370000");
        assert_eq!(decimal(7, 0), "7");
        assert_eq!(big_endian(&[0xff, 0x38]), Some(-200));
        assert_eq!(big_endian(&[0; 17]), None);
        for (bits, value) in [(0x3c00, 1.0), (0xc500, -5.0), (0x0001, 5.960_464_5e-8), (0, 0.0)] {
            assert!((half(bits) - value).abs() < 1e-12, "{bits:#x}");
        }
        assert!(half(0x7c00).is_nan());
    }
}
