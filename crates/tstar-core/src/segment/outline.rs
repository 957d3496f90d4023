//! What a segment is, without the samples themselves.

use super::mint::{self, MintPoints};
use super::phase::Phase;
use super::Kind;
use crate::model::scalar::{DeviceTime, Version};

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
