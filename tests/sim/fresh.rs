//! Lookups behind the memory of an owner, over a store in memory.

use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::segment::{SegmentRules, Timeline};
use tstar::internals::store::fresh::{FreshStore, MemoryAnswer, MemoryQuestion, OwnerMemory};
use tstar::internals::store::memory::{ApplyRows as _, MemoryStore};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{Forget, Kinds, LookupResult, Order, TripEnd, TripRow, TripStore};
use tstar::internals::timeline::{LegFilter, RawSample, Sample};

use crate::nodes::{self, Connection, Nodes};
use crate::support::{Dice, block_on};

pub const MINUTE: i64 = 60_000;

/// The trip of samples at these minutes.
pub fn trip(minutes: &[i64], version: i64) -> TripRow {
    let limits = SegmentRules { max_gap_ms: 1_000 * MINUTE, ..SegmentRules::default() };
    let mut timeline = Timeline::in_memory();
    for minute in minutes {
        let raw = RawSample { time_ms: DeviceTime(minute * MINUTE), ..RawSample::default() };
        let sample = Sample { version: Version(version), ..Sample::quantised(&raw).unwrap() };
        timeline.absorb(&limits, sample, None);
    }
    TripRow::from_segment("a", timeline.segments().next().unwrap(), LegFilter::default())
}

/// An owner that answers as a worker does, or not at all.
#[derive(Default)]
struct Owner {
    rows: Vec<TripRow>,
    is_silent: bool,
    questions: AtomicUsize,
}

impl OwnerMemory for Owner {
    async fn answer(&self, question: MemoryQuestion) -> Option<MemoryAnswer> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let is_meant =
            |row: &&TripRow| row.start_ms <= question.upto_ms && row.end_ms >= question.from_ms;
        let mut rows: Vec<_> = self.rows.iter().filter(is_meant).cloned().collect();
        if question.order == Order::Desc {
            rows.reverse();
        }
        rows.truncate(question.limit);
        let ends = (self.rows.iter().map(|it| it.start_ms), self.rows.iter().map(|it| it.end_ms));
        let newer_ms = ends.0.min().zip(ends.1.max());
        let latest = self.rows.last().map(TripEnd::of_row);
        let answer = MemoryAnswer { rows, newer_ms, latest, ..MemoryAnswer::default() };
        (!self.is_silent).then_some(answer)
    }
}

fn store(rows: &[TripRow]) -> MemoryStore {
    let store = MemoryStore::default();
    block_on(store.apply(rows)).unwrap();
    store
}

/// The starts of trips in minutes, and whether each is fresh.
fn listed(store: &MemoryStore, owner: &Arc<Owner>, order: Order, limit: usize) -> Vec<(i64, bool)> {
    let fresh = FreshStore::new(store, Some(Arc::clone(owner)));
    let span = (DeviceTime(0), DeviceTime(10_000 * MINUTE));
    let found = block_on(fresh.range("a", Kinds::Trips, span, order, limit)).unwrap();
    found.rows.iter().map(|it| (it.row.start_ms.ms() / MINUTE, it.is_fresh)).collect()
}

#[test]
fn a_list_has_as_many_trips_as_there_are_whatever_memory_has_merged() {
    // Six stored trips, of which memory has merged the first three and the last two.
    let stored: Vec<_> = (0..6).map(|nth| trip(&[nth * 10, nth * 10 + 1], nth)).collect();
    let store = store(&stored);
    let rows = vec![trip(&[0, 21], 20), trip(&[40, 55], 21), trip(&[70, 71], 22)];
    let owner = Arc::new(Owner { rows, ..Owner::default() });
    let mut expected = [(0, true), (30, false), (40, true), (70, true)];
    for limit in 1..=7 {
        let cut = &expected[..limit.min(4)];
        assert_eq!(listed(&store, &owner, Order::Asc, limit), cut, "asc {limit}");
    }
    expected.reverse();
    for limit in 1..=7 {
        let cut = &expected[..limit.min(4)];
        assert_eq!(listed(&store, &owner, Order::Desc, limit), cut, "desc {limit}");
    }
}

/// An owner that answers once. Then its changes and later ones are in the store.
struct Former<'a> {
    rows: Mutex<Vec<TripRow>>,
    store: &'a MemoryStore,
    later: Vec<TripRow>,
}

impl OwnerMemory for &Former<'_> {
    async fn answer(&self, _: MemoryQuestion) -> Option<MemoryAnswer> {
        let rows = std::mem::take(&mut *self.rows.lock().unwrap());
        if rows.is_empty() {
            self.store.apply(&self.later).await.unwrap();
        }
        Some(MemoryAnswer { rows, ..MemoryAnswer::default() })
    }
}

