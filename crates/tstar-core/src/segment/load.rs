//! Loads rows as of a record: of rows that others wrote ahead of it, what lies below it. And which
//! days have to be loaded.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Kind;
use super::SegmentRules;
use super::held::Segment;
use smallvec::SmallVec;

use super::mint::{History, MintPoints};
use super::outline::Outline;
use super::partition::partition;
use super::phase::Phase;
use super::timeline::Timeline;
use super::window::Window;
use crate::model::sample::Sample;
use crate::model::scalar::{DAY_MS, Day, DeviceTime, Version};
use crate::model::time::day_of;
use crate::timeline::{Days, Path};

/// A sample below the record, and whom it names as its driver.
type Free<'a> = BTreeMap<DeviceTime, (Sample, Option<&'a str>)>;

/// Ids, as far as they lie below the record.
type Histories = BTreeMap<DeviceTime, History>;

/// The phases of samples that are sorted by time. `is_cut`: whether something else lies
/// between two of them.
pub(super) fn phases(
    rules: &SegmentRules,
    samples: impl Iterator<Item = Sample>,
    is_cut: impl Fn(DeviceTime, DeviceTime) -> bool,
) -> SmallVec<[Phase; 1]> {
    let mut phases = SmallVec::<[Phase; 1]>::new();
    for sample in samples {
        let next = Phase::new(sample.class, sample.time_ms);
        match phases.last_mut() {
            Some(last)
                if last.class == next.class
                    && last.day() == next.day()
                    && next.first_ms - last.last_ms <= rules.max_gap_ms
                    && !is_cut(last.last_ms, next.first_ms) =>
            {
                last.last_ms = next.first_ms;
                last.samples += 1;
            }
            _ => phases.push(next),
        }
    }
    phases
}

/// The days whose rows a load reads. Rows that are ahead of its record add more.
#[derive(Clone, Debug)]
pub struct DaysToLoad {
    days: Vec<Day>,
    known: Days,
}

impl DaysToLoad {
    /// The days, of which the first ones were asked for first.
    #[must_use]
    pub fn days(&self) -> &[Day] {
        &self.days
    }

    /// Adds those that a row needs which is at or past the record: what surrounds it has samples
    /// and ids from before the record.
    pub fn add_around(&mut self, rules: &SegmentRules, from_ms: DeviceTime, upto_ms: DeviceTime) {
        for day in days_around(rules, from_ms, upto_ms) {
            if !self.known.contains(day) && !self.days.contains(&day) {
                self.days.push(day);
            }
        }
    }

    /// Adds those of another load of the device.
    pub fn join(&mut self, other: Self) {
        for day in other.days {
            if !self.days.contains(&day) {
                self.days.push(day);
            }
        }
    }
}

/// The days that a decision may look at, from a span.
fn days_around(
    rules: &SegmentRules,
    from_ms: DeviceTime,
    upto_ms: DeviceTime,
) -> impl Iterator<Item = Day> + use<> {
    let reach_ms = rules.reach_ms();
    let first = day_of(from_ms.saturating_sub(reach_ms));
    first.through(day_of(upto_ms.saturating_add(reach_ms)))
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
    /// The days that have to be in memory before a sample of a time is absorbed.
    fn days_of(&self, rules: &SegmentRules, time_ms: DeviceTime) -> impl Iterator<Item = Day> {
        let reach_ms = rules.reach_ms();
        let mut first = day_of(time_ms.saturating_sub(reach_ms));
        let mut last = day_of(time_ms.saturating_add(reach_ms));
        let day = day_of(time_ms);
        let (start_ms, next_ms) = (day.start_ms(), day.start_ms().saturating_add(DAY_MS));
        // Movement of the day may join that across a midnight.
        let near_start_ms = start_ms.saturating_add(rules.max_gap_ms);
        if first == day
            && self.segments.earliest().is_some_and(|it| it.start_ms() < near_start_ms)
            && self.segments.until(near_start_ms - 1).is_some_and(|it| it.end_ms() >= start_ms)
        {
            first = day_of(start_ms.saturating_sub(rules.max_gap_ms));
        }
        let near_end_ms = next_ms.saturating_sub(rules.max_gap_ms);
        if last == day
            && self.segments.newest().is_some_and(|it| it.end_ms() >= near_end_ms)
            && self.segments.until(next_ms - 1).is_some_and(|it| it.end_ms() >= near_end_ms)
        {
            last = day_of(next_ms.saturating_add(rules.max_gap_ms));
        }
        first.through(last)
    }

    /// Whether nothing has to be loaded before a sample of a time is absorbed.
    #[must_use]
    pub fn is_loaded(&self, rules: &SegmentRules, time_ms: DeviceTime) -> bool {
        self.days_of(rules, time_ms).all(|day| self.knows(day))
    }

    /// Days whose rows must be loaded before a sample of a time is absorbed.
    #[must_use]
    pub fn days_to_load(&self, rules: &SegmentRules, time_ms: DeviceTime) -> DaysToLoad {
        let unknown = |day: &Day| !self.knows(*day);
        let days = self.days_of(rules, time_ms).filter(unknown).collect();
        DaysToLoad { days, known: self.known_days.clone() }
    }

    /// Inserts the rows that a store has for `days`, as of the record at `as_of`: rows below it
    /// whole, and of the others the samples and ids below it. Returns how many of the former
    /// overlapped a segment that is not the same: a group was written in part.
    pub fn insert_loaded(
        &mut self,
        rules: &SegmentRules,
        days: &[Day],
        mut rows: Vec<Segment>,
        as_of: Version,
    ) -> usize {
        days.iter().for_each(|&day| self.known_days.insert(day));
        rows.sort_by_key(|row| (Reverse(row.version()), row.start_ms()));
        let (mut others, mut overlaps) = (Vec::new(), 0);
        for row in rows {
            if row.version() < as_of {
                match self.segments.until(row.end_ms()).filter(|it| it.end_ms() >= row.start_ms()) {
                    None => {
                        self.segments.insert(row);
                        continue;
                    }
                    // Its copy of another day, or a later form of it.
                    Some(over)
                        if over.start_ms() <= row.start_ms() && row.end_ms() <= over.end_ms() =>
                    {
                        continue;
                    }
                    Some(_) => overlaps += 1,
                }
            }
            others.push(row);
        }
        if !others.is_empty() {
            insert_as_of(self, rules, &others, as_of);
        }
        self.weigh();
        overlaps
    }

    /// Whether all days from one time to another are loaded.
    pub(super) fn is_known(&self, from_ms: DeviceTime, to_ms: DeviceTime) -> bool {
        day_of(from_ms).through(day_of(to_ms)).all(|day| self.knows(day))
    }
}

