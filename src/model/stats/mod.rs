//! Statistics of a stream of samples, which show wrong units, heartbeats and bad fixes. Memory is
//! bounded, whatever is observed.

mod conflicts;
mod histogram;
mod seen;
mod speed;

use std::collections::HashMap;

pub(crate) use conflicts::Conflicts;
pub(crate) use histogram::LogHistogram;
pub(crate) use seen::SeenSamples;
pub(crate) use speed::{MIN_SPEED_LEGS, SpeedFactor, unit_of_factor};

use super::sample::Sample;
use super::scalar::DeviceTime;
use super::units::seconds;

/// Maximum number of devices that are followed; samples of others count without their intervals.
pub(crate) const MAX_DEVICES: usize = 10_000;

/// A leg faster than this is a jump, m/s: faster than vehicles on land and most aircraft near it.
pub(crate) const JUMP_MPS: f64 = 150.0;

/// A shorter leg is not a jump, whatever its speed, m: fixes scatter.
const MIN_JUMP_M: f64 = 1000.0;

/// A standing device moves at most this far between two samples, m: fixes scatter.
const MAX_STANDING_M: f64 = 100.0;

/// A standing device is at most this fast, m/s, by its own speed and along its track.
const MAX_STANDING_MPS: f64 = 1.0;

/// A device that keeps sending while it stands this long is at a stop, s.
pub(crate) const STOP_S: f64 = 600.0;

/// A longer interval ends a stop, s: the device was off.
const MAX_HEARTBEAT_S: f64 = 7200.0;

/// Minimum number of intervals of a stop in which the device kept sending.
const MIN_STOP_INTERVALS: u32 = 3;

/// Minimum number of equal intervals of standing devices that are a heartbeat.
pub(crate) const MIN_HEARTBEATS: u64 = 5;

/// Ratio between intervals of one heartbeat.
const HEARTBEAT_RATIO: f64 = 1.1;

/// Legs in these ranges have a reliable speed along the track: minimum length, m; minimum and
/// maximum duration, s; minimum speed, m/s.
const MIN_LEG_M: f64 = 20.0;
const LEG_S: (f64, f64) = (1.0, 120.0);
const MIN_LEG_MPS: f64 = 2.0;

/// Statistics of samples in arrival order.
#[derive(Debug, Default)]
pub(crate) struct SampleStats {
    /// Number of samples.
    pub samples: u64,
    /// Earliest and latest device time.
    pub span: Option<(DeviceTime, DeviceTime)>,
    /// Samples with latitude and longitude 0; nothing else counts them.
    pub zero_positions: u64,
    /// Samples of devices beyond the first [`MAX_DEVICES`].
    pub unfollowed: u64,
    /// How far samples are behind the newest one of their device, s.
    pub lateness: LogHistogram,
    /// Intervals between samples that are each the newest of their device, s.
    pub intervals: LogHistogram,
    /// Those intervals in which the device was standing, s.
    pub standing: LogHistogram,
    /// Those of them in which its ignition was off, s.
    parked: LogHistogram,
    /// Stops of at least [`STOP_S`] in which the device kept sending.
    pub stops: u64,
    /// Legs of at least 1 km that are faster than [`JUMP_MPS`].
    pub jumps: u64,
    /// Reported speed, as it was read, divided by the speed along the track.
    pub speed_factors: LogHistogram,
    /// Samples that differ from the newest of their device and have its device time.
    pub conflicts: Conflicts,
    /// What is known of each device.
    devices: HashMap<Box<str>, Followed>,
}

/// What is known of a device.
#[derive(Debug)]
struct Followed {
    newest: Sample,
    /// The stop that it is at: its duration, s, and the number of its intervals.
    stop: (f64, u32),
}

/// Samples that standing devices keep sending at an equal interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heartbeat {
    /// The interval, s.
    pub interval_s: f64,
    /// Number of such intervals.
    pub count: u64,
}

