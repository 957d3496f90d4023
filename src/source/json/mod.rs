//! Collects the values of a JSON object without building it.
//!
//! Walks over the text once: values of unknown names are skipped, the others are borrowed from the
//! line. Plain JSON is read by a reader of its own, the rest by `serde_json`.

mod plain;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use memchr::memchr2_iter;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

pub(super) use self::plain::{Odd, Plain};
use super::SampleError;
use super::fields::{Member, Node, Target};
use super::record::Fields;
use super::shape::Shape;
use super::text::{clipped, short, utf8};
use super::value::Value;
use crate::model::reason::DeadReason;

/// Maximum nesting depth. `serde_json` has the same limit, but does not apply it to skipped values.
const MAX_DEPTH: usize = 127;

/// Collects the values of an object: of a sample, or of what is around samples. Those read before
/// an error count.
///
/// # Errors
/// `bad_json`, `bad_utf8`; `out_of_range` for a number that does not fit a float.
pub(super) fn read<'de>(
    line: &'de [u8],
    (shape, root): (&Shape, &Node),
    fields: &mut Fields<'de>,
) -> Result<(), Box<SampleError>> {
    if shape.may_be_plain {
        let mut json = Plain::new(line);
        if json.object(root, fields).is_ok() && json.is_at_end() {
            return Ok(());
        }
        *fields = Fields::default();
    }
    parse(utf8(line)?, (shape, root), fields)
}

/// Collects the values of an object that need not be plain; otherwise as [`read`].
fn parse<'de>(
    line: &'de str,
    (shape, root): (&Shape, &Node),
    fields: &mut Fields<'de>,
) -> Result<(), Box<SampleError>> {
    if is_too_deep(line) {
        let message = format!("the JSON is nested deeper than {MAX_DEPTH} levels");
        return Err(Box::new(SampleError::new(DeadReason::BadJson, message)));
    }
    let mut json = serde_json::Deserializer::from_str(line);
    let read = walk(&mut json, root, fields).and_then(|()| json.end());
    read.map_err(|error| match (&fields.unopened, &shape.map.open) {
        (Some(problem), Some((pointer, _))) => {
            let message = format!("the text {} is not JSON: {problem}", short(pointer));
            Box::new(SampleError::new(DeadReason::BadJson, message))
        }
        _ => parse_error(line, &error, fields),
    })
}

/// Collects the values of a record of any format whose reader is a deserializer.
///
/// # Errors
/// Those of the deserializer.
pub(super) fn walk<'de, D: Deserializer<'de>>(
    record: D,
    root: &Node,
    fields: &mut Fields<'de>,
) -> Result<(), D::Error> {
    record.deserialize_map(Walk::<Borrowed>::new(root, fields))
}

/// Whether the nesting exceeds [`MAX_DEPTH`]. Most lines are too short for that and are not
/// scanned.
fn is_too_deep(line: &str) -> bool {
    let bytes = line.as_bytes();
    if bytes.len() <= 2 * MAX_DEPTH || memchr2_iter(b'{', b'[', bytes).count() <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

#[cold]
fn parse_error(line: &str, error: &serde_json::Error, fields: &Fields<'_>) -> Box<SampleError> {
    let message = error.to_string();
    // Skipping a value checks its syntax only: if that succeeds, the size of a number is the only
    // error.
    let only_size = message.starts_with("number out of range")
        && serde_json::from_str::<IgnoredAny>(line).is_ok();
    if only_size {
        let name = fields.last.map_or("a value", |field| field.name());
        let message = format!("{name} is a number that does not fit a float: {message}");
        return Box::new(SampleError::new(DeadReason::OutOfRange, message));
    }
    let message = format!("not a JSON object: {}", clipped(&message));
    Box::new(SampleError::new(DeadReason::BadJson, message))
}

/// Deserializes a name to the index of its child.
struct Name<'m>(&'m Node);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Option<usize>, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    #[inline]
    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.child(name))
    }
}

/// How a text of the JSON becomes a value.
trait Texts<'de, 'v> {
    fn keep(text: &'de str) -> Cow<'v, str>;
}

/// Texts are borrowed from the record.
struct Borrowed;

impl<'de> Texts<'de, 'de> for Borrowed {
    fn keep(text: &'de str) -> Cow<'de, str> {
        Cow::Borrowed(text)
    }
}

/// Texts are copied: the JSON is inside a text with escapes, which is unescaped for this walk only.
struct Copied;

impl<'v> Texts<'_, 'v> for Copied {
    fn keep(text: &str) -> Cow<'v, str> {
        Cow::Owned(text.to_owned())
    }
}

/// Collects the value of a node and of its descendants.
struct Walk<'m, 'f, 'v, T> {
    node: &'m Node,
    fields: &'f mut Fields<'v>,
    texts: PhantomData<T>,
}

impl<'m, 'f, 'v, T> Walk<'m, 'f, 'v, T> {
    #[inline]
    fn new(node: &'m Node, fields: &'f mut Fields<'v>) -> Self {
        Self { node, fields, texts: PhantomData }
    }

    #[inline]
    fn offer<E: Error>(self, value: Value<'v>) -> Result<(), E> {
        self.fields.offer(&self.node.targets, value);
        Ok(())
    }

    fn offer_copy<E: Error>(self, text: &str) -> Result<(), E> {
        self.fields.offer_copy(&self.node.targets, text, false);
        Ok(())
    }

