//! Suggestions for mistyped names.

/// `; did you mean X?` if a known name is close enough for a typing error, otherwise empty.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known.map(|known| (strsim::levenshtein(name, known), known)).min();
    match near {
        Some((distance, known)) if distance <= 2.max(name.len() / 3) => {
            format!("; did you mean `{known}`?")
        }
        _ => String::new(),
    }
}
