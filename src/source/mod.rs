//! Sources of samples.
//!
//! A source turns bytes into [`Batch`]es of [`Entry`]s, in arrival order, and loses none: a record
//! that cannot be decoded is an entry too, with its reason and its original bytes. Sources do not
//! decide trips.

mod avro;
#[cfg(test)]
mod binary_fixture;
mod bounds;
mod context;
mod decode;
mod fields;
pub mod file;
mod formats;
mod framing;
mod heads;
mod join;
mod json;
mod local_time;
mod map;
mod outline;
mod parquet;
mod propose;
mod protobuf;
mod record;
mod reencode;
mod repeated_hour;
mod schema_file;
mod schemas;
mod shape;
pub mod spill;
mod split;
mod suggest;
mod table_sample;
mod text;
mod time;
mod time_forms;
mod transcode;
mod value;
mod wire;

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use crate::model::zone::ZONE_TABLES;
pub(crate) use bounds::{MAX_REFERENCES, MAX_SCHEMA_BYTES};
pub(crate) use context::HTTP_ORIGIN;
pub use context::RecordContext;
pub use decode::Decoder;
pub(crate) use fields::{field_names, names_of_field};
pub(crate) use framing::SCHEMA_ID_HEADER;
pub(crate) use local_time::check_time_format;
pub use map::parse_map;
pub(crate) use outline::Outline;
pub(crate) use propose::{ProposedMap, Surroundings, id_column, propose};
pub(crate) use repeated_hour::RepeatedHours;
pub(crate) use schema_file::read_schema;
pub(crate) use schemas::{CompiledSchema, MAX_SCHEMAS};
pub(crate) use shape::DecoderError;
pub(crate) use split::TooManySamples;
pub use split::{RawJson, RecordPosition};
pub(crate) use suggest::{presets_for, suggest};
pub(crate) use table_sample::TableSample;
pub(crate) use text::{head_of, short};
pub(crate) use time_forms::TimeForms;

use crate::identity::DeviceId;
use crate::model::input_part::Part;
use crate::model::reading::ReadingSet;
use crate::model::reason::{DeadReason, DropReason};
use crate::model::scalar::{DeviceTime, LogTime, Offset};
use crate::model::schema::SchemaId;
use crate::timeline::Sample;

/// Byte range in one of a batch's two buffers.
pub type Span = Range<u32>;

/// A span from `start` to `end`.
pub(crate) fn span(start: usize, end: usize) -> Span {
    let narrow = |at| u32::try_from(at).expect("a batch is far below 4 GiB");
    narrow(start)..narrow(end)
}

/// Entries in arrival order, with their original bytes.
#[derive(Debug, Default)]
pub struct Batch {
    /// Original bytes of the records; [`Entry::raw`] points into it.
    pub raw: Vec<u8>,
    /// Device ids and drivers, unescaped; the spans of [`DecodedSample`] point into it.
    pub text: String,
    /// Path of the file, or name of the topic.
    pub origin: Arc<str>,
    /// The entries.
    pub entries: Vec<Entry>,
    /// Bytes of this origin read so far, compressed size if compressed: for the progress bar.
    pub bytes_read: u64,
    /// The input part read so far, if the input can be resumed; all its records are in this batch
    /// or earlier ones.
    pub part: Option<Part>,
    /// Whether this origin no longer contains a last line, or the end of a document, that an
    /// earlier run has read: it grew within it.
    pub outgrown: bool,
    /// Lines of this origin that an earlier run has read and this one skipped; set in one batch
    /// only.
    pub lines_known: u64,
    /// Offset after the last record read, if records without entries follow the last entry.
    pub next_offset: Option<Offset>,
    /// Headers of records that have any, by offset.
    pub headers: BTreeMap<Offset, Arc<Headers>>,
    /// Memory used by the headers, bytes.
    pub header_bytes: usize,
    /// Records that are arrays, by offset.
    pub arrays: BTreeMap<Offset, Array>,
    /// A control record. It is alone in its batch, in arrival order. A topic's batch also contains
    /// an entry for it, which becomes the dead letter if the record is rejected.
    pub control: Option<Control>,
}

/// Headers of a record, in their original order.
pub type Headers = Vec<(String, Option<Vec<u8>>)>;

