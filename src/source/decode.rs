//! Decodes a record into a sample, by the rules. All sources share this code. `record` checks the
//! values and chooses the reason of a dead letter.

use std::borrow::Cow;
use std::sync::Arc;

use super::context::RecordContext;
use super::fields::Field;
use super::map::{self, MapError, Source};
use super::record::Fields;
use super::schemas::{BinaryReader, CompiledSchema, unknown_schema};
use super::shape::{DecoderError, Shape};
use super::text::utf8;
use super::value::Value;
use super::{DecodedSample, NoSample, SampleError, json};
use crate::model::reason::{DeadReason, DropReason};
use crate::model::rules::{AmbiguousTime, Rules};
use crate::model::scalar::Offset;
use crate::model::schema::{SchemaId, SchemaVerdict, UnknownUntil};

/// Decodes records by the field map and the units of the rules.
#[derive(Debug)]
pub struct Decoder {
    pub(super) shape: Shape,
    /// Reads the values; `None` if records are text.
    binary: Option<BinaryReader>,
}

/// The values of what is around a sample: the elements and the record that it is in, nearest first.
#[derive(Clone, Copy)]
pub(super) struct Outer<'a> {
    pub fields: &'a Fields<'a>,
    pub next: Option<&'a Outer<'a>>,
}

impl Decoder {
    /// Creates a decoder for these rules.
    ///
    /// # Errors
    /// What is wrong with the rules.
    pub fn new(rules: &Rules) -> Result<Self, DecoderError> {
        let shape = Shape::new(rules)?;
        let binary = BinaryReader::new(rules, &shape.root);
        let binary =
            binary.or_else(|problem| map::fail(format!("the schema cannot be used: {problem}")))?;
        Ok(Self { shape, binary })
    }

    /// Whether text in other encodings is converted to UTF-8 before records are split.
    #[must_use]
    pub(super) fn converts_text(&self) -> bool {
        self.binary.as_ref().is_none_or(BinaryReader::may_be_json)
    }

    /// Whether the order of records decides times.
    #[must_use]
    pub(super) fn reads_by_order(&self) -> bool {
        self.shape.by_order
    }

    /// Whether records need not be text.
    #[must_use]
    pub(crate) fn is_binary(&self) -> bool {
        self.binary.is_some()
    }

    /// Whether a record with these first bytes is text.
    pub(super) fn is_text(&self, head: &[u8]) -> bool {
        self.binary.as_ref().is_none_or(|binary| binary.is_json(head))
    }

