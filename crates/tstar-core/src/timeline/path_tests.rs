//! Cost, memory and content of paths.

use super::super::cost;
use super::*;
use crate::timeline::{READINGS, Reading};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeSet;

fn at(time_ms: i64) -> Sample {
    Sample::new(DeviceTime(time_ms), (0, 0), [Reading::ABSENT; READINGS])
}

fn shuffled(n: i64) -> Vec<i64> {
    let mut rng = ChaCha8Rng::seed_from_u64(42);
    let mut times: Vec<i64> = (0..n).collect();
    for k in (1..times.len()).rev() {
        times.swap(k, (rng.next_u64() % (k as u64 + 1)) as usize);
    }
    times
}

/// Elements moved and compared to insert `times` into one path. With `reading`, the first
/// sample is read after every insertion, and the whole path whenever it has grown by 5 %, as a
/// flush does.
fn spent(times: &[i64], reading: bool) -> u64 {
    cost::reset();
    let mut path = Path::new(at(times[0]));
    let mut read_at = 1;
    for &time in &times[1..] {
        path.insert(at(time)).unwrap();
        if reading {
            spend(path.iter().take(1).count());
            if path.len() > read_at + read_at / 20 {
                read_at = path.len();
                spend(path.iter().count());
            }
        }
    }
    assert_eq!(path.iter().count(), times.len());
    let spent = cost::reset();
    path.check();
    spent
}

#[test]
fn a_million_samples_cost_little_more_than_ten_times_a_hundred_thousand() {
    let newest_first = |n: i64| (0..n).rev().collect::<Vec<_>>();
    type Order = fn(i64) -> Vec<i64>;
    let orders: [(&str, Order, bool); 4] = [
        ("newest first", newest_first, false),
        ("random", shuffled, false),
        ("absorb and read in turn, newest first", newest_first, true),
        ("absorb and read in turn, random", shuffled, true),
    ];
    for (name, order, reading) in orders {
        let (small, large) = (spent(&order(100_000), reading), spent(&order(1_000_000), reading));
        println!(
            "{name}: {small} for 100,000, {large} for 1,000,000: {}",
            large as f64 / small as f64
        );
        assert!(large <= 13 * small, "{name}: {large} > 13 * {small}");
    }
}

#[test]
fn an_in_order_sample_costs_the_same_in_a_path_of_any_length() {
    let in_order = |n: i64| spent(&(0..n).collect::<Vec<_>>(), false) as f64 / n as f64;
    let (short, long) = (in_order(1_000), in_order(1_000_000));
    assert!(long < short * 1.2, "{long} elements a sample, {short} in a short path");
}

#[test]
fn merging_many_small_paths_is_not_quadratic() {
    // Newest trip first; each earlier one is prepended.
    let spent = |trips: i64| {
        cost::reset();
        let mut path = Path::new(at(trips * 10));
        for trip in (0..trips).rev() {
            let mut earlier = Path::new(at(trip * 10));
            earlier.insert(at(trip * 10 + 5)).unwrap();
            earlier.append(path);
            path = earlier;
        }
        path.check();
        cost::reset()
    };
    let (small, large) = (spent(10_000), spent(100_000));
    assert!(large <= 13 * small, "{large} > 13 * {small}");
}

#[test]
fn samples_that_arrive_in_a_burst_are_searched_for_once() {
    let mut path = Path::from_sorted((0..100).map(|nth| at(1_000 * nth))).unwrap();
    cost::reset();
    for nth in 1..=20 {
        path.insert(at(50_000 + nth)).unwrap();
    }
    // Each moves the 49 samples behind it, after three comparisons; the first looks through 100.
    let spent = cost::reset();
    assert!(spent <= 20 * (49 + 3) + 8, "{spent}");
}

#[test]
fn newest_first_fills_every_chunk() {
    let mut path = Path::new(at(0));
    for nth in 1..3 * CHUNK as i64 {
        path.insert(at(-nth)).unwrap();
    }
    path.check();
    let chunks = path.earlier.as_ref().unwrap().chunks.values();
    let lengths: Vec<_> = chunks.map(|chunk| chunk.samples().len()).collect();
    assert_eq!((lengths, path.tail.len()), (vec![CHUNK; 2], CHUNK));
}

/// A path of samples in order: the latest 1 to `CHUNK` of them are its tail, the others full
/// chunks.
fn sorted(n: usize) -> Path {
    Path::from_sorted((0..n).map(|nth| at(nth as i64))).unwrap()
}

#[test]
fn paths_that_fit_a_chunk_together_become_one() {
    for (later, chunks) in [(CHUNK as i64 - 60, 0), (CHUNK as i64 - 59, 1)] {
        let mut path = sorted(60);
        path.append(Path::from_sorted((0..later).map(|nth| at(100 + nth))).unwrap());
        path.check();
        assert_eq!(path.earlier.map_or(0, |earlier| earlier.chunks.len()), chunks);
    }
}

