//! More devices than fit into memory: samples are spilled, and the store does not show it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::Value;

use super::{Outcome, letters};
use crate::cli::Folder;

/// Their trips need more than 64 MB besides the program's buffers.
const DEVICES: usize = 55_000;

/// When each device sends, seconds after its first sample; the last sample falls into a full trip.
const ROUNDS: [i64; 5] = [0, 60, 120, 180, 90];

/// Flushes wait for the end of the input, or for memory to be full.
const IMPORT: &str =
    "ingest log --json --max-samples 4 --flush-interval 10m --max-staleness 10m --store";

/// Each round in another order, so that no device sends twice in a row.
fn log() -> String {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut devices: Vec<usize> = (0..DEVICES).collect();
    let mut log = String::new();
    for second in ROUNDS {
        for last in (1..DEVICES).rev() {
            devices.swap(last, random.next_u32() as usize % (last + 1));
        }
        for device in &devices {
            let time = 1_700_000_000_000 + 1000 * second + *device as i64;
            log += &format!(r#"{{"device":"truck-{device}","ts":{time},"lat":52,"lon":13}}"#);
            log += if device % 1000 == 7 { "?\n" } else { "\n" };
        }
    }
    log
}

/// The content of the store. Dead letters of spilled samples come by device.
fn outcome(folder: &Folder, store: &str) -> Outcome {
    let mut outcome = Outcome::load(folder, store);
    outcome.letters = letters(folder, store);
    outcome.letters.sort_by_key(|letter| letter["line"].as_u64());
    for letter in &mut outcome.letters {
        letter.as_object_mut().unwrap().remove("id");
    }
    outcome
}

fn aborts(folder: &Folder, words: &str, point: &str) -> bool {
    let output = folder.command(words).env("TSTAR_TEST_ABORT", point).output().unwrap();
    output.status.code() != Some(0)
}

fn count(summary: &Value, name: &str) -> u64 {
    summary["dead_letters"][name].as_u64().unwrap()
}

#[test]
fn spilled_samples_and_crashes_among_them_change_nothing() {
    let folder = Folder::with("log", log());
    let whole = folder.run(&format!("{IMPORT} sqlite:whole.db")).ends(0).json();
    let bad = ROUNDS.len() * DEVICES / 1000;
    assert_eq!(count(&whole, "bad_json"), bad as u64);
    assert_eq!(count(&whole, "trip_full"), (DEVICES - DEVICES / 1000) as u64);
    let expected = outcome(&folder, "whole.db");

    let bounded = |store: &str| format!("{IMPORT} sqlite:{store} --memory 64MB");
    let summary = folder.run(&bounded("bounded.db")).ends(0).json();
    assert_eq!(summary, whole);
    assert!(outcome(&folder, "bounded.db") == expected, "the bound changed the store");

    // A flush of 64 groups has more pieces than one of all devices, so samples were spilled.
    let unbounded = format!("{IMPORT} sqlite:once.db");
    assert!(!aborts(&folder, &unbounded, "within:60"), "as many pieces without a limit");
    for point in ["before:1", "within:60", "after:1"] {
        let store = format!("{}.db", point.replace(':', ""));
        assert!(aborts(&folder, &bounded(&store), point), "{point} was not reached");
        folder.run(&bounded(&store)).ends(0);
        assert!(outcome(&folder, &store) == expected, "{point} changed the store");
    }
}
