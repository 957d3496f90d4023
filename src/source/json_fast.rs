//! Reads records by a learnt template instead of a JSON parser.
//!
//! A producer writes all its objects alike: the same names, in the same order, with the same
//! spaces. The bytes before each value are learnt from records that the JSON parser accepted. A
//! record that consists of learnt bytes, plain strings and plain numbers is read by comparing
//! bytes; all other records, and all errors, are left to the parser. The tests check that both give
//! the same result.

use super::context::RecordContext;
use super::decode::Decoder;
use super::fields::Field;
use super::map::Source;
use super::record::{self, MAX_ID_BYTES};
use super::{DecodedSample, Span, span, time};
use crate::model::reading::{ReadingKind, ReadingSet};
use crate::model::rules::TimeUnit;
use crate::model::scalar::DeviceTime;
use crate::timeline::{RawSample, Sample};

/// Maximum number of learnt prefixes: each has a bit in a `u32`.
const MAX_PREFIXES: usize = 32;

/// Maximum number of learnt suffixes.
const MAX_SUFFIXES: usize = 4;

/// Number of digits that always fit into 64 bits.
const MAX_DIGITS: usize = 19;

/// The bytes between the previous value and a value, such as `,"lat":`, including spaces.
#[derive(Debug, PartialEq, Eq)]
struct Prefix {
    bytes: Box<[u8]>,
    /// Whether it begins the record.
    first: bool,
    /// The field that the value maps to; `None`: the value is skipped.
    field: Option<Field>,
}

/// Template learnt from the records of one input.
#[derive(Debug, Default)]
pub struct JsonTemplate {
    prefixes: Vec<Prefix>,
    suffixes: Vec<Box<[u8]>>,
    /// Number of records that were parsed.
    parsed: u64,
}

/// The values of a plain record.
#[derive(Default)]
struct Values<'a> {
    /// Bit set of the fields whose name occurred, including null values.
    named: u16,
    /// Bit set of the fields that have a value.
    fields: u16,
    device: &'a [u8],
    driver: Option<&'a [u8]>,
    ignition: Option<bool>,
    unknown: ReadingSet,
    raw: RawSample,
}

const _: () = assert!(Field::COUNT <= 16, "a set of fields has one bit for each");

const fn bit(field: Field) -> u16 {
    1 << field as u16
}

const REQUIRED: u16 = bit(Field::DeviceId) | bit(Field::Time) | bit(Field::Lat) | bit(Field::Lon);

impl JsonTemplate {
    /// Decodes a record that matches the template; `None` leaves it to the parser.
    #[inline]
    pub(super) fn read(
        &self,
        decoder: &Decoder,
        record: &[u8],
        context: &RecordContext<'_>,
        text: &mut String,
    ) -> Option<DecodedSample> {
        if !decoder.shape.is_plain {
            return None;
        }
        let mut values = self.values(decoder, record)?;
        values.add_given(decoder, context)?;
        if values.fields & REQUIRED != REQUIRED {
            return None;
        }
        let sample = Sample::quantised(&values.raw).ok()?;
        let is_id = |bytes: &[u8]| (1..=MAX_ID_BYTES).contains(&bytes.len());
        if !is_id(values.device) || values.driver.is_some_and(|driver| !is_id(driver)) {
            return None;
        }
        let device = put(values.device, text)?;
        let driver = match values.driver {
            Some(driver) => Some(put(driver, text)?),
            None => None,
        };
        let Values { ignition, unknown, .. } = values;
        Some(DecodedSample { device, driver, ignition, sample, unknown })
    }

