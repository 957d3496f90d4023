//! Splits records into samples, and adds them to a batch.
//!
//! A record is one sample, a JSON array of records, or contains samples at the paths of the map. It
//! is split element by element: a list of all elements may take many times the memory of the
//! record.

mod one_pass;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::context::RecordContext;
use super::decode::{Decoder, Outer};
use super::fields::Node;
use super::json;
use super::record::Fields;
use super::shape::Shape;
use super::text::{clipped, short};
use super::{
    Array, Batch, DecodedSample, Entry, MAX_BAD_ELEMENTS, NoSample, SampleError, Span, span,
};
use crate::model::reason::DeadReason;
use crate::model::scalar::{LogTime, Offset};

/// Where a record is in its log, for its entries.
#[derive(Clone, Debug, Default)]
pub struct RecordPosition {
    /// Offset of the record in the log.
    pub offset: Offset,
    /// Line of the file, from 1; 0 if the source has no lines.
    pub line: u64,
    /// Log timestamp of the record, ms since 1970.
    pub log_time_ms: LogTime,
    /// Whether the record is redelivered, with its original offset.
    pub again: bool,
    /// Key of the record in [`Batch::raw`], if the log has keys.
    pub key: Option<Span>,
}

impl RecordPosition {
    /// Adds an entry whose raw bytes are already in the batch.
    #[inline]
    pub fn push(
        &self,
        batch: &mut Batch,
        (element, raw): (Option<u32>, Span),
        content: Result<DecodedSample, NoSample>,
    ) {
        let Self { offset, line, log_time_ms, again, .. } = *self;
        let key = self.key.clone();
        batch.entries.push(Entry { offset, element, line, log_time_ms, again, raw, key, content });
    }

    /// Adds the entry of a record that is one sample.
    pub(crate) fn push_record(
        &self,
        batch: &mut Batch,
        record: &[u8],
        content: Result<DecodedSample, NoSample>,
    ) {
        let raw = batch.push_raw(record);
        self.push(batch, (None, raw), content);
    }
}

/// Checks the device id of a sample; an error replaces the sample.
pub(crate) type CheckDevice<'a> = &'a dyn Fn(&str) -> Result<(), SampleError>;

/// A record to split.
pub struct RawJson<'a> {
    /// Its bytes.
    pub value: &'a [u8],
    /// What surrounds it.
    pub context: RecordContext<'a>,
    /// Its header [`super::SCHEMA_ID_HEADER`].
    pub schema_id: Option<&'a [u8]>,
    /// Checks the device id of each sample.
    pub check: CheckDevice<'a>,
}

/// A record has more samples than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManySamples;

impl Decoder {
    /// Decodes a record of JSON, and adds its samples and errors to a batch: one entry, or one for
    /// each sample of a record with several. Adjacent samples that are not read share an entry.
    pub fn split(&self, record: &RawJson<'_>, position: &RecordPosition, batch: &mut Batch) {
        let split = self.split_at_most(u32::MAX, record, position, batch);
        debug_assert!(split.is_ok(), "a record in memory has fewer samples");
    }

    /// [`Decoder::split`] for a record of at most `max` samples: what follows them is not decoded.
    /// Returns their number.
    ///
    /// # Errors
    /// The record has more; the batch has a part of them.
    pub(crate) fn split_at_most(
        &self,
        max: u32,
        record: &RawJson<'_>,
        position: &RecordPosition,
        batch: &mut Batch,
    ) -> Result<u32, TooManySamples> {
        let value = record.value;
        let is_list = value.trim_ascii_start().first() == Some(&b'[') && self.is_text(value);
        if !is_list && self.shape.outer.is_empty() {
            let text = &mut batch.text;
            let before = text.len();
            let mut content = self.decode((record.schema_id, value), &record.context, text);
            check_device(&mut content, record.check, (text, before));
            position.push_record(batch, value, content);
            return if max == 0 { Err(TooManySamples) } else { Ok(1) };
        }
        let before = (batch.entries.len(), batch.text.len(), batch.raw.len());
        let split = self.text(record.schema_id, value).and_then(|text| {
            let whole = batch.push_raw(value);
            let mut splitter = Splitter {
                decoder: self,
                input: record,
                position,
                batch: &mut *batch,
                // Samples of a record that is not text are copied.
                text: if self.is_text(value) { &text } else { "" },
                whole: whole.clone(),
                max,
                is_over: false,
                empty: 0,
                count: 0,
                bad: 0,
                more: BTreeMap::new(),
            };
            let split = match is_list {
                true => splitter.list(&text),
                false => {
                    splitter.record(&text);
                    Ok(())
                }
            };
            // The rest of the text was not read, valid or not.
            if splitter.is_over {
                return Ok(None);
            }
            split.map(|()| Some((whole, splitter.more, splitter.count)))
        });
        match split {
            Ok(None) => Err(TooManySamples),
            Ok(Some((value, more, count))) => {
                let is_needed = self.needs_whole_records();
                batch.arrays.insert(position.offset, Array { value, more, is_needed });
                if batch.entries.len() == before.0 {
                    batch.next_offset = Some(position.offset + 1);
                }
                Ok(count)
            }
            Err(error) => {
                batch.entries.truncate(before.0);
                batch.text.truncate(before.1);
                batch.raw.truncate(before.2);
                position.push_record(batch, value, Err(error.into()));
                Ok(1)
            }
        }
    }
}

