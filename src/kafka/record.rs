//! A record to samples, with its key.
//!
//! A record is one sample, or a JSON array of samples. Its key is the device id; each sample has to
//! agree with it.

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::message::Message;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::control::{Authority, CONTROL_HEADER};
use super::headers;
use super::unreadable::UnreadableBatch;
use crate::model::reason::DeadReason;
use crate::source::file::MAX_RECORD_BYTES;
use crate::source::{
    Array, Batch, Control, Cut, DecodedSample, Decoder, Entry, Headers, JsonTemplate,
    MAX_BAD_ELEMENTS, SampleError, Span, memory_of_headers, short, span,
};

/// Bytes kept of a record that is too long.
const HEAD_BYTES: usize = 1 << 10;

/// Bytes of a key that are looked at for a message, which shows fewer characters.
const SHOWN_BYTES: usize = 1 << 10;

/// Reads the records of a topic.
pub struct RecordReader {
    decoder: Decoder,
    layout: JsonTemplate,
    /// The key has to be the device id of the sample.
    key_is_device: bool,
    /// What is not of this device is passed over.
    only: Option<String>,
    /// Whose control records count; nobody's, where nobody says.
    authority: Authority,
}

/// What a record is.
pub enum RecordContent {
    /// Samples, which stand in the batch.
    Samples,
    /// A control record: the batch is as it was.
    Control(Control),
}

/// A record as it came.
#[derive(Debug, Default)]
pub struct Record<'a> {
    /// Where it stands.
    pub partition: i32,
    /// Its place in its partition.
    pub offset: i64,
    /// The log's own timestamp, ms since 1970; 0 where it has none.
    pub log_time_ms: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers.
    pub headers: Headers,
}

impl<'a> Record<'a> {
    /// A record of the client.
    #[must_use]
    pub fn from_message<M: Message>(message: &'a M) -> Self {
        Self { headers: headers::headers_of(message), ..Self::without_headers(message) }
    }

    /// A dead letter of the client.
    pub(super) fn of_letter<M: Message>(message: &'a M) -> Self {
        Self { headers: headers::of_letter(message), ..Self::without_headers(message) }
    }

    fn without_headers<M: Message>(message: &'a M) -> Self {
        Self {
            partition: message.partition(),
            offset: message.offset(),
            log_time_ms: message.timestamp().to_millis().unwrap_or(0),
            key: message.key(),
            value: message.payload(),
            headers: Headers::new(),
        }
    }

    /// The value of the first header of a name.
    pub(super) fn header(&self, name: &str) -> Option<&[u8]> {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_deref().unwrap_or_default())
    }

    /// Puts a control record into a batch of its own, with what would be its dead letter.
    pub(super) fn put_control(&self, control: Control, batch: &mut Batch) {
        batch.control = Some(control);
        batch.next_offset = Some(self.offset + 1);
        batch.keep_headers(self.offset, &self.headers);
        let fault = SampleError::new(DeadReason::NotAuthorised, "it was not carried out");
        EntryWriter::new(self, batch).fault(fault);
    }
}

impl RecordReader {
    /// A reader of records by these rules; with `key_is_device` a key has to be the device id.
    #[must_use]
    pub fn new(decoder: Decoder, key_is_device: bool) -> Self {
        let (layout, authority) = (JsonTemplate::default(), Authority::default());
        Self { decoder, layout, key_is_device, only: None, authority }
    }

    /// Takes control records that this authority allows; without it every one is a dead letter.
    #[must_use]
    pub fn allowing(mut self, authority: Authority) -> Self {
        self.authority = authority;
        self
    }

    /// Passes over what is not of this device, and what cannot be read.
    #[must_use]
    pub fn of_device(mut self, device_id: &str) -> Self {
        self.only = Some(device_id.to_owned());
        self
    }

