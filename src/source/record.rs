//! The values of one record, and the sample that they make up, or the reason why they do not.

use std::borrow::Cow;

use super::fields::{Field, Place, Target};
use super::repeated_hour::RepeatedHours;
use super::shape::Shape;
use super::text::short;
use super::value::{Commas, Value, in_parts, nth_part};
use super::{DecodedSample, NoSample, SampleError, Span};
use crate::identity::{MAX_DEVICE_ID_BYTES, check_device_id};
use crate::model::reading::{ReadingKind, ReadingSet};
use crate::model::reason::DeadReason;
use crate::model::sample::is_driver;
use crate::model::scalar::DeviceTime;
use crate::timeline::{OutOfRange, RawSample, Sample};

/// Maximum length of a device id or driver, bytes.
pub(super) const MAX_ID_BYTES: usize = MAX_DEVICE_ID_BYTES;

/// A value as it is stored, or where [`Fields`] keeps a copy of its text.
#[derive(Clone, Copy, Debug)]
enum Stored<'a> {
    Value(Value<'a>),
    Copy { start: usize, end: usize, is_cell: bool },
}

impl Default for Stored<'_> {
    fn default() -> Self {
        Self::Value(Value::Absent)
    }
}

impl Stored<'_> {
    #[inline]
    fn is_absent(&self) -> bool {
        matches!(self, Self::Value(Value::Absent))
    }

    fn is_empty_text(&self) -> bool {
        match self {
            Self::Value(value) => value.is_empty_text(),
            Self::Copy { start, end, .. } => start == end,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot<'a> {
    value: Stored<'a>,
    rank: u8,
    is_listed: bool,
    /// Rank of a second alias with a value, if the canonical name has none.
    rival: Option<u8>,
}

/// Number of the values that decide whether a sample is read which need no allocation.
const FIRST_EXTRAS: usize = 3;

/// The values of one record, by field. Nothing in the slots needs a drop, which would cost as much
/// as reading a value.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    /// By field, then the first of [`Place::Extra`].
    slots: [Slot<'a>; Field::COUNT + FIRST_EXTRAS],
    /// The other values that decide whether the sample is read.
    extras: Vec<Slot<'a>>,
    /// The texts of values that are not in the record as they are.
    copies: String,
    /// Whether a slot has a rival.
    has_rival: bool,
    /// The first name that occurs twice in one object.
    repeated: Option<Box<str>>,
    /// The field of the value that was read last, for messages.
    pub(super) last: Option<Field>,
    /// What a comma in a cell of a number is.
    pub(super) commas: Commas,
    /// The text of the array of the samples.
    pub(super) array: Option<Cow<'a, str>>,
    /// Why the text that should contain JSON does not.
    pub(super) unopened: Option<String>,
}

impl<'a> Fields<'a> {
    /// Stores a value for each field that it maps to. In any order of names, the canonical name
    /// wins, and two aliases are ambiguous.
    #[inline(always)]
    pub(super) fn offer(&mut self, targets: &[Target], value: Value<'a>) {
        // Nearly all values: written where they stay, without copies.
        if let &[Target { place, rank, is_listed, part: None }] = targets
            && let slot = self.slot(place)
            && slot.value.is_absent()
            && !(is_listed && value.is_empty_text())
        {
            *slot = Slot { value: Stored::Value(value), rank, is_listed, rival: None };
            return;
        }
        for target in targets {
            self.offer_one(target, Stored::Value(value));
        }
    }

    /// Stores a text that is not in the record as it is; otherwise as [`Fields::offer`].
    pub(super) fn offer_copy(&mut self, targets: &[Target], text: &str, is_cell: bool) {
        let start = self.copies.len();
        self.copies.push_str(text);
        let copy = Stored::Copy { start, end: self.copies.len(), is_cell };
        for target in targets {
            self.offer_one(target, copy);
        }
    }

    #[inline]
    fn slot(&mut self, place: Place) -> &mut Slot<'a> {
        match place {
            Place::Field(field) => &mut self.slots[field as usize],
            Place::Extra(index) => {
                let index = usize::from(index);
                if index < FIRST_EXTRAS {
                    return &mut self.slots[Field::COUNT + index];
                }
                self.extra_slot(index - FIRST_EXTRAS)
            }
        }
    }

    #[cold]
    fn extra_slot(&mut self, index: usize) -> &mut Slot<'a> {
        self.extras.resize(self.extras.len().max(index + 1), Slot::default());
        &mut self.extras[index]
    }

    fn offer_one(&mut self, target: &Target, value: Stored<'a>) {
        let Target { place, rank, is_listed, part } = *target;
        let part = match part {
            None => Some(value),
            Some(part) => self.part(value, part),
        };
        let Some(value) = part else { return };
        let slot = self.slot(place);
        let is_absent = slot.value.is_absent();
        let wins = match is_listed {
            true => (is_absent || rank < slot.rank) && !value.is_empty_text(),
            false => is_absent || rank == 0,
        };
        if wins {
            *slot = Slot { value, rank, is_listed, rival: None };
        } else if !is_listed && slot.rank != 0 {
            slot.rival = Some(rank);
            self.has_rival = true;
        }
    }

    /// The part of a text, from 0, that `/` separates; `None` if it has no such part.
    fn part(&self, value: Stored<'a>, part: u8) -> Option<Stored<'a>> {
        match value {
            Stored::Value(value) => value.part(part).map(Stored::Value),
            Stored::Copy { start, end, .. } => {
                let part = nth_part(&self.copies[start..end], part)?;
                let (start, end) = (start + part.start, start + part.end);
                Some(Stored::Copy { start, end, is_cell: false })
            }
        }
    }

    #[inline]
    fn stored<'f>(&'f self, value: Stored<'f>) -> Value<'f> {
        match value {
            Stored::Value(value) => value,
            Stored::Copy { start, end, is_cell: true } => Value::Cell(&self.copies[start..end]),
            Stored::Copy { start, end, is_cell: false } => Value::Text(&self.copies[start..end]),
        }
    }

    /// Takes the values of what is around that are absent here, or come from an earlier source.
    pub(super) fn inherit(&mut self, around: &'a Fields<'a>) {
        self.has_rival |= around.has_rival;
        let known = self.extras.len().max(around.extras.len());
        self.extras.resize(known, Slot::default());
        let slots = self.slots.iter_mut().zip(&around.slots);
        for (slot, outer) in slots.chain(self.extras.iter_mut().zip(&around.extras)) {
            let is_earlier = outer.is_listed && outer.rank < slot.rank;
            if !outer.value.is_absent() && (slot.value.is_absent() || is_earlier) {
                *slot = Slot { value: Stored::Value(around.stored(outer.value)), ..*outer };
            }
        }
    }

    /// The value of a [`Place::Extra`].
    pub(super) fn extra(&self, index: usize) -> Value<'_> {
        let first = self.slots[Field::COUNT..].get(index);
        let slot = first.or_else(|| self.extras.get(index.wrapping_sub(FIRST_EXTRAS)));
        slot.map_or(Value::Absent, |slot| self.stored(slot.value))
    }

    /// Records a name that occurs twice in one object.
    pub(super) fn set_repeated(&mut self, name: &str) {
        self.repeated.get_or_insert_with(|| name.into());
    }

    #[inline]
    fn value(&self, field: Field) -> Value<'_> {
        self.stored(self.slots[field as usize].value)
    }

    /// Checks that no name occurs twice in one object.
    pub(super) fn check_repeated(&self) -> Result<(), Box<SampleError>> {
        match &self.repeated {
            None => Ok(()),
            Some(name) => fault(
                DeadReason::AmbiguousField,
                format!("{} occurs twice in one object; keep one", short(name)),
            ),
        }
    }

    fn check_names(&self, shape: &Shape) -> Result<(), Box<SampleError>> {
        self.check_repeated()?;
        let rivals = self.has_rival.then_some(Field::ALL).into_iter().flatten();
        for field in rivals {
            let slot = &self.slots[field as usize];
            if let Some(rival) = slot.rival {
                let names = field.names();
                let (first, second) = (names[usize::from(slot.rank)], names[usize::from(rival)]);
                let name = field.name();
                return fault(
                    DeadReason::AmbiguousField,
                    format!(
                        "`{first}` and `{second}` may both be {name}; choose with --map {name}={first}"
                    ),
                );
            }
        }
        let absent = |field: &Field| matches!(self.value(*field), Value::Absent);
        match Field::REQUIRED.iter().find(|field| absent(field)) {
            None => Ok(()),
            Some(field) => fault(DeadReason::MissingField, shape.absent(*field)),
        }
    }

    /// Builds the sample. Appends device and driver to `text`, which is unchanged on an error.
    ///
    /// # Errors
    /// The first error, in the order names, device, time, position, other fields.
    pub(super) fn sample(
        &self,
        shape: &Shape,
        order: Option<&RepeatedHours>,
        text: &mut String,
    ) -> Result<DecodedSample, NoSample> {
        self.check_names(shape)?;
        let before = text.len();
        let decoded = self.build(shape, order, text);
        if decoded.is_err() {
            text.truncate(before);
        }
        decoded
    }

    #[inline]
    fn build(
        &self,
        shape: &Shape,
        order: Option<&RepeatedHours>,
        text: &mut String,
    ) -> Result<DecodedSample, NoSample> {
        let device = self.device(text)?;
        let hours = order.map(|order| (order, &text[device.start as usize..device.end as usize]));
        let time_ms = self.time(shape, hours)?;
        let number = |field| self.number(field);
        let mut unknown = ReadingSet::default();
        let mut reading = |field, kind: ReadingKind| -> Result<Option<f64>, Box<SampleError>> {
            let value = number(field)?;
            let is_unknown = value.is_some_and(|value| kind.is_unknown(value));
            if is_unknown {
                unknown.insert(kind);
            }
            Ok(value.filter(|_| !is_unknown))
        };
        let speed = reading(Field::Speed, ReadingKind::Speed)?;
        let mut raw = RawSample {
            time_ms,
            // `check_names` has checked that both are present.
            lat: number(Field::Lat)?.unwrap_or(f64::NAN),
            lon: number(Field::Lon)?.unwrap_or(f64::NAN),
            speed_mps: speed.map(|speed| shape.speed_unit.metres_per_second(speed)),
            ..RawSample::default()
        };
        for (field, kind) in Field::READINGS {
            // The speed has a unit and is read above.
            if field != Field::Speed {
                *raw.reading_mut(kind) = reading(field, kind)?;
            }
        }
        let is_lost;
        (raw.ignition, is_lost) = self.ignition();
        if is_lost {
            unknown.insert_ignition();
        }
        let driver = self.driver(text)?;
        let sample = Sample::quantised(&raw).map_err(|error| self.out_of_range(&error))?;
        Ok(DecodedSample { device, driver, sample, unknown })
    }

    fn device(&self, text: &mut String) -> Result<Span, Box<SampleError>> {
        let value = self.value(Field::DeviceId);
        let Some(span) = put(value, text) else {
            return bad_type(Field::DeviceId, value, "a text or an integer");
        };
        let id = &text[span.start as usize..];
        if check_device_id(id).is_err() {
            return fault(
                DeadReason::BadDeviceId,
                format!(
                    "device_id {} has {} bytes; it needs 1 to {MAX_ID_BYTES}, none of them NUL",
                    short(id),
                    id.len()
                ),
            );
        }
        Ok(span)
    }

    /// The device id, even if other fields are invalid.
    pub(super) fn device_text(&self) -> Option<String> {
        let mut text = String::new();
        self.device(&mut text).ok().map(|_| text)
    }

    fn driver(&self, text: &mut String) -> Result<Option<Span>, Box<SampleError>> {
        let value = self.value(Field::Driver);
        if matches!(value, Value::Absent) {
            return Ok(None);
        }
        let expected = "a text of at most 256 bytes without NUL, or an integer";
        let Some(span) = put(value, text) else {
            return bad_type(Field::Driver, value, expected);
        };
        let name = &text[span.start as usize..];
        if !is_driver(name) {
            return bad_type(Field::Driver, value, expected);
        }
        // An empty name means no driver.
        Ok((!name.is_empty()).then_some(span))
    }

    /// The device time; `hours` has the times of this device before it in its file.
    fn time(
        &self,
        shape: &Shape,
        hours: Option<(&RepeatedHours, &str)>,
    ) -> Result<DeviceTime, Box<SampleError>> {
        let value = self.value(Field::Time);
        let times = &shape.times;
        let ms = match value {
            Value::Signed(value) => times.integer(i128::from(value)),
            Value::Unsigned(value) => times.integer(i128::from(value)),
            Value::Float(value) => times.number(value),
            Value::Text(text) => times.text(text),
            Value::Cell(text) => times.text(&self.commas.to_points(text)),
            Value::Absent | Value::Bool(_) | Value::Nested(_) => {
                return bad_type(Field::Time, value, "RFC 3339 text or an integer");
            }
        };
        let by_order = |message: String| {
            let Some((hours, device)) = hours else { return Err(message) };
            let text = match value {
                Value::Text(text) | Value::Cell(text) => self.commas.to_points(text),
                _ => Cow::Owned(value.display()),
            };
            match times.by_order(&text) {
                Some(both) => hours.resolve(device, both),
                None => Err(message),
            }
        };
        let ms = ms.or_else(by_order);
        ms.map(DeviceTime).or_else(|message| fault(DeadReason::BadTime, message))
    }

    #[inline]
    fn number(&self, field: Field) -> Result<Option<f64>, Box<SampleError>> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "no field has integers of over 2^53 in range"
        )]
        match self.value(field) {
            Value::Absent => Ok(None),
            Value::Float(value) => Ok(Some(value)),
            Value::Signed(value) => Ok(Some(value as f64)),
            Value::Unsigned(value) => Ok(Some(value as f64)),
            other => self.parsed(field, other),
        }
    }

    /// The number that a text is.
    #[inline(never)]
    fn parsed(&self, field: Field, value: Value<'_>) -> Result<Option<f64>, Box<SampleError>> {
        let number = match value {
            Value::Cell(text) => {
                // No thousands are degrees.
                let is_place = matches!(field, Field::Lat | Field::Lon);
                let is_open = is_place && self.commas == Commas::ThousandsOrPoints;
                let commas = if is_open { Commas::Points } else { self.commas };
                commas.to_points(text.trim_ascii()).parse()
            }
            Value::Text(text) if is_none(field, text) => return Ok(None),
            Value::Text(text) => text.trim_ascii().parse(),
            _ => return bad_type(field, value, "a number"),
        };
        number.map(Some).or_else(|_| bad_type(field, value, "a number"))
    }

    /// The ignition, and whether it is a word that is not known: that loses it, not the sample.
    fn ignition(&self) -> (Option<bool>, bool) {
        let value = self.value(Field::Ignition);
        match value {
            Value::Absent => (None, false),
            Value::Text(text) | Value::Cell(text) if is_none(Field::Ignition, text) => {
                (None, false)
            }
            _ => {
                let on = value.truth();
                (on, on.is_none())
            }
        }
    }

    fn out_of_range(&self, error: &OutOfRange) -> Box<SampleError> {
        let OutOfRange { field, value, least, most } = error;
        let known = Field::ALL.into_iter().find(|known| known.name() == *field);
        let shown = known.map_or_else(|| value.to_string(), |field| self.value(field).display());
        if *field == "time" {
            let message = format!(
                "time is {shown}, outside of the years 0000 to 9999, the range of trip ids; \
                 --time-unit sets the unit of an integer"
            );
            return Box::new(SampleError::new(DeadReason::OutOfRange, message));
        }
        let in_si = if *field == "speed" { format!(" ({value} m/s)") } else { String::new() };
        let is_longitude = *field == "lat" && value.abs() <= 180.0;
        let is_swapped =
            is_longitude && matches!(self.number(Field::Lon), Ok(Some(lon)) if lon.abs() <= 90.0);
        let hint = match *field {
            _ if is_swapped => "; lat and lon may be swapped: exchange them in --map".to_owned(),
            "lat" | "lon" => in_parts(*value, *most).unwrap_or_default(),
            _ => String::new(),
        };
        let message = format!("{field} is {shown}{in_si}, outside of {least} to {most}{hint}");
        let error = SampleError::new(DeadReason::OutOfRange, message);
        Box::new(SampleError { looks_swapped: is_swapped, ..error })
    }
}

