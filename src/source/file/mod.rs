//! Samples from files and stdin: NDJSON or CSV; plain, gzip or zstd.
//!
//! A thread of its own reads and decodes, and is never more than a few batches ahead.

mod input;
mod reader;
mod resume;
mod splitter;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{Receiver, channel};

use self::input::Input;
use self::reader::BatchResult;
use self::splitter::Sizes;
use super::{Batch, Decoder, Source, SourceError};
use crate::model::input_part::StoredPart;

/// Longest record that is kept whole, bytes; of a longer one the head is, with length and hash.
pub const MAX_RECORD_BYTES: usize = 1 << 20;

/// Batches that wait for the processor.
const WAITING: usize = 4;

const SIZES: Sizes = Sizes {
    chunk: 64 << 10,
    record: MAX_RECORD_BYTES,
    head: 1 << 10,
    batch_entries: 4096,
    batch_bytes: 256 << 10,
};

/// The form of the records of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// A JSON object a line.
    Ndjson,
    /// A table with a header.
    Csv,
}

/// How files are read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The form of every file; `None`: each file's content tells.
    pub format: Option<InputFormat>,
    /// Decodes by the rules.
    pub decoder: Arc<Decoder>,
    /// Stands in for the log's timestamp, ms since 1970.
    pub log_time_ms: i64,
    /// Offset of the first record that was not delivered before.
    pub first_offset: i64,
    /// What was read before. A file that begins with it is gone on with behind it; one that was
    /// read whole, by an import that came to its end, comes again as the records it was.
    pub known: Vec<StoredPart>,
}

/// Files as a source, one after the other.
#[derive(Debug)]
pub struct FileSource {
    batches: Receiver<BatchResult>,
    /// Taken when it has ended. A dropped source leaves it alone: it ends at its next batch, and
    /// may wait for a silent stdin until then.
    thread: Option<JoinHandle<()>>,
    total_bytes: Option<u64>,
}

impl FileSource {
    /// Looks at all inputs, as [`FileSource::open`] does before it begins.
    ///
    /// # Errors
    /// Those of [`FileSource::open`].
    pub fn check(inputs: &[PathBuf], options: &Options) -> Result<(), SourceError> {
        checked(inputs, options).map(drop)
    }

    /// Looks at all inputs, paths or `-` for stdin, then begins to read.
    ///
    /// # Errors
    /// Every input that does not exist, cannot be opened or is a directory; stdin named twice; a
    /// JSON Pointer in the field map while the format is CSV.
    pub fn open(inputs: &[PathBuf], options: Options) -> Result<Self, SourceError> {
        Self::with_sizes(inputs, options, SIZES)
    }

    fn with_sizes(inputs: &[PathBuf], options: Options, sizes: Sizes) -> Result<Self, SourceError> {
        let inputs = checked(inputs, &options)?;
        let total_bytes = inputs.iter().map(Input::bytes).sum();
        let (to, batches) = channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("tstar-source".into())
            .spawn(move || reader::run(&inputs, &options, sizes, &to))
            .map_err(|error| SourceError::Broken { problem: error.to_string() })?;
        Ok(Self { batches, thread: Some(thread), total_bytes })
    }

    /// Bytes of all inputs as they lie on the disk, to compare with [`Batch::bytes_read`]; `None`
    /// where one has no length, such as stdin or a FIFO.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }
}

impl Source for FileSource {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        match self.batches.recv().await {
            Some(handed) => handed.map(Some),
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

fn checked(paths: &[PathBuf], options: &Options) -> Result<Vec<Input>, SourceError> {
    let (mut inputs, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match Input::new(path) {
            Ok(Input::Stdin) if inputs.iter().any(|input| matches!(input, Input::Stdin)) => {
                problems.push(Input::Stdin.unfit("stdin can be read once; name it once".into()));
            }
            Ok(input) => inputs.push(input),
            Err(problem) => problems.push(problem),
        }
    }
    if let (Some(InputFormat::Csv), Some((field, pointer)), Some(input)) =
        (options.format, options.decoder.pointer(), inputs.first())
    {
        problems.push(input.unfit(format!(
            "a JSON Pointer, --map {field}={pointer}, finds nothing in CSV; map the name of a column"
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
