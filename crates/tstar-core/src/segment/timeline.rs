//! The trips and stops of one device that are in memory, built from samples in any arrival order.
//!
//! Pure: no clock, no I/O. [`Timeline::absorb`] applies a sample. The caller first loads what
//! [`Timeline::missing_days`] names, and writes the groups of [`Timeline::take_groups`].
//!
//! Invariants between calls, asserted by `Timeline::check` in tests:
//! - T1 segments are sorted and disjoint; phases, samples and mint points of each agree
//! - T2 each segment has one live id
//! - T3 a segment that is dirty belongs to one group, whose spans contain it

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::SegmentRules;
use super::arrival::{Arrival, Outcome, arrival};
use super::change::{Change, Decision, Placement, SURROUNDINGS, decide};
use super::group::{Group, TakenSpan};
use super::held::Segment;
use super::outline::Outline;
use super::phase::Phase;
use crate::model::sample::Sample;
use crate::model::scalar::{DAY_MS, Day, DeviceTime, Version};
use crate::model::time::day_of;
use crate::timeline::{Days, Path};

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

/// The segments of one device that are in memory.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    segments: BTreeMap<DeviceTime, Segment>,
    /// Days whose rows have been loaded.
    known_days: Days,
    /// Changes that no flush has taken yet.
    groups: Vec<Group>,
    next_group: u32,
}

impl SegmentRules {
    /// How far from a sample a decision looks, ms.
    #[must_use]
    pub fn reach_ms(&self) -> i64 {
        // Where `min_stop` is off, a decision also looks at the sample's whole UTC day, which is
        // what is loaded anyway.
        self.max_gap_ms.saturating_mul(2).saturating_add(self.min_stop_ms.unwrap_or(0))
    }
}

