//! The beginnings of inputs, held in memory so that they can be decoded in several ways.

use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::de::IgnoredAny;

use super::detect::format_of;
use super::encoding::Conversion;
use super::input::{Input, Opened};
use super::{InputFormat, Options};
use crate::model::text_encoding::TextEncoding;
use crate::source::formats::csv::delimiter_line;
use crate::source::text::clipped;
use crate::source::{Decoder, SourceError, TableSample};

/// Number of bytes read at once.
const CHUNK: usize = 64 << 10;

/// Number of bytes in which the first rows of a table are looked for.
const MAX_TEXT: u64 = 1 << 20;

/// The beginnings of inputs, decompressed.
#[derive(Debug)]
pub(crate) struct Heads {
    /// One for each input that was read, in order.
    pub list: Vec<Head>,
    /// Number of inputs that were not read, because those before them are long enough.
    pub unread: usize,
}

/// The beginning of an input.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    input: Input,
    content: Arc<[u8]>,
    is_parquet: bool,
    /// Whether there is more.
    pub is_cut: bool,
    /// Name of the compression, if there is one.
    pub compression: Option<&'static str>,
    /// Why the rest cannot be decompressed.
    pub damage: Option<String>,
}

impl Heads {
    /// Reads inputs, paths or `-` for stdin, up to a number of bytes, and of those that have a
    /// record on each line, up to a number of lines. All inputs are checked before one is read.
    ///
    /// # Errors
    /// An input does not exist, cannot be read or is a directory; or stdin is named twice.
    pub(crate) fn read(
        paths: &[PathBuf],
        max_bytes: usize,
        lines: usize,
    ) -> Result<Self, SourceError> {
        let inputs = paths.iter().map(|path| Input::new(path, Conversion::None));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        if inputs.iter().filter(|input| input.is_stdin()).count() > 1 {
            let problem = "stdin can be read once; name it once";
            return Err(inputs[0].form_error(problem.into()));
        }
        let (mut left, mut lines_left, mut unread) = (max_bytes, lines, 0);
        let mut list = Vec::new();
        for input in inputs {
            if left == 0 || lines_left == 0 {
                unread += 1;
                continue;
            }
            let head = Head::read(input, left, lines_left)?;
            left -= head.content.len().min(left);
            if is_lined(&head.content) {
                lines_left = lines_left.saturating_sub(count_lines(&head.content));
            }
            list.push(head);
        }
        Ok(Self { list, unread })
    }

    /// The format of each, under these options.
    #[must_use]
    pub(crate) fn formats(&self, options: &Options) -> Vec<Result<InputFormat, SourceError>> {
        let inputs = self.inputs(options.conversion());
        inputs.iter().map(|input| format_of(input, options)).collect()
    }

    /// The inputs to read again.
    pub(super) fn inputs(&self, conversion: Conversion) -> Vec<Input> {
        let input = |head: &Head| {
            head.input.clone().with_content(Arc::clone(&head.content), head.is_parquet, conversion)
        };
        self.list.iter().map(input).collect()
    }
}

impl Head {
    fn read(input: Input, max_bytes: usize, lines: usize) -> Result<Self, SourceError> {
        let opened = input.open().map_err(|error| input.open_error(error))?;
        let Opened { mut bytes, progress, compression, is_parquet } = opened;
        let (mut content, mut damage, mut is_cut) = (Vec::new(), None, false);
        let (mut lined, mut seen, mut counted) = (false, 0, 0);
        loop {
            if content.len() >= max_bytes || (lined && seen > lines) {
                is_cut = true;
                break;
            }
            let wanted = CHUNK.min(max_bytes - content.len()) as u64;
            match Read::by_ref(&mut bytes).take(wanted).read_to_end(&mut content) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if progress.has_failed() => return Err(input.read_error(error)),
                Err(error) => {
                    damage = Some(clipped(&error.to_string()));
                    break;
                }
            }
            lined = lined || is_lined(&content);
            seen += count_lines(&content[counted..]);
            counted = content.len();
        }
        let is_whole = !is_cut && damage.is_none();
        if let (true, false, Some(end)) = (lined, is_whole, memchr::memrchr(b'\n', &content)) {
            content.truncate(end + 1);
        }
        Ok(Self { input, content: content.into(), is_parquet, is_cut, compression, damage })
    }

    /// The path, or `-`.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        self.input.name()
    }

    /// Number of bytes read, after decompression.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        self.content.len()
    }

    /// Whether it is text, as this decoder reads it.
    #[must_use]
    pub(crate) fn is_text(&self, decoder: &Decoder) -> bool {
        decoder.is_text(&self.content[..self.content.len().min(CHUNK)])
    }

    /// Name of the encoding of its text: by its byte order mark, or by what it is.
    #[must_use]
    pub(crate) fn encoding(&self, named: Option<TextEncoding>) -> &'static str {
        match &*self.content {
            [0xef, 0xbb, 0xbf, ..] => return "UTF-8 with BOM",
            [0xff, 0xfe, ..] => return "UTF-16LE",
            [0xfe, 0xff, ..] => return "UTF-16BE",
            _ => {}
        }
        let is_other = match named {
            Some(named) => {
                let text = self.text(Some(named), MAX_TEXT);
                !self.content.starts_with(&text)
            }
            None => self.is_guessed(),
        };
        match is_other {
            true => named.unwrap_or(TextEncoding::WINDOWS_1252).label(),
            false => "UTF-8",
        }
    }

    /// Whether its text is not UTF-8, and nothing says what it is.
    #[must_use]
    pub(crate) fn is_guessed(&self) -> bool {
        let guessed = Arc::default();
        let content = Box::new(Cursor::new(Arc::clone(&self.content)));
        let mut text = Conversion::To(None).reader(content, &guessed);
        // A slice is read without an error.
        std::io::copy(&mut text, &mut std::io::sink()).ok();
        guessed.load(Ordering::Relaxed)
    }

    /// The beginning of its text as UTF-8.
    fn text(&self, named: Option<TextEncoding>, bytes: u64) -> Vec<u8> {
        let content = Box::new(Cursor::new(Arc::clone(&self.content)));
        let mut text = Vec::new();
        let reader = Conversion::To(named).reader(content, &Arc::default());
        // A slice is read without an error.
        reader.take(bytes).read_to_end(&mut text).ok();
        text
    }

    /// The first rows, if it is a table.
    #[must_use]
    pub(crate) fn table(&self, named: Option<TextEncoding>) -> TableSample {
        TableSample::new(&self.text(named, MAX_TEXT))
    }

    /// The first line that is not blank, as UTF-8, or its beginning; not one that names a
    /// delimiter.
    #[must_use]
    pub(crate) fn first_line(&self, named: Option<TextEncoding>) -> Vec<u8> {
        let text = self.text(named, CHUNK as u64);
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.find(|line| !line.is_empty() && delimiter_line(line).is_none());
        first.unwrap_or_default().to_vec()
    }
}

