//! Sends records and waits for their acknowledgement.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka_extra::LoggedIn;
use tokio::time::Instant;

use super::KafkaError;
use super::client::Brokers;
use super::rights::Right;
use super::transactions::{KafkaTransactions, TransactionClient, Turns};
use crate::source::Headers;

/// Minimum delay before a record is sent again.
const MIN_BACKOFF: Duration = Duration::from_millis(50);

/// Maximum delay before a record is sent again.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Time in which the client itself retries a record.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Default limit of `message.max.bytes` and `batch.size`, bytes.
const DEFAULT_MAX_BYTES: usize = 1_000_000;

/// Upper bound of the size of a batch of one record without key, value and headers, bytes.
const BATCH_OVERHEAD: usize = 110;

/// Upper bound of the size of a header without its name and value, bytes.
const HEADER_OVERHEAD: usize = 10;

/// A record to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Key; records of one key go to one partition.
    pub key: Option<Vec<u8>>,
    /// Value; an empty one is sent as zero bytes, not as a tombstone.
    pub value: Vec<u8>,
    /// Headers, sent in this order.
    pub headers: Headers,
    /// Timestamp, ms since 1970; `None`: time of sending.
    pub timestamp_ms: Option<i64>,
    /// Partition, which overrides the key; `None`: chosen by the key, like Java's client.
    pub partition: Option<i32>,
}

/// Approximate upper bound of the size of a record in a topic, bytes.
pub(crate) fn size(record: &ProducerRecord) -> usize {
    let headers: usize = record.headers.iter().map(size_of_header).sum();
    BATCH_OVERHEAD + record.key.as_ref().map_or(0, Vec::len) + record.value.len() + headers
}

/// Upper bound of the size of a header, bytes.
pub(super) fn size_of_header((name, value): &(String, Option<Vec<u8>>)) -> usize {
    name.len() + value.as_ref().map_or(0, Vec::len) + HEADER_OVERHEAD
}

/// Position of an acknowledged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
    /// Partition number, from 0.
    pub partition: i32,
    /// Offset; `None` if the broker has the record from an earlier attempt and reports no offset.
    pub offset: Option<i64>,
}

/// The result of sending a record.
pub type Delivery = Result<RecordMetadata, ClientError>;

/// What [`Producer`] needs of a client. Tests replace it.
pub trait ProducerClient: Sized + Send + Sync {
    /// Queues a record; the result is that of its delivery.
    ///
    /// # Errors
    /// The client does not accept the record.
    fn send(
        &self,
        topic: &str,
        record: &ProducerRecord,
    ) -> Result<impl Future<Output = Delivery> + Send + use<Self>, ClientError>;

    /// Sends records in transactions.
    type Transactions: TransactionClient;

    /// Begins to use a transactional id, and fences whoever did before. Waits for brokers without
    /// limit, and calls `on_waiting` with the reason.
    fn transactions(
        &self,
        brokers: &Brokers,
        name: &str,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> impl Future<Output = Result<Self::Transactions, KafkaError>> + Send;

    /// A client that sends each record in its own batch.
    ///
    /// # Errors
    /// It cannot be created.
    fn unbatched(&self) -> Result<Self, ClientError>;
}

/// The client of Kafka, and the configuration from which it was created.
#[derive(Clone)]
pub struct ConfiguredProducer {
    client: Arc<LoggedIn<FutureProducer>>,
    config: ClientConfig,
    brokers: Brokers,
    turns: Turns,
}

impl ProducerClient for ConfiguredProducer {
    fn send(
        &self,
        topic: &str,
        record: &ProducerRecord,
    ) -> Result<impl Future<Output = Delivery> + Send + use<>, ClientError> {
        let sent = self.client.send_result(base_record(topic, record));
        let delivery = sent.map_err(|(error, _)| error)?;
        Ok(async move {
            let done = delivery.await.map_err(|_| ClientError::Canceled)?;
            let done = done.map_err(|(error, _)| error)?;
            let offset = Some(done.offset).filter(|offset| *offset >= 0);
            Ok(RecordMetadata { partition: done.partition, offset })
        })
    }

    type Transactions = KafkaTransactions;

