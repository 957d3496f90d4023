//! Finds the elements of an XML document that are records, such as the track points of GPX, in any
//! number of pieces.
//!
//! Only the ends of markup are followed, in constant memory and without a stack: whether a point is
//! well-formed is decided when it is decoded, so that a bad one is one dead letter. Entities are
//! not expanded, and a document type is skipped.

use memchr::memchr;

use super::Mark;
use crate::source::formats::ElementNames;

/// Maximum length of a name that is compared, bytes: a longer one is not one of GPX.
const MAX_NAME: usize = 256;

/// Length of the longest opening of markup, `<![CDATA[`, bytes.
const LONGEST_OPENING: usize = 9;

/// State before the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Between markup.
    #[default]
    Text,
    /// In a comment; the number of `-` before the next byte, at most 2.
    Comment { dashes: u8, in_doctype: bool },
    /// In CDATA; the number of `]` before the next byte, at most 2.
    Cdata { brackets: u8 },
    /// In a processing instruction or the declaration; whether the last byte was `?`.
    Instruction { after_mark: bool },
    /// In a document type; whether in its brackets, the open quote or 0, and how much of the
    /// opening of a comment was read.
    Doctype { in_subset: bool, quote: u8, opening: u8 },
    /// In a tag; its open quote or 0, and whether the last byte was `/`.
    Tag { kind: Tag, quote: u8, after_slash: bool },
}

impl State {
    const DOCTYPE: Self = Self::Doctype { in_subset: false, quote: 0, opening: 0 };
}

/// What a tag means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Point,
    PointEnd,
    RootEnd,
    Other,
}

/// The root element of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Root {
    /// Not read yet.
    #[default]
    Unknown,
    /// It is that of the format, and open.
    Open,
    /// It is that of the format, and closed.
    Closed,
    /// It is another one.
    Foreign,
}

/// Finds where track points begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PointScan {
    names: ElementNames,
    state: State,
    in_point: bool,
    root: Root,
}

impl PointScan {
    pub(super) fn new(names: ElementNames) -> Self {
        Self { names, state: State::default(), in_point: false, root: Root::default() }
    }

    /// The next mark in `bytes`, from `from` on; `None` if all bytes are scanned, or the rest is
    /// the beginning of some markup.
    pub(super) fn next(&mut self, bytes: &[u8], from: &mut usize) -> Option<Mark> {
        while *from < bytes.len() {
            if self.state == State::Text {
                let start = memchr(b'<', &bytes[*from..]);
                *from = start.map_or(bytes.len(), |start| *from + start);
                start?;
                if let Some(mark) = self.open_markup(bytes, from)? {
                    return Some(mark);
                }
                continue;
            }
            let byte = bytes[*from];
            *from += 1;
            if let Some(mark) = self.step(byte, *from) {
                return Some(mark);
            }
        }
        None
    }

    /// Handles the `<` at `from`; `None` if more bytes are needed to know what it begins.
    fn open_markup(&mut self, bytes: &[u8], from: &mut usize) -> Option<Option<Mark>> {
        let start = *from;
        let rest = &bytes[start..];
        if rest.len() < LONGEST_OPENING && !rest.contains(&b'>') {
            return None;
        }
        let (state, length) = match rest {
            [b'<', b'!', b'-', b'-', ..] => {
                (State::Comment { dashes: 0, in_doctype: false }, b"<!--".len())
            }
            [b'<', b'!', b'[', ..] => (State::Cdata { brackets: 0 }, b"<![".len()),
            [b'<', b'!', ..] => (State::DOCTYPE, b"<!".len()),
            [b'<', b'?', ..] => (State::Instruction { after_mark: false }, b"<?".len()),
            _ => return self.open_tag(rest, from),
        };
        (self.state, *from) = (state, start + length);
        Some(None)
    }

    /// Handles a tag at `from`, as [`PointScan::open_markup`].
    fn open_tag(&mut self, rest: &[u8], from: &mut usize) -> Option<Option<Mark>> {
        let opens = rest.get(1) != Some(&b'/');
        let before = if opens { 1 } else { 2 };
        let name = rest.get(before..rest.len().min(MAX_NAME)).unwrap_or_default();
        let end = name.iter().position(|byte| b" \t\r\n/>".contains(byte));
        if end.is_none() && rest.len() < MAX_NAME {
            return None;
        }
        let kind = self.kind_of(&name[..end.unwrap_or(name.len())], opens);
        if kind == Tag::Point && self.in_point {
            // The point before it has no end.
            self.in_point = false;
            return Some(Some(Mark::End(*from)));
        }
        let mark = (kind == Tag::Point).then_some(Mark::Start(*from));
        self.in_point |= mark.is_some();
        self.state = State::Tag { kind, quote: 0, after_slash: false };
        *from += before.min(rest.len());
        Some(mark)
    }

