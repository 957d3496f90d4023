//! Publishes the sample counters of a partition worker as increments.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use metrics::{counter, gauge};

use super::counts::SampleCounts;
use super::{LAST_RECORD, Metric, TABLE, clock_ms, handle, seconds};

/// Publishes the difference between two states of the same counters.
pub fn publish(before: &SampleCounts, now: &SampleCounts) {
    let Some(handle) = handle() else { return };
    handle.samples.fetch_add(now.delivered - before.delivered, Ordering::Relaxed);
    let former: BTreeMap<_, _> =
        before.by_label().map(|(name, value, count)| ((name, value), count)).collect();
    for (name, value, count) in now.by_label() {
        let increment = count - former.get(&(name, value)).copied().unwrap_or(0);
        if let (1.., Some(Metric { labels: [label], .. })) = (increment, Metric::by_name(name)) {
            counter!(name, *label => value).increment(increment);
        }
    }
    for (metric, count) in TABLE.iter().filter_map(|it| Some((it, it.count?))) {
        counter!(metric.name).increment(count(now) - count(before));
    }
    if now != before {
        gauge!(LAST_RECORD).set(seconds(clock_ms()));
    }
}