/// Inserts the segments that the samples and ids of `rows` below a record form.
fn insert_as_of(timeline: &mut Timeline, rules: &SegmentRules, rows: &[Segment], as_of: Version) {
    let mut free = Free::new();
    for row in rows {
        for sample in row.path.iter().filter(|sample| sample.version < as_of) {
            let is_kept = timeline.covering(sample.time_ms);
            if is_kept.and_then(|kept| kept.path.get(sample.time_ms)).is_none() {
                let driver = row.path.driver_at(sample.time_ms);
                free.entry(sample.time_ms).or_insert((sample, driver));
            }
        }
    }
    if free.is_empty() {
        return;
    }
    let known = histories(rows, as_of);
    let window = around(timeline, rules, &free);
    let mut found = Vec::new();
    for (kind, range) in partition(rules, &window) {
        let is_free = |phase: &&Phase| free.contains_key(&phase.first_ms);
        let phases: SmallVec<_> = window.phases()[range].iter().filter(is_free).copied().collect();
        if !phases.is_empty() {
            found.push(segment(kind, phases, &free, &known));
        }
    }
    for segment in found {
        timeline.segments.insert(segment);
    }
}

/// What the rows know of ids, as far as it lies below a record: of each, the longest history.
fn histories(rows: &[Segment], as_of: Version) -> Histories {
    let mut known = Histories::new();
    for (at, history) in rows.iter().flat_map(|row| row.outline.points.iter()) {
        let below = history.iter().take_while(|&&version| version < as_of).count();
        if below > known.get(&at).map_or(0, SmallVec::len) {
            known.insert(at, history[..below].into());
        }
    }
    known
}

/// The phases of the segments in memory, whose kinds are known, and those of free samples.
fn around(timeline: &Timeline, rules: &SegmentRules, free: &Free<'_>) -> Window {
    let is_cut = |from: DeviceTime, to: DeviceTime| {
        timeline.segments().any(|held| from < held.start_ms() && held.end_ms() < to)
    };
    let free = phases(rules, free.values().map(|(sample, _)| *sample), is_cut);
    let held = timeline.segments().flat_map(|segment| {
        let kind = segment.outline.kind;
        segment
            .outline
            .phases
            .iter()
            .enumerate()
            .map(move |(nth, phase)| (*phase, Some(kind), nth > 0))
    });
    let mut all: Vec<(Phase, Option<Kind>, bool)> =
        held.chain(free.into_iter().map(|phase| (phase, None, false))).collect();
    all.sort_by_key(|(phase, ..)| phase.first_ms);
    Window::from_phases(all, |from, to| timeline.is_known(from, to))
}

fn segment(
    kind: Kind,
    phases: SmallVec<[Phase; 1]>,
    free: &Free<'_>,
    known: &Histories,
) -> Segment {
    let span_ms = phases[0].first_ms..=phases[phases.len() - 1].last_ms;
    let samples: Vec<_> = free.range(span_ms.clone()).map(|(_, found)| found).collect();
    let mut path =
        Path::from_sorted(samples.iter().map(|(sample, _)| *sample)).expect("a phase has samples");
    for (sample, driver) in &samples {
        path.name_driver(sample.time_ms, *driver);
    }
    let mut points: MintPoints =
        known.range(span_ms).map(|(&at, history)| (at, history.clone())).collect();
    let arrived = samples.iter().map(|(sample, _)| sample.version);
    let changed = points.iter().filter_map(|(_, history)| history.last().copied());
    let version = arrived.chain(changed).max().expect("a phase has samples");
    points.name(kind, &phases, version);
    Segment::new(Outline { kind, phases, points, version }, path)
}
