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
mod event;
mod flush;
mod group;
mod held;
mod load;
mod mint;
mod outline;
mod partition;
mod pending;
mod phase;
mod segments;
#[cfg(test)]
mod tests;
mod timeline;
#[cfg(test)]
mod timeline_tests;
mod window;

pub use arrival::{Arrival, Outcome};
pub use event::{ChangeEvent, ChangeKind};
pub use flush::{Due, TakenGroup};
pub use group::TakenSpan;
pub use held::Segment;
pub use load::DaysToLoad;
pub use mint::{History, MintPoints, is_live};
pub use outline::Outline;
pub use pending::Waiting;
pub use phase::Phase;
pub use timeline::Timeline;

pub use crate::model::class::Class;
pub use crate::model::limits::SegmentRules;

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

named! {
    /// Which segments a reader wants.
    Kinds {
        /// Trips.
        Trips = "trip",
        /// Stops.
        Stops = "stop",
        /// Both.
        All = "all",
    }
}

impl Kinds {
    /// What one of them is called.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Trips | Self::Stops => self.name(),
            Self::All => "trip or stop",
        }
    }

    /// Whether segments of a kind are wanted.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match self {
            Self::Trips => kind == Kind::Trip,
            Self::Stops => kind == Kind::Stop,
            Self::All => true,
        }
    }
}
