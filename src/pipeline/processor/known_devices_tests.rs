use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::fixture::{EVENING, MINUTE, TestStore, block_on, of_topic, row, samples};
use super::*;
use crate::identity::shard;
use crate::store::repairs::Repairs;
use crate::timeline::day_of;

const HOUR: Duration = Duration::from_secs(3600);

/// A store that notes repairs, with a row of each of these devices.
fn store_of(devices: &[&str]) -> TestStore {
    let store = TestStore::default();
    *store.repairs.lock().unwrap() = Some(Repairs::default());
    let rows: Vec<_> = devices.iter().map(|device| row(device, (0, 1))).collect();
    block_on(store.apply(&rows)).unwrap();
    store
}

/// Reads an index after a load that found nothing.
fn config(repairs_age: Duration) -> ProcessorConfig {
    ProcessorConfig { index_after: 1, repairs_age, ..ProcessorConfig::default() }
}

/// Absorbs a sample of each of these devices, and returns those whose rows were read.
fn reads<'a>(
    processor: &mut Processor<'_, TestStore, TestStore>,
    store: &TestStore,
    devices: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let next = processor.position().delivered.get();
    let of: Vec<_> = devices.into_iter().map(|device| (device, 30)).collect();
    block_on(processor.absorb(&samples(next, &of))).unwrap();
    store.take_reads()
}

#[test]
fn devices_that_the_index_lacks_are_not_read() {
    let store = store_of(&["stored"]);
    store.forgotten.lock().unwrap().push("forgotten".to_owned());
    let mut processor = of_topic(&store, config(HOUR));
    let all = ["first", "second", "stored", "third", "forgotten"];
    assert_eq!(reads(&mut processor, &store, all), ["first", "stored", "forgotten"]);
    let counts = processor.counts();
    assert_eq!((counts.loads_skipped, counts.vain_loads, counts.filters_dropped), (2, 1, 0));
    assert!(processor.known.memory() > 0);
    assert_eq!(store.repairs_read.load(Ordering::Relaxed), 1, "for an hour");
    // Without notes of repairs, every device is read.
    *store.repairs.lock().unwrap() = None;
    let mut other = of_topic(&store, config(HOUR));
    assert_eq!(reads(&mut other, &store, ["fourth", "fifth", "sixth"]).len(), 3);
    assert_eq!(other.counts().loads_skipped, 0);
}

/// While a repair runs, and after one, rows may be in the store that the index did not have.
#[test]
fn a_repair_drops_the_filters() {
    let store = store_of(&[]);
    let mut processor = of_topic(&store, config(HOUR));
    assert_eq!(reads(&mut processor, &store, ["a", "b"]), ["a"]);
    let mut read_after = |repairs, devices| {
        *store.repairs.lock().unwrap() = Some(repairs);
        // As if an hour had passed.
        processor.known.checked = None;
        let read = reads(&mut processor, &store, devices);
        (read, processor.counts().filters_dropped)
    };
    let all = |devices: [&str; 3]| devices.map(str::to_owned).to_vec();
    let mut repairs = Repairs { count: 1, is_active: true };
    assert_eq!(read_after(repairs, ["c", "d", "e"]), (all(["c", "d", "e"]), 1));
    repairs.is_active = false;
    assert_eq!(read_after(repairs, ["f", "g", "h"]).1, 1);
    // It was postponed, and is read again once there were enough loads.
    assert_eq!(read_after(repairs, ["i", "j", "k"]), (vec![], 1));
    repairs.count = 2;
    assert_eq!(read_after(repairs, ["l", "m", "n"]).1, 2);
}

/// An index is read if that is cheaper than the loads: of 17 times 64 entries after one load.
#[test]
fn a_large_index_is_read_after_more_loads() {
    let names: Vec<String> = (0..=17 * ENTRIES_PER_LOAD).map(|nth| format!("s{nth}")).collect();
    for (stored, is_read) in [(17 * ENTRIES_PER_LOAD, true), (17 * ENTRIES_PER_LOAD + 1, false)] {
        let devices: Vec<&str> = names[..stored].iter().map(String::as_str).collect();
        let store = store_of(&devices);
        let mut processor = of_topic(&store, config(HOUR));
        let expected = if is_read { &["a"][..] } else { &["a", "b"] };
        assert_eq!(reads(&mut processor, &store, ["a", "b"]), expected);
        assert_eq!(processor.known.is_read(day_of(EVENING)), is_read);
        // After twice as many loads, it may be twice as large.
        assert_eq!(reads(&mut processor, &store, ["c"]), [""; 0]);
    }
}