    async fn transactions(
        &self,
        brokers: &Brokers,
        name: &str,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self::Transactions, KafkaError> {
        KafkaTransactions::begin(brokers, name, &self.turns, on_waiting).await
    }

    fn unbatched(&self) -> Result<Self, ClientError> {
        let mut config = self.config.clone();
        config.set("batch.num.messages", "1");
        let client = self.brokers.create(&config, DefaultClientContext);
        let client = client.map_err(|error| ClientError::ClientCreation(error.to_string()))?;
        let (client, turns) = (Arc::new(client), self.turns.clone());
        Ok(Self { client, config, brokers: self.brokers.clone(), turns })
    }
}

/// Sends records, and retries each until all in-sync replicas have acknowledged it. Chooses
/// partitions like Java's client.
#[derive(Clone)]
pub struct Producer<C = ConfiguredProducer> {
    client: C,
    /// Sends each record in its own batch; created when first needed.
    unbatched: Arc<OnceLock<C>>,
    max_bytes: usize,
    brokers: Brokers,
    on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Producer {
    /// Creates a producer. It calls `on_waiting` with the reason when a record has to wait.
    ///
    /// # Errors
    /// The client rejects an option.
    pub fn new(
        brokers: &Brokers,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, KafkaError> {
        Self::within(brokers, on_waiting, DEFAULT_MAX_BYTES)
    }

    /// Creates a producer for topics that accept batches of at most `batch_bytes`: brokers refuse a
    /// larger batch with every record in it.
    ///
    /// # Errors
    /// Those of [`Producer::new`].
    pub fn within(
        brokers: &Brokers,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
        batch_bytes: usize,
    ) -> Result<Self, KafkaError> {
        let batch_bytes = batch_bytes.clamp(1, DEFAULT_MAX_BYTES).to_string();
        let delivery_timeout = brokers.timeout_or(DELIVERY_TIMEOUT).as_millis().to_string();
        let config = brokers.config(&[
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("partitioner", "murmur2_random"),
            ("linger.ms", "5"),
            ("batch.size", &batch_bytes),
            ("compression.type", "lz4"),
            ("message.timeout.ms", &delivery_timeout),
            ("allow.auto.create.topics", "false"),
        ]);
        let client = Arc::new(brokers.create(&config, DefaultClientContext)?);
        let max_bytes = config.get("message.max.bytes").and_then(|bytes| bytes.parse().ok());
        let max_bytes = max_bytes.unwrap_or(DEFAULT_MAX_BYTES);
        let turns = Turns::default();
        let client = ConfiguredProducer { client, config, brokers: brokers.clone(), turns };
        Ok(Self::over(client, max_bytes, brokers, on_waiting))
    }
}

impl<C: ProducerClient> Producer<C> {
    /// A producer over a client that sends records of at most `max_bytes`.
    pub fn over(
        client: C,
        max_bytes: usize,
        brokers: &Brokers,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        let (unbatched, brokers) = (Arc::default(), brokers.clone());
        Self { client, unbatched, max_bytes, brokers, on_waiting }
    }

    /// The client.
    #[cfg(test)]
    pub(crate) fn client(&self) -> &C {
        &self.client
    }

    /// Maximum record size of the client, bytes.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Begins to use a transactional id at the same brokers.
    ///
    /// # Errors
    /// The brokers refuse.
    pub async fn transactions(&self, name: &str) -> Result<C::Transactions, KafkaError> {
        self.client.transactions(&self.brokers, name, Arc::clone(&self.on_waiting)).await
    }

    /// Converts an error of sending to a topic.
    pub fn failed(&self, doing: &'static str, topic: &str) -> impl Fn(ClientError) -> KafkaError {
        let rights = [Right::topic("Write", topic)];
        move |error| self.brokers.failed(doing, &rights, error)
    }

    /// Sends records and waits until all are acknowledged: without limit, or until the brokers have
    /// acknowledged none for longer than their timeout. Returns the position of each.
    ///
    /// # Errors
    /// A permanent error, or the last one when the timeout has passed. Some of the records may have
    /// been written.
    pub async fn send(
        &self,
        topic: &str,
        records: &[ProducerRecord],
    ) -> Result<Vec<RecordMetadata>, ClientError> {
        let (metadata, too_large) = self.deliver(&self.client, topic, records).await?;
        match too_large.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(metadata),
        }
    }

    /// [`Producer::send`] that returns the indices of records that are too large for the topic or
    /// the client. The others are written, once each.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub(crate) async fn send_fitting(
        &self,
        topic: &str,
        records: &[ProducerRecord],
    ) -> Result<Vec<usize>, ClientError> {
        let (_, refused) = self.deliver(&self.client, topic, records).await?;
        let mut too_large = Vec::with_capacity(refused.len());
        for (index, _) in refused {
            // The whole batch may have been too large rather than this record.
            let retry = self.deliver(self.unbatched()?, topic, &records[index..=index]).await?;
            if !retry.1.is_empty() {
                too_large.push(index);
            }
        }
        Ok(too_large)
    }

    /// [`Producer::send_fitting`] with a batch per record, so that a refused record does not affect
    /// others.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub(crate) async fn send_unbatched(
        &self,
        topic: &str,
        records: &[ProducerRecord],
    ) -> Result<Vec<usize>, ClientError> {
        let (_, refused) = self.deliver(self.unbatched()?, topic, records).await?;
        Ok(refused.into_iter().map(|(index, _)| index).collect())
    }

    fn unbatched(&self) -> Result<&C, ClientError> {
        if let Some(client) = self.unbatched.get() {
            return Ok(client);
        }
        let client = self.client.unbatched()?;
        // Another task may have created one meanwhile.
        Ok(self.unbatched.get_or_init(|| client))
    }

