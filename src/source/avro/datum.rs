//! Reads a datum by its schema, through serde: visitors see the same values as in JSON.

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use uuid::Uuid;

use super::{AvroSchema, Type};
use crate::model::rules::TimeUnit;
use crate::source::time;
use crate::source::wire::{Bytes, MAX_DEPTH, WireError, text};

/// Values that a datum may hold beyond one for each of its bytes: those of type null take none.
const FREE_VALUES: usize = 4096;

/// What is left of a datum.
pub(super) struct State<'de> {
    rest: Bytes<'de>,
    /// Number of values that may follow. Bounds the work that a count which lies can cause.
    values: usize,
    /// Unit of the integers that stand for times.
    unit: TimeUnit,
}

impl<'de> State<'de> {
    pub(super) fn new(bytes: Bytes<'de>, unit: TimeUnit) -> Self {
        Self { rest: bytes, values: bytes.0.len().saturating_add(FREE_VALUES), unit }
    }

    /// The datum as a whole.
    pub(super) fn datum<'a>(&'a mut self, schema: &'a AvroSchema) -> Datum<'a, 'de> {
        Datum { schema, at: schema.root, state: self, depth: 0 }
    }

    /// Skips a value of the type with this index, and returns what follows it.
    pub(super) fn skip(mut self, schema: &AvroSchema, at: usize) -> Result<Bytes<'de>, WireError> {
        Datum { schema, at, state: &mut self, depth: 0 }.skip()?;
        Ok(self.rest)
    }

    /// Checks that no bytes are left.
    pub(super) fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(WireError::new(format!("{} bytes follow it", self.rest.0.len())))
    }

    /// The index of a variant or a symbol.
    fn index(&mut self, count: usize) -> Result<usize, WireError> {
        let index = self.rest.long()?;
        let valid = usize::try_from(index).ok().filter(|index| *index < count);
        valid.ok_or_else(|| WireError::new(format!("a choice is {index}, of {count}")))
    }
}

/// A value of a datum.
pub(super) struct Datum<'a, 'de> {
    schema: &'a AvroSchema,
    /// Index of its type.
    at: usize,
    state: &'a mut State<'de>,
    depth: u8,
}

impl<'de> Datum<'_, 'de> {
    /// A value inside this one.
    #[inline]
    fn inner(&mut self, at: usize) -> Result<Datum<'_, 'de>, WireError> {
        if self.depth == MAX_DEPTH {
            return Err(WireError::new(format!("it is nested deeper than {MAX_DEPTH} levels")));
        }
        let Some(values) = self.state.values.checked_sub(1) else {
            return Err(WireError::new("it holds more values than it has bytes"));
        };
        self.state.values = values;
        let state = &mut *self.state;
        Ok(Datum { schema: self.schema, at, state, depth: self.depth + 1 })
    }

    fn skip(&mut self) -> Result<(), WireError> {
        let schema = self.schema;
        match &schema.types[self.at] {
            Type::Pending | Type::Null => Ok(()),
            Type::Boolean => self.state.rest.take_bytes(1).map(drop),
            Type::Integer | Type::Time(_) | Type::LocalTime(_) | Type::Enum(_) => {
                self.state.rest.varint().map(drop)
            }
            Type::Float => self.state.rest.take_bytes(4).map(drop),
            Type::Double => self.state.rest.take_bytes(8).map(drop),
            Type::Bytes | Type::String => self.state.rest.text_bytes().map(drop),
            Type::Decimal(carrier, _) => self.unscaled(carrier).map(drop),
            Type::Uuid => self.state.rest.take_bytes(16).map(drop),
            Type::Fixed(size) => self.state.rest.take_bytes(*size).map(drop),
            Type::Union(variants) => {
                let variant = variants[self.state.index(variants.len())?];
                self.inner(variant)?.skip()
            }
            Type::Record(fields) => {
                fields.iter().try_for_each(|(_, field)| self.inner(*field)?.skip())
            }
            Type::Array(items) => Blocks::new(self, *items, false).skip(),
            Type::Map(values) => Blocks::new(self, *values, true).skip(),
        }
    }

    /// The bytes of a decimal.
    fn unscaled(&mut self, carrier: &Type) -> Result<&'de [u8], WireError> {
        match carrier {
            Type::Fixed(size) => self.state.rest.take_bytes(*size),
            _ => self.state.rest.text_bytes(),
        }
    }
}

