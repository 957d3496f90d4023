//! Why brokers do not answer: librdkafka's requests report only that they timed out, its events
//! and its log why.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_extra::LoggedIn;

use super::KafkaError;
use super::client::Brokers;
use super::rights::{Right, is_denial};

/// How long to wait for events of a client.
const EVENT_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum events to read.
const MAX_EVENTS: usize = 100;

/// Advice of librdkafka that never helps: the option is fixed, and no broker sends more.
const LARGER_RESPONSES: &str = ": increase receive.message.max.bytes";

/// Keeps the last problems of a client.
pub(super) struct Problems {
    brokers: Brokers,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    /// Of the connections.
    reason: Option<String>,
    /// That a right is missing.
    denied: Option<Code>,
}

impl Problems {
    /// A client whose problems are kept.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub(super) fn observed(
        brokers: &Brokers,
        mut config: ClientConfig,
    ) -> Result<LoggedIn<BaseConsumer<Self>>, KafkaError> {
        // A broker that ends a connection without an answer is a line of the log, and no event.
        config.set_log_level(RDKafkaLogLevel::Info);
        brokers.create(&config, Self { brokers: brokers.clone(), last: Mutex::default() })
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_reason(&self, reason: &str) {
        self.last().reason = Some(self.brokers.without_secrets(reason));
    }
}

impl ClientContext for Problems {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            // After the name of a thread.
            self.keep_reason(message.split_once("]: ").map_or(message, |(_, reason)| reason));
        }
    }

    fn error(&self, error: ClientError, reason: &str) {
        match error.rdkafka_error_code() {
            // It follows from what was reported of each of them.
            Some(Code::AllBrokersDown) => (),
            Some(code) if is_denial(code) => self.last().denied = Some(code),
            _ => self.keep_reason(reason),
        }
    }
}

impl ConsumerContext for Problems {}

/// The error of a request that needs these rights, with the problem that explains it.
pub(super) fn explain(
    brokers: &Brokers,
    client: &BaseConsumer<Problems>,
    rights: &[Right],
    error: &ClientError,
) -> KafkaError {
    let denied = |code: Option<Code>| code.and_then(|code| brokers.denied(rights, code));
    if let Some(denied) = denied(error.rdkafka_error_code()) {
        return denied;
    }
    // Events reach the context when the client is polled; a poll without time ends at a log line.
    let mut polls = (0..MAX_EVENTS).map(|_| client.poll(EVENT_TIMEOUT));
    while polls.next().is_some_and(|event| event.is_some()) {}
    let last = std::mem::take(&mut *client.context().last());
    denied(last.denied).unwrap_or_else(|| {
        brokers.unreachable(match last.reason {
            Some(reason) => format!("{error}: {}", reason.replace(LARGER_RESPONSES, "")),
            None => error.to_string(),
        })
    })
}

/// What helps against a problem in the words of librdkafka. Brokers end a connection without a word
/// if it lacks TLS, at its first request, or a login, at its second: the state shows which.
pub(super) fn next_step(problem: &str) -> &'static str {
    if problem.contains("connecting to a PLAINTEXT broker listener") {
        "if they have no TLS, leave security.protocol out, or set SASL_PLAINTEXT for a login"
    } else if problem.contains("uthentication failed") {
        "check sasl.username, the password and sasl.mechanism"
    } else if problem.contains("Failed to resolve") {
        "check the host name: it is from --brokers, or from advertised.listeners of the brokers"
    } else if problem.contains("Invalid response size") {
        "what answers there is not a Kafka broker: check the port in --brokers"
    } else if problem.contains("in state APIVERSION_QUERY") {
        "check that it is up; if it wants TLS, set --kafka security.protocol=SSL, or SASL_SSL with \
         a login"
    } else if problem.contains("in state UP") {
        "check that it is up; if it wants a login, set --kafka security.protocol=SASL_SSL \
         (SASL_PLAINTEXT without TLS), sasl.mechanism and sasl.username, and --kafka-password-file"
    } else {
        "check that it is up and that --brokers is right"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of librdkafka 2.12.
    #[test]
    fn what_the_listener_wants_is_recognised() {
        for (problem, step) in [
            (
                "b:1/bootstrap: Disconnected: connection closed by peer: receive 0 after POLLIN \
                 (after 3ms in state APIVERSION_QUERY, 1 identical error(s) suppressed)",
                "security.protocol=SSL",
            ),
            (
                "b:1/bootstrap: Disconnected: connection closed by peer: receive 0 after POLLIN \
                 (after 2ms in state UP)",
                "security.protocol=SASL_SSL",
            ),
            (
                "ssl://b:1/bootstrap: Send failed: SSL transport error: Broken pipe (after 0ms in \
                 state UP)",
                "security.protocol=SASL_SSL",
            ),
            (
                "ssl://b:1/bootstrap: SSL handshake failed: Disconnected: connecting to a \
                 PLAINTEXT broker listener? (after 1ms in state SSL_HANDSHAKE)",
                "leave security.protocol out",
            ),
            (
                "sasl_ssl://b:1/bootstrap: SASL authentication error: Authentication failed: \
                 Invalid username or password",
                "check sasl.username",
            ),
            ("b:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused", "it is up"),
            (
                "b:1/bootstrap: Failed to resolve 'b:1': Name or service not known (after 0ms in \
                 state CONNECT)",
                "check the host name",
            ),
            (
                "b:1/bootstrap: Receive failed: Invalid response size -2080374784 (0..100000000) \
                 (after 2ms in state APIVERSION_QUERY)",
                "not a Kafka broker",
            ),
        ] {
            assert!(next_step(problem).contains(step), "{problem}: {}", next_step(problem));
        }
    }
}
