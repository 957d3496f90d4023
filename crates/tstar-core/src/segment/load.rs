//! Loads rows as of a record: of rows that others wrote ahead of it, what lies below it.

use std::collections::BTreeMap;

use super::Kind;
use super::SegmentRules;
use super::held::Segment;
use super::mint::{self, MintPoints};
use super::outline::Outline;
use super::partition::partition;
use super::phase::Phase;
use super::timeline::Timeline;
use super::window::Window;
use crate::model::sample::Sample;
use crate::model::scalar::{DeviceTime, Version};
use crate::timeline::Path;

/// A sample below the record, and whom it names as its driver.
type Free<'a> = BTreeMap<DeviceTime, (Sample, Option<&'a str>)>;

/// The phases of samples that are sorted by time. `is_cut`: whether something else lies
/// between two of them.
pub(super) fn phases(
    rules: &SegmentRules,
    samples: impl Iterator<Item = Sample>,
    is_cut: impl Fn(DeviceTime, DeviceTime) -> bool,
) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
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

/// Inserts the segments that the samples and ids of `rows` below a record form.
pub(super) fn insert_as_of(
    timeline: &mut Timeline,
    rules: &SegmentRules,
    rows: &[Segment],
    as_of: Version,
) {
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
        let phases: Vec<Phase> = window.phases()[range].iter().filter(is_free).copied().collect();
        if !phases.is_empty() {
            found.push(segment(kind, phases, &free, &known));
        }
    }
    found.into_iter().for_each(|segment| timeline.insert(segment));
}

/// What the rows know of ids, as far as it lies below a record: of each, the longest history.
fn histories(rows: &[Segment], as_of: Version) -> MintPoints {
    let mut known = MintPoints::new();
    for (&at, history) in rows.iter().flat_map(|row| &row.outline.points) {
        let below = history.iter().take_while(|&&version| version < as_of).count();
        if below > known.get(&at).map_or(0, Vec::len) {
            known.insert(at, history[..below].to_vec());
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

fn segment(kind: Kind, phases: Vec<Phase>, free: &Free<'_>, known: &MintPoints) -> Segment {
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
    let changed = points.values().filter_map(|history| history.last().copied());
    let version = arrived.chain(changed).max().expect("a phase has samples");
    mint::name(kind, &phases, &mut points, version);
    Segment::new(Outline { kind, phases, points, version }, path)
}
