//! Parses a field map: where the values of a sample are.

use std::collections::BTreeMap;

use super::fields::Field;
use super::text::short;

/// Maximum number of sources of one field.
const MAX_SOURCES: usize = 16;

/// Maximum number of names whose values are joined.
const MAX_PARTS: usize = 4;

/// Maximum number of conditions.
const MAX_CONDITIONS: usize = 16;

/// Names of a map besides the fields.
const SAMPLES: &str = "samples";
const OPEN: &str = "open";
const WHEN: &str = "when";
const VALID: &str = "valid";

/// An invalid field map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MapError(String);

pub(super) fn fail<T>(message: String) -> Result<T, MapError> {
    Err(MapError(message))
}

/// One step of a path in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A member of an object, or the index of an array.
    Name(Box<str>),
    /// The first element of an array whose member `name` has this value.
    Member { name: Box<str>, value: Box<str> },
    /// Part of a text, from 0; `/` separates parts. Only the last step of a path.
    Part(u8),
}

/// A value around the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Around {
    /// The key of the record.
    Key,
    /// Part of the key, from 0; `/` separates parts.
    KeyPart(usize),
    /// The header with this name.
    Header(Box<str>),
    /// The name of the topic.
    Topic,
    /// The name of the file up to its first dot, without folders.
    File,
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In the record.
    Record(Vec<Token>),
    /// In the record in parts, such as a date and a time: joined by a space.
    Joined(Vec<Vec<Token>>),
    /// Around the record.
    Around(Around),
    /// In the map.
    Constant(Box<str>),
}

impl Source {
    /// Whether only nested values have it. A pointer to a member of the record is also the name of
    /// a column.
    fn is_nested(&self) -> bool {
        let is_nested = |path: &[Token]| !matches!(path, [Token::Name(_)]);
        match self {
            Self::Record(path) => is_nested(path),
            Self::Joined(parts) => parts.iter().any(|path| is_nested(path)),
            Self::Around(_) | Self::Constant(_) => false,
        }
    }
}

/// The sources of one value; the first one with a value wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sources {
    /// As in the map.
    pub text: String,
    /// At least one, at most [`MAX_SOURCES`].
    pub list: Vec<Source>,
}

/// Where the samples of a record are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SamplePath {
    /// As in the map.
    pub text: String,
    /// Alternatives; the first one that is in a record counts. Each has the paths of arrays: the
    /// first one in the record, each other one in the elements of the array before it.
    pub list: Vec<Vec<Vec<Token>>>,
    /// Whether a record with none of them is itself a sample.
    pub or_record: bool,
}

/// A condition for a sample to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    /// As in the map.
    pub text: String,
    /// The first one with a value counts.
    pub sources: Vec<Source>,
    /// Whether it is met where it would not be.
    pub is_negated: bool,
    /// The values that meet it; if empty, any value does.
    pub values: Vec<Box<str>>,
}

/// A parsed field map.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldMap {
    fields: [Option<Sources>; Field::COUNT],
    /// The arrays of samples in a record; unset: a record is a sample.
    pub samples: Option<SamplePath>,
    /// A text that contains JSON, as in the map and as a path.
    pub open: Option<(String, Vec<Token>)>,
    /// Samples that do not meet all of these are skipped.
    pub when: Vec<Condition>,
    /// Whether the fix is valid.
    pub valid: Option<Sources>,
}

impl FieldMap {
    /// Parses the map of rules.
    ///
    /// # Errors
    /// An unknown name, or an invalid source.
    pub(crate) fn new(map: &BTreeMap<String, String>) -> Result<Self, MapError> {
        let mut parsed = Self::default();
        for (name, text) in map {
            parsed.add(name, text)?;
        }
        Ok(parsed)
    }

    /// The sources of a field; `None`: it keeps its own names.
    pub(crate) fn sources(&self, field: Field) -> Option<&Sources> {
        self.fields[field as usize].as_ref()
    }

    /// An entry of the map that only nested values have, and its text.
    pub(crate) fn nested(&self) -> Option<(&str, &str)> {
        let is_nested = |list: &[Source]| list.iter().all(Source::is_nested);
        let fields = Field::ALL.into_iter().filter_map(|field| {
            let sources = self.sources(field)?;
            is_nested(&sources.list).then_some((field.name(), sources.text.as_str()))
        });
        let samples = self.samples.iter().filter(|samples| !samples.or_record);
        let samples = samples.map(|samples| (SAMPLES, samples.text.as_str()));
        let open = self.open.iter().map(|(text, _)| (OPEN, text.as_str()));
        let valid = self.valid.iter().filter(|sources| is_nested(&sources.list));
        let valid = valid.map(|sources| (VALID, sources.text.as_str()));
        let when = self.when.iter().filter(|condition| is_nested(&condition.sources));
        let when = when.map(|condition| (WHEN, condition.text.as_str()));
        fields.chain(samples).chain(open).chain(valid).chain(when).next()
    }

