//! Detects the format of an input from its content.

use std::io;

use serde::de::IgnoredAny;
use serde_json::error::Category;
use tokio::sync::mpsc::channel;

use super::input::Input;
use super::points::Root;
use super::reader::Reading;
use super::scanner::root_of;
use super::{InputFormat, archive};
use super::{Options, SIZES};
use crate::model::scalar::Offset;
use crate::model::visible::shell_word;
use crate::source::SourceError;
use crate::source::formats::{Framing, definition};

/// Bytes that decide whether JSON is a document or lines, unless its first line does.
const LOOKAHEAD: usize = 16 << 10;

/// Why the format of an input is not known.
pub(super) enum Undetected {
    /// It cannot be read.
    Unreadable(io::Error),
    /// Its content is of no format.
    Unknown(String),
}

/// The format of an input.
///
/// # Errors
/// The input cannot be read, or its content is of no format.
pub(super) fn format_of(input: &Input, options: &Options) -> Result<InputFormat, SourceError> {
    let (sender, mut offset) = (channel(1).0, Offset(0));
    let mut reading = Reading::new(input, options, SIZES, &sender, &mut offset)?;
    reading.detect_format().map_err(|undetected| match undetected {
        Undetected::Unreadable(error) => input.read_error(error),
        Undetected::Unknown(problem) => input.form_error(problem),
    })
}

impl Reading<'_> {
    /// Detects the format, unless the options name it. Skips a byte order mark.
    pub(super) fn detect_format(&mut self) -> Result<InputFormat, Undetected> {
        match (self.is_parquet, self.options.format) {
            (true, None | Some(InputFormat::Parquet)) => return Ok(InputFormat::Parquet),
            (true, Some(_)) => {
                let problem = "it is Parquet: leave --input-format out";
                return Err(Undetected::Unknown(problem.into()));
            }
            (false, Some(InputFormat::Parquet)) => {
                let problem = "it is not Parquet: leave --input-format out";
                return Err(Undetected::Unknown(problem.into()));
            }
            (false, _) => {}
        }
        // A first read may return the byte order mark alone.
        let has_content = |ahead: &[u8]| {
            let text = ahead.strip_prefix(b"\xef\xbb\xbf").unwrap_or(ahead);
            !text.trim_ascii_start().is_empty() || ahead.len() >= LOOKAHEAD
        };
        while !has_content(self.records.ahead()) && self.records.read_ahead() {}
        self.is_text = self.options.decoder.is_text(self.records.ahead());
        if !self.is_text {
            // A record by itself, in no format of text.
            return Ok(InputFormat::Ndjson);
        }
        let first = self.records.first_byte().map_err(Undetected::Unreadable)?;
        if let Some(problem) = self.archive() {
            return Err(Undetected::Unknown(problem));
        }
        if let Some(format) = self.options.format {
            return Ok(format);
        }
        match first {
            None => Ok(InputFormat::Ndjson),
            Some(b'{' | b'[') => Ok(self.detect_json()),
            Some(b'<') => self.detect_xml(),
            Some(b'$' | b'!' | b'0'..=b'9') => Ok(format_of_line(self.first_line())),
            Some(_) => Ok(InputFormat::Csv),
        }
    }

    /// Why the content cannot be read, if it is an archive.
    fn archive(&mut self) -> Option<String> {
        while archive::may_begin(self.records.ahead()) && self.records.read_ahead() {}
        let path = shell_word(&self.input_name());
        archive::problem(self.records.ahead(), &path, self.compression)
    }

    /// The first line that is not blank, or its head.
    fn first_line(&mut self) -> &[u8] {
        let is_whole = |ahead: &[u8]| ahead.trim_ascii_start().contains(&b'\n');
        while !is_whole(self.records.ahead()) && self.records.ahead().len() < LOOKAHEAD {
            if !self.records.read_ahead() {
                break;
            }
        }
        let ahead = self.records.ahead().trim_ascii_start();
        ahead.split(|byte| *byte == b'\n').next().unwrap_or_default()
    }

    /// A document, or a value per line: it is a document if its first line is the beginning of a
    /// value. A line that is cut off, as the first one of a log may be, does not begin one.
    fn detect_json(&mut self) -> InputFormat {
        let mut has_more = true;
        loop {
            let ahead = self.records.ahead().trim_ascii_start();
            let end = ahead.iter().position(|byte| *byte == b'\n');
            let line = &ahead[..end.unwrap_or(ahead.len())];
            if (end.is_some() || !has_more) && is_value(line) {
                return InputFormat::Ndjson;
            }
            let lines = ahead.split(|byte| *byte == b'\n').count();
            let is_enough = match end {
                Some(_) => ahead.len() >= LOOKAHEAD || (self.is_stream && lines > 2),
                // A longer line could not be read as one.
                None => ahead.len() > self.records.limit,
            };
            if is_enough || !has_more {
                return if begins_value(ahead) { InputFormat::Json } else { InputFormat::Ndjson };
            }
            has_more = self.records.read_ahead();
        }
    }

    fn detect_xml(&mut self) -> Result<InputFormat, Undetected> {
        loop {
            let ahead = self.records.ahead();
            let roots =
                InputFormat::ALL.iter().filter_map(|format| match definition(*format).framing {
                    Framing::Elements(names) => Some((*format, root_of(names, ahead))),
                    _ => None,
                });
            let mut own = roots.filter(|(_, root)| *root != Root::Foreign).peekable();
            let Some((likely, _)) = own.peek().copied() else {
                return Err(Undetected::Unknown(foreign_xml()));
            };
            if let Some((format, _)) = own.find(|(_, root)| *root != Root::Unknown) {
                return Ok(format);
            }
            if ahead.len() >= LOOKAHEAD || !self.records.read_ahead() {
                return Ok(likely);
            }
        }
    }
}

/// What is wrong with XML of no known format.
fn foreign_xml() -> String {
    let is_xml = |format: &InputFormat| matches!(definition(*format).framing, Framing::Elements(_));
    let known = InputFormat::ALL.iter().filter(|format| is_xml(format));
    let known: Vec<_> = known.map(|format| format.name().to_uppercase()).collect();
    let known = known.join(" or ");
    format!("it is XML, but not {known}; convert it to {known}, or export it as CSV or JSON")
}

/// Whether a line is one JSON value.
fn is_value(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Whether bytes begin with a JSON value, or are the beginning of one.
fn begins_value(bytes: &[u8]) -> bool {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    match values.next() {
        None | Some(Ok(_)) => true,
        Some(Err(error)) => error.classify() == Category::Eof,
    }
}

/// The format of a file whose first line begins like a sentence, a time or a number.
fn format_of_line(line: &[u8]) -> InputFormat {
    let found = InputFormat::ALL.iter().find(|format| (definition(**format).is_record)(line));
    found.copied().unwrap_or(InputFormat::Csv)
}

/// Whether a line contains no record. In a table, a tab separates cells.
pub(super) fn is_blank(record: &[u8], framing: Framing) -> bool {
    let is_tab = |byte: u8| byte == b'\t' && framing != Framing::Rows;
    let space = |byte: &u8| matches!(byte, b' ' | b'\r') || is_tab(*byte);
    record.iter().all(space)
}
