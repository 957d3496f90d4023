//! Schemas by which records are read: one of the rules, or one for each id that a record names.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use foldhash::fast::RandomState;

use super::avro::{AvroPlan, AvroSchema};
use super::bounds::MAX_SCHEMA_BYTES;
use super::context::RecordContext;
use super::decode::Decoder;
use super::fields::{Field, Node};
use super::framing::unframe;
use super::plain::Values;
use super::protobuf::ProtobufSchema;
use super::record::Fields;
use super::shape::Shape;
use super::text::clipped_to;
use super::{DecodedSample, SampleError};
use crate::model::reason::DeadReason;
use crate::model::rules::{Rules, TimeUnit};
use crate::model::schema::{Encoding, SchemaId, SchemaSource, SchemaVerdict};

/// Maximum number of ids of a log; records of further ones become dead letters.
pub const MAX_SCHEMAS: usize = 10_000;

/// Maximum length of what is wrong with a schema, bytes. It may quote the schema.
const MAX_PROBLEM_BYTES: usize = 400;

/// A schema that records can be read by.
#[derive(Debug)]
enum Schema {
    /// With the plan of its plain datums.
    Avro(AvroSchema, Option<AvroPlan>),
    /// Without the message that a record is of.
    Protobuf(ProtobufSchema),
}

/// What is known of an id.
#[derive(Debug)]
enum Known {
    Usable(Schema),
    /// Why no record of it can be read.
    Unusable(String),
}

/// The schemas of a log by their ids.
#[derive(Debug, Default)]
struct Schemas(RwLock<HashMap<SchemaId, Arc<Known>, RandomState>>);

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
    pub fn new(rules: &Rules, shape: &Shape) -> Result<Option<Self>, String> {
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
                let schema = compile(encoding, source, &names, shape)?;
                let message = match &schema {
                    Schema::Avro(..) => 0,
                    Schema::Protobuf(schema) => schema.named(rules.message.as_deref())?,
                };
                Origin::Rules(schema, message)
            }
        };
        Ok(Some(Self { encoding, origin, unit: rules.time_unit, names }))
    }

    /// Whether records name their schemas.
    pub fn needs_ids(&self) -> bool {
        matches!(self.origin, Origin::Ids(_))
    }

    /// Adds what is known of an id. The first verdict stands.
    pub fn add(&self, id: SchemaId, verdict: &SchemaVerdict, shape: &Shape) {
        let Origin::Ids(schemas) = &self.origin else { return };
        let known = match verdict {
            SchemaVerdict::Unknown => Known::Unusable(format!("the registry had no schema {id}")),
            SchemaVerdict::Unusable { problem } => {
                Known::Unusable(format!("schema {id} cannot be used: {problem}"))
            }
            SchemaVerdict::Known { kind, source } => match self.usable(kind, source, shape) {
                Ok(schema) => Known::Usable(schema),
                Err(problem) => Known::Unusable(format!("schema {id} cannot be used: {problem}")),
            },
        };
        let mut schemas = schemas.0.write().expect("no holder panics");
        schemas.entry(id).or_insert_with(|| Arc::new(known));
    }

    fn usable(&self, kind: &str, source: &SchemaSource, shape: &Shape) -> Result<Schema, String> {
        let expected = if self.encoding == Encoding::Avro { "AVRO" } else { "PROTOBUF" };
        if kind != expected {
            let name = self.encoding.name();
            return Err(format!("it is of type {kind}, and --decode is {name}"));
        }
        compile(self.encoding, source, &self.names, shape)
    }

    /// Decodes a plain record; `None` leaves it to [`BinaryReader::read`].
    pub fn read_plain(
        &self,
        (header, record): (Option<&[u8]>, &[u8]),
        decoder: &Decoder,
        context: &RecordContext<'_>,
        text: &mut String,
    ) -> Option<DecodedSample> {
        if self.encoding != Encoding::Avro {
            return None;
        }
        let mut read = |schema: &Schema, datum| {
            let Schema::Avro(schema, Some(plan)) = schema else { return None };
            let mut values = Values::default();
            plan.read(schema, datum, decoder, &mut values)?;
            values.add_given(decoder, context)?;
            values.sample(decoder, text)
        };
        match &self.origin {
            Origin::Rules(schema, _) => read(schema, record),
            Origin::Ids(schemas) => {
                let framed = unframe(header, record, false).ok()?;
                let schemas = schemas.0.read().expect("no holder panics");
                match &**schemas.get(&framed.id)? {
                    Known::Usable(schema) => read(schema, framed.value),
                    Known::Unusable(_) => None,
                }
            }
        }
    }

    /// Whether a record with these first bytes is JSON. Feeds of GTFS-realtime are published in
    /// both forms; in protobuf, one that begins so would have a header of 91 or 123 bytes, and it
    /// has about 15.
    pub fn is_json(&self, head: &[u8]) -> bool {
        // A mark that text is UTF-8 or UTF-16 has a wire type that protobuf does not.
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        self.may_be_json() && matches!(head.trim_ascii_start().first(), Some(b'{' | b'['))
    }

    /// Whether some records may be JSON.
    pub fn may_be_json(&self) -> bool {
        self.encoding == Encoding::GtfsRt
    }

    /// Collects the values of a record; `header` is that of its schema's id.
    ///
    /// # Errors
    /// `bad_schema`, `bad_record`. [`SampleError::needs_schema`] is set if nothing is known of the
    /// id yet.
    pub fn read<'de>(
        &self,
        (header, record): (Option<&[u8]>, &'de [u8]),
        root: &Node,
        fields: &mut Fields<'de>,
    ) -> Result<(), Box<SampleError>> {
        self.with_schema((header, record), |schema, message, value| match schema {
            Schema::Avro(schema, _) => schema.read(value, self.unit, root, fields),
            Schema::Protobuf(schema) => schema.read((message, value), self.unit, root, fields),
        })
    }

    /// A record as JSON; otherwise like [`BinaryReader::read`].
    pub fn to_json(
        &self,
        header: Option<&[u8]>,
        record: &[u8],
    ) -> Result<String, Box<SampleError>> {
        self.with_schema((header, record), |schema, message, value| {
            let json = match schema {
                Schema::Avro(schema, _) => schema.to_json(value, self.unit),
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
        let known = schemas.0.read().expect("no holder panics").get(&framed.id).cloned();
        match known.as_deref() {
            Some(Known::Usable(schema)) => {
                let message = match schema {
                    Schema::Avro(..) => 0,
                    Schema::Protobuf(schema) => schema.at(&framed.indexes).map_err(bad)?,
                };
                read(schema, message, framed.value)
            }
            Some(Known::Unusable(problem)) => Err(bad(problem.clone())),
            None => {
                let mut error = bad(format!("schema {} was not asked for", framed.id));
                error.needs_schema = Some(framed.id);
                Err(error)
            }
        }
    }
}

fn bad(message: String) -> Box<SampleError> {
    Box::new(SampleError::new(DeadReason::BadSchema, message))
}

fn compile(
    encoding: Encoding,
    source: &SchemaSource,
    names: &BTreeSet<String>,
    shape: &Shape,
) -> Result<Schema, String> {
    let texts: Vec<&str> = source.references.iter().map(|reference| &*reference.text).collect();
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>() + source.text.len();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(format!("it has {bytes} bytes; the limit is {MAX_SCHEMA_BYTES}"));
    }
    let schema = match encoding {
        Encoding::Avro => AvroSchema::parse(&source.text, &texts).map(|schema| {
            let plan = AvroPlan::new(&schema, shape);
            Schema::Avro(schema, plan)
        }),
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
