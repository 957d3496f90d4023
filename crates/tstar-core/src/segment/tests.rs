//! Segments against a literal model of the contract, which parts the whole set of kept samples
//! after each arrival. A day has 24 units of time, so that midnights are often met.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::change::{Decision, Placement, SURROUNDINGS, decide};
use super::*;
use crate::model::scalar::{DAY_MS, DeviceTime, Version};

/// A unit of time in tests.
const UNIT_MS: i64 = DAY_MS / 24;

pub(super) fn at(unit: i64) -> DeviceTime {
    DeviceTime(unit * UNIT_MS)
}

pub(super) fn rules(max_gap: i64, min_stop: Option<i64>, max_samples: usize) -> SegmentRules {
    let min_stop_ms = min_stop.map(|units| units * UNIT_MS);
    let max_gap_ms = max_gap * UNIT_MS;
    SegmentRules { max_gap_ms, min_stop_ms, max_samples, ..SegmentRules::default() }
}

/// KeptSamples samples.
type KeptSamples = BTreeMap<DeviceTime, Class>;

/// A segment of the literal model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    pub kind: Kind,
    pub samples: Vec<(DeviceTime, Class)>,
    pub points: MintPoints,
    pub version: Version,
}

type Run = Vec<(DeviceTime, Class)>;

fn day(sample: &(DeviceTime, Class)) -> i64 {
    sample.0.ms().div_euclid(DAY_MS)
}

/// Runs of linked samples of one class and day.
fn runs(rules: &SegmentRules, kept: &KeptSamples) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for sample in kept.iter().map(|(&time_ms, &class)| (time_ms, class)) {
        match runs.last_mut() {
            Some(run)
                if sample.0 - run[run.len() - 1].0 <= rules.max_gap_ms
                    && run[0].1 == sample.1
                    && day(&run[0]) == day(&sample) =>
            {
                run.push(sample);
            }
            _ => runs.push(vec![sample]),
        }
    }
    runs
}

/// The contract, read sample by sample.
fn part(rules: &SegmentRules, kept: &KeptSamples) -> Vec<(Kind, Run)> {
    let near = |a: &(DeviceTime, Class), b: &(DeviceTime, Class)| b.0 - a.0 <= rules.max_gap_ms;
    let runs = runs(rules, kept);
    // The run before, and the one after, if it is linked; and within the day.
    let before =
        |nth: usize| runs[..nth].last().filter(|it| near(&it[it.len() - 1], &runs[nth][0]));
    let after =
        |nth: usize| runs.get(nth + 1).filter(|it| near(&runs[nth][runs[nth].len() - 1], &it[0]));
    let of_day = |nth: usize, other: &&Run| day(&other[0]) == day(&runs[nth][0]);
    let moves = |nth: usize| {
        let linked = [before(nth), after(nth)].into_iter().flatten();
        linked.filter(|it| of_day(nth, it)).any(|it| it[0].1 == Class::Moving)
    };
    let long = |from: DeviceTime, until: DeviceTime| {
        rules.min_stop_ms.is_some_and(|min| until - from >= min)
    };
    let until = |nth: usize| after(nth).map_or(runs[nth][runs[nth].len() - 1].0, |it| it[0].0);
    let across =
        |nth: usize| after(nth).is_some_and(|it| [it[0].1, runs[nth][0].1] == [Class::Slow; 2]);
    let stands = |nth: usize| {
        let until = until(if across(nth) { nth + 1 } else { nth });
        !moves(nth) || long(runs[nth][0].0, until)
    };
    let stands_in_day = |nth: usize| {
        let until = after(nth).filter(|it| of_day(nth, it)).map(|it| it[0].0);
        !moves(nth) || long(runs[nth][0].0, until.unwrap_or(runs[nth][runs[nth].len() - 1].0))
    };
    let kind = |class: Class, stands: bool| match class {
        Class::Separator => Kind::Stop,
        Class::Slow if stands => Kind::Stop,
        Class::Slow | Class::Moving => Kind::Trip,
    };
    let joins = |nth: usize, kinds: &[Kind]| before(nth).is_some() && kinds[nth - 1] == kinds[nth];
    // Runs of movement that fills its day, by what the samples of the day say.
    let alone: Vec<Kind> =
        (0..runs.len()).map(|nth| kind(runs[nth][0].1, stands_in_day(nth))).collect();
    let mut full = BTreeSet::new();
    let mut start = 0;
    for nth in 0..runs.len() {
        let follows = nth > 0 && joins(nth, &alone) && day(&runs[nth - 1][0]) == day(&runs[nth][0]);
        start = if follows { start } else { nth };
        let end = runs[nth][runs[nth].len() - 1].0;
        let reaches = runs[start][0].0.ms().rem_euclid(DAY_MS) < rules.max_gap_ms
            && end.ms().rem_euclid(DAY_MS) >= DAY_MS - rules.max_gap_ms;
        if alone[nth] == Kind::Trip && reaches {
            full.extend(start..=nth);
        }
    }
    let leans = |nth: usize| {
        nth > 0
            && across(nth - 1)
            && !stands(nth)
            && long(runs[nth - 1][0].0, until(nth))
            && !full.contains(&nth)
    };
    let kinds: Vec<Kind> =
        (0..runs.len()).map(|nth| kind(runs[nth][0].1, stands(nth) || leans(nth))).collect();
    let mut segments: Vec<(Kind, Run)> = Vec::new();
    for (nth, run) in runs.iter().enumerate() {
        let days = [nth.saturating_sub(1), nth].map(|nth| day(&runs[nth][0]));
        let is_cut = days[0] != days[1]
            && match kinds[nth] {
                Kind::Stop => !leans(nth),
                Kind::Trip => full.contains(&(nth - 1)) || full.contains(&nth),
            };
        match segments.last_mut() {
            Some((_, samples)) if joins(nth, &kinds) && !is_cut => samples.extend(run),
            _ => segments.push((kinds[nth], run.clone())),
        }
    }
    segments
}

