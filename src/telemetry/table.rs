//! The counters of a run, and the table of metrics.

use std::collections::BTreeMap;

use metrics::Unit;

use super::counts::{AddCounts as _, ArrivalCounts, ReportedCount, SKIPPED};
use crate::model::reading::ReadingKind;
use crate::model::reason::{DeadReason, DropReason, SkipReason};
use crate::model::stats::Conflicts;
use crate::segment::Arrival;

/// Declares [`SampleCounts`] and the sum of two of them.
macro_rules! sample_counts {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl $name {
            /// Adds the counters of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$field.add_counts(&other.$field);)*
            }
        }
    };
}

sample_counts! {
    /// Counters of one run. `delivered` = `applied` + `duplicates` + dropped + `skipped` + dead
    /// letters.
    ///
    /// A new counter is a field here, a line of [`SampleCounts::reported`] if reports show it, and
    /// an entry of [`TABLE`] with `of` if a metric shows it.
    SampleCounts {
        /// Samples delivered; a record that cannot be split into samples counts as one.
        delivered: u64,
        /// Samples kept.
        applied: u64,
        /// Samples with a device time that already has a kept sample.
        duplicates: u64,
        /// Duplicates that differ from the kept sample.
        conflicts: Conflicts,
        /// Dropped samples by reason.
        dropped: BTreeMap<DropReason, u64>,
        /// Samples that the field map says are not to be read, and other records.
        skipped: u64,
        /// Dead letters by reason.
        dead_letters: BTreeMap<DeadReason, u64>,
        /// Applied samples by arrival kind; they add up to `applied`.
        arrivals: ArrivalCounts,
        /// Loaded rows that overlapped another trip and were resolved by the overlap rule.
        overlaps: u64,
        /// Loaded rows that were ignored: written by a partition that their device does not
        /// belong to.
        foreign_rows: u64,
        /// Dead letters whose device time would be valid if it were in seconds.
        looks_like_seconds: u64,
        /// Readings of -1, which devices send for an unknown value, and ignitions of another word
        /// than on and off, by name; their samples count above.
        unknown_readings: BTreeMap<&'static str, u64>,
        /// Control records executed; they do not count as samples.
        controls: u64,
        /// Those of them that erased nothing, as an earlier one had erased as much.
        forgets_repeated: u64,
        /// Number of committed flushes.
        flushes: u64,
        /// Trip rows passed to the store.
        trips_written: u64,
    }
}

impl SampleCounts {
    /// The counters of samples that reports show, besides those by reason and by arrival kind.
    #[must_use]
    pub fn reported(&self) -> [ReportedCount; 3] {
        let conflicting = ("conflicting", self.conflicts.count);
        [
            ReportedCount { name: "applied", count: self.applied, of_which: vec![] },
            ReportedCount {
                name: "duplicates",
                count: self.duplicates,
                of_which: vec![conflicting],
            },
            ReportedCount { name: SKIPPED, count: self.skipped, of_which: vec![] },
        ]
    }
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size, in buckets.
    Histogram,
}

impl Kind {
    /// The name of the type in the Prometheus text format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Values that a label can have.
type Values = fn() -> Vec<&'static str>;

/// Description of a metric.
#[derive(Debug)]
pub struct Metric {
    /// Name, including the unit.
    pub name: &'static str,
    /// Prometheus type.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// Names of the labels. A device is never a label: there are too many devices.
    pub labels: &'static [&'static str],
    /// The values of each label, if they are known before the first event.
    values: &'static [Values],
    /// The counter of samples that the metric shows, without labels.
    pub(super) count: Option<fn(&SampleCounts) -> u64>,
    /// Help text, one line.
    pub help: &'static str,
}

