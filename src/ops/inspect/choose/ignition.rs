//! Tries the records with the ignition that they have, and without one that cannot be right.

use super::super::rules_found::ignition_fault;
use super::{Chooser, FieldSource};
use crate::source::{Surroundings, propose};

impl Chooser<'_> {
    /// Tries the ignition that the records have under another name, where the standard names, or a
    /// map that is given, read the others.
    pub(super) async fn try_ignition(&mut self) -> anyhow::Result<()> {
        let Some(best) = self.best.as_ref().filter(|best| best.tally.samples() > 0) else {
            return Ok(());
        };
        let is_found = matches!(best.fit, FieldSource::Map(_) | FieldSource::Preset(_));
        if is_found || best.tally.ignitions > 0 || best.rules.fields.contains_key("ignition") {
            return Ok(());
        }
        let map = propose(&self.outline, Surroundings::Nothing, &best.rules.fields);
        let Some(source) = map.fields.get("ignition") else { return Ok(()) };
        let (fit, mut tweaks, any_key) = (best.fit.clone(), best.tweaks.clone(), best.any_key);
        let samples = best.tally.samples();
        tweaks.fields.insert("ignition".into(), source.clone());
        if let Some(choice) = self.read(fit, tweaks, any_key).await?
            && choice.tally.samples() >= samples
            && choice.tally.ignitions > 0
        {
            self.map_notes = map.notes;
            self.best = Some(choice);
        }
        Ok(())
    }

    /// Tries the records without an ignition that makes stops of all. Returns what is wrong with
    /// it.
    pub(super) async fn try_without_ignition(&mut self) -> anyhow::Result<Option<String>> {
        let Some(best) = self.best.as_ref().filter(|best| best.tally.ignitions > 0) else {
            return Ok(None);
        };
        let Some(fault) = ignition_fault(&best.tally) else { return Ok(None) };
        let mut tweaks = best.tweaks.clone();
        tweaks.fields.insert("ignition".into(), "none".into());
        let (fit, any_key) = (best.fit.clone(), best.any_key);
        if let Some(choice) = self.read(fit, tweaks, any_key).await?
            && choice.tally.samples() > 0
        {
            // A map that is given stays as it is given.
            if choice.tally.ignitions == 0 {
                self.best = Some(choice);
            }
        }
        Ok(Some(fault))
    }
}