    /// Reads a record. Its samples, and what could not be read of it, are put at the end of the
    /// batch.
    pub fn read(&mut self, record: &Record<'_>, batch: &mut Batch) -> RecordContent {
        let control = record.header(CONTROL_HEADER);
        let control = control.map(|kind| self.authority.read(record, kind));
        if let Some(Ok(control)) = control {
            return self.control(control, record, batch);
        }
        batch.next_offset = Some(record.offset + 1);
        let before = (batch.entries.len(), batch.text.len(), batch.raw.len());
        batch.keep_headers(record.offset, &record.headers);
        let mut out = EntryWriter::new(record, batch);
        if let Some(Err(fault)) = control {
            out.fault(fault);
        } else if record.key.is_none_or(<[u8]>::is_empty) {
            let message = "the record has no key; its producer has to key it by the device id";
            out.fault(SampleError::new(DeadReason::NoKey, message));
        } else {
            self.samples(record, &mut out);
        }
        if let Some(only) = &self.only {
            pass_over(batch, before, only, record.offset);
        }
        RecordContent::Samples
    }

    /// Puts one entry at the end of the batch, for all records of a batch that cannot be unpacked.
    pub(super) fn unreadable(&self, found: &UnreadableBatch, batch: &mut Batch) {
        batch.next_offset = Some(found.last + 1);
        if self.only.is_some() {
            return;
        }
        let message = match found.last - found.first {
            0 => format!("the record cannot be unpacked: {}", found.problem),
            _ => format!(
                "the records from offset {} to {} stand in a batch that cannot be unpacked: {}",
                found.first, found.last, found.problem
            ),
        };
        let record = Record { offset: found.last, ..Record::default() };
        EntryWriter::new(&record, batch).fault(SampleError::new(DeadReason::BadRecord, message));
    }

    fn control(&self, control: Control, record: &Record<'_>, batch: &mut Batch) -> RecordContent {
        let Control::Forget { device_id, .. } = &control;
        if self.only.as_ref().is_some_and(|only| only != device_id) {
            batch.next_offset = Some(record.offset + 1);
            return RecordContent::Samples;
        }
        RecordContent::Control(control)
    }

    fn samples(&mut self, record: &Record<'_>, out: &mut EntryWriter<'_>) {
        let Some(value) = record.value else {
            return out.fault(SampleError::new(DeadReason::BadJson, "the record has no value"));
        };
        if value.len() > MAX_RECORD_BYTES {
            return out.oversize(value);
        }
        if value.trim_ascii_start().first() != Some(&b'[') {
            let content = self.sample(record, value, &mut out.batch.text);
            return out.push(None, value, content);
        }
        if let Err(fault) = self.elements(record, value, out) {
            out.fault(fault);
        }
    }

    /// Reads an array, element by element: a list of all of them may take many times what the
    /// record does. Where it cannot be split, it leaves nothing behind.
    fn elements(
        &mut self,
        record: &Record<'_>,
        value: &[u8],
        out: &mut EntryWriter<'_>,
    ) -> Result<(), SampleError> {
        let text = std::str::from_utf8(value).map_err(|error| {
            let message = format!("byte {} of the record is not UTF-8", error.valid_up_to());
            SampleError::new(DeadReason::BadUtf8, message)
        })?;
        let before = (out.batch.entries.len(), out.batch.text.len(), out.batch.raw.len());
        let whole = out.keep(value);
        let (mut nth, mut bad, mut more) = (0, 0, BTreeMap::new());
        let split = each_element(text, |element| {
            let content = self.sample(record, element.as_bytes(), &mut out.batch.text);
            if let Err(fault) = &content {
                bad += 1;
                if bad > MAX_BAD_ELEMENTS + 1 {
                    *more.entry(fault.reason).or_default() += 1;
                    nth += 1;
                    return;
                }
            }
            let at = whole.start as usize + element.as_ptr().addr() - text.as_ptr().addr();
            out.enter(Some(nth), span(at, at + element.len()), content);
            nth += 1;
        });
        if let Err(error) = split {
            out.batch.entries.truncate(before.0);
            out.batch.text.truncate(before.1);
            out.batch.raw.truncate(before.2);
            let message = format!("the array cannot be split: {error}");
            return Err(SampleError::new(DeadReason::BadJson, message));
        }
        out.batch.arrays.insert(record.offset, Array { value: whole, more });
        Ok(())
    }

