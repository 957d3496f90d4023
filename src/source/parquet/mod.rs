//! Parquet as lines of JSON: an object for each row, with its columns by their names.
//!
//! A file is then read as any other: its lines are records, dead letters and what recognises it.
//! Columns of lists are left out; those of a structure have names such as `gps.lat`.

mod cells;
mod pages;
mod thrift;

use std::fs::File;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::column::reader::get_column_reader;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};

use self::cells::Column;
use self::pages::{Pages, Source, damaged, refused};
use self::thrift::Walk;

/// The first and the last bytes of a file.
pub(super) const MAGIC: &[u8; 4] = b"PAR1";

/// Maximum size of the description at the end of a file, bytes.
const MAX_FOOTER: u32 = 8 << 20;

/// Maximum number of columns that are read.
const MAX_COLUMNS: usize = 2000;

/// Number of rows read at once.
const BATCH: usize = 1024;

/// Number of bytes of text that are made at once.
const CHUNK: usize = 64 << 10;

/// The rows of a file as lines of JSON.
pub(super) struct Rows {
    source: Arc<Source>,
    file: ParquetMetaData,
    /// Indices of the columns that are read.
    chosen: Vec<usize>,
    /// Index of the next row group.
    next_group: usize,
    columns: Vec<Column>,
    /// Number of rows of the group that were not read yet.
    left: usize,
    /// Number of rows that were read and not written, and the index of the next one.
    rows: usize,
    row: usize,
    /// Index of the next column in the row, and whether the row has a value.
    column: usize,
    has_value: bool,
    out: Vec<u8>,
    at: usize,
}

/// What is wrong with a file, and what to do.
fn invalid(error: &ParquetError) -> io::Error {
    let text = match error {
        ParquetError::NYI(text) => text.clone(),
        ParquetError::General(text) => format!("{text}: get the file again"),
        other => format!("{other}: get the file again"),
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("this Parquet file cannot be read: {text}"))
}

/// Runs code that should not panic, whatever a file says.
fn caught<T>(run: impl FnOnce() -> Result<T>) -> io::Result<T> {
    let result = catch_unwind(AssertUnwindSafe(run));
    result.unwrap_or_else(|_| Err(damaged("it is damaged"))).map_err(|error| invalid(&error))
}

impl Rows {
    /// Opens a file. `on_read` is called with the number of bytes that were read.
    ///
    /// # Errors
    /// The file is damaged, or written in a way that is not read.
    pub(super) fn open(
        file: File,
        on_read: Box<dyn Fn(io::Result<usize>) + Send + Sync>,
    ) -> io::Result<Self> {
        let source = Arc::new(Source::new(file, on_read)?);
        caught(|| {
            let file = footer(&source)?;
            let chosen = chosen(&file)?;
            Ok(Self {
                source: Arc::clone(&source),
                file,
                chosen,
                next_group: 0,
                columns: Vec::new(),
                left: 0,
                rows: 0,
                row: 0,
                column: 0,
                has_value: false,
                out: Vec::new(),
                at: 0,
            })
        })
    }

    /// Makes text, unless all rows were written.
    fn fill(&mut self) -> Result<()> {
        self.out.clear();
        self.at = 0;
        while self.out.len() < CHUNK {
            if self.row == self.rows && !self.read_batch()? {
                return Ok(());
            }
            self.write_value();
        }
        Ok(())
    }

    /// Writes the next value of the row, with what is before it, or the end of the row.
    fn write_value(&mut self) {
        if self.column == 0 {
            self.out.push(b'{');
            self.has_value = false;
        }
        if let Some(column) = self.columns.get_mut(self.column) {
            self.has_value |= column.write(self.row, !self.has_value, &mut self.out);
            self.column += 1;
        }
        if self.column == self.columns.len() {
            self.out.extend_from_slice(b"}\n");
            (self.column, self.row) = (0, self.row + 1);
        }
    }

