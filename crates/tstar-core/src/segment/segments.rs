//! The segments of a device, by start time.
//!
//! Most devices in memory have one segment, and most samples extend the newest. It lies in the
//! struct itself, so that it is found without following a pointer; a map has the earlier ones.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::held::Segment;
use crate::model::scalar::DeviceTime;

/// Segments by start time. Their times do not overlap; the caller sees to that.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    /// The segment that starts last; `None` if there is no segment.
    newest: Option<Segment>,
    /// All others. Boxed, so that tree nodes move pointers instead of segments.
    earlier: BTreeMap<DeviceTime, Box<Segment>>,
}

impl Segments {
    /// The segment that starts last, which also ends last.
    pub(super) fn newest(&self) -> Option<&Segment> {
        self.newest.as_ref()
    }

    /// The segment that starts first.
    pub(super) fn earliest(&self) -> Option<&Segment> {
        let earlier = self.earlier.first_key_value().map(|(_, segment)| &**segment);
        earlier.or(self.newest.as_ref())
    }

    /// The newest of the segments that start at or before a time.
    pub(super) fn until(&self, time_ms: DeviceTime) -> Option<&Segment> {
        match &self.newest {
            Some(newest) if newest.start_ms() <= time_ms => Some(newest),
            _ => self.earlier.range(..=time_ms).next_back().map(|(_, segment)| &**segment),
        }
    }

    /// The segment that starts at a time.
    pub(super) fn get(&self, start_ms: DeviceTime) -> Option<&Segment> {
        self.until(start_ms).filter(|segment| segment.start_ms() == start_ms)
    }

    /// The segment that starts at a time. Its start must not change.
    pub(super) fn get_mut(&mut self, start_ms: DeviceTime) -> Option<&mut Segment> {
        match &mut self.newest {
            Some(newest) if newest.start_ms() == start_ms => Some(newest),
            _ => self.earlier.get_mut(&start_ms).map(|segment| &mut **segment),
        }
    }

    /// The segments that start at or before a time, the newest first.
    pub(super) fn back_from(&self, time_ms: DeviceTime) -> impl Iterator<Item = &Segment> {
        let newest = self.newest.iter().filter(move |newest| newest.start_ms() <= time_ms);
        newest.chain(self.earlier.range(..=time_ms).rev().map(|(_, segment)| &**segment))
    }

    /// The segments that start after a time, by time.
    pub(super) fn after(&self, time_ms: DeviceTime) -> impl Iterator<Item = &Segment> {
        let newest = self.newest.iter().filter(move |newest| newest.start_ms() > time_ms);
        let is_any = newest.clone().next().is_some();
        let after = (Bound::Excluded(time_ms), Bound::Unbounded);
        // Behind the newest there is none, and the map need not be asked.
        let earlier = is_any.then(|| self.earlier.range(after));
        earlier.into_iter().flatten().map(|(_, segment)| &**segment).chain(newest)
    }

    /// The segments of which some part lies between two times, the newest first. Their start times
    /// must not change.
    pub(super) fn within_mut(
        &mut self,
        (from_ms, to_ms): (DeviceTime, DeviceTime),
    ) -> impl Iterator<Item = &mut Segment> {
        let newest = self.newest.iter_mut().filter(move |newest| newest.start_ms() <= to_ms);
        let earlier = self.earlier.range_mut(..=to_ms).rev().map(|(_, segment)| &mut **segment);
        newest.chain(earlier).take_while(move |segment| segment.end_ms() >= from_ms)
    }

    /// Removes the segment that starts at a time.
    pub(super) fn remove(&mut self, start_ms: DeviceTime) -> Option<Segment> {
        if self.newest.as_ref().is_some_and(|newest| newest.start_ms() == start_ms) {
            let before = self.earlier.pop_last().map(|(_, segment)| *segment);
            return std::mem::replace(&mut self.newest, before);
        }
        self.earlier.remove(&start_ms).map(|segment| *segment)
    }

    /// Inserts a segment and returns it.
    pub(super) fn insert(&mut self, segment: Segment) -> &mut Segment {
        let start_ms = segment.start_ms();
        let is_newest = self.newest.as_ref().is_none_or(|newest| newest.start_ms() < start_ms);
        if !is_newest {
            return self.earlier.entry(start_ms).or_insert(Box::new(segment));
        }
        if let Some(before) = self.newest.take() {
            self.earlier.insert(before.start_ms(), Box::new(before));
        }
        self.newest.insert(segment)
    }

    /// All segments.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.earlier.values().map(|segment| &**segment).chain(&self.newest)
    }

    /// All segments. Their start times must not change.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.earlier.values_mut().map(|segment| &mut **segment).chain(&mut self.newest)
    }

    /// Removes the segments for which `keeps` is false.
    pub(super) fn retain(&mut self, keeps: impl Fn(&Segment) -> bool) {
        self.earlier.retain(|_, segment| keeps(segment));
        if self.newest.as_ref().is_some_and(|newest| !keeps(newest)) {
            self.newest = self.earlier.pop_last().map(|(_, segment)| *segment);
        }
    }

    /// Asserts that each segment is where it is looked for.
    pub(super) fn check(&self) {
        for (&start_ms, segment) in &self.earlier {
            assert_eq!(start_ms, segment.start_ms(), "T1: the key is the start");
        }
        let newest_ms = self.newest.as_ref().map(Segment::start_ms);
        assert!(self.earlier.keys().next_back().copied() < newest_ms || self.earlier.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, SegmentRules, mint::MintPoints};
    use super::*;
    use crate::model::reading::{READINGS, Reading};
    use crate::model::sample::Sample;
    use crate::model::scalar::Version;
    use crate::timeline::Path;

    fn segment(time_ms: DeviceTime) -> Segment {
        let path = Path::new(Sample::new(time_ms, (0, 0), [Reading::ABSENT; READINGS]));
        let points = MintPoints::new(time_ms, Version(0));
        Segment::loaded(&SegmentRules::default(), Kind::Trip, points, Version(0), path)
    }

    #[test]
    fn a_segment_that_starts_at_a_time_is_not_after_it() {
        let mut segments = Segments::default();
        for time_ms in [10, 0, 20].map(DeviceTime) {
            segments.insert(segment(time_ms));
        }
        let ms = |segment: &Segment| segment.start_ms().ms();
        assert_eq!((segments.earliest().map(ms), segments.newest().map(ms)), (Some(0), Some(20)));
        for (time_ms, after) in
            [(-1, &[0, 10, 20][..]), (0, &[10, 20]), (10, &[20]), (19, &[20]), (20, &[])]
        {
            let found: Vec<_> = segments.after(DeviceTime(time_ms)).map(ms).collect();
            assert_eq!(found, after, "{time_ms}");
        }
        assert_eq!(segments.get(DeviceTime(10)).map(ms), Some(10));
        assert!(segments.get(DeviceTime(11)).is_none());
    }
}