impl SampleStats {
    /// Counts a sample.
    pub(crate) fn observe(&mut self, device_id: &str, sample: &Sample) {
        self.samples += 1;
        let (first, last) = self.span.unwrap_or((sample.time_ms, sample.time_ms));
        self.span = Some((first.min(sample.time_ms), last.max(sample.time_ms)));
        if (sample.lat_e7, sample.lon_e7) == (0, 0) {
            self.zero_positions += 1;
            return;
        }
        let Some(device) = self.devices.get_mut(device_id) else {
            if self.devices.len() < MAX_DEVICES {
                let followed = Followed { newest: *sample, stop: (0.0, 0) };
                self.devices.insert(device_id.into(), followed);
            } else {
                self.unfollowed += 1;
            }
            return;
        };
        let before = device.newest;
        let interval_ms = sample.time_ms - before.time_ms;
        if interval_ms > 0 {
            let interval_s = seconds(interval_ms);
            device.newest = *sample;
            let (stop_s, intervals) = device.stop;
            let is_standing = self.observe_leg(&before, sample, interval_s);
            let is_stop = |s: f64, intervals| s >= STOP_S && intervals >= MIN_STOP_INTERVALS;
            let stop = match is_standing && interval_s <= MAX_HEARTBEAT_S {
                true => (stop_s + interval_s, intervals.saturating_add(1)),
                false => (0.0, 0),
            };
            if is_stop(stop.0, stop.1) && !is_stop(stop_s, intervals) {
                self.stops += 1;
            }
            if let Some(device) = self.devices.get_mut(device_id) {
                device.stop = stop;
            }
        } else if interval_ms < 0 {
            self.lateness.add(seconds(-interval_ms));
        } else if !sample.is_same_measurement(&before) {
            self.conflicts.add(&before, sample);
        }
    }

    /// Counts the leg from the newest sample of a device to a newer one. Returns whether the device
    /// was standing.
    fn observe_leg(&mut self, from: &Sample, to: &Sample, duration_s: f64) -> bool {
        self.intervals.add(duration_s);
        let leg_m = from.flat_distance_m(to);
        let track_mps = leg_m / duration_s;
        if track_mps > JUMP_MPS && leg_m >= MIN_JUMP_M {
            self.jumps += 1;
            return false;
        }
        let speed = |sample: &Sample| sample.speed_cmps.get().map(|cmps| f64::from(cmps) / 100.0);
        let is_slow = |mps: f64| mps <= MAX_STANDING_MPS;
        let is_standing =
            leg_m <= MAX_STANDING_M && is_slow(track_mps) && speed(to).is_none_or(is_slow);
        if is_standing {
            self.standing.add(duration_s);
            if [from, to].map(|sample| sample.ignition) == [Some(false); 2] {
                self.parked.add(duration_s);
            }
        }
        let is_reliable = leg_m >= MIN_LEG_M
            && (LEG_S.0..=LEG_S.1).contains(&duration_s)
            && track_mps >= MIN_LEG_MPS;
        if let (true, Some(one), Some(other)) = (is_reliable, speed(from), speed(to)) {
            self.speed_factors.add((one + other) / 2.0 / track_mps);
        }
        is_standing
    }

    /// The heartbeat of devices that keep sending at stops; `None` if there is none. Where an
    /// ignition says which these are, standing in jams is none.
    #[must_use]
    pub(crate) fn heartbeat(&self) -> Option<Heartbeat> {
        let has_parked = self.parked.count() >= MIN_HEARTBEATS;
        let standing = if has_parked { &self.parked } else { &self.standing };
        let (interval_s, count) = standing.densest(HEARTBEAT_RATIO)?;
        let is_heartbeat = self.stops > 0 && count >= MIN_HEARTBEATS;
        is_heartbeat.then_some(Heartbeat { interval_s, count })
    }

    /// Number of devices that are followed: at most [`MAX_DEVICES`], and then there may be more.
    #[must_use]
    pub(crate) fn devices(&self) -> usize {
        self.devices.len()
    }
}

#[cfg(test)]
mod tests;