#[test]
fn only_a_long_path_is_packed_and_its_latest_chunks_stay_open() {
    let mut path = sorted(9 * CHUNK);
    path.pack();
    assert_eq!(path.memory(), 9 * CHUNK * 72, "8 chunks and a tail are short");
    path = sorted(81 * CHUNK);
    let open = path.memory();
    assert_eq!(open, 81 * CHUNK * 72);
    path.pack();
    path.check();
    let chunks = path.earlier.as_ref().unwrap().chunks.values();
    let are_open: Vec<_> = chunks.map(|chunk| matches!(chunk, Chunk::Open(_))).collect();
    assert_eq!(are_open, [[false].repeat(76), [true].repeat(4)].concat());
    // Four chunks and the tail; of the others, at least a byte for each sample.
    let least = 5 * CHUNK * 72 + 76 * CHUNK;
    assert!((least..open / 4).contains(&path.memory()), "{}", path.memory());
}

proptest! {
    #[test]
    fn agrees_with_a_set(
        parts in prop::collection::vec(prop::collection::vec(0..9000_i64, 1..3000), 1..4),
        packs_every in prop_oneof![Just(usize::MAX), 1..900_usize],
        first in 0..11_i64,
    ) {
        let mut whole: Option<Path> = None;
        let mut expected = BTreeSet::new();
        for (nth, times) in parts.iter().enumerate() {
            let offset = nth as i64 * 10_000;
            let mut count = 0;
            let mut path = Path::new(at(times[0] + offset));
            let mut kept = BTreeSet::from([times[0] + offset]);
            for &time in &times[1..] {
                let inserted = path.insert(at(time + offset)).is_ok();
                prop_assert_eq!(inserted, kept.insert(time + offset));
                count += 1;
                if count % packs_every == 0 {
                    path.pack();
                }
            }
            path.check();
            expected.append(&mut kept);
            whole = Some(match whole.take() {
                None => path,
                Some(mut earlier) => { earlier.append(path); earlier }
            });
        }
        let mut whole = whole.unwrap();
        whole.check();
        let times = whole.iter().map(|sample| sample.time_ms.ms());
        prop_assert!(times.eq(expected.iter().copied()));
        whole.pack();
        whole.check();
        // Each lookup unpacks a chunk: all of them took half of the time of all unit tests.
        for time in (first..9000).step_by(11) {
            prop_assert_eq!(whole.get(DeviceTime(time)).is_some(), expected.contains(&time));
        }
        let again = Path::from_sorted(whole.iter()).unwrap();
        prop_assert!(again.iter().eq(whole.iter()));
    }
}

/// What a path has to answer, kept as a list.
type Records = std::collections::BTreeMap<i64, Option<String>>;

fn check_records(path: &Path, records: &Records) {
    path.check();
    let times: Vec<i64> = path.iter().map(|sample| sample.time_ms.ms()).collect();
    assert!(times.iter().eq(records.keys()));
    let mut changes = 0;
    let mut before = &None;
    for (&time_ms, name) in records {
        assert_eq!(path.driver_at(DeviceTime(time_ms)), name.as_deref(), "{time_ms}: {records:?}");
        changes += usize::from(name != before);
        before = name;
    }
    assert_eq!(path.drivers().count(), changes, "{records:?}");
    let names: usize = path.drivers().map(|(_, name)| name.map_or(0, str::len)).sum();
    assert_eq!(path.weight(), path.len() + names.saturating_sub(4096) / 16);
    let first = records.iter().find_map(|(&at, name)| Some((DeviceTime(at), name.as_deref()?)));
    assert_eq!(path.first_driver(), first);
}

proptest! {
    /// Samples with drivers in any order, split and joined again.
    #[test]
    fn a_path_knows_the_driver_of_each_sample(
        arrivals in prop::collection::vec((0..2000_i64, 0..4_usize), 2..2000),
        cut in 0..2000_i64,
        packs: bool,
    ) {
        let long = "c".repeat(256);
        let names = [None, Some("ann"), Some("bo"), Some(long.as_str())];
        let mut records = Records::new();
        let mut path: Option<Path> = None;
        for (time_ms, driver) in arrivals {
            match &mut path {
                None => path = Some(Path::new(at(time_ms))),
                Some(path) => {
                    if path.insert(at(time_ms)).is_err() {
                        continue;
                    }
                }
            }
            let kept = path.as_mut().expect("it has a sample");
            kept.name_driver(DeviceTime(time_ms), names[driver]);
            records.insert(time_ms, names[driver].map(str::to_owned));
        }
        let mut path = path.unwrap();
        if packs {
            path.pack();
        }
        check_records(&path, &records);
        let mut before = records.clone();
        let after = before.split_off(&cut);
        if before.is_empty() || after.is_empty() {
            return Ok(());
        }
        let later = path.split_off(DeviceTime(cut));
        check_records(&path, &before);
        check_records(&later, &after);
        path.append(later);
        check_records(&path, &records);
        // Named when all samples are there, and then by others.
        let mut again = Path::from_sorted(path.iter()).unwrap();
        for turn in [false, true] {
            for (at, name) in &mut records {
                *name = if turn { names[*at as usize % 4].map(str::to_owned) } else { name.take() };
                again.name_driver(DeviceTime(*at), name.as_deref());
            }
            check_records(&again, &records);
        }
    }
}
