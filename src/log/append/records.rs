//! The records of a request.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::MAX_SAMPLES;
use super::reader::Reader;
use crate::model::preset::Preset;
use crate::source::Headers;

/// Headers of a request that are never part of a record.
const SECRET_HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// The records of a request, as ranges of its body.
pub struct Records {
    body: Vec<u8>,
    ranges: Vec<Range<u32>>,
    /// Headers of the request, for a field map that names them.
    headers: Headers,
    /// Name of the token that they were sent with.
    sender: String,
    /// The preset that reads them; `None`: the rules of the store.
    preset: Option<&'static Preset>,
    /// Dropped with the records.
    _guard: Box<dyn Any + Send + Sync>,
}

impl Records {
    /// Splits a body: JSON values, one per line, or the elements of one array.
    ///
    /// # Errors
    /// The body has no sample or too many, or is not a valid array.
    pub(crate) fn from_body(body: Vec<u8>) -> Result<Self, String> {
        let is_array = body.trim_ascii_start().first() == Some(&b'[');
        let ranges = if is_array { elements(&body) } else { lines(&body) }?;
        if ranges.is_empty() && !is_array {
            return Err("it holds no sample".to_owned());
        }
        Ok(Self::new(body, ranges, None))
    }

    /// Takes a body as one record of a preset, which is none if the body is blank.
    ///
    /// # Errors
    /// The body is too large.
    pub(crate) fn of_preset(body: Vec<u8>, preset: &'static Preset) -> Result<Self, String> {
        let record = body.trim_ascii();
        let range = (!record.is_empty()).then(|| range_in(&body, record)).transpose()?;
        Ok(Self::new(body, range.into_iter().collect(), Some(preset)))
    }

    fn new(body: Vec<u8>, ranges: Vec<Range<u32>>, preset: Option<&'static Preset>) -> Self {
        let (headers, sender) = (Headers::new(), String::new());
        Self { body, ranges, headers, sender, preset, _guard: Box::new(()) }
    }

    /// Adds the headers of the request, without secrets.
    #[must_use]
    pub fn with_headers<'h>(self, headers: impl Iterator<Item = (&'h str, &'h [u8])>) -> Self {
        let public = headers.filter(|(name, _)| !SECRET_HEADERS.contains(name));
        let headers = public.map(|(name, value)| (name.to_owned(), Some(value.to_vec())));
        Self { headers: headers.collect(), ..self }
    }

    /// Names the token that they were sent with. Those of one token take turns, and share a part of
    /// the space for dead letters.
    #[must_use]
    pub(crate) fn sent_by(self, token: &str) -> Self {
        Self { sender: token.to_owned(), ..self }
    }

    pub(super) fn sender(&self) -> &str {
        &self.sender
    }

    /// The headers that a field map names.
    pub(super) fn named_headers(&self, reader: &Reader) -> Headers {
        let named = self.headers.iter().filter(|(name, _)| reader.names_header(name));
        named.cloned().collect()
    }

    /// Ties `guard` to the records: it is dropped with them.
    #[must_use]
    pub fn guarded(self, guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Box::new(guard), ..self }
    }

    pub(super) fn preset(&self) -> Option<&'static Preset> {
        self.preset
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn get(&self, nth: usize) -> &[u8] {
        let Range { start, end } = self.ranges[nth];
        &self.body[start as usize..end as usize]
    }
}

/// The range of `part` in `body`, a slice of which it is.
fn range_in(body: &[u8], part: &[u8]) -> Result<Range<u32>, String> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    let range = u32::try_from(start).ok().zip(u32::try_from(start + part.len()).ok());
    range.map(|(start, end)| start..end).ok_or_else(|| "it is larger than 4 GiB".to_owned())
}

pub(super) fn too_many() -> String {
    format!("it holds more than {MAX_SAMPLES} samples; send them in parts")
}

fn lines(body: &[u8]) -> Result<Vec<Range<u32>>, String> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut ranges = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if ranges.len() == MAX_SAMPLES {
            return Err(too_many());
        }
        ranges.push(range_in(body, line)?);
    }
    Ok(ranges)
}

fn elements(body: &[u8]) -> Result<Vec<Range<u32>>, String> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let ranges = reader.deserialize_seq(Elements(body)).and_then(|ranges| {
        reader.end()?;
        Ok(ranges)
    });
    ranges.map_err(|error| format!("it is not a valid JSON array of samples: {error}"))
}

/// Reads an array as the ranges of its elements; at most [`MAX_SAMPLES`].
struct Elements<'a>(&'a [u8]);

impl<'de> Visitor<'de> for Elements<'de> {
    type Value = Vec<Range<u32>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut ranges = Vec::new();
        while let Some(element) = array.next_element::<&RawValue>()? {
            if ranges.len() == MAX_SAMPLES {
                return Err(A::Error::custom(too_many()));
            }
            let range = range_in(self.0, element.get().as_bytes());
            ranges.push(range.map_err(A::Error::custom)?);
        }
        Ok(ranges)
    }
}