impl Timeline {
    /// The segments in memory, by time.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.values()
    }

    /// The segment in memory that covers a time.
    #[must_use]
    pub fn covering(&self, time_ms: DeviceTime) -> Option<&Segment> {
        let before = self.segments.range(..=time_ms).next_back();
        before.map(|(_, segment)| segment).filter(|segment| time_ms <= segment.end_ms())
    }

    /// Applies a sample, with its class and the version of its record.
    ///
    /// Versions must not decrease from call to call; samples of one record share a version.
    pub fn absorb(
        &mut self,
        rules: &SegmentRules,
        sample: Sample,
        driver: Option<&str>,
    ) -> Outcome {
        if let Some(arrival) = self.extend_newest(rules, sample, driver) {
            return Outcome::Applied(arrival);
        }
        if let Some(kept) = self.covering(sample.time_ms).and_then(|s| s.path.get(sample.time_ms)) {
            let conflict = (!kept.is_same_measurement(&sample)).then_some(kept);
            return Outcome::Duplicate { conflict };
        }
        let near = self.near(rules, sample.time_ms);
        match self.decide(rules, &near, &sample) {
            Decision::Full => Outcome::Full,
            Decision::Keep(change) if self.is_too_heavy(rules, &near, &change) => Outcome::Full,
            Decision::Keep(change) => Outcome::Applied(self.apply(&near, change, sample, driver)),
        }
    }

    /// The common case: the sample only extends the last segment at its end.
    fn extend_newest(
        &mut self,
        rules: &SegmentRules,
        sample: Sample,
        driver: Option<&str>,
    ) -> Option<Arrival> {
        let (_, newest) = self.segments.last_key_value()?;
        if newest.end_ms() >= sample.time_ms
            || newest.path.weight() >= rules.max_samples
            || !newest.outline.is_extended_by(rules, sample.time_ms, sample.class)
        {
            return None;
        }
        let mut newest = self.segments.last_entry()?;
        let segment = newest.get_mut();
        let group = segment.group;
        segment.outline.extend(sample.time_ms, sample.class, sample.version);
        insert(&mut segment.path, sample, driver);
        segment.partition = None;
        let span = TakenSpan {
            start_ms: segment.start_ms(),
            end_ms: sample.time_ms,
            version: sample.version,
        };
        match group.and_then(|key| self.groups.iter_mut().find(|group| group.key == key)) {
            Some(group) => group.add(span),
            None => {
                let key = self.new_group(sample.version, vec![span]);
                self.segments.last_entry()?.get_mut().group = Some(key);
            }
        }
        Some(Arrival::End)
    }

    /// Start times of the segments around a time, which [`decide`] asks for.
    fn near(&self, rules: &SegmentRules, time_ms: DeviceTime) -> Vec<DeviceTime> {
        let linked = |a: DeviceTime, b: DeviceTime| b - a <= rules.max_gap_ms;
        let mut near = VecDeque::new();
        let mut left = self.segments.range(..=time_ms).rev().map(|(_, segment)| segment);
        let mut edge_ms = time_ms;
        while near.len() <= SURROUNDINGS
            && let Some(segment) = left.next().filter(|segment| linked(segment.end_ms(), edge_ms))
        {
            edge_ms = segment.start_ms();
            near.push_front(segment.start_ms());
        }
        let mut right = self.segments.range(time_ms..).map(|(_, segment)| segment);
        edge_ms = near
            .back()
            .and_then(|at| self.segments.get(at))
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

    fn decide(&self, rules: &SegmentRules, near: &[DeviceTime], sample: &Sample) -> Decision {
        let outlines: Vec<&Outline> = near.iter().map(|at| &self.segments[at].outline).collect();
        let is_known = |from: DeviceTime, to: DeviceTime| {
            day_of(from).through(day_of(to)).all(|day| self.known_days.contains(day))
        };
        let cut = |phase: &Phase| {
            let segment = self.covering(sample.time_ms).expect("it covers the phase");
            cut(&segment.path, phase, sample.time_ms)
        };
        let placement = Placement { time_ms: sample.time_ms, class: sample.class, is_known, cut };
        decide(rules, &outlines, sample.version, placement)
    }

    /// Whether the names of drivers in what a change takes away make a segment too large.
    fn is_too_heavy(&self, rules: &SegmentRules, near: &[DeviceTime], change: &Change) -> bool {
        let taken = change.taken.iter().map(|&place| &self.segments[&near[place]].path);
        let names: usize = taken.map(|path| path.weight() - path.len()).sum();
        names > 0 && change.added.iter().any(|it| it.samples() + names > rules.max_samples)
    }

    fn apply(
        &mut self,
        near: &[DeviceTime],
        change: Change,
        sample: Sample,
        driver: Option<&str>,
    ) -> Arrival {
        let version = sample.version;
        let taken = change.taken.iter().map(|&place| near[place]);
        let taken: Vec<Segment> =
            taken.map(|at| self.segments.remove(&at).expect("it was given")).collect();
        let arrival = arrival(&taken, &change.added, sample.time_ms);
        let outlines = taken.iter().map(|segment| &segment.outline).chain(&change.added);
        let spans: Vec<TakenSpan> = outlines
            .map(|it| TakenSpan { start_ms: it.start_ms(), end_ms: it.end_ms(), version })
            .collect();
        let group = self.join_groups(version, &spans);
        let mut paths: VecDeque<Path> = taken.into_iter().map(|segment| segment.path).collect();
        for outline in change.added {
            let path = take_span(&mut paths, outline.start_ms()..outline.end_ms() + 1);
            let covers = (outline.start_ms()..=outline.end_ms()).contains(&sample.time_ms);
            let path = if covers { with(path, sample, driver) } else { path };
            let path = path.expect("a segment has samples");
            let segment = Segment { group: Some(group), ..Segment::new(outline, path) };
            self.segments.insert(segment.start_ms(), segment);
        }
        debug_assert!(paths.is_empty(), "every sample is in a segment");
        arrival
    }

    fn new_group(&mut self, lowest: Version, taken: Vec<TakenSpan>) -> u32 {
        let key = self.next_group;
        self.next_group = self.next_group.wrapping_add(1);
        self.groups.push(Group { key, lowest, taken });
        key
    }

    /// Makes one group of those that spans touch and the spans. Returns its key.
    fn join_groups(&mut self, version: Version, spans: &[TakenSpan]) -> u32 {
        let touched: Vec<Group> =
            self.groups.extract_if(.., |group| group.touches(spans)).collect();
        let key = self.new_group(version, Vec::new());
        for segment in self.segments.values_mut() {
            if segment.group.is_some_and(|old| touched.iter().any(|group| group.key == old)) {
                segment.group = Some(key);
            }
        }
        let joined = self.groups.last_mut().expect("it was just added");
        for group in touched {
            joined.lowest = joined.lowest.min(group.lowest);
            group.taken.into_iter().for_each(|span| joined.add(span));
        }
        spans.iter().for_each(|&span| joined.add(span));
        key
    }

    /// Lowest version of the changes that no flush has taken yet.
    #[must_use]
    pub fn unflushed(&self) -> Option<Version> {
        self.groups.iter().map(|group| group.lowest).min()
    }

    /// Takes the groups with a segment that `is_due`, or all of them, and marks their segments as
    /// clean.
    pub fn take_groups(&mut self, is_due: impl Fn(&Segment) -> bool) -> Vec<TakenGroup<'_>> {
        let due = |group: &mut Group| {
            self.segments.values().any(|it| it.group == Some(group.key) && is_due(it))
        };
        let groups: Vec<Group> = self.groups.extract_if(.., due).collect();
        let mut taken: Vec<_> = groups
            .iter()
            .map(|it| TakenGroup { lowest: it.lowest, taken: it.taken.clone(), segments: vec![] })
            .collect();
        for segment in self.segments.values_mut() {
            let at = groups.iter().position(|group| segment.group == Some(group.key));
            if let Some(at) = at {
                segment.group = None;
                taken[at].segments.push(segment);
            }
        }
        taken
    }

    /// Days whose rows must be loaded before a sample of a time is absorbed, ascending.
    #[must_use]
    pub fn missing_days(&self, rules: &SegmentRules, time_ms: DeviceTime) -> Vec<Day> {
        let mut days = days_around(rules, (time_ms, time_ms));
        let start_ms = day_of(time_ms).start_ms();
        for midnight_ms in [start_ms, start_ms + DAY_MS] {
            // Movement may join across it.
            let near = (midnight_ms - rules.max_gap_ms)..(midnight_ms + rules.max_gap_ms);
            let from = self.segments.range(..near.end).next_back();
            let touches = |segment: &Segment| {
                segment.end_ms() >= near.start
                    && segment.start_ms() < start_ms + DAY_MS
                    && segment.end_ms() >= start_ms
            };
            if from.is_some_and(|(_, segment)| touches(segment)) {
                days.extend([day_of(near.start), day_of(near.end)]);
            }
        }
        days.sort_unstable();
        days.dedup();
        days.retain(|&day| !self.known_days.contains(day));
        days
    }

    /// Days that must be loaded besides those of `rows`, as a row at or past `as_of` has samples
    /// and ids of what surrounds it.
    #[must_use]
    pub fn missing_days_around(
        &self,
        rules: &SegmentRules,
        rows: &[Segment],
        as_of: Version,
    ) -> Vec<Day> {
        let ahead = rows.iter().filter(|row| row.outline.version >= as_of);
        let mut days: Vec<Day> =
            ahead.flat_map(|row| days_around(rules, (row.start_ms(), row.end_ms()))).collect();
        days.sort_unstable();
        days.dedup();
        days.retain(|&day| !self.known_days.contains(day));
        days
    }

    /// Inserts the rows that a store has for `days`, as of the record at `as_of`: rows below it
    /// whole, and of the others the samples and ids below it.
    pub fn insert_loaded(
        &mut self,
        rules: &SegmentRules,
        days: &[Day],
        mut rows: Vec<Segment>,
        as_of: Version,
    ) {
        days.iter().for_each(|&day| self.known_days.insert(day));
        rows.sort_by_key(|row| (std::cmp::Reverse(row.outline.version), row.start_ms()));
        let mut others = Vec::new();
        for row in rows {
            let is_whole = row.outline.version < as_of && !self.overlaps(&row);
            if is_whole {
                self.segments.insert(row.start_ms(), row);
            } else {
                others.push(row);
            }
        }
        super::load::insert_as_of(self, rules, &others, as_of);
    }

    fn overlaps(&self, row: &Segment) -> bool {
        let last = self.segments.range(..=row.end_ms()).next_back();
        last.is_some_and(|(_, segment)| segment.end_ms() >= row.start_ms())
    }

    /// Whether all days from one time to another are loaded.
    pub(super) fn is_known(&self, from_ms: DeviceTime, to_ms: DeviceTime) -> bool {
        day_of(from_ms).through(day_of(to_ms)).all(|day| self.known_days.contains(day))
    }

    /// Inserts a segment as of a record; it overlaps none in memory.
    pub(super) fn insert(&mut self, segment: Segment) {
        debug_assert!(!self.overlaps(&segment));
        self.segments.insert(segment.start_ms(), segment);
    }

    /// Evicts every segment without changes, and forgets which days are loaded. Call it only when
    /// all flushed changes are acknowledged.
    pub fn evict(&mut self) {
        self.segments.retain(|_, segment| segment.is_dirty());
        self.known_days = Days::default();
    }

    /// Approximate memory, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.segments.values().map(Segment::memory).sum()
    }
}

