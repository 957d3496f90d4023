//! What absorbing a sample did to the segments of its device.

use super::Kind;
use super::outline::Outline;
use crate::model::named::named;
use crate::model::sample::Sample;
use crate::model::scalar::DeviceTime;

named! {
    /// How a sample changed the segments of its device.
    Arrival {
        /// It started a segment.
        New = "new",
        /// It moved the end of a segment.
        End = "end",
        /// It lies inside a segment.
        Inside = "inside",
        /// It moved the start of a segment.
        Beginning = "beginning",
        /// It joined segments.
        Merge = "merge",
        /// It divided a segment.
        Split = "split",
        /// It made a trip of a stop, or a stop of a trip.
        Turn = "turn",
    }
}

/// The result of absorbing a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sample is kept.
    Applied(Arrival),
    /// A sample of this device time is kept. Nothing changed.
    Duplicate {
        /// The kept sample, if it was measured differently.
        conflict: Option<Sample>,
    },
    /// A dead letter: it would make a segment too large.
    Full,
}

impl Outcome {
    /// The result of a sample whose device time has a kept one.
    pub(super) fn duplicate(kept: Sample, sample: &Sample) -> Self {
        Self::Duplicate { conflict: (!kept.is_same_measurement(sample)).then_some(kept) }
    }
}

/// How a sample changed segments. `taken`: the kinds of those that it took away.
pub(super) fn arrival(taken: &[Kind], added: &[Outline], time_ms: DeviceTime) -> Arrival {
    let old =
        |outline: &&Outline| outline.end_ms() > outline.start_ms() || outline.start_ms() != time_ms;
    let former = added.iter().filter(old).count();
    let holder = added.iter().find(|it| (it.start_ms()..=it.end_ms()).contains(&time_ms));
    let holder = holder.expect("the sample is in a segment");
    if former > taken.len() {
        Arrival::Split
    } else if former < taken.len() {
        Arrival::Merge
    } else if !old(&holder) && taken.is_empty() {
        Arrival::New
    } else if added.iter().filter(old).zip(taken).any(|(new, old)| new.kind != *old) {
        Arrival::Turn
    } else if !old(&holder) {
        Arrival::New
    } else if holder.start_ms() == time_ms {
        Arrival::Beginning
    } else if holder.end_ms() == time_ms {
        Arrival::End
    } else {
        Arrival::Inside
    }
}