#[test]
fn the_rest_of_a_trip_that_was_split_between_two_pages_is_listed() {
    for (order, stored, in_memory, later, want) in [
        (
            Order::Asc,
            [[35, 35], [41, 41]],
            [[34, 42], [64, 64]],
            [([34, 41], 12), ([42, 45], 14)],
            [34, 42],
        ),
        (
            Order::Desc,
            [[58, 58], [64, 64]],
            [[57, 65], [30, 30]],
            [([58, 65], 12), ([54, 57], 14)],
            [58, 54],
        ),
    ] {
        let store = store(&stored.map(|minutes| trip(&minutes, 2)));
        let later = later.map(|(minutes, version)| trip(&minutes, version));
        let rows = Mutex::new(in_memory.map(|minutes| trip(&minutes, 10)).to_vec());
        let owner = Former { rows, store: &store, later: later.to_vec() };
        let fresh = FreshStore::new(&store, &owner);
        let span = (DeviceTime(0), DeviceTime(10_000 * MINUTE));
        let found = block_on(fresh.range("a", Kinds::Trips, span, order, 2)).unwrap().rows;
        let starts: Vec<_> = found.iter().map(|it| it.row.start_ms.ms() / MINUTE).collect();
        assert_eq!(starts, want, "{order:?}");
    }
}

#[test]
fn a_row_that_the_store_has_is_not_fresh() {
    let (old, new) = (trip(&[0, 1], 2), trip(&[0, 5], 4));
    let found = |stored: &TripRow, in_memory: &TripRow, minute: i64| {
        let owner = Owner { rows: vec![in_memory.clone()], ..Owner::default() };
        let store = store(std::slice::from_ref(stored));
        let fresh = FreshStore::new(&store, Some(Arc::new(owner)));
        let found = block_on(fresh.find_at("a", DeviceTime(minute * MINUTE))).unwrap();
        let LookupResult::Trip(row) = found.result else { panic!("no trip") };
        (row.version.get(), found.is_fresh)
    };
    assert_eq!(found(&old, &new, 1), (4, true));
    assert_eq!(found(&old, &new, 5), (4, true));
    assert_eq!(found(&new, &new, 5), (4, false));
    assert_eq!(found(&new, &old, 1), (4, false), "a former owner answers");
}

#[test]
fn what_was_erased_is_gone_although_memory_has_it() {
    let store = store(&[]);
    let forget = Forget { version: Version(9), before_ms: DeviceTime(10 * MINUTE) };
    block_on(store.forget("a", &forget)).unwrap();
    let rows = vec![trip(&[0, 5], 4), trip(&[8, 12], 6)];
    let owner = Arc::new(Owner { rows, ..Owner::default() });
    let fresh = FreshStore::new(&store, Some(Arc::clone(&owner)));
    let found = |minute: i64| block_on(fresh.find_at("a", DeviceTime(minute * MINUTE))).unwrap();
    assert!(matches!(found(3).result, LookupResult::Gone { .. }));
    assert!(found(3).covers(Version(100)), "what is erased stays erased");
    let kept = found(9);
    assert!(matches!(&kept.result, LookupResult::Trip(row) if row.version == Version(6)));
    assert!(kept.covers(Version(6)) && !kept.covers(Version(7)));
    assert!(!found(40).covers(Version(1)));
    assert_eq!(listed(&store, &owner, Order::Asc, 9), [(8, true)]);
}

/// After this number of polls, a lookup that has asked the owner meets a trip that has grown past
/// the floor of a forget, and the forget. Returns the trips that it finds; `None` if it ended
/// before.
fn found_after<F: Future<Output = Vec<TripRow>>>(
    (seed, polls): (u64, usize),
    look_up: impl Fn(Rc<ScyllaStore<Connection>>, Arc<Owner>) -> F,
) -> Option<Vec<TripRow>> {
    let nodes = Arc::new(Mutex::new(Nodes::new(Dice::new(seed), true)));
    let store = Rc::new(block_on(nodes::store(Connection::live(&nodes, 0))));
    let set_calm = |is_calm| nodes.lock().unwrap().is_calm = is_calm;
    block_on(store.apply(&[trip(&[0, 1], 2)])).unwrap();
    set_calm(false);
    let owner = Owner { rows: vec![trip(&[0, 5], 4)], ..Owner::default() };
    let mut lookup = pin!(look_up(Rc::clone(&store), Arc::new(owner)));
    let mut poll = || lookup.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if (0..polls).any(|_| poll().is_ready()) {
        return None;
    }
    set_calm(true);
    block_on(store.apply(&[trip(&[0, 5, 20], 6)])).unwrap();
    let forget = Forget { version: Version(8), before_ms: DeviceTime(10 * MINUTE) };
    block_on(store.forget("a", &forget)).unwrap();
    loop {
        if let Poll::Ready(found) = poll() {
            return Some(found);
        }
    }
}

