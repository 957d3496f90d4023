use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::timeline::{Path, RawSample};

fn absorb(devices: &mut ResidentDevices, name: &str, minute: i64) {
    let raw = RawSample { time_ms: DeviceTime(minute * 60_000), ..RawSample::default() };
    let slot = devices.slot_of(name);
    let sample = Sample::quantised(&raw).unwrap();
    devices.absorb(slot, &Limits::default(), Version(minute), sample, None);
}

fn names(devices: &ResidentDevices, slots: &[usize]) -> Vec<String> {
    slots.iter().map(|&slot| devices.at(slot).0.to_owned()).collect()
}

#[test]
fn an_idle_device_takes_at_most_400_bytes_without_its_samples() {
    let mut devices = ResidentDevices::new(usize::MAX);
    absorb(&mut devices, "a-device-of-22-letters", 1);
    let sample = 48;
    println!("{} bytes, of which {DEVICE_BYTES} without trips", devices.memory() - sample);
    assert!(devices.memory() - sample <= 400, "{}", devices.memory() - sample);
}

#[test]
fn groups_keep_their_dirty_devices_and_count_as_memory() {
    let mut devices = ResidentDevices::new(1);
    for (name, minute) in [("b", 1), ("a", 2), ("b", 3), ("c", 4)] {
        absorb(&mut devices, name, minute);
    }
    assert!(devices.is_full() && devices.memory() == devices.weight());
    assert_eq!(devices.lowest_unflushed(), Some(Version(1)));
    let memory = devices.memory();
    let groups = devices.split_off(2, |name| usize::from(name == "b"));
    assert_eq!((devices.dirty_count(), devices.memory()), (0, memory));
    for (group, expected) in groups.into_iter().zip([&["a", "c"][..], &["b"]]) {
        devices.restore(group);
        let dirty = devices.take_due(|_| true);
        assert_eq!(names(&devices, &dirty), expected);
        devices.evict_all();
    }
    assert_eq!(devices.memory(), 0);
}

#[test]
fn the_devices_that_were_idle_for_longest_are_evicted_until_half_of_the_memory_is_free() {
    let evict = |visits: &[&'static str]| {
        let mut devices = ResidentDevices::new(usize::MAX);
        devices.set_complete(true);
        (0..).zip(visits).for_each(|(minute, name)| absorb(&mut devices, name, minute));
        devices.take_due(|_| true);
        let before = devices.memory();
        devices.evict_idle();
        assert!(devices.memory() == devices.weight() && devices.memory() <= before / 2);
        assert!(!devices.is_complete());
        let is_left = |name: &&&'static str| devices.find_slot(name).is_some();
        let left: BTreeSet<_> = visits.iter().filter(is_left).copied().collect();
        left.into_iter().collect::<String>()
    };
    assert_eq!(evict(&["a", "b", "c", "d"]), "cd");
    assert_eq!(evict(&["a", "b", "b", "a"]), "a");
    assert_eq!(evict(&["a", "b", "c"]), "c");
    // The latest one alone takes more than half.
    let long = ["a"].into_iter().chain(["b"; 200]).collect::<Vec<_>>();
    assert_eq!(evict(&long), "");
    assert_eq!(evict(&[]), "");
}

/// Loads a trip of two samples, written at a version.
fn load(devices: &mut ResidentDevices, name: &str, version: i64) -> usize {
    let at = |minute: i64| {
        let time_ms = DeviceTime(minute * 60_000);
        Sample::quantised(&RawSample { time_ms, ..RawSample::default() }).unwrap()
    };
    let (path, version) = (Path::from_sorted([at(0), at(1)]).unwrap(), Version(version));
    let trip = Trip::loaded(DeviceTime(0), version, version, BTreeMap::new(), path);
    let slot = devices.slot_of(name);
    devices.insert_loaded(slot, &[Day(0)], vec![trip], Version(10))
}

