//! Phases: the runs of samples that decide what a segment is.

use crate::model::class::Class;
use crate::model::scalar::{Day, DeviceTime};
use crate::model::time::day_of;

/// Linked samples of one class within a UTC day. Samples are linked if they are at most `max_gap`
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The class of all its samples.
    pub class: Class,
    /// Device time of its earliest sample.
    pub first_ms: DeviceTime,
    /// Device time of its latest sample.
    pub last_ms: DeviceTime,
    /// Number of samples, at least 1.
    pub samples: usize,
}

impl Phase {
    /// The phase of one sample.
    #[must_use]
    pub fn new(class: Class, time_ms: DeviceTime) -> Self {
        Self { class, first_ms: time_ms, last_ms: time_ms, samples: 1 }
    }

    /// The UTC day of all its samples.
    #[must_use]
    pub fn day(&self) -> Day {
        day_of(self.first_ms)
    }

    /// Whether a time lies between its first and last sample, or is one of them.
    #[must_use]
    pub fn covers(&self, time_ms: DeviceTime) -> bool {
        (self.first_ms..=self.last_ms).contains(&time_ms)
    }
}
