//! Timelines of owners that load, write, evict, crash and start again, against the literal model:
//! what an owner has in memory is what there was at its record, whatever others have written ahead
//! of it, and the store ends with the segments of the whole log.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::tests::{Literal, Random, after, at, rules};
use super::*;
use crate::model::reading::{READINGS, Reading};
use crate::model::sample::Sample;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::model::time::day_of;
use crate::timeline::Path;

/// A record: samples of one device.
type Record = Vec<(DeviceTime, Class)>;

/// A row: what is kept of a segment.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    literal: Literal,
    positions: Vec<Version>,
}

fn version(offset: usize) -> Version {
    Version(2 * i64::try_from(offset).unwrap())
}

fn sample(position: Version, (time_ms, class): (DeviceTime, Class)) -> Sample {
    let sample = Sample::new(time_ms, (0, 0), [Reading::ABSENT; READINGS]);
    let ignition = (class == Class::Separator).then_some(false);
    let speed_cmps = if class == Class::Slow { Reading::new(Some(0)) } else { Reading::ABSENT };
    Sample { version: position, class, ignition, speed_cmps, ..sample }
}

impl Row {
    fn from_segment(segment: &Segment) -> Self {
        let Outline { kind, points, version, .. } = segment.outline().clone();
        let samples = segment.path().iter().map(|it| (it.time_ms, it.class)).collect();
        let positions = segment.path().iter().map(|it| it.version).collect();
        Self { literal: Literal { kind, samples, points, version }, positions }
    }

    fn span(&self) -> (DeviceTime, DeviceTime) {
        let samples = &self.literal.samples;
        (samples[0].0, samples[samples.len() - 1].0)
    }

    fn days(&self) -> impl Iterator<Item = Day> + use<> {
        day_of(self.span().0).through(day_of(self.span().1))
    }

    fn segment(&self, rules: &SegmentRules) -> Segment {
        let samples = self.literal.samples.iter().zip(&self.positions);
        let path = Path::from_sorted(samples.map(|(&it, &position)| sample(position, it)));
        let Literal { kind, points, version, .. } = self.literal.clone();
        Segment::loaded(rules, kind, points, version, path.unwrap())
    }
}

/// One day of a store: deletes and rows with their timestamps.
#[derive(Default)]
struct Stored {
    deletes: Vec<(TakenSpan, i64)>,
    rows: BTreeMap<(DeviceTime, DeviceTime), (i64, Row)>,
}

impl Stored {
    fn read(&self) -> impl Iterator<Item = &Row> {
        let stands = |(key, (written, _)): &(&(DeviceTime, DeviceTime), &(i64, Row))| {
            !self.deletes.iter().any(|(span, deleted)| {
                (span.start_ms..=span.end_ms).contains(&key.0) && written <= deleted
            })
        };
        self.rows.iter().filter(stands).map(|(_, (_, row))| row)
    }
}

/// A store of one device.
#[derive(Default)]
struct Store(BTreeMap<Day, Stored>);

impl Store {
    fn write(&mut self, day: Day, taken: &[TakenSpan], rows: &[Row]) {
        let stored = self.0.entry(day).or_default();
        stored.deletes.extend(
            taken
                .iter()
                .filter(|it| it.days().any(|on| on == day))
                .map(|it| (*it, it.version.get())),
        );
        for row in rows.iter().filter(|row| row.days().any(|on| on == day)) {
            let (start_ms, end_ms) = row.span();
            let written = row.literal.version.get() + 1;
            let newest = stored.rows.get(&(end_ms, start_ms)).map_or(i64::MIN, |it| it.0);
            if written > newest {
                stored.rows.insert((end_ms, start_ms), (written, row.clone()));
            }
        }
    }

    fn read(&self, day: Day) -> Vec<Row> {
        self.0.get(&day).map_or_else(Vec::new, |stored| stored.read().cloned().collect())
    }
}

