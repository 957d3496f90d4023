//! Random logs against both models: in memory, over a store that is reloaded in parts, after a
//! crash, replayed and shuffled.

use super::rows::{Row, Rows, rows_of};
use super::{arriving, assert_defined, assert_equal, assert_legs, did, for_model};
use crate::counts;
use crate::model::{Class, Fix, literal};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::segment::{Kind, Segment, SegmentRules, Timeline};

const DAY: i64 = 86_400_000;

/// 5 m/s. Places are 1.1 cm apart, so in logs whose samples are ms apart about half of the legs
/// between two places are faster.
const MAX_LEG_SPEED: Option<i32> = Some(500);

/// Prints the seed of the running log if a check panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("to run this log alone: TSTAR_TEST_FIRST={} TSTAR_TEST_LOGS=1", self.0);
        }
    }
}

struct Dice(ChaCha8Rng);

impl Dice {
    /// A number in `0..n`.
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A record: its version and its samples.
type Record = (i64, Vec<Fix>);

struct Log {
    rules: SegmentRules,
    records: Vec<Record>,
}

impl Log {
    fn random(dice: &mut Dice) -> Self {
        // From a log within one minute to one whose trips last for days, some of which fill days.
        let fills = dice.below(8) == 0;
        let unit = dice.one_of(&[1, 60_000, DAY / 24, DAY / 24 - 1]);
        let (unit, gap) = if fills { (DAY / 24, 6) } else { (unit, 1 + dice.below(6)) };
        let origin = dice.one_of(&[0, DAY, -DAY, -20 * unit, DAY - 10 * unit, 20_000 * DAY]);
        let is_limited = !fills && dice.below(8) > 0;
        let max_samples = if is_limited { 1 + dice.below(7) } else { 100_000 };
        let max_gap_ms = unit * gap as i64;
        let min_stop_ms = dice.one_of(&[None, Some(unit), Some(3 * unit)]);
        let rules =
            SegmentRules { max_gap_ms, min_stop_ms, max_samples, ..SegmentRules::default() };
        let classes: &[Class] = if dice.below(3) > 0 {
            &[Class::Moving]
        } else {
            &[Class::Moving, Class::Moving, Class::Slow, Class::Separator]
        };
        let units = 3 + dice.below(if fills { 50 } else { 100 });
        let mut version = 2 * dice.below(3) as i64;
        let (mut records, mut by_time): (Vec<Record>, _) = (Vec::new(), BTreeMap::new());
        for _ in 0..=dice.below(40) {
            let jitter = dice.one_of(&[0, 0, 0, 1, -1]);
            let time = origin + unit * dice.below(units) as i64 + jitter;
            let driver = dice.one_of(&[None, None, Some("ann"), Some("bob")]);
            // Of samples of one time the first one counts: their order must not decide the class.
            let class = *by_time.entry(time).or_insert_with(|| dice.one_of(classes));
            let place = dice.below(3) as i32;
            let fix = Fix { time, place, driver, class };
            match records.last_mut() {
                Some((_, fixes)) if dice.below(4) == 0 => fixes.push(fix),
                _ => records.push((version, vec![fix])),
            }
            version += 2;
        }
        Self { rules, records }
    }

    fn times(&self) -> Vec<i64> {
        self.records.iter().flat_map(|(_, fixes)| fixes).map(|fix| fix.time).collect()
    }

    /// The same samples in another order.
    fn shuffled(&self, dice: &mut Dice) -> Self {
        let mut fixes: Vec<_> = self.records.iter().flat_map(|(_, fixes)| fixes.clone()).collect();
        for k in (1..fixes.len()).rev() {
            fixes.swap(k, dice.below(k + 1));
        }
        let records = fixes.into_iter().zip((0..).step_by(2)).map(|(fix, v)| (v, vec![fix]));
        Self { rules: self.rules, records: records.collect() }
    }
}

/// Arrivals by kind.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    new: usize,
    merges: usize,
    splits: usize,
    turns: usize,
    applied: usize,
    duplicates: usize,
    conflicting: usize,
    trip_full: usize,
}

