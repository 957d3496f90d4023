//! Schemas by which records are read: one of the rules, or one for each id that a record names.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use foldhash::fast::RandomState;

use super::SampleError;
use super::avro::AvroSchema;
use super::bounds::MAX_SCHEMA_BYTES;
use super::fields::{Field, Node};
use super::framing::unframe;
use super::protobuf::ProtobufSchema;
use super::record::Fields;
use super::text::{clipped, clipped_to};
use crate::model::reason::DeadReason;
use crate::model::rules::{Rules, TimeUnit};
use crate::model::scalar::Offset;
use crate::model::schema::{Encoding, SchemaId, SchemaSource, SchemaVerdict, UnknownUntil};

/// Maximum number of schemas of a log; records of further ones become dead letters.
pub(crate) const MAX_SCHEMAS: usize = 10_000;

/// A schema that records can be read by.
#[derive(Debug)]
enum Schema {
    Avro(AvroSchema),
    /// Without the message that a record is of.
    Protobuf(ProtobufSchema),
}

/// Maximum length of what is wrong with a schema, bytes. It may quote the schema.
const MAX_PROBLEM_BYTES: usize = 400;

/// A verdict on an id, ready to read records by it.
#[derive(Debug)]
pub(crate) struct CompiledSchema(Known);

/// What is known of an id.
#[derive(Debug)]
enum Known {
    Usable(Schema),
    /// Why no record of it can be read.
    Unusable(String),
}

/// The schemas of a log by their ids.
#[derive(Debug, Default)]
struct Schemas {
    known: RwLock<HashMap<SchemaId, AddedSchema, RandomState>>,
    /// Whether an id was unknown at some record.
    has_unknown: AtomicBool,
}

/// A schema, and the records that were read before it was known.
type AddedSchema = (Arc<Known>, Arc<UnknownUntil>);

/// Where the schema of a record comes from.
#[derive(Debug)]
enum Origin {
    /// From the rules: for protobuf with the index of the message.
    Rules(Schema, usize),
    /// From a registry, by the id that the record names.
    Ids(Schemas),
}

/// Reads records that are not text.
#[derive(Debug)]
pub(super) struct BinaryReader {
    encoding: Encoding,
    origin: Origin,
    unit: TimeUnit,
    /// The names in records that the field map knows.
    names: BTreeSet<String>,
}

impl BinaryReader {
    /// A reader by the rules; `None` if records are text.
    ///
    /// # Errors
    /// The schema of the rules is not valid.
    pub(crate) fn new(rules: &Rules, root: &Node) -> Result<Option<Self>, String> {
        let (encoding, names) = (rules.decode, names_of(rules));
        let origin = match (encoding, &rules.schema) {
            (Encoding::Json, _) => return Ok(None),
            (Encoding::GtfsRt, _) => {
                let schema = ProtobufSchema::gtfs_rt(&names);
                let at = schema.named(Some("FeedMessage"))?;
                Origin::Rules(Schema::Protobuf(schema), at)
            }
            (_, None) => Origin::Ids(Schemas::default()),
            (_, Some(source)) => {
                let schema = compile(encoding, source, &names, root)?;
                let message = match &schema {
                    Schema::Avro(_) => 0,
                    Schema::Protobuf(schema) => schema.named(rules.message.as_deref())?,
                };
                Origin::Rules(schema, message)
            }
        };
        Ok(Some(Self { encoding, origin, unit: rules.time_unit, names }))
    }

    /// Whether records name their schemas.
    pub(crate) fn needs_ids(&self) -> bool {
        matches!(self.origin, Origin::Ids(_))
    }

    /// Compiles what a verdict on an id says.
    ///
    /// # Errors
    /// The schema is of the encoding of the rules, and cannot be used.
    pub(crate) fn compile(
        &self,
        id: SchemaId,
        verdict: &SchemaVerdict,
        root: &Node,
    ) -> Result<CompiledSchema, String> {
        let unusable = |problem| format!("schema {id} cannot be used: {problem}");
        let known = match verdict {
            SchemaVerdict::Unknown => Known::Unusable(format!("the registry had no schema {id}")),
            SchemaVerdict::Unusable { problem } => Known::Unusable(unusable(problem.clone())),
            SchemaVerdict::Known { kind, source } => match self.other_encoding(kind) {
                Some(problem) => Known::Unusable(unusable(problem)),
                None => Known::Usable(compile(self.encoding, source, &self.names, root)?),
            },
        };
        Ok(CompiledSchema(known))
    }

    /// Why schemas of a kind are not of the encoding of the rules.
    fn other_encoding(&self, kind: &str) -> Option<String> {
        let (expected, name) = match self.encoding {
            Encoding::Avro => ("AVRO", self.encoding.name()),
            _ => ("PROTOBUF", self.encoding.name()),
        };
        let problem = || format!("it is of type {}, and --decode is {name}", clipped(kind));
        (kind != expected).then(problem)
    }

    /// Adds what is known of an id, and the records at which it was not yet. The first stands.
    pub(crate) fn insert(&self, id: SchemaId, schema: CompiledSchema, unknown: Arc<UnknownUntil>) {
        let Origin::Ids(schemas) = &self.origin else { return };
        let mut known = schemas.known.write().expect("no holder panics");
        if !unknown.is_empty() {
            schemas.has_unknown.store(true, Ordering::Release);
        }
        known.entry(id).or_insert_with(|| (Arc::new(schema.0), unknown));
    }

    /// Whether something is known of an id.
    pub(crate) fn has(&self, id: SchemaId) -> bool {
        let Origin::Ids(schemas) = &self.origin else { return true };
        schemas.known.read().expect("no holder panics").contains_key(&id)
    }

