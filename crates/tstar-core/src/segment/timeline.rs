//! The trips and stops of one device that are in memory, built from samples in any arrival order.
//!
//! Pure: no clock, no I/O. [`Timeline::absorb`] applies a sample. The caller first loads what
//! [`Timeline::days_to_load`] names, and writes the groups of [`Timeline::take_groups`].
//!
//! Invariants between calls, asserted by [`Timeline::check`] in tests:
//! - T1 segments are sorted and disjoint; phases, samples and mint points of each agree
//! - T2 each segment has one live id, within its span
//! - T3 what a change took away lies within its segment, or in the spans of its group

use std::collections::VecDeque;
use std::ops::Range;

use super::SegmentRules;
use super::arrival::{Arrival, Outcome, arrival};
use super::change::{Change, Decision, Placement, SURROUNDINGS, decide};
use super::group::{Groups, TakenSpan, hull};
use super::held::Segment;
use super::outline::Outline;
use super::pending::Pending;
use super::phase::Phase;
use super::segments::Segments;
use crate::model::sample::Sample;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::timeline::{Days, Path};

/// The segments of one device that are in memory, built from samples in any arrival order.
///
/// ```
/// use tstar_core::{DeviceTime, RawSample, Rules, Sample, Timeline, Version};
///
/// let rules = Rules::default().segments();
/// let mut timeline = Timeline::in_memory();
/// for (minute, version) in [10, 12, 0, 2, 6].into_iter().zip((0..).step_by(2)) {
///     let time_ms = DeviceTime(minute * 60_000);
///     let raw = RawSample { time_ms, lat: 52.5, lon: 13.4, ..RawSample::default() };
///     let sample = Sample::quantised(&raw).expect("every field is in range");
///     timeline.absorb(&rules, Sample { version: Version(version), ..sample }, None);
/// }
/// // Minute 6 joined two trips. The merged trip keeps the id of the earlier one; 10 is retired.
/// let trips: Vec<_> = timeline.segments().collect();
/// assert_eq!(trips.len(), 1);
/// assert_eq!((trips[0].t_star_ms(), trips[0].samples()), (DeviceTime(0), 5));
/// let history = trips[0].outline().points.get(DeviceTime(600_000));
/// assert_eq!(history, Some(&[Version(0), Version(8)][..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub(super) segments: Segments,
    /// Days whose rows have been loaded.
    pub(super) known_days: Days,
    /// The write groups that are not of one segment alone.
    pub(super) groups: Groups,
    /// Whether there is nothing but what is in memory.
    is_complete: bool,
    /// Approximate memory used by the segments, bytes.
    pub(super) memory: usize,
}

