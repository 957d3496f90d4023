//! What changed: write groups with their events.

use crate::model::scalar::Version;
use crate::segment::{ChangeEvent, Segment, TakenGroup, TakenSpan};

/// Changes of a device that belong together: write them in one transaction.
#[derive(Debug)]
pub struct ChangeGroup<'a> {
    /// Device id.
    pub device_id: &'a str,
    /// Lowest version of the changes.
    pub lowest: Version,
    /// What to delete first: every trip and stop of the device that ends within one of these spans,
    /// unless its version is above that of the span.
    pub taken: Vec<TakenSpan>,
    /// The trips and stops to write instead, by time.
    pub segments: Vec<SegmentChange<'a>>,
}

/// A trip or stop to write.
#[derive(Debug)]
pub struct SegmentChange<'a> {
    /// The trip or stop.
    pub segment: &'a Segment,
    /// What changed about it.
    pub event: ChangeEvent,
}

impl<'a> ChangeGroup<'a> {
    pub(super) fn new(device_id: &'a str, group: TakenGroup<'a>) -> Self {
        let TakenGroup { lowest, taken, segments } = group;
        let segments = segments.into_iter();
        let segments =
            segments.map(|it| SegmentChange { segment: it, event: it.event_since(lowest) });
        Self { device_id, lowest, taken, segments: segments.collect() }
    }
}
