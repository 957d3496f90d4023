//! Metrics in the Prometheus text format, and logs.
//!
//! | item | content |
//! |---|---|
//! | [`TABLE`] | every metric: name, kind, unit, labels, help, counter |
//! | `samples` | publishes [`counts::SampleCounts`] as counter increments |
//! | [`counts`] | samples by result |
//! | [`Progress`] | position, lag and committed offset of the assigned partitions, read on scrape |
//! | [`logging`] | log events as lines of text or JSON |
//! | `process` | CPU, memory and file descriptors of the process |
//! | `text` | lines of the text format |
//!
//! A program that serves metrics calls [`install`] before anything is counted. Without it, nothing
//! is recorded: the `metrics` facade finds no recorder, and code that checks [`is_on`] is skipped.

pub mod counts;
pub mod logging;
mod process;
mod progress;
mod samples;
mod table;
mod text;

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub(crate) use logging::AUDIT;
pub use progress::show;
pub(crate) use progress::{LogStatus, OffsetStorage, PartitionGauge, Progress};
pub use samples::publish;
pub use table::*;

use crate::model::reason::SkipReason;
pub(crate) use crate::model::units::seconds;
use progress::Partitions;

/// The clock, ms since 1970.
#[must_use]
pub fn clock_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The media type of [`Handle::render`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Interval at which recorded histogram values are moved into buckets; until then they use memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Histogram buckets of durations, seconds.
const DURATIONS: [f64; 17] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
];

/// Histogram buckets of delays, seconds, up to 30 days; the first one takes clocks that run ahead.
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

/// The recorded metrics.
#[derive(Debug)]
pub struct Handle {
    recorded: PrometheusHandle,
    /// The assigned partitions.
    partitions: Mutex<Partitions>,
    /// Number of samples delivered.
    samples: AtomicU64,
}

/// Installs the recorder of the process. Later calls return the handle of the first one.
///
/// # Errors
/// Another recorder is installed already, or the system cannot start a thread.
pub fn install() -> io::Result<&'static Handle> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _guard = INSTALLING.lock().expect("no holder of the lock panics");
    if let Some(handle) = HANDLE.get() {
        return Ok(handle);
    }
    let recorder = builder().map_err(io::Error::other)?.build_recorder();
    let recorded = recorder.handle();
    let upkeep_handle = recorded.clone();
    metrics::set_global_recorder(recorder).map_err(|error| io::Error::other(error.to_string()))?;
    let upkeep = move || {
        loop {
            std::thread::park_timeout(UPKEEP);
            upkeep_handle.run_upkeep();
        }
    };
    std::thread::Builder::new().name("tstar-metrics".into()).spawn(upkeep)?;
    describe();
    let (partitions, samples) = (Mutex::default(), AtomicU64::new(0));
    Ok(HANDLE.get_or_init(|| Handle { recorded, partitions, samples }))
}

/// The recorded metrics; `None` without [`install`].
#[must_use]
pub fn handle() -> Option<&'static Handle> {
    HANDLE.get()
}

/// All metrics in the Prometheus text format, see [`CONTENT_TYPE`]; empty without [`install`].
#[must_use]
pub(crate) fn render() -> String {
    handle().map(Handle::render).unwrap_or_default()
}

