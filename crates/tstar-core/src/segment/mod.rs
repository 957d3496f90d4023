//! Parts the samples of a device into trips and stops: every kept sample is in exactly one segment.
//!
//! Which samples form a segment depends on the set of kept samples alone, not on the order in which
//! they arrived. An id does depend on it: it is the device time of the sample at which it was
//! minted, and names the segment of that sample for ever.
//!
//! Pure: no clock, no I/O. [`decide`] looks at the phases around a sample; [`Timeline`] keeps the
//! samples and moves them to the segments that it returns.

mod arrival;
mod change;
mod group;
mod held;
mod load;
mod mint;
mod outline;
mod partition;
mod phase;
#[cfg(test)]
mod tests;
mod timeline;
#[cfg(test)]
mod timeline_tests;
mod window;

pub use arrival::{Arrival, Outcome};
pub use change::{Change, Decision, Placement, SURROUNDINGS, decide};
pub use group::TakenSpan;
pub use held::Segment;
pub use mint::{History, MintPoints, is_live};
pub use outline::Outline;
pub use phase::Phase;
pub use timeline::{TakenGroup, Timeline};

pub use crate::model::class::Class;

use crate::model::named::named;

named! {
    /// What a segment is.
    Kind {
        /// The vehicle moves.
        Trip = "trip",
        /// It stands.
        Stop = "stop",
    }
}

/// The rules that part samples into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRules {
    /// Samples at most this far apart in device time are linked, ms.
    pub max_gap_ms: i64,
    /// A vehicle that is slow for this long stands, ms. `None`: standing alone ends no trip.
    pub min_stop_ms: Option<i64>,
    /// No segment keeps more samples than this.
    pub max_samples: usize,
}

impl Default for SegmentRules {
    /// 5 minutes, 5 minutes, 100,000 samples.
    fn default() -> Self {
        Self { max_gap_ms: 300_000, min_stop_ms: Some(300_000), max_samples: 100_000 }
    }
}
