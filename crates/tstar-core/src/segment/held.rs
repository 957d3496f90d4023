//! A segment in memory: what it is, its samples, and the changes that no flush has taken yet.

use super::load::phases;
use super::mint::{MintPoints, is_live};
use super::outline::Outline;
use super::pending::{Pending, Waiting};
use super::{Kind, SegmentRules};
use crate::model::sample::Sample;
use crate::model::scalar::{DeviceTime, Version};
use crate::timeline::Path;

/// Approximate memory of a segment without its path: the struct, its map entry; bytes.
const OVERHEAD: usize = size_of::<Segment>() + 48;

/// Memory of each further phase or mint point, including unused capacity, bytes.
const PHASE: usize = 48;
const POINT: usize = 48;

/// A trip or a stop in memory.
#[derive(Clone, Debug)]
pub struct Segment {
    pub(super) outline: Outline,
    pub(super) path: Path,
    /// Partition of the row that it was loaded from. `None` after a change: the reader's own.
    pub partition: Option<i32>,
    /// Lowest version of the changes that no flush has taken yet, in its write group.
    pub(super) unflushed: Option<Version>,
    /// The write group of its changes, if others belong to it or what was taken away is more than
    /// its own span.
    pub(super) group: Option<u32>,
    pub(super) pending: Pending,
}

impl Segment {
    /// A segment without changes, as a store has it. The phases of the outline are those of the
    /// path.
    pub(super) fn new(outline: Outline, path: Path) -> Self {
        debug_assert_eq!((outline.start_ms(), outline.end_ms()), span(&path));
        debug_assert_eq!(outline.samples(), path.len());
        let (partition, unflushed, group) = (None, None, None);
        Self { outline, path, partition, unflushed, group, pending: Pending::default() }
    }

    /// A segment as a store has it.
    #[must_use]
    pub fn loaded(
        rules: &SegmentRules,
        kind: Kind,
        points: MintPoints,
        version: Version,
        path: Path,
    ) -> Self {
        let phases = phases(rules, path.iter(), |_, _| false);
        Self::new(Outline { kind, phases, points, version }, path)
    }

    /// What it is.
    #[inline]
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Its samples, and who drove.
    #[inline]
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device time of its earliest sample.
    #[inline]
    #[must_use]
    pub fn start_ms(&self) -> DeviceTime {
        self.outline.start_ms()
    }

    /// Device time of its latest sample.
    #[inline]
    #[must_use]
    pub fn end_ms(&self) -> DeviceTime {
        self.outline.end_ms()
    }

    /// Version of the last record that changed it.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Version {
        self.outline.version
    }

    /// The time of its id.
    #[must_use]
    pub fn t_star_ms(&self) -> DeviceTime {
        self.outline.t_star_ms()
    }

    /// Number of its samples, at least 1.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.path.len()
    }

    /// Lowest version of the changes that no flush has taken yet, in its write group; `None` if
    /// there are none.
    #[inline]
    #[must_use]
    pub fn unflushed(&self) -> Option<Version> {
        self.unflushed
    }

    /// Whether the changes that no flush has taken yet contain an id that was minted, retired or
    /// revived.
    #[must_use]
    pub fn has_new_ids(&self) -> bool {
        let Some(since) = self.unflushed else { return false };
        let is_news = |history: &[Version]| history.last().is_some_and(|&last| last >= since);
        let mut histories = self.outline.points.iter().map(|(_, history)| history);
        histories.any(|history| is_news(history) && (is_live(history) || history.len() > 1))
    }

    /// Measures how long the changes have waited. `now_ms` is the caller's clock, which may wrap,
    /// and `round_ms` the time since the visits before.
    pub fn visit(&mut self, now_ms: u32, round_ms: u32) -> Waiting {
        self.pending.visit(now_ms, round_ms)
    }

    /// Adds a sample that changes no phase but the one that it joins.
    ///
    /// # Errors
    /// The kept sample of that device time. The segment is unchanged.
    pub(super) fn add(&mut self, sample: Sample, driver: Option<&str>) -> Result<(), Sample> {
        self.path.insert(sample)?;
        self.path.name_driver(sample.time_ms, driver);
        self.outline.add(sample.time_ms, sample.class, sample.version);
        self.partition = None;
        self.unflushed = self.unflushed.or(Some(sample.version));
        self.pending.add();
        Ok(())
    }

    /// Approximate memory, bytes.
    #[inline]
    pub(super) fn memory(&self) -> usize {
        let Outline { phases, points, .. } = &self.outline;
        let further = (phases.len() - 1) * PHASE + (points.len() - 1) * POINT;
        OVERHEAD + further + self.path.memory()
    }
}

fn span(path: &Path) -> (DeviceTime, DeviceTime) {
    (path.first().time_ms, path.last().time_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::SmallVec;

    use crate::model::reading::{READINGS, Reading};

    fn sample(time_ms: i64, version: i64) -> Sample {
        let sample = Sample::new(DeviceTime(time_ms), (0, 0), [Reading::ABSENT; READINGS]);
        Sample { version: Version(version), ..sample }
    }

    fn trip(minted: i64, times: impl IntoIterator<Item = i64>) -> Segment {
        let path = Path::from_sorted(times.into_iter().map(|it| sample(it, minted))).unwrap();
        let points = MintPoints::new(path.first().time_ms, Version(minted));
        Segment::loaded(&SegmentRules::default(), Kind::Trip, points, Version(minted), path)
    }

    #[test]
    fn memory_is_that_of_the_struct_its_samples_and_its_ids() {
        let mut trip = trip(0, [0]);
        let fixed = size_of::<Segment>() + 48;
        assert_eq!(trip.memory(), fixed + 72);
        trip.add(sample(10, 2), None).unwrap();
        assert_eq!(trip.memory(), fixed + 2 * 72);
        trip.outline.points =
            [0, 10].map(|it| (DeviceTime(it), SmallVec::new())).into_iter().collect();
        assert_eq!(trip.memory(), fixed + 2 * 72 + 48);
    }

    #[test]
    fn ids_are_new_until_a_flush_takes_them() {
        let mut trip = trip(2, [0]);
        assert!(!trip.has_new_ids(), "nothing waits");
        trip.unflushed = Some(Version(2));
        assert!(trip.has_new_ids());
        trip.unflushed = None;
        trip.add(sample(10, 4), None).unwrap();
        assert!(!trip.has_new_ids(), "nothing is minted");
        let retired = (DeviceTime(20), [3, 4].map(Version).into_iter().collect());
        let points = trip.outline.points.iter().map(|(at, it)| (at, it.iter().copied().collect()));
        trip.outline.points = points.chain([retired]).collect();
        assert!(trip.has_new_ids(), "20 is retired");
    }

    #[test]
    fn a_packed_segment_needs_less_memory() {
        let mut trip = trip(0, 0..5_000);
        let before = trip.memory();
        trip.path.pack();
        assert!(trip.memory() < before / 2);
    }
}
