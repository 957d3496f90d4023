//! Chooses the rules by which trips begin and end: `--max-gap` and `--stop-speed`.

use super::outcome::Proposal;
use crate::model::stats::{Heartbeat, SampleStats};
use crate::model::time::format_duration;

/// Gaps to choose from, ms.
const GAPS_MS: [i64; 13] = [
    30_000, 60_000, 120_000, 180_000, 300_000, 600_000, 900_000, 1_200_000, 1_800_000, 3_600_000,
    7_200_000, 10_800_000, 21_600_000,
];

/// The gap of a new store, ms.
const DEFAULT_GAP_MS: i64 = 300_000;

/// Minimum number of intervals that a gap is chosen by.
const MIN_INTERVALS: u64 = 10;

/// What parked devices that keep sending stay below, m/s.
const STOP_SPEED_MPS: f64 = 1.0;

/// What shows in samples that a device stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported {
    /// Whether they have speeds.
    pub speed: bool,
    /// Whether some have the ignition off.
    pub ignition_off: bool,
}

/// A duration for people, from seconds.
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

/// The rules to choose for these samples: always a gap, and a speed below which devices stand if
/// those keep sending.
pub(crate) fn advise(stats: &SampleStats, reported: Reported) -> Vec<Proposal> {
    let needed = needed_gap(stats);
    let heartbeat = stats.heartbeat();
    let shows_stops = reported.speed || reported.ignition_off;
    let gap = match heartbeat {
        Some(heartbeat) if !shows_stops => gap_below_heartbeat(needed, heartbeat),
        _ => usual_gap(needed),
    };
    let speed = heartbeat.filter(|_| reported.speed).map(|it| stop_speed(stats, it));
    std::iter::once(gap).chain(speed).collect()
}

/// How moving devices send.
#[derive(Clone, Copy, Debug)]
struct Needed {
    /// Median of the intervals, s.
    median_s: f64,
    /// Almost all intervals, apart from those that end a trip, s.
    most_s: f64,
}

impl Needed {
    /// The gap that almost no interval within a trip exceeds, ms.
    fn gap_ms(&self) -> f64 {
        1000.0 * (3.0 * self.median_s).max(1.5 * self.most_s)
    }
}

/// `None` if there are too few intervals.
fn needed_gap(stats: &SampleStats) -> Option<Needed> {
    let moving = stats.intervals.without(&stats.standing);
    let intervals = if moving.count() >= MIN_INTERVALS { moving } else { stats.intervals.clone() };
    let median_s = intervals.median().filter(|_| intervals.count() >= MIN_INTERVALS)?;
    let most_s = intervals.up_to(10.0 * median_s).quantile(99, 100)?;
    Some(Needed { median_s, most_s })
}

#[expect(clippy::cast_precision_loss, reason = "gaps stay far below 2^53 ms")]
fn smallest_gap(from_ms: f64, or: i64) -> i64 {
    GAPS_MS.into_iter().find(|gap| *gap as f64 >= from_ms).unwrap_or(or)
}

fn gap(gap_ms: i64, why: String) -> Proposal {
    Proposal { flag: "--max-gap", value: Some(format_duration(gap_ms)), why }
}

fn usual_gap(needed: Option<Needed>) -> Proposal {
    let Some(needed) = needed else {
        let why = "there are too few intervals to choose by: this is the default";
        return gap(DEFAULT_GAP_MS, why.into());
    };
    let longest = GAPS_MS[GAPS_MS.len() - 1];
    let gap_ms = smallest_gap(needed.gap_ms(), longest).max(DEFAULT_GAP_MS);
    let (median, most) = (about(needed.median_s), about(needed.most_s));
    let but = match gap_ms == DEFAULT_GAP_MS {
        true => "the default spans lost samples and short stops",
        false => "a smaller gap would break trips between two samples",
    };
    let why = format!("devices send every {median} while moving, 99 % within {most}: {but}");
    gap(gap_ms, why)
}

