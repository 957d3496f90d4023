//! A value as in its record.

use std::borrow::Cow;
use std::ops::Range;

use super::text::short;

/// A value as in its record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Value<'a> {
    #[default]
    Absent,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    /// A JSON string.
    Text(&'a str),
    /// A cell of a table; its type is derived from its text.
    Cell(&'a str),
    /// An object or an array.
    Nested(&'static str),
}

impl Value<'_> {
    /// Whether it is written as this text.
    pub(super) fn is_text(&self, text: &str) -> bool {
        match self {
            Self::Absent | Self::Nested(_) => false,
            Self::Bool(value) => text == if *value { "true" } else { "false" },
            Self::Signed(value) => value.to_string() == text,
            Self::Unsigned(value) => value.to_string() == text,
            Self::Float(value) => value.to_string() == text,
            Self::Text(value) | Self::Cell(value) => *value == text,
        }
    }

    /// Whether it means yes or no; `None` if it means neither.
    pub(super) fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(on) => Some(*on),
            Self::Signed(0) | Self::Unsigned(0) => Some(false),
            Self::Signed(1) | Self::Unsigned(1) => Some(true),
            Self::Float(0.0) => Some(false),
            Self::Float(1.0) => Some(true),
            Self::Text(text) | Self::Cell(text) => switch(text),
            _ => None,
        }
    }

    /// The part of a text, from 0, that `/` separates; `None` if it has no such part.
    pub(super) fn part(&self, part: u8) -> Option<Self> {
        let (Self::Text(text) | Self::Cell(text)) = self else { return None };
        nth_part(text, part).map(|part| Self::Text(&text[part]))
    }

    pub(super) fn is_empty_text(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Cell(text) if text.is_empty())
    }

    /// The value, for messages.
    pub(super) fn display(&self) -> String {
        match self {
            Self::Absent => "nothing".into(),
            Self::Bool(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(value) => format!("the text {}", short(value)),
            Self::Cell(value) => short(value),
            Self::Nested(what) => (*what).into(),
        }
    }
}

/// Where a part of a text is, from 0, that `/` separates; `None` if it is empty.
pub(super) fn nth_part(text: &str, part: u8) -> Option<Range<usize>> {
    let mut marks = memchr::memchr_iter(b'/', text.as_bytes());
    let start = match part.checked_sub(1) {
        None => 0,
        Some(before) => marks.nth(before.into())? + 1,
    };
    let part = start..marks.next().unwrap_or(text.len());
    (!part.is_empty()).then_some(part)
}

/// What a comma in a number of a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Commas {
    /// No part of it.
    #[default]
    None,
    /// A decimal point.
    Points,
    /// A decimal point, but before exactly three digits, where it may separate thousands.
    ThousandsOrPoints,
}

impl Commas {
    /// A number with a decimal point; any other text as it is. A number with thousands separators
    /// has a second comma or point, and is not a number then.
    pub(super) fn to_points(self, text: &str) -> Cow<'_, str> {
        if self == Self::None || !text.contains(',') {
            return Cow::Borrowed(text);
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_integer =
            |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        let is_number = digits.split_once(',').is_some_and(|(whole, fraction)| {
            let is_clear = self == Self::Points || fraction.len() != 3;
            is_clear && is_integer(whole) && is_integer(fraction)
        });
        if is_number { Cow::Owned(text.replace(',', ".")) } else { Cow::Borrowed(text) }
    }
}

/// Words that mean on, in larger languages of Europe besides English.
const ON: [&str; 22] = [
    "an",
    "ein",
    "ja",
    "wahr",
    "oui",
    "vrai",
    "marche",
    "si",
    "s\u{ed}",
    "s\u{ec}",
    "encendido",
    "verdadero",
    "acceso",
    "vero",
    "aan",
    "waar",
    "tak",
    "prawda",
    "w\u{142}",
    "sim",
    "ligado",
    "p\u{e5}",
];

/// Words that mean off.
const OFF: [&str; 21] = [
    "aus",
    "nein",
    "falsch",
    "non",
    "faux",
    "arr\u{ea}t",
    "arret",
    "apagado",
    "falso",
    "spento",
    "uit",
    "nee",
    "onwaar",
    "nie",
    "fa\u{142}sz",
    "wy\u{142}",
    "n\u{e3}o",
    "nao",
    "desligado",
    "nej",
    "av",
];

/// The state that a word is.
fn switch(text: &str) -> Option<bool> {
    let is_one = |text: &str, words: &[&str]| words.iter().any(|w| text.eq_ignore_ascii_case(w));
    let text = text.trim_ascii();
    if is_one(text, &["true", "on", "yes", "t", "y", "1", "1.0"]) {
        return Some(true);
    }
    if is_one(text, &["false", "off", "no", "f", "n", "0", "0.0"]) {
        return Some(false);
    }
    let word = text.to_lowercase();
    let on = ON.contains(&&*word);
    (on || OFF.contains(&&*word)).then_some(on)
}

/// A hint at coordinates in parts of a degree, as some devices send them.
pub(super) fn in_parts(value: f64, most: f64) -> Option<String> {
    let is_whole = value.fract().abs() < f64::EPSILON && value.abs() > 100_000.0;
    let parts = [1e5, 1e6, 1e7].into_iter().find(|parts| (value / parts).abs() <= most)?;
    is_whole.then(|| {
        format!(
            "; in parts of 1/{parts} degree it would be {}: divide lat and lon by {parts} before \
             the import",
            value / parts
        )
    })
}
