//! Reads plain JSON: the parser would give the same values, several times slower.
//!
//! A producer writes all its objects alike, so the bytes before each value are remembered at the
//! [`Node`] of its object: they are compared, instead of parsing a name and looking it up.
//!
//! Whatever is not plain is [`Odd`], such as escapes, exponents, texts that are not ASCII, and
//! every error: the parser reads it again.

use crate::source::fields::Node;
use crate::source::heads::{Head, MAX_HEAD, MAX_HEADS};
use crate::source::record::Fields;
use crate::source::value::Value;

/// Number of digits that always fit into 64 bits.
const MAX_DIGITS: usize = 19;

/// Maximum nesting depth.
const MAX_DEPTH: u8 = 32;

/// A text is not plain JSON.
pub(in crate::source) struct Odd;

/// Bytes, and how far they are read.
#[derive(Clone, Copy)]
pub(in crate::source) struct Plain<'de> {
    bytes: &'de [u8],
    /// The same bytes, where they are known to be text: checking long records as a whole would cost
    /// more than checking the few texts that are used.
    checked: Option<&'de str>,
    /// Index of the next byte.
    pub(in crate::source) at: usize,
    depth: u8,
}

impl<'de> Plain<'de> {
    pub(in crate::source) fn new(bytes: &'de [u8]) -> Self {
        Self { bytes, checked: None, at: 0, depth: 0 }
    }

    pub(in crate::source) fn of_text(text: &'de str) -> Self {
        Self { checked: Some(text), ..Self::new(text.as_bytes()) }
    }

    /// Whether nothing but spaces is left.
    pub(in crate::source) fn is_at_end(mut self) -> bool {
        self.peek();
        self.at == self.bytes.len()
    }

    /// The next byte after spaces; 0 at the end.
    #[inline]
    pub(in crate::source) fn peek(&mut self) -> u8 {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return *byte,
            }
        }
        0
    }

    #[inline]
    fn expect(&mut self, mark: u8) -> Result<(), Odd> {
        if self.peek() != mark {
            return Err(Odd);
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a text without escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<&'de [u8], Odd> {
        self.expect(b'"')?;
        let rest = &self.bytes[self.at..];
        let length = plain_bytes(rest);
        if rest.get(length) != Some(&b'"') {
            return Err(Odd);
        }
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn text(&mut self) -> Result<&'de str, Odd> {
        let bytes = self.string()?;
        match self.checked {
            Some(text) => {
                let end = self.at - 1;
                Ok(&text[end - bytes.len()..end])
            }
            None => std::str::from_utf8(bytes).map_err(|_| Odd),
        }
    }

    /// The name of a member, and its colon.
    #[inline]
    pub(in crate::source) fn name(&mut self) -> Result<&'de str, Odd> {
        let name = self.text()?;
        self.expect(b':')?;
        Ok(name)
    }

    #[inline]
    fn open(&mut self, mark: u8) -> Result<(), Odd> {
        self.expect(mark)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Odd) } else { Ok(()) }
    }

    /// Moves to the next item of an object or an array. Returns false at its end.
    #[inline]
    fn advance(&mut self, close: u8, is_first: bool) -> Result<bool, Odd> {
        if self.peek() == close {
            self.at += 1;
            return Ok(false);
        }
        if !is_first {
            self.expect(b',')?;
            // A comma has to be followed by an item.
            return if self.peek() == close { Err(Odd) } else { Ok(true) };
        }
        Ok(true)
    }

    /// Reads the items of an object or an array, with their indexes.
    #[inline]
    pub(in crate::source) fn each(
        &mut self,
        [open, close]: [u8; 2],
        mut item: impl FnMut(&mut Self, u32) -> Result<(), Odd>,
    ) -> Result<(), Odd> {
        self.open(open)?;
        let mut index = 0;
        while self.advance(close, index == 0)? {
            item(self, index)?;
            index += 1;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Collects the values of an object.
    pub(in crate::source) fn object(
        &mut self,
        node: &Node,
        fields: &mut Fields<'de>,
    ) -> Result<(), Odd> {
        self.open(b'{')?;
        let (mut next, mut seen) = (0, 0_u32);
        while let Some((at, child)) = self.head(node, next)? {
            next = at + 1;
            let Some(child) = child else {
                self.skip()?;
                continue;
            };
            // A name that occurs twice is an error.
            if seen & (1 << child) != 0 {
                return Err(Odd);
            }
            seen |= 1 << child;
            self.value(&node.children[child].node, fields)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads up to the next value of an object. Returns the index of what is remembered of it, and
    /// the child that it is; `None` at the end of the object. The one at index `next` is likely.
    #[inline(always)]
    fn head(&mut self, node: &Node, next: usize) -> Result<Option<(usize, Option<usize>)>, Odd> {
        let rest = &self.bytes[self.at..];
        if rest.first() == Some(&b'}') {
            self.at += 1;
            return Ok(None);
        }
        let heads = &node.heads.0;
        let known = |at: usize| {
            let head = heads.get(at)?.get()?;
            let is_same = head.is_first == (next == 0) && begins(rest, &head.bytes);
            is_same.then_some((at, head))
        };
        let mut others = (0..MAX_HEADS).take_while(|at| heads[*at].get().is_some());
        if let Some((at, head)) = known(next).or_else(|| others.find_map(known)) {
            self.at += head.bytes.len();
            return Ok(Some((at, head.child)));
        }
        self.learn(node, next == 0)
    }

    /// Parses what [`Plain::head`] does not know, and remembers it.
    fn learn(
        &mut self,
        node: &Node,
        is_first: bool,
    ) -> Result<Option<(usize, Option<usize>)>, Odd> {
        let start = self.at;
        if !self.advance(b'}', is_first)? {
            return Ok(None);
        }
        let child = node.child(self.name()?);
        self.peek();
        let bytes = &self.bytes[start..self.at];
        let mut heads = node.heads.0.iter();
        let free = heads.position(|head| head.get().is_none()).filter(|_| bytes.len() <= MAX_HEAD);
        if let Some(free) = free {
            // Another thread may have taken the place.
            node.heads.0[free].set(Head { bytes: bytes.into(), is_first, child }).ok();
        }
        Ok(Some((free.unwrap_or(MAX_HEADS), child)))
    }

    /// Collects the value of a node and of its descendants.
    fn value(&mut self, node: &Node, fields: &mut Fields<'de>) -> Result<(), Odd> {
        if node.opens || node.is_array || node.is_outer || !node.members.is_empty() {
            return Err(Odd);
        }
        let value = match self.peek() {
            b'"' => Value::Text(self.text()?),
            b'{' => {
                self.object(node, fields)?;
                Value::Nested("an object")
            }
            b'[' => {
                self.each(*b"[]", |json, index| match node.element(index) {
                    Some(at) => json.value(&node.children[at].node, fields),
                    None => json.skip(),
                })?;
                Value::Nested("an array")
            }
            _ => self.scalar()?,
        };
        if !matches!(value, Value::Absent) {
            fields.offer(&node.targets, value);
        }
        Ok(())
    }

    /// Skips a value.
    #[inline]
    pub(in crate::source) fn skip(&mut self) -> Result<(), Odd> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b'{' => self.each(*b"{}", |json, _| {
                json.string()?;
                json.expect(b':')?;
                json.skip()
            }),
            b'[' => self.each(*b"[]", |json, _| json.skip()),
            _ => self.scalar().map(drop),
        }
    }

    /// Reads a number, true, false or null.
    #[inline(always)]
    pub(super) fn scalar(&mut self) -> Result<Value<'de>, Odd> {
        let rest = &self.bytes[self.at..];
        let (length, value) = match rest.first() {
            Some(b't') if rest.starts_with(b"true") => (4, Value::Bool(true)),
            Some(b'f') if rest.starts_with(b"false") => (5, Value::Bool(false)),
            Some(b'n') if rest.starts_with(b"null") => (4, Value::Absent),
            _ => number(rest).ok_or(Odd)?,
        };
        self.at += length;
        Ok(value)
    }
}

