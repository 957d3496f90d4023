//! Decodes a record into a sample, by the rules. All sources share this code. `record` checks the
//! values and chooses the reason of a dead letter.

use super::csv::Columns;
use super::fields::{Field, MapError};
use super::json_fast::JsonTemplate;
use super::local_time::TimeRulesError;
use super::record::Fields;
use super::schemas::BinaryReader;
use super::shape::Shape;
use super::{DecodedSample, SampleError};
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::schema::{SchemaId, SchemaVerdict};

/// Rules by which no record can be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecoderError {
    /// The field map contains an unknown field or an invalid pointer.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The time zone, its tables or the time format cannot be used.
    #[error(transparent)]
    Times(#[from] TimeRulesError),
}

/// Decodes records by the field map and the units of the rules.
#[derive(Debug)]
pub struct Decoder {
    pub(super) shape: Shape,
    /// Reads the values; `None` if records are text.
    binary: Option<BinaryReader>,
}

impl Decoder {
    /// Creates a decoder for these rules.
    ///
    /// # Errors
    /// What is wrong with the rules.
    pub fn new(rules: &Rules) -> Result<Self, DecoderError> {
        let binary = BinaryReader::new(rules);
        let binary = binary
            .map_err(|problem| MapError::new(format!("the schema cannot be used: {problem}")))?;
        Ok(Self { shape: Shape::new(rules)?, binary })
    }

    /// Whether records are not text.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        self.binary.is_some()
    }

    /// Whether records name their schemas by the ids of a registry.
    #[must_use]
    pub fn needs_ids(&self) -> bool {
        self.binary.as_ref().is_some_and(BinaryReader::needs_ids)
    }

    /// Adds what decides the records of an id. The first verdict stands.
    pub fn add_schema(&self, id: SchemaId, verdict: &SchemaVerdict) {
        if let Some(binary) = &self.binary {
            binary.add(id, verdict);
        }
    }

    /// Decodes a record in the encoding of the rules; `schema_id` is its header
    /// [`super::SCHEMA_ID_HEADER`]. Otherwise like [`Decoder::json_like`].
    ///
    /// # Errors
    /// As for [`Decoder::json`]; [`SampleError::needs_schema`] is set if the record can be decoded
    /// after [`Decoder::add_schema`].
    pub fn decode(
        &self,
        template: &mut JsonTemplate,
        schema_id: Option<&[u8]>,
        record: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        let Some(binary) = &self.binary else { return self.json_like(template, record, text) };
        let mut values = Fields::default();
        binary.read((schema_id, record), &self.shape.root, &mut values)?;
        values.sample(self, text)
    }

    /// Decodes a JSON object. Appends device and driver to `text`, which has to stay below 4 GiB.
    ///
    /// # Errors
    /// Why the object is not a usable sample; `text` is then unchanged.
    pub fn json(
        &self,
        record: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        let line = utf8(record)?;
        let mut values = Fields::default();
        self.shape.read(line, &mut values)?;
        values.sample(self, text)
    }

    /// Decodes a JSON object with a template learnt from earlier ones of the same producer. Returns
    /// the same result as [`Decoder::json`], faster.
    ///
    /// # Errors
    /// As for [`Decoder::json`].
    pub fn json_like(
        &self,
        template: &mut JsonTemplate,
        record: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        if let Some(decoded) = template.read(self, record, text) {
            return Ok(decoded);
        }
        let decoded = self.json(record, text)?;
        template.learn(self, record);
        Ok(decoded)
    }

    /// The device id of a record without headers, even if the record is otherwise invalid.
    #[must_use]
    pub fn device_of(&self, record: &[u8]) -> Option<String> {
        let mut values = Fields::default();
        if let Some(binary) = &self.binary {
            binary.read((None, record), &self.shape.root, &mut values).ok();
            return values.device_text();
        }
        // Values read before an error count.
        self.shape.read(std::str::from_utf8(record).ok()?, &mut values).ok();
        values.device_text()
    }

    /// Decodes a CSV row; otherwise like [`Decoder::json`].
    pub(super) fn row(
        &self,
        columns: &mut Columns,
        record: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        let row = utf8(record)?;
        let mut values = Fields::default();
        columns.read(row, &self.shape.root, &mut values)?;
        values.sample(self, text)
    }

    /// A field that is mapped to a JSON Pointer, and the pointer.
    pub(super) fn pointer(&self) -> Option<(&str, &str)> {
        let mut map = self.shape.map.iter().map(|(field, name)| (field.as_str(), name.as_str()));
        map.find(|(_, name)| name.starts_with('/'))
    }

    /// The message for a missing field.
    pub(super) fn absent(&self, field: Field) -> String {
        let name = field.name();
        match self.shape.map.get(name) {
            Some(mapped) => format!("{name} is absent: there is no `{mapped}`"),
            None => format!(
                "{name} is absent: there is no `{}`; map another name with --map {name}=NAME",
                field.names().join("`, no `")
            ),
        }
    }
}

fn utf8(record: &[u8]) -> Result<&str, Box<SampleError>> {
    std::str::from_utf8(record).map_err(|error| {
        let at = error.valid_up_to();
        let byte = record.get(at).copied().unwrap_or(0);
        let message = format!("byte {at} of the record, {byte:#04x}, is not UTF-8");
        Box::new(SampleError::new(DeadReason::BadUtf8, message))
    })
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
