//! What is known of an input that nothing reads for sure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::choose::{Chosen, map_text};
use super::outcome::Proposal;
use super::proposals::decode_flags;
use crate::settings::Settings;
use crate::source::ProposedMap;

/// Maximum length of a line that is shown, characters.
const MAX_LINE: usize = 200;

/// What a map leaves open, in place of the name of a field.
const OPEN: &str = "?";

/// What is known of the fields of an input that nothing reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Partial {
    /// The value of `--map` as far as it is known: `?` in place of a name.
    pub map: Option<String>,
    /// Other flags to read the input with.
    pub flags: Vec<Proposal>,
    /// The names that each field may be, which is open.
    pub candidates: BTreeMap<&'static str, Vec<String>>,
    /// The first lines or records, or their beginnings.
    pub lines: Vec<String>,
}

impl Partial {
    pub(super) fn new(chosen: &Chosen, settings: &Settings) -> Self {
        let shown = |line: &String| line.chars().take(MAX_LINE).collect();
        let lines = chosen.lines.iter().map(shown).collect();
        let Some((partial, tweaks)) = &chosen.partial else {
            return Self { lines, ..Self::default() };
        };
        let mut fields = partial.fields.clone();
        for field in &partial.missing {
            fields.insert((*field).into(), OPEN.into());
        }
        let map = map_text(&ProposedMap { fields, ..ProposedMap::default() });
        let mut flags = decode_flags(tweaks, None);
        flags.retain(|it| !it.is_given(settings));
        Self { map: Some(map), flags, candidates: partial.candidates.clone(), lines }
    }
}
