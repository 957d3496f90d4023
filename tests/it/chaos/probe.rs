//! A time that a trip covers is found while the trip grows and merges (I7).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tstar::internals::store::TripStore;
use tstar::internals::store::memory::ApplyRows as _;

use crate::conformance::{at, trip};
use crate::faults::until;
use crate::keyspace::{ClusteringOrder, Keyspace};
use tstar_sim::model::literal::{Device, Did, Limits};
use tstar_sim::model::{Class, Fix};

const DEVICES: usize = 12;

/// Arrivals per device, and the minutes around midnight that they spread over.
const ARRIVALS: (usize, i64) = (70, 40);

/// Minutes covered by acknowledged writes.
type Covered = Mutex<Vec<(String, i64)>>;

/// Writes the trips of a device after each of its arrivals. After each write it waits for a lookup,
/// so that the count does not depend on the machine's load. Returns how many merges spanned
/// midnight.
async fn write(
    store: &impl TripStore,
    device: &str,
    seed: u64,
    (covered, found): (&Covered, &AtomicUsize),
) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let limits = Limits { max_gap: 5, min_stop: None, max_samples: 1000 };
    let (mut model, mut known, mut over_midnight) = (Device::new(limits), BTreeSet::new(), 0);
    for nth in 1..=ARRIVALS.0 {
        let within = u64::try_from(2 * ARRIVALS.1).unwrap();
        let time = i64::try_from(random.next_u64() % within).unwrap() - ARRIVALS.1;
        let version = 2 * i64::try_from(nth).unwrap();
        let did = model.arrive(version, Fix { time, place: 0, driver: None, class: Class::Moving });
        if matches!(did, Did::Duplicate { .. }) {
            continue;
        }
        let changed = model.trips.iter().find(|trip| trip.version == version).unwrap();
        over_midnight +=
            usize::from(did == Did::Merge && (changed.start() < 0) & (changed.end() >= 0));
        let mut minutes: Vec<_> = changed.kept.iter().map(|fix| fix.time).collect();
        minutes.sort_unstable();
        store.apply(&[trip(device, &minutes, version)]).await.unwrap();
        let fresh = (changed.start()..=changed.end()).filter(|minute| known.insert(*minute));
        covered.lock().unwrap().extend(fresh.map(|minute| (device.to_owned(), minute)));
        let before = found.load(Ordering::Acquire);
        until("a lookup", || (found.load(Ordering::Acquire) > before).then_some(()));
    }
    over_midnight
}

/// Looks up covered times repeatedly, the newest most often, and counts the hits.
async fn probe(
    store: &impl TripStore,
    (covered, found): (&Covered, &AtomicUsize),
    done: &AtomicBool,
    seed: u64,
) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut nth = 0;
    while !done.load(Ordering::Acquire) {
        let sample = {
            let covered = covered.lock().unwrap();
            let window = (covered.len() as u64).min([80, u64::MAX][nth % 2]);
            let back = (window > 0).then(|| usize::try_from(random.next_u64() % window).unwrap());
            back.map(|back| covered[covered.len() - 1 - back].clone())
        };
        let Some((device, minute)) = sample else {
            tokio::task::yield_now().await;
            continue;
        };
        let row = store.covering(&device, at(minute)).await.unwrap();
        let row = row.unwrap_or_else(|| panic!("minute {minute} of {device} is not found"));
        assert!((row.start_ms..=row.end_ms).contains(&at(minute)), "{minute} in {row:?}");
        nth += 1;
        found.fetch_add(1, Ordering::AcqRel);
    }
}

/// Stops the probes, also when the writer fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_covered_time_is_found_while_its_trip_grows_and_merges() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let (covered, done, found) = (Covered::default(), AtomicBool::new(false), AtomicUsize::new(0));
    let mut over_midnight = 0;
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (keyspace, covered, done, found) = (&keyspace, &covered, &done, &found);
            scope.spawn(move || {
                let store = keyspace.store();
                keyspace.runtime.block_on(probe(&store, (covered, found), done, seed));
            });
        }
        let _done = Done(&done);
        let owner = keyspace.store().owner();
        for seed in 0..DEVICES {
            let device = format!("probed-{seed}");
            let write = write(&owner, &device, seed as u64, (&covered, &found));
            over_midnight += keyspace.runtime.block_on(write);
        }
    });
    let found = found.into_inner();
    println!("{found} lookups found their trip, {over_midnight} merges over midnight");
    assert!(over_midnight >= DEVICES / 2);
}
