//! What a segment is, without the samples themselves.

use super::mint::{self, MintPoints};
use super::phase::Phase;
use super::{Class, Kind, SegmentRules};
use crate::model::scalar::{DAY_MS, DeviceTime, Version};

/// A trip or a stop, without the samples themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Whether it is a trip or a stop.
    pub kind: Kind,
    /// Its samples by class, sorted by time.
    pub phases: Vec<Phase>,
    /// Its ids; one of them is live.
    pub points: MintPoints,
    /// Version of the last record that changed it.
    pub version: Version,
}

impl Outline {
    /// Device time of its earliest sample.
    #[must_use]
    pub fn start_ms(&self) -> DeviceTime {
        self.phases[0].first_ms
    }

    /// Device time of its latest sample.
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
    /// No mint point is live, which [`decide`] does not leave behind.
    #[must_use]
    pub fn t_star_ms(&self) -> DeviceTime {
        let live = self.points.iter().find(|(_, history)| mint::is_live(history));
        *live.expect("one id of a segment is live").0
    }
}

impl Outline {
    /// Whether a later sample only extends the segment, if no other follows it: it is linked, of
    /// the same day, and nothing else can depend on it.
    pub(super) fn is_extended_by(
        &self,
        rules: &SegmentRules,
        time_ms: DeviceTime,
        class: Class,
    ) -> bool {
        let last = &self.phases[self.phases.len() - 1];
        let day_start_ms = last.day().start_ms();
        if time_ms - last.last_ms > rules.max_gap_ms
            // So close to midnight, movement may fill its day.
            || time_ms - day_start_ms >= DAY_MS - rules.max_gap_ms
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

    /// Adds a sample that [`Outline::is_extended_by`] allows.
    pub(super) fn extend(&mut self, time_ms: DeviceTime, class: Class, version: Version) {
        let last = self.phases.last_mut().expect("a segment has samples");
        if last.class == class {
            last.last_ms = time_ms;
            last.samples += 1;
        } else {
            self.phases.push(Phase::new(class, time_ms));
        }
        self.version = version;
    }
}
