//! Limits of settings, and rules between them.

use super::size::format_size;
use super::values::ms;
use super::{KeyRule, Settings};
use crate::codec::MAX_SAMPLES;
use crate::model::limits::{MAX_FUTURE_RANGE, MAX_GAP_MS, MAX_MIN_STOP_MS, MIN_TIME_RANGE};
use crate::model::partitioner::Partitioner;
use crate::model::schema::Encoding;
use crate::model::time::format_duration;
use crate::registry::RegistryUrl;
use crate::source::check_time_format;
use crate::timeline::DAY_MS;

/// A violated rule about one or several settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The settings concerned, the one to change first.
    pub keys: &'static [&'static str],
    /// The violated rule, with the values.
    pub message: String,
}

/// Minimum of `memory`, bytes: below it the program's own buffers would take most of it.
const MIN_MEMORY: u64 = 64_000_000;

/// The violated rules.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn check(&mut self, holds: bool, keys: &'static [&'static str], message: impl Into<String>) {
        if !holds {
            self.0.push(Problem { keys, message: message.into() });
        }
    }
}

impl Settings {
    /// All violated limits of settings and rules between them.
    #[must_use]
    pub(crate) fn validate(&self) -> Vec<Problem> {
        let year_ms = 366 * DAY_MS;
        let text = format_duration;
        let mut problems = Problems::default();
        // Of longer gaps, a trip that takes less than a day could fill it, and be cut at midnight.
        let message = format!("max_gap must be at most 6h, not {}", text(self.max_gap_ms));
        problems.check(self.max_gap_ms <= MAX_GAP_MS, &["max_gap"], message);
        let min_stop_ms = self.min_stop_ms.unwrap_or(1);
        let message = format!("min_stop must be at most 12h, not {}", text(min_stop_ms));
        problems.check(min_stop_ms <= MAX_MIN_STOP_MS, &["min_stop"], message);
        for (key, value_ms) in [
            (&["max_staleness"], ms(self.flush.max_staleness)),
            (&["stop_staleness"], ms(self.flush.stop_staleness)),
            (&["settle"], self.settle_ms),
            (&["drain_timeout"], ms(self.member.drain_timeout)),
            (&["connect_timeout"], ms(self.connect_timeout)),
        ] {
            let message = format!("{} must be at most 366d, not {}", key[0], text(value_ms));
            problems.check(value_ms <= year_ms, key, message);
        }
        // Kafka removes a member that does not poll for five minutes.
        let revoke_ms = ms(self.member.revoke_timeout);
        let message = format!("revoke_timeout must be at most 4m, not {}", text(revoke_ms));
        problems.check(revoke_ms <= 240_000, &["revoke_timeout"], message);
        for (key, value_ms) in [
            (&["max_gap"], self.max_gap_ms),
            (&["min_stop"], min_stop_ms),
            (&["flush_interval"], ms(self.flush.interval)),
            (&["connect_timeout"], ms(self.connect_timeout)),
        ] {
            problems.check(value_ms > 0, key, format!("{} must be longer than 0", key[0]));
        }
        problems.check(
            self.max_future_ms <= MAX_FUTURE_RANGE.1,
            &["max_future"],
            format!("max_future must be at most 36600d, not {}", text(self.max_future_ms)),
        );
        problems.check(
            self.min_time_ms.ms() >= MIN_TIME_RANGE.0,
            &["min_time"],
            "min_time must not be before 1970-01-01T00:00:00Z",
        );
        let (interval, staleness) = (self.flush.interval, self.flush.max_staleness);
        let message = format!(
            "flush_interval ({}) must not be longer than max_staleness ({})",
            text(ms(interval)),
            text(ms(staleness))
        );
        problems.check(interval <= staleness, &["flush_interval", "max_staleness"], message);
        problems.check(
            self.memory >= MIN_MEMORY,
            &["memory"],
            format!("memory must be at least 64MB, not {}", format_size(self.memory)),
        );
        self.check_input(&mut problems);
        check_schemas(self, &mut problems);
        check_cql_tls(self, &mut problems);
        check_http(self, &mut problems);
        problems.0
    }

    /// Rules of what a trip can have, and of how records are read.
    fn check_input(&self, problems: &mut Problems) {
        // A trip with more samples than a path can have could not be read.
        problems.check(
            (1..=MAX_SAMPLES as u64).contains(&self.max_samples),
            &["max_samples"],
            format!(
                "max_samples must be 1 to {MAX_SAMPLES}, not {}: the path of a longer trip could \
                 not be read; set {MAX_SAMPLES} at most",
                self.max_samples
            ),
        );
        // A partition can only be computed from a key that is the device id.
        problems.check(
            self.partitioner.is_none_or(|it| it == Partitioner::None)
                || self.key == KeyRule::DeviceId,
            &["partitioner", "key"],
            "partitioner must be none with --key any: such a key does not identify the device",
        );
        // Times in a format without an offset need a zone.
        let format = self.time_format.as_deref();
        let checked = format.map_or(Ok(()), |it| check_time_format(it, self.time_zone.is_some()));
        if let Err(error) = checked {
            problems.check(false, &["time_format", "time_zone"], error.to_string());
        }
    }
}