/// Replaces a sample whose device id fails the check by the error; the text is then as before.
fn check_device(
    content: &mut Result<DecodedSample, NoSample>,
    check: CheckDevice<'_>,
    (text, before): (&mut String, usize),
) {
    let Ok(decoded) = content else { return };
    let device = &text[decoded.device.start as usize..decoded.device.end as usize];
    if let Err(error) = check(device) {
        text.truncate(before);
        *content = Err(Box::new(error).into());
    }
}

/// Splits one record.
struct Splitter<'a, 'r> {
    decoder: &'a Decoder,
    input: &'a RawJson<'r>,
    position: &'a RecordPosition,
    batch: &'a mut Batch,
    /// The record, if it is text.
    text: &'a str,
    /// The record in [`Batch::raw`].
    whole: Span,
    /// Maximum number of samples.
    max: u32,
    /// Whether there is one more; it ends the splitting.
    is_over: bool,
    /// Elements of arrays without a sample.
    empty: u32,
    /// Number of samples so far, with those that are not usable.
    count: u32,
    bad: usize,
    /// Bad samples without an entry.
    more: BTreeMap<DeadReason, u64>,
}

impl Splitter<'_, '_> {
    /// Splits an array of records.
    fn list(&mut self, text: &str) -> Result<(), Box<SampleError>> {
        if self.decoder.shape.outer.is_empty()
            && self.in_one_pass(text, |splitter, json| splitter.elements(text, json))
        {
            return Ok(());
        }
        let split = visit_elements(text, |element| {
            self.visit(|splitter| splitter.record(element));
            !self.is_over
        });
        split.map_err(|error| {
            let message = format!("the array cannot be split: {}", clipped(&error.to_string()));
            Box::new(SampleError::new(DeadReason::BadJson, message))
        })
    }

    /// Splits a record: the first path of samples that it has counts.
    fn record(&mut self, text: &str) {
        let shape = &self.decoder.shape;
        let Some(samples) = &shape.map.samples else { return self.sample(text, None) };
        if samples.or_record
            && self.in_one_pass(text, |splitter, json| splitter.lone_sample(text, json))
        {
            return;
        }
        if let Some([names]) = shape.outer.first().map(|path| &path[..])
            && self.in_one_pass(text, |splitter, json| {
                splitter.lone_array((text, json), names, &samples.list[0][0])
            })
        {
            return;
        }
        let (mut missing, mut is_absent) = (None, true);
        for path in &shape.outer {
            let Err((error, is_other)) = self.descend(path, text, None) else { return };
            if missing.is_none() || (is_absent && is_other) {
                missing = Some(error);
            }
            is_absent &= !is_other;
        }
        match missing {
            Some(error) if !(samples.or_record && is_absent) => self.emit(text, Err(error)),
            _ => self.sample(text, None),
        }
    }

    /// Splits an object at a level of a path. If the array is not there, returns what the object
    /// is then, and whether there is another value.
    fn descend(
        &mut self,
        path: &[Node],
        text: &str,
        outer: Option<&Outer<'_>>,
    ) -> Result<(), (NoSample, bool)> {
        let Some((names, path)) = path.split_first() else {
            self.sample(text, outer);
            return Ok(());
        };
        let (decoder, context) = (self.decoder, &self.input.context);
        let mut fields = Fields::default();
        let read = json::read(text.as_bytes(), (&decoder.shape, names), &mut fields);
        if let Err(error) = read.and_then(|()| fields.check_repeated()) {
            self.emit(text, Err(error.into()));
            return Ok(());
        }
        match fields.array.take() {
            Some(array) if array.starts_with('[') => {
                let outer = Outer { fields: &fields, next: outer };
                let split = visit_elements(&array, |element| {
                    self.visit(|splitter| {
                        if let Err((error, _)) = splitter.descend(path, element, Some(&outer)) {
                            splitter.emit(element, Err(error));
                        }
                    });
                    !self.is_over
                });
                // It was parsed before, as a part of its record.
                if let Err(error) = split {
                    let error = SampleError::new(DeadReason::BadJson, clipped(&error.to_string()));
                    self.emit(text, Err(Box::new(error).into()));
                }
                Ok(())
            }
            other => {
                let skipped = decoder.check_conditions(&mut fields, outer, context).err();
                let skipped = skipped.filter(|it| !matches!(it, NoSample::Dead(_)));
                let error = || Box::new(no_array(&decoder.shape, other.is_some())).into();
                Err((skipped.unwrap_or_else(error), other.is_some()))
            }
        }
    }

