//! Publishes the sample counters of a partition worker as increments.

use metrics::{counter, gauge};

use super::counts::SampleCounts;
use super::{
    DEAD_LETTERS, FOREIGN_ROWS, LAST_RECORD, SAMPLES, SAMPLES_DROPPED, TRIP_MERGES, TRIPS_CREATED,
    is_on, now_ms, seconds,
};

/// Values of the label `result` of [`SAMPLES`], in the order of [`by_result`].
pub(super) const RESULTS: [&str; 8] =
    ["new", "end", "inside", "beginning", "merge", "duplicate", "dropped", "dead"];

/// Samples by result; they add up to those delivered.
fn by_result(counts: &SampleCounts) -> [u64; 8] {
    let arrivals = &counts.arrivals;
    let dropped = counts.dropped.values().sum();
    let dead = counts.dead();
    [
        arrivals.new,
        arrivals.end,
        arrivals.inside,
        arrivals.beginning,
        arrivals.merge,
        counts.duplicates,
        dropped,
        dead,
    ]
}

/// Publishes the difference between two states of the same counters.
pub fn publish(before: &SampleCounts, now: &SampleCounts) {
    if !is_on() {
        return;
    }
    let pairs = by_result(now).into_iter().zip(by_result(before));
    for (result, (now, before)) in RESULTS.into_iter().zip(pairs) {
        if now > before {
            counter!(SAMPLES, "result" => result).increment(now - before);
        }
    }
    for (reason, &count) in &now.dead_letters {
        let increment = count - before.dead_letters.get(reason).copied().unwrap_or(0);
        if increment > 0 {
            counter!(DEAD_LETTERS, "reason" => reason.name()).increment(increment);
        }
    }
    for (reason, &count) in &now.dropped {
        let increment = count - before.dropped.get(reason).copied().unwrap_or(0);
        if increment > 0 {
            counter!(SAMPLES_DROPPED, "reason" => reason.name()).increment(increment);
        }
    }
    counter!(TRIPS_CREATED).increment(now.arrivals.new - before.arrivals.new);
    counter!(TRIP_MERGES).increment(now.arrivals.merge - before.arrivals.merge);
    counter!(FOREIGN_ROWS).increment(now.foreign_rows - before.foreign_rows);
    if now != before {
        gauge!(LAST_RECORD).set(seconds(now_ms()));
    }
}