    /// Sends records until each is acknowledged, or refused as too large.
    async fn deliver(
        &self,
        client: &C,
        topic: &str,
        records: &[ProducerRecord],
    ) -> Result<(Vec<RecordMetadata>, TooLarge), ClientError> {
        let mut too_large = TooLarge::new();
        let mut metadata = vec![RecordMetadata { partition: -1, offset: None }; records.len()];
        let mut waiting: Vec<usize> = (0..records.len()).collect();
        let (mut backoff, mut last_ack) = (MIN_BACKOFF, Instant::now());
        while !waiting.is_empty() {
            let results = (&mut metadata[..], &mut too_large);
            let (failed, reason) = send_once(client, topic, records, &waiting, results).await?;
            if failed.len() < waiting.len() {
                last_ack = Instant::now();
            }
            waiting = failed;
            if let Some(reason) = reason {
                if self.brokers.timeout().is_some_and(|timeout| last_ack.elapsed() >= timeout) {
                    return Err(reason);
                }
                let hint = if is_timestamp_refused(&reason) { WRONG_CLOCK } else { "" };
                (self.on_waiting)(&format!("topic `{topic}` accepts no records: {reason}{hint}"));
                let jitter = 0.5 + fastrand::f64() / 2.0;
                tokio::time::sleep(backoff.mul_f64(jitter)).await;
                backoff = (backoff * 2).min(MAX_BACKOFF);
            }
        }
        Ok((metadata, too_large))
    }
}

/// Indices of records that are too large, with the error of each.
type TooLarge = Vec<(usize, ClientError)>;

/// Sends each waiting record once. Returns the indices of those to send again, and a reason.
async fn send_once<C: ProducerClient>(
    client: &C,
    topic: &str,
    records: &[ProducerRecord],
    waiting: &[usize],
    (metadata, too_large): (&mut [RecordMetadata], &mut TooLarge),
) -> Result<(Vec<usize>, Option<ClientError>), ClientError> {
    let (mut sent, mut failed, mut reason) = (Vec::with_capacity(waiting.len()), Vec::new(), None);
    for &index in waiting {
        match client.send(topic, &records[index]) {
            Ok(delivery) => sent.push((index, delivery)),
            Err(error) if is_too_large(&error) => too_large.push((index, error)),
            Err(error) => {
                fail_if_permanent(&error, &records[index])?;
                failed.push(index);
                reason = Some(error);
            }
        }
    }
    for (index, delivery) in sent {
        match delivery.await {
            Ok(done) => metadata[index] = done,
            Err(error) if is_too_large(&error) => too_large.push((index, error)),
            Err(error) => {
                fail_if_permanent(&error, &records[index])?;
                failed.push(index);
                reason = Some(error);
            }
        }
    }
    Ok((failed, reason))
}

fn base_record<'r>(
    topic: &'r str,
    record: &'r ProducerRecord,
) -> FutureRecord<'r, Vec<u8>, Vec<u8>> {
    let mut out = FutureRecord::to(topic).payload(&record.value);
    out.partition = record.partition;
    out.timestamp = record.timestamp_ms;
    if let Some(key) = &record.key {
        out = out.key(key);
    }
    out.headers = headers(&record.headers);
    out
}

/// Converts headers to the client's type; `None` if there are none.
pub(super) fn headers(headers: &Headers) -> Option<OwnedHeaders> {
    let new = || OwnedHeaders::new_with_capacity(headers.len());
    let add = |all: OwnedHeaders, (name, value): &(String, Option<Vec<u8>>)| {
        all.insert(Header { key: name, value: value.as_ref() })
    };
    (!headers.is_empty()).then(|| headers.iter().fold(new(), add))
}

fn is_too_large(error: &ClientError) -> bool {
    use RDKafkaErrorCode as Code;
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize)
    )
}

/// What is added to the message of a record that was refused for the time of this machine.
const WRONG_CLOCK: &str = "; is the clock of this machine right? brokers refuse times too far \
                           ahead of theirs (message.timestamp.after.max.ms)";

/// Whether a batch may have been refused for a timestamp: brokers then report an invalid record.
pub(crate) fn is_timestamp_refused(error: &ClientError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(error.rdkafka_error_code(), Some(Code::InvalidTimestamp | Code::InvalidRecord))
}

/// Passes on an error that sending again cannot resolve; any other is `Ok`. A record without a
/// timestamp has that of the machine's clock, which may be corrected.
fn fail_if_permanent(error: &ClientError, record: &ProducerRecord) -> Result<(), ClientError> {
    use RDKafkaErrorCode as Code;
    let is_permanent = match error.rdkafka_error_code() {
        Some(
            Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::Fatal,
        ) => true,
        _ => is_timestamp_refused(error) && record.timestamp_ms.is_some(),
    };
    if is_permanent { Err(error.clone()) } else { Ok(()) }
}
