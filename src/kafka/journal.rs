//! The change feed and the dead letters of a partition, and how far it is acknowledged.

use std::ops::Deref;
use std::sync::Arc;

use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode;
use sha2::{Digest, Sha256};

use super::KafkaError;
use super::holding::Holding;
use super::producer::{Out, Producer};
use crate::feed;
use crate::source::Headers;
use crate::store::{DeadLetter, Flush, Journal, Position, StoreError, TripStore};

/// Bytes kept of a value that the topic of dead letters does not take.
const HEAD_BYTES: usize = 1 << 10;

/// Headers of a dead letter: the names that Kafka Connect uses, then ours.
pub(super) const TOPIC: &str = "__connect.errors.topic";
pub(super) const PARTITION: &str = "__connect.errors.partition";
pub(super) const OFFSET: &str = "__connect.errors.offset";
pub(super) const CONNECTOR: &str = "__connect.errors.connector.name";
pub(super) const REASON: &str = "__connect.errors.exception.class.name";
pub(super) const MESSAGE: &str = "__connect.errors.exception.message";
pub(super) const ELEMENT: &str = "tstar-element";
pub(super) const LENGTH: &str = "tstar-length";
pub(super) const SHA256: &str = "tstar-sha256";

/// The connector's name: who wrote the letter.
pub(super) const TSTAR: &str = "tstar";

/// Where the changes and the dead letters of a topic go.
#[derive(Clone)]
pub struct Outputs {
    /// Sends them.
    pub producer: Producer,
    /// Topic that is read.
    pub input: String,
    /// Topic of the changes; `None` where nobody wants them.
    pub feed: Option<String>,
    /// Topic of the dead letters; `None` where they were sent before.
    pub letters: Option<String>,
}

/// The journal of the owner of a partition: trips go to the store, then their changes and the dead
/// letters to topics, each acknowledged before the next; then the position may be committed.
pub struct TopicJournal<T> {
    trips: T,
    outputs: Arc<Outputs>,
    holding: Arc<Holding>,
}

impl<T> TopicJournal<T> {
    /// The journal of a partition that is held.
    #[must_use]
    pub fn new(trips: T, outputs: Arc<Outputs>, holding: Arc<Holding>) -> Self {
        Self { trips, outputs, holding }
    }
}

impl<T> Journal for TopicJournal<T>
where
    T: Deref<Target: TripStore> + Send + Sync,
{
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        if !ahead.trips.is_empty() {
            self.trips.apply(&ahead.trips).await?;
        }
        self.outputs.tell(ahead).await?;
        self.outputs.bury(&ahead.dead_letters).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.stage(flush).await?;
        self.holding.acknowledge(flush.position.delivered);
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        Ok(Position { delivered: self.holding.acknowledged() })
    }
}

impl Outputs {
    fn refused(&self, topic: &str, doing: &'static str) -> impl Fn(ClientError) -> StoreError {
        let place = topic.to_owned();
        move |error| {
            let source = match self.producer.failed(doing)(error) {
                KafkaError::Client { source, .. } => source.into(),
                away => away.into(),
            };
            StoreError::Failed { place: place.clone(), doing, source }
        }
    }

    async fn tell(&self, flush: &Flush) -> Result<(), StoreError> {
        let Some(topic) = &self.feed else { return Ok(()) };
        let mut records = Vec::with_capacity(flush.changes.len() + flush.forgotten.len());
        for change in &flush.changes {
            let row = &flush.trips[change.row];
            let event = feed::event(change, row).map_err(|error| StoreError::Failed {
                place: topic.clone(),
                doing: "writing an event",
                source: error.into(),
            })?;
            records.push(keyed(&row.device_id, event));
        }
        for forgotten in &flush.forgotten {
            records.push(keyed(&forgotten.device_id, feed::forgotten(forgotten)));
        }
        let sent = self.producer.send(topic, &records).await;
        sent.map_err(self.refused(topic, "sending changes"))
    }

