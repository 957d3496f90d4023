//! Columns of a batch, each in the form in which its rows are read.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, LargeStringArray, StringArray, StringViewArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use pyo3::prelude::*;

use crate::wrong;

/// An error that names column and type.
pub(super) fn bad_type(column: &str, array: &dyn Array, expected: &str, advice: &str) -> PyErr {
    let given = array.data_type();
    wrong(format!("column `{column}` has type {given}; it needs {expected}: {advice}"))
}

fn is_null(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(row))
}

/// A column of texts.
#[derive(Debug)]
pub(super) enum Texts {
    Plain(StringArray),
    Large(LargeStringArray),
    View(StringViewArray),
    Keys { keys: Vec<usize>, nulls: Option<NullBuffer>, values: Box<Texts> },
    Absent,
}

impl Texts {
    /// A column that has texts, or integers, which are written as text.
    ///
    /// # Errors
    /// It has another type, or texts that are not UTF-8.
    pub(super) fn new(column: &str, array: &ArrayRef) -> PyResult<Self> {
        Self::if_text(column, array, true)?.ok_or_else(|| {
            let advice = "cast it, in pandas with .astype(\"Int64\") or .astype(str)";
            bad_type(column, array, "texts or integers", advice)
        })
    }

    /// A column that has texts; `None` if it has another type.
    ///
    /// # Errors
    /// It has texts that are not UTF-8.
    pub(super) fn if_text(
        column: &str,
        array: &ArrayRef,
        integers: bool,
    ) -> PyResult<Option<Self>> {
        // Another program made it: what is wrong in it must not become wrong memory here.
        let check = || array.to_data().validate_full().map_err(|error| damaged(column, &error));
        Ok(Some(match array.data_type() {
            DataType::Utf8 => {
                check()?;
                Self::Plain(array.as_string().clone())
            }
            DataType::LargeUtf8 => {
                check()?;
                Self::Large(array.as_string().clone())
            }
            DataType::Utf8View => {
                check()?;
                Self::View(array.as_string_view().clone())
            }
            DataType::Null => Self::Absent,
            DataType::Dictionary(_, values) if !values.is_nested() => {
                check()?;
                let dictionary = array.as_any_dictionary();
                let Some(values) = Self::if_text(column, dictionary.values(), integers)? else {
                    return Ok(None);
                };
                if dictionary.values().is_empty() {
                    return Ok(Some(Self::Absent));
                }
                let (keys, nulls) = (dictionary.normalized_keys(), dictionary.keys().nulls());
                Self::Keys { keys, nulls: nulls.cloned(), values: Box::new(values) }
            }
            _ if integers => match written(array) {
                Some(texts) => Self::Plain(texts),
                None => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<&str> {
        match self {
            Self::Plain(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Large(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::View(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Keys { keys, nulls, values } => {
                if is_null(nulls.as_ref(), row) {
                    None
                } else {
                    values.get(keys[row])
                }
            }
            Self::Absent => None,
        }
    }
}

fn damaged(column: &str, error: &dyn std::fmt::Display) -> PyErr {
    wrong(format!("column `{column}` is damaged: {error}; make it again from its source"))
}

/// Integers as texts; `None` if they are something else.
fn written(array: &ArrayRef) -> Option<StringArray> {
    macro_rules! written {
        ($($type:ident)*) => {
            $(if let Some(numbers) = array.as_primitive_opt::<$type>() {
                return Some(numbers.iter().map(|it| it.map(|it| it.to_string())).collect());
            })*
        };
    }
    written!(Int64Type Int32Type Int16Type Int8Type UInt64Type UInt32Type UInt16Type UInt8Type);
    None
}

/// The values of a column as another type, with its nulls.
pub(super) fn mapped<T: ArrowPrimitiveType, V>(
    array: &dyn Array,
    value: impl Fn(T::Native) -> V,
) -> Option<Vec<V>> {
    let array = array.as_primitive_opt::<T>()?;
    Some(array.values().iter().map(|&it| value(it)).collect())
}

/// A column of numbers.
#[derive(Debug)]
pub(super) struct Numbers {
    values: ScalarBuffer<f64>,
    nulls: Option<NullBuffer>,
}

impl Numbers {
    /// A column that has numbers.
    ///
    /// # Errors
    /// It has another type.
    pub(super) fn new(column: &str, array: &ArrayRef) -> PyResult<Self> {
        let values = Self::values(array).ok_or_else(|| {
            let advice = "cast it, in pandas with .astype(float), in polars with .cast(pl.Float64)";
            bad_type(column, array, "numbers", advice)
        })?;
        Ok(Self { values, nulls: array.logical_nulls() })
    }

    fn values(array: &ArrayRef) -> Option<ScalarBuffer<f64>> {
        if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
            return Some(floats.values().clone());
        }
        if *array.data_type() == DataType::Null {
            return Some(vec![f64::NAN; array.len()].into());
        }
        macro_rules! converted {
            ($($type:ident)*) => {
                $(if let Some(values) = mapped::<$type, _>(array, f64::from) {
                    return Some(values.into());
                })*
            };
        }
        converted!(Float32Type Int32Type Int16Type Int8Type UInt32Type UInt16Type UInt8Type);
        #[expect(clippy::cast_precision_loss, reason = "no field has values over 2^53")]
        {
            if let Some(values) = mapped::<Int64Type, _>(array, |it| it as f64) {
                return Some(values.into());
            }
            if let Some(values) = mapped::<UInt64Type, _>(array, |it| it as f64) {
                return Some(values.into());
            }
            let DataType::Decimal128(_, scale) = *array.data_type() else { return None };
            let parts = 10_f64.powi(scale.into());
            mapped::<Decimal128Type, _>(array, |it| it as f64 / parts).map(Into::into)
        }
    }

    /// The value; `None` if it is null, or NaN, which data frames have for null.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<f64> {
        let value = self.values[row];
        (!value.is_nan() && !is_null(self.nulls.as_ref(), row)).then_some(value)
    }
}

/// A column of yes and no.
#[derive(Debug)]
pub(super) enum Flags {
    Bools(arrow_array::BooleanArray),
    Numbers(Numbers),
    Texts(Texts),
}

/// What a row says about the ignition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    Known(Option<bool>),
    /// It is neither yes nor no.
    Unknown,
}

impl Flags {
    /// A column that has booleans, the numbers 0 and 1, or words.
    ///
    /// # Errors
    /// It has another type.
    pub(super) fn new(column: &str, array: &ArrayRef) -> PyResult<Self> {
        if let Some(bools) = array.as_boolean_opt() {
            return Ok(Self::Bools(bools.clone()));
        }
        if let Some(texts) = Texts::if_text(column, array, false)? {
            return Ok(Self::Texts(texts));
        }
        let expected = "booleans, the numbers 0 and 1, or texts such as on and off";
        let numbers = Numbers::new(column, array);
        numbers.map(Self::Numbers).map_err(|_| bad_type(column, array, expected, "cast it"))
    }

    pub(super) fn get(&self, row: usize) -> Flag {
        let number = |value: f64| match value {
            0.0 => Flag::Known(Some(false)),
            1.0 => Flag::Known(Some(true)),
            _ => Flag::Unknown,
        };
        match self {
            Self::Bools(bools) => Flag::Known(bools.is_valid(row).then(|| bools.value(row))),
            Self::Numbers(numbers) => numbers.get(row).map_or(Flag::Known(None), number),
            Self::Texts(texts) => texts.get(row).map_or(Flag::Known(None), word),
        }
    }
}

fn word(text: &str) -> Flag {
    let text = text.trim_ascii();
    let is_one = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if text.is_empty() {
        Flag::Known(None)
    } else if is_one(&["true", "on", "yes", "t", "y", "1", "1.0"]) {
        Flag::Known(Some(true))
    } else if is_one(&["false", "off", "no", "f", "n", "0", "0.0"]) {
        Flag::Known(Some(false))
    } else {
        Flag::Unknown
    }
}
