//! The whole protocol under crashes: the real timeline, processor and store over simulated nodes,
//! in random schedules.
//!
//! A schedule is a random log, read by owners that crash, sleep and wake as former owners, hand
//! over, and start again at the committed offset or at the first record. Some schedules have two
//! partitions, each with such owners, and both hold records of one device. Below the real store,
//! three replicas receive each write in any order, twice, late, or never if its sender died, and
//! requests time out, whether they took effect or not. `TSTAR_TEST_SCHEDULES` is the
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

use crate::counts;

/// Events that have to occur, each in at least 0.1 % of the schedules.
const OCCURS: [&str; 33] = [
    "claims inserted",
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
    "reads that repair",
    "reads that time out",
    "replays from the first record",
    "requests that no server receives",
    "rows erased",
    "rows that conditional statements delete",
    "schedules of two epochs",
    "writes that time out and take effect",
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
    /// Number of schedules in which each event occurred.
    schedules: EventCounts,
    /// Seeds and the violations under them.
    wrong: Vec<(u64, BTreeSet<&'static str>)>,
}

/// Runs every `step`th seed from `first` on; stops once many went wrong.
fn run_some(first: u64, step: usize, end: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in (first..end).step_by(step) {
        let mut seen = EventCounts::new();
        let bad = schedule::run(seed, false, &mut seen);
        tally.ran += 1;
        for (what, times) in seen {
            *tally.seen.entry(what).or_insert(0) += times;
            *tally.schedules.entry(what).or_insert(0) += u64::from(times > 0);
        }
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
    let (mut ran, mut wrong) = (0, Vec::new());
    let (mut seen, mut occurs) = (EventCounts::new(), EventCounts::new());
    for mut tally in tallies {
        ran += tally.ran;
        wrong.append(&mut tally.wrong);
        tally.seen.into_iter().for_each(|(what, times)| *seen.entry(what).or_insert(0) += times);
        tally.schedules.into_iter().for_each(|(what, ran)| *occurs.entry(what).or_insert(0) += ran);
    }
    println!("{ran} schedules");
    for (what, times) in &seen {
        println!("{times:9} {what}, in {} schedules", occurs[what]);
    }
    let mut kinds = EventCounts::new();
    wrong.iter().flat_map(|(_, bad)| bad).for_each(|what| *kinds.entry(what).or_insert(0) += 1);
    if let Some((seed, bad)) = wrong.iter().min_by_key(|(seed, _)| seed) {
        panic!(
            "{} of {ran} schedules went wrong: {kinds:?}\nseed {seed}: {bad:?}\nreplay: TSTAR_TEST_SEED={seed} \
             cargo test --locked --test it -- protocol::every_schedule --nocapture",
            wrong.len()
        );
    }
    if schedules >= 10_000 {
        let is_rare = |what: &&&str| occurs.get(**what).copied().unwrap_or(0) * 1_000 < ran;
        let rare: Vec<_> = OCCURS.iter().filter(is_rare).collect();
        assert!(rare.is_empty(), "in less than 0.1 % of the schedules: {rare:?}");
    }
    counts::SCHEDULES.print(ran);
}
