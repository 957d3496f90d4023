use std::collections::BTreeSet;

use super::*;
use crate::segment::{Kind, MintPoints};
use crate::timeline::{Path, RawSample};

fn absorb(devices: &mut ResidentDevices, name: &str, minute: i64) {
    absorb_at(devices, name, minute, minute);
}

fn absorb_at(devices: &mut ResidentDevices, name: &str, minute: i64, version: i64) {
    let raw = RawSample { time_ms: DeviceTime(minute * 60_000), ..RawSample::default() };
    let slot = devices.slot_of(name);
    let sample = Sample::quantised(&raw).unwrap();
    let sample = Sample { version: Version(version), ..sample };
    devices.absorb(slot, &SegmentRules::default(), sample, None);
}

fn names(devices: &ResidentDevices, slots: &[usize]) -> Vec<String> {
    slots.iter().map(|&slot| devices.at(slot).0.to_owned()).collect()
}

#[test]
fn an_idle_device_takes_at_most_480_bytes_without_its_samples() {
    let mut devices = ResidentDevices::new(usize::MAX);
    absorb(&mut devices, "a-device-of-22-letters", 1);
    let sample = 72;
    println!("{} bytes, of which {DEVICE_BYTES} without trips", devices.memory() - sample);
    assert!(devices.memory() - sample <= 480, "{}", devices.memory() - sample);
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
        let dirty = devices.take_due(None, |_| true);
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
        devices.take_due(None, |_| true);
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
    load_trips(devices, name, &[(0, version)])
}

/// Loads trips of two samples as of version 10, each from a minute on and written at a version.
fn load_trips(devices: &mut ResidentDevices, name: &str, trips: &[(i64, i64)]) -> usize {
    let rules = SegmentRules::default();
    let at = |minute: i64| {
        let time_ms = DeviceTime(minute * 60_000);
        Sample::quantised(&RawSample { time_ms, ..RawSample::default() }).unwrap()
    };
    let trips = trips.iter().map(|&(minute, version)| {
        let (path, version) =
            (Path::from_sorted([at(minute), at(minute + 1)]).unwrap(), Version(version));
        let ids = MintPoints::new(DeviceTime(minute * 60_000), version);
        Segment::loaded(&rules, Kind::Trip, ids, version, path)
    });
    let slot = devices.slot_of(name);
    let load = devices.device(slot).timeline().days_to_load(&rules, DeviceTime(0));
    devices.insert_loaded(slot, &rules, (&load, trips.collect()), Version(10))
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

/// Rows that are ahead of the record for which they were loaded: what changes before they are
/// passed is of the past.
#[test]
fn changes_behind_the_rows_wait_until_these_are_passed() {
    let mut devices = ResidentDevices::new(usize::MAX);
    // The rows are from minute 0 to 1.
    for (name, version) in [("behind", 12), ("level", 9)] {
        load(&mut devices, name, version);
        absorb_at(&mut devices, name, 2, 11);
    }
    load(&mut devices, "apart", 12);
    absorb(&mut devices, "apart", 60);
    let mut take = |passed: Option<i64>| {
        let slots = devices.take_due(passed.map(Version), |_| true);
        (names(&devices, &slots), devices.dirty_count())
    };
    assert_eq!(take(Some(12)), (vec!["apart".to_owned(), "level".to_owned()], 1));
    assert_eq!(take(Some(13)), (vec!["behind".to_owned()], 0));
    // Memory has no room for what waits. The first change after the row is announced in full.
    load(&mut devices, "full", 20);
    absorb_at(&mut devices, "full", 2, 11);
    let slots = devices.take_due(None, |_| true);
    assert_eq!(names(&devices, &slots), ["full"]);
    let slot = slots[0];
    let made = |devices: &mut ResidentDevices, next: i64| {
        let groups = devices.take_groups(slot, Version(next), true).1;
        groups.into_iter().flat_map(|(_, made)| made).collect::<Vec<_>>()
    };
    assert_eq!(made(&mut devices, 13), [Made::InThePast]);
    for (minute, expected) in [(3, Made::AfterThePast), (4, Made::Now)] {
        absorb_at(&mut devices, "full", minute, 20);
        assert_eq!(made(&mut devices, 21), [expected]);
    }
}

/// What a flush writes together may have been passed in part. Nothing else would announce that.
#[test]
fn each_segment_of_a_group_is_of_the_past_for_itself() {
    let mut devices = ResidentDevices::new(usize::MAX);
    load_trips(&mut devices, "split", &[(0, 12), (8, 20)]);
    absorb_at(&mut devices, "split", 4, 11);
    let raw = RawSample { time_ms: DeviceTime(6 * 60_000), ..RawSample::default() };
    let off = Sample::quantised(&raw).unwrap();
    let sample = Sample { version: Version(12), ignition: Some(false), ..off };
    let slot = devices.slot_of("split");
    devices.absorb(slot, &SegmentRules::default(), sample, None);
    let groups = devices.take_groups(slot, Version(13), true).1;
    let made: Vec<_> = groups.into_iter().map(|(_, made)| made).collect();
    assert_eq!(made, [[Made::AfterThePast, Made::Now, Made::InThePast]]);
    assert_eq!(devices.device(slot).ahead.len(), 1);
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
        assert_eq!(devices.take_due(None, |trip| trip.start_ms() == due), [0]);
        let taken = devices.take_groups(0, Version(0), false).1;
        assert!(taken.len() == 1 && taken[0].0.segments[0].start_ms() == due);
        assert_eq!(devices.dirty_count(), 1);
        // What is left of it waits after what was taken.
        devices.mark_dirty(0);
        devices.mark_dirty(0);
        assert_eq!((devices.dirty_count(), devices.take_due(None, |_| false)), (2, vec![]));
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
    devices.take_due(None, |_| true);
    devices.evict_all();
    assert_eq!((devices.memory(), devices.visits, devices.is_complete()), (0, 0, false));
}