/// The days that a decision may look at, from a span.
fn days_around(rules: &SegmentRules, (from, to): (DeviceTime, DeviceTime)) -> Vec<Day> {
    let reach_ms = rules.reach_ms();
    let first = day_of(from.saturating_sub(reach_ms));
    first.through(day_of(to.saturating_add(reach_ms))).collect()
}

/// Adds a sample that the path does not keep.
fn insert(path: &mut Path, sample: Sample, driver: Option<&str>) {
    path.insert(sample).expect("no sample of its time is kept");
    path.name_driver(sample.time_ms, driver);
}

fn with(path: Option<Path>, sample: Sample, driver: Option<&str>) -> Option<Path> {
    let Some(mut path) = path else {
        let mut path = Path::new(sample);
        path.name_driver(sample.time_ms, driver);
        return Some(path);
    };
    insert(&mut path, sample, driver);
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

#[cfg(test)]
impl Timeline {
    /// Asserts T1 to T3.
    pub(super) fn check(&self) {
        let mut before_ms = DeviceTime::MIN;
        for (&start_ms, segment) in &self.segments {
            let Segment { outline, path, group, .. } = segment;
            assert_eq!(start_ms, outline.start_ms(), "T1");
            assert!(before_ms < start_ms, "T1");
            before_ms = outline.end_ms();
            let mut samples = path.iter();
            for phase in &outline.phases {
                let own: Vec<_> = samples.by_ref().take(phase.samples).collect();
                assert_eq!(
                    (own[0].time_ms, own[own.len() - 1].time_ms),
                    (phase.first_ms, phase.last_ms)
                );
                assert!(own.iter().all(|sample| sample.class == phase.class), "T1");
            }
            assert!(samples.next().is_none(), "T1");
            let live = outline.points.values().filter(|history| super::is_live(history));
            assert_eq!(live.count(), 1, "T2");
            assert!(outline.points.keys().all(|&at| path.get(at).is_some()), "T1");
            if let Some(key) = group {
                let group: Vec<_> = self.groups.iter().filter(|it| it.key == *key).collect();
                let within =
                    |it: &TakenSpan| it.start_ms <= start_ms && outline.end_ms() <= it.end_ms;
                assert!(group.len() == 1 && group[0].taken.iter().any(within), "T3");
            }
        }
        for group in &self.groups {
            assert!(self.segments.values().any(|it| it.group == Some(group.key)), "T3");
        }
    }
}
