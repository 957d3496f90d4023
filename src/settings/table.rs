//! Declares the settings of the trips, the log and the stores.

use std::collections::BTreeMap;
use std::time::Duration;

use super::http::HttpSettings;
use super::open::Warnings;
use super::schema::SchemaFile;
use super::values::{
    ACCURACY, BROKERS, CONSISTENCY, COUNT, DURATION, ENCODING, FIELD_MAP, FLAG, GROUP,
    INPUT_FORMAT, KEY_RULE, KINDS, LOG_FORMAT, LogFormat, MIN_STOP, NAME, OPTIONAL_NAME, OPTIONS,
    PARTITIONER, PRESET, REGISTRY, SCHEMA, SIZE, SPEED, SPEED_UNIT, STOP_SPEED, STORE, TEXT,
    TEXT_ENCODING, TIME, TIME_AMBIGUOUS, TIME_UNIT, TIME_ZONE, TIMEOUT, ZONE,
};
use super::{KeyRule, Origins};
use crate::kafka::consumer::MemberSettings;
use crate::model::partitioner::Partitioner;
use crate::model::preset::Preset;
use crate::model::rules::{AmbiguousTime, SpeedUnit, TimeUnit};
use crate::model::scalar::DeviceTime;
use crate::model::schema::Encoding;
use crate::model::text_encoding::TextEncoding;
use crate::model::zone::Zone;
use crate::source::file::InputFormat;
use crate::store::{Consistency, Kinds, StoreUrl};

/// When a processor writes.
#[derive(Clone, Copy, Debug)]
pub struct FlushSettings {
    /// Minimum time between two flushes.
    pub interval: Duration,
    /// Maximum time that a change waits for a flush, except for spilled samples: they wait until
    /// the spill is absorbed.
    pub max_staleness: Duration,
    /// The same for a stop that only grew.
    pub stop_staleness: Duration,
}

impl FlushSettings {
    /// These intervals; stops wait no longer than trips.
    #[must_use]
    pub const fn new(interval: Duration, max_staleness: Duration) -> Self {
        Self { interval, max_staleness, stop_staleness: max_staleness }
    }
}

impl Default for FlushSettings {
    fn default() -> Self {
        let stop_staleness = Duration::from_secs(300);
        Self { stop_staleness, ..Self::new(Duration::from_secs(1), Duration::from_secs(30)) }
    }
}