/// Whenever the trip grows and the forget comes, a lookup finds the trip as it is then.
fn assert_found<F: Future<Output = Vec<TripRow>>>(
    look_up: impl Fn(Rc<ScyllaStore<Connection>>, Arc<Owner>) -> F,
) {
    let mut count = 0;
    for seed in 0..100 {
        for polls in 1.. {
            let Some(found) = found_after((seed, polls), &look_up) else { break };
            let versions: Vec<_> = found.iter().map(|row| row.version.get()).collect();
            assert_eq!(versions, [6], "seed {seed}, after {polls} polls");
            count += 1;
        }
    }
    assert!(count > 100, "{count} lookups were under way");
}

#[test]
fn a_trip_that_outgrows_a_forget_during_a_lookup_is_found() {
    assert_found(async |store, owner| {
        let fresh = FreshStore::new(&*store, Some(owner));
        match fresh.find_at("a", DeviceTime(MINUTE)).await.unwrap().result {
            LookupResult::Trip(row) => vec![*row],
            _ => Vec::new(),
        }
    });
    assert_found(async |store, owner| {
        let fresh = FreshStore::new(&*store, Some(owner));
        let all = (DeviceTime::MIN, DeviceTime::MAX);
        let found = fresh.range("a", Kinds::Trips, all, Order::Asc, 9).await.unwrap();
        found.rows.into_iter().map(|found| found.row).collect()
    });
}

#[test]
fn an_owner_that_does_not_answer_is_asked_once_in_a_request() {
    let store = store(&[trip(&[0, 1], 2)]);
    let owner = Arc::new(Owner { is_silent: true, ..Owner::default() });
    let fresh = FreshStore::new(&store, Some(Arc::clone(&owner)));
    for _ in 0..3 {
        let found = block_on(fresh.find_at("a", DeviceTime(0))).unwrap();
        assert!(matches!(found.result, LookupResult::Trip(_)) && !found.is_fresh);
    }
    assert_eq!(owner.questions.load(Ordering::Relaxed), 1);
}

#[test]
fn neighbours_of_a_time_are_those_of_store_and_memory() {
    let store = store(&[trip(&[0, 1], 2), trip(&[10, 11], 4), trip(&[40, 41], 6)]);
    let near = |rows: Vec<TripRow>, minute: i64| {
        let fresh = FreshStore::new(&store, Some(Arc::new(Owner { rows, ..Owner::default() })));
        let (before, after) = block_on(fresh.neighbours("a", DeviceTime(minute * MINUTE))).unwrap();
        [before, after].map(|it| it.map(|it| (it.row.start_ms.ms() / MINUTE, it.is_fresh)))
    };
    assert_eq!(near(vec![], 20), [Some((10, false)), Some((40, false))]);
    assert_eq!(near(vec![], -1), [None, Some((0, false))]);
    assert_eq!(near(vec![], 50), [Some((40, false)), None]);
    // A merge that the store does not have, a newer trip between, and a row of a former owner.
    assert_eq!(near(vec![trip(&[0, 11], 8)], 20), [Some((0, true)), Some((40, false))]);
    assert_eq!(near(vec![trip(&[30, 31], 8)], 20), [Some((10, false)), Some((30, true))]);
    assert_eq!(near(vec![trip(&[11, 12], 3)], 20), [Some((10, false)), Some((40, false))]);
    let forget = Forget { version: Version(9), before_ms: DeviceTime(12 * MINUTE) };
    block_on(store.forget("a", &forget)).unwrap();
    assert_eq!(near(vec![trip(&[0, 11], 8)], 20), [None, Some((40, false))]);
}

/// A stop that only grows is written seldom: memory knows where the device is meanwhile.
#[test]
fn a_device_was_last_where_memory_or_the_store_has_it_later() {
    let (short, long) = (trip(&[20, 21], 2), trip(&[20, 21, 22], 4));
    let (other, split) = (trip(&[40, 41], 6), trip(&[20], 8));
    let store = store(&[trip(&[0, 1], 0), short.clone()]);
    let minute = |rows: &[&TripRow], is_silent| {
        let rows = rows.iter().copied().cloned().collect();
        let owner = Arc::new(Owner { rows, is_silent, ..Owner::default() });
        let fresh = FreshStore::new(&store, Some(owner));
        block_on(fresh.latest_end("a")).unwrap().map(|end| end.end_ms.ms() / MINUTE)
    };
    assert_eq!(minute(&[], false), Some(21));
    assert_eq!(minute(&[&long], false), Some(22));
    assert_eq!(minute(&[&long], true), Some(21), "no answer");
    assert_eq!(minute(&[&long, &other], false), Some(41));
    assert_eq!(minute(&[&split], false), Some(20), "a newer row may end earlier");
    assert_eq!(minute(&[&trip(&[0, 1, 2], 9)], false), Some(21), "memory lacks the last days");
    let forget = Forget { version: Version(10), before_ms: DeviceTime(30 * MINUTE) };
    block_on(store.forget("a", &forget)).unwrap();
    assert_eq!(minute(&[&long], false), None, "it was erased meanwhile");
    assert_eq!(minute(&[&long, &other], false), Some(41));
}
