//! Settings of the trips, the log and the stores.

use super::setting::{Kind, Setting};
use super::size::parse_size;
use super::values::{
    accuracy, brokers, consistency, consistency_text, count, duration, fields, fields_text, flag,
    input_format, input_format_text, key_rule, key_rule_text, log_format, log_format_text, name,
    number, optional_name, optional_text, options, options_text, partitioner, partitioner_text,
    size, speed, speed_unit, speed_unit_text, store, text, time, time_unit, time_unit_text,
};
use crate::model::time::{parse_duration, parse_time};

/// All settings except those of HTTP.
pub(super) static SETTINGS: &[Setting] = &[
    setting!(
        "store",
        "--store",
        "TSTAR_STORE",
        "sqlite:trips.db",
        Text,
        store,
        store,
        String::clone,
        "Store URL: sqlite:FILE or scylla://HOST/KEYSPACE"
    ),
    setting!(
        "max_gap",
        "--max-gap",
        "TSTAR_MAX_GAP",
        "5m",
        Duration,
        max_gap_ms,
        parse_duration,
        duration,
        "Samples at most this far apart share a trip"
    ),
    setting!(
        "max_duration",
        "--max-duration",
        "TSTAR_MAX_DURATION",
        "24h",
        Duration,
        max_duration_ms,
        parse_duration,
        duration,
        "Maximum span of a trip"
    ),
    setting!(
        "max_samples",
        "--max-samples",
        "TSTAR_MAX_SAMPLES",
        "100000",
        Count,
        max_samples,
        count,
        u64::to_string,
        "Maximum samples of a trip"
    ),
    setting!(
        "min_time",
        "--min-time",
        "TSTAR_MIN_TIME",
        "2000-01-01T00:00:00Z",
        Time,
        min_time_ms,
        parse_time,
        time,
        "Dead-letter samples with an earlier device time"
    ),
    setting!(
        "max_future",
        "--max-future",
        "TSTAR_MAX_FUTURE",
        "24h",
        Duration,
        max_future_ms,
        parse_duration,
        duration,
        "Dead-letter samples further ahead of the record's timestamp"
    ),
    setting!(
        "drop_ignition_off",
        "--drop-ignition-off",
        "TSTAR_DROP_IGNITION_OFF",
        "false",
        Flag,
        drop_ignition_off,
        flag,
        bool::to_string,
        "Drop samples whose ignition is off"
    ),
    setting!(
        "min_speed",
        "--min-speed",
        "TSTAR_MIN_SPEED",
        "none",
        Number,
        min_speed_mps,
        speed,
        number,
        "Drop samples with a lower speed, m/s"
    ),
    setting!(
        "max_accuracy",
        "--max-accuracy",
        "TSTAR_MAX_ACCURACY",
        "none",
        Number,
        max_accuracy_m,
        accuracy,
        number,
        "Drop samples with a worse accuracy, m"
    ),
    setting!(
        "map",
        "--map",
        "TSTAR_MAP",
        "",
        Text,
        map,
        fields,
        fields_text,
        "Field names of the input, such as device_id=vehicle,lat=/gps/lat"
    ),
    setting!(
        "speed_unit",
        "--speed-unit",
        "TSTAR_SPEED_UNIT",
        "mps",
        Text,
        speed_unit,
        speed_unit,
        speed_unit_text,
        "Unit of speeds: mps, kmh, mph or kn"
    ),
    setting!(
        "time_unit",
        "--time-unit",
        "TSTAR_TIME_UNIT",
        "ms",
        Text,
        time_unit,
        time_unit,
        time_unit_text,
        "Unit of integer times: s, ms, us or ns"
    ),
    setting!(
        "input_format",
        "--input-format",
        "TSTAR_INPUT_FORMAT",
        "none",
        Text,
        input_format,
        input_format,
        input_format_text,
        "Format of input files: ndjson or csv; none: detected from the content"
    ),
    setting!(
        "flush_interval",
        "--flush-interval",
        "TSTAR_FLUSH_INTERVAL",
        "1s",
        Duration,
        flush_interval_ms,
        parse_duration,
        duration,
        "Minimum interval between writes of a trip"
    ),
    setting!(
        "max_staleness",
        "--max-staleness",
        "TSTAR_MAX_STALENESS",
        "30s",
        Duration,
        max_staleness_ms,
        parse_duration,
        duration,
        "Maximum delay before a change is written (longer while spilling)"
    ),
    setting!(
        "keep_changes",
        "--keep-changes",
        "TSTAR_KEEP_CHANGES",
        "100000",
        Count,
        keep_changes,
        count,
        u64::to_string,
        "Number of change events an embedded store keeps"
    ),
    setting!(
        "memory",
        "--memory",
        "TSTAR_MEMORY",
        "512MB",
        Size,
        memory,
        parse_size,
        size,
        "Approximate memory limit; imports spill the rest to disk"
    ),
    setting!(
        "brokers",
        "--brokers",
        "TSTAR_BROKERS",
        "127.0.0.1:9092",
        Text,
        brokers,
        brokers,
        String::clone,
        "Kafka brokers, host:port,host:port"
    ),
    setting!(
        "topic",
        "--topic",
        "TSTAR_TOPIC",
        "samples",
        Text,
        topic,
        name,
        String::clone,
        "Topic that holds the samples; TOPIC.trips and TOPIC.dlq are written"
    ),
    setting!(
        "group",
        "--group",
        "TSTAR_GROUP",
        "tstar",
        Text,
        group,
        name,
        String::clone,
        "Consumer group; its members share the partitions"
    ),
    setting!(
        "instance_id",
        "--instance-id",
        "TSTAR_INSTANCE_ID",
        "none",
        Text,
        instance_id,
        optional_name,
        optional_text,
        "Static member id (group.instance.id); avoids rebalances on restart"
    ),
    setting!(
        "kafka",
        "--kafka",
        "TSTAR_KAFKA",
        "",
        Lines,
        kafka,
        options,
        options_text,
        "librdkafka options, KEY=VALUE; one per line in file and variable"
    ),
    setting!(
        "key",
        "--key",
        "TSTAR_KEY",
        "device_id",
        Text,
        key,
        key_rule,
        key_rule_text,
        "Record key: device_id, or any other stable id"
    ),
    setting!(
        "control_key_file",
        "--control-key-file",
        "TSTAR_CONTROL_KEY_FILE",
        "",
        Text,
        control_key_file,
        text,
        String::clone,
        "File with control keys, NAME:SECRET per line; the first signs; unset: no erasure by topic"
    ),
    setting!(
        "partitioner",
        "--partitioner",
        "TSTAR_PARTITIONER",
        "auto",
        Text,
        partitioner,
        partitioner,
        partitioner_text,
        "How producers choose partitions: murmur2, crc32 or none; auto: found at the first start"
    ),
    setting!(
        "no_feed",
        "--no-feed",
        "TSTAR_NO_FEED",
        "false",
        Flag,
        no_feed,
        flag,
        bool::to_string,
        "Do not write the change feed TOPIC.trips"
    ),
    setting!(
        "revoke_timeout",
        "--revoke-timeout",
        "TSTAR_REVOKE_TIMEOUT",
        "20s",
        Duration,
        revoke_timeout_ms,
        parse_duration,
        duration,
        "Time limit for flushing a revoked partition"
    ),
    setting!(
        "drain_timeout",
        "--drain-timeout",
        "TSTAR_DRAIN_TIMEOUT",
        "30s",
        Duration,
        drain_timeout_ms,
        parse_duration,
        duration,
        "Time limit for flushing on shutdown"
    ),
    setting!(
        "settle",
        "--settle",
        "TSTAR_SETTLE",
        "1h",
        Duration,
        settle_ms,
        parse_duration,
        duration,
        "How long after end_time + max_gap a trip is still reported open"
    ),
    setting!(
        "consistency",
        "--consistency",
        "TSTAR_CONSISTENCY",
        "local_quorum",
        Text,
        consistency,
        consistency,
        consistency_text,
        "Consistency level of a Scylla store: local_quorum, quorum or all"
    ),
    setting!(
        "datacenter",
        "--datacenter",
        "TSTAR_DATACENTER",
        "",
        Text,
        datacenter,
        text,
        String::clone,
        "Datacenter to connect to; unset: all"
    ),
    setting!(
        "cql_user",
        "--cql-user",
        "TSTAR_CQL_USER",
        "",
        Text,
        cql_user,
        text,
        String::clone,
        "CQL user; its password is in TSTAR_CQL_PASSWORD or cql_password_file"
    ),
    setting!(
        "cql_password_file",
        "--cql-password-file",
        "TSTAR_CQL_PASSWORD_FILE",
        "",
        Text,
        cql_password_file,
        text,
        String::clone,
        "File that holds the password of cql_user"
    ),
    setting!(
        "cql_tls",
        "--cql-tls",
        "TSTAR_CQL_TLS",
        "false",
        Flag,
        cql_tls,
        flag,
        bool::to_string,
        "Connect to a Scylla store over TLS; needs a build with the feature tls"
    ),
    setting!(
        "cql_tls_ca",
        "--cql-tls-ca",
        "TSTAR_CQL_TLS_CA",
        "",
        Text,
        cql_tls_ca,
        text,
        String::clone,
        "PEM file of trusted CAs; unset: the system's"
    ),
    setting!(
        "cql_tls_cert",
        "--cql-tls-cert",
        "TSTAR_CQL_TLS_CERT",
        "",
        Text,
        cql_tls_cert,
        text,
        String::clone,
        "PEM client certificate, followed by its intermediates"
    ),
    setting!(
        "cql_tls_key",
        "--cql-tls-key",
        "TSTAR_CQL_TLS_KEY",
        "",
        Text,
        cql_tls_key,
        text,
        String::clone,
        "File of the PEM key of cql_tls_cert, not encrypted"
    ),
    setting!(
        "connect_timeout",
        "--connect-timeout",
        "TSTAR_CONNECT_TIMEOUT",
        "10s",
        Duration,
        connect_timeout_ms,
        parse_duration,
        duration,
        "How long a one-shot command waits for an unresponsive server"
    ),
    setting!(
        "log_format",
        "--log-format",
        "TSTAR_LOG_FORMAT",
        "text",
        Text,
        log_format,
        log_format,
        log_format_text,
        "Log format on stderr: text or json, one event per line"
    ),
];
