//! Decodes a record into samples, and checks its key.
//!
//! A record is one sample, or a JSON array of samples. Its key is the device id, which each sample
//! has to match.

use std::sync::Arc;

use rdkafka_extra::QueuedMessage;

use super::control::{Authority, CONTROL_HEADER};
use super::headers::{MAX_HEADERS, read_headers};
use super::unreadable::UnreadableBatch;
use crate::identity::DeviceId;
use crate::model::reason::DeadReason;
use crate::model::scalar::{LogTime, Offset};
use crate::model::schema::{SchemaId, SchemaVerdict};
use crate::source::file::MAX_RECORD_BYTES;
use crate::source::{
    Batch, Control, Cut, Decoder, Entry, Headers, NoSample, RawJson, RecordContext, RecordPosition,
    SCHEMA_ID_HEADER, SampleError, memory_of_headers, short,
};

/// Length to which an oversize record is cut, bytes.
pub(super) const HEAD_BYTES: usize = 1 << 10;

/// Length of a key that is decoded for a message, bytes; the message shows fewer characters.
const MAX_SHOWN_BYTES: usize = 1 << 10;

/// Reads the records of a topic.
pub struct RecordReader {
    decoder: Arc<Decoder>,
    /// The key has to be the device id of the sample.
    key_is_device: bool,
    /// If set, other devices are skipped.
    only_device: Option<DeviceId>,
    /// Keys and limits for control records; the default accepts none.
    authority: Authority,
}

/// A record of the log.
#[derive(Debug, Default)]
pub struct Record<'a> {
    /// Partition number, from 0.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: Offset,
    /// Log timestamp, ms since 1970; 0 if there is none.
    pub log_time_ms: LogTime,
    /// Key; `None` if the record has none. An empty key is a key.
    pub key: Option<&'a [u8]>,
    /// Value; `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers in the order of the record; a name may repeat.
    pub headers: Headers,
    /// Set if `value` is only the head of a value over the size limit.
    pub oversize: Option<Cut>,
}

impl<'a> Record<'a> {
    /// Converts a record of the client.
    pub(super) fn from_message(message: &QueuedMessage<'a>) -> Self {
        Self {
            partition: message.partition(),
            offset: Offset(message.offset()),
            log_time_ms: LogTime(message.timestamp_ms().unwrap_or(0)),
            key: message.key(),
            value: message.value(),
            headers: read_headers(message, MAX_HEADERS),
            oversize: None,
        }
    }

    /// Value of the first header with a name.
    pub(super) fn header(&self, name: &str) -> Option<&[u8]> {
        let header = self.headers.iter().find(|(header, _)| header == name);
        header.map(|(_, value)| value.as_deref().unwrap_or_default())
    }

    /// Puts a control record into a batch of its own, with the dead letter that it becomes if it
    /// fails.
    pub(super) fn put_control(&self, control: Control, batch: &mut Batch) {
        batch.control = Some(control);
        batch.next_offset = Some(self.offset + 1);
        batch.keep_headers(self.offset, &self.headers);
        let error = SampleError::new(DeadReason::NotAuthorised, "it was not carried out");
        EntryWriter::new(self, batch).push_error(error);
    }
}

impl RecordReader {
    /// Creates a reader; with `key_is_device` the key of a record has to be its device id.
    #[must_use]
    pub fn new(decoder: Decoder, key_is_device: bool) -> Self {
        let authority = Authority::default();
        Self { decoder: Arc::new(decoder), key_is_device, only_device: None, authority }
    }