/// Bytes that are not text fit no field; messages show them as an array.
fn visit_bytes<'de, V: Visitor<'de>>(bytes: &'de [u8], visitor: V) -> Result<V::Value, WireError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => visitor.visit_borrowed_str(text),
        Err(_) => visit_opaque(visitor),
    }
}

fn visit_opaque<'de, V: Visitor<'de>>(visitor: V) -> Result<V::Value, WireError> {
    let nothing = std::iter::empty::<u8>();
    visitor.visit_seq(serde::de::value::SeqDeserializer::new(nothing))
}

/// A big-endian number in two's complement, times a power of ten.
fn visit_decimal<'de, V: Visitor<'de>>(
    bytes: &[u8],
    scale: u32,
    visitor: V,
) -> Result<V::Value, WireError> {
    let mut wide = match bytes.first() {
        Some(0x80..) => [0xff; 16],
        _ => [0; 16],
    };
    let Some(start) = wide.len().checked_sub(bytes.len()) else { return visit_opaque(visitor) };
    wide[start..].copy_from_slice(bytes);
    let unscaled = i128::from_be_bytes(wide);
    match i64::try_from(unscaled) {
        Ok(integer) if scale == 0 => visitor.visit_i64(integer),
        // Parsed from text, a number is the nearest float.
        _ => match format!("{unscaled}e-{scale}").parse() {
            Ok(float) => visitor.visit_f64(float),
            Err(_) => visit_opaque(visitor),
        },
    }
}

