//! One record to one sample, by the rules: the part that every source shares.

use std::collections::BTreeMap;

use super::csv::Columns;
use super::fields::{self, Field, MapError, Node};
use super::json_fast::JsonTemplate;
use super::record::Fields;
use super::{DecodedSample, SampleError, json};
use crate::model::reason::DeadReason;
use crate::model::rules::{Rules, SpeedUnit, TimeUnit};

/// Decodes records by the field map and units of the rules.
#[derive(Debug)]
pub struct Decoder {
    pub(super) names: Node,
    pub(super) map: BTreeMap<String, String>,
    pub(super) time_unit: TimeUnit,
    pub(super) speed_unit: SpeedUnit,
}

impl Decoder {
    /// A decoder for these rules.
    ///
    /// # Errors
    /// The field map names a field that there is not, or has a bad pointer.
    pub fn new(rules: &Rules) -> Result<Self, MapError> {
        Ok(Self {
            names: fields::names(&rules.fields)?,
            map: rules.fields.clone(),
            time_unit: rules.time_unit,
            speed_unit: rules.speed_unit,
        })
    }

    /// The sample of one JSON object. Device and driver are put at the end of `text`, which stays
    /// below 4 GiB.
    ///
    /// # Errors
    /// Why it states no sample; `text` is then as it was.
    pub fn json(
        &self,
        record: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        let line = utf8(record)?;
        let mut found = Fields::default();
        json::read(line, &self.names, &mut found)?;
        found.sample(self, text)
    }

    /// The sample of one JSON object among others of the same producer: the same answer as
    /// [`Decoder::json`], sooner.
    ///
    /// # Errors
    /// Those of [`Decoder::json`].
    pub fn json_like(
        &self,
        layout: &mut JsonTemplate,
        record: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        if let Some(decoded) = layout.read(self, record, text) {
            return Ok(decoded);
        }
        let decoded = self.json(record, text)?;
        layout.learn(self, record);
        Ok(decoded)
    }

    /// The device that a JSON object names, also one that is no good otherwise.
    #[must_use]
    pub fn device_of(&self, record: &[u8]) -> Option<String> {
        let mut found = Fields::default();
        // What was read before a fault counts.
        json::read(std::str::from_utf8(record).ok()?, &self.names, &mut found).ok();
        found.device_text()
    }

    /// The sample of one row of a table; like [`Decoder::json`].
    pub(super) fn row(
        &self,
        columns: &mut Columns,
        record: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        let row = utf8(record)?;
        let mut found = Fields::default();
        columns.read(row, &self.names, &mut found)?;
        found.sample(self, text)
    }

    /// A field whose map is a JSON Pointer, with the pointer.
    pub(super) fn pointer(&self) -> Option<(&str, &str)> {
        let mut map = self.map.iter().map(|(field, name)| (field.as_str(), name.as_str()));
        map.find(|(_, name)| name.starts_with('/'))
    }

    /// What to say of a field that is not there.
    pub(super) fn absent(&self, field: Field) -> String {
        let name = field.name();
        match self.map.get(name) {
            Some(mapped) => format!("{name} is absent: there is no `{mapped}`"),
            None => format!(
                "{name} is absent: there is no `{}`; another name is given with --map {name}=NAME",
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
