//! The reading thread: inputs to batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::Sender;

use super::input::{Input, Opened, Progress};
use super::records::{Bytes, Ends, Piece, Records, Sizes};
use super::{InputFormat, Options};
use crate::reason::DeadReason;
use crate::source::csv::Columns;
use crate::source::text::clipped;
use crate::source::{Batch, Cut, Decoded, Entry, Fault, SourceError, span};

/// What is handed over to the processor.
pub(super) type Handed = Result<Batch, SourceError>;

/// Why the thread ends before the end.
enum Stop {
    /// Nobody listens any more.
    Gone,
    Failed(SourceError),
}

/// Reads all inputs and hands batches over, until the end, a failure, or nobody listens.
pub(super) fn run(inputs: &[Input], options: &Options, sizes: Sizes, to: &Sender<Handed>) {
    let mut offset = options.first_offset;
    for input in inputs {
        let read = input.open().map_err(|error| Stop::Failed(input.unreadable(error)));
        match read.and_then(|opened| one(input, opened, options, sizes, to, &mut offset)) {
            Ok(()) => {}
            Err(Stop::Gone) => return,
            Err(Stop::Failed(error)) => {
                // Where nobody listens, nobody needs to know.
                drop(to.blocking_send(Err(error)));
                return;
            }
        }
    }
}

fn one(
    input: &Input,
    opened: Opened,
    options: &Options,
    sizes: Sizes,
    to: &Sender<Handed>,
    offset: &mut i64,
) -> Result<(), Stop> {
    let origin: Arc<str> = input.name().into();
    let out = Output { to, origin, batch: Batch::default(), offset, options, sizes };
    let records = Records::new(opened.bytes, sizes);
    let live = input.bytes().is_none();
    let mut reading =
        Reading { input, options, records, progress: opened.progress, columns: None, out, live };
    let read = reading.all();
    // What was understood before a failure counts.
    let handed = reading.flush();
    match read {
        Err(Stop::Gone) => read,
        _ => handed.and(read),
    }
}

/// One input being read.
struct Reading<'a> {
    input: &'a Input,
    options: &'a Options,
    records: Records,
    progress: Arc<Progress>,
    /// Of a table, once its header was read.
    columns: Option<Columns>,
    out: Output<'a>,
    /// Bytes come as somebody makes them, so nothing read waits for more.
    live: bool,
}