    fn add(&mut self, name: &str, text: &str) -> Result<(), MapError> {
        if let Some(field) = Field::from_name(name) {
            let list = sources(name, text)?;
            self.fields[field as usize] = Some(Sources { text: text.to_owned(), list });
            return Ok(());
        }
        match name {
            SAMPLES => self.samples = Some(sample_path(text)?),
            OPEN => self.open = Some((text.to_owned(), path(OPEN, text)?)),
            WHEN => self.when = conditions(text)?,
            VALID => {
                let list = sources(VALID, text)?;
                self.valid = Some(Sources { text: text.to_owned(), list });
            }
            _ => return unknown_name(name),
        }
        Ok(())
    }
}

fn unknown_name<T>(name: &str) -> Result<T, MapError> {
    let fields = Field::ALL.map(Field::name).join(", ");
    fail(format!(
        "{} is not a field; the fields are {fields}, and a map also has {SAMPLES}, {OPEN}, {WHEN} \
         and {VALID}",
        short(name)
    ))
}

/// Parses a field map such as `device_id=vehicle,lat=/gps/lat|/lat,when=/type=fix`: from names to
/// sources.
///
/// # Errors
/// An unknown or repeated name, an empty part, or an invalid source.
pub fn parse_map(text: &str) -> Result<BTreeMap<String, String>, MapError> {
    let mut map = BTreeMap::new();
    for part in text.split(',').map(str::trim) {
        let Some((name, source)) = part.split_once('=') else {
            let hint = match part {
                "" => "; a shell ends it at a space: write it without spaces, or in quotes",
                _ => "; write for example device_id=vehicle,lat=/gps/lat",
            };
            return fail(format!("{} is not FIELD=NAME{hint}", short(part)));
        };
        let (name, source) = (name.trim(), source.trim());
        check_comma(name, source)?;
        FieldMap::default().add(name, source)?;
        if map.insert(name.to_owned(), source.to_owned()).is_some() {
            return fail(format!("{} is mapped twice; keep one", short(name)));
        }
    }
    Ok(map)
}

/// Refuses a second field in a source, such as `lat=y` in `vehicle lat=y`. Values in conditions may
/// look like that.
fn check_comma(name: &str, source: &str) -> Result<(), MapError> {
    let mut words = source.split_whitespace().skip(1);
    let is_field = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| Field::from_name(name).is_some())
    };
    match words.find(is_field).filter(|_| name != WHEN) {
        Some(second) => fail(format!(
            "{} has no comma before {}; write {name}=NAME,{second}",
            short(&format!("{name}={source}")),
            short(second)
        )),
        None => Ok(()),
    }
}

/// Sources separated by `|`.
fn sources(name: &str, text: &str) -> Result<Vec<Source>, MapError> {
    let list: Vec<_> =
        text.split('|').map(|text| source(name, text.trim())).collect::<Result<_, _>>()?;
    if list.len() > MAX_SOURCES {
        return fail(format!("{name} has {} sources; the limit is {MAX_SOURCES}", list.len()));
    }
    Ok(list)
}

fn source(name: &str, text: &str) -> Result<Source, MapError> {
    if let Some(constant) = text.strip_prefix('=') {
        if constant.is_empty() {
            return fail(format!("{name} is mapped to an empty constant; write {name}==VALUE"));
        }
        return Ok(Source::Constant(constant.into()));
    }
    match text.strip_prefix('@') {
        Some(rest) => around(name, rest).map(Source::Around),
        None if name == Field::Time.name() => joined(name, text),
        None => path(name, text).map(Source::Record),
    }
}

/// A name, or several that `+` joins, such as `Date+Time`. In a pointer, `+` joins only where
/// another one follows: a name with `+` is written as a pointer.
fn joined(name: &str, text: &str) -> Result<Source, MapError> {
    let is_pointer = text.starts_with('/');
    let parts = text.split(if is_pointer { "+/" } else { "+" }).enumerate();
    let part = |(index, part): (usize, &str)| {
        let slash = if is_pointer && index > 0 { "/" } else { "" };
        path(name, &format!("{slash}{}", part.trim()))
    };
    let mut parts: Vec<_> = parts.map(part).collect::<Result<_, _>>()?;
    match parts.len() {
        1 => Ok(Source::Record(parts.remove(0))),
        2..=MAX_PARTS => Ok(Source::Joined(parts)),
        count => fail(format!("{name} is joined of {count} names; the limit is {MAX_PARTS}")),
    }
}

fn around(name: &str, rest: &str) -> Result<Around, MapError> {
    if let Some(header) = rest.strip_prefix("header:") {
        if header.is_empty() {
            return fail(format!("{name}=@header: names no header; write {name}=@header:NAME"));
        }
        return Ok(Around::Header(header.into()));
    }
    if let Some(part) = rest.strip_prefix("key/") {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        return match part.parse() {
            Ok(part) if is_number => Ok(Around::KeyPart(part)),
            _ => fail(format!(
                "{name}=@key/{}: a part of the key is a number from 0, as in @key/2",
                short(part)
            )),
        };
    }
    match rest {
        "key" => Ok(Around::Key),
        "topic" => Ok(Around::Topic),
        "file" => Ok(Around::File),
        _ => fail(format!(
            "{name}={} is not a source; write @key, @key/N, @header:NAME, @topic or @file, and \
             /@NAME for a name that begins with @",
            short(&format!("@{rest}"))
        )),
    }
}