    /// Whether the schema of a record became known only after the record was first read. Call this
    /// after reading it: another reader may add the schema meanwhile.
    pub(crate) fn was_unknown(
        &self,
        (header, record): (Option<&[u8]>, &[u8]),
        (partition, offset): (i32, Offset),
    ) -> Option<SchemaId> {
        let Origin::Ids(schemas) = &self.origin else { return None };
        if !schemas.has_unknown.load(Ordering::Acquire) {
            return None;
        }
        let id = unframe(header, record, self.encoding == Encoding::Protobuf).ok()?.id;
        let known = schemas.known.read().expect("no holder panics");
        let until = known.get(&id)?.1.get(&partition)?;
        (offset <= *until).then_some(id)
    }

    /// Whether a record with these first bytes is JSON. Feeds of GTFS-realtime are published in
    /// both forms; in protobuf, one that begins so would have a header of 91 or 123 bytes, and it
    /// has about 15.
    pub(crate) fn is_json(&self, head: &[u8]) -> bool {
        // A mark that text is UTF-8 or UTF-16 has a wire type that protobuf does not.
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        self.may_be_json() && matches!(head.trim_ascii_start().first(), Some(b'{' | b'['))
    }

    /// Whether some records may be JSON.
    pub(crate) fn may_be_json(&self) -> bool {
        self.encoding == Encoding::GtfsRt
    }

    /// Collects the values of a record; `header` is that of its schema's id.
    ///
    /// # Errors
    /// `bad_schema`, `bad_record`. [`SampleError::needs_schema`] is set if nothing is known of the
    /// id yet.
    pub(crate) fn read<'de>(
        &self,
        (header, record): (Option<&[u8]>, &'de [u8]),
        root: &Node,
        fields: &mut Fields<'de>,
    ) -> Result<(), Box<SampleError>> {
        self.with_schema((header, record), |schema, message, value| match schema {
            Schema::Avro(schema) => schema.read(value, self.unit, root, fields),
            Schema::Protobuf(schema) => schema.read((message, value), self.unit, root, fields),
        })
    }

    /// A record as JSON; otherwise like [`BinaryReader::read`].
    pub(crate) fn to_json(
        &self,
        header: Option<&[u8]>,
        record: &[u8],
    ) -> Result<String, Box<SampleError>> {
        self.with_schema((header, record), |schema, message, value| {
            let json = match schema {
                Schema::Avro(schema) => schema.to_json(value, self.unit),
                Schema::Protobuf(schema) => schema.to_json(message, value, self.unit),
            };
            json.map_err(|problem| Box::new(SampleError::new(DeadReason::BadRecord, problem)))
        })
    }

    /// Calls `read` with the schema of a record, the index of its message, and its value.
    fn with_schema<'de, T>(
        &self,
        (header, record): (Option<&[u8]>, &'de [u8]),
        read: impl FnOnce(&Schema, usize, &'de [u8]) -> Result<T, Box<SampleError>>,
    ) -> Result<T, Box<SampleError>> {
        let schemas = match &self.origin {
            Origin::Rules(schema, message) => return read(schema, *message, record),
            Origin::Ids(schemas) => schemas,
        };
        let framed = unframe(header, record, self.encoding == Encoding::Protobuf).map_err(bad)?;
        let known = schemas.known.read().expect("no holder panics");
        let known = known.get(&framed.id).map(|(known, _)| Arc::clone(known));
        match known.as_deref() {
            Some(Known::Usable(schema)) => {
                let message = match schema {
                    Schema::Avro(_) => 0,
                    Schema::Protobuf(schema) => schema.at(&framed.indexes).map_err(bad)?,
                };
                read(schema, message, framed.value)
            }
            Some(Known::Unusable(problem)) => Err(bad(problem.clone())),
            None => {
                let mut error = unknown_schema(framed.id);
                error.needs_schema = Some(framed.id);
                Err(error)
            }
        }
    }
}

/// The dead letter of a record whose schema the registry did not have when it was read.
pub(super) fn unknown_schema(id: SchemaId) -> Box<SampleError> {
    bad(format!(
        "the registry had no schema {id} when this record was read; tstar dlq replay asks again"
    ))
}

fn bad(message: String) -> Box<SampleError> {
    Box::new(SampleError::new(DeadReason::BadSchema, message))
}

fn compile(
    encoding: Encoding,
    source: &SchemaSource,
    names: &BTreeSet<String>,
    root: &Node,
) -> Result<Schema, String> {
    let texts: Vec<&str> = source.references.iter().map(|reference| &*reference.text).collect();
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>() + source.text.len();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(format!("it has {bytes} bytes; the limit is {MAX_SCHEMA_BYTES}"));
    }
    let schema = match encoding {
        Encoding::Avro => AvroSchema::parse(&source.text, &texts, root).map(Schema::Avro),
        _ => ProtobufSchema::compile(source, names).map(Schema::Protobuf),
    };
    schema.map_err(|problem| clipped_to(&problem, MAX_PROBLEM_BYTES))
}

/// The names in records that the rules may mean: those of the fields, and the words of the map.
fn names_of(rules: &Rules) -> BTreeSet<String> {
    let own = Field::ALL.into_iter().flat_map(Field::names).map(|name| (*name).to_owned());
    let is_mark = |mark: char| "/|,=&;[]*".contains(mark);
    let mapped = rules.fields.values().flat_map(|source| source.split(is_mark));
    own.chain(mapped.map(str::to_owned)).collect()
}
