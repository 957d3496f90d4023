//! Suggestions for mistyped names.

use strsim::levenshtein;

/// Maximum number of names that are suggested at once.
const MAX_SUGGESTED: usize = 3;

/// The known name that is close enough for a typing error, whatever the case of its letters.
#[must_use]
pub(crate) fn nearest_name<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = name.to_lowercase();
    let near = known.map(|known| (levenshtein(&typed, &known.to_lowercase()), known)).min();
    near.filter(|(distance, _)| *distance <= max_distance(name)).map(|(_, known)| known)
}

/// `; did you mean X?` if there is such a name, otherwise empty.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = nearest_name(name, known).map(|known| format!("; did you mean `{known}`?"));
    near.unwrap_or_default()
}

/// Number of edits that a typing error may have.
fn max_distance(name: &str) -> usize {
    2.max(name.len() / 3)
}

/// The names nearest to one, of many that need not be in memory together.
pub(crate) struct NearNames<'a> {
    name: &'a str,
    lower: String,
    /// By distance: first without regard to case, then with it.
    found: Vec<(usize, usize, String)>,
}

impl<'a> NearNames<'a> {
    /// Compares with a name.
    pub(crate) fn new(name: &'a str) -> Self {
        Self { name, lower: name.to_lowercase(), found: Vec::new() }
    }

    /// Compares a known name.
    pub(crate) fn add(&mut self, known: &str) {
        let distance = levenshtein(&self.lower, &known.to_lowercase());
        let farthest = self.found.get(MAX_SUGGESTED - 1).map_or(usize::MAX, |last| last.0);
        if distance > max_distance(self.name) || distance > farthest {
            return;
        }
        self.found.push((distance, levenshtein(self.name, known), known.to_owned()));
        self.found.sort();
        self.found.truncate(MAX_SUGGESTED);
    }

    /// The nearest names, the nearest one first; none that is too far for a typing error.
    pub(crate) fn finish(self) -> Vec<String> {
        self.found.into_iter().map(|(_, _, known)| known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first_and_case_counts_least() {
        let near = |name: &str, known: &[&str]| {
            let mut near = NearNames::new(name);
            known.iter().for_each(|known| near.add(known));
            near.finish()
        };
        let fleet = ["bus-1", "truck-07", "truck-1", "truck-17", "truck-18", "van"];
        assert_eq!(near("TRUCK-17", &fleet), ["truck-17", "truck-07", "truck-1"]);
        assert_eq!(near("truck-7", &fleet), ["truck-07", "truck-1", "truck-17"]);
        assert_eq!(near("vam", &fleet), ["van"]);
        assert_eq!(near("a-long-name-of-a-ship", &fleet), [""; 0]);
        assert_eq!(near("x", &[]), [""; 0]);
    }
}