impl Metric {
    /// The metric with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        TABLE.iter().find(|metric| metric.name == name)
    }

    /// Every combination of labels that can occur; none if that is not known.
    pub(super) fn label_sets(&self) -> Vec<Vec<(&'static str, &'static str)>> {
        if self.values.len() < self.labels.len() {
            return Vec::new();
        }
        self.labels.iter().zip(self.values).fold(vec![Vec::new()], |sets, (label, values)| {
            let with = |set: &Vec<_>, value| [set.as_slice(), &[(*label, value)]].concat();
            sets.iter().flat_map(|set| values().into_iter().map(move |it| with(set, it))).collect()
        })
    }
}

/// Defines a constant for each name that code needs, and the table of all metrics. `of` gives the
/// values of a label, and the counter of samples that a metric shows. A metric of the recorder
/// whose labels are known is registered with 0 when a daemon starts.
macro_rules! metrics {
    ($(
        $id:tt = $name:literal, $kind:ident in $unit:ident
            by [$($label:literal $(of $values:expr)?),*] $(of $count:expr)?,
        $help:literal;
    )+) => {
        $(
            #[doc = $help]
            pub const $id: &str = $name;
        )+

        /// Every metric.
        pub static TABLE: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            values: &[$($($values,)?)*],
            count: optional!($($count)?),
            help: $help,
        }),+];
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

