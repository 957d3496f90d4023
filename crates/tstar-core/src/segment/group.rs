//! Write groups: changes of a device that are written together, because their spans touch.

use crate::model::scalar::{Day, DeviceTime, Version};
use crate::model::time::day_of;

/// Number of spans from which on a group is written without delay, so that it stays a small part of
/// what a store takes at once.
pub(super) const LARGE: u32 = 1_000;

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
    /// Lowest version of its changes, which its segments have.
    pub(super) lowest: Version,
}

impl Group {
    /// Whether any of these spans touches it.
    pub(super) fn touches(&self, spans: &[TakenSpan]) -> bool {
        self.taken.iter().any(|taken| spans.iter().any(|span| taken.touches(span)))
    }

    /// Adds a span, unless another does all that it does.
    pub(super) fn add(&mut self, span: TakenSpan) {
        if !self.taken.iter().any(|taken| span.is_within(taken)) {
            self.taken.retain(|taken| !taken.is_within(&span));
            self.taken.push(span);
        }
    }
}

/// From the start of the first span to the end of the last one.
///
/// # Panics
/// There is none.
pub(super) fn hull<'a>(
    spans: impl Iterator<Item = &'a TakenSpan> + Clone,
) -> (DeviceTime, DeviceTime) {
    let start_ms = spans.clone().map(|span| span.start_ms).min().expect("there are spans");
    (start_ms, spans.map(|span| span.end_ms).max().unwrap_or(start_ms))
}

/// The write groups of a timeline that are not of one segment alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    all: Vec<Group>,
    /// No span ends later. Most samples arrive behind all groups that wait.
    latest_ms: DeviceTime,
    next_key: u32,
    /// No group has had more spans since there was none.
    largest: u32,
}

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a group is large.
    pub(super) fn has_large(&self) -> bool {
        !self.all.is_empty() && self.largest >= LARGE
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.all.iter()
    }

    /// The group with a number.
    ///
    /// # Panics
    /// There is none.
    pub(super) fn get_mut(&mut self, key: u32) -> &mut Group {
        let group = self.all.iter_mut().find(|group| group.key == key);
        group.expect("T3: a segment has its group")
    }

    /// Adds spans, of which changes since `lowest` took some away, to the largest group that they
    /// touch, or to a new one. Returns its number, and the other groups that they touch: their
    /// spans are in it now.
    pub(super) fn join(&mut self, spans: &[TakenSpan], lowest: Version) -> (u32, Vec<Group>) {
        let (_, end_ms) = hull(spans.iter());
        if self.all.is_empty() {
            (self.latest_ms, self.largest) = (end_ms, 0);
        }
        self.latest_ms = self.latest_ms.max(end_ms);
        let mut touched: Vec<Group> =
            self.all.extract_if(.., |group| group.touches(spans)).collect();
        touched.sort_by_key(|group| group.taken.len());
        let mut group = touched.pop().unwrap_or_else(|| {
            let key = self.next_key;
            self.next_key = key.wrapping_add(1);
            Group { key, taken: Vec::new(), lowest }
        });
        touched.iter().flat_map(|other| &other.taken).chain(spans).for_each(|&it| group.add(it));
        let key = group.key;
        let spans = u32::try_from(group.taken.len()).unwrap_or(u32::MAX);
        self.largest = self.largest.max(spans);
        self.all.push(group);
        (key, touched)
    }

    /// Adds a span to the group with a number.
    ///
    /// # Panics
    /// There is none.
    pub(super) fn add(&mut self, key: u32, span: TakenSpan) {
        self.get_mut(key).add(span);
        self.latest_ms = self.latest_ms.max(span.end_ms);
    }

    /// Whether any of these spans touches a group.
    pub(super) fn touch(&self, spans: &[TakenSpan]) -> bool {
        let is_behind = |span: &TakenSpan| self.latest_ms < span.start_ms;
        !spans.iter().all(is_behind) && self.all.iter().any(|group| group.touches(spans))
    }

    /// Removes the one with a number.
    pub(super) fn remove(&mut self, key: u32) -> Option<Group> {
        let at = self.all.iter().position(|group| group.key == key)?;
        Some(self.all.swap_remove(at))
    }
}
