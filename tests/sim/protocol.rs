//! The whole protocol under crashes: the code that ships, from the polling loop to the store and
//! the journal, over simulated brokers and nodes, in random schedules.
//!
//! A schedule is a random log in one or two partitions (a few are large: up to 200 records of up to
//! 20 samples, five devices, four partitions), read by processes of a consumer group that are
//! killed, freeze and wake as former owners, drain, lose their sessions, and start again at the
//! committed offset or at the first record. Each runs the real polling loop and the real partition
//! workers, polled by hand on one thread in virtual time. Commits are refused, come late, overtake
//! one another or lose their answer; records expire; the topics of feed and dead letters fail, or
//! time out with or without effect. Below the real store, three replicas receive each write in any
//! order, twice, late, or never if its sender died, and requests time out, whether they took effect
//! or not. Some stores are lost, and restored from backups whose parts are of different moments.
//!
//! Meanwhile a reader looks up times, ids, lists and devices with the real store, most of them
//! behind the memory of some process, be it a former owner: what was committed before it asked is
//! in the answer, and what the owner says it has read, whatever is written until it has one.
//!
//! `TSTAR_TEST_SCHEDULES` is the number of schedules, `TSTAR_TEST_FIRST` the first seed;
//! `TSTAR_TEST_WRONG` wrong ones are enough; `TSTAR_TEST_SEED` replays one and prints its events.

mod broker;
mod checks;
mod client;
mod directed;
mod faults;
mod hostile;
pub mod log;
mod memory;
pub mod outputs;
mod process;
mod reader;
mod restore;
mod schedule;
mod shown;
mod store;
mod table;
pub mod truth;
mod world;

use std::collections::BTreeSet;
use std::thread;

use schedule::Shrunk;
use world::EventCounts;

use crate::counts;
use crate::nodes::Nodes;

/// Events that have to occur, each in at least 0.1 % of the schedules.
const OCCURS: [&str; 109] = [
    "answers from memory",
    "answers of a former owner",
    "answers that include what was read",
    "appends that time out",
    "appends that time out and take effect",
    "arrays of twenty samples",
    "arrays that end early",
    "assignments lost",
    "asynchronous commits that are lost",
    "asynchronous commits that are refused",
    "backups refused",
    "beginnings that are fenced",
    "claims inserted",
    "claims that come too late",
    "claims that decide though a forget erased them",
    "clean hand-overs",
    "commits of a former owner",
    "commits that are repeated",
    "commits that fall back",
    "control records of an unknown kind",
    "crashes in the middle of a load",
    "crashes in the middle of a write",
    "dead letters",
    "devices that move with an epoch",
    "drains that end too late",
    "events",
    "evictions during a lookup",
    "feeds that are down",
    "flushes of a former owner",
    "flushes that pass over a trip",
    "forgets",
    "forgets far ahead",
    "forgets in another partition",
    "forgets of a contested device",
    "forgets of another topic",
    "forgets that were begun before",
    "forgets without a signature",
    "forgets without a time",
    "fresh trips",
    "half-written quorums",
    "hand-overs during a lookup",
    "letters that are cut",
    "letters that are down",
    "lists",
    "lists during a change",
    "lists of devices",
    "loads of forgets that are ahead",
    "loads of rows that are ahead",
    "lookups",
    "lookups during a change",
    "lookups of UUIDs",
    "lookups of any time",
    "lookups of erased ids",
    "lookups of ids",
    "lookups of retired ids",
    "lookups that find a later version",
    "members removed",
    "merges",
    "offsets that expire while they are read",
    "owners that sleep",
    "partitions paused",
    "partitions revoked",
    "processes that fail",
    "questions to memory without an answer",
    "reads that repair",
    "reads that time out",
    "rebalances that end while a client is closed",
    "records of another partition's device",
    "records that are too large",
    "records that end early",
    "records that expire",
    "records that expire unread",
    "records with the key of another device",
    "records without a key",
    "records without a value",
    "replays from the first record",
    "requests that no server receives",
    "requests to brokers that fail",
    "responses to commits that are lost",
    "revivals of an id",
    "revocations that come too late",
    "revocations that do not wait any longer",
    "rows erased",
    "rows in memory that a forget has erased",
    "rows in memory that are older than the store",
    "rows that are restored behind the group",
    "rows that conditional statements delete",
    "samples far ahead",
    "schedules of four partitions",
    "schedules of many records",
    "schedules of times within an hour",
    "schedules of two epochs",
    "splits",
    "starts that --from chooses",
    "starts that are refused",
    "static members fenced",
    "synchronous commits that fail",
    "synchronous commits whose answer is lost",
    "tombstones",
    "torn backups restored",
    "transactions that are aborted",
    "transactions that are fenced",
    "transactions whose end is unclear",
    "whole backups restored",
    "workers that read again what was restored",
    "workers that start again",
    "trips of a device in memory that the store answers",
    "turns of a trip or stop",
    "writes that time out and take effect",
];

