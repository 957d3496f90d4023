//! Phases that lie next to one another in memory, and what is known of them.
//!
//! A segment may have as many phases as samples. Those that can change nothing are one phase of the
//! window, so that a decision costs the same in a segment of any length.

use std::ops::Range;

use smallvec::SmallVec;

use super::change::Placement;
use super::outline::Outline;
use super::phase::Phase;
use super::{Class, Kind, SegmentRules};
use crate::model::scalar::DeviceTime;

/// How many phases of a segment on either side of a sample, and at either end of a day, a decision
/// may look at. Those between them are of one kind, of one day, and linked, whatever arrives.
const NEAR_PHASES: usize = 3;

/// What is known of a phase besides its samples.
#[derive(Clone, Copy, Debug, Default)]
struct Knowledge {
    /// Its kind, where that cannot have changed: what decides on it may not be in memory.
    kind: Option<Kind>,
    /// Whether everything between it and the phase before is in memory.
    since_before: bool,
    /// Whether it follows the phase before in a segment.
    follows: bool,
    /// Whether the movement of a day that it is part of may change.
    may_change: bool,
    /// The phases that it is, where the sample changes none of them.
    unchanged: Option<Unchanged>,
}

/// Phases of a segment that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unchanged {
    /// Place of the segment among those that the window was made of.
    pub(super) place: usize,
    /// The first of them.
    pub(super) first: usize,
    /// The one after the last.
    pub(super) end: usize,
}

impl Unchanged {
    /// Whether they are all phases of a segment.
    pub(super) fn is_all_of(self, segment: &Outline) -> bool {
        self.first == 0 && self.end == segment.phases.len()
    }
}

/// What a part of a window consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Phases as they were.
    Unchanged(Unchanged),
    /// A phase that the sample is part of, or that it cut.
    Changed(Phase),
}

/// Phases by time.
#[derive(Debug, Default)]
pub(super) struct Window {
    phases: Vec<Phase>,
    known: Vec<Knowledge>,
}

impl Window {
    /// Phases by time: each with its kind, where it is known, and whether it follows the one before
    /// in a segment.
    pub(super) fn from_phases(
        phases: Vec<(Phase, Option<Kind>, bool)>,
        is_known: impl Fn(DeviceTime, DeviceTime) -> bool,
    ) -> Self {
        let mut window = Self::default();
        for (phase, kind, is_inner) in phases {
            let last = window.phases.last();
            let since_before =
                is_inner || last.is_some_and(|last| is_known(last.last_ms, phase.first_ms));
            window.phases.push(phase);
            let may_change = kind.is_none();
            let known =
                Knowledge { kind, since_before, follows: is_inner, may_change, unchanged: None };
            window.known.push(known);
        }
        window
    }

    /// The phases of segments, by time, with a sample that arrives.
    pub(super) fn around(
        rules: &SegmentRules,
        near: &[&Outline],
        sample: Placement<
            impl Fn(DeviceTime, DeviceTime) -> bool,
            impl FnOnce(&Phase) -> (Phase, Phase),
        >,
    ) -> Self {
        let Placement { time_ms, class, is_known, cut } = sample;
        let mut window = Self::default();
        for (place, segment) in near.iter().enumerate() {
            for range in ranges(&segment.phases, time_ms) {
                window.push(place, segment, range, &is_known);
            }
        }
        let at = window.phases.partition_point(|phase| phase.last_ms < time_ms);
        match window.phases.get_mut(at) {
            Some(phase) if phase.covers(time_ms) && phase.class == class => {
                phase.samples += 1;
                window.known[at].unchanged = None;
            }
            Some(phase) if phase.covers(time_ms) => {
                let (before, after) = cut(phase);
                let inner = Knowledge { since_before: true, follows: true, ..Knowledge::default() };
                window.phases.splice(at..=at, [before, Phase::new(class, time_ms), after]);
                window.known[at].unchanged = None;
                window.known.splice(at + 1..at + 1, [inner, inner]);
            }
            _ => window.insert(rules, at, Phase::new(class, time_ms), is_known),
        }
        window.reopen(rules, time_ms);
        window
    }

