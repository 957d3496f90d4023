//! Replays and rebuilds that are killed, and run again. A kill counts if it left a part of what the
//! command does: others come before it began or after it was done.

use std::process::Command;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rusqlite::Connection;

use super::rebuild::BECAME;
use super::{Site, same};
use crate::cli::{Folder, Ran};
use crate::faults::Running;
use crate::support;
use crate::verify::file::dump;
use tstar_sim::counts;

/// Runs a command and kills it at a random moment within `length`. Returns whether it was killed. A
/// run that ended before shortens `length`: the machine may have been busier when it was measured.
pub fn killed(
    folder: &Folder,
    words: &str,
    length: &mut Duration,
    random: &mut ChaCha8Rng,
) -> bool {
    let moment = length.mul_f64(f64::from(random.next_u32()) / f64::from(u32::MAX));
    let began = Instant::now();
    let mut running = Running::start(&mut hasty(folder, words));
    while began.elapsed() < moment && !running.has_ended() {
        std::thread::park_timeout(Duration::from_micros(200));
    }
    if running.has_ended() {
        *length = began.elapsed().min(*length);
        running.ran(words).ends(0);
        return false;
    }
    running.kill();
    true
}

fn took(folder: &Folder, words: &str) -> Duration {
    let began = Instant::now();
    Ran::run(words, &mut hasty(folder, words)).ends(0);
    began.elapsed()
}

/// A command whose flushes are short, so that it can be killed between them.
pub fn hasty(folder: &Folder, words: &str) -> Command {
    let mut command = folder.command(words);
    command.env("TSTAR_FLUSH_INTERVAL", "5ms").env("TSTAR_MAX_STALENESS", "20ms");
    command
}

fn remove(folder: &Folder, store: &str) {
    for suffix in ["", "-wal", "-shm", "-lock"] {
        // Not all of them exist.
        drop(std::fs::remove_file(folder.path(&format!("{store}{suffix}"))));
    }
}

#[test]
fn a_replay_into_a_file_killed_again_and_again_ends_the_same() {
    let Some(site) = Site::new(6000) else { return };
    site.run_file("full.db", "");
    let once = site.dump("full.db");
    let words =
        format!("replay topic --from earliest {} --apply", site.flags("sqlite:t.db", false));
    site.import("sqlite:full.db", "sqlite:t.db");
    let mut length = took(&site.folder, &words);
    let mut random = ChaCha8Rng::seed_from_u64(31);
    let min_parts = support::kills(12);
    let (mut kills, mut parts) = (0, 0);
    for round in 0.. {
        assert!(round < 20 * min_parts, "{parts} of {kills} kills left a part");
        if parts >= min_parts {
            break;
        }
        remove(&site.folder, "t.db");
        site.import("sqlite:full.db", "sqlite:t.db");
        // Some are killed twice.
        for _ in 0..2 {
            let was = killed(&site.folder, &words, &mut length, &mut random);
            kills += u64::from(was);
            let trips = site.count("t.db", "trips");
            parts += u64::from(was && trips > 0 && site.dump("t.db") != once);
        }
        site.folder.run(&words).ends(0);
        same(&site.dump("t.db"), &once, "after a kill");
    }
    println!("replay topic, file: {kills} kills, {parts} left a part");
    counts::REPLAYS_TO_FILE.print(parts);
}

#[test]
fn a_rebuild_killed_again_and_again_ends_the_same() {
    let Some(site) = Site::new(6000) else { return };
    site.run_file("old.db", "");
    let old = site.dump("old.db");
    let flags = site.flags("sqlite:old.db", true);
    let words = |into: &str| format!("rebuild {flags} --into sqlite:{into} --max-gap 8m --json");
    let report = |into: &str| {
        let mut report = site.folder.run(&words(into)).ends(0).json();
        let report = report.as_object_mut().unwrap();
        report.retain(|name, _| name != "into" && !BECAME.contains(&name.as_str()));
        report.clone()
    };
    let began = Instant::now();
    let expected = (report("whole.db"), super::rebuild::spans(&site.folder, "sqlite:whole.db"));
    let mut length = began.elapsed();
    let mut random = ChaCha8Rng::seed_from_u64(33);
    let min_parts = support::kills(10);
    let (mut kills, mut parts) = (0, 0);
    for round in 0.. {
        assert!(round < 20 * min_parts, "{parts} of {kills} kills left a part");
        if parts >= min_parts {
            break;
        }
        remove(&site.folder, "t.db");
        for _ in 0..2 {
            let was = killed(&site.folder, &words("t.db"), &mut length, &mut random);
            kills += u64::from(was);
            let is_there = site.folder.run("export --store sqlite:t.db").code == Some(0);
            let is_whole = || super::rebuild::spans(&site.folder, "sqlite:t.db") == expected.1;
            parts += u64::from(was && is_there && !is_whole());
        }
        assert_eq!(report("t.db"), expected.0);
        assert!(super::rebuild::spans(&site.folder, "sqlite:t.db") == expected.1);
    }
    same(&site.dump("old.db"), &old, "the old store is only read");
    println!("rebuild: {kills} kills, {parts} left a part");
    counts::REBUILDS.print(parts);
}

#[test]
fn a_repair_killed_again_and_again_ends_the_same() {
    let folder = Folder::new();
    let fleet = folder.run("simulate --devices 20 --samples 6000 --seed 8").ends(0).stdout;
    folder.write("a.ndjson", fleet);
    folder.ingest("a.ndjson --store sqlite:well.db");
    let well = dump(&folder.path("well.db"));
    let words = "verify a.ndjson --store sqlite:t.db --repair";
    let damage = || {
        remove(&folder, "t.db");
        std::fs::copy(folder.path("well.db"), folder.path("t.db")).unwrap();
        let connection = Connection::open(folder.path("t.db")).unwrap();
        let damage = "DELETE FROM trips WHERE rowid % 3 = 0;
             UPDATE trips SET samples = samples + 1 WHERE rowid % 3 = 1;";
        connection.execute_batch(damage).unwrap();
    };
    damage();
    let mut length = took(&folder, words);
    let mut random = ChaCha8Rng::seed_from_u64(34);
    let min_parts = support::kills(5);
    let (mut kills, mut parts) = (0, 0);
    for round in 0.. {
        assert!(round < 100 * min_parts, "{parts} of {kills} kills left a part");
        if parts >= min_parts {
            break;
        }
        damage();
        let damaged = dump(&folder.path("t.db"));
        kills += u64::from(killed(&folder, words, &mut length, &mut random));
        let now = dump(&folder.path("t.db"));
        parts += u64::from(now != damaged && now != well);
        folder.run(words).ends(0);
        same(&dump(&folder.path("t.db")), &well, "after a kill");
    }
    println!("verify --repair: {kills} kills, {parts} left a part");
    counts::REPAIRS.print(parts);
}
