//! What a flush takes: write groups whose changes are due.

use std::collections::BTreeSet;

use super::group::TakenSpan;
use super::held::Segment;
use super::timeline::Timeline;
use crate::model::scalar::Version;

/// What a flush writes together: spans of a device that are taken away, and the segments that come
/// instead.
#[derive(Debug)]
pub struct TakenGroup<'a> {
    /// Lowest version of the changes.
    pub lowest: Version,
    /// The spans, of which none lies within another.
    pub taken: Vec<TakenSpan>,
    /// The segments, by time.
    pub segments: Vec<&'a Segment>,
}

/// Which changes of a device wait for a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Some are due.
    pub some: bool,
    /// Some are not due yet.
    pub waits: bool,
}

impl Segment {
    /// What a segment takes away that only grew.
    pub(super) fn own_span(&self) -> TakenSpan {
        let (start_ms, end_ms) = (self.start_ms(), self.end_ms());
        TakenSpan { start_ms, end_ms, version: self.version() }
    }
}

impl Timeline {
    /// Lowest version of the changes that no flush has taken yet.
    #[must_use]
    pub fn unflushed(&self) -> Option<Version> {
        self.segments.iter().filter_map(Segment::unflushed).min()
    }

    /// Visits each segment with changes, and marks those that `is_due`: a group is if one of its
    /// segments is.
    pub fn mark_due(&mut self, mut is_due: impl FnMut(&mut Segment) -> bool) -> Due {
        let mut due = Due::default();
        for segment in self.segments.iter_mut().filter(|it| it.unflushed.is_some()) {
            segment.pending.is_due = is_due(segment);
            due.some |= segment.pending.is_due;
            due.waits |= !segment.pending.is_due;
        }
        if !self.groups.is_empty() && due.some && due.waits {
            due.waits = self.mark_whole_groups();
        }
        due
    }

    /// Returns whether any change is not due.
    fn mark_whole_groups(&mut self) -> bool {
        let due = self.segments.iter().filter(|segment| segment.pending.is_due);
        let due: BTreeSet<u32> = due.filter_map(|segment| segment.group).collect();
        let mut waits = false;
        for segment in self.segments.iter_mut().filter(|it| it.unflushed.is_some()) {
            segment.pending.is_due |= segment.group.is_some_and(|group| due.contains(&group));
            waits |= !segment.pending.is_due;
        }
        waits
    }

    /// Takes the groups that are marked as due, or all of them, and marks their segments as clean.
    pub fn take_groups(&mut self, takes_all: bool) -> Vec<TakenGroup<'_>> {
        let mut taken: Vec<(Option<u32>, TakenGroup<'_>)> = Vec::new();
        let groups = &mut self.groups;
        for segment in self.segments.iter_mut() {
            let is_taken = takes_all || segment.pending.is_due;
            let Some(lowest) = segment.unflushed.filter(|_| is_taken) else { continue };
            let key = segment.group.take();
            segment.unflushed = None;
            segment.pending.forget_taken();
            let begun = key.and_then(|_| taken.iter_mut().find(|(other, _)| *other == key));
            if let Some((_, group)) = begun {
                group.segments.push(segment);
                continue;
            }
            let group = key.and_then(|key| groups.remove(key));
            let spans = group.map_or_else(|| vec![segment.own_span()], |group| group.taken);
            taken.push((key, TakenGroup { lowest, taken: spans, segments: vec![segment] }));
        }
        taken.into_iter().map(|(_, group)| group).collect()
    }
}
