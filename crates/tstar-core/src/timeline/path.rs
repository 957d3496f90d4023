//! The kept samples of one trip, sorted by device time, and who drove.
//!
//! Samples arrive in any order. A sample later than all others is pushed to the tail, O(1). Any
//! other sample is inserted into a chunk of at most [`CHUNK`] samples, found by a B-tree, O(log n).
//! The path is always sorted, so reads between arrivals do not sort.
//!
//! Invariants between calls, asserted by `Path::check` in tests:
//! - P1 no chunk is empty or has more than `CHUNK` samples; the tail has at least one
//! - P2 times rise strictly through the chunks and then the tail
//! - P3 the key of the first chunk is the lowest time, every other key the first of its chunk

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::Sample;
use super::cost::spend;
use super::drivers::Drivers;
use super::packed::{Chunk, Packed};
use crate::model::scalar::DeviceTime;

/// Maximum number of samples in a chunk: 6 KiB, so that an insertion costs less than a cache miss.
const CHUNK: usize = 128;

/// Entries that a B-tree insertion moves: at most one node of 11, plus its share of a split.
const NODE: usize = 22;

/// Key of a chunk: a lower bound of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Since(DeviceTime);

/// Key of the first chunk, so that a new earliest sample never changes a key.
const EARLIEST: Since = Since(DeviceTime::MIN);

