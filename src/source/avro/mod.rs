//! Avro schemas. Their datums offer their values to the tree of names as JSON does.
//!
//! The reader is our own: a datum is walked once, values of unknown names are skipped, the others
//! are borrowed, and a length that lies allocates nothing.

mod datum;
mod parse;
mod plan;

use super::fields::Node;
use super::record::Fields;
use super::transcode::to_json;
use super::wire::Bytes;
use super::{SampleError, json};
use crate::model::rules::TimeUnit;

/// A schema, with every name resolved.
#[derive(Debug)]
pub(super) struct AvroSchema {
    /// The types; a type refers to others by their index.
    types: Vec<Type>,
    /// Index of the type of a datum.
    root: usize,
    /// Reads plain datums.
    plan: Option<plan::Plan>,
}

/// A type of a schema.
#[derive(Debug)]
enum Type {
    /// A named type that is referred to before its definition ends; never left in a schema.
    Pending,
    Null,
    Boolean,
    /// `int`, `long`, and the logical types that are plain numbers.
    Integer,
    Float,
    Double,
    Bytes,
    String,
    /// A time since 1970 in a known unit.
    Time(TimeUnit),
    /// A date and time without a zone, in a known unit.
    LocalTime(TimeUnit),
    /// A decimal number, by the digits after its point.
    Decimal(Box<Type>, u32),
    /// Binary UUID.
    Uuid,
    Fixed(u64),
    Enum(Vec<Box<str>>),
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
    /// Names and types of the fields.
    Record(Vec<(Box<str>, usize)>),
}

impl AvroSchema {
    /// Parses a schema. `references` are the schemas whose names it uses, each after those that it
    /// uses itself; `node` are the names that datums are mostly read by.
    ///
    /// # Errors
    /// Why it is not an Avro schema.
    pub(crate) fn parse(text: &str, references: &[&str], node: &Node) -> Result<Self, String> {
        let (types, root) = parse::parse(text, references)?;
        let plan = plan::Plan::new(&types, root, node);
        Ok(Self { types, root, plan })
    }

    /// Collects the values of a datum. Integers from times are in `unit`.
    ///
    /// # Errors
    /// `bad_record`.
    pub(crate) fn read<'de>(
        &self,
        bytes: &'de [u8],
        unit: TimeUnit,
        root: &Node,
        fields: &mut Fields<'de>,
    ) -> Result<(), Box<SampleError>> {
        if let Some(plan) = &self.plan {
            if plan.read(self, (bytes, unit), fields).is_some() {
                return Ok(());
            }
            *fields = Fields::default();
        }
        let mut state = datum::State::new(Bytes(bytes), unit);
        let read = json::walk(state.datum(self), root, fields).and_then(|()| state.end());
        read.map_err(|error| error.into_sample_error("a datum of the Avro schema"))
    }

    /// A datum as JSON. Integers from times are in `unit`.
    ///
    /// # Errors
    /// Why it is not a datum of the schema.
    pub(crate) fn to_json(&self, bytes: &[u8], unit: TimeUnit) -> Result<String, String> {
        let mut state = datum::State::new(Bytes(bytes), unit);
        let json = to_json(state.datum(self));
        let json = json.and_then(|json| state.end().map(|()| json).map_err(|e| e.to_string()));
        json.map_err(|error| format!("the bytes are not a datum of the Avro schema: {error}"))
    }
}

#[cfg(test)]
mod tests;
