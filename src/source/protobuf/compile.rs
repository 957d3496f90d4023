//! Compiles .proto text to tables of fields.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use protox::prost_reflect::{self as reflect, FileDescriptor, MessageDescriptor};

use super::load::load;
use super::{EnumNames, Field, Kind, Message, ProtobufSchema, Shape, TopLevel};
use crate::model::schema::SchemaSource;

/// Compiles a schema. `names` are the names in records that a field map knows.
pub(super) fn compile(
    source: &SchemaSource,
    names: &BTreeSet<String>,
) -> Result<ProtobufSchema, String> {
    let main = load(source)?;
    let (index, enums) = (HashMap::new(), HashMap::new());
    Ok(Tables { names, index, messages: Vec::new(), open: Vec::new(), enums }.build(&main))
}

struct Tables<'a> {
    names: &'a BTreeSet<String>,
    /// Index of each message, by full name.
    index: HashMap<String, usize>,
    messages: Vec<Message>,
    /// Messages without their fields yet, by index. A list, as references may lead very deep.
    open: Vec<(usize, MessageDescriptor)>,
    /// The names of each enum, by full name.
    enums: HashMap<String, EnumNames>,
}

impl Tables<'_> {
    fn build(mut self, main: &FileDescriptor) -> ProtobufSchema {
        let top_level = main.messages().map(|message| self.top_level(&message)).collect();
        while let Some((at, message)) = self.open.pop() {
            let mut fields: Vec<Field> = message.fields().map(|field| self.field(&field)).collect();
            fields.sort_by_key(|field| field.number);
            self.messages[at].fields = fields;
        }
        ProtobufSchema { messages: self.messages, index: self.index, top_level }
    }

    fn top_level(&mut self, message: &MessageDescriptor) -> TopLevel {
        let at = self.message(message);
        // Entries of maps are generated, and writers do not count them.
        let children = message.child_messages().filter(|child| !child.is_map_entry());
        let children: Vec<_> = children.collect();
        TopLevel { at, inner: children.iter().map(|child| self.top_level(child)).collect() }
    }

    /// The index of a message; adds it if it is new.
    fn message(&mut self, message: &MessageDescriptor) -> usize {
        let name = message.full_name();
        if let Some(&at) = self.index.get(name) {
            return at;
        }
        let at = self.messages.len();
        self.index.insert(name.to_owned(), at);
        self.messages.push(Message { name: name.into(), fields: Vec::new() });
        self.open.push((at, message.clone()));
        at
    }

    fn field(&mut self, field: &reflect::FieldDescriptor) -> Field {
        let (json, own) = (field.json_name(), field.name());
        // Both names are names of the field; a visitor gets the one that the map knows.
        let is_own = self.names.contains(own) && !self.names.contains(json);
        let shape = if field.is_map() {
            Shape::Map
        } else if field.is_list() {
            Shape::List
        } else if field.supports_presence() && !field.parent_message().is_map_entry() {
            Shape::Optional
        } else {
            Shape::Plain
        };
        let (number, kind) = (field.number(), self.kind(field));
        Field { number, name: if is_own { own } else { json }.into(), kind, shape }
    }

    fn kind(&mut self, field: &reflect::FieldDescriptor) -> Kind {
        match field.kind() {
            reflect::Kind::Double => Kind::Double,
            reflect::Kind::Float => Kind::Float,
            reflect::Kind::Int32 => Kind::Int32,
            reflect::Kind::Int64 => Kind::Int64,
            reflect::Kind::Uint32 => Kind::Uint32,
            reflect::Kind::Uint64 => Kind::Uint64,
            reflect::Kind::Sint32 | reflect::Kind::Sint64 => Kind::Zigzag,
            reflect::Kind::Fixed32 => Kind::Fixed32,
            reflect::Kind::Fixed64 => Kind::Fixed64,
            reflect::Kind::Sfixed32 => Kind::Sfixed32,
            reflect::Kind::Sfixed64 => Kind::Sfixed64,
            reflect::Kind::Bool => Kind::Bool,
            reflect::Kind::String => Kind::Text,
            reflect::Kind::Bytes => Kind::Bytes,
            reflect::Kind::Enum(of) => Kind::Enum(self.names_of(&of)),
            reflect::Kind::Message(of) if field.is_group() => Kind::Group(self.message(&of)),
            reflect::Kind::Message(of) => match of.full_name() {
                "google.protobuf.Timestamp" => Kind::Timestamp,
                name if is_wrapper(name) => Kind::Wrapper(self.message(&of)),
                _ => Kind::Message(self.message(&of)),
            },
        }
    }

    /// The names of an enum, which all of its fields share.
    fn names_of(&mut self, of: &reflect::EnumDescriptor) -> EnumNames {
        let names = self.enums.entry(of.full_name().to_owned()).or_insert_with(|| {
            // In the order of the text, which that of the resolver is not.
            let values = of.enum_descriptor_proto().value.iter();
            let values = values.map(|value| (value.number(), value.name().into()));
            let mut values: Vec<(i32, Box<str>)> = values.collect();
            values.sort_by_key(|(number, _)| *number);
            // Of several names of one number, the first is its name in JSON.
            values.dedup_by_key(|value| value.0);
            values.into()
        });
        Arc::clone(names)
    }
}

/// Whether a message only wraps a value, so that it is the bare value in JSON.
fn is_wrapper(name: &str) -> bool {
    let values =
        ["Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"];
    let kind = name.strip_prefix("google.protobuf.").and_then(|name| name.strip_suffix("Value"));
    kind.is_some_and(|kind| values.contains(&kind))
}
