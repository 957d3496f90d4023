//! The fields of a sample, and the columns of a frame that have them.

use std::collections::HashMap;

use arrow_schema::Schema;
use pyo3::prelude::*;

use crate::wrong;

/// A field of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Field {
    Device,
    Time,
    Lat,
    Lon,
    Speed,
    Heading,
    Altitude,
    Accuracy,
    Ignition,
    Driver,
    Received,
}

impl Field {
    /// All fields, the required ones first.
    pub(crate) const ALL: [Self; 11] = [
        Self::Device,
        Self::Time,
        Self::Lat,
        Self::Lon,
        Self::Speed,
        Self::Heading,
        Self::Altitude,
        Self::Accuracy,
        Self::Ignition,
        Self::Driver,
        Self::Received,
    ];

    /// The name of the argument.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Time => "time",
            Self::Lat => "lat",
            Self::Lon => "lon",
            Self::Speed => "speed",
            Self::Heading => "heading",
            Self::Altitude => "altitude",
            Self::Accuracy => "accuracy",
            Self::Ignition => "ignition",
            Self::Driver => "driver",
            Self::Received => "received",
        }
    }

    /// The field with the name that the core has for it.
    pub(crate) fn of_core(name: &str) -> Self {
        let named = Self::ALL.into_iter().find(|field| field.name() == name);
        named.unwrap_or(Self::Device)
    }
}

/// The names of the columns that have the fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(HashMap<Field, String>);

impl Fields {
    /// Those of arguments, by the names of the fields.
    ///
    /// # Errors
    /// A required field has no column.
    pub(crate) fn new(mut columns: HashMap<String, String>) -> PyResult<Self> {
        let found = Field::ALL.into_iter();
        let found = found.filter_map(|field| Some((field, columns.remove(field.name())?)));
        let fields = Self(found.collect());
        for field in [Field::Device, Field::Time, Field::Lat, Field::Lon] {
            if !fields.0.contains_key(&field) {
                return Err(wrong(format!("no column is named for {}", field.name())));
            }
        }
        Ok(fields)
    }

    /// The column of a field.
    pub(crate) fn column(&self, field: Field) -> Option<&str> {
        self.0.get(&field).map(String::as_str)
    }

    /// Where the column of a field is.
    ///
    /// # Errors
    /// The frame has no such column, or several.
    pub(crate) fn index(&self, field: Field, schema: &Schema) -> PyResult<Option<usize>> {
        let Some(name) = self.column(field) else { return Ok(None) };
        index_of(name, schema, field.name()).map(Some)
    }
}

/// Where the column of a name is, which an argument gave.
///
/// # Errors
/// The frame has no such column, or several.
pub(crate) fn index_of(name: &str, schema: &Schema, argument: &str) -> PyResult<usize> {
    let mut found = schema.fields().iter().zip(0..).filter(|(field, _)| field.name() == name);
    match (found.next(), found.next()) {
        (Some((_, index)), None) => Ok(index),
        (Some(_), Some(_)) => Err(wrong(format!(
            "the frame has several columns `{name}`; name one column that is {argument}, as in \
             {argument}=\"...\""
        ))),
        (None, _) => {
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Err(wrong(format!(
                "the frame has no column `{name}`; name the column that is {argument}, as in \
                 {argument}=\"...\"; its columns are {}",
                names.join(", ")
            )))
        }
    }
}
