//! Reads a message by its schema, through serde: visitors see the same values as in JSON.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::items::Items;
use super::raw::{Raw, deeper, next_value};
use super::{Field, Kind, ProtobufSchema, Shape};
use crate::model::rules::TimeUnit;
use crate::source::time;
use crate::source::wire::{Bytes, WireError, text, unzigzag};

/// Where messages are: the schema, and the unit of times.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    schema: &'a ProtobufSchema,
    unit: TimeUnit,
}

/// A message.
pub(super) struct Reader<'a, 'de> {
    context: Context<'a>,
    /// Index of the message.
    at: usize,
    bytes: &'de [u8],
    depth: u8,
}

impl<'a, 'de> Reader<'a, 'de> {
    pub(super) fn new(
        schema: &'a ProtobufSchema,
        at: usize,
        bytes: &'de [u8],
        unit: TimeUnit,
    ) -> Self {
        Self { context: Context { schema, unit }, at, bytes, depth: 0 }
    }

    fn fields(&self) -> &'a [Field] {
        &self.context.schema.messages[self.at].fields
    }

    /// Finds the value of each field. Numbers that the schema lacks are skipped: it may be older
    /// than the message.
    fn scan(&self) -> Result<Vec<Option<Occurrence<'de>>>, WireError> {
        let fields = self.fields();
        let mut found: Vec<Option<Occurrence<'de>>> = vec![None; fields.len()];
        let mut rest = Bytes(self.bytes);
        while !rest.is_empty() {
            let from = rest.0;
            let (number, raw) = next_value(&mut rest, self.depth)?;
            // Numbers mostly count from 1.
            let near = (number as usize - 1).min(fields.len());
            let at = match fields.get(near) {
                Some(field) if field.number == number => near,
                _ => match fields.binary_search_by_key(&number, |field| field.number) {
                    Ok(at) => at,
                    Err(_) => continue,
                },
            };
            let (field, slot) = (&fields[at], &mut found[at]);
            field.check(raw)?;
            match slot {
                None => *slot = Some(Occurrence { raw, from }),
                // Its items are where the field occurs from here on.
                Some(_) if matches!(field.shape, Shape::List | Shape::Map) => {}
                Some(_) if field.is_message() => {
                    return Err(WireError::new(format!("message field {number} occurs twice")));
                }
                // Of a value that occurs twice, the last counts.
                Some(found) => found.raw = raw,
            }
        }
        Ok(found)
    }
}

/// Where a field occurs.
#[derive(Clone, Copy, Debug)]
struct Occurrence<'de> {
    /// The value; of a list, the first.
    raw: Raw<'de>,
    /// The rest of the message from there on.
    from: &'de [u8],
}

impl Field {
    pub(super) fn is_message(&self) -> bool {
        matches!(self.kind, Kind::Timestamp | Kind::Wrapper(_) | Kind::Message(_) | Kind::Group(_))
    }

    /// Checks that a value has the wire type of the field.
    fn check(&self, raw: Raw<'_>) -> Result<(), WireError> {
        let is_packed = self.shape == Shape::List && matches!(raw, Raw::Bytes(_));
        let fits = match &self.kind {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => {
                is_packed || matches!(raw, Raw::Fixed64(_))
            }
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => {
                is_packed || matches!(raw, Raw::Fixed32(_))
            }
            Kind::Int32
            | Kind::Int64
            | Kind::Uint32
            | Kind::Uint64
            | Kind::Zigzag
            | Kind::Bool
            | Kind::Enum(_) => is_packed || matches!(raw, Raw::Varint(_)),
            Kind::Text | Kind::Bytes | Kind::Timestamp | Kind::Wrapper(_) | Kind::Message(_) => {
                matches!(raw, Raw::Bytes(_))
            }
            Kind::Group(_) => matches!(raw, Raw::Group(_)),
        };
        if fits {
            return Ok(());
        }
        let (name, number) = (&self.name, self.number);
        Err(WireError::new(format!("field {number} is not a `{name}` of the schema")))
    }

