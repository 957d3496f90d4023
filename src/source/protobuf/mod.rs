//! Protobuf schemas. Their messages offer their values to the tree of names as their JSON form
//! does; a field is found by its JSON name and by its own name.
//!
//! A message is not built: its bytes are scanned, and values of unknown names are skipped.

mod compile;
mod items;
mod load;
mod message;
mod raw;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::fields::Node;
use super::record::Fields;
use super::transcode::to_json;
use super::{SampleError, json};
use crate::model::rules::TimeUnit;
use crate::model::schema::SchemaSource;

/// The schema of GTFS-realtime feeds, as far as samples need it.
const GTFS_RT: &str = include_str!("gtfs-rt.proto");

/// The names of the files that a .proto text imports.
///
/// # Errors
/// It is not .proto text.
pub(super) fn imports(text: &str) -> Result<Vec<String>, String> {
    load::imports(text)
}

/// A compiled schema.
#[derive(Debug)]
pub(super) struct ProtobufSchema {
    /// The messages; a field refers to them by their index.
    messages: Vec<Message>,
    /// Index of each message, by full name.
    index: HashMap<String, usize>,
    /// The messages of the schema's own file.
    top_level: Vec<TopLevel>,
}

/// A message of the schema's own file, with the messages defined inside it.
#[derive(Debug)]
struct TopLevel {
    at: usize,
    inner: Vec<TopLevel>,
}

#[derive(Debug)]
struct Message {
    /// Full name.
    name: Box<str>,
    /// By number, ascending.
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    number: u32,
    /// The name that visitors get.
    name: Box<str>,
    kind: Kind,
    shape: Shape,
}

/// How often a field occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Once; not written at its default value.
    Plain,
    /// Once, or absent.
    Optional,
    List,
    Map,
}

/// The names of an enum by number, ascending.
type EnumNames = Arc<[(i32, Box<str>)]>;

#[derive(Debug)]
enum Kind {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    /// `sint32` and `sint64`.
    Zigzag,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    Text,
    Bytes,
    Enum(EnumNames),
    /// A time: seconds and nanoseconds since 1970.
    Timestamp,
    /// A message with one value, which visitors get bare.
    Wrapper(usize),
    Message(usize),
    /// A message between tags instead of a length.
    Group(usize),
}

impl ProtobufSchema {
    /// Compiles a schema. `names` are the names in records that the field map knows.
    ///
    /// # Errors
    /// Why it is not a schema.
    pub(crate) fn compile(source: &SchemaSource, names: &BTreeSet<String>) -> Result<Self, String> {
        compile::compile(source, names)
    }

    /// The schema of GTFS-realtime, whose only top-level message that counts is the first.
    pub(crate) fn gtfs_rt(names: &BTreeSet<String>) -> Self {
        let source = SchemaSource { text: GTFS_RT.into(), references: Vec::new() };
        compile::compile(&source, names).expect("it is part of the program")
    }

    /// The message at these indexes: the first counts the messages of the file, each further one
    /// the messages inside the message before.
    ///
    /// # Errors
    /// There is no such message.
    pub(crate) fn at(&self, indexes: &[u32]) -> Result<usize, String> {
        let (mut list, mut found) = (&self.top_level, None);
        for index in indexes {
            let message = list.get(*index as usize);
            let message =
                message.ok_or_else(|| format!("the schema has no message {indexes:?}"))?;
            (list, found) = (&message.inner, Some(message.at));
        }
        found.ok_or_else(|| "no message is named".into())
    }

    /// The message of a name, full or without its package; without a name, the only message.
    ///
    /// # Errors
    /// There is no such message, or there are several.
    pub(crate) fn named(&self, name: Option<&str>) -> Result<usize, String> {
        let names = || {
            let mut names: Vec<_> = self.index.keys().map(String::as_str).collect();
            names.sort_unstable();
            names.join(", ")
        };
        let Some(name) = name else {
            return match &self.top_level[..] {
                [only] => Ok(only.at),
                [] => Err("the schema has no message".into()),
                _ => Err(format!("choose a message with --message: {}", names())),
            };
        };
        if let Some(&at) = self.index.get(name) {
            return Ok(at);
        }
        let short = |full: &str| full.rsplit('.').next() == Some(name);
        let mut found = self.messages.iter().enumerate().filter(|(_, it)| short(&it.name));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (None, _) => Err(format!("the schema has no message `{name}`, only {}", names())),
            _ => Err(format!("several messages are named `{name}`: {}", names())),
        }
    }

    /// Collects the values of the message at an index. Integers from times are in `unit`.
    ///
    /// # Errors
    /// `bad_record`.
    pub(crate) fn read<'de>(
        &self,
        (at, bytes): (usize, &'de [u8]),
        unit: TimeUnit,
        root: &Node,
        fields: &mut Fields<'de>,
    ) -> Result<(), Box<SampleError>> {
        let message = message::Reader::new(self, at, bytes, unit);
        let read = json::walk(message, root, fields);
        read.map_err(|error| {
            error.into_sample_error(&format!("a message `{}`", self.messages[at].name))
        })
    }

    /// The message at an index as JSON, without values that the field map cannot mean. Integers
    /// from times are in `unit`.
    ///
    /// # Errors
    /// Why it is not such a message.
    pub(crate) fn to_json(
        &self,
        at: usize,
        bytes: &[u8],
        unit: TimeUnit,
    ) -> Result<String, String> {
        let message = message::Reader::new(self, at, bytes, unit);
        let name = &self.messages[at].name;
        to_json(message).map_err(|error| format!("the bytes are not a message `{name}`: {error}"))
    }
}

#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod tests;