    /// The meaning of a tag. Namespace prefixes do not count.
    fn kind_of(&mut self, name: &[u8], opens: bool) -> Tag {
        let local = name.rsplit(|byte| *byte == b':').next().unwrap_or(name);
        if opens && self.root == Root::Unknown {
            let is_own = local == self.names.root.as_bytes();
            self.root = if is_own { Root::Open } else { Root::Foreign };
        }
        match opens {
            true if local == self.names.record.as_bytes() => Tag::Point,
            false if local == self.names.record.as_bytes() => Tag::PointEnd,
            false if local == self.names.root.as_bytes() => Tag::RootEnd,
            _ => Tag::Other,
        }
    }

    /// Handles a byte inside markup; `next` is the index after it.
    fn step(&mut self, byte: u8, next: usize) -> Option<Mark> {
        self.state = match self.state {
            State::Text => State::Text,
            State::Comment { dashes: 2, in_doctype } if byte == b'>' => match in_doctype {
                true => State::Doctype { in_subset: true, quote: 0, opening: 0 },
                false => State::Text,
            },
            State::Comment { dashes, in_doctype } => {
                let dashes = if byte == b'-' { 2.min(dashes + 1) } else { 0 };
                State::Comment { dashes, in_doctype }
            }
            State::Cdata { brackets: 2 } if byte == b'>' => State::Text,
            State::Cdata { brackets } => {
                State::Cdata { brackets: if byte == b']' { 2.min(brackets + 1) } else { 0 } }
            }
            State::Instruction { after_mark: true } if byte == b'>' => State::Text,
            State::Instruction { .. } => State::Instruction { after_mark: byte == b'?' },
            State::Doctype { in_subset, quote, opening } => {
                doctype((in_subset, quote, opening), byte)
            }
            State::Tag { kind, quote: 0, after_slash } if byte == b'>' => {
                self.state = State::Text;
                return self.end_tag(kind, after_slash, next);
            }
            State::Tag { kind, quote: 0, .. } => {
                let quote = if matches!(byte, b'"' | b'\'') { byte } else { 0 };
                State::Tag { kind, quote, after_slash: byte == b'/' }
            }
            State::Tag { kind, quote, .. } => {
                let quote = if byte == quote { 0 } else { quote };
                State::Tag { kind, quote, after_slash: false }
            }
        };
        None
    }

    fn end_tag(&mut self, kind: Tag, is_empty: bool, next: usize) -> Option<Mark> {
        let ends_point = match kind {
            Tag::Point => is_empty,
            Tag::PointEnd => true,
            Tag::RootEnd => {
                self.root = Root::Closed;
                false
            }
            Tag::Other => false,
        };
        let ends = ends_point && self.in_point;
        self.in_point &= !ends;
        ends.then_some(Mark::End(next))
    }

    pub(super) fn in_record(&self) -> bool {
        self.in_point
    }

    pub(super) fn root(&self) -> Root {
        self.root
    }

    /// What is missing at the end of the input.
    pub(super) fn unfinished(&self) -> Option<&'static str> {
        match (self.in_point, self.root) {
            (true, _) => Some("a track point is not closed"),
            (false, Root::Closed) => None,
            (false, _) => Some("the GPX document is not closed"),
        }
    }
}

/// The state after a byte of a document type.
fn doctype((in_subset, quote, opening): (bool, u8, u8), byte: u8) -> State {
    if quote != 0 {
        let quote = if byte == quote { 0 } else { quote };
        return State::Doctype { in_subset, quote, opening: 0 };
    }
    let opening = match b"<!--".get(usize::from(opening)) {
        Some(wanted) if *wanted == byte => opening + 1,
        _ => u8::from(byte == b'<'),
    };
    match byte {
        b'-' if opening == 4 => State::Comment { dashes: 0, in_doctype: true },
        b'"' | b'\'' => State::Doctype { in_subset, quote: byte, opening },
        b'[' => State::Doctype { in_subset: true, quote, opening },
        b']' => State::Doctype { in_subset: false, quote, opening },
        b'>' if !in_subset => State::Text,
        _ => State::Doctype { in_subset, quote, opening },
    }
}
