//! Interrupted runs: the same command, run again, ends like an undisturbed one.

use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::{LATER, count, devices, fleet, others, shuffled};
use crate::cli::Folder;
use crate::faults::Running;
use crate::support;
use tstar_sim::counts;

const STORE: &str = "sqlite:t.db";
const DEVICE: &str = "truck-7";
const SAMPLES: usize = 6000;
const SIGABRT: i32 = 6;

/// Two stores, one with everything and one from which a part was erased; and the next commands.
struct Work {
    folder: Folder,
    /// Erases a part of `full.db`, which gives `part.db`.
    erase: String,
    /// Imports into `part.db` what it holds and what was erased from it, in another order.
    import: String,
    expected: (Vec<String>, Vec<String>),
}

impl Work {
    fn new() -> Self {
        let folder = Folder::new();
        let log = fleet(&folder, SAMPLES);
        folder.write("all.ndjson", &log);
        folder.write("shuffled.ndjson", shuffled(&log));
        folder.ingest("all.ndjson --store sqlite:full.db");
        // All devices but one keep something.
        folder
            .run(&format!("forget {DEVICE} --before {LATER} --yes --store sqlite:full.db"))
            .ends(0);
        let erase = format!("forget --all-before 2025-01-01T01:00:00Z --yes --store {STORE}");
        let import = format!(
            "ingest shuffled.ndjson --json --flush-interval 1ms --max-staleness 1ms --store {STORE}"
        );
        let work = Self { folder, erase, import, expected: (vec![], vec![]) };
        let whole = others(&work.folder, "sqlite:full.db", &[]);
        work.copy("full.db");
        work.folder.run(&work.erase).ends(0);
        std::fs::copy(work.folder.path("t.db"), work.folder.path("part.db")).unwrap();
        let expected = work.found();
        assert!(expected.0.len() < whole.len() && expected.0.len() > 20);
        Self { expected, ..work }
    }

    /// Makes `t.db` a copy of a store.
    fn copy(&self, name: &str) {
        for suffix in ["-wal", "-shm", "-lock"] {
            // Not all of them exist.
            drop(std::fs::remove_file(self.folder.path(&format!("t.db{suffix}"))));
        }
        std::fs::copy(self.folder.path(name), self.folder.path("t.db")).unwrap();
    }

    /// Trips with their samples and versions, and the indexed devices.
    fn found(&self) -> (Vec<String>, Vec<String>) {
        (others(&self.folder, STORE, &[]), devices(&self.folder, STORE))
    }

    /// How many forgets the copy has.
    fn forgets(&self) -> i64 {
        count(&self.folder.path("t.db"), "SELECT count(*) FROM forgets")
    }

    #[track_caller]
    fn ends_as_expected(&self, words: &str) {
        self.folder.run(words).ends(0);
        assert!(self.found() == self.expected, "after `{words}`");
    }
}

#[test]
fn a_crash_at_any_step_leaves_all_or_nothing() {
    let work = Work::new();
    for (point, forgets) in [("before:1", 1), ("within:1", 1), ("within:30", 1), ("after:1", 30)] {
        work.copy("full.db");
        let mut command = work.folder.command(&work.erase);
        let output = command.env("TSTAR_TEST_ABORT", point).output().unwrap();
        assert_eq!(output.status.signal(), Some(SIGABRT), "{point}");
        assert_eq!(work.forgets(), forgets, "{point}");
        assert!(output.stdout.is_empty(), "nothing is reported before it is done");
        let said = String::from_utf8_lossy(&output.stderr);
        let intent = "erasing the trips of every device that ended before 2025-01-01T01:00:00.000Z";
        assert!(said.contains(intent), "the intent is reported first: {said}");
        work.ends_as_expected(&work.erase);
    }
}

#[test]
fn a_kill_at_any_moment_leaves_all_or_nothing() {
    let work = Work::new();
    let mut random = ChaCha8Rng::seed_from_u64(20_261_122);
    let min_kills = support::kills(40);
    let (mut kills, mut ended, mut nothing, mut all) = (0, 0, 0, 0);
    // The length of an undisturbed run on this machine.
    let lengths = [("full.db", &work.erase), ("part.db", &work.import)].map(|(from, words)| {
        work.copy(from);
        let began = Instant::now();
        work.folder.run(words).ends(0);
        began.elapsed()
    });
    // A kill counts if it fell into an erasure, which leaves all or nothing.
    while nothing + all < min_kills || nothing == 0 {
        assert!(kills < 4 * min_kills, "no kill left nothing done");
        assert!(ended < 500, "they end before they are killed");
        let is_import = random.next_u32() % 3 == 0;
        let (from, words) =
            if is_import { ("part.db", &work.import) } else { ("full.db", &work.erase) };
        work.copy(from);
        let part = f64::from(random.next_u32()) / f64::from(u32::MAX);
        let moment = lengths[usize::from(is_import)].mul_f64(part);
        let began = Instant::now();
        let mut running = Running::start(&mut work.folder.command(words));
        while began.elapsed() < moment {
            std::hint::spin_loop();
        }
        if running.has_ended() {
            ended += 1;
            running.ran(words).ends(0);
        } else {
            running.kill();
            kills += 1;
            if !is_import {
                let forgets = work.forgets();
                assert!(forgets == 1 || forgets == 30, "{forgets}");
                *(if forgets == 1 { &mut nothing } else { &mut all }) += 1;
            }
        }
        work.ends_as_expected(words);
    }
    println!(
        "forget: {kills} kills, {nothing} left nothing done and {all} all of it, the others fell \
         into imports"
    );
    counts::ERASURES.print(nothing + all);
}
