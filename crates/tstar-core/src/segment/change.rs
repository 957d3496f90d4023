//! What a sample changes: the segments that it takes away, and those that come instead.

use super::mint::MintPoints;
use super::outline::Outline;
use super::partition::partition;
use super::phase::Phase;
use super::window::Window;
use super::{Class, SegmentRules};
use crate::model::scalar::{DeviceTime, Version};

/// The segments that a sample takes away and those that come instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Places of those that it takes away, among the segments that were given, ascending.
    pub taken: Vec<usize>,
    /// Those that come instead, by time.
    pub added: Vec<Outline>,
}

/// What becomes of a sample whose device time is not kept yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is kept.
    Keep(Change),
    /// A dead letter: it would make a segment of more than `max_samples`.
    Full,
}

/// Where a sample belongs.
#[derive(Clone, Copy, Debug)]
pub struct Placement<K, C> {
    /// Device time of the sample.
    pub time_ms: DeviceTime,
    /// Its class.
    pub class: Class,
    /// Whether everything between two times is in memory.
    pub is_known: K,
    /// Cuts a phase at the time of the sample, which lies between two of its samples.
    pub cut: C,
}

/// How many segments on each side of those within `max_gap` of a sample decide on what it changes:
/// that of a phase whose kind it changes, where that one lasts over a midnight, and the one that
/// such a phase joins; or that of movement which no longer fills its day, the one across the
/// midnight that it then joins, and a stop at the other end of that day: by what the day says, it
/// may be of the movement that fills it. What is linked to these only ever changes with them in one
/// segment: a trip that grows may fill its day, but only one that the sample is linked to gets
/// shorter, so that its day is no longer filled.
pub const SURROUNDINGS: usize = 3;

/// Decides what a sample of the record at `version` changes.
///
/// `near` are the segments around it, by time: those within `max_gap` of it, and on either side the
/// next [`SURROUNDINGS`] of which each is linked to the one before. More of them change nothing.
/// None of them has a sample at that time.
#[must_use]
pub fn decide(
    rules: &SegmentRules,
    near: &[&Outline],
    version: Version,
    placement: Placement<
        impl Fn(DeviceTime, DeviceTime) -> bool,
        impl FnOnce(&Phase) -> (Phase, Phase),
    >,
) -> Decision {
    let window = Window::around(rules, near, placement);
    let parts = partition(rules, &window);
    let is_same = |segment: &Outline, kind, phases: &[Phase]| {
        segment.kind == kind && *segment.phases == *phases
    };
    let mut kept = vec![false; near.len()];
    let mut new = Vec::new();
    for (kind, range) in parts {
        let phases = &window.phases()[range];
        match near.iter().position(|segment| is_same(segment, kind, phases)) {
            Some(place) => kept[place] = true,
            None => new.push((kind, phases)),
        }
    }
    let samples = |phases: &[Phase]| phases.iter().map(|phase| phase.samples).sum::<usize>();
    if new.iter().any(|(_, phases)| samples(phases) > rules.max_samples) {
        return Decision::Full;
    }
    let taken: Vec<usize> = (0..near.len()).filter(|&place| !kept[place]).collect();
    let added = new.into_iter().map(|(kind, phases)| {
        let span_ms = phases[0].first_ms..=phases[phases.len() - 1].last_ms;
        let points = taken.iter().flat_map(|&place| near[place].points.within(span_ms.clone()));
        let mut points: MintPoints = points.cloned().collect();
        points.name(kind, phases, version);
        Outline { kind, phases: phases.into(), points, version }
    });
    Decision::Keep(Change { added: added.collect(), taken })
}