    fn sample(
        &mut self,
        record: &Record<'_>,
        value: &[u8],
        text: &mut String,
    ) -> Result<DecodedSample, Box<SampleError>> {
        let before = text.len();
        let decoded = self.decoder.json_like(&mut self.layout, value, text)?;
        let device = &text[decoded.device.start as usize..decoded.device.end as usize];
        if self.key_is_device && record.key != Some(device.as_bytes()) {
            let key = record.key.unwrap_or_default();
            let head = String::from_utf8_lossy(&key[..key.len().min(SHOWN_BYTES)]);
            let message = format!(
                "the key is {}, the device {}: a device's records have to share a partition; \
                 --key any says that the producer keys by another id that is as stable",
                short(&head),
                short(device)
            );
            text.truncate(before);
            return Err(Box::new(SampleError::new(DeadReason::KeyMismatch, message)));
        }
        Ok(decoded)
    }
}

/// Takes out of a batch what stands in it from a place on and is not of a device.
fn pass_over(
    batch: &mut Batch,
    (entries, text, raw): (usize, usize, usize),
    only: &str,
    offset: i64,
) {
    let mut at = 0;
    let texts = &batch.text;
    let is_of = |entry: &Entry| match &entry.content {
        Ok(decoded) => texts[decoded.device.start as usize..decoded.device.end as usize] == *only,
        Err(_) => false,
    };
    batch.entries.retain(|entry| {
        at += 1;
        at <= entries || is_of(entry)
    });
    // Its bad elements are nobody's here.
    batch.arrays.remove(&offset);
    if batch.entries.len() == entries {
        if let Some(headers) = batch.headers.remove(&offset) {
            batch.header_bytes -= memory_of_headers(&headers);
        }
        batch.text.truncate(text);
        batch.raw.truncate(raw);
    }
}

/// Gives the elements of an array, as they were written, one after the other.
fn each_element<'de>(text: &'de str, take: impl FnMut(&'de str)) -> serde_json::Result<()> {
    struct Elements<F>(F);
    impl<'de, F: FnMut(&'de str)> Visitor<'de> for Elements<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element::<&'de RawValue>()? {
                (self.0)(element.get());
            }
            Ok(())
        }
    }
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_seq(Elements(take))?;
    json.end()
}

fn kept(batch: &mut Batch, bytes: &[u8]) -> Span {
    let start = batch.raw.len();
    batch.raw.extend_from_slice(bytes);
    span(start, batch.raw.len())
}

/// Where the entries of a record go.
struct EntryWriter<'a> {
    batch: &'a mut Batch,
    offset: i64,
    log_time_ms: i64,
    key: Option<Span>,
    value: &'a [u8],
}

impl<'a> EntryWriter<'a> {
    fn new(record: &Record<'a>, batch: &'a mut Batch) -> Self {
        let key = record.key.map(|key| kept(batch, key));
        let (offset, log_time_ms) = (record.offset, record.log_time_ms);
        Self { batch, offset, log_time_ms, key, value: record.value.unwrap_or_default() }
    }

    fn keep(&mut self, bytes: &[u8]) -> Span {
        kept(self.batch, bytes)
    }

    fn push(
        &mut self,
        element: Option<u32>,
        value: &[u8],
        content: Result<DecodedSample, Box<SampleError>>,
    ) {
        let raw = self.keep(value);
        self.enter(element, raw, content);
    }

    /// Enters what stands in the batch already.
    fn enter(
        &mut self,
        element: Option<u32>,
        raw: Span,
        content: Result<DecodedSample, Box<SampleError>>,
    ) {
        let (offset, log_time_ms, key) = (self.offset, self.log_time_ms, self.key.clone());
        let (line, again) = (0, false);
        let entry = Entry { offset, element, line, log_time_ms, again, raw, key, content };
        self.batch.entries.push(entry);
    }

    /// The record as a whole is of no use.
    fn fault(&mut self, fault: SampleError) {
        if self.value.len() > MAX_RECORD_BYTES {
            return self.oversize(self.value);
        }
        self.push(None, self.value, Err(Box::new(fault)));
    }

    fn oversize(&mut self, value: &[u8]) {
        let message =
            format!("the record has {} bytes; the limit is {MAX_RECORD_BYTES}", value.len());
        let mut fault = SampleError::new(DeadReason::Oversize, message);
        fault.cut = Some(Cut { bytes: value.len() as u64, sha256: Sha256::digest(value).into() });
        self.push(None, &value[..HEAD_BYTES], Err(Box::new(fault)));
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
