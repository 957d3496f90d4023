//! One trip: identity, kept samples, and the state that flushing needs.

use std::collections::BTreeMap;

use super::{Path, Sample};
use crate::model::scalar::{DeviceTime, Version};

/// Approximate memory of a trip without its path: the struct, its map entry; bytes.
const OVERHEAD: usize = size_of::<Trip>() + 48;

/// Memory of an absorbed `t_star` with its history, including unused capacity, bytes.
const ABSORBED: usize = 88;

/// How the changes that no flush has taken yet came. Times are ms of the caller's clock, which may
/// wrap.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// Number of samples.
    samples: u32,
    /// Whether a sample came since the last visit.
    is_fresh: bool,
    /// Whether the next flush takes them.
    is_due: bool,
    /// When they began to wait. `None` until the first visit.
    since_ms: Option<u32>,
    /// The last visit after a sample. Flushes leave it as it is.
    arrived_ms: Option<u32>,
}

/// The changes of a trip, as a visit before a flush finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Number of samples that wait.
    pub pending: u32,
    /// How long they have waited, ms.
    pub waited_ms: u32,
    /// If samples came since the last visit: how long none had come before them, ms.
    pub gap_ms: Option<u32>,
}

/// A trip in memory.
#[derive(Clone, Debug)]
pub struct Trip {
    /// Device time of the first-arrived sample; after a merge, that of the earlier trip.
    pub t_star_ms: DeviceTime,
    /// Version of the trip's first-arrived sample.
    pub minted: Version,
    /// Version of the last sample that changed the trip.
    pub version: Version,
    /// Maps each retired `t_star` to the versions at which it was minted and retired.
    pub absorbed: BTreeMap<DeviceTime, Vec<Version>>,
    /// Partition of the row that the trip was loaded from. `None` after a change: the reader's own.
    pub partition: Option<i32>,
    /// Times of the first and the last sample of the path: most samples are decided by them alone,
    /// without a look at the path's own memory.
    span_ms: (DeviceTime, DeviceTime),
    path: Path,
    /// Version of the trip when it was loaded; `i64::MIN` for a trip that started in memory.
    loaded: Version,
    /// Lowest version of the changes that no flush has taken yet.
    unflushed: Option<Version>,
    pending: Pending,
}

impl Pending {
    /// Adds the changes of a trip that this one absorbs.
    fn join(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.since_ms = match (self.since_ms, other.since_ms) {
            // Of two times on a clock that wraps, the earlier is less than half a turn behind.
            (Some(this), Some(other)) if other.wrapping_sub(this) <= u32::MAX / 2 => Some(this),
            (this, other) => other.or(this),
        };
    }
}

impl Trip {
    /// A trip of one sample.
    pub(super) fn new(version: Version, sample: Sample, driver: Option<&str>) -> Self {
        let mut path = Path::new(Sample { version, ..sample });
        path.name_driver(sample.time_ms, driver);
        Self {
            t_star_ms: sample.time_ms,
            minted: version,
            version,
            absorbed: BTreeMap::new(),
            partition: None,
            span_ms: (sample.time_ms, sample.time_ms),
            path,
            loaded: Version::MIN,
            unflushed: Some(version),
            pending: Pending { samples: 1, is_fresh: true, ..Pending::default() },
        }
    }

    /// A trip as loaded from a store, at `version`.
    #[must_use]
    pub fn loaded(
        t_star_ms: DeviceTime,
        minted: Version,
        version: Version,
        absorbed: BTreeMap<DeviceTime, Vec<Version>>,
        path: Path,
    ) -> Self {
        Self {
            t_star_ms,
            minted,
            version,
            absorbed,
            partition: None,
            span_ms: (path.first().time_ms, path.last().time_ms),
            path,
            loaded: version,
            unflushed: None,
            pending: Pending::default(),
        }
    }

    /// Device time of the earliest kept sample.
    #[must_use]
    pub fn start_ms(&self) -> DeviceTime {
        self.span_ms.0
    }

    /// Device time of the latest kept sample.
    #[must_use]
    pub fn end_ms(&self) -> DeviceTime {
        self.span_ms.1
    }

