//! The input thread: reads inputs into batches.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use super::detect::{Undetected, is_blank};
use super::input::{Input, Progress};
use super::log::Log;
use super::output::{Output, cut_large};
use super::points::PointScan;
use super::resume::{clock_after, find_known_prefix};
use super::scanner::Scanner;
use super::splitter::{Bytes, Ends, RawRecord, Records, Sizes};
use super::values::ValueScan;
use super::{InputFormat, Options};
use crate::model::input_part::{Part, StoredPart};
use crate::model::reason::DeadReason;
use crate::model::scalar::Offset;
use crate::source::formats::csv::{self, Columns};
use crate::source::formats::{self, Framing};
use crate::source::suggest::suggest_for_table;
use crate::source::text::clipped;
use crate::source::{Batch, RawJson, RecordContext, RepeatedHours, SampleError, SourceError};

/// A batch, or the error that ends the source.
pub(super) type BatchResult = Result<Batch, SourceError>;

/// Why reading ends before the end of the inputs.
pub(super) enum Stop {
    /// The receiver was dropped.
    Closed,
    Failed(SourceError),
}

/// Reads all inputs and sends batches, until the end, an error, or the receiver is dropped.
pub(super) fn run(inputs: &[Input], options: &Options, sizes: Sizes, sender: &Sender<BatchResult>) {
    let mut offset = options.first_offset;
    let mut known = options.known.clone();
    for (input, after) in inputs.iter().zip((0..inputs.len()).rev()) {
        match read_input(input, options, sizes, sender, (&known, &mut offset)) {
            // A second copy in the same run is recognised, too.
            Ok(parts) => known.extend(parts),
            Err(Stop::Closed) => return,
            Err(Stop::Failed(mut error)) => {
                if let SourceError::Form { problem, .. } | SourceError::Header { problem, .. } =
                    &mut error
                    && after > 0
                {
                    problem.push_str(&format!("; {after} more after it were not read"));
                }
                // The error is lost if the receiver was dropped.
                drop(sender.blocking_send(Err(error)));
                return;
            }
        }
    }
}

/// Reads one input. Returns the parts by which it is recognised later.
fn read_input(
    input: &Input,
    options: &Options,
    sizes: Sizes,
    sender: &Sender<BatchResult>,
    (known, offset): (&[StoredPart], &mut Offset),
) -> Result<Vec<StoredPart>, Stop> {
    let before = input.bytes();
    let reading = Reading::new(input, options, sizes, sender, offset);
    let mut reading = reading.map_err(Stop::Failed)?;
    let read = reading.read_all(known);
    if let (Some(before), Ok(())) = (before, &read) {
        input.check_end(before, reading.progress.bytes());
    }
    // Records decoded before an error are still delivered.
    let sent = reading.send_batch(read.is_ok());
    match read {
        Err(Stop::Closed) => read,
        _ => sent.and(read),
    }?;
    let parts = reading.sent_parts.into_iter();
    Ok(parts.map(|part| StoredPart { part, import_finished: true }).collect())
}

