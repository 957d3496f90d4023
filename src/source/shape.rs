//! The shape of records: where the values of a sample are, and in which units.
//!
//! All that the rules say about it ends here; the rest of the decoder knows fields only.

use serde_json::{Map, Value};

use super::context::describe;
use super::fields::{self, Field, Node, Place, Target};
use super::join::{self, Join};
use super::local_time::TimeRulesError;
use super::map::{Around, FieldMap, MapError, Source, Token};
use super::text::{clipped, head_of, short};
use super::time::Times;
use crate::model::rules::{AmbiguousTime, Rules, SpeedUnit};
use crate::model::text_encoding::TextEncoding;

/// Maximum size of the list of missing sources in a message, bytes.
const MAX_MISSING: usize = 600;

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

/// The shape that rules describe.
#[derive(Debug)]
pub(super) struct Shape {
    /// The names to look for in a sample.
    pub root: Node,
    /// The names to look for around samples, for each path of samples: in the record, then in the
    /// elements of each array but the last one, which contains the samples. Empty if a record is a
    /// sample.
    pub outer: Vec<Vec<Node>>,
    /// The values that are not in the record.
    pub given: Vec<(Target, Source)>,
    /// The values that are joined of several in the record.
    pub joins: Vec<Join>,
    /// Where values are, by field.
    pub map: FieldMap,
    /// Whether elements below `root` are selected by a member.
    pub has_members: bool,
    /// Whether the JSON of records may be plain: a text that contains JSON has escapes, and what a
    /// member selects is found by the parser.
    pub may_be_plain: bool,
    /// How times are read.
    pub times: Times,
    /// Whether the order of records decides times that occur twice.
    pub by_order: bool,
    /// Unit of speeds.
    pub speed_unit: SpeedUnit,
    /// Encoding of text that is not UTF-8; unset: windows-1252.
    pub encoding: Option<TextEncoding>,
}

impl Shape {
    /// The shape of these rules.
    ///
    /// # Errors
    /// As for [`Decoder::new`](super::Decoder::new).
    pub(crate) fn new(rules: &Rules) -> Result<Self, DecoderError> {
        let map = FieldMap::new(&rules.fields)?;
        let fields::Names { outer, root } = fields::names(&map)?;
        let (given, has_members) = (given(&map), root.has_members());
        Ok(Self {
            has_members,
            may_be_plain: map.open.is_none() && !has_members,
            root,
            outer,
            given,
            joins: join::joins(&map),
            map,
            times: Times::new(rules)?,
            by_order: rules.time_ambiguous == Some(AmbiguousTime::Order),
            speed_unit: rules.speed_unit,
            encoding: rules.encoding.as_deref().and_then(TextEncoding::from_name),
        })
    }

    /// A JSON object with these values.
    ///
    /// # Errors
    /// Two different values have the same place, or the map cannot be reversed.
    pub(crate) fn write(&self, values: Vec<(Field, Value)>) -> Result<String, String> {
        let samples = self.map.samples.as_ref();
        if let Some(samples) = samples.filter(|samples| !samples.or_record) {
            return Err(format!(
                "the map reads several samples from one record (samples={})",
                samples.text
            ));
        }
        if let Some((pointer, _)) = &self.map.open {
            return Err(format!("the map reads JSON inside a text (open={pointer})"));
        }
        let mut object = Map::new();
        for (field, value) in values {
            let name = self.map.sources(field).map_or(field.name(), |sources| &sources.text);
            let path = self.path(field)?;
            if !path.is_empty() && !put(&mut object, &path, value) {
                return Err(format!("`{name}` would need two values"));
            }
        }
        self.meet_conditions(&mut object)?;
        let record = Value::Object(object);
        let mut paths = samples.iter().flat_map(|samples| &samples.list);
        if let (true, Some(samples)) = (paths.any(|path| has(&record, &path[0])), samples) {
            return Err(format!("it would be taken for an array of samples ({})", samples.text));
        }
        Ok(record.to_string())
    }

    /// Where a record has a field; empty if the value is not in the record.
    fn path(&self, field: Field) -> Result<Vec<&str>, String> {
        let Some(sources) = self.map.sources(field) else { return Ok(vec![field.name()]) };
        // The first source wins wherever it has a value, so it is the one to write.
        match &sources.list[0] {
            Source::Record(path) => names(path).ok_or_else(|| {
                format!("the map reads {} from a list ({})", field.name(), sources.text)
            }),
            Source::Joined(_) => {
                Err(format!("the map joins {} of several values ({})", field.name(), sources.text))
            }
            // The caller checks that the value given there is the right one.
            Source::Constant(_) | Source::Around(_) => Ok(Vec::new()),
        }
    }