impl Counts {
    fn add(&mut self, did: literal::Did) {
        use literal::Did;
        match did {
            Did::Duplicate { conflicting } => {
                self.duplicates += 1;
                self.conflicting += usize::from(conflicting);
            }
            Did::TripFull => self.trip_full += 1,
            Did::New => {
                self.applied += 1;
                self.new += 1;
            }
            Did::Merge => {
                self.applied += 1;
                self.merges += 1;
            }
            Did::Split => {
                self.applied += 1;
                self.splits += 1;
            }
            Did::Turn => {
                self.applied += 1;
                self.turns += 1;
            }
            Did::Inside | Did::End | Did::Beginning => self.applied += 1,
        }
    }
}

/// The partition worker of the device: its memory, over a store.
#[derive(Clone, Default)]
struct Worker {
    timeline: Timeline,
    rows: Rows,
}

impl Worker {
    /// The version of the first record that a commit would not pass, before the one at `version`.
    fn acknowledged(&self, version: i64) -> i64 {
        self.timeline.unflushed().map_or(version, |lowest| lowest.get().min(version))
    }

    /// Applies a record whole, after loading all that it needs.
    fn absorb(&mut self, rules: &SegmentRules, (version, fixes): &Record) -> Vec<literal::Did> {
        for fix in fixes {
            let (as_of, time_ms) = (Version(*version), DeviceTime(fix.time));
            // What a day has may ask for the day across a midnight.
            while !self.timeline.is_loaded(rules, time_ms) {
                let mut load = self.timeline.days_to_load(rules, time_ms);
                let rows = self.rows.load(rules, &mut load, as_of);
                self.timeline.insert_loaded(rules, load.days(), rows, as_of);
            }
        }
        let absorb =
            |fix: &Fix| did(self.timeline.absorb(rules, arriving(*fix, *version), fix.driver));
        fixes.iter().map(absorb).collect()
    }

    /// Writes the groups of the dirty trips that the dice choose.
    fn flush(&mut self, mut choose: impl FnMut() -> bool) {
        self.timeline.mark_due(|_| choose());
        for group in self.timeline.take_groups(false) {
            assert!(group.segments.iter().all(|trip| group.lowest <= trip.version()));
            self.rows.write(&group.taken, rows_of(&group));
        }
    }

    /// Writes everything and returns the store's trips.
    fn finish(&mut self, rules: &SegmentRules) -> Vec<Segment> {
        self.flush(|| true);
        self.rows.0.iter().map(|row| row.trip(rules)).collect()
    }
}

/// In memory only. After every record: I1, I2, I5; at the end: I3.
fn whole(log: &Log) -> (Timeline, literal::Device) {
    let (mut owner, mut device) = (Worker::default(), literal::Device::new(for_model(&log.rules)));
    let (mut counts, mut arrived, mut published) = (Counts::default(), vec![], BTreeSet::new());
    for record in &log.records {
        let expected: Vec<_> = record.1.iter().map(|&fix| device.arrive(record.0, fix)).collect();
        let found = owner.absorb(&log.rules, record);
        assert_eq!(found, expected, "{record:?}");
        found.into_iter().for_each(|did| counts.add(did));
        arrived.extend(record.1.iter().map(|fix| fix.time));
        owner.timeline.check();
        let trips: Vec<_> = owner.timeline.segments().collect();
        assert_equal(&trips, &device);
        if !device.met_a_limit && !device.met_a_cut {
            assert_defined(&trips, &arrived, log.rules.max_gap_ms);
        }
        published.extend(trips.iter().map(|trip| trip.t_star_ms()));
        assert_resolve(&published, &trips);
    }
    let trips: Vec<_> = owner.timeline.segments().collect();
    assert_legs(&trips, &device, MAX_LEG_SPEED);
    assert_legs(&trips, &device, None);
    assert_eq!(arrived.len(), counts.applied + counts.duplicates + counts.trip_full, "I3");
    assert_eq!(trips.iter().map(|trip| trip.samples()).sum::<usize>(), counts.applied, "I3");
    if !device.met_a_cut {
        assert_eq!(trips.len(), counts.new - counts.merges);
        let ids: usize = trips.iter().map(|trip| trip.outline().points.len()).sum();
        assert_eq!(ids, counts.new);
    }
    (owner.timeline, device)
}

