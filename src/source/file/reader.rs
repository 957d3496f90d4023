//! The reading thread: inputs to batches.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use super::input::{Input, Progress};
use super::resume::{clock_after, recognise};
use super::splitter::{Bytes, Ends, RawRecord, Records, Sizes};
use super::{InputFormat, Options};
use crate::model::input_part::{Part, StoredPart};
use crate::model::reason::DeadReason;
use crate::source::csv::Columns;
use crate::source::text::clipped;
use crate::source::{
    Batch, Cut, DecodedSample, Entry, JsonTemplate, SampleError, SourceError, span,
};

/// What is handed over to the processor.
pub(super) type BatchResult = Result<Batch, SourceError>;

/// Why the thread ends before the end.
enum Stop {
    /// Nobody listens any more.
    Gone,
    Failed(SourceError),
}

/// Reads all inputs and hands batches over, until the end, a failure, or nobody listens.
pub(super) fn run(inputs: &[Input], options: &Options, sizes: Sizes, to: &Sender<BatchResult>) {
    let mut offset = options.first_offset;
    let mut known = options.known.clone();
    for (input, after) in inputs.iter().zip((0..inputs.len()).rev()) {
        match read_input(input, options, sizes, to, (&known, &mut offset)) {
            // Another copy of it in the same run changes nothing either.
            Ok(parts) => known.extend(parts),
            Err(Stop::Gone) => return,
            Err(Stop::Failed(mut error)) => {
                if let (SourceError::Form { problem, .. }, 1..) = (&mut error, after) {
                    problem.push_str(&format!("; {after} more after it were not read"));
                }
                // Where nobody listens, nobody needs to know.
                drop(to.blocking_send(Err(error)));
                return;
            }
        }
    }
}

/// Reads one input, and tells what of it can be known again.
fn read_input(
    input: &Input,
    options: &Options,
    sizes: Sizes,
    to: &Sender<BatchResult>,
    (known, offset): (&[StoredPart], &mut i64),
) -> Result<Vec<StoredPart>, Stop> {
    let unreadable = |error| Stop::Failed(input.unreadable(error));
    let opened = input.open().map_err(unreadable)?;
    let live = input.bytes().is_none();
    let log =
        Log { next: offset, log_time_ms: options.log_time_ms, again: VecDeque::new(), in_part: 0 };
    let origin: Arc<str> = input.name().into();
    let out = Output { to, origin, batch: Batch::default(), log, sizes };
    let mut reading = Reading {
        input,
        options,
        records: Records::new(opened.bytes, sizes, !live),
        progress: opened.progress,
        columns: None,
        layout: JsonTemplate::default(),
        out,
        live,
        is_csv: false,
        part: None,
        behind: None,
        by_end: false,
        noted: Vec::new(),
    };
    let read = reading.all(known);
    // What was understood before a failure counts.
    let handed = reading.hand_over(read.is_ok());
    match read {
        Err(Stop::Gone) => read,
        _ => handed.and(read),
    }?;
    let noted = reading.noted.into_iter();
    Ok(noted.map(|part| StoredPart { part, import_finished: true }).collect())
}

/// One input being read.
struct Reading<'a> {
    input: &'a Input,
    options: &'a Options,
    records: Records,
    progress: Arc<Progress>,
    /// Of a table, once its header was read.
    columns: Option<Columns>,
    layout: JsonTemplate,
    out: Output<'a>,
    /// Bytes come as somebody makes them, so nothing read waits for more.
    live: bool,
    is_csv: bool,
    /// The part that is being read; `None` while records come again, or where none can be known.
    part: Option<Part>,
    /// The part behind which reading goes on, until there is anything.
    behind: Option<Part>,
    /// The end of the content told where the part's records end.
    by_end: bool,
    /// Parts that were handed over.
    noted: Vec<Part>,
}

