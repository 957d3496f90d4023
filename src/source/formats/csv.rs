//! CSV rows and cells (RFC 4180).
//!
//! Rows are split here rather than by the `csv` crate: the crate accepts bad quotes silently, and a
//! dead letter needs the original bytes of its row. The tests compare the two.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::model::reason::DeadReason;
use crate::source::fields::{Field, Place};
use crate::source::join::Join;
use crate::source::record::Fields;
use crate::source::shape::Shape;
use crate::source::text::short;
use crate::source::value::{Commas, Value};
use crate::source::{NoSample, SampleError};

/// State of the row scanner before a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::source) enum RowState {
    /// At the start of a cell.
    #[default]
    Start,
    /// In a cell without quotes, or after the end of a quoted one.
    Plain,
    /// Between quotes.
    Quoted,
    /// After a quote that ends a cell, or is the first of two.
    Quote,
}

impl RowState {
    fn after(self, byte: u8, delimiter: u8) -> Self {
        match (self, byte) {
            (Self::Quoted, b'"') => Self::Quote,
            (Self::Start | Self::Quote, b'"') | (Self::Quoted, _) => Self::Quoted,
            _ if byte == delimiter => Self::Start,
            _ => Self::Plain,
        }
    }
}

/// Finds the index of the line end that ends the row. Scans from `from` in state `state` and
/// updates both, so that a later call continues.
///
/// `open` is an index up to which a row that is between quotes at an earlier line end stays between
/// quotes. If a quote is never closed, a row is searched from each line in turn; with `open`, the
/// search skips the bytes that were already scanned.
pub(in crate::source) fn row_end(
    bytes: &[u8],
    from: &mut usize,
    state: &mut RowState,
    open: &mut usize,
    delimiter: u8,
) -> Option<usize> {
    if *state == RowState::Start {
        // Fast path: nearly all rows have no quotes.
        match memchr2(b'\n', b'"', &bytes[*from..]) {
            Some(end) if bytes[*from + end] == b'\n' => return Some(*from + end),
            _ => {}
        }
    }
    let mut index = *from;
    while let Some(&byte) = bytes.get(index) {
        if byte == b'\n' {
            if *state != RowState::Quoted {
                *from = index;
                return Some(index);
            }
            *open = (*open).max(index + 1);
            index = *open;
            continue;
        }
        *state = state.after(byte, delimiter);
        index += 1;
    }
    *from = bytes.len();
    None
}

/// A cell of a row, without its quotes.
#[derive(Debug)]
struct Cell {
    range: Range<usize>,
    /// Whether it contains doubled quotes.
    doubled: bool,
}

impl Cell {
    fn text<'a>(&self, row: &'a str) -> Cow<'a, str> {
        let text = &row[self.range.clone()];
        if self.doubled { Cow::Owned(text.replace("\"\"", "\"")) } else { Cow::Borrowed(text) }
    }
}

/// Splits a row into cells.
fn split(row: &str, delimiter: u8, cells: &mut Vec<Cell>) -> Result<(), &'static str> {
    cells.clear();
    let bytes = row.as_bytes();
    let mut start = 0;
    loop {
        let end = if bytes.get(start) == Some(&b'"') {
            let cell = quoted(bytes, start)?;
            let end = cell.range.end + 1;
            cells.push(cell);
            end
        } else {
            let rest = &bytes[start..];
            let end = start + memchr(delimiter, rest).unwrap_or(rest.len());
            if memchr(b'"', &bytes[start..end]).is_some() {
                return Err("a quote is inside a cell that does not begin with one");
            }
            cells.push(Cell { range: start..end, doubled: false });
            end
        };
        match bytes.get(end) {
            None => return Ok(()),
            Some(byte) if *byte == delimiter => start = end + 1,
            Some(_) => return Err("text follows the quote that ends a cell"),
        }
    }
}

fn quoted(bytes: &[u8], start: usize) -> Result<Cell, &'static str> {
    let (mut at, mut doubled) = (start + 1, false);
    loop {
        let Some(quote) = memchr(b'"', &bytes[at..]) else {
            return Err("a quote is not closed");
        };
        at += quote + 1;
        if bytes.get(at) != Some(&b'"') {
            return Ok(Cell { range: start + 1..at - 1, doubled });
        }
        (at, doubled) = (at + 1, true);
    }
}

/// The columns of a table that contain fields.
#[derive(Debug)]
pub(in crate::source) struct Columns {
    pub(in crate::source) delimiter: u8,
    count: usize,
    /// What a comma in a cell of a number is.
    commas: Commas,
    /// Index of each cell that contains a field, and the child of its name.
    wanted: Vec<(usize, usize)>,
    /// Buffer, reused for each row.
    cells: Vec<Cell>,
}

