use super::*;
use crate::model::reading::{READINGS, Reading};
use crate::model::sample::Sample;
use crate::model::scalar::DeviceTime;

/// A device on a road that leads north.
#[derive(Default)]
struct Device {
    samples: Vec<Sample>,
    second: i64,
    north_m: f64,
    /// Whether its samples have a speed.
    has_speed: bool,
}

impl Device {
    fn with_speed() -> Self {
        Self { has_speed: true, ..Self::default() }
    }

    fn send(&mut self, speed_mps: f64, ignition: Option<bool>) {
        #[expect(clippy::cast_possible_truncation, reason = "it is near")]
        let (lat_e7, cmps) =
            ((self.north_m / 111_195.08 * 1e7) as i32, (speed_mps * 100.0).round() as i32);
        let mut readings = [Reading::ABSENT; READINGS];
        if self.has_speed {
            readings[0] = Reading::new(Some(cmps));
        }
        let sample = Sample::new(DeviceTime(self.second * 1000), (lat_e7, 0), readings);
        self.samples.push(Sample { ignition, ..sample });
    }

    /// Moves at a speed for a duration and sends a sample every so often, the first one at once.
    fn go(&mut self, seconds: i64, every: i64, speed_mps: f64, ignition: Option<bool>) {
        let end = self.second + seconds;
        while self.second < end {
            self.send(speed_mps, ignition);
            self.pass(every.min(end - self.second), speed_mps);
        }
    }

    /// Moves in silence.
    fn pass(&mut self, seconds: i64, speed_mps: f64) {
        self.second += seconds;
        self.north_m += speed_mps * f64::from(i32::try_from(seconds).unwrap());
    }
}

fn set(devices: &[&Device]) -> SampleSet {
    let of_device = |(device, nth): (&&Device, usize)| {
        device.samples.iter().rev().map(move |sample| (nth, *sample)).collect::<Vec<_>>()
    };
    SampleSet::new(devices.iter().zip(0..).flat_map(of_device))
}

fn values(advice: &Advice) -> Vec<(&'static str, &str)> {
    advice.advised.iter().map(|it| (it.rule, it.value.as_str())).collect()
}

fn why<'a>(advice: &'a Advice, rule: &str) -> &'a str {
    &advice.advised.iter().find(|it| it.rule == rule).unwrap().why
}

/// Ten deliveries with stops of 2 min and the ignition off, a tunnel of 10 min, a jam of 6 min.
fn parcels(ignition: impl Fn(bool) -> Option<bool>) -> Device {
    let mut device = Device::with_speed();
    for nth in 0..10 {
        device.go(300, 10, 10.0, ignition(true));
        match nth {
            3 => device.pass(600, 15.0),
            6 => device.go(360, 10, 0.0, ignition(true)),
            _ => {}
        }
        device.go(300, 10, 10.0, ignition(true));
        device.go(120, 60, 0.0, ignition(false));
    }
    device
}

#[test]
fn the_ignition_ends_trips_where_it_goes_off() {
    let device = parcels(Some);
    let advice = Advice::new(&set(&[&device]));
    let expected = [("max_gap", "15m"), ("min_stop", "off"), ("stop_speed", "1.6")];
    assert_eq!(values(&advice), expected);
    let reason = why(&advice, "min_stop");
    assert!(
        reason.starts_with("9 of 9 stops with the ignition off are shorter than 5m"),
        "{reason}"
    );
    assert!(reason.contains("standing once for 5m or longer"), "{reason}");
    let reason = why(&advice, "max_gap");
    assert!(reason.contains("1, 0 of them longer than this, the longest 10m"), "{reason}");
    let found = TripsFound::new(&set(&[&device]), &advice.rules);
    assert_eq!((found.count(), found.short, found.device_days), (10, 0, 1));
    assert_eq!((found.median_ms(), found.per_device_day()), (Some(590_000), 10.0));
    let default = TripsFound::new(&set(&[&device]), &SegmentRules::default());
    assert_eq!((default.count(), default.common(&found)), (12, 8), "a tunnel and a jam end trips");
}

#[test]
fn an_ignition_that_is_off_while_devices_move_ends_no_trips() {
    let device = parcels(|_| Some(false));
    let advice = Advice::new(&set(&[&device]));
    assert!(advice.motion.is_ignition_wrong(), "{:?}", advice.motion);
    assert_eq!(advice.rules.min_stop_ms, SegmentRules::default().min_stop_ms);
}