    /// A reader of the same records, which learns the same schemas.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            decoder: Arc::clone(&self.decoder),
            key_is_device: self.key_is_device,
            only_device: self.only_device.clone(),
            authority: self.authority.clone(),
        }
    }

    /// Whether records name their schemas by the ids of a registry.
    #[must_use]
    pub(crate) fn needs_ids(&self) -> bool {
        self.decoder.needs_ids()
    }

    /// Adds what decides the records of an id; see [`Decoder::add_schema`].
    pub fn add_schema(&self, id: SchemaId, verdict: &SchemaVerdict) {
        self.decoder.add_schema(id, verdict);
    }

    /// The decoder, which all readers of the same records share.
    #[must_use]
    pub fn decoder(&self) -> Arc<Decoder> {
        Arc::clone(&self.decoder)
    }

    /// Reads the records of a batch again whose schemas were not known. Of those whose schemas are
    /// still unknown, the entries are dead letters.
    pub fn read_again(&mut self, batch: &mut Batch, partition: i32) {
        for entry in std::mem::take(&mut batch.entries) {
            if entry.needs_schema().is_none() {
                batch.entries.push(entry);
                continue;
            }
            let value = batch.raw(&entry).to_vec();
            let key = batch.key(&entry).map(<[u8]>::to_vec);
            let record = Record {
                partition,
                offset: entry.offset,
                log_time_ms: entry.log_time_ms,
                key: key.as_deref(),
                value: Some(&value),
                headers: batch.take_headers(entry.offset),
                oversize: None,
            };
            self.read_value(&record, None, batch);
        }
    }

    /// Accepts control records that satisfy `authority`; without it every one becomes a dead
    /// letter.
    #[must_use]
    pub fn allowing(mut self, authority: Authority) -> Self {
        self.authority = authority;
        self
    }

    /// Skips records of other devices, and those that cannot be decoded.
    #[must_use]
    pub fn of_device(mut self, device_id: DeviceId) -> Self {
        self.only_device = Some(device_id);
        self
    }

    /// Decodes a record of the topic that is the origin of the batch. Its samples and errors are
    /// appended to the batch; a control record is returned, and nothing of it is appended.
    pub fn read(&mut self, record: &Record<'_>, batch: &mut Batch) -> Option<Control> {
        let control = record.header(CONTROL_HEADER);
        let control = control.map(|kind| self.authority.read(record, kind));
        if let Some(Ok(control)) = control {
            return self.control(control, record, batch);
        }
        batch.next_offset = Some(record.offset + 1);
        self.read_value(record, control.and_then(Result::err), batch);
        None
    }

    /// Adds the samples of a record, or the dead letter of a control record that is not valid.
    fn read_value(
        &mut self,
        record: &Record<'_>,
        control_error: Option<SampleError>,
        batch: &mut Batch,
    ) {
        let before = (batch.entries.len(), batch.text.len(), batch.raw.len());
        batch.keep_headers(record.offset, &record.headers);
        let mut out = EntryWriter::new(record, batch);
        if let Some(error) = control_error {
            out.push_error(error);
        } else if record.key.is_none_or(<[u8]>::is_empty) {
            let message = "the record has no key; its producer has to use the device id as the key";
            out.push_error(SampleError::new(DeadReason::NoKey, message));
        } else {
            let origin = out.batch.origin.clone();
            let (key, headers) = (record.key, &record.headers[..]);
            let context =
                RecordContext { key, headers, topic: Some(&origin), ..RecordContext::default() };
            self.samples(record, (context, self.key_is_device), &mut out);
        }
        if let Some(only_device) = &self.only_device {
            retain_device(batch, before, only_device, record.offset);
        }
    }

    /// Appends one entry for all records of a batch that cannot be unpacked.
    pub(super) fn push_unreadable(&self, unreadable: &UnreadableBatch, batch: &mut Batch) {
        batch.next_offset = Some(Offset(unreadable.last + 1));
        if self.only_device.is_some() {
            return;
        }
        let message = match unreadable.last - unreadable.first {
            0 => format!("the record cannot be unpacked: {}", unreadable.problem),
            _ => format!(
                "the records from offset {} to {} are in a batch that cannot be unpacked: {}",
                unreadable.first, unreadable.last, unreadable.problem
            ),
        };
        let record = Record { offset: Offset(unreadable.last), ..Record::default() };
        EntryWriter::new(&record, batch)
            .push_error(SampleError::new(DeadReason::BadRecord, message));
    }

    fn control(&self, control: Control, record: &Record<'_>, batch: &mut Batch) -> Option<Control> {
        let Control::Forget { device_id, .. } = &control;
        if self.only_device.as_ref().is_some_and(|only_device| only_device != device_id) {
            batch.next_offset = Some(record.offset + 1);
            return None;
        }
        Some(control)
    }

    /// Decodes a record in another context, without a check of its key.
    pub(crate) fn read_in(
        &mut self,
        record: &Record<'_>,
        context: RecordContext<'_>,
        batch: &mut Batch,
    ) {
        self.samples(record, (context, false), &mut EntryWriter::new(record, batch));
    }

    fn samples(
        &mut self,
        record: &Record<'_>,
        (context, key_is_device): (RecordContext<'_>, bool),
        out: &mut EntryWriter<'_>,
    ) {
        let Some(value) = record.value else {
            let is_binary = self.decoder.is_binary();
            let reason = if is_binary { DeadReason::BadRecord } else { DeadReason::BadJson };
            return out.push_error(SampleError::new(reason, "the record has no value"));
        };
        if out.is_oversize() {
            return out.push_oversize();
        }
        let check = &|device: &str| match key_is_device && record.key != Some(device.as_bytes()) {
            true => Err(key_mismatch(record.key.unwrap_or_default(), device)),
            false => Ok(()),
        };
        let schema_id = record.header(SCHEMA_ID_HEADER);
        let json = RawJson { value, context, schema_id, check };
        let before = (out.batch.entries.len(), out.batch.text.len(), out.batch.raw.len());
        self.decoder.split(&json, &out.position, out.batch);
        let position = (record.partition, record.offset);
        if let Some(error) = self.decoder.was_unknown((schema_id, value), position) {
            out.batch.entries.truncate(before.0);
            out.batch.text.truncate(before.1);
            out.batch.raw.truncate(before.2);
            out.push_error(error);
        }
    }
}

