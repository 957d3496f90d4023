//! Reads records by a learnt template instead of a JSON parser.
//!
//! A producer writes all its objects alike: the same names, in the same order, with the same
//! spaces. The bytes before each value are learnt from records that the JSON parser accepted. A
//! record that consists of learnt bytes, plain strings and plain numbers is read by comparing
//! bytes; all other records, and all errors, are left to the parser. The tests check that both give
//! the same result.
//!
//! Objects inside a record that the field map knows are part of the learnt bytes. What follows a
//! value depends on the object that it is in, its place; bytes are learnt
//! for each place.

mod outline;
mod scan;

use self::outline::Level;
use self::scan::{skip_scalar, take_bool, take_integer, take_number};
pub(super) use self::scan::{skip_spaces, skip_value, take_text};
use super::context::RecordContext;
use super::fields::{Field, Target};
use super::plain::{Extra, Values, extra_of};
use super::shape::Shape;
use super::{DecodedSample, time};
use crate::model::scalar::DeviceTime;

/// Maximum number of learnt prefixes.
const MAX_PREFIXES: usize = 128;

/// Maximum number of learnt suffixes.
const MAX_SUFFIXES: usize = 8;

/// Maximum number of places.
const MAX_PLACES: usize = 32;

/// The bytes between the previous value and a value, such as `,"lat":`, including spaces.
#[derive(Debug, PartialEq, Eq)]
struct Prefix {
    bytes: Box<[u8]>,
    /// Place of the previous value; 0 before the first one.
    from: u8,
    /// Place of the value.
    to: u8,
    /// Bit set of the nodes of the field map that the bytes name.
    nodes: u64,
    /// What the names of objects in the bytes, which have no value of their own, map to.
    nested: Box<[Target]>,
    value: Use,
}

/// The bytes after the last value, and its place.
#[derive(Debug, PartialEq, Eq)]
struct Suffix {
    bytes: Box<[u8]>,
    from: u8,
}

/// What becomes of a value.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    /// It is skipped, whatever it is.
    Skip,
    /// It is skipped. An object or an array may have values that count, so it is the parser's.
    SkipScalar,
    /// It maps to these places.
    Take(Box<[Target]>),
}

/// Template learnt from the records of one input.
#[derive(Debug, Default)]
pub struct JsonTemplate {
    prefixes: Vec<Prefix>,
    suffixes: Vec<Suffix>,
    /// The places but the first, each as its levels.
    places: Vec<Vec<Level>>,
    /// Number of records that were parsed.
    parsed: u64,
}

impl JsonTemplate {
    /// Decodes a record that matches the template; `None` leaves it to the parser.
    #[inline]
    pub(super) fn read(
        &self,
        shape: &Shape,
        record: &[u8],
        context: &RecordContext<'_>,
        text: &mut String,
    ) -> Option<DecodedSample> {
        let (decoded, rest) = self.read_next(shape, record, context, text)?;
        if skip_spaces(rest).is_empty() {
            return Some(decoded);
        }
        text.truncate(decoded.device.start as usize);
        None
    }

    /// Decodes the object that some bytes begin with, and returns the rest of them; otherwise as
    /// [`JsonTemplate::read`].
    #[inline]
    pub(super) fn read_next<'r>(
        &self,
        shape: &Shape,
        bytes: &'r [u8],
        context: &RecordContext<'_>,
        text: &mut String,
    ) -> Option<(DecodedSample, &'r [u8])> {
        if !shape.is_plain {
            return None;
        }
        let mut rest = bytes;
        let mut values = self.values(shape, &mut rest)?;
        values.add_given(shape, context)?;
        let decoded = values.sample(shape, text)?;
        Some((decoded, &bytes[bytes.len() - rest.len()..]))
    }

    fn values<'a>(&self, shape: &'a Shape, rest: &mut &'a [u8]) -> Option<Values<'a>> {
        let mut values = Values::default();
        let (mut next, mut place, mut seen) = (0, 0, 0_u64);
        loop {
            let matches = |prefix: &Prefix| prefix.from == place && rest.starts_with(&prefix.bytes);
            let at = match self.prefixes.get(next) {
                Some(prefix) if matches(prefix) => next,
                _ => {
                    // A suffix closes the object: no prefix begins with it.
                    let is_end =
                        |suffix: &&Suffix| suffix.from == place && rest.starts_with(&suffix.bytes);
                    if let Some(suffix) = self.suffixes.iter().find(is_end) {
                        *rest = &rest[suffix.bytes.len()..];
                        return Some(values);
                    }
                    self.prefixes.iter().position(matches)?
                }
            };
            let prefix = &self.prefixes[at];
            // A name that occurs twice in one object is left to the parser.
            if seen & prefix.nodes != 0 {
                return None;
            }
            seen |= prefix.nodes;
            (next, place) = (at + 1, prefix.to);
            *rest = &rest[prefix.bytes.len()..];
            for target in &prefix.nested {
                values.set_extra(target, extra_of(target)?, Extra::Nested)?;
            }
            match &prefix.value {
                Use::Skip => skip_value(rest)?,
                Use::SkipScalar => skip_scalar(rest)?,
                Use::Take(targets) => take_value(&mut values, targets, shape, rest)?,
            }
        }
    }

    /// Learns from a record that the parser accepted. Tries less and less often, since the records
    /// of an input may have no common layout.
    pub(super) fn learn(&mut self, shape: &Shape, record: &[u8]) {
        self.parsed += 1;
        if !shape.is_plain || !self.parsed.is_power_of_two() {
            return;
        }
        let Some((prefixes, suffix)) = outline::outline(&shape.root, record, &mut self.places)
        else {
            return;
        };
        // Next to those of the same place, in the order of the record.
        let mut at = self.prefixes.len();
        for prefix in prefixes {
            match self.prefixes.iter().position(|known| *known == prefix) {
                Some(known) => at = known + 1,
                None if self.prefixes.len() < MAX_PREFIXES => {
                    self.prefixes.insert(at.min(self.prefixes.len()), prefix);
                    at += 1;
                }
                None => {}
            }
        }
        if self.suffixes.len() < MAX_SUFFIXES && !self.suffixes.contains(&suffix) {
            self.suffixes.push(suffix);
        }
    }
}