    async fn bury(&self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        let Some(topic) = &self.letters else { return Ok(()) };
        let records: Vec<Out> = letters.iter().map(|it| letter(&self.input, it)).collect();
        match self.producer.send(topic, &records).await {
            Err(error) if is_too_large(&error) => (),
            sent => return sent.map_err(self.refused(topic, "sending dead letters")),
        }
        // At least one is: these come a second time, the large ones as their heads.
        for record in records {
            match self.producer.send(topic, std::slice::from_ref(&record)).await {
                Err(error) if is_too_large(&error) => {
                    let sent = self.producer.send(topic, &[cut(record)]).await;
                    sent.map_err(self.refused(topic, "sending a dead letter"))?;
                }
                sent => sent.map_err(self.refused(topic, "sending a dead letter"))?,
            }
        }
        Ok(())
    }
}

fn keyed(device_id: &str, event: String) -> Out {
    Out { key: Some(device_id.as_bytes().to_vec()), value: event.into_bytes(), ..Out::default() }
}

fn is_too_large(error: &ClientError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}

/// A dead letter as a record: the original key, value, headers and timestamp, and why it is here
/// under the names that Kafka Connect uses.
pub(super) fn letter(input: &str, letter: &DeadLetter) -> Out {
    let mut headers = letter.headers.clone();
    let mut add = |name: &str, value: String| {
        headers.push((name.to_owned(), Some(value.into_bytes())));
    };
    add(TOPIC, input.to_owned());
    add(PARTITION, letter.partition.to_string());
    add(OFFSET, letter.offset.to_string());
    add(CONNECTOR, TSTAR.to_owned());
    add(REASON, letter.reason.name().to_owned());
    add(MESSAGE, letter.message.clone());
    if let Some(element) = letter.element {
        add(ELEMENT, element.to_string());
    }
    if let Some(sha256) = &letter.sha256 {
        cut_headers(&mut headers, letter.value_bytes, sha256);
    }
    Out {
        key: letter.key.clone(),
        value: letter.value.clone(),
        headers,
        timestamp_ms: Some(letter.log_time_ms).filter(|time_ms| *time_ms > 0),
    }
}

fn cut_headers(headers: &mut Headers, bytes: u64, sha256: &[u8]) {
    headers.push((LENGTH.into(), Some(bytes.to_string().into_bytes())));
    let hash = data_encoding::HEXLOWER.encode(sha256);
    headers.push((SHA256.into(), Some(hash.into_bytes())));
}

/// A dead letter that is too large for its topic: head, length and hash.
fn cut(mut record: Out) -> Out {
    let hash = Sha256::digest(&record.value);
    cut_headers(&mut record.headers, record.value.len() as u64, &hash);
    record.value.truncate(HEAD_BYTES);
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::DeadReason;

    #[test]
    fn a_dead_letter_keeps_what_came_and_says_why() {
        let came = DeadLetter {
            partition: 3,
            offset: 71,
            element: Some(2),
            reason: DeadReason::BadTime,
            message: "time is no time".into(),
            origin: "samples".into(),
            line: 0,
            log_time_ms: 1_795_210_680_123,
            key: Some(b"truck-17".to_vec()),
            headers: vec![("trace".into(), Some(vec![0xff])), ("empty".into(), None)],
            value: b"{}".to_vec(),
            value_bytes: 2,
            sha256: None,
        };
        let out = letter("samples", &came);
        assert_eq!((out.key, out.timestamp_ms), (came.key.clone(), Some(came.log_time_ms)));
        assert_eq!(out.value, b"{}");
        assert_eq!(out.headers[..2], came.headers[..]);
        let header = |name: &str| {
            let found = out.headers.iter().find(|(known, _)| known == name).unwrap();
            String::from_utf8(found.1.clone().unwrap()).unwrap()
        };
        assert_eq!(header("__connect.errors.topic"), "samples");
        assert_eq!(header("__connect.errors.partition"), "3");
        assert_eq!(header("__connect.errors.offset"), "71");
        assert_eq!(header("__connect.errors.exception.class.name"), "bad_time");
        assert_eq!(header("__connect.errors.exception.message"), "time is no time");
        assert_eq!(header("tstar-element"), "2");
    }

    #[test]
    fn a_value_that_is_too_large_is_kept_as_head_length_and_hash() {
        let whole = Out { value: vec![b'x'; 5000], ..Out::default() };
        let cut = cut(whole.clone());
        assert_eq!(cut.value, whole.value[..HEAD_BYTES]);
        assert_eq!(cut.headers[0].1.as_deref(), Some(&b"5000"[..]));
        assert_eq!(cut.headers[1].1.as_ref().unwrap().len(), 64);
    }
}