    fn values<'a>(&self, decoder: &Decoder, record: &'a [u8]) -> Option<Values<'a>> {
        let mut values = Values::default();
        let (mut rest, mut next, mut seen) = (record, 0, 0_u32);
        loop {
            let Some(at) = self.find_prefix(rest, next, seen == 0) else {
                let is_end = self.suffixes.iter().any(|suffix| **suffix == *rest);
                return is_end.then_some(values);
            };
            // A repeated name is left to the parser, even if its value is skipped.
            if seen & (1 << at) != 0 {
                return None;
            }
            seen |= 1 << at;
            next = at + 1;
            let prefix = &self.prefixes[at];
            rest = &rest[prefix.bytes.len()..];
            match prefix.field {
                Some(field) => values.parse_value(field, decoder, &mut rest)?,
                None => skip_value(&mut rest)?,
            }
        }
    }

    /// Index of the prefix that `rest` begins with; tries the one at `next` first.
    #[inline]
    fn find_prefix(&self, rest: &[u8], next: usize, first: bool) -> Option<usize> {
        let matches = |prefix: &Prefix| prefix.first == first && rest.starts_with(&prefix.bytes);
        if self.prefixes.get(next).is_some_and(matches) {
            return Some(next);
        }
        // The end of a record: shorter than any prefix.
        if rest.len() <= 3 {
            return None;
        }
        self.prefixes.iter().position(matches)
    }

    /// Learns from a record that the parser accepted. Tries less and less often, since the records
    /// of an input may have no common layout.
    pub(super) fn learn(&mut self, decoder: &Decoder, record: &[u8]) {
        self.parsed += 1;
        if !decoder.shape.is_plain || !self.parsed.is_power_of_two() {
            return;
        }
        let Some((prefixes, suffix)) = outline(decoder, record) else { return };
        for prefix in prefixes {
            if self.prefixes.len() < MAX_PREFIXES && !self.prefixes.contains(&prefix) {
                self.prefixes.push(prefix);
            }
        }
        let is_known = self.suffixes.iter().any(|known| **known == *suffix);
        if self.suffixes.len() < MAX_SUFFIXES && !is_known {
            self.suffixes.push(suffix.into());
        }
    }
}

impl<'a> Values<'a> {
    /// Adds the values that are not in the record; of a plain shape, device and driver.
    #[inline]
    fn add_given(&mut self, decoder: &'a Decoder, context: &RecordContext<'a>) -> Option<()> {
        for (target, source) in &decoder.shape.given {
            let text = match source {
                Source::Around(around) => context.text(around)?,
                Source::Constant(constant) => constant,
                Source::Record(_) => return None,
            };
            // Unlike a text of JSON, it may contain a NUL.
            if text.contains('\0') {
                return None;
            }
            let field = target.field()?;
            match field {
                Field::DeviceId => self.device = text.as_bytes(),
                Field::Driver => self.driver = Some(text.as_bytes()),
                _ => return None,
            }
            self.fields |= bit(field);
        }
        Some(())
    }

    /// Parses the value of a field at the start of `rest`, and advances `rest`.
    #[inline]
    fn parse_value(&mut self, field: Field, decoder: &Decoder, rest: &mut &'a [u8]) -> Option<()> {
        // Two names of one field, even with null values, are left to the parser.
        if self.named & bit(field) != 0 {
            return None;
        }
        self.named |= bit(field);
        if let Some(after) = rest.strip_prefix(b"null") {
            *rest = after;
            return Some(());
        }
        self.fields |= bit(field);
        let raw = &mut self.raw;
        match field {
            Field::DeviceId => self.device = take_text(rest)?,
            Field::Driver => self.driver = Some(take_text(rest)?),
            Field::Ignition => self.ignition = Some(take_bool(rest)?),
            Field::Time => raw.time_ms = take_time(rest, decoder.shape.times.unit)?,
            Field::Lat => raw.lat = take_number(rest)?,
            Field::Lon => raw.lon = take_number(rest)?,
            other => {
                let (kind, value) = (other.reading()?, take_number(rest)?);
                if record::is_unknown(decoder, kind, value) {
                    self.unknown.insert(kind);
                    return Some(());
                }
                let in_si = |speed| record::metres_per_second(speed, decoder.shape.speed_unit);
                let value = if kind == ReadingKind::Speed { in_si(value) } else { value };
                *raw.reading_mut(kind) = Some(value);
            }
        }
        Some(())
    }
}

fn put(ascii: &[u8], text: &mut String) -> Option<Span> {
    let start = text.len();
    text.push_str(std::str::from_utf8(ascii).ok()?);
    Some(span(start, text.len()))
}

/// Number of plain bytes at the start of a JSON string: up to the first quote, backslash, control
/// character or non-ASCII byte.
#[inline]
fn plain_bytes(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Sets the high bit of each zero byte. Bits above the first zero byte may be wrong.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while let Some(word) = text[at..].first_chunk() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        let special = control | quote | backslash | (word & HIGHS);
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_plain = |byte: &u8| matches!(byte, 0x20..0x80) && !matches!(byte, b'"' | b'\\');
    at + text[at..].iter().take_while(|byte| is_plain(byte)).count()
}