/// I2: the trip that covers a published id's time has that id or has absorbed it.
fn assert_resolve(published: &BTreeSet<DeviceTime>, trips: &[&Segment]) {
    for t_star in published {
        let covers = |trip: &&&Segment| trip.start_ms() <= *t_star && *t_star <= trip.end_ms();
        let [trip] = trips.iter().filter(covers).collect::<Vec<_>>()[..] else {
            panic!("I2: {t_star} in {trips:#?}")
        };
        assert!(trip.outline().points.get(*t_star).is_some(), "I2: {t_star}");
    }
}

/// The same log again, later: nothing changes, but where a midnight cuts what was too large.
fn repeated(log: &Log, mut timeline: Timeline, device: &literal::Device) {
    let before: Vec<_> = timeline.segments().map(Row::from_trip).collect();
    let mut device = device.clone();
    for (version, fixes) in &log.records {
        for fix in fixes {
            let version = version + 10_000;
            let found = did(timeline.absorb(&log.rules, arriving(*fix, version), fix.driver));
            assert_eq!(found, device.arrive(version, *fix), "{fix:?}");
            use literal::Did::{Duplicate, TripFull};
            let changes = !matches!(found, Duplicate { .. } | TripFull);
            assert!(device.met_a_cut || !changes, "{fix:?}: {found:?}");
        }
    }
    let is_same = timeline.segments().map(Row::from_trip).eq(before);
    assert!(is_same || device.met_a_cut);
}

/// Over a store, with flushes and evictions in between. Returns a worker as it was between two
/// records, with the version of the record that it was about to read.
fn stored(log: &Log, device: &literal::Device, dice: &mut Dice) -> (Worker, i64) {
    let (mut owner, mut counts) = (Worker::default(), Counts::default());
    let mut crashed = (owner.clone(), log.records[0].0);
    let crash_at = dice.below(log.records.len());
    for (nth, record) in log.records.iter().enumerate() {
        if nth == crash_at {
            crashed = (owner.clone(), record.0);
        }
        owner.absorb(&log.rules, record).into_iter().for_each(|did| counts.add(did));
        if dice.below(3) == 0 {
            owner.flush(|| dice.below(2) == 0);
        }
        if dice.below(3) == 0 {
            owner.timeline.evict();
        }
        owner.timeline.check();
    }
    let trips = owner.finish(&log.rules);
    assert_equal(&trips.iter().collect::<Vec<_>>(), device);
    assert_legs(&trips.iter().collect::<Vec<_>>(), device, MAX_LEG_SPEED);
    assert_eq!(trips.iter().map(Segment::samples).sum::<usize>(), counts.applied, "I3");
    assert_eq!(log.times().len(), counts.applied + counts.duplicates + counts.trip_full, "I3");
    replayed_ahead(log, &owner.rows);
    crashed
}

/// From the first record, over the rows after the last: it ends with the same rows.
fn replayed_ahead(log: &Log, rows: &Rows) {
    let mut owner = Worker { timeline: Timeline::default(), rows: rows.clone() };
    for record in &log.records {
        owner.absorb(&log.rules, record);
    }
    owner.finish(&log.rules);
    assert_eq!(owner.rows, *rows);
}

