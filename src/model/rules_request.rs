//! Rules that a command requests, before the rules of the store are known.

use super::rules::Rules;

/// Copies the rules that one setting determines.
pub type CopyRules = fn(from: &Rules, to: &mut Rules);

/// The rules that were given explicitly. A rule that was not given is that of the store or epoch;
/// only a new one gets the default. So a new default of a later version changes no store.
#[derive(Clone, Debug, Default)]
pub struct RulesRequest {
    requested: Rules,
    given: Vec<CopyRules>,
}

impl From<Rules> for RulesRequest {
    /// A request of exactly these rules.
    fn from(requested: Rules) -> Self {
        Self { requested, given: vec![|from, to| to.clone_from(from)] }
    }
}

impl RulesRequest {
    /// A request of those of the `requested` rules that `given` copies.
    #[must_use]
    pub fn new(requested: Rules, given: Vec<CopyRules>) -> Self {
        Self { requested, given }
    }

    /// The rules given, and those of `base` for the others.
    #[must_use]
    pub fn over(&self, base: &Rules) -> Rules {
        // What the program itself fixes is never taken from a store.
        let Rules { quantisation, blob, .. } = Rules::default();
        let mut rules = Rules { quantisation, blob, ..base.clone() };
        self.given.iter().for_each(|copy| copy(&self.requested, &mut rules));
        rules
    }

    /// The rules of a store or epoch that has the rules `stored`; `None` if it is new.
    ///
    /// # Errors
    /// Each given rule that differs, as [`Rules::differences`] lists it.
    pub fn resolve(&self, stored: Option<&Rules>) -> Result<Rules, Vec<String>> {
        let Some(stored) = stored else { return Ok(self.over(&Rules::default())) };
        let rules = self.over(stored);
        let differences = stored.differences(&rules);
        if differences.is_empty() { Ok(rules) } else { Err(differences) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Rules {
        Rules { max_gap_ms: 600_000, max_samples: 7, reading: 1, ..Rules::default() }
    }

    fn with_gap(max_gap_ms: i64) -> RulesRequest {
        let requested = Rules { max_gap_ms, ..Rules::default() };
        RulesRequest::new(requested, vec![|from, to| to.max_gap_ms = from.max_gap_ms])
    }

    #[test]
    fn rules_that_are_not_given_are_those_of_the_store() {
        for request in [RulesRequest::default(), with_gap(600_000), stored().into()] {
            assert_eq!(request.resolve(Some(&stored())), Ok(stored()));
        }
        let differs = ["max_gap_ms: the store has 600000, requested 300000".to_owned()];
        assert_eq!(with_gap(300_000).resolve(Some(&stored())), Err(differs.to_vec()));
    }

    #[test]
    fn a_new_store_gets_the_defaults() {
        assert_eq!(RulesRequest::default().resolve(None), Ok(Rules::default()));
        let wider = Rules { max_gap_ms: 600_000, ..Rules::default() };
        assert_eq!(with_gap(600_000).resolve(None), Ok(wider));
    }

    #[test]
    fn a_rebuild_takes_the_other_rules_from_the_source() {
        assert_eq!(with_gap(1000).over(&stored()), Rules { max_gap_ms: 1000, ..stored() });
    }

    #[test]
    fn what_the_program_fixes_is_not_taken_from_a_store() {
        let later = Rules { blob: 2, ..Rules::default() };
        let differs = RulesRequest::default().resolve(Some(&later)).unwrap_err();
        assert_eq!(differs, ["blob: the store has 2, requested 1"]);
    }
}