    /// Appends phases of a segment as one.
    fn push(
        &mut self,
        place: usize,
        segment: &Outline,
        range: Range<usize>,
        is_known: impl Fn(DeviceTime, DeviceTime) -> bool,
    ) {
        let Range { start: first, end } = range.clone();
        let phases = &segment.phases[range];
        let samples = phases.iter().map(|phase| phase.samples).sum();
        let phase = Phase { last_ms: phases[phases.len() - 1].last_ms, samples, ..phases[0] };
        let follows = first > 0;
        let before = self.phases.last();
        let since_before =
            follows || before.is_some_and(|before| is_known(before.last_ms, phase.first_ms));
        let unchanged = Some(Unchanged { place, first, end });
        let (kind, may_change) = (Some(segment.kind), false);
        self.phases.push(phase);
        self.known.push(Knowledge { kind, since_before, follows, may_change, unchanged });
    }

    /// Number of samples of a part.
    pub(super) fn samples(&self, part: Range<usize>) -> usize {
        self.phases[part].iter().map(|phase| phase.samples).sum()
    }

    /// What a part consists of.
    pub(super) fn pieces(&self, part: Range<usize>) -> SmallVec<[Piece; 4]> {
        let mut pieces = SmallVec::<[Piece; 4]>::new();
        for at in part {
            match (pieces.last_mut(), self.known[at].unchanged) {
                (Some(Piece::Unchanged(before)), Some(next))
                    if before.place == next.place && before.end == next.first =>
                {
                    before.end = next.end;
                }
                (_, Some(next)) => pieces.push(Piece::Unchanged(next)),
                (_, None) => pieces.push(Piece::Changed(self.phases[at])),
            }
        }
        pieces
    }

    /// Inserts a sample between two phases, and joins it to those of its class.
    fn insert(
        &mut self,
        rules: &SegmentRules,
        at: usize,
        sample: Phase,
        is_known: impl Fn(DeviceTime, DeviceTime) -> bool,
    ) {
        let before = at.checked_sub(1).map(|before| self.phases[before]);
        let since_before = before.is_some_and(|before| is_known(before.last_ms, sample.first_ms));
        self.phases.insert(at, sample);
        self.known.insert(at, Knowledge { since_before, ..Knowledge::default() });
        if let Some(after) = self.phases.get(at + 1) {
            self.known[at + 1].since_before = is_known(sample.first_ms, after.first_ms);
        }
        for next in [at + 1, at] {
            if self.is_linked_in_day(rules, next)
                && self.phases[next - 1].class == self.phases[next].class
            {
                let after = self.phases.remove(next);
                self.known.remove(next);
                self.known[next - 1].unchanged = None;
                let before = &mut self.phases[next - 1];
                before.last_ms = after.last_ms;
                before.samples += after.samples;
            }
        }
    }

    /// Leaves open the kinds of those phases that a sample may change.
    fn reopen(&mut self, rules: &SegmentRules, time_ms: DeviceTime) {
        let own = self.phases.partition_point(|phase| phase.last_ms < time_ms);
        let mut first = own;
        let mut last = own;
        // How long the one before lasts, and whether its neighbours are next to movement.
        if self.phases[own].first_ms == time_ms && self.is_linked(rules, own) {
            first -= 1;
        }
        if self.phases[own].last_ms == time_ms && self.is_linked(rules, own + 1) {
            last += 1;
        }
        // If the one before stands by what the day says, it is not of the movement before it.
        let before = if self.is_linked_in_day(rules, own) { 2 } else { 1 };
        // Only the samples of a day decide on its movement.
        let day = self.phases[own].day();
        let surroundings = own.saturating_sub(before)..=(own + 1).min(self.phases.len() - 1);
        for at in surroundings {
            self.known[at].may_change |= self.phases[at].day() == day;
        }
        // What stands across a midnight is decided on together.
        first -= usize::from(self.is_slow_across(rules, first));
        last += usize::from(self.is_slow_across(rules, last + 1));
        self.known[first..=last].iter_mut().for_each(|known| known.kind = None);
        // Whether movement fills the day decides on standing that began before it.
        let of_day = self.phases.partition_point(|phase| phase.day() < day);
        if self.is_slow_across(rules, of_day) {
            self.known[of_day].kind = None;
        }
    }

    /// The phases.
    pub(super) fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The kind of a phase, where it is known already.
    pub(super) fn known_kind(&self, at: usize) -> Option<Kind> {
        self.known[at].kind
    }