impl Columns {
    /// Parses a header. `delimiter`: that of a line before it; unset: detected.
    ///
    /// # Errors
    /// Why no row can be read, and what to do.
    pub(in crate::source) fn new(
        header: &[u8],
        delimiter: Option<u8>,
        shape: &Shape,
    ) -> Result<Self, String> {
        if let Some((name, text)) = shape.map.nested() {
            return Err(format!(
                "it is CSV, and --map {name}={text} is for nested values; map the name of a column"
            ));
        }
        let Ok(header) = std::str::from_utf8(header) else {
            return Err("its first line is not UTF-8, so it is neither NDJSON nor CSV; if it is \
                        text in another encoding, name that, such as --encoding cp1252"
                .into());
        };
        if header.contains('\0') {
            return Err("its first line has NUL bytes, so it is not text; name a file of NDJSON, \
                        CSV, GPX or NMEA"
                .into());
        }
        let delimiter = delimiter.unwrap_or_else(|| delimiter_of(header));
        let mut cells = Vec::new();
        split(header, delimiter, &mut cells).map_err(|problem| {
            let hint = match header.contains("\t{") {
                true => "; --input-format rec reads JSON after other columns of a line",
                false => "",
            };
            format!("its header {}: {problem}{hint}", short(header))
        })?;
        let mut wanted: Vec<(usize, usize)> = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            let name = cell.text(header);
            let Some(child) = shape.root.child(&name) else { continue };
            if wanted.iter().any(|(_, known)| *known == child) {
                return Err(format!("two columns are named {}; rename one", short(&name)));
            }
            wanted.push((at, child));
        }
        let commas = commas_of(delimiter);
        let columns = Self { delimiter, count: cells.len(), commas, wanted, cells };
        columns.check(header, shape)?;
        Ok(columns)
    }

    /// Number of columns that contain fields.
    pub(in crate::source) fn fields(&self) -> usize {
        self.wanted.len()
    }

    fn check(&self, header: &str, shape: &Shape) -> Result<(), String> {
        let places = self.wanted.iter().flat_map(|(_, child)| {
            shape.root.children[*child].node.targets.iter().map(|target| target.place)
        });
        let has_part = |part: usize| {
            places.clone().any(|place| matches!(place, Place::Extra(it) if usize::from(it) == part))
        };
        let has_parts = |join: &Join| join.has_parts(has_part);
        let has = |field: Field| {
            let mut targets =
                self.wanted.iter().flat_map(|(_, child)| &shape.root.children[*child].node.targets);
            let given = shape.given.iter().map(|(target, _)| target);
            targets.any(|target| target.field() == Some(field))
                || given.clone().any(|target| target.field() == Some(field))
                || shape.joins.iter().any(|join| join.field() == Some(field) && has_parts(join))
        };
        match Field::REQUIRED.into_iter().find(|field| !has(*field)) {
            None => Ok(()),
            Some(field) => {
                let hint = match self.count {
                    1 => {
                        "; if that is a title, remove the lines above the header, such as one with \
                         tail -n +2; if it is not CSV, pass --input-format ndjson"
                    }
                    _ => "",
                };
                Err(format!(
                    "read as CSV, {}; its columns are {}{hint}",
                    shape.absent(field),
                    short(header)
                ))
            }
        }
    }

    /// Collects the values of a row.
    ///
    /// # Errors
    /// `bad_csv`.
    pub(in crate::source) fn read<'a>(
        &mut self,
        row: &'a str,
        shape: &Shape,
        fields: &mut Fields<'a>,
    ) -> Result<(), NoSample> {
        let bad = |message: String| Box::new(SampleError::new(DeadReason::BadCsv, message));
        split(row, self.delimiter, &mut self.cells)
            .map_err(|problem| bad(format!("{problem}: {}", short(row))))?;
        if self.cells.len() != self.count {
            let (found, expected) = (self.cells.len(), self.count);
            return Err(bad(format!(
                "the row has {found} cells, the header {expected}: {}",
                short(row)
            ))
            .into());
        }
        fields.commas = self.commas;
        for (at, child) in &self.wanted {
            let cell = &self.cells[*at];
            if !cell.range.is_empty() {
                let node = &shape.root.children[*child].node;
                match cell.text(row) {
                    Cow::Borrowed(text) => fields.offer(&node.targets, Value::Cell(text)),
                    Cow::Owned(text) => fields.offer_copy(&node.targets, &text, true),
                }
            }
        }
        Ok(())
    }
}

