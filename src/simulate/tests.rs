use super::mix::{Device, Drive};
use super::random::Random;
use super::*;
use crate::model::scalar::Version;
use crate::segment::{Arrival, Outcome, Segment, SegmentRules, Timeline};
use crate::timeline::{RawSample, Sample};
use std::collections::BTreeMap;

fn settings(devices: u32, samples: u64, mix: [f64; 4]) -> FleetSettings {
    FleetSettings { devices, samples, mix: Some(mix), ..FleetSettings::default() }
}

fn bytes(settings: &FleetSettings) -> Vec<u8> {
    let mut out = Vec::new();
    for event in Fleet::new(settings).unwrap() {
        event.write_line(&mut out).unwrap();
    }
    out
}

/// Arrivals as the real timeline classifies them.
#[derive(Debug, Default)]
struct Counts {
    new: u64,
    mix: [u64; 4],
    exact: u64,
    conflicting: u64,
}

impl Counts {
    fn shares(&self) -> [f64; 4] {
        let all: u64 = self.mix.iter().sum();
        self.mix.map(|count| 100.0 * count as f64 / all as f64)
    }
}

fn counted(settings: &FleetSettings) -> Counts {
    let limits = SegmentRules::default();
    let mut counts = Counts::default();
    let mut timelines: BTreeMap<u32, Timeline> = BTreeMap::new();
    for (event, version) in Fleet::new(settings).unwrap().zip(0..) {
        let Content::Good { sample, driver } = event.content else { continue };
        let timeline = timelines.entry(event.device).or_insert_with(Timeline::in_memory);
        match timeline.absorb(&limits, Sample { version: Version(version), ..sample }, driver) {
            Outcome::Applied(Arrival::New) => counts.new += 1,
            Outcome::Applied(Arrival::End) => counts.mix[0] += 1,
            Outcome::Applied(Arrival::Inside) => counts.mix[1] += 1,
            Outcome::Applied(Arrival::Beginning) => counts.mix[2] += 1,
            Outcome::Applied(Arrival::Merge) => counts.mix[3] += 1,
            Outcome::Duplicate { conflict: Some(_) } => counts.conflicting += 1,
            Outcome::Duplicate { conflict: None } => counts.exact += 1,
            Outcome::Applied(_) | Outcome::Full => panic!("no trip of the fleet is cut or full"),
        }
    }
    for timeline in timelines.values() {
        timeline.check();
        let is_short = |trip: &Segment| trip.end_ms() - trip.start_ms() < 18 * 3_600_000;
        assert!(timeline.segments().all(is_short), "no midnight cuts it");
    }
    counts
}

#[test]
fn the_mix_is_met_within_a_percentage_point() {
    let mut worst: f64 = 0.0;
    for mix in [
        REFERENCE_MIX,
        [70.0, 20.0, 10.0, 0.0],
        [25.0, 25.0, 40.0, 10.0],
        [100.0, 0.0, 0.0, 0.0],
        [0.0, 50.0, 50.0, 0.0],
        [10.0, 80.0, 10.0, 0.0],
        [0.3, 0.3, 0.3, 0.1],
    ] {
        for (devices, samples) in [(10, 5_000), (3, 20_000), (100, 50_000), (10, 200_000)] {
            for seed in [1, 7] {
                let counts = counted(&FleetSettings { seed, ..settings(devices, samples, mix) });
                let sum: f64 = mix.iter().sum();
                for (share, expected) in counts.shares().into_iter().zip(mix) {
                    let off = (share - 100.0 * expected / sum).abs();
                    worst = worst.max(off);
                    assert!(off < 1.0, "{mix:?} {devices} {samples}: {:?}", counts.shares());
                }
            }
        }
    }
    println!("worst deviation {worst:.3} points");
}

#[test]
fn a_million_samples_have_the_article_mix() {
    let counts = counted(&settings(50, 1_000_000, REFERENCE_MIX));
    println!("{counts:?} {:?}", counts.shares());
    for (share, expected) in counts.shares().into_iter().zip(REFERENCE_MIX) {
        assert!((share - expected).abs() < 0.1, "{:?}", counts.shares());
    }
    assert!((1_000..2_300).contains(&counts.conflicting), "{counts:?}");
    assert!((2_500..4_200).contains(&counts.exact), "{counts:?}");
    assert!((5_000..40_000).contains(&counts.new), "{counts:?}");
}

