//! Compiles .proto text to tables of fields.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use protox::prost_reflect::{self as reflect, FileDescriptor, MessageDescriptor};

use super::{Field, Kind, Message, ProtobufSchema, Shape, TopLevel};
use crate::model::schema::SchemaSource;

/// Name of the schema's own file, in messages too.
const MAIN: &str = "the schema";

/// Maximum nesting depth of a text. The compiler is recursive.
const MAX_TEXT_DEPTH: usize = 64;

/// The files of a schema, by name.
struct Sources(HashMap<String, String>);

impl FileResolver for Sources {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        path.to_str().map(str::to_owned)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.get(name) {
            Some(text) => File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// Compiles a schema. `names` are the names in records that a field map knows.
pub(super) fn compile(
    source: &SchemaSource,
    names: &BTreeSet<String>,
) -> Result<ProtobufSchema, String> {
    let references = source.references.iter();
    let files = references.map(|reference| (reference.name.clone(), reference.text.clone()));
    let files: HashMap<_, _> = files.chain([(MAIN.to_owned(), source.text.clone())]).collect();
    for (name, text) in &files {
        check_depth(text).map_err(|problem| format!("{name} {problem}"))?;
    }
    let mut resolver = ChainFileResolver::new();
    resolver.add(Sources(files));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.open_file(MAIN).map_err(|error| with_causes(&error))?;
    let pool = compiler.descriptor_pool();
    let main = pool.get_file_by_name(MAIN).ok_or("it has no file")?;
    Ok(Tables { names, index: HashMap::new(), messages: Vec::new() }.build(&main))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The names of the files that a text imports.
pub(super) fn imports(text: &str) -> Result<Vec<String>, String> {
    check_depth(text).map_err(|problem| format!("it {problem}"))?;
    let file = File::from_source(MAIN, text).map_err(|error| with_causes(&error))?;
    Ok(file.file_descriptor_proto().dependency.clone())
}

/// Checks the nesting of a text. Brackets in texts and comments count: they close as well.
fn check_depth(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' | b'<' | b'(' => depth += 1,
            b'}' | b']' | b'>' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_TEXT_DEPTH {
            return Err(format!("is nested deeper than {MAX_TEXT_DEPTH} levels"));
        }
    }
    Ok(())
}

struct Tables<'a> {
    names: &'a BTreeSet<String>,
    /// Index of each message, by full name.
    index: HashMap<String, usize>,
    messages: Vec<Message>,
}

impl Tables<'_> {
    fn build(mut self, main: &FileDescriptor) -> ProtobufSchema {
        let top_level = main.messages().map(|message| self.top_level(&message)).collect();
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
        let mut fields: Vec<Field> = message.fields().map(|field| self.field(&field)).collect();
        fields.sort_by_key(|field| field.number);
        self.messages[at].fields = fields;
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
            reflect::Kind::Enum(of) => {
                let mut values: Vec<(i32, Box<str>)> = Vec::new();
                for value in of.values() {
                    // Of several names of one number, the first is its name in JSON.
                    if !values.iter().any(|(number, _)| *number == value.number()) {
                        values.push((value.number(), value.name().into()));
                    }
                }
                values.sort();
                Kind::Enum(values)
            }
            reflect::Kind::Message(of) if field.is_group() => Kind::Group(self.message(&of)),
            reflect::Kind::Message(of) => match of.full_name() {
                "google.protobuf.Timestamp" => Kind::Timestamp,
                name if is_wrapper(name) => Kind::Wrapper(self.message(&of)),
                _ => Kind::Message(self.message(&of)),
            },
        }
    }
}

/// Whether a message only wraps a value, so that it is the bare value in JSON.
fn is_wrapper(name: &str) -> bool {
    let values =
        ["Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"];
    let kind = name.strip_prefix("google.protobuf.").and_then(|name| name.strip_suffix("Value"));
    kind.is_some_and(|kind| values.contains(&kind))
}
