//! Values in messages: short, and safe on a terminal.

use super::SampleError;
use crate::model::reason::DeadReason;
use crate::model::visible::push_visible;

/// Maximum number of characters of a value in a message.
const MAX_CHARS: usize = 80;

/// A value between backticks, cut to a maximum length, invisible characters escaped.
pub(crate) fn short(value: &str) -> String {
    format!("`{}`", clipped(value))
}

/// A text cut to a maximum length, invisible characters escaped.
pub(super) fn clipped(value: &str) -> String {
    let mut shown = String::new();
    for (count, c) in value.chars().enumerate() {
        if count == MAX_CHARS {
            shown.push_str("...");
            break;
        }
        push_visible(&mut shown, c);
    }
    shown
}

/// A text cut to about a maximum length in bytes, invisible characters escaped.
pub(super) fn clipped_to(value: &str, bytes: usize) -> String {
    let mut shown = String::new();
    for c in value.chars() {
        if shown.len() >= bytes {
            shown.push_str("...");
            break;
        }
        push_visible(&mut shown, c);
    }
    shown
}

/// The longest prefix of whole characters with at most `bytes` bytes.
pub(crate) fn head_of(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The text of a record.
///
/// # Errors
/// `bad_utf8`.
pub(super) fn utf8(record: &[u8]) -> Result<&str, Box<SampleError>> {
    std::str::from_utf8(record).map_err(|error| {
        let at = error.valid_up_to();
        let byte = record.get(at).copied().unwrap_or(0);
        let message = format!("byte {at} of the record, {byte:#04x}, is not UTF-8");
        Box::new(SampleError::new(DeadReason::BadUtf8, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_and_escaped() {
        assert_eq!(short("a\u{1b}[0mé"), "`a\\u{1b}[0mé`");
        assert_eq!(short("a\u{202e}b"), "`a\\u{202e}b`");
        assert_eq!(clipped_to("a\nbcdef", 5), "a\\nbc...");
        assert_eq!(short(&"é".repeat(100)), format!("`{}...`", "é".repeat(80)));
    }
}