/// Parses a JSON string of plain bytes.
#[inline]
fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let inner = rest.strip_prefix(b"\"")?;
    let (text, after) = inner.split_at(plain_bytes(inner));
    *rest = after.strip_prefix(b"\"")?;
    Some(text)
}

/// Parses the digits at the start of `text` into `value` and returns their number. The value is
/// wrong, wrapped, beyond [`MAX_DIGITS`].
#[inline]
fn digits(text: &[u8], value: &mut u64) -> usize {
    let mut count = 0;
    for digit in text.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|digit| *digit < 10) {
        *value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    count
}

/// Parses a number without an exponent, to the same float as the parser.
#[inline]
fn take_number(rest: &mut &[u8]) -> Option<f64> {
    const TENS: [f64; MAX_DIGITS] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18,
    ];
    let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
    let mut value = 0;
    let whole = digits(unsigned, &mut value);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return None;
    }
    let mut after = &unsigned[whole..];
    let mut decimals = 0;
    if let Some(fraction) = after.strip_prefix(b".") {
        decimals = digits(fraction, &mut value);
        after = &fraction[decimals..];
        if decimals == 0 {
            return None;
        }
    }
    if whole + decimals > MAX_DIGITS {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "the parser rounds the same way")]
    let number = value as f64 / TENS[decimals];
    let number = if unsigned.len() < rest.len() { -number } else { number };
    *rest = after;
    Some(number)
}

#[inline]
fn take_time(rest: &mut &[u8], unit: TimeUnit) -> Option<DeviceTime> {
    if rest.first() == Some(&b'"') {
        return time::plain_utc(take_text(rest)?).map(DeviceTime);
    }
    let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
    let mut value = 0;
    let count = digits(unsigned, &mut value);
    if !(1..MAX_DIGITS).contains(&count) || (count > 1 && unsigned[0] == b'0') {
        return None;
    }
    let value = i128::from(value);
    let value = if unsigned.len() < rest.len() { -value } else { value };
    *rest = &unsigned[count..];
    // If a fraction or an exponent follows, no prefix matches.
    time::from_integer(value, unit).map(DeviceTime)
}

#[inline]
fn take_bool(rest: &mut &[u8]) -> Option<bool> {
    let on = rest.starts_with(b"true");
    *rest = rest.strip_prefix(if on { &b"true"[..] } else { b"false" })?;
    Some(on)
}

/// Skips a value that is not used.
fn skip_value(rest: &mut &[u8]) -> Option<()> {
    match rest.first()? {
        b'"' => take_text(rest).map(drop),
        b't' | b'f' => take_bool(rest).map(drop),
        b'n' => rest.strip_prefix(b"null").map(|after| *rest = after),
        _ => take_number(rest).map(drop),
    }
}

/// The prefixes of a plain record, and its suffix.
fn outline<'a>(decoder: &Decoder, record: &'a [u8]) -> Option<(Vec<Prefix>, &'a [u8])> {
    let mut prefixes = Vec::new();
    let mut rest = record;
    loop {
        let from = rest;
        rest = rest.trim_ascii_start();
        let opens = if prefixes.is_empty() { b'{' } else { b',' };
        if rest.first() != Some(&opens) {
            // `rest` may also be the remainder of a number that only the parser can read.
            let is_end = rest.trim_ascii_end() == b"}";
            return (is_end && !prefixes.is_empty()).then_some((prefixes, from));
        }
        rest = rest[1..].trim_ascii_start();
        let name = std::str::from_utf8(take_text(&mut rest)?).ok()?;
        rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let bytes = from[..from.len() - rest.len()].into();
        let field =
            match decoder.shape.root.child(name).map(|at| &decoder.shape.root.children[at].node) {
                None => None,
                Some(node) => match node.targets[..] {
                    [target] if node.children.is_empty() && node.members.is_empty() => {
                        Some(target.field().filter(|_| target.part.is_none())?)
                    }
                    _ => return None,
                },
            };
        prefixes.push(Prefix { bytes, first: prefixes.is_empty(), field });
        skip_value(&mut rest)?;
    }
}

#[cfg(test)]
#[path = "json_fast_tests.rs"]
mod tests;
