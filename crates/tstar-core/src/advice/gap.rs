//! Chooses `max_gap`: above silences under way, and below those of stops that nothing else shows.

use super::pauses::Pauses;
use super::{MIN_PAUSES, RuleAdvice, SURE_STOP_MS, about_ms, quantile};
use crate::model::limits::SegmentRules;
use crate::model::time::format_duration;

/// Gaps to choose from, ms.
const GAPS_MS: [i64; 13] = [
    30_000, 60_000, 120_000, 180_000, 300_000, 600_000, 900_000, 1_200_000, 1_800_000, 3_600_000,
    7_200_000, 10_800_000, 21_600_000,
];

/// The gap where the ignition or standing ends trips, ms: silence only has to end those of devices
/// that fall silent, and is longer than most tunnels.
const AMPLE_GAP_MS: i64 = 900_000;

/// Minimum number of intervals that a gap is chosen by.
pub(super) const MIN_INTERVALS: usize = 10;

/// Fewer silences of devices that stay where they are may be anything.
const MIN_HIDDEN: usize = 5;

/// Silences that were seen are exceeded by others: 5/4.
fn with_margin(ms: i64) -> i64 {
    ms + ms / 4
}

/// How devices under way send.
#[derive(Clone, Copy, Debug)]
struct Pace {
    median_ms: i64,
    /// Almost all intervals, apart from silences, ms.
    most_ms: i64,
}

impl Pace {
    /// `None` if there are too few intervals.
    fn new(intervals_ms: &[i64]) -> Option<Self> {
        let median_ms =
            quantile(intervals_ms, 1, 2).filter(|_| intervals_ms.len() >= MIN_INTERVALS)?;
        let usual = intervals_ms.partition_point(|ms| *ms <= 10 * median_ms);
        let most_ms = quantile(&intervals_ms[..usual], 99, 100)?;
        Some(Self { median_ms, most_ms })
    }

    /// The gap that almost no interval under way exceeds, ms.
    fn least_gap_ms(self) -> i64 {
        (3 * self.median_ms).max(self.most_ms + self.most_ms / 2)
    }
}

/// The gap that fits, ms, and why.
pub(super) fn max_gap(pauses: &Pauses) -> (i64, RuleAdvice) {
    let default_ms = SegmentRules::default().max_gap_ms;
    let advice = |gap_ms: i64, why| {
        (gap_ms, RuleAdvice { rule: "max_gap", value: format_duration(gap_ms), why })
    };
    let ends_otherwise = pauses.end_by_ignition() || shows_stops(pauses);
    let usual_ms = if ends_otherwise { AMPLE_GAP_MS } else { default_ms };
    let Some(pace) = Pace::new(&pauses.intervals_ms) else {
        let why = match ends_otherwise {
            true => "too few devices move to choose by; trips end otherwise, so this spans tunnels",
            false => "there are too few intervals to choose by: this is the default",
        };
        return advice(usual_ms, why.into());
    };
    let Pauses { under_way_ms, hidden_ms, .. } = pauses;
    let shows_rests = hidden_ms.len() >= MIN_HIDDEN;
    // Silences that a gap ends by mistake, and those that it should end and does not.
    let mistakes = |gap_ms: i64| {
        let too_short = under_way_ms.partition_point(|ms| with_margin(*ms) <= gap_ms);
        let too_long = hidden_ms.partition_point(|ms| *ms < with_margin(gap_ms));
        under_way_ms.len() - too_short + if shows_rests { too_long } else { 0 }
    };
    let ratio = |gap_ms: i64| gap_ms.max(usual_ms) * 1000 / gap_ms.min(usual_ms);
    let longest_ms = GAPS_MS[GAPS_MS.len() - 1];
    let gaps = GAPS_MS.into_iter().filter(|gap_ms| *gap_ms >= pace.least_gap_ms());
    let gap_ms = gaps.min_by_key(|gap_ms| (mistakes(*gap_ms), ratio(*gap_ms)));
    let gap_ms = gap_ms.unwrap_or(longest_ms);
    advice(gap_ms, reason(pauses, pace, gap_ms))
}

/// Whether samples show that vehicles stand before silence has to.
fn shows_stops(pauses: &Pauses) -> bool {
    let standing_ms = pauses.standing_ms(AMPLE_GAP_MS);
    let stops = standing_ms.len()
        - standing_ms.partition_point(|ms| *ms < SegmentRules::default().max_gap_ms);
    let hidden = pauses.hidden_ms.len() - pauses.hidden_ms.partition_point(|ms| *ms < SURE_STOP_MS);
    stops >= MIN_PAUSES && hidden * 10 <= stops
}

fn reason(pauses: &Pauses, pace: Pace, gap_ms: i64) -> String {
    let Pauses { under_way_ms, hidden_ms, .. } = pauses;
    let (median, most) = (about_ms(pace.median_ms), about_ms(pace.most_ms));
    let mut why = format!("devices send every {median} while moving, 99 % within {most}");
    let longer =
        |silences_ms: &[i64]| silences_ms.len() - silences_ms.partition_point(|ms| *ms <= gap_ms);
    if let Some(longest_ms) = under_way_ms.last() {
        let (count, longest, longer) =
            (under_way_ms.len(), about_ms(*longest_ms), longer(under_way_ms));
        why += &format!(
            "; silences under way, as in tunnels: {count}, {longer} of them longer than this, the \
             longest {longest}"
        );
    }
    let (stops, ended) = (hidden_ms.len(), longer(hidden_ms));
    if let Some(median_ms) = quantile(hidden_ms, 1, 2) {
        let median = about_ms(median_ms);
        why += &format!(
            "; silences of devices that stay where they are: {stops}, {ended} of them longer than \
             this, the median {median}"
        );
    }
    if pauses.end_by_ignition() {
        why += "; trips end where the ignition goes off";
    } else if shows_stops(pauses) {
        why += "; trips end where devices stand";
    } else if stops > 0 && ended * 2 < stops {
        why += "; nothing else says that they stand, so trips do not end there";
    }
    why
}
