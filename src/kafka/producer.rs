//! Records out, acknowledged.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
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

/// What the client takes, and puts together, at most, where nobody says, bytes.
const MOST_BYTES: usize = 1_000_000;

/// What a batch of one record takes beside key, value and headers, at most, bytes.
const FRAME: usize = 110;

/// What a header takes beside its name and value, at most, bytes.
const HEADER_FRAME: usize = 10;

/// A record to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Its key; records of one key go to one partition.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers.
    pub headers: Headers,
    /// Its timestamp, ms since 1970; `None` takes the clock.
    pub timestamp_ms: Option<i64>,
}

/// What a record takes in a topic, about and at most, bytes.
pub(super) fn size(record: &ProducerRecord) -> usize {
    let headers: usize = record.headers.iter().map(size_of_header).sum();
    FRAME + record.key.as_ref().map_or(0, Vec::len) + record.value.len() + headers
}

/// What a header takes of it.
pub(super) fn size_of_header((name, value): &(String, Option<Vec<u8>>)) -> usize {
    name.len() + value.as_ref().map_or(0, Vec::len) + HEADER_FRAME
}

/// Where a record stands in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMetadata {
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
    config: ClientConfig,
    /// Sends each record in a batch of its own; there is none until one has to.
    alone: Arc<OnceLock<FutureProducer>>,
    max_bytes: usize,
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
        Self::within(brokers, on_waiting, MOST_BYTES)
    }

    /// A producer for topics that take batches of so many bytes: one that is larger is refused with
    /// every record in it.
    ///
    /// # Errors
    /// Those of [`Producer::new`].
    pub fn within(
        brokers: &Brokers,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
        batch_bytes: usize,
    ) -> Result<Self, KafkaError> {
        let batch_bytes = batch_bytes.clamp(1, MOST_BYTES).to_string();
        let tries = brokers.limit(TRIES).as_millis().to_string();
        let config = brokers.config(&[
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("partitioner", "murmur2_random"),
            ("linger.ms", "5"),
            ("batch.size", &batch_bytes),
            ("compression.type", "lz4"),
            ("message.timeout.ms", &tries),
            ("allow.auto.create.topics", "false"),
        ]);
        let client = config.create();
        let client = client.map_err(|error| brokers.refused(&error))?;
        let max_bytes = config.get("message.max.bytes").and_then(|bytes| bytes.parse().ok());
        Ok(Self {
            client,
            config,
            alone: Arc::default(),
            max_bytes: max_bytes.unwrap_or(MOST_BYTES),
            brokers: brokers.clone(),
            on_waiting,
        })
    }

    /// The largest record that the client takes, bytes.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
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
    pub async fn send(&self, topic: &str, records: &[ProducerRecord]) -> Result<(), ClientError> {
        let records: Vec<_> = records.iter().map(|record| (record, None)).collect();
        self.send_to_partition(topic, &records).await.map(drop)
    }

    /// [`Producer::send`], and where each record stands then. One that comes with a partition goes
    /// there, whatever its key.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub async fn send_to_partition(
        &self,
        topic: &str,
        records: &[(&ProducerRecord, Option<i32>)],
    ) -> Result<Vec<RecordMetadata>, ClientError> {
        let (placed, too_large) = self.deliver(&self.client, topic, records).await?;
        match too_large.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(placed),
        }
    }

    /// [`Producer::send`], but for those that are too large for the topic or the client: returns
    /// which these are. The others are there, once each.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub async fn offer(
        &self,
        topic: &str,
        records: &[ProducerRecord],
    ) -> Result<Vec<usize>, ClientError> {
        let records: Vec<_> = records.iter().map(|record| (record, None)).collect();
        let (_, refused) = self.deliver(&self.client, topic, &records).await?;
        let mut too_large = Vec::with_capacity(refused.len());
        for (nth, _) in refused {
            // It may have been that of a batch which was.
            let again = self.deliver(self.alone()?, topic, &records[nth..=nth]).await?;
            if !again.1.is_empty() {
                too_large.push(nth);
            }
        }
        Ok(too_large)
    }

    /// [`Producer::offer`] with a batch for each record, so that none shares another's refusal.
    ///
    /// # Errors
    /// Those of [`Producer::send`].
    pub async fn offer_alone(
        &self,
        topic: &str,
        records: &[ProducerRecord],
    ) -> Result<Vec<usize>, ClientError> {
        let records: Vec<_> = records.iter().map(|record| (record, None)).collect();
        let (_, refused) = self.deliver(self.alone()?, topic, &records).await?;
        Ok(refused.into_iter().map(|(nth, _)| nth).collect())
    }

    fn alone(&self) -> Result<&FutureProducer, ClientError> {
        if let Some(alone) = self.alone.get() {
            return Ok(alone);
        }
        let alone = self.config.clone().set("batch.num.messages", "1").create()?;
        // Another one may have been sooner.
        Ok(self.alone.get_or_init(|| alone))
    }

    /// Sends records until each is acknowledged, or refused as too large.
    async fn deliver(
        &self,
        client: &FutureProducer,
        topic: &str,
        records: &[(&ProducerRecord, Option<i32>)],
    ) -> Result<(Vec<RecordMetadata>, TooLarge), ClientError> {
        let mut too_large = TooLarge::new();
        let mut placed = vec![RecordMetadata { partition: -1, offset: None }; records.len()];
        let mut waiting: Vec<usize> = (0..records.len()).collect();
        let (mut wait, mut heard) = (WAITS.0, Instant::now());
        while !waiting.is_empty() {
            let so_far = (&mut placed[..], &mut too_large);
            let (failed, why) = try_once(client, topic, records, &waiting, so_far).await?;
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
        Ok((placed, too_large))
    }
}

/// Which records are too large, and what was said of each.
type TooLarge = Vec<(usize, ClientError)>;

/// Sends each of those that wait once. Returns those that have to be sent again, with a reason.
async fn try_once(
    client: &FutureProducer,
    topic: &str,
    records: &[(&ProducerRecord, Option<i32>)],
    waiting: &[usize],
    (placed, too_large): (&mut [RecordMetadata], &mut TooLarge),
) -> Result<(Vec<usize>, Option<ClientError>), ClientError> {
    let (mut sent, mut failed, mut why) = (Vec::with_capacity(waiting.len()), Vec::new(), None);
    for &nth in waiting {
        let (record, partition) = records[nth];
        match client.send_result(base_record(topic, record, partition)) {
            Ok(delivery) => sent.push((nth, delivery)),
            Err((error, _)) if is_too_large(&error) => too_large.push((nth, error)),
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
                placed[nth] = RecordMetadata { partition: done.partition, offset };
            }
            Ok(Err((error, _))) if is_too_large(&error) => too_large.push((nth, error)),
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

fn base_record<'r>(
    topic: &'r str,
    record: &'r ProducerRecord,
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

fn is_too_large(error: &ClientError) -> bool {
    use RDKafkaErrorCode as Code;
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize)
    )
}

/// Whether an error stays an error however often the record is sent.
fn refused(error: &ClientError) -> Result<(), ClientError> {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(
            Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::Fatal,
        ) => Err(error.clone()),
        _ => Ok(()),
    }
}
