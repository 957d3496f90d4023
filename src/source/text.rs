//! Values in messages: short, and safe on a terminal.

use crate::model::visible::push_visible;

/// Characters of a value that a message shows.
const SHOWN: usize = 80;

/// A value between backticks, cut to a bound, what cannot be seen escaped.
pub(crate) fn short(value: &str) -> String {
    format!("`{}`", clipped(value))
}

/// A text cut to a bound, what cannot be seen escaped.
pub(super) fn clipped(value: &str) -> String {
    let mut shown = String::new();
    for (count, c) in value.chars().enumerate() {
        if count == SHOWN {
            shown.push_str("...");
            break;
        }
        push_visible(&mut shown, c);
    }
    shown
}

/// As many bytes of a text as are whole characters, at most `bytes`.
pub(crate) fn head_of(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_bounded_and_tame() {
        assert_eq!(short("a\u{1b}[0mé"), "`a\\u{1b}[0mé`");
        assert_eq!(short("a\u{202e}b"), "`a\\u{202e}b`");
        assert_eq!(short(&"é".repeat(100)), format!("`{}...`", "é".repeat(80)));
    }
}