#[test]
fn memory_is_that_of_the_devices_whatever_is_done_to_them() {
    let mut devices = ResidentDevices::new(usize::MAX);
    let weigh = |devices: &ResidentDevices, what| {
        assert_eq!(devices.memory(), devices.weight(), "{what}");
    };
    for name in ["short", "an id of more than 22 letters", "short"] {
        devices.slot_of(name);
        weigh(&devices, name);
    }
    let of_names = "an id of more than 22 letters".len();
    let empty = Timeline::default().memory();
    assert_eq!(devices.memory(), 2 * (DEVICE_BYTES + empty) + of_names);
    for minute in 0..200 {
        absorb(&mut devices, "short", minute);
        weigh(&devices, "absorb");
    }
    devices.pack(0);
    weigh(&devices, "pack");
    assert_eq!(load(&mut devices, "loaded", 5), 0);
    weigh(&devices, "load");
    devices.forget(0, DeviceTime::MAX);
    weigh(&devices, "forget");
    devices.discard_trips(2);
    weigh(&devices, "discard");
    assert_eq!(devices.memory(), 3 * (DEVICE_BYTES + empty) + of_names);
}

/// A loaded trip is dirty if a commit would not pass its version, or if it overlaps another.
#[test]
fn loaded_trips_are_dirty_where_they_have_to_be_written_again() {
    let mut devices = ResidentDevices::new(usize::MAX);
    assert_eq!((load(&mut devices, "a", 9), devices.dirty_count()), (0, 0));
    assert_eq!((load(&mut devices, "b", 10), devices.dirty_count()), (0, 1));
    assert_eq!((load(&mut devices, "a", 8), devices.dirty_count()), (1, 2));
    assert_eq!(devices.lowest_unflushed(), Some(Version(10)));
    let slots = devices.take_due(|_| true);
    assert_eq!((names(&devices, &slots), devices.dirty_count()), (vec!["a".into(), "b".into()], 0));
}

/// A device with a trip that is due is taken, and what is not due waits in it.
#[test]
fn a_device_is_taken_if_any_of_its_trips_is_due() {
    for due_minute in [0, 60] {
        let mut devices = ResidentDevices::new(usize::MAX);
        for (name, minute) in [("two", 0), ("waits", 30), ("two", 60)] {
            absorb(&mut devices, name, minute);
        }
        let due = DeviceTime(due_minute * 60_000);
        assert_eq!(devices.take_due(|trip| trip.start_ms() == due), [0]);
        let is_due: Vec<bool> = devices.trips_mut(0).1.map(|trip| trip.is_due()).collect();
        assert_eq!(is_due, [due_minute == 0, due_minute == 60]);
        assert_eq!(devices.dirty_count(), 1);
        // What is left of it waits after what was taken.
        devices.mark_dirty(0);
        devices.mark_dirty(0);
        assert_eq!((devices.dirty_count(), devices.take_due(|_| false)), (2, vec![]));
        assert_eq!(devices.dirty_count(), 2);
    }
}

#[test]
fn memory_is_full_past_its_limit() {
    let mut devices = ResidentDevices::new(usize::MAX);
    devices.slot_of("van");
    devices.limit = devices.memory();
    assert!(!devices.is_full());
    devices.limit -= 1;
    assert!(devices.is_full());
    let budget = Budget::new(8000);
    devices.share_budget(Arc::clone(&budget));
    devices.report_memory();
    assert_eq!(budget.taken(), devices.memory());
    assert!(!devices.is_full());
}

#[test]
fn visits_are_few_below_64_for_each_device() {
    let mut devices = ResidentDevices::new(usize::MAX);
    devices.slot_of("other");
    (0..127).for_each(|minute| absorb(&mut devices, "van", minute));
    assert!(devices.had_few_visits());
    absorb(&mut devices, "van", 127);
    assert!(!devices.had_few_visits());
    devices.take_due(|_| true);
    devices.evict_all();
    assert_eq!((devices.memory(), devices.visits, devices.is_complete()), (0, 0, false));
}