#[test]
fn small_runs_have_the_requested_number_of_lines() {
    for (devices, samples) in [(1, 0), (1, 1), (5, 3), (1_000, 5_000), (1, 10_000)] {
        for mix in [REFERENCE_MIX, [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
        {
            let settings = FleetSettings { bad: 0.2, ..settings(devices, samples, mix) };
            counted(&settings);
            let lines = bytes(&settings).iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(lines as u64, samples);
        }
    }
}

#[test]
fn a_seed_determines_the_bytes() {
    let settings = FleetSettings { bad: 0.05, ..settings(10, 20_000, REFERENCE_MIX) };
    let first = bytes(&settings);
    assert!(first == bytes(&settings));
    assert!(first != bytes(&FleetSettings { seed: 2, ..settings }));
    // The bytes are the same on every host: this hash changes only with the generator.
    let hash: [u8; 32] = sha2::Digest::finalize(sha2::Digest::chain_update(
        <sha2::Sha256 as sha2::Digest>::new(),
        &first,
    ))
    .into();
    assert_eq!(data_encoding::HEXLOWER.encode(&hash[..8]), "8cc83e4e4448c81c");
}

/// A line holds exactly the sample of its event.
#[test]
fn lines_hold_their_samples() {
    for event in Fleet::new(&settings(9, 5_000, REFERENCE_MIX)).unwrap() {
        let mut line = Vec::new();
        event.write_line(&mut line).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let Content::Good { sample, driver } = event.content.clone() else {
            panic!("no line is malformed")
        };
        let time = chrono::DateTime::parse_from_rfc3339(value["time"].as_str().unwrap()).unwrap();
        let read = Sample::quantised(&RawSample {
            time_ms: DeviceTime(time.timestamp_millis()),
            lat: value["lat"].as_f64().unwrap(),
            lon: value["lon"].as_f64().unwrap(),
            speed_mps: value["speed"].as_f64(),
            heading_deg: value["heading"].as_f64(),
            ..RawSample::default()
        })
        .unwrap();
        assert_eq!(read, sample);
        assert!(read.speed_cmps.get().is_some() && read.heading_ddeg.get().is_some());
        assert_eq!(value["device_id"], event.device_id());
        assert_eq!(value["driver"].as_str(), driver);
        assert_eq!(driver.is_none(), event.device.is_multiple_of(3));
        assert!(sample.time_ms >= START_MS);
    }
}

#[test]
fn paths_look_like_drives() {
    let mut random = Random::new(3);
    for number in 0..50 {
        let drive = Drive::new(number, &mut random);
        for minute in 0..500 {
            let from = drive.at(START_MS + minute * 60_000);
            let to = drive.at(from.time_ms + 1_000);
            let north = f64::from(to.lat_e7 - from.lat_e7) / 1e7 * 111_195.0;
            let east = f64::from(to.lon_e7 - from.lon_e7) / 1e7
                * 111_195.0
                * from.lat().to_radians().cos();
            let speed = f64::from(from.speed_cmps.get().unwrap()) / 100.0;
            let heading = f64::from(from.heading_ddeg.get().unwrap()) / 10.0;
            assert!((9.9..24.1).contains(&speed), "{speed}");
            assert!((north.hypot(east) - speed).abs() < 0.6, "{speed} {from:?} {to:?}");
            let turned =
                (east.atan2(north).to_degrees() - heading + 540.0).rem_euclid(360.0) - 180.0;
            assert!(turned.abs() < 5.0, "{turned}");
        }
    }
}

#[test]
fn malformed_lines_have_the_given_share_and_every_reason() {
    let settings = FleetSettings { bad: 0.02, ..settings(10, 50_000, REFERENCE_MIX) };
    let mut reasons = BTreeMap::new();
    for event in Fleet::new(&settings).unwrap() {
        if let Content::Bad { reason, line } = event.content {
            *reasons.entry(reason).or_insert(0) += 1;
            assert!(!line.contains(&b'\n') && !line.is_empty());
            let utf8 = std::str::from_utf8(&line);
            assert_eq!(utf8.is_err(), reason == DeadReason::BadUtf8);
            if let Ok(text) = utf8 {
                let object = serde_json::from_str::<serde_json::Value>(text);
                assert_eq!(object.is_err(), reason == DeadReason::BadJson, "{text}");
            }
        }
    }
    let all: u32 = reasons.values().sum();
    assert!((850..1_150).contains(&all), "{all}");
    assert!(malformed::REASONS.iter().all(|reason| reasons.get(reason) > Some(&50)), "{reasons:?}");
    let counts = counted(&settings);
    for (share, expected) in counts.shares().into_iter().zip(REFERENCE_MIX) {
        assert!((share - expected).abs() < 1.0, "{:?}", counts.shares());
    }
}

#[test]
fn state_does_not_grow_with_the_samples() {
    assert!(size_of::<Device>() < 400, "{}", size_of::<Device>());
    let mut fleet = MixFleet::new(5, 1, [25.0, 25.0, 40.0, 10.0], 0.0);
    let mut max_skipped = 0;
    for _ in 0..300_000 {
        fleet.next();
        max_skipped = max_skipped.max(fleet.devices.iter().map(Device::skipped).max().unwrap());
    }
    assert!((8..=64).contains(&max_skipped), "{max_skipped}");
}

#[test]
fn settings_that_no_fleet_can_meet_are_refused() {
    let good = FleetSettings::default();
    let no_devices = FleetSettings { devices: 0, ..good };
    assert_eq!(Fleet::town(&no_devices, START_MS).unwrap_err(), FleetError::NoDevices);
    let of_mix = Fleet::town(&FleetSettings { mix: Some(REFERENCE_MIX), ..good }, START_MS);
    assert_eq!(of_mix.unwrap_err(), FleetError::MixOfTown(REFERENCE_MIX));
    assert_eq!(Fleet::new(&no_devices).unwrap_err(), FleetError::NoDevices);
    for mix in [[0.0; 4], [1.0, -1.0, 1.0, 1.0], [f64::NAN, 1.0, 1.0, 1.0], [f64::INFINITY; 4]] {
        assert!(matches!(
            Fleet::new(&FleetSettings { mix: Some(mix), ..good }),
            Err(FleetError::Mix(_))
        ));
    }
    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(Fleet::new(&FleetSettings { bad, ..good }), Err(FleetError::Bad(_))));
    }
}
