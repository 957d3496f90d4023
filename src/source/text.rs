//! Values in messages: short, and safe on a terminal.

use super::SampleError;
use crate::model::reason::DeadReason;
pub(super) use crate::model::visible::clipped;
use crate::model::visible::push_visible;
pub(crate) use crate::model::visible::short;

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
        assert_eq!(clipped_to("a\nbcdef", 5), "a\\nbc...");
    }
}