#[test]
fn an_index_has_the_devices_of_all_shards_up_to_a_limit() {
    let names: Vec<String> = (0..20).map(|nth| format!("van-{nth}")).collect();
    let store = store_of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let of = |day, limit| block_on(devices_of_day(&store, day, limit)).unwrap();
    let mut found = of(day_of(EVENING), 20).unwrap();
    found.sort_by_key(|name| names.iter().position(|other| other == name));
    assert_eq!(found, names);
    assert_eq!(of(day_of(EVENING), 19), None);
    assert_eq!(of(day_of(EVENING + 60 * 24 * MINUTE), 0), Some(vec![]));
}

/// A page that has as many devices as are allowed is not the last one.
#[test]
fn a_shard_of_several_pages_is_read_to_its_end() {
    let names = (0..).map(|nth| format!("van-{nth}"));
    let names: Vec<String> = names.filter(|name| shard(name) == 0).take(PAGE + 1).collect();
    let store = store_of(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let count = |limit| {
        let found = block_on(devices_of_day(&store, day_of(EVENING), limit)).unwrap();
        found.map(|found| found.len())
    };
    assert_eq!([count(PAGE), count(PAGE + 1)], [None, Some(PAGE + 1)]);
}

fn known(days: i64) -> KnownDevices {
    let mut known = KnownDevices::new(&config(HOUR));
    (0..days).for_each(|day| known.insert_day(Day(day), &["van".to_owned()], &[]));
    known
}

#[test]
fn filters_are_dropped_from_the_oldest_day_on() {
    let one = known(1).memory();
    let of = |days: i64, max_bytes| {
        let mut known = known(days);
        known.shrink(max_bytes);
        assert!(known.memory() <= max_bytes);
        known.days.into_keys().map(Day::get).collect::<Vec<_>>()
    };
    assert_eq!(of(8, usize::MAX), (0..8).collect::<Vec<_>>());
    assert_eq!(of(10, usize::MAX), (2..10).collect::<Vec<_>>());
    assert_eq!(
        [of(3, 3 * one), of(3, 3 * one - 1), of(3, one)],
        [vec![0, 1, 2], vec![1, 2], vec![2]]
    );
    assert_eq!(of(3, one - 1), [0; 0]);
    let mut with_forgets = known(1);
    with_forgets.add_forget("bus");
    assert_eq!(with_forgets.memory(), 2 * one);
    with_forgets.shrink(2 * one - 1);
    assert!(with_forgets.memory() == 0 && !with_forgets.is_any_read());
}

#[test]
fn what_is_written_and_forgotten_is_known() {
    let mut known = known(2);
    known.checked = Some(Instant::now());
    let days = [Day(0), Day(1), Day(2)];
    assert_eq!(known.days_to_read("van", &days), days);
    assert_eq!(known.days_to_read("bus", &days), [Day(2)]);
    known.add_rows("bus", [Day(1), Day(2)].into_iter());
    assert_eq!(known.days_to_read("bus", &days), [Day(1), Day(2)]);
    known.add_forget("bus");
    assert_eq!(known.days_to_read("bus", &days), days);
    assert_eq!(known.days_to_read("car", &days), [Day(2)]);
    known.checked = Instant::now().checked_sub(2 * HOUR);
    assert_eq!(known.days_to_read("car", &days), days);
    // Without filters, a forget is not kept.
    let mut none = self::known(0);
    none.add_forget("bus");
    assert_eq!(none.memory(), 0);
}

#[test]
fn loads_are_counted_for_the_latest_days_until_their_index_is_read() {
    let mut known = known(0);
    assert_eq!(known.is_due(Day(0)), None);
    assert!(!known.count_empty(Day(0)));
    assert_eq!(known.is_due(Day(0)), Some(1));
    known.postpone(Day(0));
    assert_eq!(known.is_due(Day(0)), None);
    known.count_empty(Day(0));
    assert_eq!(known.is_due(Day(0)), Some(2));
    known.insert_day(Day(0), &[], &[]);
    assert_eq!((known.is_due(Day(0)), known.count_empty(Day(0))), (None, true));
    (1..=64).for_each(|day| assert!(!known.count_empty(Day(day))));
    let days: Vec<i64> = known.days.keys().map(|day| day.get()).collect();
    assert_eq!(days, (1..=64).collect::<Vec<_>>());
    let mut off = KnownDevices::new(&ProcessorConfig { index_after: usize::MAX, ..config(HOUR) });
    assert!(!off.count_empty(Day(0)) && off.days.is_empty());
}
