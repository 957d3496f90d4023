//! What is counted and timed, as Prometheus reads it.
//!
//! | file | what happens there |
//! |---|---|
//! | [`TABLE`] | every metric: name, kind, unit, labels, help |
//! | `samples` | what became of samples, published as differences of [`counts::Counts`] |
//! | [`counts`] | what became of samples |
//! | `failures` | the kinds of failures of a store |
//! | [`Progress`] | how far the partitions that are held are read, looked at when asked |
//! | `process` | what the system tells of the process |
//! | `text` | lines of the text form |
//!
//! Whoever serves them calls [`install`], before anything is counted. Without it nothing is: calls
//! of the `metrics` facade find no recorder, and [`is_on`] spares the rest.

pub mod counts;
mod failures;
mod process;
mod progress;
mod samples;
mod table;
mod text;

use std::future::Future;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub use progress::{OffsetStorage, PartitionGauge, Progress, show};
pub use samples::publish;
pub use table::*;

use crate::model::reason::{DeadReason, DropReason, SkipReason};
use failures::{MET, RETRIED};
use progress::Partitions;

/// The media type of [`Handle::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Values of histograms wait in memory until they are put into buckets, which is done so often.
const UPKEEP: Duration = Duration::from_secs(5);

/// Buckets of what takes microseconds to seconds.
const DURATIONS: [f64; 17] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// Buckets of delays: a clock that runs ahead, seconds, minutes, hours, days.
const DELAYS: [f64; 16] = [
    0.0,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    3.0 * 3600.0,
    6.0 * 3600.0,
    12.0 * 3600.0,
    86_400.0,
    2.0 * 86_400.0,
    4.0 * 86_400.0,
    7.0 * 86_400.0,
    30.0 * 86_400.0,
];

static HANDLE: OnceLock<Handle> = OnceLock::new();

/// What was recorded.
#[derive(Debug)]
pub struct Handle {
    recorded: PrometheusHandle,
    /// Those that are held now.
    partitions: Mutex<Partitions>,
}

/// Begins to record, once in the life of the process: later calls find what the first one made.
///
/// # Errors
/// Another recorder is there already, or the system gives no thread.
pub fn install() -> io::Result<&'static Handle> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().expect("no holder of the lock panics");
    if let Some(handle) = HANDLE.get() {
        return Ok(handle);
    }
    let recorder = builder().map_err(io::Error::other)?.build_recorder();
    let recorded = recorder.handle();
    let kept = recorded.clone();
    metrics::set_global_recorder(recorder).map_err(|error| io::Error::other(error.to_string()))?;
    let upkeep = move || {
        loop {
            std::thread::park_timeout(UPKEEP);
            kept.run_upkeep();
        }
    };
    std::thread::Builder::new().name("tstar-metrics".into()).spawn(upkeep)?;
    describe();
    Ok(HANDLE.get_or_init(|| Handle { recorded, partitions: Mutex::default() }))
}

/// What was recorded; `None` where nothing is.
#[must_use]
pub fn handle() -> Option<&'static Handle> {
    HANDLE.get()
}

/// Everything that was recorded, in the text form of Prometheus, as [`CONTENT_TYPE`]; empty where
/// nothing is.
#[must_use]
pub fn render() -> String {
    handle().map(Handle::render).unwrap_or_default()
}

/// Whether anything is recorded.
#[must_use]
pub fn is_on() -> bool {
    HANDLE.get().is_some()
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    let buckets = |name: &str| match name {
        SAMPLE_DELAY => &DELAYS[..],
        _ => &DURATIONS[..],
    };
    let histograms = TABLE.iter().filter(|metric| metric.kind == Kind::Histogram);
    histograms.into_iter().try_fold(PrometheusBuilder::new(), |builder, metric| {
        builder.set_buckets_for_metric(Matcher::Full(metric.name.into()), buckets(metric.name))
    })
}

