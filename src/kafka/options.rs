//! Decides which client options may be shown. An allow-list: librdkafka gains options that hold
//! secrets, and gives no list of them.

use std::collections::BTreeMap;

use rdkafka::error::KafkaError as ClientError;

use super::KafkaError;
use crate::model::visible::NOT_SHOWN;

/// Options whose values are names, numbers, switches or paths, not secrets.
const HARMLESS: &str = "\
    acks allow.auto.create.topics api.version.fallback.ms api.version.request \
    api.version.request.timeout.ms batch.num.messages batch.size broker.address.family \
    broker.address.ttl broker.version.fallback check.crcs client.dns.lookup client.id client.rack \
    compression.codec compression.level compression.type connections.max.idle.ms \
    coordinator.query.interval.ms debug delivery.report.only.error delivery.timeout.ms \
    enable.idempotence enable.metrics.push enable.random.seed \
    enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification \
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes \
    fetch.queue.backoff.ms fetch.wait.max.ms group.protocol group.protocol.type \
    group.remote.assignor heartbeat.interval.ms https.ca.location linger.ms log.connection.close \
    log.queue log.thread.name log_level max.in.flight max.in.flight.requests.per.connection \
    max.partition.fetch.bytes max.poll.interval.ms message.copy.max.bytes message.max.bytes \
    message.send.max.retries message.timeout.ms metadata.max.age.ms \
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy \
    partition.assignment.strategy partitioner queue.buffering.backpressure.threshold \
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms \
    queued.max.messages.kbytes queued.min.messages queuing.strategy receive.message.max.bytes \
    reconnect.backoff.jitter.ms reconnect.backoff.max.ms reconnect.backoff.ms \
    request.required.acks request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms \
    sasl.kerberos.keytab sasl.kerberos.min.time.before.relogin sasl.kerberos.principal \
    sasl.kerberos.service.name sasl.mechanism sasl.mechanisms \
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.file \
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file \
    sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type \
    sasl.oauthbearer.method sasl.username security.protocol session.timeout.ms \
    socket.blocking.max.ms socket.connection.setup.timeout.ms socket.keepalive.enable \
    socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes \
    socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location ssl.certificate.location \
    ssl.cipher.suites ssl.crl.location ssl.curves.list ssl.endpoint.identification.algorithm \
    ssl.key.location ssl.keystore.location ssl.sigalgs.list statistics.interval.ms \
    sticky.partitioning.linger.ms topic.metadata.propagation.max.ms \
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms \
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms";

/// Options that run code, each with why it cannot be set: a settings file may be a stranger's.
pub(crate) const CODE_OPTIONS: [(&str, &str); 5] = [
    ("plugin.library.paths", "it runs a library inside tstar"),
    ("ssl.engine.location", "it runs a library inside tstar"),
    ("ssl.engine.id", "it runs a library inside tstar"),
    ("ssl.providers", "it runs a library inside tstar"),
    ("sasl.kerberos.kinit.cmd", "it runs a command"),
];

/// Options that name a file with a secret in it.
pub(crate) const SECRET_FILES: [&str; 6] = [
    "ssl.key.location",
    "ssl.keystore.location",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.assertion.private.key.file",
];

/// What librdkafka says of a login without a mechanism.
const NO_KERBEROS: &str = "No provider for SASL mechanism GSSAPI";

/// Minimum length of a part to hide, bytes: shorter parts also occur as words in other text.
const MIN_SECRET_BYTES: usize = 4;

/// Whether the value of an option may appear on screen or in logs.
#[must_use]
pub(crate) fn is_harmless(name: &str) -> bool {
    HARMLESS.split(' ').any(|harmless| harmless == name)
}

/// The option of which a value contains the assignment, after a comma, a semicolon or a blank: they
/// do not separate options, and are part of some values.
#[must_use]
pub(crate) fn option_within(value: &str) -> Option<&str> {
    let name_of = |part: &'_ str| part.split_once('=').map(|(name, _)| name.len());
    let later = value.match_indices([',', ';', ' ']).filter_map(|(at, _)| {
        let part = &value[at + 1..];
        name_of(part).map(|length| part[..length].trim())
    });
    let is_option =
        |name: &&str| is_harmless(name) || name.starts_with("sasl.") || name.starts_with("ssl.");
    later.into_iter().find(is_option)
}

/// The value of an option, or [`NOT_SHOWN`].
#[must_use]
pub fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    if is_harmless(name) || value.is_empty() { value } else { NOT_SHOWN }
}