/// State of the input that is being read.
pub(super) struct Reading<'a> {
    input: &'a Input,
    pub(super) options: &'a Options,
    pub(super) records: Records,
    progress: Arc<Progress>,
    /// Name of the compression, if there is one.
    pub(super) compression: Option<&'static str>,
    pub(super) is_parquet: bool,
    /// What was read of hours that occur twice, where the order decides their times.
    hours: Option<&'a RepeatedHours>,
    /// The delimiter of a table, if a line before its header names it.
    delimiter: Option<u8>,
    /// The columns of a table, once its header was read.
    columns: Option<Columns>,
    out: Output<'a>,
    /// Whether the input is a stream without a length, such as stdin or a FIFO: batches are sent
    /// before each read, which may block.
    pub(super) is_stream: bool,
    format: InputFormat,
    /// Whether the input is text.
    pub(super) is_text: bool,
    /// The part that is being read; `None` for redelivered records and for streams.
    part: Option<Part>,
    /// The part after which reading resumed, until the first new record.
    resumed_after: Option<Part>,
    /// Whether the part's last record was ended by the end of the content, not by a line end.
    by_end: bool,
    /// Whether damaged data ended the content.
    damaged: bool,
    /// Parts that were sent.
    sent_parts: Vec<Part>,
    /// Known parts whose last record was ended by the end of the content, and which was not
    /// reached, or has grown.
    unfinished: Vec<Part>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        input: &'a Input,
        options: &'a Options,
        sizes: Sizes,
        sender: &'a Sender<BatchResult>,
        offset: &'a mut Offset,
    ) -> Result<Self, SourceError> {
        let opened = input.open().map_err(|error| input.open_error(error))?;
        let is_stream = input.bytes().is_none();
        let log_time_ms = options.log_time_ms;
        let log = Log { next: offset, log_time_ms, known: VecDeque::new(), in_part: 0 };
        let origin: Arc<str> = input.name().into();
        let out = Output { sender, origin, batch: Batch::default(), log, sizes };
        Ok(Self {
            input,
            options,
            records: Records::new(opened.bytes, sizes, !is_stream),
            progress: opened.progress,
            compression: opened.compression,
            is_parquet: opened.is_parquet,
            hours: options.decoder.reads_by_order().then(|| input.hours()),
            delimiter: None,
            columns: None,
            out,
            is_stream,
            format: InputFormat::Ndjson,
            is_text: true,
            part: None,
            resumed_after: None,
            by_end: false,
            damaged: false,
            sent_parts: Vec::new(),
            unfinished: Vec::new(),
        })
    }

    /// The path, or `-`.
    pub(super) fn input_name(&self) -> String {
        self.input.name()
    }

    fn read_all(&mut self, stored: &[StoredPart]) -> Result<(), Stop> {
        self.format = match self.detect_format() {
            Ok(format) => format,
            Err(Undetected::Unreadable(error)) => return self.handle_read_error(error),
            Err(Undetected::Unknown(problem)) => {
                return Err(Stop::Failed(self.input.form_error(problem)));
            }
        };
        self.set_ends();
        let known = find_known_prefix(self.input, stored, self.format);
        let known = known.map_err(|error| Stop::Failed(self.input.read_error(error)))?;
        self.unfinished = known.unfinished;
        match (known.parts.last(), known.end) {
            (None, _) => self.begin_part(0),
            // The order of all records decides times: they are read again.
            (Some(last), None) if !self.options.redelivers && self.hours.is_none() => {
                self.resume(last)?
            }
            (Some(last), end) => {
                if let Some(end) = end.filter(|_| !last.damaged) {
                    // What is appended meanwhile is for the next import.
                    self.records.end_at(end);
                }
                self.out.log.known = known.parts.into();
            }
        }
        self.read_records()
    }

    fn read_records(&mut self) -> Result<(), Stop> {
        loop {
            while let Some(record) = self.next_record()? {
                self.push_record(record)?;
            }
            if self.records.ended() {
                return self.records.unfinished().map_or(Ok(()), |missing| {
                    self.push_truncated(format!(
                        "{} ends too early: {missing}; the content before was read; get the file \
                         again",
                        self.input.name()
                    ))
                });
            }
            if self.is_stream {
                self.send_batch(false)?;
            }
            if let Err(error) = self.records.fill() {
                return self.handle_read_error(error);
            }
        }
    }

    /// The next record, which may be blank.
    fn next_record(&mut self) -> Result<Option<RawRecord>, Stop> {
        let records = &self.records;
        if records.ended() && records.has_rest() && !records.has_line() {
            let is_line = records.oversize.is_none() && !self.by_end;
            if is_line && self.is_blank(records.ahead()) {
                // Not read: more of its line may follow.
                return Ok(None);
            }
            self.end_whole_records()?;
        }
        Ok(self.records.next_record())
    }

    /// Whether a line contains no record.
    fn is_blank(&self, line: &[u8]) -> bool {
        let framing = formats::definition(self.format).framing;
        let has_lines = matches!(framing, Framing::Lines | Framing::Rows);
        self.is_text && has_lines && is_blank(line, framing)
    }

    /// Moves the position in the log to a record; `end` is where it ends, if it is whole.
    fn move_to(&mut self, position: u64, end: Option<u64>) {
        let known = self.out.log.move_to(position);
        let after = known.or(self.resumed_after.take().map(|last| last.upto_bytes));
        let is_empty = |part: &Part| part.first_offset == *self.out.log.next;
        let is_new = after.is_some() || self.part.as_ref().is_none_or(is_empty);
        let is_same = |part: &Part| Some(part.upto_bytes) == end && !part.damaged;
        if is_new
            && self.out.log.known.is_empty()
            && let Some(index) = self.unfinished.iter().position(is_same)
        {
            // The content grew after this record, not within it.
            self.part = None;
            self.out.log.known = [self.unfinished.swap_remove(index)].into();
        } else if let Some(after) = after {
            // The first record after the known parts.
            self.begin_part(after);
        }
    }

    fn set_ends(&mut self) {
        let ends = match formats::definition(self.format).framing {
            _ if !self.is_text => Ends::File,
            Framing::Lines => Ends::Lines,
            // The header decides the delimiter later.
            Framing::Rows => Ends::Rows { delimiter: b',' },
            Framing::Values => {
                self.records.limit = self.options.max_document.max(self.out.sizes.record);
                Ends::Scanned(Scanner::Values(ValueScan::default()))
            }
            Framing::Elements(names) => Ends::Scanned(Scanner::Points(PointScan::new(names))),
        };
        self.records.set_ends(ends);
    }

    /// Resumes after the last known part.
    fn resume(&mut self, last: &Part) -> Result<(), Stop> {
        if formats::definition(self.format).framing == Framing::Rows {
            self.read_header()?;
        }
        let read_error = |error| Stop::Failed(self.input.read_error(error));
        let reached = self.records.skip_to(last.upto_bytes, last.line).map_err(read_error)?;
        let checkpoint = self.records.checkpoint();
        if !reached || checkpoint.is_none_or(|checkpoint| checkpoint.hash != last.hash) {
            let problem = "it changed while it was being read; run the command again".into();
            return Err(Stop::Failed(self.input.form_error(problem)));
        }
        self.out.log.log_time_ms = clock_after(self.input, last, self.options.log_time_ms);
        self.out.batch.lines_known = last.line.saturating_sub(1);
        // If no record follows, the part may still become finished.
        (self.part, self.by_end) = (Some(last.clone()), last.by_end);
        self.resumed_after = Some(last.clone());
        Ok(())
    }

    /// Reads the header of a table.
    fn read_header(&mut self) -> Result<(), Stop> {
        while self.columns.is_none() && !self.records.ended() {
            match self.records.next_record() {
                Some(record) => self.set_header(&record)?,
                None => match self.records.fill() {
                    Ok(()) => {}
                    Err(error) if self.progress.has_failed() => {
                        return Err(Stop::Failed(self.input.read_error(error)));
                    }
                    // The data is damaged within the header; the next read reports it.
                    Err(_) => return Ok(()),
                },
            }
        }
        Ok(())
    }

    fn begin_part(&mut self, from_bytes: u64) {
        if self.is_stream {
            return;
        }
        self.part = Some(Part {
            first_offset: *self.out.log.next,
            from_bytes,
            upto_bytes: from_bytes,
            line: 0,
            head: [0; 32],
            hash: [0; 32],
            format: self.format,
            by_end: self.by_end,
            damaged: false,
            finished: false,
            log_time_ms: self.out.log.log_time_ms,
        });
    }

    /// Ends the current part before a last record that is truncated or has no line end. That record
    /// becomes a part of its own, so that it can be read again when the file has grown.
    fn end_whole_records(&mut self) -> Result<(), Stop> {
        if !self.out.log.known.is_empty() {
            self.move_to(self.records.content_position(), None);
        }
        if self.by_end || !self.out.log.known.is_empty() {
            return Ok(());
        }
        self.send_batch(false)?;
        self.by_end = true;
        // Parts are contiguous: it begins where the part before was sent last, or began if that has
        // no record.
        self.begin_part(self.part.as_ref().map_or(0, |part| part.upto_bytes));
        Ok(())
    }

    /// Sends the batch with the current state of the part. A part without a record is not sent:
    /// parts are stored by their first offset, which would be that of the next part.
    fn send_batch(&mut self, finished: bool) -> Result<(), Stop> {
        if let Some(part) = &mut self.part
            && (finished || !self.out.batch.entries.is_empty())
            && *self.out.log.next > part.first_offset
            && let Some(checkpoint) = self.records.checkpoint()
            && checkpoint.bytes > 0
        {
            (part.upto_bytes, part.line) = (checkpoint.bytes, checkpoint.line);
            (part.head, part.hash) = (checkpoint.head, checkpoint.hash);
            (part.by_end, part.damaged, part.finished) = (self.by_end, self.damaged, finished);
            self.sent_parts.retain(|sent| sent.key() != part.key());
            self.sent_parts.push(part.clone());
            self.out.batch.part = Some(part.clone());
        }
        // What separates records at the end of a document is not passed.
        let reached = if finished { u64::MAX } else { self.records.content_position() };
        self.out.batch.outgrown = self.unfinished.iter().any(|part| part.upto_bytes < reached);
        self.out.flush(&self.progress)
    }

    fn push_record(&mut self, raw: RawRecord) -> Result<(), Stop> {
        let format = formats::definition(self.format);
        if format.framing == Framing::Rows && self.columns.is_none() {
            return self.set_header(&raw);
        }
        let line = raw.line;
        let whole = if let Bytes::Whole(range) = &raw.bytes { Some(range.clone()) } else { None };
        let end = whole.as_ref().map(|range| raw.position + range.len() as u64);
        if whole.is_some_and(|range| self.is_blank(self.records.bytes(range))) {
            return Ok(()); // A file that grew by blank lines alone has no new part.
        }
        self.move_to(raw.position, end);
        match raw.bytes {
            Bytes::Whole(range) => {
                let record = (format.body)(self.records.bytes(range));
                let (position, decoder) = (self.out.log.next_record(line), &self.options.decoder);
                let batch = &mut self.out.batch;
                let mut context = RecordContext::of_file(&self.out.origin);
                context.order = self.hours;
                let (text, entries) = (&mut batch.text, batch.entries.len());
                let content = match (&mut self.columns, format.read) {
                    (Some(columns), _) => Some(decoder.decode_by(
                        |row, shape, fields| columns.read(row, shape, fields),
                        record,
                        &context,
                        text,
                    )),
                    (None, Some(read)) => Some(decoder.decode_by(read, record, &context, text)),
                    (None, None) => None,
                };
                if let Some(content) = content {
                    position.push_record(batch, record, content);
                } else {
                    let (schema_id, check) = (None, &|_: &str| Ok(()));
                    let json = RawJson { value: record, context, schema_id, check };
                    decoder.split(&json, &position, batch);
                    cut_large(batch, entries, &self.out.sizes);
                }
            }
            Bytes::Unclosed(range) => {
                let problem = "a quote on this line is not closed before the end of the file, \
                               or within the size limit; the lines after it are read separately";
                let fault = SampleError::new(DeadReason::BadCsv, problem);
                self.out.push_error(self.records.bytes(range), line, fault);
            }
            Bytes::Cut(head, cut) => {
                let limit = self.records.limit;
                let message = format!("the record has {} bytes; the limit is {limit}", cut.bytes);
                self.out.push_cut(&head, line, DeadReason::Oversize, message, cut);
            }
        }
        if self.out.is_full() { self.send_batch(false) } else { Ok(()) }
    }

    fn set_header(&mut self, raw: &RawRecord) -> Result<(), Stop> {
        let form_error = |problem: String| Stop::Failed(self.input.form_error(problem));
        let Bytes::Whole(range) = &raw.bytes else {
            return Err(form_error(
                "read as CSV, its header has no end; if it is not CSV, pass --input-format ndjson"
                    .into(),
            ));
        };
        let header = self.records.bytes(range.clone());
        if is_blank(header, Framing::Rows) {
            return Ok(());
        }
        if let (None, Some(delimiter)) = (self.delimiter, csv::delimiter_line(header)) {
            self.delimiter = Some(delimiter);
            return Ok(());
        }
        let columns = Columns::new(header, self.delimiter, &self.options.decoder.shape);
        let columns = columns.map_err(|mut problem| {
            if let Some(preset) = suggest_for_table(header) {
                problem.push_str(&format!("; --preset {} reads it", preset.name));
            }
            Stop::Failed(SourceError::Header { origin: self.input.name(), problem })
        })?;
        self.records.set_ends(Ends::Rows { delimiter: columns.delimiter });
        self.columns = Some(columns);
        Ok(())
    }

    /// Handles a read error: a system error ends the source, damaged compressed data only this
    /// file.
    fn handle_read_error(&mut self, error: std::io::Error) -> Result<(), Stop> {
        if self.progress.has_failed() {
            return Err(Stop::Failed(self.input.read_error(error)));
        }
        self.damaged = true;
        // Of Parquet, the error says what to do.
        let (read, step) = match self.is_parquet {
            true => ("read", ""),
            false => ("decompressed", "; get the file again"),
        };
        let message = format!(
            "{} cannot be {read} from here on ({}); the content before was read{step}",
            self.input.name(),
            clipped(&error.to_string())
        );
        self.push_truncated(message)
    }

    /// Handles the end of an input inside a record: what is left is a dead letter.
    fn push_truncated(&mut self, message: String) -> Result<(), Stop> {
        let reason = DeadReason::TruncatedInput;
        if let Some(last) = self.resumed_after.take_if(|last| last.by_end) {
            // An earlier run stopped here, too: redeliver the record with its original offset.
            self.out.log.known = [Part { from_bytes: last.upto_bytes, ..last }].into();
        } else if self.by_end && self.out.log.known.is_empty() {
            // The record before it may turn out to be whole, and this one not.
            self.send_batch(false)?;
            self.begin_part(self.part.as_ref().map_or(0, |part| part.upto_bytes));
        } else {
            self.end_whole_records()?;
        }
        self.out.log.move_to(self.records.content_position());
        let rest = self.records.rest();
        match rest.bytes {
            Bytes::Cut(head, cut) => self.out.push_cut(&head, rest.line, reason, message, cut),
            Bytes::Whole(range) | Bytes::Unclosed(range) => {
                let fault = SampleError::new(reason, message);
                self.out.push_error(self.records.bytes(range), rest.line, fault);
            }
        }
        Ok(())
    }
}
