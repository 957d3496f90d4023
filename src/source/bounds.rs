//! Bounds on the schemas of records. Whoever may register a schema chooses it: what is over a bound
//! is refused before it is compiled, so that no schema costs more than its text.

use super::wire::MAX_DEPTH;

/// Maximum size of a schema, with all that it refers to, bytes.
pub(crate) const MAX_SCHEMA_BYTES: usize = 1 << 20;

/// Maximum number of schemas that a schema refers to, directly or not.
pub(crate) const MAX_REFERENCES: usize = 100;

/// Maximum number of messages, records, enums and other named types.
const MAX_TYPES: usize = 2_000;

/// Maximum number of fields of all types.
const MAX_FIELDS: usize = 20_000;

/// Maximum number of values of all enums.
const MAX_VALUES: usize = 20_000;

/// Maximum length of a name with its namespace, bytes. Compilers repeat the namespace in each name.
const MAX_NAME_BYTES: usize = 255;

/// What a schema and its references define so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    types: usize,
    fields: usize,
    values: usize,
}

impl Counts {
    /// Adds a named type; `name` is the length of its name with its namespace.
    pub(crate) fn add_type(&mut self, name: usize) -> Result<(), String> {
        self.types += 1;
        check(self.types, MAX_TYPES, "types")?;
        check_name(name)
    }

    /// Adds a field.
    pub(crate) fn add_field(&mut self, name: usize) -> Result<(), String> {
        self.fields += 1;
        check(self.fields, MAX_FIELDS, "fields")?;
        check_name(name)
    }

    /// Adds a value of an enum.
    pub(crate) fn add_value(&mut self, name: usize) -> Result<(), String> {
        self.values += 1;
        check(self.values, MAX_VALUES, "values of enums")?;
        check_name(name)
    }
}

fn check(count: usize, max: usize, what: &str) -> Result<(), String> {
    if count <= max {
        return Ok(());
    }
    Err(format!("it has more than {max} {what}"))
}

/// Checks the length of a name.
pub(super) fn check_name(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_NAME_BYTES {
        return Ok(());
    }
    Err(format!("a name has {bytes} bytes with its namespace; the limit is {MAX_NAME_BYTES}"))
}

/// Checks how deep types refer to types. `references` has those of each type, by index. Types that
/// lead back to themselves do not count: a value ends them.
pub(super) fn check_depth(references: &[Vec<usize>]) -> Result<(), String> {
    let mut open: Vec<usize> = references.iter().map(Vec::len).collect();
    let mut referrers = vec![Vec::new(); references.len()];
    for (from, list) in references.iter().enumerate() {
        list.iter().for_each(|to| referrers[*to].push(from));
    }
    // From the types that refer to nothing upwards, one level at a time.
    let mut level: Vec<usize> = (0..open.len()).filter(|at| open[*at] == 0).collect();
    for _ in 0..=MAX_DEPTH {
        let mut next = Vec::new();
        for from in level.iter().flat_map(|at| &referrers[*at]) {
            open[*from] -= 1;
            if open[*from] == 0 {
                next.push(*from);
            }
        }
        if next.is_empty() {
            return Ok(());
        }
        level = next;
    }
    Err(format!("its types refer to each other deeper than {MAX_DEPTH} levels"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_the_longest_chain_without_circles() {
        let chain = |length: usize| -> Vec<Vec<usize>> {
            (0..length).map(|at| if at + 1 < length { vec![at + 1] } else { vec![] }).collect()
        };
        let deepest = usize::from(MAX_DEPTH) + 1;
        assert_eq!(check_depth(&chain(deepest)), Ok(()));
        assert!(check_depth(&chain(deepest + 1)).is_err());
        let mut circle = chain(5000);
        circle[4999] = vec![0, 0];
        assert_eq!((check_depth(&circle), check_depth(&[])), (Ok(()), Ok(())));
        // Two ways to one type: the longer one counts.
        let mut short_cut = chain(deepest + 1);
        short_cut[0].push(deepest);
        assert!(check_depth(&short_cut).is_err());
    }

    #[test]
    fn counts_have_limits() {
        let mut counts = Counts::default();
        assert!((0..MAX_TYPES).all(|_| counts.add_type(1).is_ok()));
        assert_eq!(counts.add_type(1), Err("it has more than 2000 types".to_owned()));
        assert!((0..MAX_FIELDS).all(|_| counts.add_field(1).is_ok()));
        assert!(counts.add_field(1).is_err());
        assert!((0..MAX_VALUES).all(|_| counts.add_value(1).is_ok()));
        assert!(counts.add_value(1).is_err());
        assert!(check_name(MAX_NAME_BYTES).is_ok() && check_name(MAX_NAME_BYTES + 1).is_err());
    }
}
