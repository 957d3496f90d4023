//! Where samples come from.
//!
//! A source turns bytes into [`Batch`]es of [`Entry`]s, in the order of its log, and never loses
//! one: what cannot be read is an entry too, with its reason and its original bytes. It decides
//! nothing about trips.

mod csv;
mod decode;
mod fields;
pub mod file;
mod json;
mod json_fast;
mod record;
mod reencode;
pub mod spill;
mod text;
mod time;

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

pub use decode::Decoder;
pub use fields::{MapError, parse_map};
pub use json_fast::JsonTemplate;
pub(crate) use text::{head_of, short};

use crate::model::input_part::Part;
use crate::model::reason::DeadReason;
use crate::timeline::Sample;

/// A piece of one of a batch's two buffers.
pub type Span = Range<u32>;

/// A span of a buffer of a batch.
pub(crate) fn span(start: usize, end: usize) -> Span {
    let place = |at| u32::try_from(at).expect("a batch ends long before 4 GiB");
    place(start)..place(end)
}

/// Entries in the order of the log, with the bytes they came as.
#[derive(Debug, Default)]
pub struct Batch {
    /// Original bytes of the records; [`Entry::raw`] points into it.
    pub raw: Vec<u8>,
    /// Device ids and drivers, unescaped; the spans of [`Decoded`] point into it.
    pub text: String,
    /// Path of the file, or name of the topic.
    pub origin: Arc<str>,
    /// What was read.
    pub entries: Vec<Entry>,
    /// Bytes of input read so far, of this origin, as they lie on the disk: for the progress bar.
    pub bytes_read: u64,
    /// What was read of this origin so far, where it can be known again; every record of it up to
    /// there is in this batch or an earlier one.
    pub part: Option<Part>,
    /// Lines of this origin that were not read, since an earlier run did; told once.
    pub lines_known: u64,
    /// Offset of the record after the last that was read, where that is past the entries: a record
    /// may be empty.
    pub next_offset: Option<i64>,
    /// Headers of the log's records, by offset, of those that have any.
    pub headers: BTreeMap<i64, Arc<Headers>>,
    /// What those headers take in memory, bytes.
    pub header_bytes: usize,
    /// Records that are arrays, by offset.
    pub arrays: BTreeMap<i64, Array>,
    /// A control record. It comes in a batch of its own, in its place among the others. Of a topic
    /// it stands there as an entry, too: where it is refused, that is its dead letter.
    pub control: Option<Control>,
}

/// Headers of a log's record, in their order.
pub type Headers = Vec<(String, Option<Vec<u8>>)>;

/// What headers take in memory, bytes: a name and a value may be empty, and cost all the same.
#[must_use]
pub fn memory_of_headers(headers: &Headers) -> usize {
    let texts =
        |(name, value): &(String, Option<Vec<u8>>)| name.len() + value.as_ref().map_or(0, Vec::len);
    size_of_val(&headers[..]) + headers.iter().map(texts).sum::<usize>()
}

/// Most bad elements of an array that are dead letters of their own; of more than that the array is
/// one dead letter.
pub const MAX_BAD_ELEMENTS: usize = 100;

/// A record that is an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its bytes in [`Batch::raw`].
    pub value: Span,
    /// Bad elements that are no entries, by reason. There are none unless more than
    /// [`MAX_BAD_ELEMENTS`] bad ones are entries.
    pub more: BTreeMap<DeadReason, u64>,
}

/// A record that is about a device rather than from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Trips that end before a time are to be erased.
    Forget {
        /// Place of the record in the log.
        offset: i64,
        /// Device id.
        device_id: String,
        /// Trips that end before it go, and samples before it are dropped, ms since 1970.
        before_ms: i64,
    },
}

/// One sample of a record, or what stands in its place.
#[derive(Debug)]
pub struct Entry {
    /// Place of the record in the log. Entries of one record share it and stand side by side.
    pub offset: i64,
    /// Which element of a record that is an array.
    pub element: Option<u32>,
    /// Line of the file, from 1; 0 where the source has no lines.
    pub line: u64,
    /// The log's own timestamp of the record, ms since 1970.
    pub log_time_ms: i64,
    /// It was delivered before, and comes again as the record it was.
    pub again: bool,
    /// The record's bytes in [`Batch::raw`], without a line end.
    pub raw: Span,
    /// The record's key in [`Batch::raw`], where the log has keys.
    pub key: Option<Span>,
    /// The sample, or why there is none.
    pub content: Result<DecodedSample, Box<SampleError>>,
}

/// A sample that was understood.
#[derive(Debug)]
pub struct DecodedSample {
    /// Device id, in [`Batch::text`]; 1 to 256 bytes, no NUL.
    pub device: Span,
    /// Driver, in [`Batch::text`].
    pub driver: Option<Span>,
    /// Whether the ignition is on.
    pub ignition: Option<bool>,
    /// The sample, quantised.
    pub sample: Sample,
}

/// Longest message of a fault, bytes.
const MAX_MESSAGE: usize = 1000;

/// Why a record gave no sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleError {
    /// The reason, for counting.
    pub reason: DeadReason,
    /// What failed, with the value, for a person.
    pub message: String,
    /// Set where `raw` is only the head of the record.
    pub cut: Option<Cut>,
    /// The time would be a good one if it were read in seconds.
    pub looks_like_seconds: bool,
    /// Of a control record: name of the control key that is unknown here.
    pub unknown_key: Option<String>,
}

/// A record that is kept as its head alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Length of the whole record, bytes.
    pub bytes: u64,
    /// SHA-256 of the whole record.
    pub sha256: [u8; 32],
}

impl SampleError {
    /// A fault of a record that is kept whole. A message is bounded, whatever it quotes.
    #[must_use]
    pub fn new(reason: DeadReason, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(head_of(&message, MAX_MESSAGE).len());
            message.push_str("...");
        }
        let looks_like_seconds = false;
        Self { reason, message, cut: None, looks_like_seconds, unknown_key: None }
    }
}

impl Batch {
    /// What it takes in memory, about, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let entries = self.entries.len() * size_of::<Entry>();
        self.raw.len() + self.text.len() + self.header_bytes + entries
    }

    /// Keeps the headers of a record, for its dead letters; one without any keeps none.
    pub fn keep_headers(&mut self, offset: i64, headers: &Headers) {
        if !headers.is_empty() {
            self.header_bytes += memory_of_headers(headers);
            self.headers.insert(offset, Arc::new(headers.clone()));
        }
    }

    /// The text behind a span of [`Decoded`].
    #[must_use]
    pub fn text(&self, span: &Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The original bytes behind a span.
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

/// A source that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file cannot be opened or read.
    #[error("cannot read `{origin}`")]
    Read {
        /// Path of the file.
        origin: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not in a form that can be read.
    #[error("cannot read `{origin}`: {problem}")]
    Form {
        /// Path of the file.
        origin: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Several inputs were looked at, and these are of no use.
    #[error("{}", list(.0))]
    Inputs(Vec<SourceError>),
    /// The reading thread broke off, or could not begin.
    #[error("the input thread stopped: {problem}; this is a bug, please report it")]
    Broken {
        /// What it said last.
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

/// Where samples come from, as the processor sees it.
pub trait Source: Send {
    /// The next batch; `None` at the end. One without entries tells what else is new. Cancel safe:
    /// a call that is dropped loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Option<Batch>, SourceError>> + Send;
}