/// This number of wrong schedules is enough to estimate how rare a fault is. Each thread finds an
/// equal part of them.
const MANY: u64 = 100;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// The largest number of records of a partition.
const MOST_RECORDS: usize = 200;

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

/// Runs every `step`th seed from `first` on; stops once `enough` went wrong.
fn run_some(first: u64, step: usize, end: u64, enough: usize) -> Tally {
    let mut tally = Tally::default();
    for seed in (first..end).step_by(step) {
        let mut seen = EventCounts::new();
        let bad = schedule::run(seed, Shrunk::NOT, false, &mut seen);
        tally.ran += 1;
        for (what, times) in seen {
            *tally.seen.entry(what).or_insert(0) += times;
            *tally.schedules.entry(what).or_insert(0) += u64::from(times > 0);
        }
        if !bad.is_empty() {
            tally.wrong.push((seed, bad));
            if tally.wrong.len() == enough {
                break;
            }
        }
    }
    tally
}

/// The fewest faults, then the fewest records, with which the schedule of a seed still goes wrong.
fn shrunk(seed: u64) -> Shrunk {
    let is_wrong =
        |shrunk: Shrunk| !schedule::run(seed, shrunk, false, &mut EventCounts::new()).is_empty();
    let faults = (0..10).find(|&faults| is_wrong(Shrunk { faults, ..Shrunk::NOT }));
    let of_faults = Shrunk { faults: faults.unwrap_or(usize::MAX), ..Shrunk::NOT };
    let records = (1..=MOST_RECORDS).find(|&records| is_wrong(Shrunk { records, ..of_faults }));
    Shrunk { records: records.unwrap_or(usize::MAX), ..of_faults }
}

/// Prints what happens under a seed. The variable is the seed, or `SEED:RECORDS:FAULTS`.
fn replay(seed: &str) {
    let number = |text: &str| text.parse::<u64>().expect("TSTAR_TEST_SEED");
    let mut parts = seed.split(':').map(number);
    let seed = parts.next().expect("there is a part");
    let mut limit = || parts.next().map_or(usize::MAX, |limit| limit as usize);
    let limits = Shrunk { records: limit(), faults: limit() };
    let mut seen = EventCounts::new();
    let bad = schedule::run(seed, limits, true, &mut seen);
    println!("{seen:#?}");
    assert!(bad.is_empty(), "seed {seed}: {bad:?}");
}

#[test]
fn every_schedule_ends_as_if_undisturbed() {
    if let Ok(seed) = std::env::var("TSTAR_TEST_SEED") {
        return replay(&seed);
    }
    let schedules = from_environment("TSTAR_TEST_SCHEDULES").unwrap_or(20_000);
    let start = from_environment("TSTAR_TEST_FIRST").unwrap_or(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let enough = from_environment("TSTAR_TEST_WRONG").unwrap_or(MANY) as usize;
    let enough = enough.div_ceil(threads);
    let tallies: Vec<_> = thread::scope(|scope| {
        let run = |first| {
            let (first, end) = (start + first as u64, start + schedules);
            scope.spawn(move || run_some(first, threads, end, enough))
        };
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
    wrong.sort_unstable_by_key(|(seed, _)| *seed);
    wrong.iter().for_each(|(seed, bad)| println!("wrong: {seed}: {bad:?}"));
    if let Some((seed, bad)) = wrong.first() {
        let Shrunk { records, faults } = shrunk(*seed);
        panic!(
            "{} of {ran} schedules went wrong: {kinds:?}\nseed {seed}: {bad:?}\nreplay: \
             TSTAR_TEST_SEED={seed}:{records}:{faults} \
             cargo test --locked -p tstar-sim -- protocol::every_schedule --nocapture",
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

/// Nodes that lose each deletion keep rows of trips as they were: without this, a simulation that
/// checks nothing would pass as well.
#[test]
fn deletions_that_nodes_lose_are_noticed() {
    let is_noticed = |seed| {
        let mut seen = EventCounts::new();
        let lose = |nodes: &mut Nodes| nodes.loses_deletions = true;
        !schedule::run_over(seed, Shrunk::NOT, false, &mut seen, lose).is_empty()
    };
    assert!((0..100).any(is_noticed), "no schedule of 100 goes wrong without deletions");
}