    /// Adds what the conditions of the map ask for.
    fn meet_conditions(&self, object: &mut Map<String, Value>) -> Result<(), String> {
        // Nothing that is written here breaks one that is negated.
        for condition in self.map.when.iter().filter(|condition| !condition.is_negated) {
            let value = condition
                .values
                .first()
                .map_or(Value::Bool(true), |value| Value::String(value.to_string()));
            let path = match &condition.sources[0] {
                Source::Record(path) => names(path),
                _ => None,
            };
            let Some(path) = path else {
                return Err("a condition of the map is not about a name in the record".into());
            };
            // What the record already has decides; the caller checks that the result is read.
            put(object, &path, value);
        }
        Ok(())
    }

    /// The message for a missing field.
    pub(crate) fn absent(&self, field: Field) -> String {
        let name = field.name();
        let Some(sources) = self.map.sources(field) else {
            return format!(
                "{name} is absent: there is no `{}`; map another name with --map {name}=NAME",
                field.names().join("`, no `")
            );
        };
        let texts = sources.text.split('|').map(str::trim);
        let missing = sources.list.iter().zip(texts).map(|(source, text)| match source {
            Source::Around(around) => describe(around),
            _ => format!("no {}", short(text)),
        });
        let missing = missing.collect::<Vec<_>>().join(", ");
        let (shown, cut) = (head_of(&missing, MAX_MISSING), missing.len() > MAX_MISSING);
        // A name of the device itself, as for a track of one phone. One that is not shown as it is
        // cannot be copied, and belongs on no terminal.
        let is_plain = clipped(&sources.text) == sources.text;
        let hint = match sources.list[..] {
            [Source::Record(ref path)]
                if field == Field::DeviceId && path.len() == 1 && is_plain =>
            {
                format!("; for one id in all records, write --map {name}=={}", sources.text)
            }
            _ => String::new(),
        };
        format!("{name} is absent: there is {shown}{}{hint}", if cut { "..." } else { "" })
    }

    /// A field that is mapped to a part of the key, and its sources.
    pub(crate) fn key_part_of(&self, field: Field) -> Option<&str> {
        let sources = self.map.sources(field)?;
        let is_part = |source: &Source| matches!(source, Source::Around(Around::KeyPart(_)));
        sources.list.iter().any(is_part).then_some(&sources.text)
    }
}

/// The names of a path; `None` if it selects elements.
fn names<'a>(path: &'a [Token]) -> Option<Vec<&'a str>> {
    let name = |token: &'a Token| match token {
        Token::Name(name) => Some(&**name),
        Token::Member { .. } | Token::Part(_) => None,
    };
    path.iter().map(name).collect()
}

/// Whether a value has something at a path.
fn has(value: &Value, path: &[Token]) -> bool {
    let inner = |value, token: &Token| match token {
        Token::Name(name) => Value::get(value, &**name),
        Token::Member { .. } | Token::Part(_) => None,
    };
    path.iter().try_fold(value, inner).is_some()
}

/// The values that are not in the record, with their places.
fn given(map: &FieldMap) -> Vec<(Target, Source)> {
    let fields = Field::ALL
        .into_iter()
        .filter_map(|field| Some((Place::Field(field), map.sources(field)?.clone())));
    let extras = (0..).zip(fields::extras(map));
    let extras = extras.map(|(index, sources)| (Place::Extra(index), sources));
    let each = fields.chain(extras).flat_map(|(place, sources)| {
        let is_listed = sources.list.len() > 1;
        let target = move |rank| Target { place, rank, is_listed, part: None };
        (0..).zip(sources.list).map(move |(rank, source)| (target(rank), source))
    });
    each.filter(|(_, source)| matches!(source, Source::Constant(_) | Source::Around(_))).collect()
}

/// Inserts a value at a path. Returns false if the path has another value.
fn put(object: &mut Map<String, Value>, path: &[&str], value: Value) -> bool {
    let Some((name, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        return *object.entry(*name).or_insert_with(|| value.clone()) == value;
    }
    match object.entry(*name).or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(inner) => put(inner, rest, value),
        _ => false,
    }
}
