//! `kill -9` at random moments.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::{Running, Work, delivered, until};
use crate::support::kills;
use tstar_sim::counts;

const SAMPLES: usize = 30_000;

/// Kills, counted.
#[derive(Default)]
struct Tally {
    kills: u64,
    /// Kills that left some of the records in the store, not all.
    between: u64,
    /// Kills that left no record in the store.
    before: u64,
    resumes: u64,
    completed: u64,
}

/// Starts the import and kills it at a random moment, unless it ends before. Returns whether it
/// ended.
fn once(work: &Work, store: &str, random: &mut ChaCha8Rng, tally: &mut Tally) -> bool {
    let path = work.folder.path(store);
    let total = work.expected.delivered;
    let before = delivered(&path).unwrap_or(0);
    tally.resumes += u64::from(before > 0);
    let mut below = |limit: u64| random.next_u64() % limit;
    // Some are killed while they start, however far that is.
    let early = below(8) == 0;
    let steps = below(total.cast_unsigned() / 4).cast_signed();
    let spins = below(if early { 500_000 } else { 60_000 });
    let words = work.import(store);
    let mut running = Running::start(&mut work.folder.command(&words));
    let reached = |path| delivered(path).is_some_and(|now| now >= before + steps);
    until("records", || (early || running.has_ended() || reached(&path)).then_some(()));
    for _ in 0..spins {
        std::hint::spin_loop();
    }
    if running.has_ended() {
        running.ran(&words).ends(0);
        return true;
    }
    running.kill();
    tally.kills += 1;
    let left = delivered(&path).unwrap_or(0);
    assert!((before..=total).contains(&left), "{left} records after {before} of {total}");
    tally.between += u64::from(left > 0 && left < total);
    tally.before += u64::from(left == 0);
    false
}

#[test]
fn a_run_killed_again_and_again_ends_as_one_that_was_not() {
    let work = Work::new(SAMPLES);
    let mut random = ChaCha8Rng::seed_from_u64(20_261_121);
    let mut tally = Tally::default();
    let min_kills = kills(60);
    // A kill counts if it fell into the run.
    while tally.between < min_kills {
        let Tally { kills, between, .. } = tally;
        assert!(3 * kills < 10 * min_kills, "{between} of {kills} kills fell into the run");
        let store = format!("{}.db", tally.completed);
        while !once(&work, &store, &mut random, &mut tally) {}
        work.is_whole(&store);
        work.remove(&store);
        tally.completed += 1;
    }
    let Tally { kills, between, before, resumes, completed } = tally;
    println!(
        "faults: {kills} kills, {between} between the first and the last flush, {before} before it; \
         {resumes} resumes, {completed} imports completed, each as if never killed"
    );
    counts::IMPORTS.print(between);
}
