//! Lists and maps of a message.

use serde::de::value::UnitDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::message::{Content, Members, Value};
use super::raw::{Raw, next_value};
use super::{Field, Kind};
use crate::source::wire::{Bytes, WireError, text, unzigzag};

/// The items of a list, or the entries of a map.
pub(super) struct Items<'a, 'de> {
    value: Value<'a, 'de>,
    rest: Bytes<'de>,
    /// The rest of the packed numbers that are being read.
    packed: Option<Bytes<'de>>,
    /// The entry whose key was read.
    key: Option<&'de [u8]>,
}

impl<'a, 'de> Items<'a, 'de> {
    /// The items of a field, whose first one begins `rest`.
    pub(super) fn new(value: Value<'a, 'de>, rest: &'de [u8]) -> Self {
        Self { value, rest: Bytes(rest), packed: None, key: None }
    }

    fn next_raw(&mut self) -> Result<Option<Raw<'de>>, WireError> {
        let (field, depth) = (self.value.field, self.value.depth);
        loop {
            if let Some(packed) = &mut self.packed {
                if !packed.is_empty() {
                    return unpack(&field.kind, packed).map(Some);
                }
                self.packed = None;
            }
            if self.rest.is_empty() {
                return Ok(None);
            }
            let (number, raw) = next_value(&mut self.rest, depth)?;
            if number != field.number {
                continue;
            }
            match raw {
                Raw::Bytes(bytes) if !field.is_message() && !field.has_length() => {
                    self.packed = Some(Bytes(bytes));
                }
                raw => return Ok(Some(raw)),
            }
        }
    }

    fn item(&self, raw: Raw<'de>) -> Value<'a, 'de> {
        let Value { context, field, depth, .. } = self.value;
        Value { context, field, content: Content::One(raw), depth }
    }

    /// The fields of a map's entry: key and value.
    fn entry(&self, bytes: &'de [u8]) -> Result<Members<'a, 'de>, WireError> {
        let Kind::Message(at) = self.value.field.kind else {
            return Err(WireError::new("a map has no entries"));
        };
        self.value.members(at, bytes)
    }
}

impl Field {
    /// Whether a value of its own has a length on the wire.
    fn has_length(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Bytes)
    }
}

fn unpack<'de>(kind: &Kind, packed: &mut Bytes<'de>) -> Result<Raw<'de>, WireError> {
    Ok(match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Raw::Fixed64(packed.array()?),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Raw::Fixed32(packed.array()?),
        _ => Raw::Varint(packed.varint()?),
    })
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = WireError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, WireError> {
        let Some(raw) = self.next_raw()? else { return Ok(None) };
        seed.deserialize(self.item(raw)).map(Some)
    }
}

impl<'de> MapAccess<'de> for Items<'_, 'de> {
    type Error = WireError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, WireError> {
        let Some(Raw::Bytes(bytes)) = self.next_raw()? else { return Ok(None) };
        self.key = Some(bytes);
        match self.entry(bytes)?.value(0) {
            Some(key) => seed.deserialize(Key(key)).map(Some),
            None => Err(WireError::new("a map's entry has no key")),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, WireError> {
        let bytes = self.key.take().unwrap_or_default();
        match self.entry(bytes)?.value(1) {
            Some(value) => seed.deserialize(value),
            // A message that was left out is an empty one.
            None => seed.deserialize(UnitDeserializer::new()),
        }
    }
}

/// The key of a map's entry: a name, even if it is a number.
struct Key<'a, 'de>(Value<'a, 'de>);

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = WireError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, WireError> {
        let Content::One(raw) = self.0.content else {
            return Err(WireError::new("a map's entry has no key"));
        };
        match (&self.0.field.kind, raw) {
            (Kind::Text, Raw::Bytes(bytes)) => visitor.visit_borrowed_str(text(bytes)?),
            (Kind::Bool, Raw::Varint(value)) => {
                visitor.visit_str(if value == 0 { "false" } else { "true" })
            }
            (Kind::Zigzag, Raw::Varint(value)) => visitor.visit_string(unzigzag(value).to_string()),
            (Kind::Uint32 | Kind::Uint64, Raw::Varint(value)) => {
                visitor.visit_string(value.to_string())
            }
            (_, Raw::Varint(value)) => visitor.visit_string(value.cast_signed().to_string()),
            (Kind::Fixed32, Raw::Fixed32(bytes)) => {
                visitor.visit_string(u32::from_le_bytes(bytes).to_string())
            }
            (_, Raw::Fixed32(bytes)) => visitor.visit_string(i32::from_le_bytes(bytes).to_string()),
            (Kind::Fixed64, Raw::Fixed64(bytes)) => {
                visitor.visit_string(u64::from_le_bytes(bytes).to_string())
            }
            (_, Raw::Fixed64(bytes)) => visitor.visit_string(i64::from_le_bytes(bytes).to_string()),
            _ => Err(WireError::new("a map's key is not a name")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}