/// Removes the values of options that may not be shown from a text of the client, which quotes
/// values that it refuses, or parts of them.
pub(super) fn without_secrets(options: &BTreeMap<String, String>, text: &str) -> String {
    let secrets = options.iter().filter(|(name, _)| !is_harmless(name)).map(|(_, value)| value);
    let is_separator = |c: char| c.is_whitespace() || ",;=\"'".contains(c);
    let parts = secrets.clone().flat_map(|value| value.split(is_separator));
    let mut hidden: Vec<&str> = secrets.map(String::as_str).chain(parts).collect();
    hidden.retain(|part| part.len() >= MIN_SECRET_BYTES);
    // Replace a whole value before its parts.
    hidden.sort_by_key(|part| std::cmp::Reverse(part.len()));
    hidden.iter().fold(text.to_owned(), |text, part| text.replace(part, NOT_SHOWN))
}

/// Describes options that the client refuses.
pub(super) fn refused(options: &BTreeMap<String, String>, error: &ClientError) -> KafkaError {
    let problem = match error {
        // The message of the client ends with the value, however short, and its reason may quote
        // it.
        ClientError::ClientConfig(_, reason, name, value) if !is_harmless(name) => {
            let reason =
                if value.is_empty() { reason.clone() } else { reason.replace(value, NOT_SHOWN) };
            format!("`{name}` cannot be set with --kafka: {reason}")
        }
        ClientError::ClientCreation(reason) if reason.contains(NO_KERBEROS) => {
            "`sasl.mechanism` is not set, and its default, Kerberos, is not part of this program; \
             set --kafka sasl.mechanism=PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
                .to_owned()
        }
        other => other.to_string(),
    };
    KafkaError::Options { problem: without_secrets(options, &problem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn options_not_known_to_be_harmless_are_hidden() {
        for name in [
            "ssl.key.pem",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl_key",
            "sasl.password",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.oauthbearer.assertion.private.key.pem",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "SASL.PASSWORD",
            "an.option.of.tomorrow",
        ] {
            assert_eq!(shown(name, "hunter2"), NOT_SHOWN, "{name}");
        }
        assert_eq!(shown("linger.ms", "5"), "5");
        assert_eq!(shown("ssl.key.location", "key.pem"), "key.pem");
        assert!(SECRET_FILES.iter().all(|name| is_harmless(name)), "a path is shown");
        assert!(HARMLESS.split(' ').is_sorted(), "keep the list sorted");
    }

    #[test]
    fn an_option_in_the_value_of_another_is_found() {
        for (value, within) in [
            ("SASL_SSL,sasl.mechanism=PLAIN,sasl.username=ann", Some("sasl.mechanism")),
            ("5, acks=all", Some("acks")),
            ("x,ssl.key.password=hunter2", Some("ssl.key.password")),
            ("5;acks=all", Some("acks")),
            ("5 acks=all", Some("acks")),
            ("broker,topic", None),
            ("principal=ada,scope=fleet:read", None),
            ("principal=ada scope=fleet:read; x", None),
            ("pass,word=x", None),
        ] {
            assert_eq!(option_within(value), within, "{value}");
        }
    }

    #[test]
    fn a_text_of_the_client_holds_no_secret() {
        let config = "principal=ada,scope=fleet:read secretkey=hunter2";
        let options = options(&[
            ("sasl.oauthbearer.config", config),
            ("sasl.password", "pass word"),
            ("client.id", "tstar-7"),
        ]);
        let text = "tstar-7: bad option \"sasl.password\" (pass word) at: secretkey=hunter2";
        let shown = without_secrets(&options, text);
        assert!(shown.starts_with("tstar-7: bad option"), "{shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("pass word"), "{shown}");
    }

    #[test]
    fn a_refusal_names_the_option_and_not_its_value() {
        // An option with a number that is not known to be harmless.
        const NUMBER: &str = "sasl.oauthbearer.assertion.claim.exp.seconds";
        for (name, value) in [("sasl.pasword", "hunter2"), (NUMBER, "no number"), ("x", "y")] {
            let options = options(&[(name, value)]);
            let mut config = rdkafka::ClientConfig::new();
            config.set("bootstrap.servers", "b:1").set(name, value);
            let error = config.create::<rdkafka::consumer::BaseConsumer>().err().expect("refused");
            let message = refused(&options, &error).to_string();
            assert!(message.contains(name), "{message}");
            assert!(value.len() < MIN_SECRET_BYTES || !message.contains(value), "{message}");
        }
        let options = options(&[("linger.ms", "soon")]);
        let mut config = rdkafka::ClientConfig::new();
        config.set("linger.ms", "soon");
        let error = config.create::<rdkafka::consumer::BaseConsumer>().err().expect("refused");
        let message = refused(&options, &error).to_string();
        assert!(message.contains("linger.ms") && message.contains("soon"), "{message}");
    }
}
