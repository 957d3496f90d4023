//! The layout that nearly all records of an input share, so that they are read without parsing.
//!
//! A producer writes its objects the same way each time: the same names, in the same order, with
//! the same spaces. What stands before a value is learnt byte by byte from records that the JSON
//! parser took. A record that consists of learnt bytes, plain texts and plain numbers is read by
//! comparing; any other is the parser's to judge, and so is every fault. The tests hold the two to
//! the same answer.

use super::decode::Decoder;
use super::fields::Field;
use super::record::{self, MAX_ID_BYTES};
use super::{DecodedSample, Span, span, time};
use crate::model::rules::TimeUnit;
use crate::timeline::{RawSample, Sample};

/// Most names that are learnt: a bit each in a set.
const MAX_LEADS: usize = 32;

/// Most ends of records that are learnt.
const MAX_TAILS: usize = 4;

/// Digits that always fit into 64 bits.
const MAX_DIGITS: usize = 19;

/// What stands before a value, from the end of the one before: `,"lat":`, spaces included.
#[derive(Debug, PartialEq, Eq)]
struct Lead {
    bytes: Box<[u8]>,
    /// It begins the record.
    first: bool,
    /// What the value stands for; `None`: it is passed over.
    field: Option<Field>,
}

/// What was learnt of the records of one input.
#[derive(Debug, Default)]
pub struct JsonTemplate {
    leads: Vec<Lead>,
    tails: Vec<Box<[u8]>>,
    /// Records that had to be parsed.
    parsed: u64,
}

/// The values of a plain record.
#[derive(Default)]
struct Values<'a> {
    /// One bit for each field that was named, and for each that has a value.
    named: u16,
    fields: u16,
    device: &'a [u8],
    driver: Option<&'a [u8]>,
    ignition: Option<bool>,
    stated: RawSample,
}

const fn bit(field: Field) -> u16 {
    1 << field as u16
}

const NEEDED: u16 = bit(Field::DeviceId) | bit(Field::Time) | bit(Field::Lat) | bit(Field::Lon);

impl JsonTemplate {
    /// The sample of a record that is like those before; `None` leaves it to the parser.
    #[inline]
    pub(super) fn read(
        &self,
        decoder: &Decoder,
        record: &[u8],
        text: &mut String,
    ) -> Option<DecodedSample> {
        let values = self.values(decoder, record)?;
        if values.fields & NEEDED != NEEDED {
            return None;
        }
        let sample = Sample::quantised(&values.stated).ok()?;
        let id = |bytes: &[u8]| (1..=MAX_ID_BYTES).contains(&bytes.len());
        if !id(values.device) || values.driver.is_some_and(|driver| !id(driver)) {
            return None;
        }
        let device = put(values.device, text)?;
        let driver = match values.driver {
            Some(driver) => Some(put(driver, text)?),
            None => None,
        };
        Some(DecodedSample { device, driver, ignition: values.ignition, sample })
    }

    fn values<'a>(&self, decoder: &Decoder, record: &'a [u8]) -> Option<Values<'a>> {
        let mut values = Values::default();
        let (mut rest, mut next, mut seen) = (record, 0, 0_u32);
        loop {
            let Some(at) = self.lead_of(rest, next, seen == 0) else {
                return self.tails.iter().any(|tail| **tail == *rest).then_some(values);
            };
            // The same for a name that stands for nothing.
            if seen & (1 << at) != 0 {
                return None;
            }
            seen |= 1 << at;
            next = at + 1;
            let lead = &self.leads[at];
            rest = &rest[lead.bytes.len()..];
            match lead.field {
                Some(field) => values.parse_value(field, decoder, &mut rest)?,
                None => pass(&mut rest)?,
            }
        }
    }

    /// Which lead `rest` begins with; the one at `next` is the most likely.
    #[inline]
    fn lead_of(&self, rest: &[u8], next: usize, first: bool) -> Option<usize> {
        let is = |lead: &Lead| lead.first == first && rest.starts_with(&lead.bytes);
        if self.leads.get(next).is_some_and(is) {
            return Some(next);
        }
        // A record's end is shorter than any lead.
        if rest.len() <= 3 {
            return None;
        }
        self.leads.iter().position(is)
    }

    /// Learns from a record that the parser took. Less and less often: an input may have no layout.
    pub(super) fn learn(&mut self, decoder: &Decoder, record: &[u8]) {
        self.parsed += 1;
        if !self.parsed.is_power_of_two() {
            return;
        }
        let Some((leads, tail)) = outline(decoder, record) else { return };
        for lead in leads {
            if self.leads.len() < MAX_LEADS && !self.leads.contains(&lead) {
                self.leads.push(lead);
            }
        }
        if self.tails.len() < MAX_TAILS && !self.tails.iter().any(|known| **known == *tail) {
            self.tails.push(tail.into());
        }
    }
}