/// The model after one more sample; `None` if it would make a segment too large.
pub(super) fn after(
    rules: &SegmentRules,
    before: &[Literal],
    version: Version,
    sample: (DeviceTime, Class),
) -> Option<Vec<Literal>> {
    let samples = before.iter().flat_map(|segment| segment.samples.iter().copied());
    let kept: KeptSamples = samples.chain([sample]).collect();
    let mut segments = Vec::new();
    for (kind, samples) in part(rules, &kept) {
        let same = before.iter().find(|old| (old.kind, &old.samples) == (kind, &samples));
        if let Some(same) = same {
            segments.push(same.clone());
            continue;
        }
        if samples.len() > rules.max_samples {
            return None;
        }
        let times: BTreeSet<_> = samples.iter().map(|sample| sample.0).collect();
        let former = before.iter().flat_map(|old| old.points.iter());
        let former = former.filter(|(at, _)| times.contains(at));
        let mut points: BTreeMap<_, Vec<_>> = former.map(|(at, it)| (at, it.to_vec())).collect();
        let may = samples.iter().filter(|x| kind == Kind::Stop || x.1 == Class::Moving);
        let may: Vec<DeviceTime> = may.map(|x| x.0).collect();
        if !may.iter().any(|at| points.contains_key(at)) {
            points.insert(may[0], vec![version]);
        }
        let id = *may.iter().find(|at| points.contains_key(at)).unwrap();
        for (&at, history) in &mut points {
            if (history.len() % 2 == 1) != (at == id) {
                history.push(version);
            }
        }
        let points = points.into_iter().map(|(at, history)| (at, history.into()));
        segments.push(Literal { kind, samples, points: points.collect(), version });
    }
    Some(segments)
}

/// The segments of a device, decided on by [`decide`] alone.
#[derive(Default)]
struct Device {
    kept: KeptSamples,
    segments: Vec<Outline>,
}

impl Device {
    /// Places of the segments that [`decide`] asks for.
    fn near(&self, rules: &SegmentRules, time_ms: DeviceTime) -> std::ops::Range<usize> {
        let all = &self.segments;
        let linked = |a: DeviceTime, b: DeviceTime| b - a <= rules.max_gap_ms;
        let is_near = |segment: &&Outline| {
            linked(segment.end_ms(), time_ms) && linked(time_ms, segment.start_ms())
        };
        let Some(mut from) = all.iter().position(|segment| is_near(&segment)) else {
            let at = all.partition_point(|segment| segment.end_ms() < time_ms);
            return at..at;
        };
        let mut to = from + all[from..].iter().take_while(is_near).count();
        for _ in 0..SURROUNDINGS {
            if from > 0 && linked(all[from - 1].end_ms(), all[from].start_ms()) {
                from -= 1;
            }
            if to < all.len() && linked(all[to - 1].end_ms(), all[to].start_ms()) {
                to += 1;
            }
        }
        from..to
    }