/// A number without an exponent, as the parser reads it, and its length.
#[inline(always)]
fn number<'v>(text: &[u8]) -> Option<(usize, Value<'v>)> {
    const TENS: [f64; MAX_DIGITS] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18,
    ];
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (is_negative, mut value) = (unsigned.len() < text.len(), 0);
    let whole = digits(unsigned, &mut value);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return None;
    }
    let (mut after, mut decimals) = (&unsigned[whole..], 0);
    if let Some(fraction) = after.strip_prefix(b".") {
        decimals = digits(fraction, &mut value);
        after = &fraction[decimals..];
        if decimals == 0 {
            return None;
        }
    }
    // An integer of as many digits may be larger than any of 64 bits.
    let is_long = whole + decimals > MAX_DIGITS || whole == MAX_DIGITS;
    if is_long || matches!(after.first(), Some(b'e' | b'E')) {
        return None;
    }
    let value = match (decimals, is_negative) {
        (0, false) => Value::Unsigned(value),
        (0, true) if value != 0 => Value::Signed(-value.cast_signed()),
        _ => {
            #[expect(clippy::cast_precision_loss, reason = "the parser rounds the same way")]
            let float = value as f64 / TENS[decimals];
            Value::Float(if is_negative { -float } else { float })
        }
    };
    Some((text.len() - after.len(), value))
}

/// Whether bytes begin with a head. They are compared by words, without a call: that of an iterator
/// of chunks is one unless it is inlined, which the profile `release` does not do.
#[inline(always)]
fn begins(bytes: &[u8], head: &[u8]) -> bool {
    let Some(bytes) = bytes.get(..head.len()) else { return false };
    match head.len() {
        8.. => {
            let (mut own, mut known) = (bytes, head);
            while let (Some((one, left)), Some((other, rest))) =
                (own.split_first_chunk::<8>(), known.split_first_chunk::<8>())
            {
                if u64::from_ne_bytes(*one) != u64::from_ne_bytes(*other) {
                    return false;
                }
                (own, known) = (left, rest);
            }
            bytes.last_chunk::<8>() == head.last_chunk::<8>()
        }
        4.. => {
            bytes.first_chunk::<4>() == head.first_chunk::<4>()
                && bytes.last_chunk::<4>() == head.last_chunk::<4>()
        }
        _ => bytes == head,
    }
}

/// Number of bytes of a JSON string up to the first quote, backslash, control character or byte
/// that is not ASCII.
#[inline]
pub(super) fn plain_bytes(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Sets the high bit of each zero byte. Bits above the first zero byte may be wrong.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while let Some(word) = text[at..].first_chunk() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        let special = control | quote | backslash | (word & HIGHS);
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_plain = |byte: &u8| matches!(byte, 0x20..0x80) && !matches!(byte, b'"' | b'\\');
    at + text[at..].iter().take_while(|byte| is_plain(byte)).count()
}

/// Reads the digits at the start of `text` into `value` and returns their number. The value is
/// wrong, wrapped, beyond [`MAX_DIGITS`].
#[inline]
fn digits(text: &[u8], value: &mut u64) -> usize {
    let mut count = 0;
    for digit in text.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|digit| *digit < 10) {
        *value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    count
}
