//! The order of arrival, where a column of the frame has it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, UInt8Type, UInt16Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use pyo3::prelude::*;
use tstar_core::model::rules::TimeUnit;

use super::column::{Texts, bad_type, mapped};
use super::fields::index_of;
use super::times::integers;
use crate::wrong;

/// The values of a column of all rows.
#[derive(Debug)]
enum Keys {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<Box<str>>),
}

/// The columns by which rows are sorted, and their values.
#[derive(Debug)]
pub(crate) struct Order {
    names: Vec<String>,
    keys: Vec<Keys>,
    rows: usize,
}

impl Order {
    /// By these columns, the first one first.
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self { names, keys: Vec::new(), rows: 0 }
    }

    /// Whether the rows are in the order of arrival as they are.
    pub(crate) fn is_none(&self) -> bool {
        self.names.is_empty()
    }

    /// Checks the columns of a frame, which may have no rows.
    ///
    /// # Errors
    /// One is absent, or has a type that has no order.
    pub(crate) fn check(&self, schema: &Arc<Schema>) -> PyResult<()> {
        let empty = RecordBatch::new_empty(Arc::clone(schema));
        let mut columns = self.names.iter().map(|name| index_of(name, schema, "order_by"));
        columns.try_for_each(|index| {
            let index = index?;
            keys(schema.field(index).name(), empty.column(index)).map(drop)
        })
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// A column is absent, has a type that has no order, or a null.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> PyResult<()> {
        for (nth, name) in self.names.iter().enumerate() {
            let index = index_of(name, &batch.schema(), "order_by")?;
            let array = batch.column(index);
            let nulls = array.logical_nulls();
            let null = nulls.and_then(|nulls| (0..nulls.len()).find(|&at| nulls.is_null(at)));
            let keys = keys(name, array)?;
            let nan = match &keys {
                Keys::Floats(keys) => keys.iter().position(|key| key.is_nan()),
                _ => None,
            };
            if let Some(at) = null.or(nan) {
                let row = self.rows + at;
                let message = format!("row {row}: column `{name}` is null; order_by= needs values");
                return Err(wrong(message));
            }
            match self.keys.get_mut(nth) {
                None => self.keys.push(keys),
                Some(all) => all.append(keys),
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    /// The rows in the order of arrival; rows with equal values in that of the frame.
    pub(crate) fn sorted(&self) -> Vec<u64> {
        let mut rows: Vec<u64> = (0..self.rows as u64).collect();
        rows.sort_by(|&one, &other| {
            let at = |row| usize::try_from(row).expect("it was counted in memory");
            let orders = self.keys.iter().map(|keys| keys.compare(at(one), at(other)));
            orders.reduce(std::cmp::Ordering::then).unwrap_or(std::cmp::Ordering::Equal)
        });
        rows
    }
}

fn keys(name: &str, array: &ArrayRef) -> PyResult<Keys> {
    if let Some(texts) = Texts::if_text(name, array, false)? {
        let text = |at| texts.get(at).unwrap_or_default().into();
        return Ok(Keys::Texts((0..array.len()).map(text).collect()));
    }
    if let Some((values, _)) = integers(array, TimeUnit::Millis) {
        return Ok(Keys::Integers(values.to_vec()));
    }
    macro_rules! converted {
        ($($type:ident)*) => {
            $(if let Some(values) = mapped::<$type, _>(array, i64::from) {
                return Ok(Keys::Integers(values));
            })*
        };
    }
    converted!(Int8Type Int16Type UInt8Type UInt16Type Date32Type);
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        return Ok(Keys::Floats(floats.values().to_vec()));
    }
    let floats = mapped::<Float32Type, _>(array, f64::from);
    let expected = "times, numbers or texts for order_by=";
    floats.map(Keys::Floats).ok_or_else(|| bad_type(name, array, expected, "cast it"))
}

impl Keys {
    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Integers(all), Self::Integers(mut more)) => all.append(&mut more),
            (Self::Floats(all), Self::Floats(mut more)) => all.append(&mut more),
            (Self::Texts(all), Self::Texts(mut more)) => all.append(&mut more),
            _ => unreachable!("all batches of a stream have one schema"),
        }
    }

    fn compare(&self, one: usize, other: usize) -> std::cmp::Ordering {
        match self {
            Self::Integers(keys) => keys[one].cmp(&keys[other]),
            Self::Floats(keys) => keys[one].total_cmp(&keys[other]),
            Self::Texts(keys) => keys[one].cmp(&keys[other]),
        }
    }
}
