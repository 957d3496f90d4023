//! What a fleet makes of records, and which changes it gives.

use super::*;
use crate::model::scalar::DeviceTime;
use crate::segment::ChangeKind;
use crate::segment::Kind;

/// 2026-11-20T20:00:00Z.
const EVENING: DeviceTime = DeviceTime(1_795_204_800_000);

fn at(minute: i64) -> RawSample {
    let time_ms = EVENING + minute * 60_000;
    RawSample { time_ms, lat: 52.5, lon: 13.4, ..RawSample::default() }
}

fn effects<'a>(
    fleet: &mut Fleet,
    records: impl IntoIterator<Item = Record<'a>>,
) -> Vec<&'static str> {
    records.into_iter().map(|record| fleet.absorb(&record).name()).collect()
}

#[test]
fn a_bad_record_has_the_first_reason_and_changes_nothing() {
    let rules = Rules { max_accuracy_dm: Some(800), max_samples: 2, ..Rules::default() };
    let mut fleet = Fleet::new(&rules);
    let (long, name) = ("d".repeat(257), "n".repeat(257));
    let good = Record::new("d", at(0));
    let with = |sample| Record { sample, ..good };
    let log_time_ms = Some(LogTime(EVENING.ms() - rules.max_future_ms - 1));
    let records = [
        Record::new("", at(0)),
        Record::new(&long, at(0)),
        Record { driver: Some(&name), ..with(RawSample { lat: 95.0, ..at(0) }) },
        with(RawSample { lat: 95.0, time_ms: DeviceTime(0), ..at(0) }),
        with(RawSample { time_ms: DeviceTime(0), lat: 0.0, lon: 0.0, ..at(0) }),
        Record { log_time_ms, ..good },
        with(RawSample { lat: 0.0, lon: 0.0, ..at(0) }),
        with(RawSample { accuracy_m: Some(80.1), ..at(0) }),
    ];
    let expected = [
        "bad_device_id",
        "bad_device_id",
        "bad_type",
        "out_of_range",
        "time_before_min",
        "time_in_future",
        "zero_position",
        "bad_fix",
    ];
    assert_eq!(effects(&mut fleet, records), expected);
    assert_eq!(fleet.devices().len(), 0);
    assert!(fleet.take_changes().is_empty());

    let unknown = RawSample { speed_mps: Some(-1.0), heading_deg: Some(-1.0), ..at(0) };
    let records = [with(unknown), with(at(0)), with(RawSample { lat: 1.0, ..at(0) }), with(at(1))];
    assert_eq!(effects(&mut fleet, records), ["new", "duplicate", "duplicate", "end"]);
    assert_eq!(effects(&mut fleet, [with(at(2))]), ["trip_full"]);
    let conflict = fleet.absorb(&with(RawSample { lat: 1.0, ..at(0) }));
    let Effect::Duplicate { conflict: Some(kept) } = conflict else { panic!("{conflict:?}") };
    assert_eq!((kept.lat_e7, kept.version), (525_000_000, Version(16)));
}

/// Each change with its device, kind and ids, in minutes.
fn changes(fleet: &mut Fleet) -> Vec<(String, ChangeKind, i64, Vec<i64>)> {
    let minute = |time_ms: DeviceTime| (time_ms - EVENING) / 60_000;
    let groups = fleet.take_changes();
    let changes = groups.iter().flat_map(|group| {
        group.segments.iter().map(|change| {
            let retired = change.event.retired.iter().copied().map(minute).collect();
            let t_star = minute(change.segment.t_star_ms());
            (group.device_id.to_owned(), change.event.kind, t_star, retired)
        })
    });
    changes.collect()
}

#[test]
fn changes_are_those_since_the_last_call_and_whole() {
    let mut fleet = Fleet::new(&Rules::default());
    let van = |minute| Record::new("van", at(minute));
    effects(&mut fleet, [van(10), Record::new("bus", at(0)), van(0)]);
    let started = |device: &str, t_star| (device.to_owned(), ChangeKind::Started, t_star, vec![]);
    assert_eq!(changes(&mut fleet), [started("van", 0), started("van", 10), started("bus", 0)]);
    assert_eq!(changes(&mut fleet), []);

    effects(&mut fleet, [van(5), Record::new("bus", at(0))]);
    assert_eq!(changes(&mut fleet), [("van".to_owned(), ChangeKind::Merged, 0, vec![10])]);

    // The ignition was off in between.
    let off = RawSample { ignition: Some(false), ..at(7) };
    assert_eq!(effects(&mut fleet, [Record::new("van", off)]), ["split"]);
    let groups = fleet.take_changes();
    let [group] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!(group.taken.len(), 1);
    assert_eq!((group.taken[0].start_ms, group.taken[0].end_ms), (at(0).time_ms, at(10).time_ms));
    let kinds = group.segments.iter().map(|it| (it.segment.outline().kind, it.event.kind));
    let expected = [
        (Kind::Trip, ChangeKind::Changed),
        (Kind::Stop, ChangeKind::Started),
        (Kind::Trip, ChangeKind::Revived),
    ];
    assert!(kinds.eq(expected));
}

#[test]
fn a_driver_and_the_row_are_kept() {
    let rules = Rules { max_leg_speed_cmps: Some(3000), ..Rules::default() };
    let mut fleet = Fleet::new(&rules);
    let none = Record { driver: Some(""), ..Record::new("van", at(0)) };
    effects(&mut fleet, [none, Record { driver: Some("ann"), ..Record::new("van", at(1)) }]);
    let (device_id, segment) = fleet.segments().next().unwrap();
    let row = fleet.row(device_id, segment);
    assert_eq!((row.driver.as_deref(), row.driver_ms), (Some("ann"), Some(at(1).time_ms)));
    assert_eq!((row.jumps, row.samples, row.version), (Some(0), 2, Version(2)));
    assert!(fleet.device("bus").is_none());
}

#[test]
fn a_record_that_is_read_again_changes_nothing() {
    let mut fleet = Fleet::new(&Rules::default());
    for (version, minute) in [(10, 0), (12, 1), (10, 0)] {
        fleet.absorb_at(Version(version), &Record::new("van", at(minute)));
    }
    assert_eq!(fleet.absorb(&Record::new("van", at(2))), Effect::Applied(crate::Arrival::End));
    let (_, segment) = fleet.segments().next().unwrap();
    let versions: Vec<_> = segment.path().iter().map(|sample| sample.version.get()).collect();
    assert_eq!(versions, [10, 12, 14]);
}
