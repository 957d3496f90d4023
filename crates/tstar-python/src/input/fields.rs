//! The fields of a sample, and the columns of a frame that have them.

use std::collections::HashMap;

use arrow_schema::Schema;
use pyo3::prelude::*;
use tstar_core::model::named::named;

use crate::wrong;

named! {
    /// A field of a sample, with the name of its argument; the required ones come first.
    Field {
        /// Device id.
        Device = "device",
        /// Device time.
        Time = "time",
        /// Latitude.
        Lat = "lat",
        /// Longitude.
        Lon = "lon",
        /// Speed.
        Speed = "speed",
        /// Heading.
        Heading = "heading",
        /// Altitude.
        Altitude = "altitude",
        /// Accuracy of the position.
        Accuracy = "accuracy",
        /// Ignition.
        Ignition = "ignition",
        /// Driver.
        Driver = "driver",
        /// Time of arrival.
        Received = "received",
    }
}

impl Field {
    /// The fields without which a row is not a sample.
    const REQUIRED: [Self; 4] = [Self::Device, Self::Time, Self::Lat, Self::Lon];

    /// The names of all fields.
    pub(crate) fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|field| field.name()).collect()
    }

    /// The names of the fields that are the columns of these names, unless another is named: those
    /// that are measured.
    pub(crate) fn optional_names() -> Vec<&'static str> {
        let is_optional =
            |field: &&Self| !Self::REQUIRED.contains(field) && **field != Self::Received;
        Self::ALL.iter().filter(is_optional).map(|field| field.name()).collect()
    }

    /// The field with the name that the core has for it.
    pub(crate) fn of_core(name: &str) -> Self {
        Self::from_name(name).unwrap_or(Self::Device)
    }
}

/// The names of the columns that have the fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(HashMap<Field, String>);

impl Fields {
    /// Those of arguments, by the names of the fields. None: the column of that name, if the frame
    /// has one.
    ///
    /// # Errors
    /// A required field has no column.
    pub(crate) fn new(
        mut columns: HashMap<String, Option<String>>,
        schema: &Schema,
    ) -> PyResult<Self> {
        let mut column = |field: Field| {
            let own = || schema.column_with_name(field.name()).map(|_| field.name().to_owned());
            columns.remove(field.name())?.or_else(own)
        };
        let found = Field::ALL.iter().filter_map(|&field| Some((field, column(field)?)));
        let fields = Self(found.collect());
        for field in Field::REQUIRED {
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
