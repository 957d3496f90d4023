//! Chooses `min_stop`: off where the ignition ends trips, otherwise between waiting and stopping.

use super::pauses::Pauses;
use super::{RuleAdvice, about_ms};
use crate::model::limits::SegmentRules;
use crate::model::time::format_duration;

/// Durations to choose from, ms.
const MIN_STOPS_MS: [i64; 9] =
    [60_000, 90_000, 120_000, 150_000, 180_000, 240_000, 300_000, 420_000, 600_000];

/// Where nothing else decides, ms: longer than red lights, and shorter than most visits. A longer
/// one would also end fewer trips right that stand across midnight.
const USUAL_MS: i64 = 180_000;

/// Minimum number of phases that a duration is chosen by.
const MIN_PHASES: usize = 10;

/// Ratio up to which two durations are near each other.
const NEAR: f64 = 1.1;

/// The duration that fits, ms, and why; `None` if too little shows it.
pub(super) fn min_stop(pauses: &Pauses, rules: &SegmentRules) -> Option<(Option<i64>, RuleAdvice)> {
    let standing_ms = pauses.standing_ms(rules.max_gap_ms);
    let default_ms = rules.min_stop_ms?;
    if pauses.end_by_ignition() {
        let why = by_ignition(pauses, &standing_ms, default_ms);
        return Some((None, RuleAdvice { rule: "min_stop", value: "off".into(), why }));
    }
    let longest_ms = *standing_ms.last()?;
    if standing_ms.len() < MIN_PHASES || longest_ms < MIN_STOPS_MS[0] {
        return None;
    }
    let cost = |min_ms: &i64| cost(&standing_ms, *min_ms);
    let min_ms = MIN_STOPS_MS.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let (short, long) = standing_ms.split_at(standing_ms.partition_point(|ms| *ms < min_ms));
    let mut why = Vec::new();
    if let Some(longest_ms) = short.last() {
        let (times, longest) = (times(short.len()), about_ms(*longest_ms));
        why.push(format!("devices stand {times} for at most {longest}, as at red lights"));
    }
    if let Some(shortest_ms) = long.first() {
        let (times, shortest) = (times(long.len()), about_ms(*shortest_ms));
        let devices = if short.is_empty() { "devices stand " } else { "" };
        why.push(format!("{devices}{times} for {shortest} or longer: there trips end"));
    }
    let (value, why) = (format_duration(min_ms), why.join(", and "));
    Some((Some(min_ms), RuleAdvice { rule: "min_stop", value, why }))
}

/// How many durations are near this one, so that chance decides on them, and how unusual it is.
#[expect(clippy::cast_precision_loss, reason = "counts and durations stay far below 2^53")]
fn cost(standing_ms: &[i64], min_ms: i64) -> f64 {
    let distance = |ms: i64| libm::fabs(libm::log(ms.max(1) as f64 / min_ms as f64));
    let near = libm::log(NEAR);
    let density: f64 = standing_ms.iter().map(|ms| libm::exp(-distance(*ms) / near)).sum();
    density + standing_ms.len() as f64 / 50.0 * distance(USUAL_MS)
}

fn by_ignition(pauses: &Pauses, standing_ms: &[i64], default_ms: i64) -> String {
    let (stops, parked) = (pauses.off_ms.len(), pauses.parked);
    let short = pauses.off_ms.partition_point(|ms| *ms < default_ms);
    let limit = format_duration(default_ms);
    let mut why = match (stops, short) {
        (0, _) => format!("the ignition of {parked} devices is off: it ends trips"),
        (1, 0) => format!("the ignition goes off at a stop of {limit} or longer"),
        (_, 0) => format!("the ignition goes off at {stops} stops of {limit} or longer"),
        _ => format!(
            "{short} of {stops} stops with the ignition off are shorter than {limit}: they end \
             trips, too"
        ),
    };
    let jams = standing_ms.len() - standing_ms.partition_point(|ms| *ms < default_ms);
    if jams > 0 {
        let times = times(jams);
        why +=
            &format!("; standing {times} for {limit} or longer with it on, as in jams, ends none");
    }
    why
}

fn times(count: usize) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}
