//! Makes untrusted text safe to display: characters that are invisible, or that move or reorder
//! visible text, are escaped. The escaping is not reversible, so output for programs must not use
//! it.

/// Invisible characters, and those that change how others are displayed: format characters, line
/// and paragraph separators, private use, and default-ignorable characters.
const HIDDEN: [(char, char); 28] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{f0000}', '\u{ffffd}'),
    ('\u{100000}', '\u{10fffd}'),
];

/// Whether a character is invisible or changes how others are displayed.
#[must_use]
pub(crate) fn is_hidden(character: char) -> bool {
    let is_listed = || HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&character));
    character.is_control() || (!character.is_ascii() && is_listed())
}

/// The text on one line, with hidden characters escaped.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        push_visible(&mut line, character);
    }
    line
}

/// Appends a character, escaped if it is hidden.
pub(crate) fn push_visible(line: &mut String, character: char) {
    match character {
        character if character.is_control() => line.extend(character.escape_default()),
        character if is_hidden(character) => line.extend(character.escape_unicode()),
        character => line.push(character),
    }
}

/// Maximum number of characters of a value in a message.
const MAX_CHARS: usize = 80;

/// A value between backticks, cut to a maximum length, invisible characters escaped.
pub(crate) fn short(value: &str) -> String {
    format!("`{}`", clipped(value))
}

/// A text cut to a maximum length, invisible characters escaped.
pub(crate) fn clipped(value: &str) -> String {
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

/// A word as a shell takes it, for a command in a message.
#[must_use]
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,@%+-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Placeholder in messages for secrets: passwords, and the user names next to them.
pub(crate) const NOT_SHOWN: &str = "(not shown)";

/// An error and its causes, on one line.
#[must_use]
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A URL for a message, with user name and password replaced.
#[must_use]
pub(crate) fn without_credentials(url: &str) -> String {
    let begin = url.find("://").map(|at| at + 3).or_else(|| url.find(':').map(|at| at + 1));
    match (begin, url.rfind('@')) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}{NOT_SHOWN}{}", &url[..begin], &url[end..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        let hostile = "a\nb\r\u{1b}[31mc\u{9b}d\u{7f}e\u{2028}f\u{202e}g\0h\ti";
        let line = visible(hostile);
        assert_eq!(line, r"a\nb\r\u{1b}[31mc\u{9b}d\u{7f}e\u{2028}f\u{202e}g\u{0}h\ti");
        let bidi = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\
                     \u{2067}\u{2068}\u{2069}";
        let empty = "\u{ad}\u{34f}\u{115f}\u{180e}\u{200b}\u{200c}\u{200d}\u{2060}\u{2064}\u{3164}\
                     \u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{e000}\u{e0041}\u{e0100}\u{10fffd}";
        for character in bidi.chars().chain(empty.chars()) {
            let code = format!("x\\u{{{:x}}}", u32::from(character));
            assert_eq!(visible(&format!("x{character}")), code);
        }
    }

    #[test]
    fn visible_text_is_unchanged() {
        for text in ["Zürich `x` \"y\" \\ 東京", "עברית", "مرحبا", "नमस्ते", "山田\u{3000}太郎", "🚚"]
        {
            assert_eq!(visible(text), text);
        }
    }

    #[test]
    fn a_value_is_cut_and_escaped() {
        assert_eq!(short("a\u{1b}[0mé"), "`a\\u{1b}[0mé`");
        assert_eq!(short("a\u{202e}b"), "`a\\u{202e}b`");
        assert_eq!(short(&"é".repeat(100)), format!("`{}...`", "é".repeat(80)));
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            ("a/b-1.csv", "a/b-1.csv"),
            ("lat=/gps/lat,lon=/gps/lng", "lat=/gps/lat,lon=/gps/lng"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("lat=/a|/b", "'lat=/a|/b'"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
    }

    #[test]
    fn ranges_are_sorted() {
        assert!(HIDDEN.iter().all(|(first, last)| first <= last));
        assert!(HIDDEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}
