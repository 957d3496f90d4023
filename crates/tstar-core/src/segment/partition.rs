//! Parts phases into segments. The result is a function of the phases, so of the set of kept
//! samples.

use std::ops::Range;

use smallvec::SmallVec;

use super::phase::Phase;
use super::window::Window;
use super::{Class, Kind, SegmentRules};
use crate::model::scalar::{DAY_MS, DeviceTime};

/// The segments of phases, as ranges of them.
pub(super) fn partition(rules: &SegmentRules, window: &Window) -> Vec<(Kind, Range<usize>)> {
    let phases = Phases { rules, window };
    let days = phases.of_days();
    let mut segments: Vec<(Kind, Range<usize>)> = Vec::new();
    for at in 0..window.phases().len() {
        let kind = phases.kind(at, &days);
        match segments.last_mut() {
            Some((before, segment)) if *before == kind && phases.is_joined(at, kind, &days) => {
                segment.end = at + 1;
            }
            _ => segments.push((kind, at..at + 1)),
        }
    }
    segments
}

/// What there is to know of the movement of a day that a phase is part of. Only the samples of the
/// day decide on it.
#[derive(Clone, Copy, Default)]
struct OfDay {
    /// It reaches so close to both ends of the day that nothing else can, so that it is cut at both
    /// midnights.
    is_full: bool,
    /// It need not be as before, which segments in memory show.
    may_change: bool,
}

/// Phases that are parted.
struct Phases<'a> {
    rules: &'a SegmentRules,
    window: &'a Window,
}

impl Phases<'_> {
    fn phase(&self, at: usize) -> &Phase {
        &self.window.phases()[at]
    }

    fn is_linked(&self, at: usize) -> bool {
        self.window.is_linked(self.rules, at)
    }

    fn is_linked_in_day(&self, at: usize) -> bool {
        self.window.is_linked_in_day(self.rules, at)
    }

    /// Until when a phase is known to last: the sample that is linked to its last one, else that.
    fn until_ms(&self, at: usize) -> DeviceTime {
        if self.is_linked(at + 1) { self.phase(at + 1).first_ms } else { self.phase(at).last_ms }
    }

    fn is_long(&self, duration_ms: i64) -> bool {
        self.rules.min_stop_ms.is_some_and(|min_ms| duration_ms >= min_ms)
    }

    /// Whether a slow phase is standing: for `min_stop`, counted beyond the midnight at
    /// its end, or without movement of the day next to it. So a parked device whose samples are
    /// further apart than `max_gap` makes no trips of one sample.
    fn is_standing(&self, at: usize) -> bool {
        let continues = self.window.is_slow_across(self.rules, at + 1);
        let until_ms = self.until_ms(if continues { at + 1 } else { at });
        self.is_long(until_ms - self.phase(at).first_ms) || !self.is_next_to_movement(at)
    }

    fn is_next_to_movement(&self, at: usize) -> bool {
        self.window.is_next_to(self.rules, at, Class::Moving)
    }

    /// Whether a slow phase stands only with the one before the midnight at which it begins.
    ///
    /// Then they are one stop: what ends left of a midnight can be erased without changing what is
    /// right of it. For the same reason nothing leans where movement would no longer fill the day.
    fn leans(&self, at: usize, days: &[OfDay]) -> bool {
        if self.window.known_kind(at).is_some() {
            return self.window.follows(at);
        }
        self.window.is_slow_across(self.rules, at)
            && self.is_long(self.until_ms(at) - self.phase(at - 1).first_ms)
            && !self.is_standing(at)
            && !days[at].is_full
    }

    fn kind(&self, at: usize, days: &[OfDay]) -> Kind {
        let known = self.window.known_kind(at);
        known.unwrap_or_else(|| {
            self.kind_by_class(at, || self.is_standing(at) || self.leans(at, days))
        })
    }

    fn kind_by_class(&self, at: usize, is_standing: impl FnOnce() -> bool) -> Kind {
        match self.phase(at).class {
            Class::Separator => Kind::Stop,
            Class::Slow if is_standing() => Kind::Stop,
            Class::Slow | Class::Moving => Kind::Trip,
        }
    }

    /// Whether a phase is of one segment with the one before, which is of its kind.
    fn is_joined(&self, at: usize, kind: Kind, days: &[OfDay]) -> bool {
        if !self.is_linked(at) {
            return false;
        }
        self.is_linked_in_day(at)
            || match kind {
                Kind::Stop => self.leans(at, days),
                Kind::Trip if days[at - 1].may_change || days[at].may_change => {
                    !days[at - 1].is_full && !days[at].is_full
                }
                Kind::Trip => self.window.follows(at),
            }
    }

    fn of_days(&self) -> SmallVec<[OfDay; 8]> {
        let phases = self.window.phases();
        let mut days = SmallVec::from_elem(OfDay::default(), phases.len());
        if phases.first().map(Phase::day) == phases.last().map(Phase::day) {
            return days; // There is no midnight to cut them at.
        }
        let kinds: SmallVec<[Kind; 8]> = (0..phases.len()).map(|at| self.kind_of_day(at)).collect();
        let mut first = 0;
        for at in 0..phases.len() {
            if self.is_linked_in_day(at + 1) && kinds[at + 1] == kinds[at] {
                continue;
            }
            let piece = first..at + 1;
            first = at + 1;
            let is_full = kinds[at] == Kind::Trip && self.fills_day(&phases[piece.clone()]);
            let may_change = piece.clone().any(|at| self.window.may_change(at));
            days[piece].fill(OfDay { is_full, may_change });
        }
        days
    }

    fn fills_day(&self, piece: &[Phase]) -> bool {
        let (first, last) = (&piece[0], &piece[piece.len() - 1]);
        let start_ms = first.day().start_ms();
        first.first_ms - start_ms < self.rules.max_gap_ms
            && last.last_ms - start_ms >= DAY_MS - self.rules.max_gap_ms
    }

    /// The kind of a phase, if there were no samples of other days.
    fn kind_of_day(&self, at: usize) -> Kind {
        // Only of a stop at a midnight do other days decide.
        let is_edge = !self.is_linked_in_day(at) || !self.is_linked_in_day(at + 1);
        let known = self.window.known_kind(at);
        known.filter(|kind| *kind == Kind::Trip || !is_edge).unwrap_or_else(|| {
            let phase = self.phase(at);
            let is_followed = self.is_linked_in_day(at + 1);
            let until_ms = if is_followed { self.phase(at + 1).first_ms } else { phase.last_ms };
            self.kind_by_class(at, || {
                self.is_long(until_ms - phase.first_ms) || !self.is_next_to_movement(at)
            })
        })
    }
}
