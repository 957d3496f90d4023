//! Parses and formats sizes: a whole number with a unit, decimal (kB, MB) or binary (KiB, MiB).

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Parses a size in bytes.
///
/// # Errors
/// A message that describes what is wrong with the text.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = &text[digits.len()..];
    let factor = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let is_count = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: Option<u64> = is_count.then(|| digits.parse().ok()).flatten();
    let bytes = factor.and_then(|(_, factor)| count?.checked_mul(*factor));
    bytes.ok_or_else(|| {
        format!(
            "`{text}` is not a valid size; write a whole number and a unit, such as 512MB or 2GiB"
        )
    })
}

/// Formats a size in the largest unit that gives a whole number.
pub(super) fn format_size(bytes: u64) -> String {
    let whole = UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    whole.map_or_else(|| format!("{bytes}B"), |(name, factor)| format!("{}{name}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("512MB", 512_000_000), ("1GiB", 1 << 30), ("3kb", 3_000), ("7B", 7), ("0B", 0)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "5", "MB", "-5MB", "1.5GB", "5 MB", "5PB", "99999999999GB", "5MBMB"] {
            assert!(parse_size(text).unwrap_err().contains("such as 512MB"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn formatted_sizes_are_parsed_back(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
    }
}