/// Parses the value at the start of `rest` for each of its targets, and advances `rest`.
#[inline]
fn take_value<'a>(
    values: &mut Values<'a>,
    targets: &[Target],
    shape: &Shape,
    rest: &mut &'a [u8],
) -> Option<()> {
    if let Some(after) = rest.strip_prefix(b"null") {
        *rest = after;
        let mut fields = targets.iter().filter_map(|target| Some((target, target.field()?)));
        return fields.try_for_each(|(target, field)| values.name(target, field));
    }
    let start = *rest;
    for target in targets {
        *rest = start;
        match target.field() {
            Some(field) => {
                values.name(target, field)?;
                take_field(values, (target, field), shape, rest)?;
            }
            None => {
                let extra = take_extra(rest)?;
                values.set_extra(target, extra_of(target)?, extra)?;
            }
        }
    }
    Some(())
}

#[inline]
fn take_field<'a>(
    values: &mut Values<'a>,
    (target, field): (&Target, Field),
    shape: &Shape,
    rest: &mut &'a [u8],
) -> Option<()> {
    match field {
        Field::DeviceId | Field::Driver => match target.part {
            None => values.set_text(target, field, take_id(rest)?),
            Some(part) => {
                let part = take_text(rest)?.split(|byte| *byte == b'/').nth(part.into());
                let part = part.filter(|part| !part.is_empty());
                part.map_or(Some(()), |part| values.set_text(target, field, part))
            }
        },
        // Parts of other values are the parser's.
        _ if target.part.is_some() => None,
        Field::Ignition => {
            values.set_ignition(target, take_bool(rest)?);
            Some(())
        }
        Field::Time => {
            values.set_time(target, take_time(rest, shape)?);
            Some(())
        }
        number => values.set_number(target, number, take_number(rest)?, shape),
    }
}

/// Parses a text, or an integer that is written as its text would be.
#[inline]
fn take_id<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.first() == Some(&b'"') {
        return take_text(rest);
    }
    let start = *rest;
    take_integer(rest)?;
    let id = &start[..start.len() - rest.len()];
    (id[0] != b'-').then_some(id)
}

fn take_extra<'a>(rest: &mut &'a [u8]) -> Option<Extra<'a>> {
    match rest.first()? {
        b'"' => take_text(rest).map(Extra::Text),
        b't' | b'f' => take_bool(rest).map(Extra::Bool),
        _ => take_number(rest).map(|_| Extra::Number),
    }
}

#[inline]
fn take_time(rest: &mut &[u8], shape: &Shape) -> Option<DeviceTime> {
    let times = &shape.times;
    if rest.first() == Some(&b'"') {
        let text = take_text(rest)?;
        let ms = time::plain_utc(text).or_else(|| times.text(std::str::from_utf8(text).ok()?).ok());
        return ms.map(DeviceTime);
    }
    let start = *rest;
    if let Some(integer) = take_integer(rest)
        && rest.first() != Some(&b'.')
    {
        // If an exponent follows, no prefix matches.
        return time::from_integer(integer, times.unit).map(DeviceTime);
    }
    *rest = start;
    let number = take_number(rest)?;
    // Integers of more digits are not floats.
    let has_point = start[..start.len() - rest.len()].contains(&b'.');
    if has_point { times.number(number).ok().map(DeviceTime) } else { None }
}

#[cfg(test)]
#[path = "json_fast_tests.rs"]
mod tests;
