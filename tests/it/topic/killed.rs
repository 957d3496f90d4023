//! `run` into a file, killed at random moments and started again. A kill counts if it left a part
//! of the topic in the file.

use std::collections::BTreeSet;

use serde_json::Value;
use tstar::internals::store::EpochStore;
use tstar::internals::store::sqlite::SqliteStore;

use super::file::until_read;
use super::{PARTITIONS, Topic, drain, start};
use crate::chaos::expected::{Expected, Place};
use crate::chaos::log::{Size, mixed};
use crate::cli::Folder;
use crate::control_keys;
use crate::faults::until;
use crate::support::{Dice, block_on, kills};

const SIZE: Size = Size { devices: 20, samples: 20_000 };

/// How many runs from an empty file there are at most for each kill that has to count.
const AT_MOST: u64 = 20;

/// Kills of a run until it is left to end.
const KILLS_IN_A_ROW: usize = 4;

fn store(folder: &Folder) -> Option<SqliteStore> {
    SqliteStore::open_reader(&folder.path("t.db")).ok()
}

/// How many records a file has read.
fn position(folder: &Folder) -> i64 {
    let Some(store) = store(folder) else { return 0 };
    let of = |partition| store.position_of(partition).ok().flatten().unwrap_or(0);
    (0..PARTITIONS).map(of).sum()
}

fn remove(folder: &Folder) {
    for suffix in ["", "-wal", "-shm", "-lock"] {
        // Not all of them exist.
        drop(std::fs::remove_file(folder.path(&format!("t.db{suffix}"))));
    }
}

/// The file holds what the model says of the topic.
fn is_whole(folder: &Folder, topic: &Topic) -> Expected {
    let store = store(folder).unwrap();
    let epochs = block_on(store.epochs()).unwrap();
    assert_eq!(epochs.len(), 1);
    let expected = Expected::new(&topic.records_of(&topic.name), epochs[0].base.get());
    block_on(expected.assert_store(&store));
    let letters = folder.run("dlq ls --limit 100000 --store sqlite:t.db").ends(0).objects();
    let number = |it: &Value| it.as_i64().unwrap();
    let place = |letter: &Value| {
        let element = letter["element"].as_u64().map(|it| u32::try_from(it).unwrap());
        let partition = i32::try_from(number(&letter["partition"])).unwrap();
        (partition, number(&letter["offset"]), element)
    };
    let found: BTreeSet<Place> = letters.iter().map(place).collect();
    // Each at least once: a run that starts again sends them again, as to `.dlq`.
    assert_eq!(found, expected.letters);
    expected
}

#[test]
fn a_run_killed_again_and_again_ends_as_the_model_says() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let folder = control_keys::folder();
    let seed = u64::from(fastrand::u32(..));
    println!("run into a file: the log of seed {seed}");
    topic.send(&mixed(&folder, &topic, SIZE, seed));
    let total: i64 = topic.ends(PARTITIONS).values().sum();
    let flushes = "--flush-interval 5ms --max-staleness 20ms";
    let words = format!("run {} --store sqlite:t.db --from earliest {flushes}", topic.flags());
    let mut dice = Dice::new(seed);
    let min_parts = kills(5);
    let (mut all, mut parts, mut counts) = (0, 0, None);
    for round in 0.. {
        assert!(round < AT_MOST * min_parts, "{parts} of {all} kills left a part");
        if parts >= min_parts {
            break;
        }
        remove(&folder);
        for _ in 0..KILLS_IN_A_ROW {
            let steps = i64::try_from(dice.below(usize::try_from(total / 4).unwrap())).unwrap();
            let reaches = (position(&folder) + steps).min(total);
            let mut running = start(&folder, &words);
            until("records", || {
                (running.has_ended() || position(&folder) >= reaches).then_some(())
            });
            (0..dice.below(60_000)).for_each(|_| std::hint::spin_loop());
            assert!(!running.has_ended(), "it ended: {}", running.ran(&words));
            running.kill();
            all += 1;
            let left = position(&folder);
            assert!(left <= total);
            parts += u64::from((1..total).contains(&left));
        }
        let running = start(&folder, &words);
        until_read(&folder, "t.db", &topic);
        drain(running, &words).ends(0);
        counts = Some(is_whole(&folder, &topic).counts);
    }
    println!("run into a file: {all} kills, {parts} left a part; {:?}", counts.unwrap());
}