    /// Reads the next rows; returns false if there are none.
    fn read_batch(&mut self) -> Result<bool> {
        while self.left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            self.open_group()?;
        }
        let rows = BATCH.min(self.left);
        for column in &mut self.columns {
            if column.read(rows)? != rows {
                return Err(damaged("a column has fewer rows than the file says"));
            }
        }
        self.left -= rows;
        (self.rows, self.row) = (rows, 0);
        Ok(true)
    }

    fn open_group(&mut self) -> Result<()> {
        let group = self.file.row_group(self.next_group);
        self.next_group += 1;
        // The pages of the group before are no longer held.
        self.columns.clear();
        let rows = usize::try_from(group.num_rows());
        self.left = rows.map_err(|_| damaged("a row group has a negative number of rows"))?;
        for index in &self.chosen {
            let chunk = group.columns().get(*index);
            let chunk = chunk.ok_or_else(|| damaged("a row group has too few columns"))?;
            let description = chunk.column_descr_ptr();
            let kind = (description.physical_type(), description.max_def_level() > 0);
            let range = range(chunk)?;
            let pages = Pages::new(Arc::clone(&self.source), range, chunk.compression(), kind);
            let reader = get_column_reader(Arc::clone(&description), Box::new(pages));
            self.columns.push(Column::new(&description, reader));
        }
        Ok(())
    }
}

impl Read for Rows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.out.len() {
            caught(|| self.fill())?;
        }
        let left = &self.out[self.at..];
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.at += length;
        Ok(length)
    }
}

/// The description of a file, checked before it is decoded.
fn footer(source: &Source) -> Result<ParquetMetaData> {
    let tail = source.read(source.length.saturating_sub(8), 8)?;
    let (Some(length), Some(magic)) = (tail.first_chunk(), tail.get(4..)) else {
        return Err(damaged("it is too short"));
    };
    let length = u32::from_le_bytes(*length);
    match magic {
        b"PARE" => return Err(refused("it is encrypted: decrypt it first")),
        b"PAR1" => {}
        _ => return Err(damaged("it has no end")),
    }
    if length > MAX_FOOTER || u64::from(length) + 12 > source.length {
        return Err(damaged("its description is damaged, or larger than 8 MB"));
    }
    let start = source.length - 8 - u64::from(length);
    let bytes = source.read(start, length as usize)?;
    let walked = Walk::new(&bytes).structure(&mut |_, _| {});
    walked.ok_or_else(|| damaged("its description is damaged, or has too many parts"))?;
    ParquetMetaDataReader::decode_metadata(&bytes)
}

/// The columns that are read: all but those of lists.
fn chosen(file: &ParquetMetaData) -> Result<Vec<usize>> {
    let columns = file.file_metadata().schema_descr().columns();
    let flat = columns.iter().enumerate().filter(|(_, column)| column.max_rep_level() == 0);
    let chosen: Vec<usize> = flat.map(|(index, _)| index).take(MAX_COLUMNS).collect();
    if chosen.is_empty() {
        return Err(refused("it has no column of single values"));
    }
    for chunk in file.row_groups().iter().flat_map(|group| group.columns()) {
        match chunk.compression() {
            Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::ZSTD(_) => {}
            other => {
                return Err(refused(format!(
                    "compression {other} is not read: write the file again with snappy or zstd"
                )));
            }
        }
    }
    Ok(chosen)
}

/// Where the pages of a column are: position and length.
fn range(chunk: &ColumnChunkMetaData) -> Result<(u64, u64)> {
    let dictionary = chunk.dictionary_page_offset().filter(|offset| *offset > 0);
    let start = dictionary.map_or(chunk.data_page_offset(), |it| it.min(chunk.data_page_offset()));
    let start = u64::try_from(start);
    let length = u64::try_from(chunk.compressed_size());
    start.ok().zip(length.ok()).ok_or_else(|| damaged("the place of a column is negative"))
}

#[cfg(test)]
mod tests;