/// Memory used by headers, bytes, including the overhead of empty names and values.
#[must_use]
pub(crate) fn memory_of_headers(headers: &Headers) -> usize {
    let texts =
        |(name, value): &(String, Option<Vec<u8>>)| name.len() + value.as_ref().map_or(0, Vec::len);
    size_of_val(&headers[..]) + headers.iter().map(texts).sum::<usize>()
}

/// Maximum number of bad elements of an array that become a dead letter each; with more, the array
/// becomes one dead letter.
pub(crate) const MAX_BAD_ELEMENTS: usize = 100;

/// A record that is an array, or contains samples in arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Original bytes, in [`Batch::raw`].
    pub value: Span,
    /// Bad elements without an entry, by reason; empty unless more than [`MAX_BAD_ELEMENTS`] bad
    /// elements have entries.
    pub more: BTreeMap<DeadReason, u64>,
    /// Whether a bad element can only be decoded again with the record around it: its dead letter
    /// is that of the whole record.
    pub is_needed: bool,
}

/// A command about a device, in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Erase trips that end before a time.
    Forget {
        /// Offset of the record in the log.
        offset: Offset,
        /// Device id.
        device_id: DeviceId,
        /// Trips that end before it are erased, samples before it are dropped, ms since 1970.
        before_ms: DeviceTime,
        /// Name of the control key that signed it; `None` if it did not come from a topic.
        key: Option<String>,
    },
}

/// One sample of a record, or the error that replaces it.
#[derive(Debug)]
pub struct Entry {
    /// Offset of the record in the log. Entries of one record share it and are adjacent.
    pub offset: Offset,
    /// Index of the element, if the record is an array.
    pub element: Option<u32>,
    /// Line of the file, from 1; 0 if the source has no lines.
    pub line: u64,
    /// Log timestamp of the record, ms since 1970.
    pub log_time_ms: LogTime,
    /// Whether the record is redelivered, with its original offset.
    pub again: bool,
    /// Original bytes of the record in [`Batch::raw`], without the line end.
    pub raw: Span,
    /// Key of the record in [`Batch::raw`], if the log has keys.
    pub key: Option<Span>,
    /// The sample, or why there is none.
    pub content: Result<DecodedSample, NoSample>,
}

/// Why a record, or an element of it, gives no sample.
#[derive(Clone, Debug, PartialEq)]
pub enum NoSample {
    /// By the field map, it is not a sample. With the number of adjacent ones.
    Skipped(u32),
    /// By the field map, the sample is not to be used. With the number of adjacent ones.
    Dropped(DropReason, u32),
    /// It cannot be used.
    Dead(Box<SampleError>),
}

impl NoSample {
    /// The error of a sample that cannot be used.
    #[must_use]
    pub fn error(&self) -> Option<&SampleError> {
        match self {
            Self::Dead(error) => Some(error),
            Self::Skipped(_) | Self::Dropped(..) => None,
        }
    }

    /// Adds the count of another one, and returns true, if both are alike.
    fn add(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Skipped(count), Self::Skipped(more)) => *count += more,
            (Self::Dropped(reason, count), Self::Dropped(other, more)) if reason == other => {
                *count += more;
            }
            _ => return false,
        }
        true
    }
}

impl From<Box<SampleError>> for NoSample {
    fn from(error: Box<SampleError>) -> Self {
        Self::Dead(error)
    }
}

impl Entry {
    /// The id of the schema without which the record cannot be read.
    #[must_use]
    pub(crate) fn needs_schema(&self) -> Option<SchemaId> {
        self.content.as_ref().err()?.error()?.needs_schema
    }
}

/// A decoded sample.
#[derive(Debug)]
pub struct DecodedSample {
    /// Device id, in [`Batch::text`]; 1 to 256 bytes, no NUL.
    pub device: Span,
    /// Driver, in [`Batch::text`].
    pub driver: Option<Span>,
    /// The sample, quantised.
    pub sample: Sample,
    /// Readings that the record has as -1, which devices send for an unknown value.
    pub unknown: ReadingSet,
}

/// Maximum length of an error message, bytes.
const MAX_MESSAGE: usize = 1000;

/// Why a sample cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleError {
    /// Reason, for counters and headers.
    pub reason: DeadReason,
    /// What failed, with the value.
    pub message: String,
    /// Set if `raw` contains only the head of the record.
    pub cut: Option<Cut>,
    /// Whether the device time would be valid if it were in seconds.
    pub looks_like_seconds: bool,
    /// Whether latitude and longitude would be valid if they were exchanged.
    pub looks_swapped: bool,
    /// Of a control record: name of a control key that this process does not have.
    pub unknown_key: Option<String>,
    /// Set if the record can be read once its schema is known. It is then no dead letter yet.
    pub needs_schema: Option<SchemaId>,
}

