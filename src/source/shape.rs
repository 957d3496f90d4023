//! The shape of records: where the values of a sample are, and in which units.
//!
//! All that the rules say about it ends here; the rest of the decoder knows fields only.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{self, Field, Node};
use super::record::Fields;
use super::time::Times;
use super::{DecoderError, SampleError, json};
use crate::model::rules::{Rules, SpeedUnit};

/// The shape that rules describe.
#[derive(Debug)]
pub(super) struct Shape {
    /// The names to look for.
    pub root: Node,
    /// Names or JSON Pointers by canonical name, without the fields that keep their own names.
    pub map: BTreeMap<String, String>,
    /// How times are read.
    pub times: Times,
    /// Unit of speeds.
    pub speed_unit: SpeedUnit,
    /// Version of how values are read, as [`Rules::reading`].
    pub reading: u32,
}

impl Shape {
    /// The shape of these rules.
    ///
    /// # Errors
    /// As for [`Decoder::new`](super::Decoder::new).
    pub fn new(rules: &Rules) -> Result<Self, DecoderError> {
        Ok(Self {
            root: fields::names(&rules.fields)?,
            map: rules.fields.clone(),
            times: Times::new(rules)?,
            speed_unit: rules.speed_unit,
            reading: rules.reading,
        })
    }

    /// Collects the values of a JSON object. Those read before an error count.
    ///
    /// # Errors
    /// As for [`json::read`].
    pub fn read<'de>(
        &self,
        line: &'de str,
        fields: &mut Fields<'de>,
    ) -> Result<(), Box<SampleError>> {
        json::read(line, &self.root, fields)
    }

    /// The reverse of [`Shape::read`]: a JSON object with these values.
    ///
    /// # Errors
    /// Two different values have the same place.
    pub fn write(&self, values: Vec<(Field, Value)>) -> Result<String, String> {
        let mut object = Map::new();
        for (field, value) in values {
            let name = self.map.get(field.name()).map_or(field.name(), String::as_str);
            let path: Vec<String> = match name.strip_prefix('/') {
                Some(tokens) => {
                    let plain = |token: &str| token.replace("~1", "/").replace("~0", "~");
                    tokens.split('/').map(plain).collect()
                }
                None => vec![name.to_owned()],
            };
            if !put(&mut object, &path, value) {
                return Err(format!("`{name}` would need two values"));
            }
        }
        Ok(Value::Object(object).to_string())
    }
}

/// Inserts a value at a path. Returns false if the path has another value.
fn put(object: &mut Map<String, Value>, path: &[String], value: Value) -> bool {
    let Some((name, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        return *object.entry(name).or_insert_with(|| value.clone()) == value;
    }
    match object.entry(name).or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(inner) => put(inner, rest, value),
        _ => false,
    }
}