#[test]
fn standing_ends_trips_above_what_devices_wait() {
    let mut device = Device::with_speed();
    for nth in 0..8 {
        for wait_s in [20, 60, 110] {
            device.go(200, 10, 12.0, None);
            device.go(wait_s, 10, 0.0, None);
        }
        device.go(200, 10, 12.0, None);
        match nth {
            // A tunnel.
            0 => device.pass(660, 15.0),
            // The receiver sleeps after 6 min.
            1 => {
                device.go(360, 10, 0.0, None);
                device.pass(7200, 0.0);
            }
            _ => device.go(600, 10, 0.0, None),
        }
    }
    let advice = Advice::new(&set(&[&device]));
    let expected = [("max_gap", "15m"), ("min_stop", "3m"), ("stop_speed", "1.6")];
    assert_eq!(values(&advice), expected);
    let reason = why(&advice, "min_stop");
    assert!(reason.contains("24 times for at most 1.8m"), "{reason}");
    assert!(reason.contains("6 times for 5.8m or longer"), "{reason}");
}

#[test]
fn the_stop_speed_is_above_noise_and_below_movement() {
    let stop_speed = |noise_mps: f64, moving_mps: f64| {
        let mut device = Device::with_speed();
        for _ in 0..4 {
            device.go(1200, 10, moving_mps, None);
            for nth in 0..100 {
                device.send(if nth % 10 == 5 { noise_mps } else { 0.0 }, None);
                device.pass(10, 0.0);
            }
        }
        Advice::new(&set(&[&device])).rules.stop_speed_cmps
    };
    assert_eq!(stop_speed(0.9, 15.0), 160);
    assert_eq!(stop_speed(1.7, 15.0), 200);
    assert_eq!(stop_speed(2.2, 15.0), 250);
    assert_eq!(stop_speed(0.3, 1.4), 100, "pedestrians");
    assert_eq!(stop_speed(0.3, 0.9), 50);
    let silent = Advice::new(&set(&[&Device::default()]));
    assert_eq!(values(&silent), [("max_gap", "5m")]);
}

/// Drives for half an hour, and is then parked for two hours.
fn parked(every: i64, heartbeat: Option<i64>) -> Advice {
    let mut device = Device::default();
    for _ in 0..2 {
        device.go(1800, every, 10.0, None);
        match heartbeat {
            Some(heartbeat) => device.go(7200, heartbeat, 0.0, None),
            None => device.pass(7200, 0.0),
        }
    }
    Advice::new(&set(&[&device]))
}

#[test]
fn without_speed_and_ignition_silence_ends_trips() {
    for (every, heartbeat, gap) in [
        (1, None, "5m"),
        (60, None, "5m"),
        (150, None, "10m"),
        (1800, None, "5m"),
        (10, Some(300), "3m"),
        (90, Some(300), "5m"),
    ] {
        assert_eq!(values(&parked(every, heartbeat)), [("max_gap", gap)], "{every} {heartbeat:?}");
    }
    let seldom = parked(90, Some(300));
    let reason = why(&seldom, "max_gap");
    assert!(reason.contains("so trips do not end there"), "{reason}");
}

#[test]
fn given_rules_hold() {
    let advice = Advice::new(&set(&[&parcels(Some)]));
    let given = SegmentRules { max_gap_ms: 420_000, max_samples: 7, ..SegmentRules::default() };
    let rules = rules_over(&advice.rules, &given, |rule| rule == "max_gap");
    let expected = SegmentRules { max_gap_ms: 420_000, max_samples: 7, ..advice.rules };
    assert_eq!(rules, expected);
}

#[test]
fn rules_are_shown_as_flags() {
    let rules = System::Geotab.rules();
    assert_eq!(flags(&rules), "--max-gap 1h --min-stop 200s --stop-speed 0.28");
    let off = SegmentRules { min_stop_ms: None, ..SegmentRules::default() };
    assert_eq!(flags(&off), "--max-gap 5m --min-stop off --stop-speed 0.5");
    let traccar = System::Traccar.rules();
    assert_eq!(flags(&traccar), "--max-gap 1h --min-stop 5m --stop-speed 0.01");
    assert_eq!(set(&[&parcels(Some), &Device::default()]).travelling(), 1);
}

#[test]
fn durations_are_short() {
    for (seconds, text) in [
        (0.25, "250ms"),
        (1.0, "1s"),
        (1.5, "1.5s"),
        (59.7, "60s"),
        (299.0, "5m"),
        (5400.0, "90m"),
        (28_800.0, "8h"),
        (259_200.0, "3d"),
    ] {
        assert_eq!(about(seconds), text);
    }
}
