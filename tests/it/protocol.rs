//! The whole protocol under crashes: the real timeline, processor and rows over a simulated
//! cluster, in random schedules.
//!
//! A schedule is a random log, read by owners that crash, sleep and wake as former owners, hand
//! over, and start again at the committed offset or at the first record. Some schedules have two
//! partitions, each with such owners, and both hold records of one device. Three replicas receive
//! each write in any order, twice, late, or never if its sender died. `TSTAR_TEST_SCHEDULES` is the
//! number of schedules; `TSTAR_TEST_SEED` replays one and prints its events.

mod checks;
mod directed;
mod log;
mod owner;
mod schedule;
mod store;
mod truth;
mod world;

use std::collections::BTreeSet;
use std::thread;

use world::EventCounts;

/// Events that have to occur.
const OCCURS: [&str; 29] = [
    "claims inserted",
    "claims that a forget erases",
    "claims that come too late",
    "claims that decide though a forget erased them",
    "clean hand-overs",
    "commits of a former owner",
    "commits that fall back",
    "crashes in the middle of a load",
    "crashes in the middle of a write",
    "dead letters",
    "devices that move with an epoch",
    "events",
    "flushes of a former owner",
    "flushes that pass over a trip",
    "forgets",
    "forgets in another partition",
    "forgets of a contested device",
    "forgets without a signature",
    "forgets that were begun before",
    "half-written quorums",
    "loads of forgets that are ahead",
    "loads of rows that are ahead",
    "merges",
    "overlaps loaded",
    "owners that sleep",
    "records of another partition's device",
    "replays from the first record",
    "rows erased",
    "schedules of two epochs",
];

/// This number of wrong schedules is enough to estimate how rare a fault is.
const MANY: usize = 50;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Results of some schedules.
#[derive(Default)]
struct Tally {
    ran: u64,
    seen: EventCounts,
    /// Seeds and the violations under them.
    wrong: Vec<(u64, BTreeSet<&'static str>)>,
}

/// Runs every `step`th seed from `first` on; stops once many went wrong.
fn run_some(first: u64, step: usize, end: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in (first..end).step_by(step) {
        let bad = schedule::run(seed, false, &mut tally.seen);
        tally.ran += 1;
        if !bad.is_empty() {
            tally.wrong.push((seed, bad));
            if tally.wrong.len() == MANY {
                break;
            }
        }
    }
    tally
}

fn replay(seed: u64) {
    let mut seen = EventCounts::new();
    let bad = schedule::run(seed, true, &mut seen);
    println!("{seen:#?}");
    assert!(bad.is_empty(), "seed {seed}: {bad:?}");
}

#[test]
fn every_schedule_ends_as_if_undisturbed() {
    if let Some(seed) = from_environment("TSTAR_TEST_SEED") {
        return replay(seed);
    }
    let schedules = from_environment("TSTAR_TEST_SCHEDULES").unwrap_or(60_000);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let tallies: Vec<_> = thread::scope(|scope| {
        let run = |first| scope.spawn(move || run_some(first as u64, threads, schedules));
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().map(|it| it.join().expect("a schedule never panics")).collect()
    });
    let (mut ran, mut seen, mut wrong) = (0, EventCounts::new(), Vec::new());
    for mut tally in tallies {
        ran += tally.ran;
        wrong.append(&mut tally.wrong);
        tally.seen.into_iter().for_each(|(what, times)| *seen.entry(what).or_insert(0) += times);
    }
    println!("{ran} schedules: {seen:#?}");
    if let Some((seed, bad)) = wrong.iter().min_by_key(|(seed, _)| seed) {
        panic!(
            "{} of {ran} schedules went wrong\nseed {seed}: {bad:?}\nreplay: TSTAR_TEST_SEED={seed} \
             cargo test --locked --test it -- protocol::every_schedule --nocapture",
            wrong.len()
        );
    }
    if schedules >= 1_000 {
        let never: Vec<_> = OCCURS.iter().filter(|what| !seen.contains_key(*what)).collect();
        assert!(never.is_empty(), "never occurred: {never:?}");
    }
}