    fn sample(&mut self, text: &str, outer: Option<&Outer<'_>>) {
        // Decoding takes most of the time.
        if self.is_full() {
            return;
        }
        let shape = &self.decoder.shape;
        let mut fields = Fields::default();
        let read = json::read(text.as_bytes(), (shape, &shape.root), &mut fields);
        self.finish(text, read.map(|()| &mut fields), outer);
    }

    /// Adds the sample of collected values, or why there is none.
    fn finish<'a>(
        &mut self,
        text: &str,
        read: Result<&mut Fields<'a>, Box<SampleError>>,
        outer: Option<&'a Outer<'a>>,
    ) where
        Self: 'a,
    {
        let (context, out) = (&self.input.context, &mut self.batch.text);
        let before = out.len();
        let decoded = read.map_err(NoSample::from);
        let mut content = decoded.and_then(|it| self.decoder.complete(it, outer, context, out));
        check_device(&mut content, self.input.check, (out, before));
        self.emit(text, content);
    }

    /// Splits an element of an array. One without samples counts as well: it takes time.
    fn visit(&mut self, split: impl FnOnce(&mut Self)) {
        let before = self.count;
        if !self.is_full() {
            split(self);
            self.empty += u32::from(self.count == before);
        }
    }

    /// Whether there is no place for one more sample, which there is.
    fn is_full(&mut self) -> bool {
        self.is_over |= self.count.saturating_add(self.empty) >= self.max;
        self.is_over
    }

    /// Adds a sample, or counts it.
    fn emit(&mut self, text: &str, content: Result<DecodedSample, NoSample>) {
        if self.is_full() {
            return;
        }
        let element = self.count;
        self.count += 1;
        match &content {
            Ok(_) => {}
            Err(NoSample::Dead(error)) => {
                self.bad += 1;
                if self.bad > MAX_BAD_ELEMENTS + 1 {
                    *self.more.entry(error.reason).or_default() += 1;
                    return;
                }
            }
            // The last entry counts it, too, if that is of this record.
            Err(passed) => {
                if element > 0
                    && let Some(last) = self.batch.entries.last_mut()
                    && let Err(before) = &mut last.content
                    && before.add(passed)
                {
                    return;
                }
            }
        }
        let raw = self.raw(text);
        self.position.push(self.batch, (Some(element), raw), content);
    }

    /// The bytes of an element in the batch. An element of JSON inside a text is copied.
    fn raw(&mut self, element: &str) -> Span {
        let start = element.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let is_part = start <= self.text.len() && element.len() <= self.text.len() - start;
        if !is_part {
            return self.batch.push_raw(element.as_bytes());
        }
        let start = self.whole.start as usize + start;
        span(start, start + element.len())
    }
}

/// The error of a record without the array of its samples.
fn no_array(shape: &Shape, is_other: bool) -> SampleError {
    let samples = shape.map.samples.as_ref().map_or("", |samples| &samples.text);
    let samples = short(samples);
    match is_other {
        true => {
            let message = format!("the samples at {samples} are not an array");
            SampleError::new(DeadReason::BadType, message)
        }
        false => {
            let message = format!("there is no {samples}, the array of the samples");
            SampleError::new(DeadReason::MissingField, message)
        }
    }
}

/// Calls `visit` with the raw text of each element of an array, while it returns true; false is an
/// error.
fn visit_elements<'de>(
    text: &'de str,
    visit: impl FnMut(&'de str) -> bool,
) -> serde_json::Result<()> {
    struct Elements<F>(F);
    impl<'de, F: FnMut(&'de str) -> bool> Visitor<'de> for Elements<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element::<&'de RawValue>()? {
                if !(self.0)(element.get()) {
                    return Err(A::Error::custom("it has too many elements"));
                }
            }
            Ok(())
        }
    }
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_seq(Elements(visit))?;
    json.end()
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