    /// Number of kept samples, at least 1.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.path.len()
    }

    /// The kept samples.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `max_samples` limits: see [`Path::weight`].
    pub(super) fn weight(&self) -> usize {
        self.path.weight()
    }

    /// The driver of the earliest kept sample that names one, and the time of that sample.
    #[must_use]
    pub fn driver(&self) -> Option<(DeviceTime, &str)> {
        self.path.first_driver()
    }

    /// Approximate memory used by the trip, bytes.
    pub(super) fn memory(&self) -> usize {
        OVERHEAD + self.absorbed.len() * ABSORBED + self.path.memory()
    }

    pub(super) fn pack(&mut self) {
        self.path.pack();
    }

    /// Lowest version of the changes that no flush has taken yet; `None` if there are none.
    #[must_use]
    pub fn unflushed(&self) -> Option<Version> {
        self.unflushed
    }

    /// Hands the changes to a flush: returns their lowest version and marks the trip as clean.
    pub fn take_unflushed(&mut self) -> Option<Version> {
        self.pending = Pending { arrived_ms: self.pending.arrived_ms, ..Pending::default() };
        self.unflushed.take()
    }

    /// Whether the changes that no flush has taken yet contain a new id or a merge.
    #[must_use]
    pub fn has_new_ids(&self) -> bool {
        let Some(since) = self.unflushed else { return false };
        self.minted >= since || self.retired_since(since).next().is_some()
    }

    /// The ids that were retired at or past a version.
    pub fn retired_since(&self, version: Version) -> impl Iterator<Item = DeviceTime> {
        let is_recent = move |history: &Vec<Version>| history.last() >= Some(&version);
        self.absorbed.iter().filter(move |(_, it)| is_recent(it)).map(|(&t_star_ms, _)| t_star_ms)
    }

    /// Measures how long the changes have waited. `now_ms` is the caller's clock, which may wrap,
    /// and `round_ms` the time since the visits before.
    pub fn visit(&mut self, now_ms: u32, round_ms: u32) -> Waiting {
        let pending = &mut self.pending;
        let mut gap_ms = None;
        if std::mem::take(&mut pending.is_fresh) {
            let before = pending.arrived_ms.replace(now_ms);
            gap_ms = before.map(|before| now_ms.wrapping_sub(before));
        }
        let since_ms = *pending.since_ms.get_or_insert(now_ms.wrapping_sub(round_ms));
        Waiting { pending: pending.samples, waited_ms: now_ms.wrapping_sub(since_ms), gap_ms }
    }

    /// Sets whether the next flush takes the changes.
    pub fn set_due(&mut self, is_due: bool) {
        self.pending.is_due = is_due;
    }

    /// Whether the next flush takes the changes.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.pending.is_due
    }

    /// Whether the loaded row already includes the effect of the record at `version`.
    pub(super) fn already_includes(&self, version: Version) -> bool {
        version <= self.loaded
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.start_ms() <= other.end_ms() && other.start_ms() <= self.end_ms()
    }

    /// Whether both trips have the same row in a store.
    pub(super) fn is_same_row(&self, other: &Self) -> bool {
        self.version == other.version
            && self.t_star_ms == other.t_star_ms
            && self.start_ms() == other.start_ms()
            && self.end_ms() == other.end_ms()
            && self.samples() == other.samples()
    }

    /// Marks the trip dirty from `version`: it is written and announced again.
    pub(super) fn mark_unflushed(&mut self, version: Version) {
        self.unflushed = Some(self.unflushed.map_or(version, |lowest| lowest.min(version)));
    }

    /// Adds a sample of a record at `version`.
    ///
    /// # Errors
    /// The kept sample of that device time. The trip is unchanged.
    pub(super) fn add(
        &mut self,
        version: Version,
        sample: Sample,
        driver: Option<&str>,
    ) -> Result<(), Sample> {
        self.path.insert(Sample { version, ..sample })?;
        self.path.name_driver(sample.time_ms, driver);
        let (start_ms, end_ms) = self.span_ms;
        self.span_ms = (start_ms.min(sample.time_ms), end_ms.max(sample.time_ms));
        self.pending.samples = self.pending.samples.saturating_add(1);
        self.pending.is_fresh = true;
        self.change(version);
        Ok(())
    }

    /// Merges the following trip into this one, after a sample at `version` has closed the gap.
    /// This trip is the earlier one, so its `t_star` is smaller and survives.
    pub(super) fn absorb(&mut self, version: Version, later: Self) {
        debug_assert!(self.t_star_ms < later.t_star_ms);
        self.absorbed.extend(later.absorbed);
        self.absorbed.insert(later.t_star_ms, vec![later.minted, version]);
        if let Some(lowest) = later.unflushed {
            self.mark_unflushed(lowest);
            self.pending.join(later.pending);
        }
        self.path.append(later.path);
        self.span_ms.1 = later.span_ms.1;
        self.change(version);
    }

    /// Marks a change at `version`. The row now belongs to this reader's partition.
    fn change(&mut self, version: Version) {
        self.version = version;
        self.partition = None;
        self.mark_unflushed(version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::RawSample;

    fn sample(time_ms: i64) -> Sample {
        let time_ms = DeviceTime(time_ms);
        Sample::quantised(&RawSample { time_ms, ..RawSample::default() }).unwrap()
    }

    #[test]
    fn the_gap_between_samples_outlives_a_flush() {
        let mut trip = Trip::new(Version(0), sample(0), None);
        let waiting = |pending, waited_ms, gap_ms| Waiting { pending, waited_ms, gap_ms };
        assert_eq!(trip.visit(1000, 50), waiting(1, 50, None));
        assert_eq!(trip.take_unflushed(), Some(Version(0)));
        trip.add(Version(2), sample(10), None).unwrap();
        assert_eq!(trip.visit(1700, 80), waiting(1, 80, Some(700)));
        assert_eq!(trip.visit(1800, 100), waiting(1, 180, None));
    }

    #[test]
    fn joined_changes_wait_since_the_earlier_on_a_clock_that_wraps() {
        let joined = |since_ms, other_ms| {
            let mut pending = Pending { samples: 2, since_ms, ..Pending::default() };
            pending.join(Pending { samples: 3, since_ms: other_ms, ..Pending::default() });
            assert_eq!(pending.samples, 5);
            pending.since_ms
        };
        let half = u32::MAX / 2;
        for (earlier, later) in [(10, 20), (10, 10), (u32::MAX - 5, 3), (7, 7 + half)] {
            assert_eq!(joined(Some(earlier), Some(later)), Some(earlier), "{earlier} {later}");
            assert_eq!(joined(Some(later), Some(earlier)), Some(earlier), "{earlier} {later}");
        }
        assert_eq!((joined(Some(4), None), joined(None, Some(4))), (Some(4), Some(4)));
        assert_eq!(joined(None, None), None);
    }

    #[test]
    fn memory_is_that_of_the_struct_its_samples_and_what_it_absorbed() {
        let mut trip = Trip::new(Version(0), sample(0), None);
        let fixed = size_of::<Trip>() + 48;
        assert_eq!(trip.memory(), fixed + 72);
        for (version, time_ms) in [(1, 10), (2, 20), (3, 30)] {
            trip.absorb(Version(version), Trip::new(Version(0), sample(time_ms), None));
        }
        assert_eq!(trip.memory(), fixed + 4 * 72 + 3 * 88);
    }

    /// A trip of the store, of samples at these times.
    fn stored(t_star: i64, version: i64, times: impl IntoIterator<Item = i64>) -> Trip {
        let (t_star_ms, version) = (DeviceTime(t_star), Version(version));
        let path = Path::from_sorted(times.into_iter().map(sample)).unwrap();
        Trip::loaded(t_star_ms, version, version, BTreeMap::new(), path)
    }

    #[test]
    fn rows_are_the_same_if_nothing_differs() {
        let row = stored(5, 2, 0..10);
        assert!(row.is_same_row(&stored(5, 2, 0..10)));
        for (differs, other) in [
            ("version", stored(5, 4, 0..10)),
            ("t_star", stored(6, 2, 0..10)),
            ("start", stored(5, 2, [-1].into_iter().chain(1..10))),
            ("end", stored(5, 2, (0..9).chain([10]))),
            ("samples", stored(5, 2, [0, 5, 9])),
        ] {
            assert!(!row.is_same_row(&other), "{differs}");
        }
    }

    #[test]
    fn ids_are_new_until_a_flush_takes_them() {
        let mut trip = Trip::new(Version(2), sample(0), None);
        assert!(trip.has_new_ids());
        trip.take_unflushed();
        assert!(!trip.has_new_ids(), "nothing waits");
        trip.add(Version(4), sample(10), None).unwrap();
        assert!(!trip.has_new_ids(), "nothing is minted");
        trip.absorb(Version(6), stored(20, 4, 20..30));
        assert!(trip.has_new_ids(), "20 is retired");
        trip.take_unflushed();
        trip.add(Version(8), sample(40), None).unwrap();
        assert!(!trip.has_new_ids(), "the merge is flushed");
    }

    #[test]
    fn a_flush_takes_what_is_due_and_the_next_change_is_not() {
        let mut trip = Trip::new(Version(2), sample(0), None);
        assert!(!trip.is_due());
        trip.set_due(true);
        assert!(trip.is_due());
        trip.take_unflushed();
        assert!(!trip.is_due());
    }

    #[test]
    fn a_packed_trip_needs_less_memory() {
        let mut trip = stored(0, 2, 0..5_000);
        let before = trip.memory();
        trip.pack();
        assert!(trip.memory() < before / 2);
    }
}
