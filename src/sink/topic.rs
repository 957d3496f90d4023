//! Writes the rows of a partition to its store, and the table, the changes and the dead letters to
//! topics.

use std::sync::Arc;

use rdkafka::error::KafkaError as ClientError;

use super::position::KeptPosition;
use super::table::{TableTopic, TableWriter};
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::letter_record::Limit;
use crate::kafka::partition_handle::PartitionHandle;
use crate::kafka::producer::{ConfiguredProducer, Producer, ProducerClient};
use crate::kafka::topics::Topics;
use crate::model::epoch::Epoch;
use crate::model::scalar::DeviceTime;
use crate::store::{Flush, Forget, Order, Result, StoreError, TripStore};

/// Maximum number of trips of a device that are read at once before they are erased.
const ERASED_PAGE: usize = 1000;

/// Output topics of the log: table, change feed and dead letters.
#[derive(Clone)]
pub struct OutputTopics<C = ConfiguredProducer> {
    /// Sends to both topics.
    pub producer: Producer<C>,
    /// Input topic.
    pub input: String,
    /// Topic of the change feed; `None`: no change feed.
    pub feed: Option<String>,
    /// Topic of the dead letters; `None` if an earlier run has sent them.
    pub letters: Option<String>,
    /// The table topic, if it is written.
    pub table: Option<TableTopic>,
    /// Maximum size of an event, bytes.
    pub event_bytes: usize,
    /// Maximum size of a dead letter.
    pub letter_limit: Limit,
}

/// Writes trips to the store, then the table, the changes and the dead letters to topics, each
/// acknowledged before the next; then the position may be committed.
pub(super) struct TopicSink<T, C: ProducerClient> {
    trips: Arc<T>,
    outputs: Arc<OutputTopics<C>>,
    handle: Arc<PartitionHandle>,
    table: TableWriter<C>,
    position: Option<KeptPosition>,
}

impl<T, C: ProducerClient> TopicSink<T, C> {
    /// The sink of an assigned partition. It keeps the position with the rows, in the epoch given.
    pub(super) fn new(
        trips: Arc<T>,
        outputs: Arc<OutputTopics<C>>,
        handle: Arc<PartitionHandle>,
        epoch: Option<Arc<Epoch>>,
    ) -> Self {
        let table = TableWriter::new(Arc::clone(&handle));
        let position = epoch.map(|epoch| KeptPosition::new(epoch, Arc::clone(&handle)));
        Self { trips, outputs, handle, table, position }
    }
}

impl<T: TripStore, C: ProducerClient> TopicSink<T, C> {
    pub(super) async fn stage(&self, ahead: &Flush) -> Result<()> {
        if !ahead.groups.is_empty() {
            self.trips.write(&ahead.groups).await?;
        }
        if let Some(table) = &self.outputs.table {
            self.table.send_changes(table, ahead).await?;
        }
        self.outputs.send_changes(ahead).await?;
        self.outputs.send_dead_letters(&ahead.dead_letters).await
    }

    pub(super) async fn commit(&self, flush: &Flush) -> Result<()> {
        self.stage(flush).await?;
        if let Some(position) = &self.position {
            position.advance(&*self.trips, flush.position.delivered).await?;
        }
        self.handle.acknowledge(flush.position.delivered);
        Ok(())
    }

    /// Begins to write, which ends what an earlier owner of the partition may still write.
    pub(super) async fn begin(&self) -> Result<()> {
        if let Some(table) = &self.outputs.table {
            self.table.begin(table, &self.outputs.producer).await?;
        }
        if let Some(position) = &self.position {
            position.begin(&*self.trips).await?;
        }
        Ok(())
    }

    pub(super) async fn announce_erasure(&self, device_id: &str, forget: &Forget) -> Result<()> {
        let Some(table) = &self.outputs.table else { return Ok(()) };
        // Before the tombstones: a later owner that loads these trips would announce them again,
        // and this one may wake up and erase them before that owner reads which they are.
        self.trips.begin_forget(device_id, forget).await?;
        let before_ms = forget.before_ms;
        let mut from_ms = DeviceTime::MIN;
        loop {
            let span = (from_ms, before_ms);
            let kinds = table.kinds;
            let page = self.trips.range(device_id, kinds, span.0, span.1, Order::Asc, ERASED_PAGE);
            let mut erased = page.await?;
            let is_last = erased.len() < ERASED_PAGE;
            from_ms = erased.last().map_or(before_ms, |last| last.end_ms.saturating_add(1));
            erased.retain(|row| row.end_ms < before_ms);
            self.table.send_erased(table, &erased).await?;
            if is_last {
                return Ok(());
            }
        }
    }
}

impl OutputTopics {
    /// Outputs to the topics of the change feed and of dead letters (`None`: not written), with the
    /// size limit of each topic. If the brokers do not report a limit, a refused record reveals it.
    ///
    /// # Errors
    /// No broker responds, or the client rejects an option.
    pub async fn new(
        brokers: &Brokers,
        on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
        topics: &Topics,
        input: String,
        (feed, letters): (Option<String>, Option<String>),
    ) -> Result<Self, KafkaError> {
        let mut batch_bytes = usize::MAX;
        let (mut event_bytes, mut letter_bytes) = (usize::MAX, usize::MAX);
        for topic in feed.iter().chain(&letters) {
            let Some(max) = topics.max_bytes(topic).await? else { continue };
            batch_bytes = batch_bytes.min(max);
            let topic_limit = match Some(topic) == letters.as_ref() {
                true => &mut letter_bytes,
                false => &mut event_bytes,
            };
            *topic_limit = max;
        }
        let producer = Producer::within(brokers, on_waiting, batch_bytes)?;
        let letter_limit = Limit { record: letter_bytes, content: producer.max_bytes() };
        let event_bytes = event_bytes.min(producer.max_bytes());
        let table = None;
        Ok(Self { producer, input, feed, letters, table, event_bytes, letter_limit })
    }

    /// Writes the table topic as well, with the size limit of that topic.
    ///
    /// # Errors
    /// No broker responds.
    pub(crate) async fn write_table(
        &mut self,
        table: TableTopic,
        topics: &Topics,
    ) -> Result<(), KafkaError> {
        let of_topic = topics.max_bytes(&table.name).await?.unwrap_or(usize::MAX);
        let max_bytes = of_topic.min(self.producer.max_bytes());
        self.table = Some(TableTopic { max_bytes, ..table });
        Ok(())
    }
}

impl<C: ProducerClient> OutputTopics<C> {
    /// Wraps what the client says of a topic.
    pub(super) fn refused<'a>(
        &'a self,
        topic: &'a str,
        doing: &'static str,
    ) -> impl Fn(ClientError) -> StoreError {
        let location = topic.to_owned();
        move |error| {
            let source = match self.producer.failed(doing, topic)(error) {
                KafkaError::Client { source, .. } => source.into(),
                error => error.into(),
            };
            StoreError::Failed { location: location.clone(), doing, source }
        }
    }
}

/// The error of a topic that refuses even the smallest encoding of a record.
pub(super) fn too_small_limit(topic: &str, what: &str, bytes: usize) -> StoreError {
    let problem =
        format!("this {what} has at least {bytes} bytes; raise max.message.bytes of `{topic}`");
    let source = KafkaError::TooLarge { problem }.into();
    StoreError::Failed { location: topic.to_owned(), doing: "sending a record", source }
}

#[cfg(test)]
#[path = "topic_tests.rs"]
mod tests;
