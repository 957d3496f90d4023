//! The table of metrics.

use metrics::Unit;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Values by size, in buckets.
    Histogram,
}

impl Kind {
    /// The name that Prometheus has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name, unit included.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it is in.
    pub unit: Unit,
    /// Names of its labels. None is a device: there are too many of them.
    pub labels: &'static [&'static str],
    /// What it tells, in one line.
    pub help: &'static str,
}

impl Metric {
    /// The metric of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        TABLE.iter().find(|metric| metric.name == name)
    }
}

/// A constant for each name, and the table of them all.
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
            labels: &[$($label),*],
            help: $help,
        }),+];
    };
}

metrics! {
    BUILD_INFO = "tstar_build_info", Gauge in Count by ["version", "commit"],
        "1, of the program that runs.";
    CONSUMER_LAG = "tstar_kafka_consumer_lag", Gauge in Count by ["topic", "partition"],
        "Offsets that there are to be read and are not processed yet, by the client's statistics of the last seconds; the ends of transactions do not count. Gone with the partition: who holds it next has it.";
    CONSUMER_LAG_SECONDS = "tstar_kafka_consumer_lag_seconds", Gauge in Seconds by ["topic", "partition"],
        "Now minus the log's timestamp of the last record processed, where there is lag, else 0; before the first record, the time since the partition was given. Gone with the partition.";
    COMMITTED_OFFSET = "tstar_kafka_committed_offset", Gauge in Count by ["topic", "partition"],
        "Offset that is kept: everything before it is durable. Gone with the partition.";
    PARTITION_STOPPED = "tstar_kafka_partition_stopped", Gauge in Count by ["topic", "partition"],
        "1 where the partition has stopped and is not read until a restart, else 0. Gone with the partition.";
    COMMITS_REPEATED = "tstar_kafka_commits_repeated_total", Counter in Count by [],
        "Commits of a partition that the brokers did not keep, so that they were made again.";
    REBALANCES = "tstar_kafka_rebalances_total", Counter in Count by [],
        "How often the group gave partitions to this member or took some from it.";
    SAMPLES = "tstar_samples_total", Counter in Count by ["position"],
        "Samples delivered, by what became of them: where in its trip one arrived (new, end, inside, beginning, merge), or duplicate, dropped, dead.";
    DEAD_LETTERS = "tstar_dead_letters_total", Counter in Count by ["reason"],
        "Samples that could not be used, by why.";
    SAMPLES_DROPPED = "tstar_samples_dropped_total", Counter in Count by ["reason"],
        "Samples left out on purpose, by why.";
    TRIPS_CREATED = "tstar_trips_created_total", Counter in Count by [],
        "Trips that a sample began.";
    TRIP_MERGES = "tstar_trip_merges_total", Counter in Count by [],
        "Merges: each retired an id, which still finds its trip.";
    SAMPLE_DELAY = "tstar_sample_delay_seconds", Histogram in Seconds by [],
        "The log's timestamp minus the device time of samples that were applied; one sample in 64 is observed.";
    STORE_OPERATION_DURATION = "tstar_store_operation_duration_seconds", Histogram in Seconds by ["op"],
        "How long operations of the store took, tries and waits included; stage and commit also send what a flush tells.";
    STORE_ERRORS = "tstar_store_errors_total", Counter in Count by ["kind"],
        "Failures of the store, by how; kind retried is a request that is made again.";
    ROWS_SKIPPED = "tstar_store_rows_skipped_total", Counter in Count by ["reason"],
        "Stored rows of trips that were left out each time they were read: malformed (verify --repair mends them) or no_version (another program wrote them).";
    FEED_IGNORED = "tstar_feed_records_ignored_total", Counter in Count by [],
        "Records of the topic of changes that are no event, so that no client is told of them.";
    CLAIMS = "tstar_claims_total", Counter in Count by ["how"],
        "Devices that came into memory whose partition is not computed, by how the claim that decides it was found: read, or inserted, which is a lightweight transaction.";
    FOREIGN_ROWS = "tstar_rows_of_other_partitions_total", Counter in Count by [],
        "Rows that loads passed over: they are of a partition that their device does not belong to.";
    LAST_RECORD = "tstar_last_record_processed_timestamp_seconds", Gauge in Seconds by [],
        "When a record was processed last, seconds since 1970; 0 before the first.";
    STATE_BYTES = "tstar_state_bytes", Gauge in Bytes by [],
        "What the trips in memory take, about.";
    LOOKUP_DURATION = "tstar_lookup_duration_seconds", Histogram in Seconds by ["result"],
        "How long lookups over HTTP took, by what was found.";
    HTTP_REQUESTS = "tstar_http_requests_total", Counter in Count by ["route", "code"],
        "HTTP requests answered.";
    HTTP_REQUEST_DURATION = "tstar_http_request_duration_seconds", Histogram in Seconds by ["route"],
        "How long HTTP requests took.";
    HTTP_REJECTED = "tstar_http_rejected_total", Counter in Count by ["reason"],
        "HTTP connections, requests and answers that a limit ended, by which.";
    CPU_SECONDS = "process_cpu_seconds_total", Counter in Seconds by [],
        "CPU time of the process, user and system.";
    RESIDENT_BYTES = "process_resident_memory_bytes", Gauge in Bytes by [],
        "Memory of the process that is resident.";
    OPEN_FDS = "process_open_fds", Gauge in Count by [],
        "File descriptors that are open.";
    MAX_FDS = "process_max_fds", Gauge in Count by [],
        "File descriptors that may be open.";
    START_TIME = "process_start_time_seconds", Gauge in Seconds by [],
        "When the process started, seconds since 1970.";
}

/// The claim was there: a value of the label of [`CLAIMS`].
pub const CLAIM_READ: &str = "read";

/// The claim was inserted: a value of the label of [`CLAIMS`].
pub const CLAIM_INSERTED: &str = "inserted";