/// A name, or a JSON Pointer.
fn path(name: &str, text: &str) -> Result<Vec<Token>, MapError> {
    if text.is_empty() {
        return fail(format!("{name} is mapped to an empty name; write {name}=NAME"));
    }
    let Some(tokens) = text.strip_prefix('/') else {
        return Ok(vec![Token::Name(text.into())]);
    };
    let tokens = tokens.split('/').map(|token| self::token(name, text, token));
    let mut tokens: Vec<_> = tokens.collect::<Result<_, _>>()?;
    if let [_, .., Token::Name(last)] = &tokens[..]
        && let Some(part) = last.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'))
        && let Ok(part) = part.parse()
    {
        tokens.pop();
        tokens.push(Token::Part(part));
    }
    Ok(tokens)
}

fn token(name: &str, pointer: &str, token: &str) -> Result<Token, MapError> {
    let bad_escape = token.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']));
    if bad_escape {
        return fail(format!(
            "{name}={} is not a JSON Pointer; write ~ as ~0 and / as ~1",
            short(pointer)
        ));
    }
    let plain = |text: &str| text.replace("~1", "/").replace("~0", "~").into();
    let member = token.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let Some((member, value)) = member.and_then(|member| member.split_once('=')) else {
        return Ok(Token::Name(plain(token)));
    };
    if member.is_empty() || value.is_empty() {
        return fail(format!(
            "{name}={}: {} selects no element; write [MEMBER=VALUE]",
            short(pointer),
            short(token)
        ));
    }
    Ok(Token::Member { name: plain(member), value: plain(value) })
}

/// Paths of arrays of samples, separated by `|`; `/` is the record itself.
fn sample_path(text: &str) -> Result<SamplePath, MapError> {
    let parts: Vec<_> = text.split('|').map(str::trim).collect();
    if parts.len() > MAX_SOURCES {
        return fail(format!(
            "{SAMPLES} has {} alternatives; the limit is {MAX_SOURCES}",
            parts.len()
        ));
    }
    let or_record = parts.contains(&"/");
    let paths = parts.iter().filter(|part| **part != "/");
    let list: Vec<_> = paths.map(|part| arrays(part)).collect::<Result<_, _>>()?;
    if list.is_empty() {
        return fail(format!(
            "{SAMPLES}=/ is the record itself; write {SAMPLES}=/NAME for an array in it, or leave \
             {SAMPLES} out"
        ));
    }
    Ok(SamplePath { text: text.to_owned(), list, or_record })
}

/// A pointer in which `*` is each element of an array.
fn arrays(text: &str) -> Result<Vec<Vec<Token>>, MapError> {
    let tokens = path(SAMPLES, text)?;
    let is_each = |token: &Token| matches!(token, Token::Name(name) if **name == *"*");
    let arrays: Vec<_> = tokens.split(is_each).map(<[Token]>::to_vec).collect();
    if arrays.iter().any(Vec::is_empty) {
        return fail(format!(
            "{SAMPLES}={}: * stands between two names, as in /data/*/gps; the last name is that of \
             an array of samples",
            short(text)
        ));
    }
    Ok(arrays)
}

/// Conditions separated by `&`.
fn conditions(text: &str) -> Result<Vec<Condition>, MapError> {
    let list: Vec<_> =
        text.split('&').map(|text| condition(text.trim())).collect::<Result<_, _>>()?;
    if list.len() > MAX_CONDITIONS {
        return fail(format!(
            "{WHEN} has {} conditions; the limit is {MAX_CONDITIONS}",
            list.len()
        ));
    }
    Ok(list)
}

/// A source that has to have a value, or one of some values.
fn condition(text: &str) -> Result<Condition, MapError> {
    // A `=` between brackets selects an element.
    let mut depth = 0_usize;
    let equals = text.char_indices().find(|(_, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *c == '=' && depth == 0
    });
    let Some((at, _)) = equals else {
        return operand(text, text, Vec::new());
    };
    let values: Vec<Box<str>> =
        text[at + 1..].split(';').map(|value| value.trim().into()).collect();
    if values.iter().any(|value| value.is_empty()) {
        return fail(format!(
            "{WHEN}={} compares with nothing; write {WHEN}=/type=fix or, for any value, {WHEN}=/type",
            short(text)
        ));
    }
    operand(text, &text[..at], values)
}

/// A condition for the sources that are its left side; `!` negates it.
fn operand(text: &str, left: &str, values: Vec<Box<str>>) -> Result<Condition, MapError> {
    let left = left.trim();
    let (left, is_negated) = left.strip_prefix('!').map_or((left, false), |left| (left, true));
    if left.is_empty() {
        return fail(format!("{WHEN} names nothing to compare; write {WHEN}=/type=fix"));
    }
    Ok(Condition { text: text.into(), sources: sources(WHEN, left)?, is_negated, values })
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
