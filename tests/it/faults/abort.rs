//! Crashes at each named point of a flush.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::Work;

const SIGABRT: i32 = 6;

/// Runs an import that is to abort at a point; returns whether it did.
fn aborts(work: &Work, store: &str, point: &str) -> bool {
    let mut command: Command = work.folder.command(&work.import(store));
    let output = command.env("TSTAR_TEST_ABORT", point).output().unwrap();
    let ended = output.status.code() == Some(0);
    assert!(ended || output.status.signal() == Some(SIGABRT), "{point}: {output:?}");
    !ended
}

#[test]
fn a_crash_at_any_point_of_any_flush_changes_nothing() {
    let work = Work::new(40_000);
    for step in ["before", "within", "after"] {
        for nth in [1, 2, 5, 7] {
            let point = format!("{step}:{nth}");
            let store = format!("{step}{nth}.db");
            assert!(aborts(&work, &store, &point), "{point} was not reached");
            work.folder.run(&work.import(&store)).ends(0);
            work.is_whole(&store);
        }
    }
}

#[test]
fn crashes_one_after_another_change_nothing() {
    let work = Work::new(40_000);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut crashes = 0;
    for store in ["a.db", "b.db", "c.db", "d.db"] {
        loop {
            let step = ["before", "within", "after"][random.next_u32() as usize % 3];
            // The first flush of a resumed run may record no more than that it has seen its files.
            let point = format!("{step}:{}", 1 + random.next_u32() % 8);
            if !aborts(&work, store, &point) {
                break;
            }
            crashes += 1;
            assert!(crashes < 2000, "resumed runs make no progress");
        }
        work.is_whole(store);
    }
    println!("faults: {crashes} crashes, one after another, in 4 stores");
    assert!(crashes > 4, "{crashes} crashes");
}
