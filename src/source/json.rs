//! Collects the values of a JSON object without building it.
//!
//! Walks over the text once: values of unknown names are skipped, the others are borrowed from the
//! line.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2_iter;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::SampleError;
use super::fields::Node;
use super::record::{Fields, Value};
use super::text::clipped;
use crate::model::reason::DeadReason;

/// Maximum nesting depth. `serde_json` has the same limit, but does not apply it to skipped values.
const MAX_DEPTH: usize = 127;

/// Collects the values of an object.
///
/// # Errors
/// `bad_json`; `out_of_range` for a number that does not fit a float.
pub(super) fn read<'de>(
    line: &'de str,
    root: &Node,
    fields: &mut Fields<'de>,
) -> Result<(), Box<SampleError>> {
    if is_too_deep(line) {
        let message = format!("the JSON is nested deeper than {MAX_DEPTH} levels");
        return Err(Box::new(SampleError::new(DeadReason::BadJson, message)));
    }
    let mut json = serde_json::Deserializer::from_str(line);
    let read = walk(&mut json, root, fields).and_then(|()| json.end());
    read.map_err(|error| parse_error(line, &error, fields))
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
    record.deserialize_map(Walk { node: root, fields })
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

/// Collects the value of a node and of its descendants.
struct Walk<'m, 'f, 'de> {
    node: &'m Node,
    fields: &'f mut Fields<'de>,
}

impl<'de> Walk<'_, '_, 'de> {
    #[inline]
    fn offer<E: Error>(self, value: Value<'de>) -> Result<(), E> {
        self.fields.offer(&self.node.targets, value);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_, 'de> {
    type Value = ();

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        self.fields.last = self.node.targets.first().map(|target| target.field);
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_, 'de> {
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
        self.offer(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.offer(Value::Text(Cow::Owned(value.to_owned())))
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
            map.next_value_seed(Walk { node: &child.node, fields: &mut *self.fields })?;
        }
        self.offer(Value::Nested("an object"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for index in 0.. {
            let taken = match self.node.element(index) {
                Some(at) => {
                    let node = &self.node.children[at].node;
                    list.next_element_seed(Walk { node, fields: &mut *self.fields })?
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
