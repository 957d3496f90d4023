//! Parses the values of plain records: strings without escapes, numbers without exponents.

/// Number of digits that always fit into 64 bits.
const MAX_DIGITS: usize = 19;

/// Maximum nesting depth of a value that is skipped.
const MAX_DEPTH: usize = 16;

/// Number of plain bytes at the start of a JSON string: up to the first quote, backslash, control
/// character or non-ASCII byte.
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

/// The bytes after the spaces that JSON allows; `trim_ascii_start` also skips form feeds.
#[inline]
pub(in crate::source) fn skip_spaces(text: &[u8]) -> &[u8] {
    let count = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    &text[count..]
}

/// Parses a JSON string of plain bytes.
#[inline]
pub(in crate::source) fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let inner = rest.strip_prefix(b"\"")?;
    let (text, after) = inner.split_at(plain_bytes(inner));
    *rest = after.strip_prefix(b"\"")?;
    Some(text)
}

/// Parses the digits at the start of `text` into `value` and returns their number. The value is
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

/// Parses a number without an exponent, to the same float as the parser.
#[inline]
pub(super) fn take_number(rest: &mut &[u8]) -> Option<f64> {
    const TENS: [f64; MAX_DIGITS] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18,
    ];
    let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
    let mut value = 0;
    let whole = digits(unsigned, &mut value);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return None;
    }
    let mut after = &unsigned[whole..];
    let mut decimals = 0;
    if let Some(fraction) = after.strip_prefix(b".") {
        decimals = digits(fraction, &mut value);
        after = &fraction[decimals..];
        if decimals == 0 {
            return None;
        }
    }
    if whole + decimals > MAX_DIGITS {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "the parser rounds the same way")]
    let number = value as f64 / TENS[decimals];
    let number = if unsigned.len() < rest.len() { -number } else { number };
    *rest = after;
    Some(number)
}

/// Parses an integer of at most 18 digits.
#[inline]
pub(super) fn take_integer(rest: &mut &[u8]) -> Option<i128> {
    let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
    let mut value = 0;
    let count = digits(unsigned, &mut value);
    // The parser reads -0 as a float.
    let is_negative = unsigned.len() < rest.len();
    let starts_with_zero = unsigned.first() == Some(&b'0');
    if !(1..MAX_DIGITS).contains(&count) || (starts_with_zero && (count > 1 || is_negative)) {
        return None;
    }
    *rest = &unsigned[count..];
    Some(if is_negative { -i128::from(value) } else { i128::from(value) })
}

#[inline]
pub(super) fn take_bool(rest: &mut &[u8]) -> Option<bool> {
    let on = rest.starts_with(b"true");
    *rest = rest.strip_prefix(if on { &b"true"[..] } else { b"false" })?;
    Some(on)
}

/// Skips a value that has no names.
#[inline]
pub(super) fn skip_scalar(rest: &mut &[u8]) -> Option<()> {
    match rest.first()? {
        b'"' => take_text(rest).map(drop),
        b't' | b'f' => take_bool(rest).map(drop),
        b'n' => rest.strip_prefix(b"null").map(|after| *rest = after),
        _ => skip_number(rest),
    }
}

/// Skips a number; an exponent is the parser's.
#[inline]
fn skip_number(rest: &mut &[u8]) -> Option<()> {
    let count = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
    let whole = count(unsigned);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return None;
    }
    let mut after = &unsigned[whole..];
    if let Some(fraction) = after.strip_prefix(b".") {
        let decimals = count(fraction);
        // A number that exceeds every float is the parser's, too, but has more digits than these.
        if decimals == 0 {
            return None;
        }
        after = &fraction[decimals..];
    }
    *rest = after;
    (whole <= MAX_DIGITS).then_some(())
}

/// Skips a value that is not used.
#[inline]
pub(in crate::source) fn skip_value(rest: &mut &[u8]) -> Option<()> {
    match rest.first()? {
        b'{' | b'[' => skip_nested(rest, 1),
        _ => skip_scalar(rest),
    }
}

/// Skips an object or an array.
fn skip_nested(rest: &mut &[u8], depth: usize) -> Option<()> {
    let (&open, inner) = rest.split_first()?;
    let close = if open == b'{' { b'}' } else { b']' };
    *rest = skip_spaces(inner);
    if let Some(after) = rest.strip_prefix(&[close]) {
        *rest = after;
        return Some(());
    }
    if depth == MAX_DEPTH {
        return None;
    }
    loop {
        if open == b'{' {
            take_text(rest)?;
            *rest = skip_spaces(skip_spaces(rest).strip_prefix(b":")?);
        }
        match rest.first()? {
            b'{' | b'[' => skip_nested(rest, depth + 1)?,
            _ => skip_scalar(rest)?,
        }
        *rest = skip_spaces(rest);
        let (&mark, after) = rest.split_first()?;
        if mark == close {
            *rest = after;
            return Some(());
        }
        if mark != b',' {
            return None;
        }
        *rest = skip_spaces(after);
    }
}