/// The delimiter that a line before the header names, as in `sep=;`, which spreadsheets write.
pub(in crate::source) fn delimiter_line(line: &[u8]) -> Option<u8> {
    match line.trim_ascii_end() {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] => Some(*delimiter),
        // A tab, which is white space.
        b"sep=" if line.starts_with(b"sep=\t") => Some(b'\t'),
        _ => None,
    }
}

/// Detects the delimiter: what the header has most of outside of quotes.
pub(in crate::source) fn delimiter_of(header: &str) -> u8 {
    let count = |delimiter: u8| {
        let parts = header.split('"').step_by(2);
        parts.map(|part| memchr::memchr_iter(delimiter, part.as_bytes()).count()).sum::<usize>()
    };
    // Of equal counts, the first one.
    let all = [b',', b';', b'\t', b'|'].into_iter().rev();
    all.max_by_key(|delimiter| count(*delimiter)).unwrap_or(b',')
}

/// What a comma in a number is. Tables from locales with a decimal comma use `;` or tabs; tabs are
/// also usual in others.
pub(in crate::source) fn commas_of(delimiter: u8) -> Commas {
    match delimiter {
        b';' => Commas::Points,
        b'\t' | b'|' => Commas::ThousandsOrPoints,
        _ => Commas::None,
    }
}

/// The texts of the cells of a row.
///
/// # Errors
/// What is wrong with its quotes.
pub(in crate::source) fn texts(row: &str, delimiter: u8) -> Result<Vec<String>, &'static str> {
    let mut cells = Vec::new();
    split(row, delimiter, &mut cells)?;
    Ok(cells.iter().map(|cell| cell.text(row).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(row: &str) -> Result<Vec<String>, &'static str> {
        super::texts(row, b',')
    }

    #[test]
    fn the_delimiter_is_what_a_header_has_most_of() {
        for (header, expected) in [
            ("a,b;c", b','),
            ("a;b;\"c, d, e\"", b';'),
            ("Lat, Grad\tb\tc", b'\t'),
            ("a|b|c", b'|'),
            ("a", b','),
        ] {
            assert_eq!(delimiter_of(header), expected, "{header}");
        }
        for (line, expected) in [
            (&b"sep=;\r"[..], Some(b';')),
            (b"SEP=,", Some(b',')),
            (b"sep=\t", Some(b'\t')),
            (b"sep=", None),
            (b"sep=;;", None),
            (b"a;b", None),
        ] {
            assert_eq!(delimiter_line(line), expected, "{line:?}");
        }
    }

    #[test]
    fn bad_quotes_are_rejected() {
        for row in ["a\"b,c", "\"a\"b,c", "\"a", "a,\"", "\"a\"\"", "a,\"b\" "] {
            assert!(texts(row).is_err(), "{row}");
        }
        assert_eq!(texts("").unwrap(), [""]);
        assert_eq!(texts("a,\"\",\"b\"\"c\nd\",").unwrap(), ["a", "", "b\"c\nd", ""]);
    }

    #[test]
    fn a_row_skips_what_an_open_row_before_it_scanned() {
        let mut bytes = b"x\",\"\n".repeat(100);
        let mut open = 0;
        for start in [0, 5, 10] {
            let (mut from, mut state) = (start, RowState::default());
            assert_eq!(row_end(&bytes, &mut from, &mut state, &mut open, b','), None);
            assert_eq!((from, state, open), (500, RowState::Quoted, 500));
            // A row end that the next row would find if it scanned these bytes again.
            bytes[20..22].copy_from_slice(b"\"\n");
        }
    }

    proptest! {
        #[test]
        fn parses_what_the_csv_crate_writes(
            rows in prop::collection::vec(prop::collection::vec("[a,\"\n\r é;]{0,6}", 2..5), 1..6),
        ) {
            let mut writer = ::csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
            for row in &rows {
                writer.write_record(row).unwrap();
            }
            let bytes = writer.into_inner().unwrap();
            let mut start = 0;
            for row in &rows {
                let (mut from, mut state, mut open) = (start, RowState::default(), 0);
                let end = row_end(&bytes, &mut from, &mut state, &mut open, b',').unwrap();
                let read = texts(std::str::from_utf8(&bytes[start..end]).unwrap());
                prop_assert_eq!(read.as_ref(), Ok(row));
                start = end + 1;
            }
            prop_assert_eq!(start, bytes.len());
        }
    }
}