/// A reader of the log from an offset on.
struct Owner {
    next: usize,
    timeline: Timeline,
}

impl Owner {
    fn load(&mut self, rules: &SegmentRules, store: &Store, time_ms: DeviceTime, as_of: Version) {
        while !self.timeline.is_loaded(rules, time_ms) {
            let mut load = self.timeline.days_to_load(rules, time_ms);
            let mut rows: Vec<Row> = Vec::new();
            let mut read = 0;
            while let Some(&day) = load.days().get(read) {
                for row in store.read(day).into_iter().filter(|row| row.literal.version >= as_of) {
                    load.add_around(rules, row.span().0, row.span().1);
                }
                rows.extend(store.read(day));
                read += 1;
            }
            let rows = rows.iter().map(|row| row.segment(rules)).collect();
            self.timeline.insert_loaded(rules, load.days(), rows, as_of);
            self.timeline.check();
        }
    }

    /// Reads the next record. Returns how many samples would have made a segment too large.
    fn absorb(&mut self, rules: &SegmentRules, store: &Store, log: &[Record]) -> usize {
        let position = version(self.next);
        let mut full = 0;
        for &it in &log[self.next] {
            self.load(rules, store, it.0, position);
            let outcome = self.timeline.absorb(rules, sample(position, it), None);
            full += usize::from(outcome == Outcome::Full);
            self.timeline.check();
        }
        self.next += 1;
        full
    }

    /// Writes the groups of changes that are due.
    fn flush_due(&mut self, store: &mut Store, mut is_due: impl FnMut() -> bool) {
        self.timeline.mark_due(|_| is_due());
        self.write(store, false, || true);
    }

    /// Writes all changes; `arrives`: whether a day of a group arrives.
    fn flush(&mut self, store: &mut Store, arrives: impl FnMut() -> bool) {
        self.write(store, true, arrives);
    }

    fn write(&mut self, store: &mut Store, all: bool, mut arrives: impl FnMut() -> bool) {
        for group in self.timeline.take_groups(all) {
            let rows: Vec<Row> = group.segments.iter().map(|it| Row::from_segment(it)).collect();
            let mut days: Vec<Day> = group.taken.iter().flat_map(|it| it.days()).collect();
            days.sort_unstable();
            days.dedup();
            for day in days.into_iter().filter(|_| arrives()) {
                store.write(day, &group.taken, &rows);
            }
        }
    }

    /// The offset that may be committed.
    fn committed(&self) -> usize {
        let bound = self.timeline.unflushed().map(|lowest| usize::try_from(lowest.get() / 2));
        bound.map_or(self.next, |bound| bound.unwrap().min(self.next))
    }
}

/// The model before each record, and after the last.
fn states(rules: &SegmentRules, log: &[Record]) -> Vec<Vec<Literal>> {
    let mut states = vec![Vec::new()];
    for (offset, record) in log.iter().enumerate() {
        let mut state: Vec<Literal> = states[offset].clone();
        for &it in record {
            if !state.iter().any(|held| held.samples.iter().any(|kept| kept.0 == it.0)) {
                state = after(rules, &state, version(offset), it).unwrap_or(state);
            }
        }
        states.push(state);
    }
    states
}

/// What an owner has in memory is part of what there was at its record.
fn check_memory(owner: &Owner, states: &[Vec<Literal>], seed: u64) {
    for segment in owner.timeline.segments() {
        let Row { literal: found, positions } = Row::from_segment(segment);
        let same = |it: &&Literal| (it.kind, &it.samples) == (found.kind, &found.samples);
        let expected = states[owner.next].iter().find(same);
        let expected = expected.unwrap_or_else(|| {
            panic!("seed {seed}, record {}: {found:#?}\nof {:#?}", owner.next, states[owner.next])
        });
        assert_eq!(found.points, expected.points, "seed {seed}, record {}", owner.next);
        assert!(found.version <= expected.version);
        assert!(positions.iter().all(|&position| position <= expected.version));
    }
}

