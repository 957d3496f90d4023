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
    /// Whether any of these spans touches it.
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

/// The write groups of a timeline that are not of one segment alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    all: Vec<Group>,
    /// No span ends later. Most samples arrive behind all groups that wait.
    latest_ms: DeviceTime,
    next_key: u32,
}

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.all.iter()
    }

    /// A group without spans, with a number of its own.
    pub(super) fn begin(&mut self) -> Group {
        let key = self.next_key;
        self.next_key = key.wrapping_add(1);
        Group { key, taken: Vec::new() }
    }

    pub(super) fn push(&mut self, group: Group) {
        let (_, end_ms) = group.hull();
        self.latest_ms = if self.all.is_empty() { end_ms } else { self.latest_ms.max(end_ms) };
        self.all.push(group);
    }

    /// Adds a span to the group with a number.
    ///
    /// # Panics
    /// There is none.
    pub(super) fn add(&mut self, key: u32, span: TakenSpan) {
        let group = self.all.iter_mut().find(|group| group.key == key);
        group.expect("T3: a segment has its group").add(span);
        self.latest_ms = self.latest_ms.max(span.end_ms);
    }

    /// Whether any of these spans touches a group.
    pub(super) fn touch(&self, spans: &[TakenSpan]) -> bool {
        let is_behind = |span: &TakenSpan| self.latest_ms < span.start_ms;
        !spans.iter().all(is_behind) && self.all.iter().any(|group| group.touches(spans))
    }

    /// Takes out those that any of these spans touches.
    pub(super) fn extract(&mut self, spans: &[TakenSpan]) -> Vec<Group> {
        self.all.extract_if(.., |group| group.touches(spans)).collect()
    }

    /// Removes the one with a number.
    pub(super) fn remove(&mut self, key: u32) -> Option<Group> {
        let at = self.all.iter().position(|group| group.key == key)?;
        Some(self.all.swap_remove(at))
    }
}
