use super::*;
use crate::model::rules::SpeedUnit;
use crate::model::sample::RawSample;

/// A sample some metres north of a point at 60 degrees north.
pub(super) fn at(second: i64, north_m: f64, speed_mps: Option<f64>) -> Sample {
    let lat = 60.0 + north_m / 111_195.08;
    let time_ms = DeviceTime(second * 1000);
    Sample::quantised(&RawSample { time_ms, lat, lon: 25.0, speed_mps, ..RawSample::default() })
        .unwrap()
}

#[test]
fn intervals_and_lateness_are_those_of_each_device() {
    let mut stats = SampleStats::default();
    for (device, second) in [("a", 0), ("b", 5), ("a", 60), ("b", 15), ("a", 50), ("a", 60)] {
        stats.observe(device, &at(second, second as f64 * 10.0, None));
    }
    assert_eq!((stats.samples, stats.devices(), stats.unfollowed), (6, 2, 0));
    assert_eq!(stats.span, Some((DeviceTime(0), DeviceTime(60_000))));
    assert_eq!(stats.intervals.count(), 2);
    assert_eq!(stats.intervals.count_between(59.0, 61.0), 1);
    assert_eq!(stats.intervals.count_between(9.9, 10.1), 1);
    assert_eq!((stats.lateness.count(), stats.lateness.count_between(9.9, 10.1)), (1, 1));
    assert_eq!(stats.standing.count(), 0, "10 m/s");
}

#[test]
fn a_standing_device_is_slow_by_its_track_and_its_speed() {
    let mut stats = SampleStats::default();
    stats.observe("parked", &at(0, 0.0, None));
    stats.observe("parked", &at(300, 30.0, None));
    stats.observe("parked", &at(600, 0.0, Some(0.2)));
    assert_eq!(stats.standing.count_between(297.0, 303.0), 2);
    // In a loop, back where it was; along a street within a second.
    stats.observe("parked", &at(900, 0.0, Some(12.0)));
    stats.observe("parked", &at(901, 20.0, None));
    assert_eq!((stats.standing.count(), stats.intervals.count()), (2, 4));
}

#[test]
fn reported_speeds_are_compared_with_the_track() {
    for (factor, unit) in [
        (1.0, SpeedUnit::MetresPerSecond),
        (3.6, SpeedUnit::KilometresPerHour),
        (1.944, SpeedUnit::Knots),
        (2.237, SpeedUnit::MilesPerHour),
    ] {
        let mut stats = SampleStats::default();
        for nth in 0..30 {
            stats.observe("a", &at(nth * 10, nth as f64 * 150.0, Some(15.0 * factor)));
        }
        // Too slow, too short and too long.
        stats.observe("a", &at(330, 4_400.0, Some(1.0)));
        stats.observe("a", &at(331, 4_401.0, Some(1.0)));
        stats.observe("a", &at(1331, 9_000.0, Some(1.0)));
        assert_eq!(stats.speed_factors.count(), 29);
        let median = stats.speed_factors.median().unwrap();
        assert_eq!(unit_of_factor(median, SpeedUnit::MetresPerSecond), Some(unit), "{median}");
    }
}

#[test]
fn bad_fixes_are_counted_and_leave_no_trace() {
    let mut stats = SampleStats::default();
    let zero = Sample { lat_e7: 0, lon_e7: 0, ..at(10, 0.0, Some(15.0)) };
    stats.observe("a", &at(0, 0.0, Some(15.0)));
    stats.observe("a", &zero);
    stats.observe("a", &at(20, 300.0, Some(15.0)));
    assert_eq!((stats.zero_positions, stats.jumps), (1, 0));
    assert_eq!(stats.speed_factors.count(), 1);
    stats.observe("a", &at(30, 50_000.0, Some(15.0)));
    assert_eq!((stats.jumps, stats.speed_factors.count()), (1, 1));
    // 500 m in a second: fixes scatter.
    stats.observe("a", &at(31, 50_500.0, None));
    assert_eq!(stats.jumps, 1);
}

#[test]
fn standing_in_a_jam_is_not_a_heartbeat() {
    let mut stats = SampleStats::default();
    let mut send = |second, ignition| {
        stats.observe("a", &Sample { ignition, ..at(second, 0.0, Some(0.0)) });
    };
    (0..60).for_each(|nth| send(nth * 14, Some(true)));
    (0..12).for_each(|nth| send(1000 + nth * 300, Some(false)));
    let heartbeat = stats.heartbeat().unwrap();
    assert!((297.0..303.0).contains(&heartbeat.interval_s), "{heartbeat:?}");
    assert_eq!(heartbeat.count, 11);
}

#[test]
fn the_number_of_devices_is_bounded() {
    let mut stats = SampleStats::default();
    for nth in 0..MAX_DEVICES + 10 {
        stats.observe(&format!("device-{nth}"), &at(0, 0.0, None));
    }
    stats.observe("device-3", &at(60, 0.0, None));
    assert_eq!((stats.devices(), stats.unfollowed), (MAX_DEVICES, 10));
    assert_eq!(stats.intervals.count(), 1);
}