/// Whether an empty text means no value, as an empty cell does. A required field needs one.
fn is_none(field: Field, text: &str) -> bool {
    !Field::REQUIRED.contains(&field) && text.trim_ascii().is_empty()
}

#[cfg(test)]
impl Fields<'_> {
    /// The values that were found, by field.
    pub(super) fn shown(&self) -> String {
        let found =
            Field::ALL.into_iter().filter(|field| !matches!(self.value(*field), Value::Absent));
        let shown = found.map(|field| format!("{} {}", field.name(), self.value(field).display()));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Appends a text or an integer to `text`; `None` for any other value.
fn put(value: Value<'_>, text: &mut String) -> Option<Span> {
    let start = text.len();
    match value {
        Value::Text(value) | Value::Cell(value) => text.push_str(value),
        Value::Signed(value) => text.push_str(&value.to_string()),
        Value::Unsigned(value) => text.push_str(&value.to_string()),
        _ => return None,
    }
    Some(super::span(start, text.len()))
}

#[cold]
fn fault<T>(reason: DeadReason, message: String) -> Result<T, Box<SampleError>> {
    Err(Box::new(SampleError::new(reason, message)))
}

#[cold]
fn bad_type<T>(field: Field, value: Value<'_>, expected: &str) -> Result<T, Box<SampleError>> {
    let name = field.name();
    fault(DeadReason::BadType, format!("{name} is {}; it needs {expected}", value.display()))
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
