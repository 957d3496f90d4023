//! Values that are joined of several, such as a date and a time in two columns.

use std::ops::Range;

use super::fields::{Field, Place, Target, joined};
use super::map::{FieldMap, Token};
use super::record::Fields;
use super::value::Value;

/// A value that is joined of others, by a space.
#[derive(Debug)]
pub(super) struct Join {
    target: Target,
    /// Its parts, as [`Place::Extra`].
    parts: Range<usize>,
}

/// The values that a map joins.
pub(super) fn joins(map: &FieldMap) -> Vec<Join> {
    let mut next = usize::from(map.valid.is_some()) + map.when.len();
    let join = |(field, rank, parts): (Field, usize, &Vec<Vec<Token>>)| {
        let first = next;
        next += parts.len();
        let is_listed = map.sources(field).is_some_and(|sources| sources.list.len() > 1);
        let rank = u8::try_from(rank).unwrap_or(u8::MAX);
        let target = Target { place: Place::Field(field), rank, is_listed, part: None };
        Join { target, parts: first..next }
    };
    joined(map).map(join).collect()
}

impl Join {
    /// The field of the value.
    pub(super) fn field(&self) -> Option<Field> {
        self.target.field()
    }

    /// Whether each part is somewhere, as `has` says of the index of one.
    pub(super) fn has_parts(&self, has: impl Fn(usize) -> bool) -> bool {
        self.parts.clone().all(has)
    }

    /// Offers the value, if the record has each part.
    pub(super) fn offer_to(&self, fields: &mut Fields<'_>) {
        let mut joined = String::new();
        for part in self.parts.clone() {
            let Some(text) = text_of(fields, part) else { return };
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(&text);
        }
        fields.offer_copy(&[self.target], &joined, false);
    }
}

/// The text of a part; `None` if it has no value.
fn text_of(fields: &Fields<'_>, part: usize) -> Option<String> {
    let text = match fields.extra(part) {
        Value::Cell(text) => fields.commas.to_points(text.trim()).into_owned(),
        Value::Text(text) => text.trim().to_owned(),
        Value::Signed(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Absent | Value::Bool(_) | Value::Nested(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}