metrics! {
    BUILD_INFO = "tstar_build_info", Gauge in Count by ["version", "commit"],
        "Always 1; the labels describe the running program.";
    CONSUMER_LAG = "tstar_kafka_consumer_lag", Gauge in Count by ["topic", "partition"],
        "Offsets not processed yet, by the client statistics of the last seconds; transaction markers do not count. Removed when the partition is revoked; its next owner reports it.";
    CONSUMER_LAG_SECONDS = "tstar_kafka_consumer_lag_seconds", Gauge in Seconds by ["topic", "partition"],
        "Now minus the log timestamp of the last processed record if there is lag, else 0; before the first record, the time since the partition was assigned. Removed when the partition is revoked.";
    COMMITTED_OFFSET = "tstar_kafka_committed_offset", Gauge in Count by ["topic", "partition"],
        "Committed offset: everything before it is durable. Removed when the partition is revoked.";
    PARTITION_STOPPED = "tstar_kafka_partition_stopped", Gauge in Count by ["topic", "partition"],
        "1 if the partition is stopped and is not read until a restart, else 0. Removed when the partition is revoked.";
    COMMITS_REPEATED = "tstar_kafka_commits_repeated_total", Counter in Count by [],
        "Offset commits that the brokers did not store and that were repeated.";
    REBALANCES = "tstar_kafka_rebalances_total", Counter in Count by [],
        "Rebalances that assigned partitions to this member or revoked them.";
    SAMPLES = "tstar_samples_total", Counter in Count by ["result" of results],
        "Delivered samples by result: the arrival kind of an applied sample (new, end, inside, beginning, merge), or duplicate, dropped, skipped, dead.";
    _ = "tstar_conflicting_samples_total", Counter in Count by [] of |counts| counts.conflicts.count,
        "Duplicates that differ from the kept sample: many of them mean cut times, or two vehicles under one id.";
    DEAD_LETTERS = "tstar_dead_letters_total", Counter in Count by ["reason" of || DeadReason::ALL.iter().map(|it| it.name()).collect()],
        "Dead letters by reason.";
    SAMPLES_DROPPED = "tstar_samples_dropped_total", Counter in Count by ["reason" of || DropReason::ALL.iter().map(|it| it.name()).collect()],
        "Dropped samples by reason.";
    UNKNOWN_READINGS = "tstar_unknown_readings_total", Counter in Count by ["reading" of readings],
        "Readings of -1 (speed, heading, accuracy), which devices send for an unknown value, and ignitions that are neither on nor off; their samples are read without them.";
    _ = "tstar_trips_created_total", Counter in Count by [] of |counts| counts.arrivals.number_of(Arrival::New),
        "Trips created.";
    _ = "tstar_trip_merges_total", Counter in Count by [] of |counts| counts.arrivals.number_of(Arrival::Merge),
        "Trip merges; each retires an id, and lookups by that id still find the trip.";
    SAMPLE_DELAY = "tstar_sample_delay_seconds", Histogram in Seconds by [],
        "Log timestamp minus device time of applied samples; one in 64 is observed.";
    STORE_OPERATION_DURATION = "tstar_store_operation_duration_seconds", Histogram in Seconds by ["op"],
        "Duration of store operations, including retries and waits; stage and commit also send events and dead letters.";
    STORE_ERRORS = "tstar_store_errors_total", Counter in Count by ["kind" of || FAILURE_KINDS.to_vec()],
        "Store failures by kind; retried counts requests that were sent again.";
    ROWS_SKIPPED = "tstar_store_rows_skipped_total", Counter in Count by ["reason" of || SkipReason::ALL.iter().map(|it| it.name()).collect()],
        "Stored trip rows that reads skipped, counted on each read: malformed (verify --repair fixes them) or no_version (another program wrote them).";
    FEED_IGNORED = "tstar_feed_records_ignored_total", Counter in Count by [],
        "Records of the change feed topic that are not events; clients do not receive them.";
    CLAIMS = "tstar_claims_total", Counter in Count by ["how" of || vec![CLAIM_READ, CLAIM_INSERTED]],
        "Claims looked up for devices whose partition is not computed, by how the claim was found: read, or inserted with a lightweight transaction.";
    _ = "tstar_rows_of_other_partitions_total", Counter in Count by [] of |counts| counts.foreign_rows,
        "Rows that loads ignored because their device belongs to another partition.";
    _ = "tstar_forgets_repeated_total", Counter in Count by [] of |counts| counts.forgets_repeated,
        "Control records that erased nothing, as an earlier one had erased as much: copies of it, most likely.";
    LAST_RECORD = "tstar_last_record_processed_timestamp_seconds", Gauge in Seconds by [],
        "Time of the last processed record, seconds since 1970; 0 before the first.";
    STATE_BYTES = "tstar_state_bytes", Gauge in Bytes by [],
        "Approximate memory used by trips.";
    LOOKUP_DURATION = "tstar_lookup_duration_seconds", Histogram in Seconds by ["result"],
        "Duration of HTTP lookups by result.";
    MEMORY_QUESTIONS = "tstar_memory_questions_total", Counter in Count by ["result"],
        "Questions of HTTP lookups to the memory of this process: answered, unanswered (not in time; the store answers alone), or no_worker (it reads no partition that may have the device).";
    HTTP_REQUESTS = "tstar_http_requests_total", Counter in Count by ["route", "code"],
        "HTTP requests answered.";
    HTTP_REQUEST_DURATION = "tstar_http_request_duration_seconds", Histogram in Seconds by ["route"],
        "Duration of HTTP requests.";
    HTTP_SAMPLES = "tstar_http_samples_total", Counter in Count by ["route" of || SAMPLE_ROUTES.to_vec(), "result" of http_results],
        "Samples that came by HTTP, by result: as in tstar_samples_total; or, for a topic, sent, dropped, skipped, dead (sent, to become a dead letter) or refused (not sent).";
    HTTP_REJECTED = "tstar_http_rejected_total", Counter in Count by ["reason" of || HTTP_LIMITS.to_vec()],
        "HTTP connections, requests and responses that a limit ended, by limit.";
    HTTP_UNAUTHORIZED = "tstar_http_unauthorized_total", Counter in Count by ["reason" of || UNAUTHORIZED.to_vec()],
        "HTTP requests that were refused: without a token (missing), with a wrong one (token), with a session that has ended (session), or with a token that lacks the right (forbidden).";
    TLS_FAILED = "tstar_http_tls_failed_total", Counter in Count by ["reason" of || TLS_FAILURES.to_vec()],
        "HTTPS connections without a handshake: the client sent something else than TLS (plain) or nothing (closed), took too long (slow), or the handshake failed (failed), for example because it does not trust the certificate.";
    TLS_EXPIRY = "tstar_http_tls_expiry_timestamp_seconds", Gauge in Seconds by [],
        "When the certificate of the HTTPS server or one of its chain expires, seconds since 1970; 0 without HTTPS.";
    RELOAD_FAILED = "tstar_reload_failed", Gauge in Count by ["setting" of || RELOADED.to_vec()],
        "1 if the file of a setting has changed and cannot be used, so that what it held before still counts, else 0.";
    CPU_SECONDS = "process_cpu_seconds_total", Counter in Seconds by [],
        "CPU time of the process, user and system.";
    RESIDENT_BYTES = "process_resident_memory_bytes", Gauge in Bytes by [],
        "Resident memory of the process.";
    OPEN_FDS = "process_open_fds", Gauge in Count by [],
        "Open file descriptors.";
    MAX_FDS = "process_max_fds", Gauge in Count by [],
        "Maximum number of open file descriptors.";
    START_TIME = "process_start_time_seconds", Gauge in Seconds by [],
        "Start time of the process, seconds since 1970.";
}