/// Rules of the HTTP server.
fn check_http(settings: &Settings, problems: &mut Problems) {
    let http = &settings.http;
    if let Some(address) = http.listen {
        problems.check(
            address.ip().is_loopback() || !http.token_file.is_empty() || http.insecure,
            &["listen"],
            format!(
                "listen {address} is reachable from other machines; name a file of tokens with \
                 token_file (--token-file), or set insecure (--insecure) to allow access without a \
                 token"
            ),
        );
    }
    problems.check(
        http.tls_cert.is_empty() == http.tls_key.is_empty(),
        &["tls_cert", "tls_key"],
        "tls_cert and tls_key go together; set both or neither",
    );
    problems.check(
        http.tiles.is_none() || http.tiles_attribution.is_some(),
        &["tiles_attribution", "tiles"],
        "tiles need tiles_attribution (--tiles-attribution), which most tile servers demand; set \
         it to their text, such as `© [OpenStreetMap](https://www.openstreetmap.org/copyright)`, \
         or to an empty text if they demand none",
    );
    problems.check(
        http.tiles.is_none() || http.basemap.is_empty(),
        &["basemap", "tiles"],
        "basemap and tiles are both set, but the page has one map under the trips; set one of them",
    );
    for (keys, value) in [
        (&["max_connections"], http.connections),
        (&["max_requests"], http.requests),
        (&["max_streams"], http.streams),
    ] {
        let message = format!("{} must be 1 to 100000, not {value}", keys[0]);
        problems.check((1..=100_000).contains(&value), keys, message);
    }
    for (keys, value, max) in [
        (&["max_client_connections"], http.client_connections, http.connections),
        (&["max_client_streams"], http.client_streams, http.streams),
    ] {
        let message = format!("{} must be 0 to {max} (the total), not {value}", keys[0]);
        problems.check(value <= max, keys, message);
    }
}

/// Rules of encodings, schemas and the registry.
fn check_schemas(settings: &Settings, problems: &mut Problems) {
    let Settings { decode, schema, message, .. } = settings;
    let has_schema = matches!(decode, Encoding::Avro | Encoding::Protobuf);
    problems.check(
        schema.is_none() || has_schema,
        &["schema", "decode"],
        format!("schema is set, but decode is {}; set decode to avro or protobuf", decode.name()),
    );
    problems.check(
        message.is_none() || (*decode == Encoding::Protobuf && schema.is_some()),
        &["message", "decode", "schema"],
        "message names a message of a protobuf schema file; set decode to protobuf, and schema",
    );
    problems.check(
        settings.schema_registry_auth_file.is_empty() || !settings.schema_registry.is_empty(),
        &["schema_registry_auth_file", "schema_registry"],
        "schema_registry_auth_file is set, but schema_registry is not",
    );
    let url = RegistryUrl::parse(&settings.schema_registry);
    problems.check(
        settings.schema_registry_auth_file.is_empty()
            || settings.schema_registry_plain_login
            || !url.is_ok_and(|url| url.is_exposed()),
        &["schema_registry", "schema_registry_auth_file"],
        format!(
            "the login in schema_registry_auth_file would be sent to `{}` without TLS; write \
             https, or set schema_registry_plain_login (--schema-registry-plain-login) to send it \
             in the clear",
            settings.schema_registry
        ),
    );
}

/// Rules of TLS to a store on servers.
fn check_cql_tls(settings: &Settings, problems: &mut Problems) {
    let Settings { cql_tls, cql_tls_ca, cql_tls_cert, cql_tls_key, cql_tls_name, .. } = settings;
    // Certificates without TLS are most likely a mistake.
    for (keys, file) in [
        (&["cql_tls_ca", "cql_tls"], cql_tls_ca),
        (&["cql_tls_cert", "cql_tls"], cql_tls_cert),
        (&["cql_tls_key", "cql_tls"], cql_tls_key),
        (&["cql_tls_name", "cql_tls"], cql_tls_name),
    ] {
        let message = format!("{} is set, but cql_tls is false; set cql_tls as well", keys[0]);
        problems.check(*cql_tls || file.is_empty(), keys, message);
    }
    problems.check(
        cql_tls_cert.is_empty() == cql_tls_key.is_empty(),
        &["cql_tls_cert", "cql_tls_key"],
        "cql_tls_cert and cql_tls_key go together; set both or neither",
    );
}