    /// Collects the values of the JSON inside a text.
    #[cold]
    fn open<E: Error>(self, text: &str) -> Result<(), E> {
        let mut json = serde_json::Deserializer::from_str(text);
        let walk = Walk::<Copied>::new(self.node, &mut *self.fields);
        let problem = match is_too_deep(text) {
            true => format!("it is nested deeper than {MAX_DEPTH} levels"),
            false => match json.deserialize_any(walk).and_then(|()| json.end()) {
                Ok(()) => return Ok(()),
                Err(error) => clipped(&error.to_string()),
            },
        };
        self.fields.unopened.get_or_insert(problem);
        Err(E::custom("a text is not JSON"))
    }
}

impl<'de, 'v, T: Texts<'de, 'v>> Walk<'_, '_, 'v, T> {
    /// Collects the values of a part of the text that was skipped before.
    fn walk_raw<E: Error>(self, raw: &'de RawValue) -> Result<(), E> {
        let mut json = serde_json::Deserializer::from_str(raw.get());
        json.deserialize_any(self).map_err(E::custom)
    }

    /// Collects the values of the array of the samples, and its text.
    #[cold]
    fn keep_array<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let raw = <&'de RawValue>::deserialize(json)?;
        if raw.get() != "null" {
            self.fields.array = Some(T::keep(raw.get()));
        }
        let has_values = !self.node.children.is_empty() || !self.node.members.is_empty();
        match has_values || !self.node.targets.is_empty() {
            true => self.walk_raw(raw),
            false => Ok(()),
        }
    }

    /// Collects the values of elements that a member selects.
    #[cold]
    fn walk_members<A: SeqAccess<'de>>(&mut self, mut list: A) -> Result<(), A::Error> {
        let mut found = 0u32;
        for index in 0.. {
            let Some(raw) = list.next_element::<&'de RawValue>()? else { break };
            if let Some(at) = self.node.element(index) {
                let node = &self.node.children[at].node;
                Walk::<T>::new(node, &mut *self.fields).walk_raw(raw)?;
            }
            for (at, member) in (0..).zip(&self.node.members) {
                if found & (1 << at) == 0 && self.has_member(raw, member)? {
                    found |= 1 << at;
                    Walk::<T>::new(&member.node, &mut *self.fields).walk_raw(raw)?;
                }
            }
        }
        Ok(())
    }

    fn has_member<E: Error>(&mut self, raw: &'de RawValue, member: &Member) -> Result<bool, E> {
        if !raw.get().starts_with('{') {
            return Ok(false);
        }
        let mut json = serde_json::Deserializer::from_str(raw.get());
        let found = json.deserialize_map(FindMember { member, count: 0, is_equal: false });
        let (count, is_equal) = found.map_err(E::custom)?;
        if count > 1 {
            self.fields.set_repeated(&member.name);
        }
        Ok(is_equal)
    }
}

/// Compares a member of an object. Returns how often it occurs, and whether one of them is equal.
struct FindMember<'m> {
    member: &'m Member,
    count: u32,
    is_equal: bool,
}

impl<'de> Visitor<'de> for FindMember<'_> {
    type Value = (u32, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(is_member) = map.next_key_seed(IsText(&self.member.name))? {
            if is_member {
                self.count += 1;
                self.is_equal |= map.next_value_seed(IsText(&self.member.value))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((self.count, self.is_equal))
    }
}

/// Whether a name or a value is written as a text.
struct IsText<'m>(&'m str);

impl<'de> DeserializeSeed<'de> for IsText<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IsText<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(Value::Bool(value).is_text(self.0))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        Ok(Value::Signed(value).is_text(self.0))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        Ok(Value::Unsigned(value).is_text(self.0))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        Ok(Value::Float(value).is_text(self.0))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        Ok(value == self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }
}

impl<'de, 'v, T: Texts<'de, 'v>> DeserializeSeed<'de> for Walk<'_, '_, 'v, T> {
    type Value = ();

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.fields.last = self.node.targets.first().and_then(Target::field);
        if self.node.is_array {
            return self.keep_array(json);
        }
        json.deserialize_any(self)
    }
}

impl<'de, 'v, T: Texts<'de, 'v>> Visitor<'de> for Walk<'_, '_, 'v, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.offer(Value::Bool(value))
    }

    #[inline]
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.offer(Value::Signed(value))
    }

    #[inline]
    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.offer(Value::Unsigned(value))
    }

    #[inline]
    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.offer(Value::Float(value))
    }

    #[inline]
    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<(), E> {
        if self.node.opens {
            return self.open(value);
        }
        match T::keep(value) {
            Cow::Borrowed(value) => self.offer(Value::Text(value)),
            Cow::Owned(value) => self.offer_copy(&value),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        if self.node.opens {
            return self.open(value);
        }
        self.offer_copy(value)
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = 0u32;
        while let Some(name) = map.next_key_seed(Name(self.node))? {
            let Some(at) = name else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let child = &self.node.children[at];
            if seen & (1 << at) != 0 {
                self.fields.set_repeated(&child.name);
            }
            seen |= 1 << at;
            map.next_value_seed(Walk::<T>::new(&child.node, &mut *self.fields))?;
        }
        self.offer(Value::Nested("an object"))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        if !self.node.members.is_empty() {
            self.walk_members(list)?;
            return self.offer(Value::Nested("an array"));
        }
        for index in 0.. {
            let taken = match self.node.element(index) {
                Some(at) => {
                    let node = &self.node.children[at].node;
                    list.next_element_seed(Walk::<T>::new(node, &mut *self.fields))?
                }
                None => list.next_element::<IgnoredAny>()?.map(|_| ()),
            };
            if taken.is_none() {
                break;
            }
        }
        self.offer(Value::Nested("an array"))
    }
}

#[cfg(test)]
mod tests;
