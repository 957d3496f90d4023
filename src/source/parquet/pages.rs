//! The pages of a column, in bounded memory: sizes are checked before anything is allocated.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

use super::thrift::{Field, Walk};

/// Maximum size of a page, as stored and decompressed, bytes.
const MAX_PAGE: usize = 64 << 20;

/// Maximum number of values of a page.
const MAX_VALUES: usize = 16 << 20;

/// Maximum size of all pages and dictionaries at a time, bytes.
const MAX_HELD: usize = 256 << 20;

/// Maximum size of the header of a page, bytes.
const MAX_HEADER: usize = 1 << 20;

/// Number of bytes in which the header of a page usually ends.
const HEADER: usize = 1 << 10;

/// Memory of a value of a dictionary, bytes: a text has a handle.
const VALUE: usize = 48;

/// A file, and what is held of it.
pub(super) struct Source {
    pub file: File,
    pub length: u64,
    /// Size of the pages of all columns, bytes.
    held: AtomicUsize,
    /// Called with the number of bytes that were read.
    on_read: Box<dyn Fn(io::Result<usize>) + Send + Sync>,
}

/// A file that is not as it was written.
pub(super) fn damaged(problem: impl Into<String>) -> ParquetError {
    ParquetError::General(problem.into())
}

/// A file that is written in a way that is not read. The text says which way is.
pub(super) fn refused(problem: impl Into<String>) -> ParquetError {
    ParquetError::NYI(problem.into())
}

impl Source {
    pub(super) fn new(
        file: File,
        on_read: Box<dyn Fn(io::Result<usize>) + Send + Sync>,
    ) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length, held: AtomicUsize::new(0), on_read })
    }

    /// Bytes of the file, fewer at its end.
    pub(super) fn read(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(left)];
        let read = self.file.read_exact_at(&mut bytes, at);
        (self.on_read)(read.as_ref().map(|()| bytes.len()).map_err(|error| error.kind().into()));
        read.map(|()| bytes).map_err(|error| ParquetError::External(Box::new(error)))
    }

    /// Replaces `before` bytes that are held by `after`.
    fn hold(&self, before: usize, after: usize) -> Result<()> {
        let held = self.held.fetch_add(after, Ordering::Relaxed) + after;
        self.held.fetch_sub(before, Ordering::Relaxed);
        if held.saturating_sub(before) > MAX_HELD {
            return Err(refused(format!(
                "its pages need more than {} MB of memory: write it again with smaller pages",
                MAX_HELD >> 20
            )));
        }
        Ok(())
    }
}

/// The pages of a column in a row group.
pub(super) struct Pages {
    source: Arc<Source>,
    at: u64,
    end: u64,
    compression: Compression,
    kind: Type,
    /// Whether values may be absent.
    is_optional: bool,
    has_dictionary: bool,
    /// Size of the dictionary and of the last page, bytes.
    held: [usize; 2],
}

/// The header of a page.
#[derive(Debug, Default)]
struct Header {
    kind: i64,
    size: usize,
    stored: usize,
    values: usize,
    nulls: usize,
    rows: usize,
    encoding: i64,
    definitions: usize,
    repetitions: usize,
    is_compressed: bool,
}

impl Header {
    /// Parses a header; `None` if it is none, or longer than the bytes. Returns its length as well.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut header = Self { is_compressed: true, ..Self::default() };
        let (mut walk, mut is_valid) = (Walk::new(bytes), true);
        walk.structure(&mut |path, field| {
            let Field::Integer(value) = field else {
                if path == [8, 7] {
                    header.is_compressed = field == Field::Boolean(true);
                }
                return;
            };
            let size = usize::try_from(value).ok();
            let target = match path {
                [1] => return header.kind = value,
                [5 | 7, 2] | [8, 4] => return header.encoding = value,
                [2] => &mut header.size,
                [3] => &mut header.stored,
                [5 | 7 | 8, 1] => &mut header.values,
                [8, 2] => &mut header.nulls,
                [8, 3] => &mut header.rows,
                [8, 5] => &mut header.definitions,
                [8, 6] => &mut header.repetitions,
                _ => return,
            };
            is_valid &= size.is_some_and(|size| size <= i32::MAX as usize);
            *target = size.unwrap_or(0);
        })?;
        is_valid.then_some((header, walk.at))
    }

    fn encoding(&self) -> Result<Encoding> {
        Ok(match self.encoding {
            0 => Encoding::PLAIN,
            2 => Encoding::PLAIN_DICTIONARY,
            3 => Encoding::RLE,
            5 => Encoding::DELTA_BINARY_PACKED,
            6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            8 => Encoding::RLE_DICTIONARY,
            9 => Encoding::BYTE_STREAM_SPLIT,
            other => {
                return Err(refused(format!(
                    "encoding {other} of a page is not read: write the file again with version 1 \
                     of data pages"
                )));
            }
        })
    }
}

impl Pages {
    pub(super) fn new(
        source: Arc<Source>,
        (at, length): (u64, u64),
        compression: Compression,
        (kind, is_optional): (Type, bool),
    ) -> Self {
        let end = at.saturating_add(length).min(source.length);
        let held = [0; 2];
        Self { source, at, end, compression, kind, is_optional, has_dictionary: false, held }
    }

    fn header(&mut self) -> Result<Header> {
        for length in [HEADER, MAX_HEADER] {
            let bytes = self.source.read(self.at, length)?;
            if let Some((header, length)) = Header::parse(&bytes) {
                self.at += length as u64;
                return Ok(header);
            }
            if bytes.len() < length {
                break;
            }
        }
        Err(damaged("the header of a page is damaged"))
    }