impl<'de> Deserializer<'de> for Datum<'_, 'de> {
    type Error = WireError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, WireError> {
        let schema = self.schema;
        let state = &mut *self.state;
        match &schema.types[self.at] {
            Type::Pending | Type::Null => visitor.visit_unit(),
            Type::Boolean => match state.rest.array()? {
                [0] => visitor.visit_bool(false),
                [1] => visitor.visit_bool(true),
                [byte] => Err(WireError::new(format!("a boolean is {byte}"))),
            },
            Type::Integer => visitor.visit_i64(state.rest.long()?),
            Type::Float => visitor.visit_f32(f32::from_le_bytes(state.rest.array()?)),
            Type::Double => visitor.visit_f64(f64::from_le_bytes(state.rest.array()?)),
            Type::String => visitor.visit_borrowed_str(text(state.rest.text_bytes()?)?),
            Type::Bytes => visit_bytes(state.rest.text_bytes()?, visitor),
            Type::Fixed(size) => visit_bytes(state.rest.take_bytes(*size)?, visitor),
            Type::Time(unit) => {
                let value = state.rest.long()?;
                match time::in_unit(value, *unit, state.unit) {
                    Some(integer) => visitor.visit_i64(integer),
                    None => visitor.visit_string(time::text_of(value, *unit, "Z")),
                }
            }
            Type::LocalTime(unit) => {
                visitor.visit_string(time::text_of(state.rest.long()?, *unit, ""))
            }
            Type::Decimal(carrier, scale) => {
                let unscaled = self.unscaled(carrier)?;
                visit_decimal(unscaled, *scale, visitor)
            }
            Type::Uuid => visitor.visit_string(Uuid::from_bytes(state.rest.array()?).to_string()),
            Type::Enum(symbols) => visitor.visit_str(&symbols[state.index(symbols.len())?]),
            Type::Union(variants) => {
                let variant = variants[state.index(variants.len())?];
                self.inner(variant)?.deserialize_any(visitor)
            }
            Type::Record(fields) => {
                let mut record = Record { datum: self, fields: fields.iter(), value: None };
                let value = visitor.visit_map(&mut record)?;
                record.finish()?;
                Ok(value)
            }
            Type::Array(items) => {
                let mut blocks = Blocks::new(&mut self, *items, false);
                let value = visitor.visit_seq(&mut blocks)?;
                blocks.skip()?;
                Ok(value)
            }
            Type::Map(values) => {
                let mut blocks = Blocks::new(&mut self, *values, true);
                let value = visitor.visit_map(&mut blocks)?;
                blocks.skip()?;
                Ok(value)
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        mut self,
        visitor: V,
    ) -> Result<V::Value, WireError> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

/// The fields of a record.
struct Record<'a, 'de> {
    datum: Datum<'a, 'de>,
    fields: std::slice::Iter<'a, (Box<str>, usize)>,
    /// The type of the value that comes next.
    value: Option<usize>,
}

impl Record<'_, '_> {
    /// Skips the fields that were not read.
    fn finish(&mut self) -> Result<(), WireError> {
        let rest = self.fields.by_ref().map(|(_, field)| *field);
        for field in self.value.take().into_iter().chain(rest) {
            self.datum.inner(field)?.skip()?;
        }
        Ok(())
    }
}

impl<'de> MapAccess<'de> for &mut Record<'_, 'de> {
    type Error = WireError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, WireError> {
        let Some((name, field)) = self.fields.next() else { return Ok(None) };
        self.value = Some(*field);
        let name: StrDeserializer<'_, WireError> = (**name).into_deserializer();
        seed.deserialize(name).map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, WireError> {
        let Some(field) = self.value.take() else {
            return Err(WireError::new("a value was read twice"));
        };
        seed.deserialize(self.datum.inner(field)?)
    }
}

/// The items of an array, or the entries of a map, which come in blocks.
struct Blocks<'b, 'a, 'de> {
    datum: &'b mut Datum<'a, 'de>,
    items: usize,
    is_map: bool,
    /// Number of items left in the block; `None` after the last block.
    left: Option<u64>,
}

impl<'b, 'a, 'de> Blocks<'b, 'a, 'de> {
    fn new(datum: &'b mut Datum<'a, 'de>, items: usize, is_map: bool) -> Self {
        Self { datum, items, is_map, left: Some(0) }
    }

    /// Moves to the next item. Returns false at the end.
    fn advance(&mut self) -> Result<bool, WireError> {
        while self.left == Some(0) {
            self.left = match self.datum.state.rest.long()? {
                0 => None,
                // A negative count is followed by the length of the block.
                count if count < 0 => {
                    self.datum.state.rest.long()?;
                    Some(count.unsigned_abs())
                }
                count => Some(count.unsigned_abs()),
            };
        }
        let Some(left) = &mut self.left else { return Ok(false) };
        *left -= 1;
        Ok(true)
    }

    fn skip(&mut self) -> Result<(), WireError> {
        while self.advance()? {
            if self.is_map {
                self.datum.state.rest.text_bytes()?;
            }
            self.datum.inner(self.items)?.skip()?;
        }
        Ok(())
    }
}

impl<'de> SeqAccess<'de> for &mut Blocks<'_, '_, 'de> {
    type Error = WireError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, WireError> {
        if !self.advance()? {
            return Ok(None);
        }
        let items = self.items;
        seed.deserialize(self.datum.inner(items)?).map(Some)
    }
}

impl<'de> MapAccess<'de> for &mut Blocks<'_, '_, 'de> {
    type Error = WireError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, WireError> {
        if !self.advance()? {
            return Ok(None);
        }
        let name = text(self.datum.state.rest.text_bytes()?)?;
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, WireError> {
        let items = self.items;
        seed.deserialize(self.datum.inner(items)?)
    }
}
