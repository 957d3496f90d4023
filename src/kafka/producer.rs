//! Records out, acknowledged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::types::RDKafkaErrorCode;

use super::KafkaError;
use super::client::Brokers;
use crate::source::Headers;

/// The least and the longest wait before a record is sent once more.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How long the client tries on its own.
const TRIES: Duration = Duration::from_secs(30);

/// A record to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Out {
    /// Its key; records of one key go to one partition.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers.
    pub headers: Headers,
    /// Its timestamp, ms since 1970; `None` takes the clock.
    pub timestamp_ms: Option<i64>,
}

/// Where a record stands in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its partition.
    pub partition: i32,
    /// Its offset; `None` where the broker has it from an earlier try and does not say.
    pub offset: Option<i64>,
}

/// Sends records, each until it is acknowledged by every replica in step. Partitions as Java's
/// clients do.
#[derive(Clone)]
pub struct Producer {
    client: FutureProducer,
    brokers: Brokers,
    on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Producer {
    /// A producer. `on_waiting` is told when a record has to wait, and why.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn new(
        brokers: &Brokers,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, KafkaError> {
        let tries = brokers.limit(TRIES).as_millis().to_string();
        let config = brokers.config(&[
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("partitioner", "murmur2_random"),
            ("linger.ms", "5"),
            ("compression.type", "lz4"),
            ("message.timeout.ms", &tries),
            ("allow.auto.create.topics", "false"),
        ]);
        let client = config.create();
        let client = client.map_err(|error| KafkaError::Options { problem: error.to_string() })?;
        Ok(Self { client, brokers: brokers.clone(), on_waiting })
    }

    /// What an error of this producer says of the log.
    pub fn failed(&self, doing: &'static str) -> impl Fn(ClientError) -> KafkaError {
        move |error| self.brokers.failed(doing, error)
    }

    /// Sends records and waits for all of them to be acknowledged: for as long as it takes, or
    /// until the patience with these brokers is over and none was meanwhile.
    ///
    /// # Errors
    /// One that trying again cannot help, or the last one when the patience is over. Some of the
    /// records may be there.
    pub async fn send(&self, topic: &str, records: &[Out]) -> Result<(), ClientError> {
        let records: Vec<_> = records.iter().map(|record| (record, None)).collect();
        self.place(topic, &records).await.map(drop)
    }

    /// [`Producer::send`], and where each record stands then. One that comes with a partition goes
    /// there, whatever its key.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub async fn place(
        &self,
        topic: &str,
        records: &[(&Out, Option<i32>)],
    ) -> Result<Vec<Placed>, ClientError> {
        let mut placed = vec![Placed { partition: -1, offset: None }; records.len()];
        let mut waiting: Vec<usize> = (0..records.len()).collect();
        let (mut wait, mut heard) = (WAITS.0, Instant::now());
        while !waiting.is_empty() {
            let (failed, why) = self.try_once(topic, records, &waiting, &mut placed).await?;
            if failed.len() < waiting.len() {
                heard = Instant::now();
            }
            waiting = failed;
            if let Some(why) = why {
                if self.brokers.patience().is_some_and(|patience| heard.elapsed() >= patience) {
                    return Err(why);
                }
                (self.on_waiting)(&format!("topic `{topic}` takes no records: {why}"));
                let jitter = 0.5 + fastrand::f64() / 2.0;
                tokio::time::sleep(wait.mul_f64(jitter)).await;
                wait = (wait * 2).min(WAITS.1);
            }
        }
        Ok(placed)
    }

    /// Sends each of those that wait once. Returns those that have to be sent again, with a reason.
    async fn try_once(
        &self,
        topic: &str,
        records: &[(&Out, Option<i32>)],
        waiting: &[usize],
        placed: &mut [Placed],
    ) -> Result<(Vec<usize>, Option<ClientError>), ClientError> {
        let (mut sent, mut failed, mut why) = (Vec::with_capacity(waiting.len()), Vec::new(), None);
        for &nth in waiting {
            let (record, partition) = records[nth];
            match self.client.send_result(of(topic, record, partition)) {
                Ok(delivery) => sent.push((nth, delivery)),
                Err((error, _)) => {
                    refused(&error)?;
                    failed.push(nth);
                    why = Some(error);
                }
            }
        }
        for (nth, delivery) in sent {
            match delivery.await {
                Ok(Ok(done)) => {
                    let offset = Some(done.offset).filter(|offset| *offset >= 0);
                    placed[nth] = Placed { partition: done.partition, offset };
                }
                Ok(Err((error, _))) => {
                    refused(&error)?;
                    failed.push(nth);
                    why = Some(error);
                }
                Err(_) => return Err(ClientError::Canceled),
            }
        }
        Ok((failed, why))
    }
}

fn of<'r>(
    topic: &'r str,
    record: &'r Out,
    partition: Option<i32>,
) -> FutureRecord<'r, Vec<u8>, Vec<u8>> {
    let mut out = FutureRecord::to(topic).payload(&record.value);
    if let Some(partition) = partition {
        out = out.partition(partition);
    }
    if let Some(key) = &record.key {
        out = out.key(key);
    }
    if let Some(timestamp_ms) = record.timestamp_ms {
        out = out.timestamp(timestamp_ms);
    }
    out.headers = headers(&record.headers);
    out
}

/// Headers as the client wants them; `None` for none.
pub(super) fn headers(headers: &Headers) -> Option<OwnedHeaders> {
    let new = || OwnedHeaders::new_with_capacity(headers.len());
    let add = |all: OwnedHeaders, (name, value): &(String, Option<Vec<u8>>)| {
        all.insert(Header { key: name, value: value.as_ref() })
    };
    (!headers.is_empty()).then(|| headers.iter().fold(new(), add))
}

/// Whether an error stays an error however often the record is sent.
fn refused(error: &ClientError) -> Result<(), ClientError> {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(
            Code::MessageSizeTooLarge
            | Code::InvalidMessageSize
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::InvalidRecord
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::Fatal,
        ) => Err(error.clone()),
        _ => Ok(()),
    }
}