impl Timeline {
    /// A timeline of a device of which no store has anything, so that nothing has to be loaded.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { is_complete: true, ..Self::default() }
    }

    /// The segments in memory, by time.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter()
    }

    /// The segment in memory that covers a time.
    #[must_use]
    pub fn covering(&self, time_ms: DeviceTime) -> Option<&Segment> {
        self.segments.until(time_ms).filter(|segment| time_ms <= segment.end_ms())
    }

    /// The kept sample of a device time, if it is in memory.
    #[must_use]
    pub fn kept(&self, time_ms: DeviceTime) -> Option<Sample> {
        self.covering(time_ms)?.path.get(time_ms)
    }

    /// The first segment in memory that starts after a time.
    #[must_use]
    pub fn after(&self, time_ms: DeviceTime) -> Option<&Segment> {
        self.segments.after(time_ms).next()
    }

    /// Applies a sample, with the version of its record. Its days are loaded.
    ///
    /// Versions must not decrease from call to call; samples of one record share a version. A
    /// record may be read again in spite of that: it changes nothing, as a sample of it that is not
    /// kept was refused.
    pub fn absorb(
        &mut self,
        rules: &SegmentRules,
        sample: Sample,
        driver: Option<&str>,
    ) -> Outcome {
        let sample = Sample { class: rules.class_of(&sample), ..sample };
        if let Some((start_ms, arrival)) = self.growing(rules, &sample) {
            return self.grow(start_ms, arrival, sample, driver);
        }
        if let Some(kept) = self.kept(sample.time_ms) {
            return Outcome::duplicate(kept, &sample);
        }
        let near = self.near(rules, sample.time_ms);
        if near.iter().any(|&at| self.held(at).version() > sample.version) {
            return Outcome::Full;
        }
        match self.decide(rules, &near, &sample) {
            Decision::Full => Outcome::Full,
            Decision::Keep(change) if self.is_too_heavy(rules, &near, &change) => Outcome::Full,
            Decision::Keep(change) => Outcome::Applied(self.apply(&near, change, sample, driver)),
        }
    }

    /// The common case: a sample that only makes one segment grow, and how. Returns where that
    /// starts.
    fn growing(&self, rules: &SegmentRules, sample: &Sample) -> Option<(DeviceTime, Arrival)> {
        let time_ms = sample.time_ms;
        let left = self.segments.until(time_ms);
        let left = left.filter(|left| time_ms - left.end_ms() <= rules.max_gap_ms);
        let covers = left.is_some_and(|left| time_ms <= left.end_ms());
        let right = || {
            let right = self.segments.after(time_ms).next();
            right.filter(|right| right.start_ms() - time_ms <= rules.max_gap_ms)
        };
        let segment = match left {
            Some(left) if covers || right().is_none() => left,
            Some(_) => return None,
            None => right()?,
        };
        if segment.path.weight() >= rules.max_samples || segment.version() > sample.version {
            return None;
        }
        let arrival = segment.outline.growth(rules, time_ms, sample.class)?;
        let start_ms = segment.start_ms();
        if segment.group.is_none() && !self.groups.is_empty() {
            let (start_ms, end_ms) = (start_ms.min(time_ms), segment.end_ms().max(time_ms));
            let grown = TakenSpan { start_ms, end_ms, version: sample.version };
            if self.groups.touch(&[grown]) {
                return None;
            }
        }
        Some((start_ms, arrival))
    }

    fn grow(
        &mut self,
        start_ms: DeviceTime,
        arrival: Arrival,
        sample: Sample,
        driver: Option<&str>,
    ) -> Outcome {
        const FOUND: &str = "it was found";
        let mut moved = None;
        let segment = if arrival == Arrival::Beginning {
            // Its place depends on its start.
            moved.insert(self.segments.remove(start_ms).expect(FOUND))
        } else {
            self.segments.get_mut(start_ms).expect(FOUND)
        };
        let before = segment.memory();
        let added = segment.add(sample, driver);
        self.memory = self.memory + segment.memory() - before;
        let group = segment.group.zip(Some(segment.own_span()));
        if let Some(segment) = moved {
            self.segments.insert(segment);
        }
        if let Err(kept) = added {
            return Outcome::duplicate(kept, &sample);
        }
        if let Some((key, span)) = group {
            self.groups.add(key, span);
        }
        Outcome::Applied(arrival)
    }

    /// Start times of the segments around a time, which [`decide`] asks for.
    fn near(&self, rules: &SegmentRules, time_ms: DeviceTime) -> Vec<DeviceTime> {
        let linked = |a: DeviceTime, b: DeviceTime| b - a <= rules.max_gap_ms;
        let mut near = VecDeque::new();
        let mut left = self.segments.back_from(time_ms);
        let mut edge_ms = time_ms;
        while near.len() <= SURROUNDINGS
            && let Some(segment) = left.next().filter(|segment| linked(segment.end_ms(), edge_ms))
        {
            edge_ms = segment.start_ms();
            near.push_front(segment.start_ms());
        }
        let mut right = self.segments.after(time_ms);
        edge_ms = near
            .back()
            .and_then(|&at| self.segments.get(at))
            .map_or(time_ms, |covering| covering.end_ms().max(time_ms));
        let most = near.len() + SURROUNDINGS + 1;
        while near.len() < most
            && let Some(segment) =
                right.next().filter(|segment| linked(edge_ms, segment.start_ms()))
        {
            edge_ms = segment.end_ms();
            near.push_back(segment.start_ms());
        }
        near.into()
    }

    fn held(&self, start_ms: DeviceTime) -> &Segment {
        self.segments.get(start_ms).expect("a segment starts there")
    }

    fn decide(&self, rules: &SegmentRules, near: &[DeviceTime], sample: &Sample) -> Decision {
        let outlines: Vec<&Outline> = near.iter().map(|&at| &self.held(at).outline).collect();
        let cut = |phase: &Phase| {
            let segment = self.covering(sample.time_ms).expect("it covers the phase");
            cut(&segment.path, phase, sample.time_ms)
        };
        let is_known = |from_ms, to_ms| self.is_known(from_ms, to_ms);
        let placement = Placement { time_ms: sample.time_ms, class: sample.class, is_known, cut };
        decide(rules, &outlines, sample.version, placement)
    }

    /// Whether the names of drivers in what a change takes away make a segment too large.
    fn is_too_heavy(&self, rules: &SegmentRules, near: &[DeviceTime], change: &Change) -> bool {
        let taken = change.taken.iter().map(|&place| &self.held(near[place]).path);
        let names: usize = taken.map(|path| path.weight() - path.len()).sum();
        names > 0 && change.most_samples() + names > rules.max_samples
    }

    fn apply(
        &mut self,
        near: &[DeviceTime],
        change: Change,
        sample: Sample,
        driver: Option<&str>,
    ) -> Arrival {
        let mut pending = Pending::default();
        let (mut unflushed, mut kinds, mut spans) = (sample.version, Vec::new(), Vec::new());
        let (mut outlines, mut paths) = (Vec::new(), VecDeque::new());
        for &place in &change.taken {
            let segment = self.segments.remove(near[place]).expect("it was given");
            self.memory -= segment.memory();
            pending.join(segment.pending);
            unflushed = segment.unflushed.map_or(unflushed, |version| version.min(unflushed));
            kinds.push(segment.outline.kind);
            spans.push(TakenSpan { version: sample.version, ..segment.own_span() });
            outlines.push(segment.outline);
            paths.push_back(segment.path);
        }
        pending.add();
        let added = change.outlines(outlines);
        let arrival = arrival(&kinds, &added, sample.time_ms);
        let (group, unflushed) = self.group_of(spans, &added, unflushed);
        for outline in added {
            let path = take_span(&mut paths, outline.start_ms()..outline.end_ms() + 1);
            let covers = (outline.start_ms()..=outline.end_ms()).contains(&sample.time_ms);
            let path = if covers { with(path, sample, driver) } else { path };
            let path = path.expect("a segment has samples");
            let unflushed = Some(unflushed);
            let segment = Segment { group, unflushed, pending, ..Segment::new(outline, path) };
            self.memory += segment.memory();
            self.segments.insert(segment);
        }
        debug_assert!(paths.is_empty(), "every sample is in a segment");
        arrival
    }

    /// The write group of a change, unless its only segment is one by itself, and the lowest
    /// version of the changes in it. `spans`: those of the segments that it took away. `lowest`:
    /// the lowest version of its own changes.
    fn group_of(
        &mut self,
        mut spans: Vec<TakenSpan>,
        added: &[Outline],
        lowest: Version,
    ) -> (Option<u32>, Version) {
        if added.len() == 1 && self.groups.is_empty() {
            return (None, lowest);
        }
        spans.extend(added.iter().map(|outline| TakenSpan {
            start_ms: outline.start_ms(),
            end_ms: outline.end_ms(),
            version: outline.version,
        }));
        if added.len() == 1 && !self.groups.touch(&spans) {
            return (None, lowest);
        }
        let (key, lowest) = self.join_groups(lowest, &spans);
        (Some(key), lowest)
    }

    /// Makes one group of the spans, those that they touch, and their segments. Returns its number
    /// and the lowest version of its changes.
    fn join_groups(&mut self, mut lowest: Version, spans: &[TakenSpan]) -> (u32, Version) {
        let (key, others) = self.groups.join(spans, lowest);
        let group = self.groups.get_mut(key);
        let is_other = |old: u32| others.iter().any(|other| other.key == old);
        // A group's segments lie within its spans.
        let near = hull(others.iter().flat_map(|other| &other.taken).chain(spans));
        for segment in self.segments.within_mut(near) {
            let own = segment.own_span();
            // Changes of one segment alone, in a span of the group.
            let is_alone = segment.unflushed.is_some() && segment.group.is_none();
            if segment.group.is_some_and(is_other) || is_alone && group.touches(&[own]) {
                lowest = segment.unflushed.map_or(lowest, |version| version.min(lowest));
                group.add(own);
                segment.group = Some(key);
                segment.unflushed = Some(group.lowest);
            }
        }
        if lowest < group.lowest {
            group.lowest = lowest;
            let own = self.segments.within_mut(hull(group.taken.iter()));
            own.filter(|segment| segment.group == Some(key))
                .for_each(|segment| segment.unflushed = Some(lowest));
        }
        (key, group.lowest)
    }

    /// Removes the segments that end before a time, which are being erased. Call it only when no
    /// change waits for a flush.
    pub fn forget(&mut self, before_ms: DeviceTime) {
        self.segments.retain(|segment| segment.end_ms() >= before_ms);
        self.weigh();
    }

    /// Evicts every segment without changes, and forgets which days are loaded: the next sample
    /// loads them again. Call it only when all flushed changes are acknowledged.
    pub fn evict(&mut self) {
        self.segments.retain(|segment| segment.unflushed.is_some());
        self.known_days = Days::default();
        self.weigh();
    }

    /// Packs the paths of long segments except for their latest samples. A packed path uses a third
    /// to a fifth of the memory, but inserting into it is slower.
    pub fn pack(&mut self) {
        self.segments.iter_mut().for_each(|segment| segment.path.pack());
        self.weigh();
    }

    /// Whether changes wait that are of more than one segment.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether changes wait that are written together, and are too many to wait longer.
    #[inline]
    #[must_use]
    pub fn has_large_group(&self) -> bool {
        self.groups.has_large()
    }

    /// Whether the rows of a day are in memory.
    pub(super) fn knows(&self, day: Day) -> bool {
        self.is_complete || self.known_days.contains(day)
    }

    /// Approximate memory used by the segments, bytes, besides that of the struct, in which one
    /// lies.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory.saturating_sub(size_of::<Segment>())
    }

    pub(super) fn weigh(&mut self) {
        self.memory = self.segments.iter().map(Segment::memory).sum();
    }
}

