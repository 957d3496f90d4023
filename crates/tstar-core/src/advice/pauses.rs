//! Where devices pause: with the ignition off, standing, or silent.

use super::{Motion, SURE_STOP_MS, SampleSet, quantile};
use crate::model::class::Class;
use crate::model::limits::SegmentRules;
use crate::model::sample::Sample;
use crate::model::scalar::DeviceTime;

/// A silence is this many times as long as devices usually take to the next sample.
const SILENCE_INTERVALS: i64 = 3;

/// A shorter one is a few lost samples, ms.
const MIN_SILENCE_MS: i64 = 60_000;

/// A longer silence is hardly one under way, ms.
const MAX_UNDER_WAY_MS: i64 = 3_600_000;

/// Standing of which beginning or end was not seen counts from this duration on, ms.
const MIN_CUT_MS: i64 = 600_000;

/// How often the ignition has to go off to show that it ends trips.
const MIN_MARKED: usize = 3;

/// The time from one moving sample of a device to the next.
#[derive(Clone, Copy, Debug)]
struct Leg {
    duration_ms: i64,
    /// Whether the device covered the distance of one that is under way.
    is_under_way: bool,
}

/// A phase of samples without movement.
#[derive(Clone, Debug, Default)]
struct Standing {
    /// Device times of its samples.
    times_ms: Vec<DeviceTime>,
    /// Since when the ignition is off.
    off_ms: Option<DeviceTime>,
    /// Whether the sample before it was moving.
    has_start: bool,
}

/// The pauses of devices.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses {
    /// Intervals between samples of devices under way, ms, ascending.
    pub intervals_ms: Vec<i64>,
    /// Silences of devices under way, ms, ascending.
    pub under_way_ms: Vec<i64>,
    /// Silences of devices that did not move meanwhile, and of which no sample says that they
    /// stand, ms, ascending.
    pub hidden_ms: Vec<i64>,
    /// How long the ignition was off, ms, ascending.
    pub off_ms: Vec<i64>,
    /// Number of devices whose ignition was off in the end.
    pub parked: usize,
    /// Whether the ignition is off while devices move, so that it says nothing.
    is_ignition_wrong: bool,
    /// Phases of slow samples with the ignition not off.
    standing: Vec<Standing>,
    /// When the next moving sample came after each.
    ends_ms: Vec<Option<DeviceTime>>,
}

impl Pauses {
    /// The pauses by a stop speed.
    pub(super) fn new(samples: &SampleSet, motion: &Motion, rules: &SegmentRules) -> Self {
        let is_ignition_wrong = motion.is_ignition_wrong();
        let mut pauses = Self { is_ignition_wrong, ..Self::default() };
        let mut legs = Vec::new();
        for device in samples.devices() {
            pauses.observe(device, rules, &mut legs);
        }
        pauses.sort_legs(&legs);
        pauses.off_ms.sort_unstable();
        pauses
    }

    fn observe(&mut self, device: &[Sample], rules: &SegmentRules, legs: &mut Vec<Leg>) {
        let mut last_moving: Option<&Sample> = None;
        let mut standing: Option<Standing> = None;
        for sample in device {
            let class = rules.class_of(sample);
            if class != Class::Separator
                && let Some(off_ms) = standing.as_mut().and_then(|it| it.off_ms.take())
            {
                // It stands with the ignition on, from here on.
                self.off_ms.push(sample.time_ms - off_ms);
                standing = None;
                last_moving = None;
            }
            if class == Class::Moving {
                match (standing.take(), last_moving) {
                    (Some(ended), _) => self.end(ended, Some(sample.time_ms)),
                    (None, Some(before)) => legs.push(Leg::new(before, sample, rules)),
                    (None, None) => {}
                }
                last_moving = Some(sample);
                continue;
            }
            let has_start = last_moving.is_some();
            let phase = standing.get_or_insert(Standing { has_start, ..Standing::default() });
            phase.times_ms.push(sample.time_ms);
            if class == Class::Separator {
                phase.off_ms.get_or_insert(sample.time_ms);
            }
        }
        match standing {
            Some(parked) if parked.off_ms.is_some() => self.parked += 1,
            Some(cut) => self.end(cut, None),
            None => {}
        }
    }

