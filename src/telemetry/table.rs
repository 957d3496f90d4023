//! The table of metrics.

use metrics::Unit;

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

/// Description of a metric.
#[derive(Debug)]
pub struct Metric {
    /// Name, including the unit.
    pub name: &'static str,
    /// Prometheus type.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// Names of the labels, for tests and documents. A device is never a label: there are too many
    /// devices.
    #[cfg(feature = "internals")]
    pub labels: &'static [&'static str],
    /// Help text, one line.
    pub help: &'static str,
}

impl Metric {
    /// The metric with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        TABLE.iter().find(|metric| metric.name == name)
    }
}

/// Defines a constant for each name, and the table of all metrics.
macro_rules! metrics {
    ($(
        $id:ident = $name:literal, $kind:ident in $unit:ident by [$($label:literal),*],
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
            #[cfg(feature = "internals")]
            labels: &[$($label),*],
            help: $help,
        }),+];
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
    SAMPLES = "tstar_samples_total", Counter in Count by ["result"],
        "Delivered samples by result: the arrival kind of an applied sample (new, end, inside, beginning, merge), or duplicate, dropped, skipped, dead.";
    CONFLICTING = "tstar_conflicting_samples_total", Counter in Count by [],
        "Duplicates that differ from the kept sample: many of them mean cut times, or two vehicles under one id.";
    DEAD_LETTERS = "tstar_dead_letters_total", Counter in Count by ["reason"],
        "Dead letters by reason.";
    SAMPLES_DROPPED = "tstar_samples_dropped_total", Counter in Count by ["reason"],
        "Dropped samples by reason.";
    UNKNOWN_READINGS = "tstar_unknown_readings_total", Counter in Count by ["reading"],
        "Readings of -1 (speed, heading, accuracy), which devices send for an unknown value; their samples are read without them.";
    TRIPS_CREATED = "tstar_trips_created_total", Counter in Count by [],
        "Trips created.";
    TRIP_MERGES = "tstar_trip_merges_total", Counter in Count by [],
        "Trip merges; each retires an id, and lookups by that id still find the trip.";
    SAMPLE_DELAY = "tstar_sample_delay_seconds", Histogram in Seconds by [],
        "Log timestamp minus device time of applied samples; one in 64 is observed.";
    STORE_OPERATION_DURATION = "tstar_store_operation_duration_seconds", Histogram in Seconds by ["op"],
        "Duration of store operations, including retries and waits; stage and commit also send events and dead letters.";
    STORE_ERRORS = "tstar_store_errors_total", Counter in Count by ["kind"],
        "Store failures by kind; retried counts requests that were sent again.";
    ROWS_SKIPPED = "tstar_store_rows_skipped_total", Counter in Count by ["reason"],
        "Stored trip rows that reads skipped, counted on each read: malformed (verify --repair fixes them) or no_version (another program wrote them).";
    FEED_IGNORED = "tstar_feed_records_ignored_total", Counter in Count by [],
        "Records of the change feed topic that are not events; clients do not receive them.";
    CLAIMS = "tstar_claims_total", Counter in Count by ["how"],
        "Claims looked up for devices whose partition is not computed, by how the claim was found: read, or inserted with a lightweight transaction.";
    FOREIGN_ROWS = "tstar_rows_of_other_partitions_total", Counter in Count by [],
        "Rows that loads ignored because their device belongs to another partition.";
    FORGETS_REPEATED = "tstar_forgets_repeated_total", Counter in Count by [],
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
    HTTP_SAMPLES = "tstar_http_samples_total", Counter in Count by ["route", "result"],
        "Samples that came by HTTP, by result: as in tstar_samples_total; or, for a topic, sent, dropped, skipped, dead (sent, to become a dead letter) or refused (not sent).";
    HTTP_REJECTED = "tstar_http_rejected_total", Counter in Count by ["reason"],
        "HTTP connections, requests and responses that a limit ended, by limit.";
    HTTP_UNAUTHORIZED = "tstar_http_unauthorized_total", Counter in Count by ["reason"],
        "HTTP requests that were refused: without a token (missing), with a wrong one (token), with a session that has ended (session), or with a token that lacks the right (forbidden).";
    TLS_FAILED = "tstar_http_tls_failed_total", Counter in Count by ["reason"],
        "HTTPS connections without a handshake: the client sent something else than TLS (plain) or nothing (closed), took too long (slow), or the handshake failed (failed), for example because it does not trust the certificate.";
    TLS_EXPIRY = "tstar_http_tls_expiry_timestamp_seconds", Gauge in Seconds by [],
        "When the certificate of the HTTPS server or one of its chain expires, seconds since 1970; 0 without HTTPS.";
    RELOAD_FAILED = "tstar_reload_failed", Gauge in Count by ["setting"],
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
pub const CLAIM_READ: &str = "read";

/// Label value of [`CLAIMS`]: the claim was inserted.
pub const CLAIM_INSERTED: &str = "inserted";

/// Label value of [`MEMORY_QUESTIONS`]: a worker answered.
pub const ANSWERED: &str = "answered";

/// Label value of [`MEMORY_QUESTIONS`]: no worker answered in time.
pub const UNANSWERED: &str = "unanswered";

/// Label value of [`MEMORY_QUESTIONS`]: no worker of this process may own the device.
pub const NO_WORKER: &str = "no_worker";