    /// The text of a record; that of a binary one is JSON.
    ///
    /// # Errors
    /// It cannot be read; otherwise as for [`Decoder::decode`].
    pub(super) fn text<'a>(
        &self,
        schema_id: Option<&[u8]>,
        record: &'a [u8],
    ) -> Result<Cow<'a, str>, Box<SampleError>> {
        match &self.binary {
            Some(binary) if !binary.is_json(record) => {
                binary.to_json(schema_id, record).map(Cow::Owned)
            }
            _ => utf8(record).map(Cow::Borrowed),
        }
    }

    /// Whether records name their schemas by the ids of a registry.
    #[must_use]
    pub(crate) fn needs_ids(&self) -> bool {
        self.binary.as_ref().is_some_and(BinaryReader::needs_ids)
    }

    /// Adds what decides all records of an id. The first verdict stands.
    pub fn add_schema(&self, id: SchemaId, verdict: &SchemaVerdict) {
        let unusable = |problem| SchemaVerdict::Unusable { problem };
        let compiled = self.compile_schema(id, verdict);
        let compiled = compiled.or_else(|problem| self.compile_schema(id, &unusable(problem)));
        if let Ok(Some(compiled)) = compiled {
            self.insert_schema(id, compiled, Arc::default());
        }
    }

    /// Compiles what decides the records of an id; `None` if records have no ids. Takes up to
    /// seconds.
    ///
    /// # Errors
    /// Why the schema cannot be used.
    pub(crate) fn compile_schema(
        &self,
        id: SchemaId,
        verdict: &SchemaVerdict,
    ) -> Result<Option<CompiledSchema>, String> {
        self.binary.as_ref().map(|it| it.compile(id, verdict, &self.shape.root)).transpose()
    }

    /// Adds what decides the records of an id, except those at which it was unknown. The first
    /// verdict stands.
    pub(crate) fn insert_schema(
        &self,
        id: SchemaId,
        schema: CompiledSchema,
        unknown: Arc<UnknownUntil>,
    ) {
        if let Some(binary) = &self.binary {
            binary.insert(id, schema, unknown);
        }
    }

    /// Whether the records of an id are decided.
    #[must_use]
    pub(crate) fn has_schema(&self, id: SchemaId) -> bool {
        self.binary.as_ref().is_none_or(|binary| binary.has(id))
    }

    /// The error of a record whose schema became known only after the record was first read. Call
    /// this after decoding it.
    pub(crate) fn was_unknown(
        &self,
        record: (Option<&[u8]>, &[u8]),
        position: (i32, Offset),
    ) -> Option<SampleError> {
        let id = self.binary.as_ref()?.was_unknown(record, position)?;
        Some(*unknown_schema(id))
    }

    /// Decodes a record in the encoding of the rules; `schema_id` is its header
    /// [`super::SCHEMA_ID_HEADER`]. Appends device and driver to `text`, which has to stay below
    /// 4 GiB.
    ///
    /// # Errors
    /// Why the record is not a usable sample; `text` is then unchanged.
    /// [`SampleError::needs_schema`] is set if the record can be decoded after
    /// [`Decoder::add_schema`].
    pub fn decode(
        &self,
        (schema_id, record): (Option<&[u8]>, &[u8]),
        context: &RecordContext<'_>,
        text: &mut String,
    ) -> Result<DecodedSample, NoSample> {
        let (shape, json);
        shape = &self.shape;
        let mut fields = Fields::default();
        match self.binary.as_ref().filter(|binary| !binary.is_json(record)) {
            None => json::read(record, (shape, &shape.root), &mut fields)?,
            Some(binary) if shape.has_members => {
                json = binary.to_json(schema_id, record)?;
                json::read(json.as_bytes(), (shape, &shape.root), &mut fields)?;
            }
            Some(binary) => binary.read((schema_id, record), &shape.root, &mut fields)?,
        }
        self.complete(&mut fields, None, context, text)
    }

    /// Decodes a record of a file whose values `read` collects; otherwise like
    /// [`Decoder::decode`].
    pub(super) fn decode_by(
        &self,
        read: impl for<'r> FnOnce(&'r str, &Shape, &mut Fields<'r>) -> Result<(), NoSample>,
        record: &[u8],
        context: &RecordContext<'_>,
        text: &mut String,
    ) -> Result<DecodedSample, NoSample> {
        let record = utf8(record)?;
        let mut fields = Fields::default();
        read(record, &self.shape, &mut fields)?;
        self.complete(&mut fields, None, context, text)
    }

    /// The sample of collected values, completed from around it.
    pub(super) fn complete<'a>(
        &'a self,
        fields: &mut Fields<'a>,
        outer: Option<&'a Outer<'a>>,
        context: &RecordContext<'a>,
        text: &mut String,
    ) -> Result<DecodedSample, NoSample> {
        self.check_conditions(fields, outer, context)?;
        fields.sample(&self.shape, context.order, text)
    }

    /// Completes the values of a record from around it, and checks whether it is to be read.
    ///
    /// # Errors
    /// It is skipped, its fix is not valid, or that cannot be decided.
    pub(super) fn check_conditions<'a>(
        &'a self,
        values: &mut Fields<'a>,
        outer: Option<&'a Outer<'a>>,
        context: &RecordContext<'a>,
    ) -> Result<(), NoSample> {
        let mut next = outer;
        while let Some(outer) = next {
            values.inherit(outer.fields);
            next = outer.next;
        }
        for (target, source) in &self.shape.given {
            let given = match source {
                Source::Around(around) => context.text(around),
                Source::Constant(constant) => Some(&**constant),
                Source::Record(_) | Source::Joined(_) => None,
            };
            if let Some(given) = given {
                values.offer(&[*target], Value::Cell(given));
            }
        }
        for join in &self.shape.joins {
            join.offer_to(values);
        }
        let map = &self.shape.map;
        for (index, condition) in (usize::from(map.valid.is_some())..).zip(&map.when) {
            let value = values.extra(index);
            let is_met = match &condition.values[..] {
                [] => !matches!(value, Value::Absent),
                known => known.iter().any(|known| value.is_text(known)),
            };
            if is_met == condition.is_negated {
                return Err(NoSample::Skipped(1));
            }
        }
        match &map.valid {
            Some(_) => check_valid(values.extra(0)),
            None => Ok(()),
        }
    }

    /// The device id of a record without headers, even if the record is otherwise invalid.
    #[must_use]
    pub fn device_of(&self, record: &[u8], context: &RecordContext<'_>) -> Option<String> {
        let mut values = Fields::default();
        if let Some(binary) = self.binary.as_ref().filter(|binary| !binary.is_json(record)) {
            binary.read((None, record), &self.shape.root, &mut values).ok();
            return values.device_text();
        }
        // Values read before an error count.
        json::read(record, (&self.shape, &self.shape.root), &mut values).ok();
        // A device is also that of a sample that would be skipped.
        self.check_conditions(&mut values, None, context).ok();
        values.device_text()
    }

    /// Whether bad samples can only be decoded again with the record around them.
    #[must_use]
    pub(crate) fn needs_whole_records(&self) -> bool {
        !self.shape.outer.is_empty()
    }

    /// Whether the map names this header.
    #[must_use]
    pub(crate) fn names_header(&self, header: &str) -> bool {
        let is_named = |source: &Source| match source {
            Source::Around(super::map::Around::Header(name)) => name.eq_ignore_ascii_case(header),
            _ => false,
        };
        self.shape.given.iter().any(|(_, source)| is_named(source))
    }

    /// Checks rules before an epoch of a topic is made with them, since those cannot be changed.
    ///
    /// # Errors
    /// As for [`Decoder::new`]; or the key has to be the device id, which the map reads from a part
    /// of it.
    pub(crate) fn check_topic_rules(rules: &Rules) -> Result<(), DecoderError> {
        let decoder = Self::new(rules)?;
        if rules.time_ambiguous == Some(AmbiguousTime::Order) {
            // Reading begins at any record, and partitions have no common order.
            map::fail(
                "--time-ambiguous order is the order of a file, which a topic has not; choose \
                 earlier or later"
                    .into(),
            )?;
        }
        if rules.is_keyed_by_device() { Ok(decoder.check_key_is_device()?) } else { Ok(()) }
    }

    fn check_key_is_device(&self) -> Result<(), MapError> {
        match self.shape.key_part_of(Field::DeviceId) {
            None => Ok(()),
            Some(sources) => super::map::fail(format!(
                "--map device_id={sources} reads a part of the key, and --key device_id says that \
                 the whole key is the device id; if records of a device always have the same key, \
                 pass --key any"
            )),
        }
    }
}

/// Checks the value that says whether a fix is valid; one that is absent says nothing.
fn check_valid(value: Value<'_>) -> Result<(), NoSample> {
    match (value, value.truth()) {
        (Value::Absent, _) | (_, Some(true)) => Ok(()),
        (_, Some(false)) => Err(NoSample::Dropped(DropReason::BadFix, 1)),
        (_, None) => {
            let shown = value.display();
            let message = format!("valid is {shown}; it needs true, false, on, off, 1 or 0");
            Err(Box::new(SampleError::new(DeadReason::BadType, message)).into())
        }
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