impl Reading<'_> {
    fn all(&mut self, kept: &[StoredPart]) -> Result<(), Stop> {
        let first = match self.records.first_byte() {
            Ok(first) => first,
            Err(error) => return self.broken_off(error),
        };
        self.is_csv = match (self.options.format, first) {
            (Some(format), _) => format == InputFormat::Csv,
            (None, first) => !matches!(first, None | Some(b'{' | b'[')),
        };
        if self.is_csv {
            // Which delimiter it has, the header will tell.
            self.records.set_ends(Ends::Rows { delimiter: b',' });
        }
        let known = recognise(self.input, kept, self.is_csv);
        match known.map_err(|error| Stop::Failed(self.input.unreadable(error)))? {
            Some(known) if known.again => self.out.log.again = known.into_parts().into(),
            Some(known) => self.go_on(known.last())?,
            None => self.begin_part(0),
        }
        loop {
            while let Some(piece) = self.next_record()? {
                self.piece(piece)?;
            }
            if self.records.ended() {
                return Ok(());
            }
            if self.live {
                self.hand_over(false)?;
            }
            if let Err(error) = self.records.fill() {
                return self.broken_off(error);
            }
        }
    }

    /// The next piece, and which record of the log it will be.
    fn next_record(&mut self) -> Result<Option<RawRecord>, Stop> {
        if self.records.ended() && self.records.has_rest() {
            self.end_whole_records()?;
        }
        let at = self.records.content_position();
        let piece = self.records.next_record();
        if piece.is_some() && (self.out.log.move_to(at) || self.behind.take().is_some()) {
            // More than the known parts.
            self.begin_part(at);
        }
        Ok(piece)
    }

    /// Goes on behind what is known.
    fn go_on(&mut self, last: &Part) -> Result<(), Stop> {
        if self.is_csv {
            self.read_header()?;
        }
        let unreadable = |error| Stop::Failed(self.input.unreadable(error));
        let reached = self.records.skip_to(last.upto_bytes, last.line).map_err(unreadable)?;
        if !reached || self.records.mark().is_none_or(|mark| mark.hash != last.hash) {
            let problem = "it changed while it was being read; start again".into();
            return Err(Stop::Failed(self.input.unfit(problem)));
        }
        self.out.log.log_time_ms = clock_after(self.input, last, self.options.log_time_ms);
        self.out.batch.lines_known = last.line.saturating_sub(1);
        // All that may be news is that it ends here.
        (self.part, self.by_end) = (Some(last.clone()), last.by_end);
        self.behind = Some(last.clone());
        Ok(())
    }

    /// Reads up to the end of the header of a table.
    fn read_header(&mut self) -> Result<(), Stop> {
        while self.columns.is_none() && !self.records.ended() {
            match self.records.next_record() {
                Some(piece) => self.header(&piece)?,
                None => match self.records.fill() {
                    Ok(()) => {}
                    Err(error) if self.progress.has_failed() => {
                        return Err(Stop::Failed(self.input.unreadable(error)));
                    }
                    // It breaks off within the header, as it did before: reading on tells so.
                    Err(_) => return Ok(()),
                },
            }
        }
        Ok(())
    }

    fn begin_part(&mut self, from_bytes: u64) {
        if self.live {
            return;
        }
        self.part = Some(Part {
            first_offset: *self.out.log.next,
            from_bytes,
            upto_bytes: from_bytes,
            line: 0,
            head: [0; 32],
            hash: [0; 32],
            is_csv: self.is_csv,
            by_end: self.by_end,
            finished: false,
            log_time_ms: self.out.log.log_time_ms,
        });
    }

    /// What follows has no line end, or breaks off: it is a part of its own, so that the rest can
    /// be read again when there is more of it.
    fn end_whole_records(&mut self) -> Result<(), Stop> {
        if self.by_end || !self.out.log.again.is_empty() {
            return Ok(());
        }
        self.hand_over(false)?;
        self.by_end = true;
        // A part goes on where another ends, so one that has no record yet becomes this one.
        let unused = self.part.as_ref().filter(|part| part.upto_bytes == part.from_bytes);
        self.begin_part(unused.map_or(self.records.content_position(), |part| part.from_bytes));
        Ok(())
    }

    /// Hands over what was read, with the part as it is now. Nothing is told of a part without a
    /// record: the place in the log, by which it is kept, is that of the record after it.
    fn hand_over(&mut self, finished: bool) -> Result<(), Stop> {
        if let Some(part) = &mut self.part
            && (finished || !self.out.batch.entries.is_empty())
            && *self.out.log.next > part.first_offset
            && let Some(mark) = self.records.mark()
            && mark.bytes > 0
        {
            (part.upto_bytes, part.line) = (mark.bytes, mark.line);
            (part.head, part.hash) = (mark.head, mark.hash);
            (part.by_end, part.finished) = (self.by_end, finished);
            self.noted.retain(|noted| noted.key() != part.key());
            self.noted.push(part.clone());
            self.out.batch.part = Some(part.clone());
        }
        self.out.flush(&self.progress)
    }

    fn piece(&mut self, piece: RawRecord) -> Result<(), Stop> {
        let is_csv = self.is_csv;
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
                    None => decoder.json_like(&mut self.layout, record, text),
                };
                self.out.push(record, line, content);
            }
            Bytes::Unclosed(place) => {
                let problem = "a quote on this line is not closed before the end of the file, \
                               or within the size limit; the lines after it are read by themselves";
                let fault = SampleError::new(DeadReason::BadCsv, problem);
                self.out.push(self.records.bytes(place), line, Err(Box::new(fault)));
            }
            Bytes::Cut(head, cut) => {
                let limit = self.out.sizes.record;
                let message = format!("the record has {} bytes, over {limit}", cut.bytes);
                self.out.push_cut(&head, line, DeadReason::Oversize, message, cut);
            }
        }
        if self.out.is_full() { self.hand_over(false) } else { Ok(()) }
    }

    fn header(&mut self, piece: &RawRecord) -> Result<(), Stop> {
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
        if self.progress.has_failed() {
            return Err(Stop::Failed(self.input.unreadable(error)));
        }
        let message = format!(
            "{} cannot be decompressed from here on ({}); what came before was read, get it again",
            self.input.name(),
            clipped(&error.to_string())
        );
        let reason = DeadReason::TruncatedInput;
        if let Some(last) = self.behind.take_if(|last| last.by_end) {
            // An earlier run saw the same: this comes again as the record that it was.
            self.out.log.again = [Part { from_bytes: last.upto_bytes, ..last }].into();
        } else {
            self.end_whole_records()?;
        }
        self.out.log.move_to(self.records.content_position());
        let rest = self.records.rest();
        match rest.bytes {
            Bytes::Cut(head, cut) => self.out.push_cut(&head, rest.line, reason, message, cut),
            Bytes::Whole(place) | Bytes::Unclosed(place) => {
                let fault = Box::new(SampleError::new(reason, message));
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

/// Gives records their places in the log.
struct Log<'a> {
    /// Offset of the next record that was not delivered before.
    next: &'a mut i64,
    log_time_ms: i64,
    /// Parts whose records come again, and how many of the first one's have come.
    again: VecDeque<Part>,
    in_part: i64,
}

impl Log<'_> {
    /// Says where in the content the next record begins. Returns whether the records that come
    /// again have ended with the one before.
    fn move_to(&mut self, bytes: u64) -> bool {
        let mut moved = false;
        // A part of no bytes is that the content breaks off there.
        let is_over = |part: &Part| bytes >= part.upto_bytes && bytes > part.from_bytes;
        while self.again.front().is_some_and(is_over) {
            self.again.pop_front();
            (self.in_part, moved) = (0, true);
        }
        moved && self.again.is_empty()
    }

    /// Offset and timestamp of the next record.
    fn next_position(&mut self) -> (i64, i64) {
        if let Some(part) = self.again.front() {
            let offset = part.first_offset + self.in_part;
            self.in_part += 1;
            return (offset, part.log_time_ms);
        }
        let offset = *self.next;
        *self.next = offset.saturating_add(1);
        (offset, self.log_time_ms)
    }
}

/// Entries on their way into a batch.
struct Output<'a> {
    to: &'a Sender<BatchResult>,
    origin: Arc<str>,
    batch: Batch,
    log: Log<'a>,
    sizes: Sizes,
}