settings! {
    /// The values of all settings.
    #[derive(Clone, Debug)]
    Settings {
        /// Settings of the HTTP server.
        http: HttpSettings,
        /// How this instance is a member of the consumer group.
        member: MemberSettings,
        /// When a processor writes.
        flush: FlushSettings,
        /// Where each value comes from.
        origins: Origins,
        /// The password of `cql_user` in the environment.
        cql_password: Option<String>,
        /// When the command began, ms since 1970.
        now_ms: i64,
        /// Warnings about files with secrets.
        warnings: Warnings,
    }

    /// URL of the store.
    store: String {
        key: "store", default: "sqlite:trips.db", syntax: STORE, flags: [],
        help: StoreUrl::HELP,
    }

    /// A longer silence ends a trip, ms.
    max_gap_ms: i64 {
        key: "max_gap", default: "5m", syntax: DURATION, flags: [Rules],
        help: "A trip ends after a longer silence (and where the ignition goes off)",
    }

    /// Standing at least this long ends a trip, ms; `None`: standing alone ends none.
    min_stop_ms: Option<i64> {
        key: "min_stop", default: "5m", syntax: MIN_STOP, flags: [Rules],
        help: "Standing this long ends a trip; off: standing alone ends none",
    }

    /// A vehicle stands while it reports a lower speed, m/s.
    stop_speed_mps: f64 {
        key: "stop_speed", default: "0.5", syntax: STOP_SPEED, flags: [Rules],
        help: "A vehicle stands while it reports a lower speed, m/s",
    }

    /// Maximum number of samples of a trip.
    max_samples: u64 {
        key: "max_samples", default: "100000", syntax: COUNT, flags: [Rules],
        help: "Maximum samples of a trip",
    }

    /// Earliest device time accepted, ms since 1970.
    min_time_ms: DeviceTime {
        key: "min_time", default: "2000-01-01T00:00:00Z", syntax: TIME, flags: [Rules],
        help: "Dead-letter samples with an earlier device time",
    }

    /// How far a device time may be past the log timestamp, ms.
    max_future_ms: i64 {
        key: "max_future", default: "24h", syntax: DURATION, flags: [Rules],
        help: "Dead-letter samples further ahead of the record's timestamp",
    }

    /// Drops fixes with a worse accuracy, m.
    max_accuracy_m: Option<f64> {
        key: "max_accuracy", default: "none", syntax: ACCURACY, flags: [Rules],
        help: "Drop samples with a worse accuracy, m",
    }

    /// Keeps samples with latitude and longitude 0.
    keep_zero_position: bool {
        key: "keep_zero_position", default: "false", syntax: FLAG, flags: [Rules],
        help: "Keep samples whose latitude and longitude are 0",
    }

    /// Legs that are faster do not count for distance and average speed, m/s.
    max_leg_speed_mps: Option<f64> {
        key: "max_leg_speed", default: "none", syntax: SPEED, flags: [Rules],
        help: "Leave faster legs between neighbours out of distance and average speed, m/s",
    }

    /// The producer of the records; `None`: none that is known.
    preset: Option<&'static Preset> {
        key: "preset", default: "none", syntax: PRESET, flags: [Rules],
        help: "Producer of the records, such as traccar: sets map and units; see schema presets",
    }

    /// Maps a canonical field name to its source in the input, and says what is a sample.
    map: BTreeMap<String, String> {
        key: "map", default: "", syntax: FIELD_MAP, flags: [Rules, Overrides],
        help: "Where fields are in the input, such as device_id=@key/2,lat=/gps/lat,when=/type=fix",
    }

    /// Unit of speeds.
    speed_unit: SpeedUnit {
        key: "speed_unit", default: "mps", syntax: SPEED_UNIT, flags: [Rules, Overrides],
        help: "Unit of speeds: mps, kmh, mph or kn",
    }

    /// Unit of integer times.
    time_unit: TimeUnit {
        key: "time_unit", default: "ms", syntax: TIME_UNIT, flags: [Rules, Overrides],
        help: "Unit of integer times: s, ms, us or ns",
    }

    /// Zone of local times; `None`: local times are not read.
    time_zone: Option<String> {
        key: "time_zone", default: "none", syntax: TIME_ZONE, flags: [Rules, Overrides],
        help: "Zone of times without an offset, such as Europe/Berlin or UTC",
    }

    /// Which one of two a local time is that occurs twice; `None`: it cannot be used.
    time_ambiguous: Option<AmbiguousTime> {
        key: "time_ambiguous", default: "none", syntax: TIME_AMBIGUOUS, flags: [Rules, Overrides],
        help: "Local times that occur twice, in autumn: earlier, later, or order (of sorted rows)",
    }

    /// Format of times that are text; `None`: ISO 8601.
    time_format: Option<String> {
        key: "time_format", default: "none", syntax: OPTIONAL_NAME, flags: [Rules, Overrides],
        help: "Format of times as in strftime, such as '%d.%m.%Y %H:%M:%S', or excel",
    }

    /// Encoding of text that is not UTF-8; `None`: windows-1252.
    encoding: Option<TextEncoding> {
        key: "encoding", default: "none", syntax: TEXT_ENCODING, flags: [Rules],
        help: "Encoding of text files that are not UTF-8, such as latin2; none: cp1252",
    }

    /// How the values of records are encoded.
    decode: Encoding {
        key: "decode", default: "json", syntax: ENCODING, flags: [Rules],
        help: "Encoding of records: json, avro, protobuf or gtfs-rt",
    }

    /// The schema of all records; `None` if they name theirs.
    schema: Option<SchemaFile> {
        key: "schema", default: "", syntax: SCHEMA, flags: [Rules],
        help: "File with the schema of all records, .avsc or .proto; unset: records name theirs",
    }

    /// The protobuf message of all records; `None` for the only one of the schema.
    message: Option<String> {
        key: "message", default: "none", syntax: OPTIONAL_NAME, flags: [Rules],
        help: "Protobuf message of all records; none: the only one of the schema file",
    }

    /// Format of input files; `None` to detect it from the content.
    input_format: Option<InputFormat> {
        key: "input_format", default: "none", syntax: INPUT_FORMAT, flags: [Import, InputFormat],
        help: InputFormat::HELP,
    }

    @ flush.interval: Duration {
        key: "flush_interval", default: "1s", syntax: TIMEOUT, flags: [Import, Flush],
        help: "Minimum interval between writes of a trip",
    }

    @ flush.max_staleness: Duration {
        key: "max_staleness", default: "30s", syntax: TIMEOUT, flags: [Import, Flush],
        help: "Maximum delay before a change is written (longer while spilling)",
    }

    @ flush.stop_staleness: Duration {
        key: "stop_staleness", default: "5m", syntax: TIMEOUT, flags: [Import, Flush],
        help: "The same for a stop that only gained samples, such as heartbeats; committed offsets \
               trail by as much",
    }

    /// Number of events that the change table keeps.
    keep_changes: u64 {
        key: "keep_changes", default: "100000", syntax: COUNT, flags: [Import],
        help: "Number of change events an embedded store keeps",
    }

    /// Bytes of dead letters that an embedded store takes.
    max_dead_letters: u64 {
        key: "max_dead_letters", default: "1GB", syntax: SIZE, flags: [Import],
        help: "Maximum size of the dead letters of an embedded store; an HTTP token has an eighth",
    }

    /// Approximate memory limit of an import, bytes.
    memory: u64 {
        key: "memory", default: "512MB", syntax: SIZE, flags: [Import, Flush, Memory],
        help: "Approximate memory limit; imports spill the rest to disk",
    }

    /// Kafka brokers, `host:port,host:port`.
    brokers: String {
        key: "brokers", default: "127.0.0.1:9092", syntax: BROKERS,
        flags: [Topic, Brokers, Cluster, Epoch],
        help: "Kafka brokers, host:port,host:port",
    }

    /// Topic that holds the samples.
    topic: String {
        key: "topic", default: "samples", syntax: NAME, flags: [Topic, Brokers, Epoch],
        help: "Topic that holds the samples; TOPIC.trips and TOPIC.dlq are written",
    }

    @ member.group: String {
        key: "group", default: "tstar", syntax: GROUP, flags: [Topic, Epoch, Consumer],
        help: "Consumer group; its members share the partitions",
    }

    @ member.instance_id: Option<String> {
        key: "instance_id", default: "none", syntax: OPTIONAL_NAME, flags: [Topic],
        help: "Static member id (group.instance.id); avoids rebalances on restart",
    }

    /// librdkafka options.
    kafka: BTreeMap<String, String> {
        key: "kafka", default: "", syntax: OPTIONS, flags: [Topic, Brokers, Cluster, Epoch],
        help: "librdkafka options, KEY=VALUE; one per line in file and variable",
    }

    /// Path of the file with the password at the brokers; empty for none.
    kafka_password_file: String {
        key: "kafka_password_file", default: "", syntax: TEXT, flags: [Topic, Brokers, Cluster, Epoch],
        help: "File with the password of sasl.username, or the secret of an OAuth client",
    }

    /// URL of the schema registry; empty for none.
    schema_registry: String {
        key: "schema_registry", default: "", syntax: REGISTRY, flags: [Topic, Registry],
        help: "URL of a Confluent-compatible schema registry, for records that name their schemas, and \
               for the table topic in Avro",
    }

    /// Path of the file with the login of the registry; empty for none.
    schema_registry_auth_file: String {
        key: "schema_registry_auth_file", default: "", syntax: TEXT, flags: [Topic, Registry],
        help: "File with user:password or a token for schema_registry",
    }

    /// Sends the login of the registry over HTTP without TLS.
    schema_registry_plain_login: bool {
        key: "schema_registry_plain_login", default: "false", syntax: FLAG, flags: [Topic, Registry],
        help: "Send the login of schema_registry to another machine without TLS",
    }

    /// The key rule of the topic.
    key: KeyRule {
        key: "key", default: "device_id", syntax: KEY_RULE, flags: [Topic, Epoch],
        help: "Record key: device_id, or any other stable id",
    }

    /// Path of the file with the keys of control records; empty for none.
    control_key_file: String {
        key: "control_key_file", default: "", syntax: TEXT, flags: [Feed, Consumer, ControlKeys],
        help: "File with control keys, NAME:SECRET per line; the first signs; unset: no erasure by topic",
    }

    /// Partitioner of the producers, for a new epoch; `None` to detect it.
    partitioner: Option<Partitioner> {
        key: "partitioner", default: "auto", syntax: PARTITIONER, flags: [Topic, Epoch],
        help: "How producers choose partitions: murmur2, crc32 or none; auto: found at the first start",
    }

    /// Does not write the change feed.
    no_feed: bool {
        key: "no_feed", default: "false", syntax: FLAG, flags: [Feed],
        help: "Do not write the change feed TOPIC.trips",
    }

    /// Writes the table topic.
    table_topic: bool {
        key: "table_topic", default: "false", syntax: FLAG, flags: [Feed],
        help: "Write the trips of a keyspace to the compacted topic TOPIC.trips.table, for sinks",
    }

    /// Which segments the table topic has.
    table_kind: Kinds {
        key: "table_kind", default: "trip", syntax: KINDS, flags: [Feed],
        help: "What the table topic has: trip, stop or all; never changes once it is created",
    }

    /// Number of partitions of the table topic.
    table_partitions: u64 {
        key: "table_partitions", default: "8", syntax: COUNT, flags: [Feed],
        help: "Partitions of the table topic; never changes once it is created",
    }

    @ member.revoke_timeout: Duration {
        key: "revoke_timeout", default: "20s", syntax: TIMEOUT, flags: [Drain],
        help: "Time limit for flushing a revoked partition",
    }

    @ member.drain_timeout: Duration {
        key: "drain_timeout", default: "30s", syntax: TIMEOUT, flags: [Drain],
        help: "Time limit for flushing on shutdown",
    }

    /// How long after `end + max_gap` a trip is still reported open, ms.
    settle_ms: i64 {
        key: "settle", default: "1h", syntax: DURATION, flags: [Reader],
        help: "How long after end_time + max_gap a trip is still reported open",
    }

    /// Zone of days, and of times that people read and write.
    tz: Zone {
        key: "tz", default: "UTC", syntax: ZONE, flags: [Zone],
        help: "Time zone of --day, of --from and --to without an offset, and of tables and CSV, \
               such as Europe/Berlin",
    }

    /// Number of replicas of a Scylla store that have to answer.
    consistency: Consistency {
        key: "consistency", default: "local_quorum", syntax: CONSISTENCY, flags: [Server],
        help: "Consistency level of a Scylla store: local_quorum, quorum or all",
    }

    /// Datacenter of a Scylla store to connect to; empty for all.
    datacenter: String {
        key: "datacenter", default: "", syntax: TEXT, flags: [Server],
        help: "Datacenter to connect to; unset: all",
    }

    /// User of a Scylla store; empty to connect without a login.
    cql_user: String {
        key: "cql_user", default: "", syntax: TEXT, flags: [Server],
        help: "CQL user; its password is in TSTAR_CQL_PASSWORD or cql_password_file",
    }

    /// Path of the file with the password of `cql_user`; empty for none.
    cql_password_file: String {
        key: "cql_password_file", default: "", syntax: TEXT, flags: [Server],
        help: "File that holds the password of cql_user",
    }

    /// Connects to a Scylla store over TLS.
    cql_tls: bool {
        key: "cql_tls", default: "false", syntax: FLAG, flags: [Server],
        help: "Connect to a Scylla store over TLS",
    }

    /// Path of the trusted CA certificates; empty for those of the system.
    cql_tls_ca: String {
        key: "cql_tls_ca", default: "", syntax: TEXT, flags: [Server],
        help: "PEM file of trusted CAs; unset: the system's",
    }

    /// Path of the client certificate; empty for none.
    cql_tls_cert: String {
        key: "cql_tls_cert", default: "", syntax: TEXT, flags: [Server],
        help: "PEM client certificate, followed by its intermediates",
    }

    /// Path of the key of the client certificate.
    cql_tls_key: String {
        key: "cql_tls_key", default: "", syntax: TEXT, flags: [Server],
        help: "File of the PEM key of cql_tls_cert, not encrypted",
    }

    /// Name in the certificates of the nodes; empty for their addresses.
    cql_tls_name: String {
        key: "cql_tls_name", default: "", syntax: TEXT, flags: [Server],
        help: "Name that every node's certificate has to have, instead of the node's address",
    }

    /// How long one-shot commands wait for an unresponsive server.
    connect_timeout: Duration {
        key: "connect_timeout", default: "10s", syntax: TIMEOUT, flags: [Server],
        help: "How long a one-shot command waits for an unresponsive server",
    }

    /// Format of a daemon's log.
    log_format: LogFormat {
        key: "log_format", default: "text", syntax: LOG_FORMAT, flags: [Logging],
        help: "Log format on stderr: text or json, one event per line",
    }
}