/// Label value of [`CLAIMS`]: the claim existed.
pub(crate) const CLAIM_READ: &str = "read";

/// Label value of [`CLAIMS`]: the claim was inserted.
pub(crate) const CLAIM_INSERTED: &str = "inserted";

/// Label value of [`MEMORY_QUESTIONS`]: a worker answered.
pub(crate) const ANSWERED: &str = "answered";

/// Label value of [`MEMORY_QUESTIONS`]: no worker answered in time.
pub(crate) const UNANSWERED: &str = "unanswered";

/// Label value of [`MEMORY_QUESTIONS`]: no worker of this process may own the device.
pub(crate) const NO_WORKER: &str = "no_worker";

/// A failed request that is retried; not an error yet.
pub(super) const RETRIED: &str = "retried";

/// Kinds that a daemon can encounter.
const FAILURE_KINDS: [&str; 11] = [
    RETRIED,
    "unreachable",
    "failed",
    "full",
    "letters_full",
    "unwritable",
    "read_only",
    "gone",
    "denied",
    "malformed",
    "lacks_key",
];

/// HTTP limits that end a connection, request or response.
const HTTP_LIMITS: [&str; 14] = [
    "client_answers",
    "client_connections",
    "client_requests",
    "client_streams",
    "connections",
    "dead_letters",
    "memory",
    "requests",
    "slow_body",
    "slow_reader",
    "slow_request",
    "store",
    "streams",
    "summaries",
];

/// Why HTTP requests are not authorised.
const UNAUTHORIZED: [&str; 4] = ["forbidden", "missing", "session", "token"];

/// Settings whose files are read again when they change.
const RELOADED: [&str; 2] = ["tls_cert", "token_file"];

/// Why HTTPS connections get no answer.
const TLS_FAILURES: [&str; 4] = ["closed", "failed", "plain", "slow"];

/// HTTP routes that take samples.
const SAMPLE_ROUTES: [&str; 6] = [
    "/v1/in/flespi",
    "/v1/in/overland",
    "/v1/in/owntracks",
    "/v1/in/traccar",
    "/v1/in/traccar-client",
    "/v1/samples",
];

/// Results of samples for a topic: sent, or not.
const TOPIC_RESULTS: [&str; 2] = ["sent", "refused"];

/// Results of samples.
fn results() -> Vec<&'static str> {
    SampleCounts::default().by_result().map(|(result, _)| result).collect()
}

/// Results of samples that came by HTTP.
fn http_results() -> Vec<&'static str> {
    [results().as_slice(), &TOPIC_RESULTS].concat()
}

/// Readings that devices may send as unknown.
fn readings() -> Vec<&'static str> {
    let readings = ReadingKind::ALL.into_iter().filter(|reading| reading.has_unknown());
    readings.map(|reading| reading.name()).chain(["ignition"]).collect()
}
