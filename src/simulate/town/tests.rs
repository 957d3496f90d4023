use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::model::scalar::Version;
use crate::segment::{Arrival as Kind, Outcome, SegmentRules, Timeline};
use crate::simulate::{Fleet, FleetSettings, START_MS};

const MINUTE_MS: i64 = 60_000;

fn settings(devices: u32, samples: u64) -> FleetSettings {
    FleetSettings { devices, samples, ..FleetSettings::default() }
}

fn events(settings: &FleetSettings) -> impl Iterator<Item = Event> {
    Fleet::new(settings).unwrap()
}

fn bytes(settings: &FleetSettings) -> Vec<u8> {
    let mut out = Vec::new();
    events(settings).for_each(|event| event.write_line(&mut out).unwrap());
    out
}

#[test]
fn a_seed_determines_the_bytes() {
    let settings = FleetSettings { bad: 0.05, ..settings(10, 20_000) };
    let first = bytes(&settings);
    assert_eq!(first.iter().filter(|byte| **byte == b'\n').count(), 20_000);
    assert!(first == bytes(&settings));
    assert!(first != bytes(&FleetSettings { seed: 2, ..settings }));
    // The bytes are the same on every host: this sum changes only with the generator.
    assert_eq!(crc32fast::hash(&first), 2_167_085_188);
}

/// Late samples extend trips at both ends, fill them, join and split them.
#[test]
fn every_kind_of_arrival_occurs() {
    let rules = SegmentRules::default();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut timelines: BTreeMap<u32, Timeline> = BTreeMap::new();
    for (event, version) in events(&settings(20, 60_000)).zip(0..) {
        let Content::Good { sample, driver } = event.content else {
            panic!("no line is malformed")
        };
        let timeline = timelines.entry(event.device).or_insert_with(Timeline::in_memory);
        let sample = Sample { version: Version(version), ..sample };
        let kind = match timeline.absorb(&rules, sample, driver) {
            Outcome::Applied(kind) => format!("{kind:?}"),
            Outcome::Duplicate { conflict } => format!("duplicate, {}", conflict.is_some()),
            Outcome::Full => panic!("no trip is full"),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    println!("{kinds:?}");
    for kind in [Kind::End, Kind::Inside, Kind::Beginning, Kind::Merge, Kind::Split] {
        let count = kinds.get(&format!("{kind:?}")).copied().unwrap_or(0);
        assert!(count >= 20, "{kind:?}: {kinds:?}");
    }
    assert!(kinds.contains_key("duplicate, false") && !kinds.contains_key("duplicate, true"));
}

/// At another time it is the same fleet.
#[test]
fn a_fleet_starts_when_it_is_told_to() {
    let settings = settings(10, 5000);
    let moved_ms = 86_400_000;
    let mut moved = Fleet::town(&settings, START_MS + moved_ms).unwrap();
    let mut last_ms = START_MS;
    for event in events(&settings) {
        let Some(Content::Good { sample, .. }) = moved.next().map(|event| event.content) else {
            panic!("no line is malformed")
        };
        let moved_back = Sample { time_ms: sample.time_ms - moved_ms, ..sample };
        assert!(matches!(event.content, Content::Good { sample, .. } if sample == moved_back));
        let arrived_ms = moved.arrived_ms() - moved_ms;
        assert!(arrived_ms >= last_ms && moved_back.time_ms < arrived_ms, "{arrived_ms:?}");
        last_ms = arrived_ms;
    }
    assert!(moved.next().is_some(), "it drives on");
}

/// The samples of a vehicle by device time, each once.
fn drives(devices: u32, samples: u64) -> BTreeMap<String, BTreeMap<i64, Sample>> {
    let mut drives: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for event in events(&settings(devices, samples)) {
        let device = event.device_id();
        let Content::Good { sample, .. } = event.content else { panic!("no line is malformed") };
        drives.entry(device).or_default().insert(sample.time_ms - START_MS, sample);
    }
    drives
}

#[test]
fn vehicles_move_as_fast_as_they_say() {
    let drives = drives(17, 40_000);
    let names: HashSet<_> = drives.keys().map(|name| name.split('-').next().unwrap()).collect();
    assert_eq!(names, HashSet::from(["bus", "truck", "van"]));
    for (device, samples) in &drives {
        for ((from_ms, from), (to_ms, to)) in samples.iter().zip(samples.iter().skip(1)) {
            let metres_per_degree = crate::simulate::METRES_PER_DEGREE;
            let north = (to.lat() - from.lat()) * metres_per_degree;
            let east = (to.lon() - from.lon()) * metres_per_degree * from.lat().to_radians().cos();
            let seconds = (to_ms - from_ms) as f64 / 1e3;
            // A sample is up to 4 m off.
            let fastest = 24.0 * seconds + 12.0;
            assert!(north.hypot(east) <= fastest, "{device} at {from_ms}: {from:?} {to:?}");
        }
    }
    let night = drives["truck-7"].range(45 * MINUTE_MS..120 * MINUTE_MS);
    let moving = night.filter(|(_, it)| it.speed_cmps.get() > Some(1_500)).count();
    assert!(moving > 100, "a truck drives in the first night: {moving}");
}

#[test]
fn parked_vehicles_send_heartbeats() {
    let drives = drives(4, 6_000);
    let night = drives["van-1"].range(0..360 * MINUTE_MS).map(|(at, sample)| (*at, *sample));
    let night: Vec<_> = night.collect();
    assert!(night.iter().all(|(_, sample)| sample.ignition != Some(true)));
    for pair in night.windows(2) {
        let waited_ms = pair[1].0 - pair[0].0;
        assert!((270_000..=330_000).contains(&waited_ms), "{waited_ms}");
    }
}

#[test]
fn what_waits_to_arrive_is_bounded() {
    let mut fleet = TownFleet::new(20, 3, 0.0, START_MS);
    let mut most = 0;
    for _ in 0..300_000 {
        fleet.next();
        most = most.max(fleet.arrivals.waiting.len());
    }
    assert!(most < 20 * 600, "{most} samples of 20 vehicles wait");
}

#[test]
fn malformed_lines_are_of_devices_that_the_fleet_has() {
    let settings = FleetSettings { bad: 0.02, ..settings(10, 30_000) };
    let bad = events(&settings).filter(|event| matches!(event.content, Content::Bad { .. }));
    let bad = bad.count();
    assert!((450..750).contains(&bad), "{bad}");
}
