//! Suggestions for mistyped names.

/// `; did you mean X?`, if one of the known names is close enough to be a typing error.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known.map(|known| (strsim::levenshtein(name, known), known)).min();
    match near {
        Some((distance, known)) if distance <= 2.max(name.len() / 3) => {
            format!("; did you mean `{known}`?")
        }
        _ => String::new(),
    }
}
