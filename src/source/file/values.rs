//! Finds the JSON values of a file, over any number of lines and in any number of pieces.
//!
//! Only brackets and texts are followed: whether a value is JSON is decided when it is decoded, so
//! that a bad one is one dead letter. Each element of an array at the top is a value of its own.

use memchr::memchr2;

use super::Mark;

/// State before the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Between values.
    #[default]
    Between,
    /// In an object or array, outside of texts.
    Nested,
    /// In a text.
    Text,
    /// After the backslash of an escape.
    Escape,
    /// In a number, a word, or whatever else is not a value.
    Word,
}

/// Finds where values begin and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueScan {
    state: State,
    /// Number of open brackets of the value.
    depth: u64,
    /// Whether an array at the top is open.
    in_array: bool,
}

impl ValueScan {
    /// The next mark in `bytes`, from `from` on; `None` if all bytes are scanned.
    pub(super) fn next(&mut self, bytes: &[u8], from: &mut usize, ended: bool) -> Option<Mark> {
        while let Some(&byte) = bytes.get(*from) {
            let at = *from;
            match self.state {
                State::Between => match byte {
                    b' ' | b'\t' | b'\r' | b'\n' | b',' => *from += 1,
                    b'[' if !self.in_array => (self.in_array, *from) = (true, at + 1),
                    b']' if self.in_array => (self.in_array, *from) = (false, at + 1),
                    _ => {
                        *from += 1;
                        self.begin(byte);
                        return Some(Mark::Start(at));
                    }
                },
                State::Nested => {
                    *from += 1;
                    match byte {
                        b'"' => self.state = State::Text,
                        b'{' | b'[' => self.depth += 1,
                        b'}' | b']' => {
                            self.depth -= 1;
                            if self.depth == 0 {
                                self.state = State::Between;
                                return Some(Mark::End(*from));
                            }
                        }
                        _ => {}
                    }
                }
                State::Text => {
                    let end = memchr2(b'"', b'\\', &bytes[at..]);
                    *from = end.map_or(bytes.len(), |end| at + end + 1);
                    match end.map(|end| bytes[at + end]) {
                        Some(b'\\') => self.state = State::Escape,
                        Some(_) if self.depth == 0 => {
                            self.state = State::Between;
                            return Some(Mark::End(*from));
                        }
                        Some(_) => self.state = State::Nested,
                        None => {}
                    }
                }
                State::Escape => (self.state, *from) = (State::Text, at + 1),
                State::Word => match byte {
                    b' ' | b'\t' | b'\r' | b'\n' | b',' | b'{' | b'}' | b'[' | b']' | b'"' => {
                        self.state = State::Between;
                        return Some(Mark::End(at));
                    }
                    _ => *from += 1,
                },
            }
        }
        if ended && self.state == State::Word {
            self.state = State::Between;
            return Some(Mark::End(bytes.len()));
        }
        None
    }

    fn begin(&mut self, byte: u8) {
        (self.state, self.depth) = match byte {
            b'{' | b'[' => (State::Nested, 1),
            b'"' => (State::Text, 0),
            _ => (State::Word, 0),
        };
    }

    pub(super) fn in_record(&self) -> bool {
        self.state != State::Between
    }

    /// What is missing at the end of the input.
    pub(super) fn unfinished(&self) -> Option<&'static str> {
        match (self.in_record(), self.in_array) {
            (true, _) => Some("a JSON value is not closed"),
            (false, true) => Some("the JSON array has no `]`"),
            (false, false) => None,
        }
    }
}
