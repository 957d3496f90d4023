//! Phases that lie next to one another in memory, and what is known of them.

use super::change::Placement;
use super::outline::Outline;
use super::phase::Phase;
use super::{Class, Kind, SegmentRules};
use crate::model::scalar::DeviceTime;

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
            window.known.push(Knowledge { kind, since_before, follows: is_inner, may_change });
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
        let phases = near.iter().flat_map(|segment| {
            let phases = segment.phases.iter().enumerate();
            phases.map(|(nth, phase)| (*phase, Some(segment.kind), nth > 0))
        });
        let mut window = Self::from_phases(phases.collect(), &is_known);
        let at = window.phases.partition_point(|phase| phase.last_ms < time_ms);
        match window.phases.get_mut(at) {
            Some(phase) if phase.covers(time_ms) && phase.class == class => {
                phase.samples += 1;
            }
            Some(phase) if phase.covers(time_ms) => {
                let (before, after) = cut(phase);
                let inner = Knowledge { since_before: true, follows: true, ..Knowledge::default() };
                window.phases.splice(at..=at, [before, Phase::new(class, time_ms), after]);
                window.known.splice(at + 1..at + 1, [inner, inner]);
            }
            _ => window.insert(rules, at, Phase::new(class, time_ms), is_known),
        }
        window.reopen(rules, time_ms);
        window
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
