//! Columns of times: timestamps of any unit and zone, numbers, or texts.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit as ArrowUnit};
use pyo3::prelude::*;
use tstar_core::model::time::parse_time;
use tstar_core::model::units::{IntegerTimeError, TimeUnit};

use super::column::{Texts, bad_type, mapped};

/// A column of times.
#[derive(Debug)]
pub(super) enum Times {
    Integers { values: ScalarBuffer<i64>, unit: TimeUnit, nulls: Option<NullBuffer> },
    Floats { values: ScalarBuffer<f64>, unit: TimeUnit, nulls: Option<NullBuffer> },
    Texts { texts: Texts, unit: TimeUnit },
}

/// The time of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Time<'a> {
    Ms(i64),
    Null,
    /// A number whose ms overflow.
    BadNumber(f64),
    /// A text that is not a time.
    BadText(&'a str),
}

impl Times {
    /// A column that has times; numbers are in `unit`.
    ///
    /// # Errors
    /// It has another type.
    pub(super) fn new(column: &str, array: &ArrayRef, unit: TimeUnit) -> PyResult<Self> {
        if let Some(texts) = Texts::if_text(column, array, false)? {
            return Ok(Self::Texts { texts, unit });
        }
        let nulls = array.logical_nulls();
        if let Some((values, unit)) = integers(array, unit) {
            return Ok(Self::Integers { values, unit, nulls });
        }
        if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
            return Ok(Self::Floats { values: floats.values().clone(), unit, nulls });
        }
        if let Some(floats) = mapped::<Float32Type, _>(array, f64::from) {
            return Ok(Self::Floats { values: floats.into(), unit, nulls });
        }
        let expected = "timestamps, numbers since 1970, or RFC 3339 texts";
        Err(bad_type(column, array, expected, "cast it, in pandas with pandas.to_datetime"))
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Time<'_> {
        let is_null = |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|it| it.is_null(row));
        match self {
            Self::Integers { nulls, .. } | Self::Floats { nulls, .. } if is_null(nulls) => {
                Time::Null
            }
            Self::Integers { values, unit: TimeUnit::Millis, .. } => Time::Ms(values[row]),
            Self::Integers { values, unit, .. } => {
                #[expect(clippy::cast_precision_loss, reason = "for a message")]
                let bad = || Time::BadNumber(values[row] as f64);
                unit.integer_ms(values[row].into()).map_or_else(bad, Time::Ms)
            }
            Self::Floats { values, .. } if values[row].is_nan() => Time::Null,
            Self::Floats { values, unit, .. } => {
                unit.number_ms(values[row]).map_or(Time::BadNumber(values[row]), Time::Ms)
            }
            Self::Texts { texts, unit } => match texts.get(row) {
                None => Time::Null,
                Some(text) => text_ms(text, *unit).map_or(Time::BadText(text), Time::Ms),
            },
        }
    }
}

/// A text: an integer in `unit`, or RFC 3339; `None` if it is neither.
fn text_ms(text: &str, unit: TimeUnit) -> Option<i64> {
    let text = text.trim_ascii();
    match unit.text_ms(text) {
        Err(IntegerTimeError::Text) => parse_time(text).ok(),
        integer => integer.ok(),
    }
}

/// Whole numbers since 1970 and their unit; `None` if the column has something else.
pub(super) fn integers(array: &ArrayRef, unit: TimeUnit) -> Option<(ScalarBuffer<i64>, TimeUnit)> {
    macro_rules! values {
        ($type:ident) => {
            array.as_primitive_opt::<$type>().map(|array| array.values().clone())
        };
    }
    match array.data_type() {
        DataType::Timestamp(of, _) => match of {
            ArrowUnit::Second => Some((values!(TimestampSecondType)?, TimeUnit::Seconds)),
            ArrowUnit::Millisecond => Some((values!(TimestampMillisecondType)?, TimeUnit::Millis)),
            ArrowUnit::Microsecond => Some((values!(TimestampMicrosecondType)?, TimeUnit::Micros)),
            ArrowUnit::Nanosecond => Some((values!(TimestampNanosecondType)?, TimeUnit::Nanos)),
        },
        DataType::Int64 => Some((values!(Int64Type)?, unit)),
        DataType::Int32 => Some((mapped::<Int32Type, _>(array, i64::from)?.into(), unit)),
        DataType::UInt32 => Some((mapped::<UInt32Type, _>(array, i64::from)?.into(), unit)),
        DataType::UInt64 => {
            // One that does not fit is far out of range, as the largest one is.
            let fitted = |value| i64::try_from(value).unwrap_or(i64::MAX);
            Some((mapped::<UInt64Type, _>(array, fitted)?.into(), unit))
        }
        DataType::Decimal128(_, scale) => {
            let ms = |value| decimal_ms(value, *scale, unit);
            Some((mapped::<Decimal128Type, _>(array, ms)?.into(), TimeUnit::Millis))
        }
        _ => None,
    }
}

/// A decimal number as ms, floored; one that overflows is the largest or the smallest number, which
/// is out of range as well.
fn decimal_ms(value: i128, scale: i8, unit: TimeUnit) -> i64 {
    let exponent: i32 = match unit {
        TimeUnit::Seconds => 3,
        TimeUnit::Millis => 0,
        TimeUnit::Micros => -3,
        TimeUnit::Nanos => -6,
    };
    let exponent = exponent - i32::from(scale);
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    let ms = match power {
        Some(power) if exponent >= 0 => value.saturating_mul(power),
        Some(power) => value.div_euclid(power),
        // Of 38 digits, more than all are behind the point, or before it.
        None if exponent < 0 => i128::from(value < 0).wrapping_neg(),
        None => value.signum().saturating_mul(i128::MAX),
    };
    let bound = if ms < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(ms).unwrap_or(bound)
}