fn count_lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// Whether content has a record on each line: unless it is UTF-16, binary, XML, or JSON whose first
/// line is not a value.
fn is_lined(content: &[u8]) -> bool {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content).trim_ascii_start();
    let Some(end) = memchr::memchr(b'\n', content) else { return false };
    match content.first() {
        Some(b'{' | b'[') => serde_json::from_slice::<IgnoredAny>(&content[..end]).is_ok(),
        Some(first) => first.is_ascii() && !first.is_ascii_control() && *first != b'<',
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8], max_bytes: usize, lines: usize) -> Heads {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, content).unwrap();
        Heads::read(&[path.clone(), path], max_bytes, lines).unwrap()
    }

    #[test]
    fn lines_end_where_enough_were_read() {
        let line = "{\"a\":1}\n";
        let heads = read(line.repeat(20_000).as_bytes(), 1 << 20, 100);
        let head = &heads.list[0];
        assert!(head.is_cut && head.bytes() < 100_000, "{} bytes", head.bytes());
        assert!(head.content.ends_with(b"}\n"));
        assert_eq!((heads.list.len(), heads.unread), (1, 1));
        // Cut at the end of a line, also where bytes are the limit.
        assert_eq!(read(line.repeat(10).as_bytes(), 20, 100).list[0].bytes(), 16);
        let whole = read(line.as_bytes(), 1 << 20, 100);
        assert!(!whole.list[0].is_cut);
        assert_eq!((whole.list.len(), whole.unread), (2, 0));
    }

    #[test]
    fn the_lines_of_a_document_are_not_records() {
        let text = format!("[\n{}\n]", "1,\n".repeat(1000));
        assert_eq!(read(text.as_bytes(), 1 << 20, 10).list[0].bytes(), text.len());
        for (content, expected) in [
            ("a,b\n1,2\n", true),
            ("$GPRMC\n", true),
            ("\u{feff}{}\n", true),
            ("{}", false),
            ("{\n}\n", false),
            ("<gpx>\n", false),
            ("\u{ff}\n", false),
            ("\n\u{8}x\n", false),
        ] {
            assert_eq!(is_lined(content.as_bytes()), expected, "{content:?}");
        }
    }

    #[test]
    fn the_encoding_and_the_first_line_are_found() {
        let utf16: Vec<u8> =
            "\u{feff}a;b\r\n1;2".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (content, encoding, first) in [
            (b"\n a,b \r\n1,2".to_vec(), "UTF-8", "a,b"),
            ("\u{feff}a,b\n".into(), "UTF-8 with BOM", "a,b"),
            (utf16, "UTF-16LE", "a;b"),
            (b"sep=;\r\nL\xe4nge;b".to_vec(), "windows-1252", "L\u{e4}nge;b"),
            (vec![], "UTF-8", ""),
        ] {
            let heads = read(&content, 1 << 20, 100);
            assert_eq!(heads.list[0].encoding(None), encoding);
            assert_eq!(heads.list[0].first_line(None), first.as_bytes(), "{encoding}");
        }
    }

    #[test]
    fn damaged_content_is_read_up_to_the_damage() {
        let mut zstd = zstd::encode_all(&b"{}\n".repeat(100_000)[..], 1).unwrap();
        let half = zstd.len() / 2;
        zstd[half..].fill(7);
        let heads = read(&zstd, 1 << 20, 1_000_000);
        assert_eq!(heads.list[0].compression, Some("zstd"));
        assert!(heads.list[0].damage.is_some());
    }
}
