//! Samples from files and stdin: JSON, CSV, GPX or NMEA; plain, gzip or zstd.
//!
//! A separate thread reads and decodes, at most a few batches ahead of the processor.

mod archive;
mod detect;
mod encoding;
mod head;
mod input;
mod log;
mod output;
mod points;
mod reader;
mod resume;
mod scanner;
mod splitter;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{Receiver, channel};

use self::encoding::Conversion;
pub(crate) use self::head::{Head, Heads};
use self::input::Input;
use self::reader::BatchResult;
use self::splitter::Sizes;
use super::{Batch, Decoder, Source, SourceError};
pub use crate::model::input_format::InputFormat;
use crate::model::input_part::StoredPart;
use crate::model::scalar::{LogTime, Offset};

/// Maximum size of a record that is kept whole, bytes; of a larger one, the head, length and hash
/// are kept.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// Maximum size of a JSON document, bytes, whatever the memory: positions in a batch have 32 bits.
const MAX_DOCUMENT_BYTES: usize = 1 << 30;

/// Maximum size of a JSON document under a memory limit, bytes: it is held as read and as queued.
#[must_use]
pub fn max_document(memory: u64) -> usize {
    usize::try_from(memory / 4).unwrap_or(usize::MAX).min(MAX_DOCUMENT_BYTES)
}

/// Maximum number of batches queued for the processor.
const MAX_QUEUED: usize = 4;

const SIZES: Sizes = Sizes {
    chunk: 64 << 10,
    record: MAX_RECORD_BYTES,
    head: 1 << 10,
    batch_entries: 4096,
    batch_bytes: 256 << 10,
};

/// How files are read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Format of all files; unset: detected from the content of each file.
    pub format: Option<InputFormat>,
    /// Decodes the records, by the rules.
    pub decoder: Arc<Decoder>,
    /// Maximum size of a JSON document that is kept whole, bytes; at least that of a line.
    pub max_document: usize,
    /// Log timestamp of all records, ms since 1970: files have none.
    pub log_time_ms: LogTime,
    /// Offset of the first record that was not delivered before.
    pub first_offset: Offset,
    /// Input parts that earlier runs have read. Reading resumes after them; a file that a completed
    /// import has read to its end is redelivered, with the original offsets.
    pub known: Vec<StoredPart>,
    /// Redeliver all known parts; do not resume after them.
    pub redelivers: bool,
}

impl Options {
    fn conversion(&self) -> Conversion {
        match self.decoder.converts_text() {
            true => Conversion::To(self.decoder.shape.encoding),
            false => Conversion::None,
        }
    }
}

/// Reads files one after the other.
#[derive(Debug)]
pub struct FileSource {
    batches: Receiver<BatchResult>,
    /// Joined when it has ended. A dropped source does not join it: the thread ends at its next
    /// batch, and a silent stdin may block it until then.
    thread: Option<JoinHandle<()>>,
    total_bytes: Option<u64>,
    inputs: Vec<Input>,
}

/// A file that ended before the length that it had when reading began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CutFile {
    /// Its path.
    pub name: String,
    /// Its length then, bytes.
    pub before: u64,
    /// Number of bytes up to its end.
    pub read: u64,
}

impl FileSource {
    /// Checks all inputs, as [`FileSource::open`] does before it reads.
    ///
    /// # Errors
    /// As for [`FileSource::open`].
    pub fn check(inputs: &[PathBuf], options: &Options) -> Result<(), SourceError> {
        check_inputs(inputs, options).map(drop)
    }

    /// Checks all inputs, paths or `-` for stdin, then starts to read.
    ///
    /// # Errors
    /// An input does not exist, cannot be opened or is a directory; stdin is named twice; or the
    /// field map has a JSON Pointer and the format is CSV.
    pub fn open(inputs: &[PathBuf], options: Options) -> Result<Self, SourceError> {
        Self::with_sizes(inputs, options, SIZES)
    }

    fn with_sizes(inputs: &[PathBuf], options: Options, sizes: Sizes) -> Result<Self, SourceError> {
        Self::start(check_inputs(inputs, &options)?, options, sizes)
    }

    /// Reads the beginnings of inputs, as [`FileSource::open`] reads whole ones.
    ///
    /// # Errors
    /// The input thread cannot be started.
    pub(crate) fn of_heads(heads: &Heads, options: Options) -> Result<Self, SourceError> {
        let inputs = heads.inputs(options.conversion());
        Self::start(inputs, options, SIZES)
    }

    fn start(inputs: Vec<Input>, options: Options, sizes: Sizes) -> Result<Self, SourceError> {
        let total_bytes = inputs.iter().map(Input::bytes).sum();
        let shared = inputs.clone();
        let (sender, batches) = channel(MAX_QUEUED);
        let thread = std::thread::Builder::new()
            .name("tstar-source".into())
            .spawn(move || reader::run(&shared, &options, sizes, &sender))
            .map_err(|error| SourceError::Broken { problem: error.to_string() })?;
        Ok(Self { batches, thread: Some(thread), total_bytes, inputs })
    }

    /// The files that were cut while they were read, such as by a rotation of logs.
    #[must_use]
    pub(crate) fn cut_files(&self) -> Vec<CutFile> {
        self.inputs.iter().filter_map(Input::cut).collect()
    }

    /// The files whose text is not UTF-8, which nothing says.
    #[must_use]
    pub(crate) fn guessed_files(&self) -> Vec<String> {
        self.inputs.iter().filter(|input| input.is_guessed()).map(Input::name).collect()
    }

    /// Number of times in hours that occur twice which are before one of their device.
    #[must_use]
    pub(crate) fn late_in_repeated_hours(&self) -> u64 {
        self.inputs.iter().map(|input| input.hours().late()).sum()
    }

    /// Size of all inputs on disk, bytes, to compare with [`Batch::bytes_read`]; `None` if one has
    /// no length, such as stdin or a FIFO.
    #[must_use]
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }
}

impl Source for FileSource {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        match self.batches.recv().await {
            Some(result) => result.map(Some),
            None => match self.thread.take().map(JoinHandle::join) {
                None | Some(Ok(())) => Ok(None),
                Some(Err(panic)) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                    Err(SourceError::Broken { problem: text.unwrap_or("a panic").into() })
                }
            },
        }
    }
}

/// A place that a scanner found, as an index of the scanned bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// The first byte of a record.
    Start(usize),
    /// The byte after a record.
    End(usize),
}

fn check_inputs(paths: &[PathBuf], options: &Options) -> Result<Vec<Input>, SourceError> {
    let (mut inputs, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match Input::new(path, options.conversion()) {
            Ok(input) if input.is_stdin() && inputs.iter().any(Input::is_stdin) => {
                problems.push(input.form_error("stdin can be read once; name it once".into()));
            }
            Ok(input) => inputs.push(input),
            Err(problem) => problems.push(problem),
        }
    }
    if let (Some(InputFormat::Csv), Some((name, text)), Some(input)) =
        (options.format, options.decoder.shape.map.nested(), inputs.first())
    {
        problems.push(input.form_error(format!(
            "--map {name}={text} is for nested values, and the format is CSV; map the name of a column"
        )));
    }
    match problems.len() {
        0 => Ok(inputs),
        1 => Err(problems.remove(0)),
        _ => Err(SourceError::Inputs(problems)),
    }
}

#[cfg(test)]
mod tests;