/// Size and hash of a record of which only the head is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Length of the whole record, bytes.
    pub bytes: u64,
    /// SHA-256 of the whole record.
    pub sha256: [u8; 32],
}

impl Cut {
    /// Size and hash of a record.
    #[must_use]
    pub fn new(record: &[u8]) -> Self {
        Self { bytes: record.len() as u64, sha256: Sha256::digest(record).into() }
    }
}

impl SampleError {
    /// An error of a record that is stored whole. Cuts a long message.
    #[must_use]
    pub fn new(reason: DeadReason, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(head_of(&message, MAX_MESSAGE).len());
            message.push_str("...");
        }
        let (looks_like_seconds, looks_swapped) = (false, false);
        let (cut, unknown_key, needs_schema) = (None, None, None);
        Self { reason, message, cut, looks_like_seconds, looks_swapped, unknown_key, needs_schema }
    }
}

impl Batch {
    /// Approximate memory, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let entries = self.entries.len() * size_of::<Entry>();
        self.raw.len() + self.text.len() + self.header_bytes + entries
    }

    /// The id of a schema that an entry needs, if any does.
    #[must_use]
    pub(crate) fn needs_schema(&self) -> Option<SchemaId> {
        self.entries.iter().find_map(Entry::needs_schema)
    }

    /// Takes the headers of a record.
    pub(crate) fn take_headers(&mut self, offset: Offset) -> Headers {
        let headers = self.headers.remove(&offset).map(Arc::unwrap_or_clone).unwrap_or_default();
        self.header_bytes -= memory_of_headers(&headers);
        headers
    }

    /// Stores the headers of a record, for its dead letters; does nothing without headers.
    pub(crate) fn keep_headers(&mut self, offset: Offset, headers: &Headers) {
        if !headers.is_empty() {
            self.header_bytes += memory_of_headers(headers);
            self.headers.insert(offset, Arc::new(headers.clone()));
        }
    }

    /// Appends original bytes.
    pub fn push_raw(&mut self, bytes: &[u8]) -> Span {
        let start = self.raw.len();
        self.raw.extend_from_slice(bytes);
        span(start, self.raw.len())
    }

    /// The text of a span of [`DecodedSample`].
    #[must_use]
    pub fn text(&self, span: &Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The original bytes of a span.
    #[must_use]
    pub fn bytes(&self, span: &Span) -> &[u8] {
        &self.raw[span.start as usize..span.end as usize]
    }

    /// The original bytes of an entry.
    #[must_use]
    pub fn raw(&self, entry: &Entry) -> &[u8] {
        self.bytes(&entry.raw)
    }

    /// The key of an entry's record.
    #[must_use]
    pub fn key(&self, entry: &Entry) -> Option<&[u8]> {
        let key = entry.key.as_ref()?;
        Some(&self.raw[key.start as usize..key.end as usize])
    }
}

/// An error that ends a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file cannot be opened or read.
    #[error("cannot read `{origin}`")]
    Read {
        /// Path of the file.
        origin: String,
        /// System error.
        source: std::io::Error,
    },
    /// The content of the file cannot be read.
    #[error("cannot read `{origin}`: {problem}")]
    Form {
        /// Path of the file.
        origin: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The header of a table cannot be read, or lacks a field.
    #[error("cannot read `{origin}`: {problem}")]
    Header {
        /// Path of the file.
        origin: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Several inputs cannot be read.
    #[error("{}", list(.0))]
    Inputs(Vec<SourceError>),
    /// The input thread panicked, or could not be started.
    #[error("the input thread stopped: {problem}; this is a bug, please report it")]
    Broken {
        /// Panic message, or why the thread could not be started.
        problem: String,
    },
}

fn list(problems: &[SourceError]) -> String {
    let shown = problems.iter().map(|problem| match problem {
        SourceError::Read { source, .. } => format!("{problem}: {source}"),
        _ => problem.to_string(),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// A source of samples for the processor.
pub trait Source: Send {
    /// The next batch; `None` at the end. A batch without entries still reports its other fields.
    /// Cancel safe: dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Option<Batch>, SourceError>> + Send;
}
