//! The values of a plain record, and the sample that they make up.
//!
//! Plain records are read without the slots of [`record`](super::record): a value goes to its place
//! in the sample at once. Whatever is not plain, and every error, gives no sample here, and is left
//! to the readers that know all cases. The tests check that both give the same result.

use super::context::RecordContext;
use super::fields::{Field, Place, Target};
use super::map::Source;
use super::record::{self, MAX_ID_BYTES};
use super::shape::Shape;
use super::{DecodedSample, Span, span};
use crate::model::reading::{ReadingKind, ReadingSet};
use crate::model::scalar::DeviceTime;
use crate::timeline::{RawSample, Sample};

/// Maximum number of values that decide whether a sample is read.
const MAX_EXTRAS: usize = 8;

/// A value that decides whether a sample is read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Extra<'a> {
    #[default]
    Absent,
    Bool(bool),
    Text(&'a [u8]),
    Number,
    /// An object or an array.
    Nested,
}

/// The values of a plain record.
#[derive(Default)]
pub(super) struct Values<'a> {
    /// Bit set of the fields whose name occurred, including null values.
    named: u16,
    /// Bit set of the fields that have a value.
    fields: u16,
    /// Ranks of the sources of those values.
    ranks: [u8; Field::COUNT],
    device: &'a [u8],
    driver: Option<&'a [u8]>,
    ignition: Option<bool>,
    unknown: ReadingSet,
    raw: RawSample,
    /// By [`Place::Extra`], each with the rank of its source.
    extras: [(Extra<'a>, u8); MAX_EXTRAS],
}

const _: () = assert!(Field::COUNT <= 16, "a set of fields has one bit for each");

const fn bit(field: Field) -> u16 {
    1 << field as u16
}

const REQUIRED: u16 = bit(Field::DeviceId) | bit(Field::Time) | bit(Field::Lat) | bit(Field::Lon);

impl<'a> Values<'a> {
    /// Records that a field is named. Two names that are aliases, even with null values, are left
    /// to the parser.
    #[inline]
    pub fn name(&mut self, target: &Target, field: Field) -> Option<()> {
        let is_new = self.named & bit(field) == 0;
        self.named |= bit(field);
        (is_new || target.is_listed).then_some(())
    }

    /// Whether the value of a source counts. Of listed sources, that of the lowest rank does.
    #[inline]
    pub fn wins(&mut self, target: &Target, field: Field) -> bool {
        let rank = &mut self.ranks[field as usize];
        if self.fields & bit(field) != 0 && *rank <= target.rank {
            return false;
        }
        self.fields |= bit(field);
        *rank = target.rank;
        true
    }

    /// Sets a device or a driver; an empty one is none of a listed source.
    #[inline]
    pub fn set_text(&mut self, target: &Target, field: Field, text: &'a [u8]) -> Option<()> {
        if (text.is_empty() && target.is_listed) || !self.wins(target, field) {
            return Some(());
        }
        match field {
            Field::DeviceId => self.device = text,
            Field::Driver => self.driver = Some(text),
            _ => return None,
        }
        Some(())
    }

    /// Sets whether the ignition is on.
    #[inline]
    pub fn set_ignition(&mut self, target: &Target, on: bool) {
        if self.wins(target, Field::Ignition) {
            self.ignition = Some(on);
        }
    }

    /// Sets the device time.
    #[inline]
    pub fn set_time(&mut self, target: &Target, time_ms: DeviceTime) {
        if self.wins(target, Field::Time) {
            self.raw.time_ms = time_ms;
        }
    }

    /// Sets a position or a reading.
    #[inline]
    pub fn set_number(
        &mut self,
        target: &Target,
        field: Field,
        value: f64,
        shape: &Shape,
    ) -> Option<()> {
        if !self.wins(target, field) {
            return Some(());
        }
        match field {
            Field::Lat => self.raw.lat = value,
            Field::Lon => self.raw.lon = value,
            other => self.set_reading(other.reading()?, value, shape),
        }
        Some(())
    }

    #[inline]
    fn set_reading(&mut self, kind: ReadingKind, value: f64, shape: &Shape) {
        // Another source may have had a value before.
        self.unknown.remove(kind);
        if record::is_unknown(kind, value) {
            self.unknown.insert(kind);
            *self.raw.reading_mut(kind) = None;
            return;
        }
        let in_si = |speed| record::metres_per_second(speed, shape.speed_unit);
        let value = if kind == ReadingKind::Speed { in_si(value) } else { value };
        *self.raw.reading_mut(kind) = Some(value);
    }

    /// Sets a value that decides whether the sample is read.
    pub fn set_extra(&mut self, target: &Target, index: u8, value: Extra<'a>) -> Option<()> {
        let is_empty = matches!(value, Extra::Absent) || value == Extra::Text(b"");
        let (found, rank) = self.extras.get_mut(usize::from(index))?;
        let wins = *found == Extra::Absent || target.rank < *rank;
        if wins && !(is_empty && target.is_listed) {
            (*found, *rank) = (value, target.rank);
        }
        Some(())
    }

    /// Adds the values that are not in the record: of a plain shape, device and driver.
    #[inline]
    pub fn add_given(&mut self, shape: &'a Shape, context: &RecordContext<'a>) -> Option<()> {
        for (target, source) in &shape.given {
            let text = match source {
                Source::Around(around) => context.text(around),
                Source::Constant(constant) => Some(&**constant),
                Source::Record(_) => None,
            };
            let Some(text) = text else { continue };
            // Unlike a text of JSON, it may contain a NUL.
            if text.contains('\0') {
                return None;
            }
            self.set_text(target, target.field()?, text.as_bytes())?;
        }
        Some(())
    }

    /// Whether the sample is to be read, as far as plain values decide it.
    fn meets_conditions(&self, shape: &Shape) -> bool {
        let map = &shape.map;
        let has_valid = usize::from(map.valid.is_some());
        if has_valid + map.when.len() > MAX_EXTRAS {
            return false;
        }
        let (valid, conditions) = self.extras.split_at(has_valid);
        let is_met = map.when.iter().zip(conditions).all(|(condition, (value, _))| {
            let is_met = match (&condition.values[..], value) {
                ([], value) => *value != Extra::Absent,
                // Its text is that of the parsed number.
                (_, Extra::Number) => return false,
                (known, Extra::Text(text)) => known.iter().any(|it| it.as_bytes() == *text),
                (known, Extra::Bool(on)) => known.iter().any(|it| **it == *on.to_string()),
                (_, Extra::Absent | Extra::Nested) => false,
            };
            is_met != condition.is_negated
        });
        is_met && matches!(valid, [] | [(Extra::Absent | Extra::Bool(true), _)])
    }

    /// Builds the sample. `text` may have grown where there is none.
    #[inline]
    pub fn sample(&self, shape: &Shape, text: &mut String) -> Option<DecodedSample> {
        if self.fields & REQUIRED != REQUIRED || !self.meets_conditions(shape) {
            return None;
        }
        let sample = Sample::quantised(&self.raw).ok()?;
        let is_id = |bytes: &[u8]| (1..=MAX_ID_BYTES).contains(&bytes.len());
        if !is_id(self.device) || self.driver.is_some_and(|driver| !is_id(driver)) {
            return None;
        }
        let before = text.len();
        let decoded = self.put_ids(sample, text);
        if decoded.is_none() {
            text.truncate(before);
        }
        decoded
    }

    fn put_ids(&self, sample: Sample, text: &mut String) -> Option<DecodedSample> {
        let device = put(self.device, text)?;
        let driver = match self.driver {
            Some(driver) => Some(put(driver, text)?),
            None => None,
        };
        let Self { ignition, unknown, .. } = *self;
        Some(DecodedSample { device, driver, ignition, sample, unknown })
    }
}

fn put(id: &[u8], text: &mut String) -> Option<Span> {
    let start = text.len();
    text.push_str(std::str::from_utf8(id).ok()?);
    Some(span(start, text.len()))
}

/// The index of a value that decides whether a sample is read.
pub(super) fn extra_of(target: &Target) -> Option<u8> {
    match target.place {
        Place::Extra(index) => Some(index),
        Place::Field(_) => None,
    }
}
