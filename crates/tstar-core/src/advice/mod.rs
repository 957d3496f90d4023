//! Proposes the rules that fit samples, with reasons in numbers, and shows what comes out under
//! rules.
//!
//! Pure. Everything follows from the samples: what parked receivers report as speed, where the
//! ignition goes off, how long vehicles wait and stand, and how long devices are silent while they
//! are under way and while they are not.
//!
//! ```
//! use tstar_core::advice::{Advice, SampleSet};
//! use tstar_core::{DeviceTime, RawSample, Sample};
//!
//! // A vehicle that sends every minute, and is silent at night.
//! let samples = (0..3_i64).flat_map(|day| (0..600).map(move |minute| (day, minute)));
//! let samples = samples.map(|(day, minute)| {
//!     let time_ms = DeviceTime(1_795_132_800_000 + day * 86_400_000 + minute * 60_000);
//!     let (lat, speed_mps) = (52.5 + minute as f64 * 0.004, Some(7.4));
//!     let raw = RawSample { time_ms, lat, lon: 13.4, speed_mps, ..RawSample::default() };
//!     ("truck-17", Sample::quantised(&raw).expect("every field is in range"))
//! });
//! let advice = Advice::new(&SampleSet::new(samples));
//! let max_gap = advice.advised.iter().find(|it| it.rule == "max_gap").expect("it has an entry");
//! println!("{} = {}: {}", max_gap.rule, max_gap.value, max_gap.why);
//! assert!(advice.rules.max_gap_ms >= 60_000);
//! ```

mod gap;
mod min_stop;
mod outcome;
mod pauses;
mod sample_set;
mod speeds;
mod system;
#[cfg(test)]
mod tests;

pub use outcome::TripsFound;
pub use sample_set::SampleSet;
pub use speeds::Motion;
pub use system::System;

use crate::model::limits::SegmentRules;
use crate::model::time::format_duration;
use pauses::Pauses;

/// How many phases of standing show that samples have the stops of a fleet.
const MIN_PAUSES: usize = 2;

/// Standing for this long, ms, is a stop, whatever else it may be.
const SURE_STOP_MS: i64 = 20 * 60_000;

/// The value of a rule that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleAdvice {
    /// Name of the rule, as settings have it.
    pub rule: &'static str,
    /// Its value, as settings have it.
    pub value: String,
    /// Why, in numbers.
    pub why: String,
}

/// The rules that fit samples.
#[derive(Clone, Debug)]
pub struct Advice {
    /// All of them: the defaults, but for what is advised.
    pub rules: SegmentRules,
    /// What the samples show, by rule; a rule of which they show nothing has no entry, but for
    /// `max_gap`.
    pub advised: Vec<RuleAdvice>,
    /// What the samples say about movement.
    pub motion: Motion,
}

impl Advice {
    /// Proposes rules for samples.
    #[must_use]
    pub fn new(samples: &SampleSet) -> Self {
        let motion = Motion::new(samples);
        let mut rules = SegmentRules::default();
        let stop_speed = speeds::stop_speed(&motion);
        if let Some((cmps, _)) = &stop_speed {
            rules.stop_speed_cmps = *cmps;
        }
        let pauses = Pauses::new(samples, &motion, &rules);
        let (max_gap_ms, gap) = gap::max_gap(&pauses);
        rules.max_gap_ms = max_gap_ms;
        let min_stop = min_stop::min_stop(&pauses, &rules);
        if let Some((min_stop_ms, _)) = &min_stop {
            rules.min_stop_ms = *min_stop_ms;
        }
        let advised = [Some(gap), min_stop.map(|it| it.1), stop_speed.map(|it| it.1)];
        Self { rules, advised: advised.into_iter().flatten().collect(), motion }
    }

    /// Whether samples show where vehicles stop. If not, the gap alone ends trips.
    #[must_use]
    pub fn shows_stops(&self) -> bool {
        self.advised.iter().any(|it| it.rule == "min_stop")
    }
}

/// Rules, but for those that are given.
#[must_use]
pub fn rules_over(
    rules: &SegmentRules,
    given: &SegmentRules,
    is_given: impl Fn(&str) -> bool,
) -> SegmentRules {
    let from = |rule| if is_given(rule) { given } else { rules };
    SegmentRules {
        max_gap_ms: from("max_gap").max_gap_ms,
        min_stop_ms: from("min_stop").min_stop_ms,
        stop_speed_cmps: from("stop_speed").stop_speed_cmps,
        max_samples: given.max_samples,
    }
}

/// Rules as settings have them: their names and values.
#[must_use]
pub fn settings(rules: &SegmentRules) -> [(&'static str, String); 3] {
    let min_stop = rules.min_stop_ms.map_or("off".into(), format_duration);
    let max_gap = format_duration(rules.max_gap_ms);
    let stop_speed = speeds::mps(rules.stop_speed_cmps);
    [("max_gap", max_gap), ("min_stop", min_stop), ("stop_speed", stop_speed)]
}

/// Rules as flags of commands.
#[must_use]
pub fn flags(rules: &SegmentRules) -> String {
    let flag = |(rule, value): (&str, String)| format!("--{} {value}", rule.replace('_', "-"));
    settings(rules).map(flag).join(" ")
}

/// The value of a rank of sorted numbers: `part` of each `of` are at most that.
fn quantile<T: Copy>(sorted: &[T], part: usize, of: usize) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get(last * part / of).copied()
}

/// A duration for people, from seconds.
#[must_use]
pub fn about(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1.0 => (s * 1000.0, "ms"),
        s if s < 100.0 => (s, "s"),
        s if s < 6000.0 => (s / 60.0, "m"),
        s if s < 172_800.0 => (s / 3600.0, "h"),
        s => (s / 86_400.0, "d"),
    };
    let rounded = (value * 10.0).round() / 10.0;
    let whole = value.round();
    if value >= 10.0 || (value - whole).abs() <= value * 0.02 {
        format!("{whole}{unit}")
    } else {
        format!("{rounded}{unit}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a duration stays far below 2^53 ms")]
fn about_ms(ms: i64) -> String {
    about(ms as f64 / 1000.0)
}
