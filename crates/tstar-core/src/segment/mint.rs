//! Mint points: the device times at which ids were born, and what became of them.

use std::collections::BTreeMap;

use super::phase::Phase;
use super::{Class, Kind};
use crate::model::scalar::{DeviceTime, Version};

/// The versions at which an id was minted, retired, revived, retired and so on. The id names its
/// segment if their number is odd.
pub type History = Vec<Version>;

/// The mint points of a segment, with their histories. Exactly one names the segment.
pub type MintPoints = BTreeMap<DeviceTime, History>;

/// Whether an id with this history names its segment.
#[must_use]
pub fn is_live(history: &[Version]) -> bool {
    history.len() % 2 == 1
}

/// Gives a segment its id, of the record at `version`. `points` are the mint points at its samples.
///
/// The id is the earliest mint point at a sample that may name the segment: a moving one of a trip,
/// any one of a stop. Without one, the earliest such sample is minted.
pub(super) fn name(kind: Kind, phases: &[Phase], points: &mut MintPoints, version: Version) {
    let may = |phase: &&Phase| kind == Kind::Stop || phase.class == Class::Moving;
    let is_at = |time_ms| phases.iter().filter(may).any(|phase| phase.covers(time_ms));
    let id = points.keys().copied().find(|&time_ms| is_at(time_ms)).unwrap_or_else(|| {
        let earliest = phases.iter().find(may).or(phases.first());
        let earliest = earliest.expect("a segment has samples").first_ms;
        points.insert(earliest, vec![version]);
        earliest
    });
    for (&time_ms, history) in points {
        if is_live(history) != (time_ms == id) {
            history.push(version);
        }
    }
}