/// The speed below which devices stand.
fn stop_speed(stats: &SampleStats, heartbeat: Heartbeat) -> Proposal {
    let (every, stops) = (about(heartbeat.interval_s), stats.stops);
    let why = format!(
        "devices keep sending every {every} at {stops} stops: below this speed they stand, so that \
         trips end there"
    );
    Proposal { flag: "--stop-speed", value: Some(STOP_SPEED_MPS.to_string()), why }
}

/// A gap below the heartbeat, if moving devices send more often.
fn gap_below_heartbeat(needed: Option<Needed>, heartbeat: Heartbeat) -> Proposal {
    let every = about(heartbeat.interval_s);
    let needed_ms = needed.map_or(0.0, |it| it.gap_ms());
    let below_ms = heartbeat.interval_s * 600.0;
    #[expect(clippy::cast_precision_loss, reason = "gaps stay far below 2^53 ms")]
    let below =
        GAPS_MS.into_iter().rev().find(|gap| (needed_ms..=below_ms).contains(&(*gap as f64)));
    match below {
        Some(gap_ms) => gap(
            gap_ms,
            format!(
                "standing devices send every {every}, and no speed or ignition says that they stand: \
             a gap well below that ends their trips"
            ),
        ),
        None => {
            let usual = usual_gap(needed);
            let why = format!(
                "{}; standing devices send every {every}, and nothing says that they stand, so \
                 trips do not end at stops",
                usual.why
            );
            Proposal { why, ..usual }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample::{RawSample, Sample};
    use crate::model::scalar::DeviceTime;

    /// A device that drives 10 m/s for half an hour, and is then parked for two hours.
    fn statistics(moving_s: usize, heartbeat_s: Option<usize>) -> SampleStats {
        let mut stats = SampleStats::default();
        let mut observe = |second: usize, metre: f64| {
            let lat = 52.0 + metre / 111_195.0;
            let time_ms = DeviceTime(i64::try_from(second).unwrap() * 1000);
            let raw = RawSample { time_ms, lat, lon: 13.0, ..RawSample::default() };
            stats.observe("a", &Sample::quantised(&raw).unwrap());
        };
        for second in (0..=1800).step_by(moving_s) {
            observe(second, second as f64 * 10.0);
        }
        for second in (2000..9200).step_by(heartbeat_s.unwrap_or(100_000)) {
            observe(second, 18_000.0);
        }
        stats
    }

    fn advised(stats: &SampleStats, speed: bool, ignition_off: bool) -> Vec<(String, String)> {
        let advice = advise(stats, Reported { speed, ignition_off });
        advice.into_iter().map(|it| (it.flag.into(), it.value.unwrap_or_default())).collect()
    }

    fn gap_of(moving_s: usize) -> String {
        advised(&statistics(moving_s, None), true, true).remove(0).1
    }

    #[test]
    fn a_gap_spans_the_intervals_of_moving_devices() {
        assert_eq!(gap_of(1), "5m");
        assert_eq!(gap_of(60), "5m");
        assert_eq!(gap_of(150), "10m");
        assert_eq!(gap_of(1800), "5m", "too few to choose by");
        assert_eq!(advised(&SampleStats::default(), true, true).len(), 1);
    }

    #[test]
    fn trips_end_at_stops_by_what_samples_have() {
        let stats = statistics(10, Some(300));
        let flags = |speed, ignition| advised(&stats, speed, ignition);
        let of = |flag: &str, value: &str| (flag.to_owned(), value.to_owned());
        assert_eq!(flags(true, true), [of("--max-gap", "5m"), of("--stop-speed", "1")]);
        assert_eq!(flags(false, true), [of("--max-gap", "5m")]);
        // Nothing says that the device stands: a gap below the heartbeat.
        assert_eq!(flags(false, false), [of("--max-gap", "3m")]);
        // Where moving devices send as seldom, no gap is.
        let seldom = advise(&statistics(90, Some(300)), Reported::default());
        assert_eq!(seldom[0].value.as_deref(), Some("5m"));
        assert!(seldom[0].why.contains("trips do not end at stops"), "{}", seldom[0].why);
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
}
