//! What devices report as speed at a standstill and under way, by their positions.

use super::{RuleAdvice, SampleSet, quantile};
use crate::model::limits::SegmentRules;
use crate::model::sample::Sample;

/// What is known of a sample is where the device is this long before and after it, ms.
const WINDOW_MS: i64 = 30_000;

/// If the next sample is further away, a device may have done anything meanwhile, ms.
const MAX_WINDOW_MS: i64 = 120_000;

/// How far fixes of a standing device scatter, m.
const SCATTER_M: f64 = 25.0;

/// Stop speeds to choose from, 0.01 m/s. The first one is the default.
const STOP_SPEEDS_CMPS: [i32; 6] = [50, 100, 160, 200, 250, 300];

/// Walking pace: what vehicles rarely drive at and receivers at a standstill rarely report.
const USUAL_CMPS: i32 = 160;

/// Minimum number of samples at a standstill that a stop speed is chosen by.
const MIN_STANDING: usize = 10;

/// Of samples under way, one in this many may be below the stop speed that are not below the
/// default.
const MAX_MISTAKEN: usize = 20;

/// What samples say about movement, and what their positions do.
#[derive(Clone, Debug, Default)]
pub struct Motion {
    /// Speeds reported at a standstill, 0.01 m/s, ascending.
    pub(super) standing: Vec<i32>,
    /// Speeds reported under way, 0.01 m/s, ascending.
    pub(super) moving: Vec<i32>,
    /// Number of samples under way.
    pub under_way: usize,
    /// Number of those whose ignition is off.
    pub under_way_off: usize,
}

impl Motion {
    /// What samples say.
    pub(super) fn new(samples: &SampleSet) -> Self {
        let mut motion = Self::default();
        for device in samples.devices() {
            for at in 0..device.len() {
                motion.observe(device, at);
            }
        }
        motion.standing.sort_unstable();
        motion.moving.sort_unstable();
        motion
    }

    /// Whether the ignition is off in most samples under way.
    #[must_use]
    pub fn is_ignition_wrong(&self) -> bool {
        self.under_way_off * 2 > self.under_way
    }

    /// Counts a sample, if samples before and after it show what the device does.
    fn observe(&mut self, device: &[Sample], at: usize) {
        let sample = &device[at];
        let is_before = |it: &&Sample| sample.time_ms - it.time_ms >= WINDOW_MS;
        let is_after = |it: &&Sample| it.time_ms - sample.time_ms >= WINDOW_MS;
        let before = device[..at].iter().rev().find(is_before);
        let after = device[at + 1..].iter().find(is_after);
        let (Some(before), Some(after)) = (before, after) else { return };
        let speed = sample.speed_cmps.get();
        let legs_m = [before, after].map(|other| sample.flat_distance_m(other));
        if legs_m.iter().all(|leg_m| *leg_m <= SCATTER_M) {
            self.standing.extend(speed);
        } else if legs_m.iter().all(|leg_m| *leg_m > SCATTER_M)
            && sample.time_ms - before.time_ms <= MAX_WINDOW_MS
            && after.time_ms - sample.time_ms <= MAX_WINDOW_MS
        {
            self.moving.extend(speed);
            self.under_way += 1;
            self.under_way_off += usize::from(sample.ignition == Some(false));
        }
    }
}

/// The speed below which devices stand; `None` if none reports a speed at a standstill.
pub(super) fn stop_speed(motion: &Motion) -> Option<(i32, RuleAdvice)> {
    let Motion { standing, moving, .. } = motion;
    if standing.len() < MIN_STANDING {
        return None;
    }
    // One in a thousand may be anything.
    let noise = quantile(standing, 999, 1000)?;
    let below = |cmps| moving.partition_point(|speed| *speed < cmps);
    let least = SegmentRules::default().stop_speed_cmps;
    let is_harmless = |cmps: &i32| (below(*cmps) - below(least)) * MAX_MISTAKEN <= moving.len();
    let harmless = STOP_SPEEDS_CMPS.into_iter().filter(is_harmless);
    let (low, high): (Vec<_>, Vec<_>) = harmless.partition(|cmps| *cmps <= USUAL_CMPS);
    let usual = low.last().copied().unwrap_or(least);
    let cmps = high.into_iter().take_while(|_| noise >= usual).find(|cmps| *cmps > noise);
    let cmps = cmps.unwrap_or(usual);
    let noisy = standing.len() - standing.partition_point(|speed| *speed < least);
    let mut why = format!(
        "of {} samples at a standstill, {noisy} report {} m/s or more, the fastest {}",
        standing.len(),
        mps(least),
        mps(*standing.last()?),
    );
    let (slow, all) = (below(cmps) - below(least), moving.len());
    why += &format!("; of {all} under way, {slow} report {} to {}", mps(least), mps(cmps));
    Some((cmps, RuleAdvice { rule: "stop_speed", value: mps(cmps), why }))
}

/// A speed as settings have it.
pub(super) fn mps(cmps: i32) -> String {
    (f64::from(cmps) / 100.0).to_string()
}