impl Reading<'_> {
    fn all(&mut self) -> Result<(), Stop> {
        let first = match self.records.first_byte() {
            Ok(first) => first,
            Err(error) => return self.broken_off(error),
        };
        let is_csv = match (self.options.format, first) {
            (Some(format), _) => format == InputFormat::Csv,
            (None, first) => !matches!(first, None | Some(b'{' | b'[')),
        };
        if is_csv {
            // Which delimiter it has, the header will tell.
            self.records.set_ends(Ends::Rows { delimiter: b',' });
        }
        loop {
            while let Some(piece) = self.records.take() {
                self.piece(piece, is_csv)?;
            }
            if self.records.ended() {
                return Ok(());
            }
            if self.live {
                self.flush()?;
            }
            if let Err(error) = self.records.fill() {
                return self.broken_off(error);
            }
        }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.out.flush(&self.progress)
    }

    fn piece(&mut self, piece: Piece, is_csv: bool) -> Result<(), Stop> {
        if is_csv && self.columns.is_none() {
            return self.header(&piece);
        }
        let line = piece.line;
        match piece.bytes {
            Bytes::Whole(place) => {
                let record = self.records.bytes(place);
                if blank(record, is_csv) {
                    return Ok(());
                }
                let text = &mut self.out.batch.text;
                let decoder = &self.options.decoder;
                let content = match &mut self.columns {
                    Some(columns) => decoder.row(columns, record, text),
                    None => decoder.json(record, text),
                };
                self.out.push(record, line, content);
            }
            Bytes::Unclosed(place) => {
                let problem = "a quote on this line is not closed before the end of the file, \
                               or within the size limit; the lines after it are read by themselves";
                let fault = Fault::new(DeadReason::BadCsv, problem);
                self.out.push(self.records.bytes(place), line, Err(Box::new(fault)));
            }
            Bytes::Cut(head, cut) => {
                let limit = self.out.sizes.record;
                let message = format!("the record has {} bytes, over {limit}", cut.bytes);
                self.out.push_cut(&head, line, DeadReason::Oversize, message, cut);
            }
        }
        if self.out.is_full() { self.flush() } else { Ok(()) }
    }

    fn header(&mut self, piece: &Piece) -> Result<(), Stop> {
        let unfit = |problem: String| Stop::Failed(self.input.unfit(problem));
        let Bytes::Whole(place) = &piece.bytes else {
            return Err(unfit(
                "read as CSV, its header has no end; if it is no CSV: --input-format ndjson".into(),
            ));
        };
        let header = self.records.bytes(place.clone());
        if blank(header, true) {
            return Ok(());
        }
        let columns = Columns::new(header, &self.options.decoder).map_err(unfit)?;
        self.records.set_ends(Ends::Rows { delimiter: columns.delimiter });
        self.columns = Some(columns);
        Ok(())
    }

    /// The input cannot be read on: the system's fault ends the source, a fault of the compressed
    /// form only this file.
    fn broken_off(&mut self, error: std::io::Error) -> Result<(), Stop> {
        if self.progress.failed.load(Ordering::Relaxed) {
            return Err(Stop::Failed(self.input.unreadable(error)));
        }
        let message = format!(
            "{} cannot be decompressed from here on ({}); what came before was read, get it again",
            self.input.name(),
            clipped(&error.to_string())
        );
        let reason = DeadReason::TruncatedInput;
        let rest = self.records.rest();
        match rest.bytes {
            Bytes::Cut(head, cut) => self.out.push_cut(&head, rest.line, reason, message, cut),
            Bytes::Whole(place) | Bytes::Unclosed(place) => {
                let fault = Box::new(Fault::new(reason, message));
                self.out.push(self.records.bytes(place), rest.line, Err(fault));
            }
        }
        Ok(())
    }
}

/// Whether a line is no record. In a table tabs are cells.
fn blank(record: &[u8], is_csv: bool) -> bool {
    let space = |byte: &u8| matches!(byte, b' ' | b'\r') || (*byte == b'\t' && !is_csv);
    record.iter().all(space)
}

/// Entries on their way into a batch.
struct Output<'a> {
    to: &'a Sender<Handed>,
    origin: Arc<str>,
    batch: Batch,
    offset: &'a mut i64,
    options: &'a Options,
    sizes: Sizes,
}

impl Output<'_> {
    fn push(&mut self, record: &[u8], line: u64, content: Result<Decoded, Box<Fault>>) {
        let start = self.batch.raw.len();
        self.batch.raw.extend_from_slice(record);
        self.batch.entries.push(Entry {
            offset: *self.offset,
            element: None,
            line,
            log_time_ms: self.options.log_time_ms,
            raw: span(start, self.batch.raw.len()),
            content,
        });
        *self.offset = self.offset.saturating_add(1);
    }

    fn push_cut(&mut self, head: &[u8], line: u64, reason: DeadReason, message: String, cut: Cut) {
        let fault = Fault { cut: Some(cut), ..Fault::new(reason, message) };
        self.push(head, line, Err(Box::new(fault)));
    }

    fn is_full(&self) -> bool {
        self.batch.entries.len() >= self.sizes.batch_entries
            || self.batch.raw.len() >= self.sizes.batch_bytes
    }

    fn flush(&mut self, progress: &Progress) -> Result<(), Stop> {
        if self.batch.entries.is_empty() {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.origin = Arc::clone(&self.origin);
        batch.bytes_read = progress.bytes.load(Ordering::Relaxed);
        self.batch.raw.reserve(batch.raw.len());
        self.batch.text.reserve(batch.text.len());
        self.batch.entries.reserve(batch.entries.len());
        self.to.blocking_send(Ok(batch)).map_err(|_| Stop::Gone)
    }
}