    /// The value of a field that was left out at its default; `None` if it is absent.
    fn default_value(&self) -> Option<Raw<'static>> {
        if self.shape != Shape::Plain {
            return None;
        }
        match &self.kind {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Some(Raw::Fixed64([0; 8])),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Some(Raw::Fixed32([0; 4])),
            Kind::Text | Kind::Bytes => Some(Raw::Bytes(&[])),
            Kind::Timestamp | Kind::Wrapper(_) | Kind::Message(_) | Kind::Group(_) => None,
            _ => Some(Raw::Varint(0)),
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'_, 'de> {
    type Error = WireError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        visitor.visit_map(Members::new(&self)?)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

/// The fields of a message.
pub(super) struct Members<'a, 'de> {
    context: Context<'a>,
    depth: u8,
    fields: &'a [Field],
    found: Vec<Option<Occurrence<'de>>>,
    /// Index of the next field.
    next: usize,
}

impl<'a, 'de> Members<'a, 'de> {
    fn new(message: &Reader<'a, 'de>) -> Result<Self, WireError> {
        let (context, depth, fields) = (message.context, message.depth, message.fields());
        Ok(Self { context, depth, fields, found: message.scan()?, next: 0 })
    }

    /// The value of a field; `None` if it is absent.
    pub(super) fn value(&self, at: usize) -> Option<Value<'a, 'de>> {
        // A schema may name a message as a wrapper and give it no field.
        let (field, context, depth) = (self.fields.get(at)?, self.context, self.depth);
        let is_many = matches!(field.shape, Shape::List | Shape::Map);
        let content = match self.found[at] {
            Some(found) if is_many => Content::Many(found.from),
            None if is_many => Content::Many(&[]),
            Some(found) => Content::One(found.raw),
            None => Content::One(field.default_value()?),
        };
        Some(Value { context, field, content, depth })
    }
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = WireError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, WireError> {
        while self.next < self.fields.len() {
            if self.value(self.next).is_some() {
                let name: &str = &self.fields[self.next].name;
                let name: StrDeserializer<'_, WireError> = name.into_deserializer();
                return seed.deserialize(name).map(Some);
            }
            self.next += 1;
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, WireError> {
        let value = (self.next < self.fields.len()).then(|| self.value(self.next)).flatten();
        let value = value.ok_or_else(|| WireError::new("a value was read twice"))?;
        self.next += 1;
        seed.deserialize(value)
    }
}

/// The content of a field.
#[derive(Clone, Copy)]
pub(super) enum Content<'de> {
    One(Raw<'de>),
    /// The rest of the message from the first item on.
    Many(&'de [u8]),
}

/// The value of a field.
pub(super) struct Value<'a, 'de> {
    pub(super) context: Context<'a>,
    pub(super) field: &'a Field,
    pub(super) content: Content<'de>,
    pub(super) depth: u8,
}

impl<'a, 'de> Value<'a, 'de> {
    fn message(&self, at: usize, bytes: &'de [u8]) -> Result<Reader<'a, 'de>, WireError> {
        Ok(Reader { context: self.context, at, bytes, depth: deeper(self.depth)? })
    }

    /// The fields of a message inside this value.
    pub(super) fn members(
        &self,
        at: usize,
        bytes: &'de [u8],
    ) -> Result<Members<'a, 'de>, WireError> {
        Members::new(&self.message(at, bytes)?)
    }

    fn visit_one<V: Visitor<'de>>(self, raw: Raw<'de>, visitor: V) -> Result<V::Value, WireError> {
        match (&self.field.kind, raw) {
            (Kind::Message(at), Raw::Bytes(bytes)) | (Kind::Group(at), Raw::Group(bytes)) => {
                self.message(*at, bytes)?.deserialize_any(visitor)
            }
            (Kind::Wrapper(at), Raw::Bytes(bytes)) => match self.members(*at, bytes)?.value(0) {
                Some(value) => value.deserialize_any(visitor),
                None => visitor.visit_unit(),
            },
            (Kind::Timestamp, Raw::Bytes(bytes)) => {
                visit_time(bytes, self.context.unit, self.depth, visitor)
            }
            (kind, raw) => visit_scalar(kind, raw, visitor),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers of 32 bits are the low half of the number on the wire"
)]
fn visit_scalar<'de, V: Visitor<'de>>(
    kind: &Kind,
    raw: Raw<'de>,
    visitor: V,
) -> Result<V::Value, WireError> {
    match (kind, raw) {
        (Kind::Double, Raw::Fixed64(bytes)) => visitor.visit_f64(f64::from_le_bytes(bytes)),
        (Kind::Fixed64, Raw::Fixed64(bytes)) => visitor.visit_u64(u64::from_le_bytes(bytes)),
        (Kind::Sfixed64, Raw::Fixed64(bytes)) => visitor.visit_i64(i64::from_le_bytes(bytes)),
        (Kind::Float, Raw::Fixed32(bytes)) => visitor.visit_f32(f32::from_le_bytes(bytes)),
        (Kind::Fixed32, Raw::Fixed32(bytes)) => visitor.visit_u32(u32::from_le_bytes(bytes)),
        (Kind::Sfixed32, Raw::Fixed32(bytes)) => visitor.visit_i32(i32::from_le_bytes(bytes)),
        (Kind::Int32, Raw::Varint(value)) => visitor.visit_i32(value as i32),
        (Kind::Int64, Raw::Varint(value)) => visitor.visit_i64(value as i64),
        (Kind::Uint32, Raw::Varint(value)) => visitor.visit_u32(value as u32),
        (Kind::Uint64, Raw::Varint(value)) => visitor.visit_u64(value),
        (Kind::Zigzag, Raw::Varint(value)) => visitor.visit_i64(unzigzag(value)),
        (Kind::Bool, Raw::Varint(value)) => visitor.visit_bool(value != 0),
        (Kind::Enum(values), Raw::Varint(value)) => {
            let number = value as i32;
            match values.binary_search_by_key(&number, |(known, _)| *known) {
                Ok(at) => visitor.visit_str(&values[at].1),
                Err(_) => visitor.visit_i32(number),
            }
        }
        (Kind::Text, Raw::Bytes(bytes)) => visitor.visit_borrowed_str(text(bytes)?),
        (Kind::Bytes, Raw::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => visitor.visit_borrowed_str(text),
            // Bytes that are not text fit no field; messages show them as an array.
            Err(_) => visitor.visit_seq(Nothing),
        },
        _ => Err(WireError::new("a value has another type than its field")),
    }
}

/// An empty list.
struct Nothing;

impl<'de> SeqAccess<'de> for Nothing {
    type Error = WireError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        _: S,
    ) -> Result<Option<S::Value>, WireError> {
        Ok(None)
    }
}

/// Visits a time: field 1 has the seconds since 1970, field 2 the nanoseconds after them.
fn visit_time<'de, V: Visitor<'de>>(
    bytes: &[u8],
    unit: TimeUnit,
    depth: u8,
    visitor: V,
) -> Result<V::Value, WireError> {
    let (mut rest, mut seconds, mut nanos) = (Bytes(bytes), 0_i64, 0_i64);
    while !rest.is_empty() {
        match next_value(&mut rest, depth)? {
            (1, Raw::Varint(value)) => seconds = value.cast_signed(),
            (2, Raw::Varint(value)) => nanos = value.cast_signed(),
            _ => {}
        }
    }
    let ms = seconds.checked_mul(1000).zip(Some(nanos.div_euclid(1_000_000)));
    let ms = ms.and_then(|(seconds, nanos)| seconds.checked_add(nanos));
    let ms = ms.ok_or_else(|| WireError::new(format!("a time has {seconds} seconds")))?;
    match time::in_unit(ms, TimeUnit::Millis, unit) {
        Some(integer) => visitor.visit_i64(integer),
        None => visitor.visit_string(time::text_of(ms, TimeUnit::Millis, "Z")),
    }
}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = WireError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        match self.content {
            Content::One(raw) => self.visit_one(raw, visitor),
            Content::Many(bytes) => {
                let is_map = self.field.shape == Shape::Map;
                let items = Items::new(self, bytes);
                if is_map { visitor.visit_map(items) } else { visitor.visit_seq(items) }
            }
        }
    }

    /// Its bytes were skipped by the scan already.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}