/// Memory is lost; the next worker reads on from the acknowledged position, or from any earlier
/// one, over rows of which some are ahead of it.
fn recovered(log: &Log, device: &literal::Device, (crashed, at): (Worker, i64), dice: &mut Dice) {
    let acknowledged = crashed.acknowledged(at);
    let from = if dice.below(2) == 0 { acknowledged } else { i64::MIN };
    let mut owner = Worker { timeline: Timeline::default(), rows: crashed.rows };
    for record in log.records.iter().filter(|record| record.0 >= from) {
        owner.absorb(&log.rules, record);
        if dice.below(3) == 0 {
            owner.flush(|| dice.below(2) == 0);
            owner.timeline.evict();
        }
    }
    assert_equal(&owner.finish(&log.rules).iter().collect::<Vec<_>>(), device);
}

/// What a segment is, and its first and last time.
type Span = (Kind, DeviceTime, DeviceTime);

fn span(segment: &Segment) -> Span {
    (segment.outline().kind, segment.start_ms(), segment.end_ms())
}

/// Another arrival order: the same spans, as long as no limit is reached.
fn reordered(log: &Log, (spans, first): (&[Span], &literal::Device), dice: &mut Dice) {
    let (timeline, device) = whole(&log.shuffled(dice));
    if device.met_a_limit {
        // A trip that a midnight cuts later was larger.
        return assert!(device.met_a_cut || first.met_a_cut);
    }
    assert!(timeline.segments().map(span).eq(spans.iter().copied()));
}

/// Whether the log reached a limit.
fn try_log(seed: u64) -> bool {
    let _replay = Replay(seed);
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let log = Log::random(&mut dice);
    let (timeline, device) = whole(&log);
    let spans: Vec<_> = timeline.segments().map(span).collect();
    repeated(&log, timeline, &device);
    let crashed = stored(&log, &device, &mut dice);
    recovered(&log, &device, crashed, &mut dice);
    if !device.met_a_limit {
        reordered(&log, (&spans, &device), &mut dice);
    }
    device.met_a_limit
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

#[test]
fn random_logs_equal_the_models() {
    let logs = from_environment("TSTAR_TEST_LOGS", 200_000);
    let seed = from_environment("TSTAR_TEST_FIRST", 1);
    let limited = (seed..seed + logs).filter(|&seed| try_log(seed)).count() as u64;
    println!("{logs} random logs from seed {seed}: {limited} reached a limit");
    assert!(logs < 1000 || limited * 5 > logs * 2, "too few logs reached a limit: {limited}");
    counts::LOGS.print(logs);
}

#[test]
fn random_logs_have_what_they_are_for() {
    let mut seen = BTreeMap::new();
    for seed in 0..2000 {
        let log = Log::random(&mut Dice(ChaCha8Rng::seed_from_u64(seed)));
        let (times, (_, device)) = (log.times(), whole(&log));
        let days = |trip: &literal::Trip| trip.start().div_euclid(DAY) < trip.end().div_euclid(DAY);
        let mut see = |what, is| *seen.entry(what).or_insert(0) += u32::from(is);
        see("a tie", times.iter().collect::<BTreeSet<_>>().len() < times.len());
        see("a negative time", times.iter().any(|&time| time < 0));
        see("a trip over midnight", device.trips.iter().any(days));
        see("two merges in one trip", device.trips.iter().any(|trip| trip.absorbed().len() > 1));
        see("a record of several samples", log.records.iter().any(|record| record.1.len() > 1));
        see("several trips", device.trips.len() > 1);
        see("a limit", device.met_a_limit);
        see("a cut", device.met_a_cut);
        see("a stop", device.trips.iter().any(|trip| trip.is_stop));
    }
    println!("of 2,000 random logs: {seen:?}");
    assert_eq!(seen.len(), 9);
    for (what, logs) in seen {
        assert!(logs > 100, "{what}: only in {logs} of 2,000 logs");
    }
}
