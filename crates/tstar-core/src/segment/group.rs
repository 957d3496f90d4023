//! Write groups: changes of a device that are written together, because their spans touch.

use crate::model::scalar::{Day, DeviceTime, Version};
use crate::model::time::day_of;

/// A span that is taken away: in each day that it touches, every row that ends within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenSpan {
    /// Start of the span, ms; inclusive.
    pub start_ms: DeviceTime,
    /// End of the span, ms; inclusive.
    pub end_ms: DeviceTime,
    /// The version that took it away: newer rows stay.
    pub version: Version,
}

impl TakenSpan {
    /// The UTC days that it touches.
    pub fn days(self) -> impl Iterator<Item = Day> {
        day_of(self.start_ms).through(day_of(self.end_ms))
    }

    /// Whether deletes of `other` do all that deletes of this do.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        other.start_ms <= self.start_ms
            && self.end_ms <= other.end_ms
            && self.version <= other.version
    }

    fn touches(&self, other: &Self) -> bool {
        self.start_ms <= other.end_ms && other.start_ms <= self.end_ms
    }
}

/// Spans that are taken away together: of more than one segment, or of one that is less than what
/// was taken away. Most changes need none: a segment that only grew takes away its own span.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Its number, which its segments have.
    pub(super) key: u32,
    /// What was taken away. None lies within another.
    pub(super) taken: Vec<TakenSpan>,
}

impl Group {
    pub(super) fn touches(&self, spans: &[TakenSpan]) -> bool {
        self.taken.iter().any(|taken| spans.iter().any(|span| taken.touches(span)))
    }

    /// From the start of its first span to the end of its last one.
    pub(super) fn hull(&self) -> (DeviceTime, DeviceTime) {
        let (starts, ends) = (self.taken.iter(), self.taken.iter());
        let start_ms = starts.map(|span| span.start_ms).min().expect("a group has spans");
        (start_ms, ends.map(|span| span.end_ms).max().unwrap_or(start_ms))
    }

    /// Adds a span, unless another does all that it does.
    pub(super) fn add(&mut self, span: TakenSpan) {
        if !self.taken.iter().any(|taken| span.is_within(taken)) {
            self.taken.retain(|taken| !taken.is_within(&span));
            self.taken.push(span);
        }
    }
}
