//! The first rows of a table, as text.

use std::borrow::Cow;

use super::formats::csv::{RowState, commas_of, delimiter_line, delimiter_of, row_end, texts};

/// Maximum number of rows.
const MAX_ROWS: usize = 500;

/// The first rows of a table.
#[derive(Debug, Default)]
pub(crate) struct TableSample {
    /// Names of the columns.
    pub names: Vec<String>,
    /// The cells of each row; a decimal comma is a point.
    pub rows: Vec<Vec<String>>,
    /// The lines of the header and of the first rows.
    pub lines: Vec<String>,
}

/// Number of rows that are shown.
const SHOWN: usize = 3;

impl TableSample {
    /// Reads the beginning of a table; rows of another length are left out.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut sample = Self::default();
        let (mut delimiter, mut start, mut open) = (None, 0, 0);
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        while start < text.len() && sample.rows.len() < MAX_ROWS {
            let (mut from, mut state) = (start, RowState::default());
            let mark = delimiter.unwrap_or(b',');
            let end = row_end(text, &mut from, &mut state, &mut open, mark).unwrap_or(text.len());
            let row = String::from_utf8_lossy(text[start..end].trim_ascii_end());
            start = end + 1;
            if row.trim().is_empty() {
                continue;
            }
            if let (None, Some(named)) = (delimiter, delimiter_line(row.as_bytes())) {
                delimiter = Some(named);
                continue;
            }
            let mark = *delimiter.get_or_insert_with(|| delimiter_of(&row));
            sample.add(&row, mark);
        }
        sample
    }

    fn add(&mut self, row: &str, delimiter: u8) {
        let Ok(cells) = texts(row, delimiter) else { return };
        if self.names.is_empty() {
            self.names = cells;
            self.lines.push(row.to_owned());
        } else if cells.len() == self.names.len() {
            if self.rows.len() < SHOWN {
                self.lines.push(row.to_owned());
            }
            let commas = commas_of(delimiter);
            let plain = |cell: String| match commas.to_points(cell.trim()) {
                Cow::Owned(cell) => cell,
                Cow::Borrowed(cell) => cell.to_owned(),
            };
            self.rows.push(cells.into_iter().map(plain).collect());
        }
    }
}
