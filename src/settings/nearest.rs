//! What a mistyped name may have been meant to be.

/// `; did you mean X?`, where one of the known names is near enough to be a slip.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known.map(|known| (edit_distance(name, known), known)).min();
    match near {
        Some((distance, known)) if distance <= 2.max(name.len() / 3) => {
            format!("; did you mean `{known}`?")
        }
        _ => String::new(),
    }
}

/// Fewest insertions, deletions and replacements of characters that make one text the other.
pub(super) fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (done, character) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], done + 1);
        for (at, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[to.len()]
}