/// Whether metrics are recorded.
#[must_use]
pub(crate) fn is_on() -> bool {
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

/// Registers the metrics of a daemon with value 0: a counter that first appears with its first
/// event has no rate at that event.
pub(crate) fn register_counters() {
    for metric in TABLE.iter().filter(|metric| !metric.name.starts_with("process_")) {
        for labels in &metric.label_sets() {
            // Creating the handle registers the metric, and keeps its value.
            match metric.kind {
                Kind::Counter => drop(counter!(metric.name, labels)),
                Kind::Gauge => drop(gauge!(metric.name, labels)),
                Kind::Histogram => drop(histogram!(metric.name, labels)),
            }
        }
    }
}

/// Counts an event by the labels of a metric, whose values the table lists.
fn count<const N: usize>(
    name: &'static str,
    labels: [(&'static str, &'static str); N],
    events: u64,
) {
    let is_known =
        || Metric::by_name(name).is_some_and(|it| it.label_sets().contains(&labels.to_vec()));
    debug_assert!(is_known(), "{name} has no {labels:?}");
    counter!(name, &labels).increment(events);
}

/// Runs a store operation and records its duration.
pub async fn operation<T>(op: &'static str, operation: impl Future<Output = T>) -> T {
    let started = start_operation();
    let result = operation.await;
    end_operation(op, started);
    result
}

/// The start of an operation, if metrics are recorded.
pub(crate) fn start_operation() -> Option<Instant> {
    is_on().then(Instant::now)
}

/// Records the duration of an operation.
pub(crate) fn end_operation(op: &'static str, started: Option<Instant>) {
    if let Some(started) = started {
        histogram!(STORE_OPERATION_DURATION, "op" => op).record(started.elapsed());
    }
}

/// Counts records of the change feed topic that are not events.
pub fn ignored(records: u64) {
    counter!(FEED_IGNORED).increment(records);
}

/// Counts a store failure. Called where the failure ends the work, also for timed operations.
pub fn failed(kind: &'static str) {
    count(STORE_ERRORS, [("kind", kind)], 1);
}

/// Counts a request that is not authorised.
pub fn unauthorized(reason: &'static str) {
    count(HTTP_UNAUTHORIZED, [("reason", reason)], 1);
}

/// Publishes whether the changed file of a setting cannot be used.
pub(crate) fn reload_failed(setting: &'static str, has_failed: bool) {
    gauge!(RELOAD_FAILED, "setting" => setting).set(f64::from(u8::from(has_failed)));
}

/// Counts an HTTPS connection without a handshake.
pub(crate) fn tls_failed(reason: &'static str) {
    count(TLS_FAILED, [("reason", reason)], 1);
}

/// Publishes when the certificate of the HTTPS server expires, s since 1970.
#[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53 s")]
pub(crate) fn certificate_expires(time_s: i64) {
    gauge!(TLS_EXPIRY).set(time_s as f64);
}

/// Counts samples that came by a route, by result.
pub(crate) fn http_samples(route: &'static str, result: &'static str, samples: u64) {
    count(HTTP_SAMPLES, [("route", route), ("result", result)], samples);
}

/// Counts a connection, request or response that an HTTP limit ended.
pub fn rejected(reason: &'static str) {
    count(HTTP_REJECTED, [("reason", reason)], 1);
}

impl Handle {
    /// All metrics in the Prometheus text format, see [`CONTENT_TYPE`].
    #[must_use]
    pub(crate) fn render(&self) -> String {
        let mut text = self.recorded.render();
        text::family(&mut text, BUILD_INFO, [(BUILD, 1.0)]);
        self.partitions().write(&mut text, clock_ms());
        process::write(&mut text);
        text
    }

    /// State of the log that this process reads.
    #[must_use]
    pub(crate) fn log_status(&self) -> LogStatus {
        self.partitions().status(self.samples.load(Ordering::Relaxed), clock_ms())
    }

    fn partitions(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().expect("no holder of the lock panics")
    }
}

/// Counts a failed store request that is retried.
pub(crate) fn retried() {
    failed(table::RETRIED);
}

/// Counts a stored trip row that a read skipped.
pub(crate) fn skipped(reason: SkipReason) {
    count(ROWS_SKIPPED, [("reason", reason.name())], 1);
}

/// Labels of [`BUILD_INFO`].
const BUILD: [(&str, &str); 2] =
    [("version", env!("CARGO_PKG_VERSION")), ("commit", env!("TSTAR_COMMIT"))];

#[cfg(test)]
mod tests;
