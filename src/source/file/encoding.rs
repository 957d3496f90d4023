//! Converts text of files to UTF-8.
//!
//! The first lines that are not ASCII decide whether text is UTF-8: it is if one of them is, since
//! a line may be damaged, and text of another encoding hardly has a line that is UTF-8. So equal
//! content is always read alike.

use std::io::{self, Read};
use std::str::Utf8Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use encoding_rs_io::DecodeReaderBytesBuilder;

use crate::model::text_encoding::TextEncoding;

/// Number of bytes read at once.
const CHUNK: usize = 64 << 10;

/// Number of bytes, from the first one that is not ASCII, that decide.
const DECIDING: usize = 16 << 10;

/// Number of bytes that decide if no line ends before.
const MAX_LINE: usize = 4 << 10;

/// How bytes become text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// They stay as they are.
    None,
    /// By a byte order mark. What has none and is not UTF-8 has this encoding; unset: it is
    /// windows-1252, but for JSON, which is always UTF-8.
    To(Option<TextEncoding>),
}

impl Conversion {
    /// A reader of the text. `guessed` is set where text is not UTF-8, and nothing says what it is.
    pub(super) fn reader(
        self,
        bytes: Box<dyn Read + Send>,
        guessed: &Arc<AtomicBool>,
    ) -> Box<dyn Read + Send> {
        let Self::To(encoding) = self else { return bytes };
        // Without a mark of UTF-16, bytes pass as they are.
        let bytes = DecodeReaderBytesBuilder::new().utf8_passthru(true).build(bytes);
        let Some(source) = encoding.unwrap_or(TextEncoding::WINDOWS_1252).source() else {
            return Box::new(bytes);
        };
        Box::new(Guess {
            bytes,
            state: State::Begin,
            decoder: source.new_decoder_without_bom_handling(),
            is_named: encoding.is_some(),
            ready: Ready::default(),
            held: Vec::new(),
            guessed: Arc::clone(guessed),
        })
    }
}

/// What is known of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Only blanks were read.
    Begin,
    /// All of it was ASCII.
    Ascii,
    /// It is not converted.
    Pass,
    /// It is not UTF-8.
    Convert,
}

/// Converted bytes that were not read yet.
#[derive(Default)]
struct Ready {
    bytes: Vec<u8>,
    at: usize,
}

impl Ready {
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        let left = &self.bytes[self.at..];
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.at += length;
        if self.at == self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
        }
        length
    }
}

/// Reads text that is UTF-8 or has another encoding.
struct Guess<R> {
    bytes: R,
    state: State,
    decoder: encoding_rs::Decoder,
    /// Whether that encoding was named.
    is_named: bool,
    ready: Ready,
    /// Bytes that do not decide yet.
    held: Vec<u8>,
    guessed: Arc<AtomicBool>,
}

impl<R: Read> Read for Guess<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.ready.bytes.is_empty() {
                return Ok(self.ready.read(buffer));
            }
            if self.state == State::Pass {
                return self.bytes.read(buffer);
            }
            let before = self.held.len();
            self.held.resize(before + CHUNK, 0);
            let read = self.bytes.read(&mut self.held[before..]);
            self.held.truncate(before + *read.as_ref().unwrap_or(&0));
            let ended = read? == 0;
            self.advance(ended);
            if ended && self.ready.bytes.is_empty() {
                return Ok(0);
            }
        }
    }
}

impl<R> Guess<R> {
    /// Moves what is decided of the bytes that are held to those that are ready.
    fn advance(&mut self, ended: bool) {
        if self.state == State::Begin {
            self.begin(ended);
        }
        if self.state == State::Ascii {
            self.decide(ended);
        }
        match self.state {
            State::Begin | State::Ascii => {}
            State::Pass => self.pass(),
            State::Convert => self.convert(ended),
        }
    }

    /// Makes the bytes that are held ready as they are.
    fn pass(&mut self) {
        if self.ready.bytes.is_empty() {
            std::mem::swap(&mut self.ready.bytes, &mut self.held);
        } else {
            self.ready.bytes.append(&mut self.held);
        }
    }

    /// Converts the bytes that are held.
    fn convert(&mut self, ended: bool) {
        let length = self.decoder.max_utf8_buffer_length(self.held.len()).unwrap_or(usize::MAX);
        let ready = &mut self.ready.bytes;
        let before = ready.len();
        ready.resize(before + length, 0);
        let (_, read, written, _) =
            self.decoder.decode_to_utf8(&self.held, &mut ready[before..], ended);
        ready.truncate(before + written);
        self.held.drain(..read);
        if ended {
            // A decoder ends once.
            self.state = State::Pass;
        }
    }

    /// Decides by the first byte that is not blank.
    fn begin(&mut self, ended: bool) {
        let first = self.held.iter().find(|byte| !byte.is_ascii_whitespace());
        self.state = match first {
            // JSON, or a sentence of NMEA.
            Some(b'{' | b'[' | b'$' | b'!') if !self.is_named => State::Pass,
            Some(_) if self.held.starts_with(b"\xef\xbb\xbf") => State::Pass,
            Some(_) => State::Ascii,
            None if ended || self.held.len() >= CHUNK => State::Pass,
            None => State::Begin,
        };
    }