    /// Whether a phase follows the one before in a segment that is in memory.
    pub(super) fn follows(&self, at: usize) -> bool {
        self.known[at].follows
    }

    /// Whether the movement of a day that a phase is part of may change.
    pub(super) fn may_change(&self, at: usize) -> bool {
        self.known[at].may_change
    }

    /// Whether a phase and the one before are slow and linked across a midnight.
    pub(super) fn is_slow_across(&self, rules: &SegmentRules, at: usize) -> bool {
        self.is_linked(rules, at)
            && self.phases[at - 1].class == Class::Slow
            && self.phases[at].class == Class::Slow
            && self.phases[at - 1].day() != self.phases[at].day()
    }

    /// Whether the samples on both sides of the border before a phase are linked.
    pub(super) fn is_linked(&self, rules: &SegmentRules, at: usize) -> bool {
        at > 0
            && at < self.phases.len()
            && self.phases[at].first_ms - self.phases[at - 1].last_ms <= rules.max_gap_ms
            && self.known[at].since_before
    }

    /// Whether they are linked, and of one day.
    pub(super) fn is_linked_in_day(&self, rules: &SegmentRules, at: usize) -> bool {
        self.is_linked(rules, at) && self.phases[at - 1].day() == self.phases[at].day()
    }

    /// Whether the phase before, or the one after, is of a class, linked, and of the same day.
    pub(super) fn is_next_to(&self, rules: &SegmentRules, at: usize, class: Class) -> bool {
        self.is_linked_in_day(rules, at) && self.phases[at - 1].class == class
            || self.is_linked_in_day(rules, at + 1) && self.phases[at + 1].class == class
    }
}

/// The phases of a segment as a sample of a time has to see them: one by one where the sample may
/// change something, the others together.
fn ranges(phases: &[Phase], time_ms: DeviceTime) -> SmallVec<[Range<usize>; 8]> {
    if phases.len() <= 2 * NEAR_PHASES {
        return (0..phases.len()).map(|at| at..at + 1).collect();
    }
    let own = phases.partition_point(|phase| phase.last_ms < time_ms);
    let near = own.saturating_sub(NEAR_PHASES)..own + NEAR_PHASES + 1;
    let mut ranges = SmallVec::new();
    let mut of_day = 0..0;
    while of_day.end < phases.len() {
        let day = phases[of_day.end].day();
        of_day = of_day.end..phases.partition_point(|phase| phase.day() <= day);
        let first = of_day.start + NEAR_PHASES;
        let last = of_day.end.saturating_sub(NEAR_PHASES);
        let mut next = of_day.start;
        for far in [first..last.min(near.start), first.max(near.end)..last] {
            if far.len() > 1 {
                ranges.extend((next..far.start).map(|at| at..at + 1));
                next = far.end;
                ranges.push(far);
            }
        }
        ranges.extend((next..of_day.end).map(|at| at..at + 1));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scalar::DAY_MS;

    #[test]
    fn of_a_long_segment_only_the_phases_near_a_sample_and_a_midnight_are_looked_at() {
        const MINUTE_MS: i64 = 60_000;
        let class = |minute| if minute % 2 == 0 { Class::Moving } else { Class::Slow };
        let phases: Vec<Phase> = (600..2_040)
            .map(|minute| Phase::new(class(minute), DeviceTime(minute * MINUTE_MS)))
            .collect();
        for minute in (595..2_050).map(DeviceTime) {
            let time_ms = DeviceTime(minute.ms() * MINUTE_MS);
            let ranges = ranges(&phases, time_ms);
            assert!(ranges.iter().flat_map(Clone::clone).eq(0..phases.len()), "{minute:?}");
            assert!(ranges.len() <= 6 * NEAR_PHASES + 4, "{minute:?}: {}", ranges.len());
            for far in ranges.iter().filter(|range| range.len() > 1) {
                let (first, last) = (&phases[far.start - NEAR_PHASES], &phases[far.end + 2]);
                assert_eq!(first.day(), last.day(), "{minute:?}");
                let before_ms = phases[far.end - 1 + NEAR_PHASES].last_ms;
                let after_ms = phases[far.start - NEAR_PHASES].first_ms;
                assert!(before_ms < time_ms || time_ms < after_ms, "{minute:?}: {far:?}");
            }
        }
        assert_eq!(phases[840].first_ms.ms(), DAY_MS);
    }
}
