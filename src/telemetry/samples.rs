//! Publishes the sample counters of a partition worker as increments.

use std::sync::atomic::Ordering;

use metrics::{counter, gauge};

use super::counts::SampleCounts;
use super::{
    DEAD_LETTERS, LAST_RECORD, SAMPLES, SAMPLES_DROPPED, UNKNOWN_READINGS, handle, now_ms, seconds,
};

/// Publishes the difference between two states of the same counters.
pub fn publish(before: &SampleCounts, now: &SampleCounts) {
    let Some(handle) = handle() else { return };
    handle.samples.fetch_add(now.delivered - before.delivered, Ordering::Relaxed);
    for ((result, now), (_, before)) in now.by_result().zip(before.by_result()) {
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
    for (reading, &count) in &now.unknown_readings {
        let increment = count - before.unknown_readings.get(reading).copied().unwrap_or(0);
        if increment > 0 {
            counter!(UNKNOWN_READINGS, "reading" => *reading).increment(increment);
        }
    }
    for ((metric, now), (_, before)) in now.metrics().into_iter().zip(before.metrics()) {
        counter!(metric).increment(now - before);
    }
    if now != before {
        gauge!(LAST_RECORD).set(seconds(now_ms()));
    }
}
