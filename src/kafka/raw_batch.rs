//! Records of a partition as they were polled. The polling thread fills a batch, and the worker of
//! the partition decodes it.

use std::sync::Arc;

use super::record::{HEAD_BYTES, Record, RecordReader};
use super::unreadable::UnreadableBatch;
use crate::model::scalar::{LogTime, Offset};
use crate::source::file::MAX_RECORD_BYTES;
use crate::source::{Batch, Cut, Headers, Span, memory_of_headers, span};

/// Maximum number of entries of a decoded batch, unless one record has more.
const MAX_BATCH_ENTRIES: usize = 4096;

/// Size up to which a decoded batch may always grow, bytes.
const MIN_BATCH_BYTES: usize = 16 << 10;

/// Records in offset order, not decoded yet.
#[derive(Debug, Default)]
pub struct RawBatch {
    /// Partition number, from 0.
    partition: i32,
    /// Keys and values; the spans of the records point into it.
    bytes: Vec<u8>,
    records: Vec<RawRecord>,
    /// Memory used by headers, bytes.
    header_bytes: usize,
    /// Number of records that are decoded.
    decoded: usize,
}

/// A record, or a batch of them that the client cannot unpack.
#[derive(Debug)]
struct RawRecord {
    offset: Offset,
    log_time_ms: LogTime,
    key: Option<Span>,
    value: Option<Span>,
    headers: Headers,
    /// What is rarely there.
    special: Option<Box<Special>>,
}

#[derive(Debug)]
enum Special {
    /// The value is the head of a longer one.
    Oversize(Cut),
    /// The records up to the offset cannot be unpacked.
    Unreadable(UnreadableBatch),
}

impl RawBatch {
    /// An empty batch of a partition.
    #[must_use]
    pub fn of_partition(partition: i32) -> Self {
        Self { partition, ..Self::default() }
    }

    /// Adds a record. Of a value over the size limit it keeps head, length and hash.
    pub(super) fn push(&mut self, record: Record<'_>) {
        let key = record.key.map(|key| self.push_bytes(key));
        let mut special = None;
        let value = record.value.map(|value| {
            let is_oversize = value.len() > MAX_RECORD_BYTES;
            special = is_oversize.then(|| Box::new(Special::Oversize(Cut::new(value))));
            self.push_bytes(if is_oversize { &value[..HEAD_BYTES] } else { value })
        });
        let Record { offset, log_time_ms, headers, .. } = record;
        if !headers.is_empty() {
            self.header_bytes += memory_of_headers(&headers);
        }
        self.records.push(RawRecord { offset, log_time_ms, key, value, headers, special });
    }

    /// Adds records that the client cannot unpack.
    pub(super) fn push_unreadable(&mut self, batch: UnreadableBatch) {
        self.records.push(RawRecord {
            offset: Offset(batch.last),
            log_time_ms: LogTime(0),
            key: None,
            value: None,
            headers: Headers::new(),
            special: Some(Box::new(Special::Unreadable(batch))),
        });
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Approximate memory, bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + self.header_bytes + self.records.len() * size_of::<RawRecord>()
    }

    /// Offset after the last record; `None` without records.
    #[must_use]
    pub fn next_offset(&self) -> Option<Offset> {
        self.records.last().map(|record| record.offset + 1)
    }

    /// Takes what there is, and leaves room for as much.
    pub(super) fn finish(&mut self) -> Self {
        let next = Self {
            partition: self.partition,
            bytes: Vec::with_capacity(self.bytes.len()),
            records: Vec::with_capacity(self.records.len()),
            ..Self::default()
        };
        std::mem::replace(self, next)
    }

    /// Decodes the next records into a batch, which gets about as large as this one; `None` once
    /// all are decoded. A control record gets a batch of its own.
    pub fn decode(&mut self, reader: &mut RecordReader, topic: &Arc<str>) -> Option<Batch> {
        let max_bytes = self.memory().max(MIN_BATCH_BYTES);
        let mut batch = Batch { origin: Arc::clone(topic), ..Batch::default() };
        batch.raw.reserve(self.bytes.len());
        batch.entries.reserve(self.records.len() - self.decoded);
        while let Some(raw) = self.records.get(self.decoded) {
            if let Some(Special::Unreadable(unreadable)) = raw.special.as_deref() {
                reader.push_unreadable(unreadable, &mut batch);
            } else {
                let record = self.record(raw);
                if let Some(control) = reader.read(&record, &mut batch) {
                    if batch.next_offset.is_none() {
                        record.put_control(control, &mut batch);
                        self.decoded += 1;
                    }
                    break;
                }
            }
            self.decoded += 1;
            if batch.entries.len() >= MAX_BATCH_ENTRIES || batch.memory() >= max_bytes {
                break;
            }
        }
        batch.next_offset.is_some().then_some(batch)
    }

    fn record<'a>(&'a self, raw: &RawRecord) -> Record<'a> {
        let bytes = |span: &Span| &self.bytes[span.start as usize..span.end as usize];
        let oversize = match raw.special.as_deref() {
            Some(Special::Oversize(cut)) => Some(cut.clone()),
            Some(Special::Unreadable(_)) | None => None,
        };
        Record {
            partition: self.partition,
            offset: raw.offset,
            log_time_ms: raw.log_time_ms,
            key: raw.key.as_ref().map(bytes),
            value: raw.value.as_ref().map(bytes),
            headers: raw.headers.clone(),
            oversize,
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        span(start, self.bytes.len())
    }
}

#[cfg(test)]
#[path = "raw_batch_tests.rs"]
mod tests;