    fn absorb(
        &mut self,
        rules: &SegmentRules,
        version: Version,
        (time_ms, class): (DeviceTime, Class),
    ) -> bool {
        let near = self.near(rules, time_ms);
        let kept = &self.kept;
        let phase = |first_ms, last_ms| {
            let class = kept[&first_ms];
            Phase { class, first_ms, last_ms, samples: kept.range(first_ms..=last_ms).count() }
        };
        let cut = |whole: &Phase| {
            let before_ms = *kept.range(..time_ms).next_back().unwrap().0;
            let after_ms = *kept.range(time_ms..).next().unwrap().0;
            (phase(whole.first_ms, before_ms), phase(after_ms, whole.last_ms))
        };
        let segments: Vec<&Outline> = self.segments[near.clone()].iter().collect();
        let placement = Placement { time_ms, class, is_known: |_, _| true, cut };
        let Decision::Keep(change) = decide(rules, &segments, version, placement) else {
            return false;
        };
        self.kept.insert(time_ms, class);
        let mut left: Vec<Outline> = std::mem::take(&mut self.segments);
        let mut taken = Vec::new();
        for &place in change.taken.iter().rev() {
            taken.insert(0, left.remove(near.start + place));
        }
        left.extend(change.outlines(taken));
        left.sort_by_key(Outline::start_ms);
        self.segments = left;
        true
    }

    /// The segments with their samples.
    fn literal(&self) -> Vec<Literal> {
        let literal = |segment: &Outline| {
            let samples = self.kept.range(segment.start_ms()..=segment.end_ms());
            let samples: Vec<_> = samples.map(|(&at, &class)| (at, class)).collect();
            assert_eq!(samples.len(), segment.samples());
            for phase in &segment.phases {
                let within = samples.iter().filter(|(at, _)| phase.covers(*at));
                let classes: Vec<_> = within.map(|(_, class)| *class).collect();
                assert_eq!(classes, vec![phase.class; phase.samples]);
            }
            let Outline { kind, points, version, .. } = segment.clone();
            Literal { kind, samples, points, version }
        };
        self.segments.iter().map(literal).collect()
    }
}

/// Numbers for one log.
pub(super) struct Random(pub ChaCha8Rng);

impl Random {
    pub fn below(&mut self, bound: u64) -> i64 {
        i64::try_from(self.0.next_u64() % bound).unwrap()
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).unwrap()]
    }

    pub fn class(&mut self, mix: [u64; 3]) -> Class {
        let nth = self.below(mix.iter().sum()).unsigned_abs();
        match nth {
            nth if nth < mix[0] => Class::Moving,
            nth if nth < mix[0] + mix[1] => Class::Slow,
            _ => Class::Separator,
        }
    }
}

/// What a log made happen.
#[derive(Debug, Default)]
struct SeenChanges {
    splits: usize,
    merges: usize,
    turned: usize,
    revived: usize,
    refused: usize,
    across: usize,
    stands_across: usize,
}

impl SeenChanges {
    fn add(&mut self, before: &[Literal], after: &[Literal]) {
        let shares = |a: &Literal, b: &Literal| a.samples.iter().any(|x| b.samples.contains(x));
        let parts = |a: &Literal, all: &[Literal]| all.iter().filter(|b| shares(a, b)).count();
        self.splits += usize::from(before.iter().any(|a| parts(a, after) > 1));
        self.merges += usize::from(after.iter().any(|a| parts(a, before) > 1));
        let turned = |a: &Literal| before.iter().any(|b| shares(a, b) && a.kind != b.kind);
        self.turned += usize::from(after.iter().any(turned));
        let histories = after.iter().flat_map(|segment| segment.points.iter());
        self.revived += histories.filter(|(_, history)| history.len() > 2).count();
        let days = |a: &Literal| day(&a.samples[a.samples.len() - 1]) - day(&a.samples[0]);
        assert!(after.iter().all(|a| days(a) <= 1));
        self.across += usize::from(after.iter().any(|a| days(a) == 1));
        let stands = |a: &&Literal| a.kind == Kind::Stop && days(a) == 1;
        self.stands_across += usize::from(after.iter().any(|a| stands(&a)));
    }
}