fn key_mismatch(key: &[u8], device: &str) -> SampleError {
    let head = String::from_utf8_lossy(&key[..key.len().min(MAX_SHOWN_BYTES)]);
    let message = format!(
        "the key is {}, the device {}: a device's records have to share a partition; --key any \
         says that the producer keys by another id that is as stable",
        short(&head),
        short(device)
    );
    SampleError::new(DeadReason::KeyMismatch, message)
}

/// Removes the entries after `entries` that are not of a device.
fn retain_device(
    batch: &mut Batch,
    (entries, text, raw): (usize, usize, usize),
    only_device: &str,
    offset: Offset,
) {
    let mut index = 0;
    let texts = &batch.text;
    let is_of_device = |entry: &Entry| match &entry.content {
        Ok(decoded) => {
            texts[decoded.device.start as usize..decoded.device.end as usize] == *only_device
        }
        // Its device is not known yet.
        Err(none) => none.error().is_some_and(|error| error.needs_schema.is_some()),
    };
    batch.entries.retain(|entry| {
        index += 1;
        index <= entries || is_of_device(entry)
    });
    // Its bad elements have no device.
    batch.arrays.remove(&offset);
    if batch.entries.len() == entries {
        if let Some(headers) = batch.headers.remove(&offset) {
            batch.header_bytes -= memory_of_headers(&headers);
        }
        batch.text.truncate(text);
        batch.raw.truncate(raw);
    }
}

/// Adds the entries of a record to a batch.
struct EntryWriter<'a> {
    batch: &'a mut Batch,
    position: RecordPosition,
    value: &'a [u8],
    /// Of a value of which only the head is here.
    oversize: Option<Cut>,
}

impl<'a> EntryWriter<'a> {
    fn new(record: &Record<'a>, batch: &'a mut Batch) -> Self {
        let key = record.key.map(|key| batch.push_raw(key));
        let (offset, log_time_ms) = (record.offset, record.log_time_ms);
        let position = RecordPosition { offset, line: 0, log_time_ms, again: false, key };
        let (value, oversize) = (record.value.unwrap_or_default(), record.oversize.clone());
        Self { batch, position, value, oversize }
    }

    fn is_oversize(&self) -> bool {
        self.oversize.is_some() || self.value.len() > MAX_RECORD_BYTES
    }

    /// Adds an entry for a record that cannot be decoded.
    fn push_error(&mut self, error: SampleError) {
        if self.is_oversize() {
            return self.push_oversize();
        }
        let content = Err(NoSample::Dead(Box::new(error)));
        self.position.push_record(self.batch, self.value, content);
    }

    fn push_oversize(&mut self) {
        let cut = self.oversize.take().unwrap_or_else(|| Cut::new(self.value));
        let message =
            format!("the record has {} bytes; the limit is {MAX_RECORD_BYTES}", cut.bytes);
        let mut error = SampleError::new(DeadReason::Oversize, message);
        error.cut = Some(cut);
        let content = Err(NoSample::Dead(Box::new(error)));
        self.position.push_record(self.batch, &self.value[..HEAD_BYTES], content);
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