    /// Decides by the first lines that are not ASCII.
    fn decide(&mut self, ended: bool) {
        // Many bytes at once: most text is ASCII.
        if self.held.is_ascii() && memchr::memchr(0, &self.held).is_none() {
            return self.pass();
        }
        let start = self.held.iter().position(|byte| !byte.is_ascii() || *byte == 0);
        let start = start.expect("it is not all ASCII");
        let rest = &self.held[start..];
        let deciding = &rest[..rest.len().min(DECIDING)];
        let Some(stays) = stays(deciding, ended, self.is_named) else {
            // What is before can be read.
            self.ready.bytes.extend(self.held.drain(..start));
            return;
        };
        self.state = if stays { State::Pass } else { State::Convert };
        let is_guessed = self.state == State::Convert && !self.is_named;
        self.guessed.fetch_or(is_guessed, Ordering::Relaxed);
    }
}

/// Whether content that begins with these bytes, the first of which is not ASCII, is UTF-8 or no
/// text; `None` if more have to be read. If an encoding is named, only the first line decides: some
/// have many lines that could be UTF-8.
fn stays(bytes: &[u8], ended: bool, is_named: bool) -> Option<bool> {
    let ended = ended || bytes.len() == DECIDING;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let first = &first[..first.len().min(MAX_LINE)];
    if !ended && !first.ends_with(b"\n") && first.len() < MAX_LINE {
        return None;
    }
    let is_cut = |error: Utf8Error| error.error_len().is_none() && first.len() == MAX_LINE;
    if first.contains(&0) || std::str::from_utf8(first).map_or_else(is_cut, |_| true) {
        return Some(true);
    }
    let is_utf8 = |line: &[u8]| {
        (ended || line.ends_with(b"\n")) && !line.is_ascii() && std::str::from_utf8(line).is_ok()
    };
    match is_named {
        true => Some(false),
        false if lines.any(is_utf8) => Some(true),
        false => ended.then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A reader that gives few bytes at a time.
    struct Slow(io::Cursor<Vec<u8>>, usize);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(self.1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn read(bytes: &[u8], step: usize, conversion: Conversion) -> (Vec<u8>, bool) {
        let (mut out, guessed) = (Vec::new(), Arc::default());
        let bytes = Box::new(Slow(io::Cursor::new(bytes.to_vec()), step));
        conversion.reader(bytes, &guessed).read_to_end(&mut out).unwrap();
        (out, guessed.load(Ordering::Relaxed))
    }

    #[test]
    fn what_is_not_utf8_is_windows_1252() {
        let ascii = "a;b\n1;2\n".repeat(20_000);
        for (bytes, expected, is_guessed) in [
            (&b"Fahrzeug;L\xe4nge\n1;\x80\n"[..], "Fahrzeug;Länge\n1;€\n", true),
            (b"L\xe4nge", "Länge", true),
            ("Fahrzeug;Länge\n".as_bytes(), "Fahrzeug;Länge\n", false),
            ("\u{feff}a;ä\n".as_bytes(), "\u{feff}a;ä\n", false),
            (b" \n", " \n", false),
            (b"", "", false),
        ] {
            for prefix in ["", "\n", &ascii] {
                let bytes = [prefix.as_bytes(), bytes].concat();
                for step in [1, 7, usize::MAX] {
                    let expected = ([prefix, expected].concat().into_bytes(), is_guessed);
                    assert_eq!(read(&bytes, step, Conversion::To(None)), expected, "{step}");
                }
            }
        }
        // A damaged line makes it no other encoding, unless whole ones with accents are far away.
        let line = "1;\u{e4}\n".as_bytes();
        for (between, is_guessed) in
            [(0, false), (3, false), (DECIDING / 4 - 3, false), (DECIDING / 4, true)]
        {
            let bytes =
                [b"a;b\n1;\xff\n", "1;2\n".repeat(between).as_bytes(), line, b"1;2\n"].concat();
            for step in [1, 7, usize::MAX] {
                let (text, guessed) = read(&bytes, step, Conversion::To(None));
                assert_eq!((text == bytes, guessed), (!is_guessed, is_guessed), "{between} {step}");
            }
        }
        // JSON and binary content stay as they are, and what is named is not guessed.
        for bytes in [&b"{\"a\":\"\xe4\"}\n"[..], b"a;\xe4\0\n", b"$GPRMC,\xe4\n"] {
            assert_eq!(read(bytes, 3, Conversion::To(None)), (bytes.to_vec(), false));
        }
        let utf8 = TextEncoding::from_name("UTF-8").unwrap();
        assert_eq!(read(b"a;\xe4\n", 3, Conversion::To(Some(utf8))), (b"a;\xe4\n".to_vec(), false));
        let latin2 = TextEncoding::from_name("latin2").unwrap();
        let json = (r#"{"a":"ę"}"#.as_bytes().to_vec(), false);
        assert_eq!(read(b"{\"a\":\"\xea\"}", 3, Conversion::To(Some(latin2))), json);
        let japanese = TextEncoding::from_name("shift_jis").unwrap();
        let expected = ("a,\u{6771}\n".as_bytes().to_vec(), false);
        assert_eq!(read(b"a,\x93\x8c\n", 1, Conversion::To(Some(japanese))), expected);
        assert_eq!(TextEncoding::from_name("utf-16le"), None, "ASCII is not a part of it");
        let polish = ("pr\u{119}dko\u{15b}\u{107}".as_bytes().to_vec(), false);
        assert_eq!(read(b"pr\xeadko\xb6\xe6", 3, Conversion::To(Some(latin2))), polish);
    }

    proptest! {
        #[test]
        fn the_size_of_reads_decides_nothing(
            text in "[a\\né;ü]{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40),
            step in 1..9usize,
        ) {
            for bytes in [text.as_bytes(), &bytes] {
                let whole = read(bytes, usize::MAX, Conversion::To(None));
                prop_assert_eq!(read(bytes, step, Conversion::To(None)), whole);
            }
        }
    }
}