fn random_log(random: &mut Random) -> Vec<Record> {
    let mix = random.pick(&[[1, 0, 0], [6, 0, 1], [3, 2, 1], [2, 3, 1], [1, 1, 1]]);
    let spread = random.pick(&[8, 14, 30, 60]);
    let from = random.pick(&[24, 48]) - random.below(spread);
    let records = 3 + random.below(16);
    let record = |random: &mut Random| {
        let samples = random.pick(&[1, 1, 1, 2, 3]);
        (0..samples).map(|_| (at(from + random.below(spread)), random.class(mix))).collect()
    };
    (0..records).map(|_| record(random)).collect()
}

fn check_schedule(seed: u64, seen: &mut [usize; 3]) {
    let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
    let max_samples = random.pick(&[4, usize::MAX, usize::MAX]);
    let rules = rules(random.pick(&[1, 2, 5]), random.pick(&[None, Some(2), Some(3)]), max_samples);
    let log = random_log(&mut random);
    let states = states(&rules, &log);
    let mut store = Store::default();
    let mut owners = vec![Owner { next: 0, timeline: Timeline::default() }];
    let mut committed = 0;
    for _ in 0..400 {
        let now = if random.below(4) > 0 {
            owners.len() - 1
        } else {
            random.below(owners.len() as u64) as usize
        };
        let last = owners.len() - 1;
        let owner = &mut owners[now];
        match random.below(100) {
            0..45 if owner.next < log.len() => {
                owner.absorb(&rules, &store, &log);
                check_memory(owner, &states, seed);
            }
            45..60 => {
                if random.below(2) == 0 {
                    owner.flush(&mut store, || true);
                } else {
                    owner.flush_due(&mut store, || random.below(2) == 0);
                }
            }
            60..75 => owner.timeline.evict(),
            75..85 if now == last => committed = committed.max(owner.committed()),
            85..95 if now == last => {
                // The partition has a new owner; the former continues for a while, or dies while it
                // writes.
                if random.below(2) == 0 {
                    owner.flush(&mut store, || random.below(2) == 0);
                    owners.pop();
                    seen[0] += 1;
                }
                let next = if random.below(4) == 0 { 0 } else { committed };
                owners.push(Owner { next, timeline: Timeline::default() });
                seen[1] += 1;
            }
            _ => {}
        }
    }
    let owner = owners.last_mut().unwrap();
    while owner.next < log.len() {
        owner.absorb(&rules, &store, &log);
        check_memory(owner, &states, seed);
    }
    owner.flush(&mut store, || true);
    let end = &states[log.len()];
    seen[2] += usize::from(end.iter().any(|it| it.kind == Kind::Stop));
    for (&day, stored) in &store.0 {
        let mut found: Vec<Literal> = stored.read().map(|row| row.literal.clone()).collect();
        found.sort_by_key(|it| it.samples[0].0);
        let on = |it: &&Literal| {
            let last = it.samples[it.samples.len() - 1].0;
            (day_of(it.samples[0].0)..=day_of(last)).contains(&day)
        };
        let mut expected: Vec<Literal> = end.iter().filter(on).cloned().collect();
        expected.sort_by_key(|it| it.samples[0].0);
        assert_eq!(found, expected, "seed {seed}, day {day}");
    }
}

#[test]
fn owners_see_what_there_was_at_their_record_and_leave_the_whole_log() {
    let mut seen = [0; 3];
    let schedules = std::env::var("SCHEDULES").map_or(3_000, |n| n.parse().unwrap());
    let from = std::env::var("SEED").map_or(0, |n| n.parse().unwrap());
    for seed in from..from + schedules {
        check_schedule(seed, &mut seen);
    }
    assert!(seen.iter().all(|&count| count > 0 || schedules < 1_000), "{seen:?}");
}