/// One log of a device, compared with the model after each record.
fn check_log(seed: u64, seen: &mut SeenChanges) {
    let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
    let max_samples = random.pick(&[3, 5, usize::MAX, usize::MAX]);
    let min_stop = random.pick(&[None, Some(1), Some(2), Some(3)]);
    // Some fill days, at the edges of which the rules are the most involved.
    let fills = random.below(4) == 0;
    let gap = if fills { 6 } else { random.pick(&[1, 2, 6]) };
    let rules = rules(gap, min_stop, if fills { usize::MAX } else { max_samples });
    let mix = random.pick(&[[1, 0, 0], [6, 0, 1], [3, 2, 1], [2, 3, 1], [1, 2, 0], [1, 1, 1]]);
    let mix = if fills { random.pick(&[[6, 1, 0], [4, 2, 0], [9, 3, 1]]) } else { mix };
    let spread = if fills { 60 } else { random.pick(&[8, 14, 30, 60]) };
    let from = random.pick(&[24, 48]) - random.below(spread);
    let mut device = Device::default();
    let mut model: Vec<Literal> = Vec::new();
    let mut trips: BTreeMap<DeviceTime, Version> = BTreeMap::new();
    let records = random.pick(&[20, 40, 120]);
    for offset in 0..random.below(records) {
        let version = Version(2 * offset);
        let sample = (at(from + random.below(spread)), random.class(mix));
        if device.kept.contains_key(&sample.0) {
            continue;
        }
        let expected = after(&rules, &model, version, sample);
        let is_kept = device.absorb(&rules, version, sample);
        assert_eq!(is_kept, expected.is_some(), "seed {seed}, offset {offset}");
        let Some(expected) = expected else {
            seen.refused += 1;
            assert_eq!(device.literal(), model);
            continue;
        };
        assert_eq!(device.literal(), expected, "seed {seed}, offset {offset}: {sample:?}");
        seen.add(&model, &expected);
        model = expected;
        for segment in &device.segments {
            if segment.kind == Kind::Trip {
                trips.insert(segment.t_star_ms(), version);
            }
        }
        // A trip id names the trip that holds its anchor sample, for ever.
        for anchor in trips.keys() {
            let holds = |s: &&Outline| s.kind == Kind::Trip && s.points.get(*anchor).is_some();
            let named = device.segments.iter().find(holds);
            assert!(named.is_some_and(|s| (s.start_ms()..=s.end_ms()).contains(anchor)));
        }
    }
}

/// The numbers of segments after each sample of a log, which are those of the model.
fn counts(rules: &SegmentRules, log: &[(i64, Class)]) -> Vec<usize> {
    let (mut device, mut model) = (Device::default(), Vec::new());
    let count = |(&(unit, class), offset): (&(i64, Class), i64)| {
        let (version, sample) = (Version(2 * offset), (at(unit), class));
        device.absorb(rules, version, sample);
        model = after(rules, &model, version, sample).unwrap();
        assert_eq!(device.literal(), model, "{unit}");
        model.len()
    };
    log.iter().zip(0..).map(count).collect()
}

/// The last slow sample of a day belongs to its movement, until a later one shows that it stands:
/// then movement does not fill the day any more, and nothing cuts it at the midnight before.
#[test]
fn a_late_sample_joins_trips_at_the_midnight_of_a_day_that_was_full() {
    use Class::{Moving, Slow};
    let log = [23, 26, 30, 35, 41].map(|unit| (unit, Moving));
    let log = [&log[..], &[(42, Slow), (48, Moving), (46, Moving)]].concat();
    assert_eq!(counts(&rules(6, Some(3), usize::MAX), &log), [1, 1, 1, 1, 1, 2, 4, 3]);
}

/// The last slow sample of the second day stands, but by what that day says it is of the movement
/// that fills it. Who decides on the day before has to know of it.
#[test]
fn a_full_day_is_cut_whatever_grows_on_the_day_before() {
    use Class::{Moving, Slow};
    let log = [47, 51, 55, 61, 65].map(|unit| (unit, Moving));
    let log = [&log[..], &[(70, Slow), (75, Moving), (42, Slow), (40, Slow)]].concat();
    assert_eq!(counts(&rules(6, Some(1), usize::MAX), &log), [1, 1, 1, 1, 1, 2, 4, 5, 5]);
}

#[test]
fn segments_are_those_of_the_model_after_each_record() {
    let mut seen = SeenChanges::default();
    let logs = std::env::var("LOGS").map_or(20_000, |n| n.parse().unwrap());
    for seed in 0..logs {
        check_log(seed, &mut seen);
    }
    let SeenChanges { splits, merges, turned, revived, refused, across, stands_across } = seen;
    for (what, count) in
        [splits, merges, turned, revived, refused, across, stands_across].iter().enumerate()
    {
        assert!(*count > 1_000, "{what}: {seen:?}");
    }
}