fn describe() {
    for &Metric { name, kind, unit, help, .. } in TABLE {
        match kind {
            Kind::Counter => metrics::describe_counter!(name, unit, help),
            Kind::Gauge => metrics::describe_gauge!(name, unit, help),
            Kind::Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
}

/// Shows what a daemon counts from the beginning, as 0: a counter that comes into being with its
/// first event has no rate at that event.
pub fn register_counters() {
    for position in samples::POSITIONS {
        counter!(SAMPLES, "position" => position).increment(0);
    }
    for reason in DeadReason::ALL {
        counter!(DEAD_LETTERS, "reason" => reason.name()).increment(0);
    }
    for reason in DropReason::ALL {
        counter!(SAMPLES_DROPPED, "reason" => reason.name()).increment(0);
    }
    for name in
        [COMMITS_REPEATED, REBALANCES, TRIPS_CREATED, TRIP_MERGES, FEED_IGNORED, FOREIGN_ROWS]
    {
        counter!(name).increment(0);
    }
    for reason in SkipReason::ALL {
        counter!(ROWS_SKIPPED, "reason" => reason.name()).increment(0);
    }
    for how in [CLAIM_READ, CLAIM_INSERTED] {
        counter!(CLAIMS, "how" => how).increment(0);
    }
    for reason in HTTP_LIMITS {
        counter!(HTTP_REJECTED, "reason" => reason).increment(0);
    }
    for kind in MET {
        counter!(STORE_ERRORS, "kind" => kind).increment(0);
    }
    for name in [LAST_RECORD, STATE_BYTES] {
        gauge!(name).set(0.0);
    }
    // It is shown once somebody has asked for it.
    drop(histogram!(SAMPLE_DELAY));
}

/// Times an operation of a store.
pub async fn operation<T>(op: &'static str, operation: impl Future<Output = T>) -> T {
    if !is_on() {
        return operation.await;
    }
    let began = Instant::now();
    let done = operation.await;
    histogram!(STORE_OPERATION_DURATION, "op" => op).record(began.elapsed());
    done
}

/// Counts records of the topic of changes that are no events.
pub fn ignored(records: u64) {
    counter!(FEED_IGNORED).increment(records);
}

/// Counts a failure of a store. Of an operation that is timed, too: who ends by it counts it.
pub fn failed(kind: &'static str) {
    counter!(STORE_ERRORS, "kind" => kind).increment(1);
}

/// Limits of HTTP that end something.
const HTTP_LIMITS: [&str; 9] = [
    "client_connections",
    "client_streams",
    "connections",
    "memory",
    "requests",
    "slow_body",
    "slow_reader",
    "slow_request",
    "streams",
];

/// Counts what a limit of HTTP ended.
pub fn rejected(reason: &'static str) {
    debug_assert!(HTTP_LIMITS.contains(&reason), "{reason} is not shown from the beginning");
    counter!(HTTP_REJECTED, "reason" => reason).increment(1);
}

impl Handle {
    /// Everything in the text form of Prometheus, as [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.recorded.render();
        text::family(&mut text, BUILD_INFO, [(BUILD, 1.0)]);
        self.partitions().write(&mut text, now_ms());
        process::write(&mut text);
        text
    }

    fn partitions(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().expect("no holder of the lock panics")
    }
}

/// A request to a store failed, and is made again.
pub(crate) fn retried() {
    counter!(STORE_ERRORS, "kind" => RETRIED).increment(1);
}

/// A row of a trip was left out where it was read.
pub(crate) fn skipped(reason: SkipReason) {
    counter!(ROWS_SKIPPED, "reason" => reason.name()).increment(1);
}

/// The clock, ms since 1970.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// As Prometheus counts time.
#[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53 ms")]
pub(crate) fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

/// Labels of [`BUILD_INFO`].
const BUILD: [(&str, &str); 2] =
    [("version", env!("CARGO_PKG_VERSION")), ("commit", env!("TSTAR_COMMIT"))];

#[cfg(test)]
mod tests;