impl Output<'_> {
    fn push(&mut self, record: &[u8], line: u64, content: Result<DecodedSample, Box<SampleError>>) {
        let start = self.batch.raw.len();
        self.batch.raw.extend_from_slice(record);
        let again = !self.log.again.is_empty();
        let (offset, log_time_ms) = self.log.next_position();
        let (element, key, raw) = (None, None, span(start, self.batch.raw.len()));
        let entry = Entry { offset, element, line, log_time_ms, again, raw, key, content };
        self.batch.entries.push(entry);
    }

    fn push_cut(&mut self, head: &[u8], line: u64, reason: DeadReason, message: String, cut: Cut) {
        let fault = SampleError { cut: Some(cut), ..SampleError::new(reason, message) };
        self.push(head, line, Err(Box::new(fault)));
    }

    fn is_full(&self) -> bool {
        self.batch.entries.len() >= self.sizes.batch_entries
            || self.batch.raw.len() >= self.sizes.batch_bytes
    }

    /// Hands the batch over, if it tells anything.
    fn flush(&mut self, progress: &Progress) -> Result<(), Stop> {
        let Batch { entries, part, lines_known, .. } = &self.batch;
        if entries.is_empty() && part.is_none() && *lines_known == 0 {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.origin = Arc::clone(&self.origin);
        batch.bytes_read = progress.bytes();
        self.batch.raw.reserve(batch.raw.len());
        self.batch.text.reserve(batch.text.len());
        self.batch.entries.reserve(batch.entries.len());
        self.to.blocking_send(Ok(batch)).map_err(|_| Stop::Gone)
    }
}