impl<'a> Values<'a> {
    /// Takes the value of a field off the front of `rest`.
    #[inline]
    fn parse_value(&mut self, field: Field, decoder: &Decoder, rest: &mut &'a [u8]) -> Option<()> {
        // A field that is named twice, even as null: what that means, the parser knows.
        if self.named & bit(field) != 0 {
            return None;
        }
        self.named |= bit(field);
        if let Some(behind) = rest.strip_prefix(b"null") {
            *rest = behind;
            return Some(());
        }
        self.fields |= bit(field);
        let stated = &mut self.stated;
        match field {
            Field::DeviceId => self.device = take_text(rest)?,
            Field::Driver => self.driver = Some(take_text(rest)?),
            Field::Ignition => self.ignition = Some(take_bool(rest)?),
            Field::Time => stated.time_ms = take_time(rest, decoder.time_unit)?,
            Field::Lat => stated.lat = take_number(rest)?,
            Field::Lon => stated.lon = take_number(rest)?,
            Field::Speed => {
                let speed = record::metres_per_second(take_number(rest)?, decoder.speed_unit);
                stated.speed_mps = Some(speed);
            }
            Field::Heading => stated.heading_deg = Some(take_number(rest)?),
            Field::Altitude => stated.altitude_m = Some(take_number(rest)?),
            Field::Accuracy => stated.accuracy_m = Some(take_number(rest)?),
        }
        Some(())
    }
}

fn put(ascii: &[u8], text: &mut String) -> Option<Span> {
    let start = text.len();
    text.push_str(std::str::from_utf8(ascii).ok()?);
    Some(span(start, text.len()))
}

/// Bytes up to the first that is not plain in a text: a quote, a backslash, a control character, or
/// part of a character beyond ASCII.
#[inline]
fn plain_bytes(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // The high bit of each byte that is zero; of the bytes after such a one it may be wrong.
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

/// A text of plain bytes.
#[inline]
fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let inner = rest.strip_prefix(b"\"")?;
    let (text, behind) = inner.split_at(plain_bytes(inner));
    *rest = behind.strip_prefix(b"\"")?;
    Some(text)
}

/// Digits of a number without a sign, and how many there are; the value may wrap beyond
/// [`MAX_DIGITS`].
#[inline]
fn digits(text: &[u8], value: &mut u64) -> usize {
    let mut count = 0;
    for digit in text.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|digit| *digit < 10) {
        *value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    count
}

/// A number without an exponent, as the parser would give it.
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
    let mut behind = &unsigned[whole..];
    let mut decimals = 0;
    if let Some(fraction) = behind.strip_prefix(b".") {
        decimals = digits(fraction, &mut value);
        behind = &fraction[decimals..];
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
    *rest = behind;
    Some(number)
}

#[inline]
fn take_time(rest: &mut &[u8], unit: TimeUnit) -> Option<i64> {
    if rest.first() == Some(&b'"') {
        return time::plain_utc(take_text(rest)?);
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
    // A fraction or an exponent would follow here; no lead begins with one.
    time::of_integer(value, unit)
}

#[inline]
fn take_bool(rest: &mut &[u8]) -> Option<bool> {
    let on = rest.starts_with(b"true");
    *rest = rest.strip_prefix(if on { &b"true"[..] } else { b"false" })?;
    Some(on)
}

/// A value that stands for nothing.
fn pass(rest: &mut &[u8]) -> Option<()> {
    match rest.first()? {
        b'"' => take_text(rest).map(drop),
        b't' | b'f' => take_bool(rest).map(drop),
        b'n' => rest.strip_prefix(b"null").map(|behind| *rest = behind),
        _ => take_number(rest).map(drop),
    }
}

/// The leads of a plain record, and what it ends with.
fn outline<'a>(decoder: &Decoder, record: &'a [u8]) -> Option<(Vec<Lead>, &'a [u8])> {
    let mut leads = Vec::new();
    let mut rest = record;
    loop {
        let from = rest;
        rest = rest.trim_ascii_start();
        let opens = if leads.is_empty() { b'{' } else { b',' };
        if rest.first() != Some(&opens) {
            // A number that only the parser can read may be cut short here: that is no end.
            let is_end = rest.trim_ascii_end() == b"}";
            return (is_end && !leads.is_empty()).then_some((leads, from));
        }
        rest = rest[1..].trim_ascii_start();
        let name = std::str::from_utf8(take_text(&mut rest)?).ok()?;
        rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let bytes = from[..from.len() - rest.len()].into();
        let field = match decoder.names.child(name).map(|at| &decoder.names.children[at].node) {
            None => None,
            Some(node) => match node.targets[..] {
                [target] if node.children.is_empty() => Some(target.field),
                _ => return None,
            },
        };
        leads.push(Lead { bytes, first: leads.is_empty(), field });
        pass(&mut rest)?;
    }
}

#[cfg(test)]
#[path = "json_fast_tests.rs"]
mod tests;