    fn next_page(&mut self) -> Result<Option<Page>> {
        while self.at < self.end {
            let header = self.header()?;
            let is_too_large = header.size > MAX_PAGE || header.stored > MAX_PAGE;
            if is_too_large || header.values > MAX_VALUES {
                return Err(refused(format!(
                    "a page has more than {} MB or {MAX_VALUES} values: write the file again with \
                     smaller pages",
                    MAX_PAGE >> 20
                )));
            }
            if header.stored as u64 > self.end.saturating_sub(self.at) {
                return Err(damaged("a page ends after its column"));
            }
            let is_dictionary = header.kind == 2;
            let values = if is_dictionary { header.values * VALUE } else { 0 };
            let held = header.size + values;
            let slot = &mut self.held[usize::from(!is_dictionary)];
            self.source.hold(std::mem::replace(slot, held), held)?;
            let bytes = self.source.read(self.at, header.stored)?;
            self.at += header.stored as u64;
            match header.kind {
                0 => return self.data_page(&header, bytes).map(Some),
                2 => return self.dictionary_page(&header, bytes).map(Some),
                3 => return self.data_page_v2(&header, bytes).map(Some),
                // An index.
                _ => {}
            }
        }
        Ok(None)
    }

    fn dictionary_page(&mut self, header: &Header, bytes: Vec<u8>) -> Result<Page> {
        let buf = self.decompress(bytes, header.size)?;
        let least = match self.kind {
            Type::BOOLEAN => usize::MAX,
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => 1,
        };
        if header.values.checked_mul(least).is_none_or(|needed| needed > buf.len()) {
            return Err(damaged("a dictionary has fewer values than it says"));
        }
        self.has_dictionary = true;
        let num_values = narrow(header.values);
        Ok(Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false })
    }

    fn data_page(&self, header: &Header, bytes: Vec<u8>) -> Result<Page> {
        let buf = self.decompress(bytes, header.size)?;
        let levels = match self.is_optional {
            true => {
                let length = buf.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
                length.and_then(|length| length.checked_add(4)).unwrap_or(usize::MAX)
            }
            false => 0,
        };
        let encoding = self.check_data(header, buf.get(levels..))?;
        Ok(Page::DataPage {
            buf,
            num_values: narrow(header.values),
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }

    fn data_page_v2(&self, header: &Header, mut bytes: Vec<u8>) -> Result<Page> {
        let levels = header.definitions.saturating_add(header.repetitions);
        if levels > bytes.len() || levels > header.size {
            return Err(damaged("the levels of a page are longer than it"));
        }
        if header.is_compressed {
            let values = bytes.split_off(levels);
            let values = self.decompress(values, header.size - levels)?;
            bytes.extend_from_slice(&values);
        }
        let encoding = self.check_data(header, bytes.get(levels..))?;
        Ok(Page::DataPageV2 {
            buf: bytes.into(),
            num_values: narrow(header.values),
            encoding,
            num_nulls: narrow(header.nulls),
            num_rows: narrow(header.rows),
            def_levels_byte_len: narrow(header.definitions),
            rep_levels_byte_len: narrow(header.repetitions),
            is_compressed: false,
            statistics: None,
        })
    }

    /// Checks what a decoder believes of the values of a page.
    fn check_data(&self, header: &Header, values: Option<&[u8]>) -> Result<Encoding> {
        let encoding = header.encoding()?;
        let values = values.ok_or_else(|| damaged("the levels of a page are longer than it"))?;
        let is_dictionary =
            matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
        if is_dictionary && !self.has_dictionary {
            return Err(damaged("a page has no dictionary"));
        }
        if matches!(encoding, Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY) {
            let mut walk = Walk::new(values);
            let mut next = || walk.unsigned().unwrap_or(u64::MAX);
            let (block, parts, count) = (next(), next(), next());
            if block > 1 << 16 || parts > 1 << 10 || count > header.values as u64 {
                return Err(damaged("the differences of a page are damaged"));
            }
        }
        Ok(encoding)
    }

    fn decompress(&self, stored: Vec<u8>, size: usize) -> Result<Bytes> {
        let mut out = Vec::new();
        match self.compression {
            Compression::UNCOMPRESSED => out = stored,
            _ if size == 0 => {}
            Compression::SNAPPY => {
                let length = snap::raw::decompress_len(&stored).ok();
                if length == Some(size) {
                    let mut decoder = snap::raw::Decoder::new();
                    out = decoder.decompress_vec(&stored).map_err(|it| damaged(it.to_string()))?;
                }
            }
            Compression::GZIP(_) => {
                let decoder = flate2::read::MultiGzDecoder::new(&*stored);
                decoder.take(size as u64 + 1).read_to_end(&mut out)?;
            }
            Compression::ZSTD(_) => out = zstd::bulk::decompress(&stored, size)?,
            other => {
                return Err(refused(format!(
                    "compression {other} is not read: write the file again with snappy or zstd"
                )));
            }
        }
        if out.len() != size {
            return Err(damaged("a page has another size than it says"));
        }
        Ok(out.into())
    }
}

/// A size that was checked.
fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.next_page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Err(damaged("pages are not skipped"))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        Err(damaged("pages are not skipped"))
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(true)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.source.held.fetch_sub(self.held.iter().sum(), Ordering::Relaxed);
    }
}
