//! Why brokers do not answer: librdkafka's requests report only that they timed out, its events
//! why.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::client::Brokers;

/// How long to wait for events of a client.
const EVENT_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum events to read.
const MAX_EVENTS: usize = 100;

/// Keeps the last problem with the connections of a client.
pub(super) struct Problems {
    brokers: Brokers,
    last: Mutex<Option<String>>,
}

impl Problems {
    pub(super) fn new(brokers: &Brokers) -> Self {
        Self { brokers: brokers.clone(), last: Mutex::default() }
    }
}

impl ClientContext for Problems {
    fn error(&self, error: ClientError, reason: &str) {
        // That all brokers are down follows from what was reported of each of them.
        if error.rdkafka_error_code() != Some(Code::AllBrokersDown) {
            let reason = self.brokers.without_secrets(reason);
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        }
    }
}

impl ConsumerContext for Problems {}

/// The error of a request, with the problem of the connections that explains it.
pub(super) fn explain(client: &BaseConsumer<Problems>, error: &ClientError) -> String {
    // Events reach the context when the client is polled; a poll without time ends at a log line.
    let mut polls = (0..MAX_EVENTS).map(|_| client.poll(EVENT_TIMEOUT));
    while polls.next().is_some_and(|event| event.is_some()) {}
    let last = &client.context().last;
    match last.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(reason) => format!("{error}: {reason}"),
        None => error.to_string(),
    }
}