fn with(path: Option<Path>, sample: Sample, driver: Option<&str>) -> Option<Path> {
    let mut path = match path {
        None => Path::new(sample),
        Some(mut path) => {
            path.insert(sample).expect("no sample of its time is kept");
            path
        }
    };
    path.name_driver(sample.time_ms, driver);
    Some(path)
}

/// Takes the samples of a span from the front of paths that are sorted by time.
fn take_span(paths: &mut VecDeque<Path>, span: Range<DeviceTime>) -> Option<Path> {
    let mut taken: Option<Path> = None;
    while paths.front().is_some_and(|path| path.first().time_ms < span.end) {
        let mut path = paths.pop_front().expect("there is one");
        if path.last().time_ms >= span.end {
            paths.push_front(path.split_off(span.end));
        }
        match &mut taken {
            Some(taken) => taken.append(path),
            None => taken = Some(path),
        }
    }
    taken
}

/// Cuts a phase at a time between two of its samples.
fn cut(path: &Path, phase: &Phase, time_ms: DeviceTime) -> (Phase, Phase) {
    let mut before = Phase::new(phase.class, phase.first_ms);
    before.samples = 0;
    let mut after_ms = phase.last_ms;
    for sample in path.iter().filter(|sample| phase.covers(sample.time_ms)) {
        if sample.time_ms > time_ms {
            after_ms = sample.time_ms;
            break;
        }
        before.last_ms = sample.time_ms;
        before.samples += 1;
    }
    let samples = phase.samples - before.samples;
    (before, Phase { first_ms: after_ms, samples, ..*phase })
}

#[path = "timeline_check.rs"]
mod check;
