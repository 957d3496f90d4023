//! Rules that a command requests, before the rules of the store are known.

use super::preset::Preset;
use super::rules::Rules;

/// Copies the rules that one setting determines.
pub(crate) type CopyRules = fn(from: &Rules, to: &mut Rules);

/// The rules that were given explicitly. A rule that was not given is that of the store or epoch;
/// only a new one gets the default. So a new default of a later version changes no store.
#[derive(Clone, Debug, Default)]
pub struct RulesRequest {
    requested: Rules,
    given: Vec<CopyRules>,
    /// A preset, and the version of the tables of time zones.
    preset: Option<(&'static Preset, &'static str)>,
}

impl From<Rules> for RulesRequest {
    /// A request of exactly these rules.
    fn from(requested: Rules) -> Self {
        Self::new(requested, vec![|from, to| to.clone_from(from)])
    }
}

impl RulesRequest {
    /// Whether no rule was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.preset.is_none()
    }

    /// A request of those of the `requested` rules that `given` copies.
    #[must_use]
    pub fn new(requested: Rules, given: Vec<CopyRules>) -> Self {
        Self { requested, given, preset: None }
    }

    /// Also requests the rules of a preset; those given explicitly win. Rules that were expanded
    /// from another version of the preset keep that: a new version changes no store.
    #[must_use]
    pub(crate) fn with_preset(self, preset: &'static Preset, zone_tables: &'static str) -> Self {
        Self { preset: Some((preset, zone_tables)), ..self }
    }

    /// The rules given, and those of `base` for the others.
    #[must_use]
    pub fn over(&self, base: &Rules) -> Rules {
        // What the program itself fixes is never taken from a store.
        let Rules { quantisation, blob, .. } = Rules::default();
        let mut rules = Rules { quantisation, blob, ..base.clone() };
        if let Some((preset, zone_tables)) = self.preset.filter(|(it, _)| !it.is_in(base)) {
            preset.expand(&mut rules, zone_tables);
        }
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
        Rules { max_gap_ms: 600_000, max_samples: 7, ..Rules::default() }
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
        let differs = ["max_gap: the store has 10m, requested 5m".to_owned()];
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
    fn a_preset_is_expanded_once() {
        let preset = Preset::by_name("owntracks").unwrap();
        let lat = |from: &Rules, to: &mut Rules| to.fields.extend(from.fields.clone());
        let requested = Rules { fields: [("lat".into(), "/y".into())].into(), ..Rules::default() };
        let request = RulesRequest::new(requested, vec![lat]).with_preset(preset, "tables");
        let new = request.resolve(None).unwrap();
        assert_eq!(new.preset.as_deref(), Some("owntracks/1"));
        assert_eq!((&*new.fields["lat"], &*new.fields["lon"]), ("/y", "/lon"));
        assert_eq!(request.resolve(Some(&new)), Ok(new.clone()));
        // A store of another version keeps its expansion, but not another value of what is given.
        let mut older = Rules { preset: Some("owntracks/0".into()), ..new };
        older.fields.insert("lon".into(), "/x".into());
        assert_eq!(request.resolve(Some(&older)), Ok(older.clone()));
        older.fields.insert("lat".into(), "/x".into());
        assert!(request.resolve(Some(&older)).is_err());
        let differences = request.resolve(Some(&Rules::default())).unwrap_err().join("; ");
        assert!(differences.contains("preset: the store has none"), "{differences}");
    }

    #[test]
    fn what_the_program_fixes_is_not_taken_from_a_store() {
        let later = Rules { blob: 2, ..Rules::default() };
        let differs = RulesRequest::default().resolve(Some(&later)).unwrap_err();
        assert_eq!(differs, ["blob: the store has 2, requested 1"]);
    }
}