    fn end(&mut self, standing: Standing, end_ms: Option<DeviceTime>) {
        self.standing.push(standing);
        self.ends_ms.push(end_ms);
    }

    /// Finds the silences among the legs.
    fn sort_legs(&mut self, legs: &[Leg]) {
        let durations = |is_used: &dyn Fn(&&Leg) -> bool| {
            let mut durations: Vec<_> =
                legs.iter().filter(is_used).map(|leg| leg.duration_ms).collect();
            durations.sort_unstable();
            durations
        };
        let moving = durations(&|leg| leg.is_under_way);
        let all = durations(&|_| true);
        let intervals_ms = if moving.len() >= super::gap::MIN_INTERVALS { moving } else { all };
        let Some(median_ms) = quantile(&intervals_ms, 1, 2) else { return };
        let least_ms = MIN_SILENCE_MS.max(SILENCE_INTERVALS * median_ms);
        let is_silence = |leg: &&Leg| leg.duration_ms > least_ms;
        let is_tunnel = |leg: &&Leg| leg.is_under_way && leg.duration_ms <= MAX_UNDER_WAY_MS;
        self.under_way_ms = durations(&|leg| is_silence(leg) && is_tunnel(leg));
        self.hidden_ms = durations(&|leg| is_silence(leg) && !leg.is_under_way);
        self.intervals_ms = intervals_ms;
    }

    /// How long devices stand with the ignition not off, as rules see it, ms, ascending.
    pub(super) fn standing_ms(&self, max_gap_ms: i64) -> Vec<i64> {
        let duration = |(standing, end_ms): (&Standing, &Option<DeviceTime>)| {
            let Standing { times_ms, has_start, .. } = standing;
            let first_ms = *times_ms.first()?;
            let is_linked = |pair: &&[DeviceTime]| pair[1] - pair[0] <= max_gap_ms;
            let linked = times_ms.windows(2).take_while(is_linked).count();
            let last_ms = times_ms[linked];
            let is_whole = linked + 1 == times_ms.len();
            let next_ms = end_ms.filter(|end_ms| is_whole && *end_ms - last_ms <= max_gap_ms);
            let duration_ms = next_ms.unwrap_or(last_ms) - first_ms;
            // Of silence in the end, nothing is known but that more samples came after it.
            let is_seen = *has_start && (end_ms.is_some() || !is_whole);
            (is_seen || duration_ms >= MIN_CUT_MS).then_some(duration_ms)
        };
        let mut durations: Vec<_> =
            self.standing.iter().zip(&self.ends_ms).filter_map(duration).collect();
        durations.sort_unstable();
        durations
    }

    /// Number of stops at which the ignition did not go off.
    pub(super) fn unmarked_stops(&self) -> usize {
        let is_stop = |(standing, end_ms): (&Standing, &Option<DeviceTime>)| {
            let first_ms = standing.times_ms.first().copied();
            let end_ms = end_ms.or(standing.times_ms.last().copied());
            first_ms.zip(end_ms).is_some_and(|(first, end)| end - first >= SURE_STOP_MS)
        };
        let standing = self.standing.iter().zip(&self.ends_ms).filter(|it| is_stop(*it)).count();
        let hidden = self.hidden_ms.partition_point(|ms| *ms < SURE_STOP_MS);
        standing + self.hidden_ms.len() - hidden
    }

    /// Whether the ignition goes off where vehicles stop.
    pub(super) fn end_by_ignition(&self) -> bool {
        let marked = self.off_ms.len() + self.parked;
        !self.is_ignition_wrong && marked >= MIN_MARKED && self.unmarked_stops() * 10 <= marked
    }
}

impl Leg {
    fn new(from: &Sample, to: &Sample, rules: &SegmentRules) -> Self {
        /// A device in a silence is at least this much as fast as it says before and after it.
        const SHARE: f64 = 0.25;
        let duration_ms = to.time_ms - from.time_ms;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53 ms")]
        let cmps = from.flat_distance_m(to) * 1e5 / duration_ms as f64;
        let speeds = [from, to].map(|sample| sample.speed_cmps.get().map(f64::from));
        let reported = speeds.iter().flatten().sum::<f64>() / 2.0;
        let least = f64::from(rules.stop_speed_cmps).max(SHARE * reported);
        Self { duration_ms, is_under_way: cmps >= least }
    }
}