impl Ord for Since {
    fn cmp(&self, other: &Self) -> Ordering {
        spend(1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Since {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Number of latest chunks that [`Path::pack`] leaves open.
const OPEN_CHUNKS: usize = 4;

/// Memory of a sample in an open chunk, including unused capacity, bytes.
const OPEN_SAMPLE: usize = 72;

/// The kept samples of a trip, sorted by device time; never empty.
#[derive(Clone, Debug)]
pub struct Path {
    /// The latest samples.
    tail: Vec<Sample>,
    /// The samples before them. Most paths in memory are short and have none.
    earlier: Option<Box<Earlier>>,
    /// Who drove, if any sample names a driver.
    pub(super) drivers: Option<Box<Drivers>>,
    len: usize,
    /// Index in the tail behind the sample inserted there last: samples often arrive in bursts.
    behind: usize,
}

/// The chunks before the tail.
#[derive(Clone, Debug, Default)]
struct Earlier {
    chunks: BTreeMap<Since, Chunk>,
    /// Number of samples in packed chunks, and the memory of those chunks in bytes.
    packed: (usize, usize),
}

/// Index of the sample of `time_ms` in a sorted chunk, or where to insert it.
fn position(chunk: &[Sample], time_ms: DeviceTime) -> Result<usize, usize> {
    chunk.binary_search_by(|sample| {
        spend(1);
        sample.time_ms.cmp(&time_ms)
    })
}

/// Inserts `sample` at `at`. A full chunk is split first; returns its second half.
fn insert_at(chunk: &mut Vec<Sample>, at: usize, sample: Sample) -> Option<Vec<Sample>> {
    if chunk.len() < CHUNK {
        spend(chunk[at..].len());
        chunk.insert(at, sample);
        return None;
    }
    let mut second = chunk.split_off(CHUNK / 2);
    spend(second.len());
    let (half, at) =
        if at <= CHUNK / 2 { (&mut *chunk, at) } else { (&mut second, at - CHUNK / 2) };
    spend(half[at..].len());
    half.insert(at, sample);
    Some(second)
}

impl Earlier {
    fn put(&mut self, chunk: Chunk) {
        spend(NODE);
        let is_first = self.chunks.is_empty();
        let from = if is_first { EARLIEST } else { Since(chunk.first().time_ms) };
        self.chunks.insert(from, chunk);
    }

    /// Inserts a chunk that precedes all others, under the first key.
    fn put_first(&mut self, chunk: Chunk) {
        if let Some((_, former)) = self.chunks.pop_first() {
            spend(NODE);
            spend(NODE);
            self.chunks.insert(Since(former.first().time_ms), former);
        }
        self.chunks.insert(EARLIEST, chunk);
    }

    /// Appends a chunk and those behind it. Moves the chunks of the smaller side, so that over any
    /// number of merges each chunk moves O(log n) times.
    fn append(&mut self, seam: Vec<Sample>, later: Self) {
        self.packed.0 += later.packed.0;
        self.packed.1 += later.packed.1;
        let seam = Chunk::Open(seam);
        if later.chunks.len() <= self.chunks.len() {
            self.put(seam);
            for (_, chunk) in later.chunks {
                self.put(chunk);
            }
        } else {
            let earlier = std::mem::replace(&mut self.chunks, later.chunks);
            self.put_first(seam);
            for (_, chunk) in earlier.into_iter().rev() {
                self.put_first(chunk);
            }
        }
    }
}

impl Path {
    /// The path of one sample.
    #[must_use]
    pub fn new(sample: Sample) -> Self {
        Self { tail: vec![sample], earlier: None, drivers: None, len: 1, behind: 1 }
    }

    /// The path of samples sorted by strictly rising time. `None` if they are not sorted, or if
    /// there are none.
    #[must_use]
    pub fn from_sorted(samples: impl IntoIterator<Item = Sample>) -> Option<Self> {
        let mut samples = samples.into_iter();
        let mut path = Self::new(samples.next()?);
        for sample in samples {
            if sample.time_ms <= path.last().time_ms {
                return None;
            }
            path.push(sample);
        }
        Some(path)
    }

    /// Number of samples, at least 1.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a path is never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The earliest sample.
    #[must_use]
    pub fn first(&self) -> &Sample {
        let chunk = self.earlier.as_ref().and_then(|earlier| earlier.chunks.first_key_value());
        chunk.map_or(&self.tail[0], |(_, chunk)| chunk.first())
    }

    /// The latest sample.
    #[must_use]
    pub fn last(&self) -> &Sample {
        self.tail.last().expect("P1: the tail holds at least one")
    }

    /// The samples in time order.
    pub fn iter(&self) -> impl Iterator<Item = Sample> {
        let chunks = self.earlier.iter().flat_map(|earlier| earlier.chunks.values());
        let chunks = chunks.map(Chunk::samples).chain([Cow::Borrowed(&*self.tail)]);
        chunks.flat_map(|samples| (0..samples.len()).map(move |at| samples[at]))
    }

    /// The sample of a time.
    #[must_use]
    pub fn get(&self, time_ms: DeviceTime) -> Option<Sample> {
        let chunk = match &self.earlier {
            Some(earlier) if !self.in_tail(time_ms) => {
                let before = earlier.chunks.range(..=Since(time_ms)).next_back();
                before.expect("P3: the first key is least").1.samples()
            }
            _ => Cow::Borrowed(&*self.tail),
        };
        position(&chunk, time_ms).ok().map(|at| chunk[at])
    }

    /// Time of the first sample after a time.
    pub(super) fn after(&self, time_ms: DeviceTime) -> Option<DeviceTime> {
        let in_tail = |tail: &[Sample]| {
            let at = tail.partition_point(|sample| sample.time_ms <= time_ms);
            tail.get(at).map(|sample| sample.time_ms)
        };
        let Some(earlier) = self.earlier.as_ref().filter(|_| !self.in_tail(time_ms)) else {
            return in_tail(&self.tail);
        };
        let chunk = earlier.chunks.range(..=Since(time_ms)).next_back();
        let within = chunk.and_then(|(_, chunk)| in_tail(&chunk.samples()));
        let behind = (Bound::Excluded(Since(time_ms)), Bound::Unbounded);
        let next = || earlier.chunks.range(behind).next().map(|(_, chunk)| chunk.first().time_ms);
        within.or_else(next).or(Some(self.tail[0].time_ms))
    }

    /// Splits off the samples from a time on. Both paths have samples.
    ///
    /// # Panics
    /// No sample is before that time, or none is at or after it.
    #[must_use]
    pub fn split_off(&mut self, from_ms: DeviceTime) -> Self {
        assert!(self.first().time_ms < from_ms && from_ms <= self.last().time_ms);
        let cut = |chunk: &mut Vec<Sample>| {
            chunk.split_off(chunk.partition_point(|sample| sample.time_ms < from_ms))
        };
        let mut earlier = self.earlier.take().map_or_else(BTreeMap::new, |earlier| earlier.chunks);
        let mut later = BTreeMap::new();
        let tail = if self.tail[0].time_ms < from_ms {
            cut(&mut self.tail)
        } else {
            later = earlier.split_off(&Since(from_ms));
            let (since, last) = earlier.pop_last().expect("a sample is before the time");
            let mut open = last.samples().into_owned();
            let behind = cut(&mut open);
            earlier.insert(since, Chunk::Open(open));
            later.extend((!behind.is_empty()).then_some((Since(from_ms), Chunk::Open(behind))));
            std::mem::take(&mut self.tail)
        };
        if self.tail.is_empty() {
            let (_, last) = earlier.pop_last().expect("a sample is before the time");
            self.tail = last.samples().into_owned();
        }
        if let Some((_, first)) = later.pop_first() {
            later.insert(EARLIEST, first);
        }
        let mut split = Self::of_chunks(later, tail, None);
        let earlier_drivers = self.drivers.take().map(|mut drivers| {
            split.drivers = drivers.split_off(split.first().time_ms).boxed();
            *drivers
        });
        *self = Self::of_chunks(earlier, std::mem::take(&mut self.tail), earlier_drivers);
        split
    }

    fn of_chunks(
        chunks: BTreeMap<Since, Chunk>,
        tail: Vec<Sample>,
        drivers: Option<Drivers>,
    ) -> Self {
        let sizes = chunks.values().map(|chunk| match chunk {
            Chunk::Open(samples) => (samples.len(), (0, 0)),
            Chunk::Packed(packed) => (packed.len(), (packed.len(), packed.memory())),
        });
        let (mut len, mut packed) = (tail.len(), (0, 0));
        for (samples, (packed_samples, memory)) in sizes {
            len += samples;
            packed = (packed.0 + packed_samples, packed.1 + memory);
        }
        Self {
            behind: tail.len(),
            tail,
            earlier: (!chunks.is_empty()).then(|| Box::new(Earlier { chunks, packed })),
            drivers: drivers.and_then(Drivers::boxed),
            len,
        }
    }

    /// Packs the chunks of a long path except for the latest ones. Inserting a sample into a packed
    /// chunk unpacks it.
    pub(crate) fn pack(&mut self) {
        let Some(earlier) = &mut self.earlier else { return };
        if earlier.chunks.len() <= 2 * OPEN_CHUNKS {
            return;
        }
        let early = earlier.chunks.len() - OPEN_CHUNKS;
        for chunk in earlier.chunks.values_mut().take(early) {
            if let Chunk::Open(samples) = chunk {
                let packed = Packed::new(samples);
                earlier.packed.0 += packed.len();
                earlier.packed.1 += packed.memory();
                *chunk = Chunk::Packed(packed);
            }
        }
    }

    /// Approximate memory used by the path, bytes.
    #[inline]
    #[must_use]
    pub(crate) fn memory(&self) -> usize {
        let (samples, bytes) = self.earlier.as_ref().map_or((0, 0), |earlier| earlier.packed);
        let drivers = self.drivers.as_ref().map_or(0, |drivers| drivers.memory());
        (self.len - samples) * OPEN_SAMPLE + bytes + drivers
    }

    fn in_tail(&self, time_ms: DeviceTime) -> bool {
        spend(1);
        self.earlier.is_none() || time_ms >= self.tail[0].time_ms
    }

    /// Inserts a sample, unless the path has one of the same time.
    ///
    /// # Errors
    /// The kept sample of that device time.
    pub(crate) fn insert(&mut self, sample: Sample) -> Result<(), Sample> {
        spend(1);
        if sample.time_ms > self.last().time_ms {
            self.push(sample);
            return Ok(());
        }
        if self.in_tail(sample.time_ms) {
            self.insert_in_tail(sample)
        } else {
            self.insert_in_chunk(sample)
        }?;
        self.len += 1;
        Ok(())
    }

    /// Appends a sample that is later than all others.
    fn push(&mut self, sample: Sample) {
        spend(1);
        if self.tail.len() == CHUNK {
            let full = std::mem::replace(&mut self.tail, vec![sample]);
            self.put_chunk(full);
        } else {
            self.tail.push(sample);
        }
        self.len += 1;
    }

    /// Index of a time in the tail, or where to insert it. Tries the index behind the previous
    /// insertion first.
    fn position_in_tail(&self, time_ms: DeviceTime) -> Result<usize, usize> {
        spend(1);
        let (before, after) = (self.behind.wrapping_sub(1), self.tail.get(self.behind));
        let is_behind = self.tail.get(before).is_some_and(|before| before.time_ms < time_ms)
            && after.is_none_or(|after| time_ms < after.time_ms);
        if is_behind { Err(self.behind) } else { position(&self.tail, time_ms) }
    }

    fn insert_in_tail(&mut self, sample: Sample) -> Result<(), Sample> {
        let place = self.position_in_tail(sample.time_ms);
        if let Err(at) = place {
            self.behind = at + 1;
        }
        match place {
            Ok(at) => Err(self.tail[at]),
            Err(0) if self.tail.len() == CHUNK => {
                self.put_chunk(vec![sample]);
                Ok(())
            }
            Err(at) => {
                if let Some(second) = insert_at(&mut self.tail, at, sample) {
                    let first = std::mem::replace(&mut self.tail, second);
                    self.put_chunk(first);
                }
                Ok(())
            }
        }
    }

    fn insert_in_chunk(&mut self, sample: Sample) -> Result<(), Sample> {
        let earlier = self.earlier.get_or_insert_default();
        let before = earlier.chunks.range_mut(..=Since(sample.time_ms)).next_back();
        let (&from, chunk) = before.expect("P3: the first key is least");
        if let Chunk::Packed(packed) = chunk {
            earlier.packed.0 -= packed.len();
            earlier.packed.1 -= packed.memory();
            *chunk = Chunk::Open(packed.unpacked());
        }
        let Chunk::Open(chunk) = chunk else { unreachable!("it was just opened") };
        match position(chunk, sample.time_ms) {
            Ok(at) => return Err(chunk[at]),
            // Only the first chunk can get a sample at its front (P3). The new earliest sample
            // starts a chunk of its own, which has space for the next ones; a split half would soon
            // be full again.
            Err(0) if chunk.len() == CHUNK => {
                debug_assert_eq!(from, EARLIEST);
                earlier.put_first(Chunk::Open(vec![sample]));
            }
            Err(at) => {
                if let Some(second) = insert_at(chunk, at, sample) {
                    earlier.put(Chunk::Open(second));
                }
            }
        }
        Ok(())
    }

    fn put_chunk(&mut self, samples: Vec<Sample>) {
        self.earlier.get_or_insert_default().put(Chunk::Open(samples));
    }

    /// Appends a path that begins after this one ends.
    pub(crate) fn append(&mut self, mut later: Self) {
        debug_assert!(self.last().time_ms < later.first().time_ms);
        self.len += later.len;
        if self.drivers.is_some() || later.drivers.is_some() {
            let drivers = self.drivers.get_or_insert_default();
            let behind = later.drivers.take().map_or_else(Drivers::default, |drivers| *drivers);
            drivers.append(later.first().time_ms, behind);
        }
        if later.earlier.is_none() && self.tail.len() + later.tail.len() <= CHUNK {
            spend(later.tail.len());
            self.tail.append(&mut later.tail);
            return;
        }
        let seam = std::mem::replace(&mut self.tail, later.tail);
        let later = later.earlier.map_or_else(Earlier::default, |later| *later);
        self.earlier.get_or_insert_default().append(seam, later);
    }

    /// Asserts P1 to P3.
    #[cfg(test)]
    pub fn check(&self) {
        assert!(!self.tail.is_empty());
        let Earlier { chunks, packed } = self.earlier.as_deref().cloned().unwrap_or_default();
        let keys: Vec<_> = chunks.keys().map(|from| from.0).collect();
        for (nth, (from, chunk)) in chunks.iter().enumerate() {
            let chunk = chunk.samples();
            assert!((1..=CHUNK).contains(&chunk.len()), "P1");
            assert_eq!(
                from.0,
                if nth == 0 { DeviceTime::MIN } else { chunk[0].time_ms },
                "P3: {keys:?}"
            );
        }
        let times: Vec<_> = self.iter().map(|sample| sample.time_ms).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "P2");
        assert_eq!(times.len(), self.len);
        let found = chunks.values().filter_map(|chunk| match chunk {
            Chunk::Open(_) => None,
            Chunk::Packed(packed) => Some((packed.len(), packed.memory())),
        });
        let sum = |a: (usize, usize), b: (usize, usize)| (a.0 + b.0, a.1 + b.1);
        assert_eq!(found.fold((0, 0), sum), packed);
    }
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
