//! What a segment is, without the samples themselves.

use smallvec::SmallVec;

use super::arrival::Arrival;
use super::mint::MintPoints;
use super::phase::Phase;
use super::{Class, Kind, SegmentRules};
use crate::model::scalar::{DAY_MS, DeviceTime, Version};

/// A trip or a stop, without the samples themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Whether it is a trip or a stop.
    pub kind: Kind,
    /// Its samples by class, sorted by time. Most segments have one phase.
    pub phases: SmallVec<[Phase; 1]>,
    /// Its ids; one of them is live.
    pub points: MintPoints,
    /// Version of the last record that changed it.
    pub version: Version,
}

impl Outline {
    /// Device time of its earliest sample.
    #[inline]
    #[must_use]
    pub fn start_ms(&self) -> DeviceTime {
        self.phases[0].first_ms
    }

    /// Device time of its latest sample.
    #[inline]
    #[must_use]
    pub fn end_ms(&self) -> DeviceTime {
        self.phases[self.phases.len() - 1].last_ms
    }

    /// Number of its samples.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.phases.iter().map(|phase| phase.samples).sum()
    }

    /// The time of its id.
    ///
    /// # Panics
    /// No mint point is live, which [`super::change::decide`] does not leave behind.
    #[must_use]
    pub fn t_star_ms(&self) -> DeviceTime {
        self.points.live().expect("one id of a segment is live").0
    }
}

impl Outline {
    /// Place of the first phase that ends at or after a time.
    fn first_from(&self, time_ms: DeviceTime) -> usize {
        self.phases.partition_point(|phase| phase.last_ms < time_ms)
    }

    /// How a sample changes the segment, if it is linked to no other and changes no phase but the
    /// one that it joins, or that it begins at the end: then no kind can change. `None` if that is
    /// not certain.
    pub(super) fn growth(
        &self,
        rules: &SegmentRules,
        time_ms: DeviceTime,
        class: Class,
    ) -> Option<Arrival> {
        let at = self.first_from(time_ms);
        let Some(phase) = self.phases.get(at) else {
            return self.is_extended_by(rules, time_ms, class).then_some(Arrival::End);
        };
        if phase.covers(time_ms) {
            return (phase.class == class).then_some(Arrival::Inside);
        }
        let is_begun = at == 0
            && phase.class == class
            && class != Class::Slow
            && phase.first_ms - time_ms <= rules.max_gap_ms
            // So close to midnight, movement may fill its day.
            && time_ms - phase.day().start_ms() >= rules.max_gap_ms;
        is_begun.then_some(Arrival::Beginning)
    }

    /// Whether a later sample only extends the segment: it is linked, of the same day, and nothing
    /// else can depend on it.
    fn is_extended_by(&self, rules: &SegmentRules, time_ms: DeviceTime, class: Class) -> bool {
        let last = &self.phases[self.phases.len() - 1];
        let day_start_ms = last.day().start_ms();
        if time_ms - last.last_ms > rules.max_gap_ms
            // So close to midnight, movement may fill its day.
            || time_ms - day_start_ms >= DAY_MS - rules.max_gap_ms
            // What stands before a midnight may have to be counted to it.
            || last.class == Class::Slow
                && last.first_ms - day_start_ms < rules.max_gap_ms
                && rules.min_stop_ms.is_some_and(|min_ms| last.last_ms - last.first_ms < min_ms)
        {
            return false;
        }
        let stands = || rules.min_stop_ms.is_some_and(|min_ms| time_ms - last.first_ms >= min_ms);
        match (self.kind, last.class, class) {
            (Kind::Trip, Class::Moving, Class::Moving | Class::Slow) => true,
            (Kind::Trip, Class::Slow, Class::Moving | Class::Slow) => !stands(),
            (Kind::Stop, last, class) => last == class && class != Class::Moving,
            (Kind::Trip, _, Class::Separator) | (Kind::Trip, Class::Separator, _) => false,
        }
    }

    /// Adds a sample that [`Outline::growth`] allows.
    pub(super) fn add(&mut self, time_ms: DeviceTime, class: Class, version: Version) {
        self.version = version;
        let at = self.first_from(time_ms);
        if let Some(phase) = self.phases.get_mut(at) {
            phase.first_ms = phase.first_ms.min(time_ms);
            phase.samples += 1;
            return;
        }
        let last = self.phases.last_mut().expect("a segment has samples");
        if last.class == class {
            last.last_ms = time_ms;
            last.samples += 1;
        } else {
            self.phases.push(Phase::new(class, time_ms));
        }
    }
}
