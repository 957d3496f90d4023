//! Writes the table topic, the change feed and the dead letters of a partition, and acknowledges
//! its offsets.

use std::ops::Deref;
use std::sync::Arc;

use rdkafka::error::KafkaError as ClientError;

use super::client::Brokers;
use super::feed_record::{Subject, feed_record};
use super::kept_position::KeptPosition;
use super::letter_limit::Limit;
use super::partition_handle::PartitionHandle;
use super::producer::{
    ConfiguredProducer, Producer, ProducerClient, ProducerRecord, is_timestamp_refused, size,
};
use super::table::{TableTopic, TableWriter};
use super::topic::Topics;
use super::{KafkaError, letter_limit};
use crate::identity::token_of_device;
use crate::model::epoch::Epoch;
use crate::model::scalar::DeviceTime;
use crate::store::{
    Change, DeadLetter, Flush, Forget, Journal, Order, Position, PositionStore, StoreError,
    TripStore,
};
use crate::views::{ViewError, event, text_id};

/// Approximate maximum size of the dead letters in one request, bytes.
const MAX_LETTER_BYTES: usize = 4 << 20;

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

/// The journal of a partition worker: it writes trips to the store, then the table, the changes and
/// the dead letters to topics, each acknowledged before the next; then the position may be
/// committed.
pub struct KafkaJournal<T, C: ProducerClient = ConfiguredProducer> {
    trips: T,
    outputs: Arc<OutputTopics<C>>,
    handle: Arc<PartitionHandle>,
    table: TableWriter<C>,
    position: Option<KeptPosition>,
}

impl<T, C: ProducerClient> KafkaJournal<T, C> {
    /// The journal of an assigned partition. It keeps the position with the rows, in the epoch
    /// given; `None` if some records are read again into rows that have others.
    #[must_use]
    pub fn new(
        trips: T,
        outputs: Arc<OutputTopics<C>>,
        handle: Arc<PartitionHandle>,
        epoch: Option<Arc<Epoch>>,
    ) -> Self {
        let table = TableWriter::new(Arc::clone(&handle));
        let position = epoch.map(|epoch| KeptPosition::new(epoch, Arc::clone(&handle)));
        Self { trips, outputs, handle, table, position }
    }
}

impl<T, C> Journal for KafkaJournal<T, C>
where
    T: Deref<Target: TripStore + PositionStore + Sized> + Send + Sync,
    C: ProducerClient,
{
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        if !ahead.trips.is_empty() {
            self.trips.apply(&ahead.trips).await?;
        }
        if let Some(table) = &self.outputs.table {
            self.table.send_changes(table, ahead).await?;
        }
        self.outputs.send_changes(ahead).await?;
        self.outputs.send_dead_letters(&ahead.dead_letters).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.stage(flush).await?;
        if let Some(position) = &self.position {
            position.advance(&*self.trips, flush.position.delivered).await?;
        }
        self.handle.acknowledge(flush.position.delivered);
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        if let Some(table) = &self.outputs.table {
            self.table.begin(table, &self.outputs.producer).await?;
        }
        if let Some(position) = &self.position {
            position.begin(&*self.trips).await?;
        }
        Ok(Position { delivered: self.handle.acknowledged() })
    }

    async fn announce_erasure(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        let Some(table) = &self.outputs.table else { return Ok(()) };
        // Before the tombstones: a later owner that loads these trips would announce them again,
        // and this one may wake up and erase them before that owner reads which they are.
        self.trips.begin_forget(device_id, forget).await?;
        let before_ms = forget.before_ms;
        let mut from_ms = DeviceTime::MIN;
        loop {
            let page = self.trips.range(device_id, from_ms, before_ms, Order::Asc, ERASED_PAGE);
            let mut trips = page.await?;
            let is_last = trips.len() < ERASED_PAGE;
            from_ms = trips.last().map_or(before_ms, |last| last.end_ms.saturating_add(1));
            trips.retain(|row| row.end_ms < before_ms);
            self.table.send_erased(table, &trips).await?;
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
    pub async fn write_table(
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
    fn refused<'a>(
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

    async fn send_changes(&self, flush: &Flush) -> Result<(), StoreError> {
        let Some(topic) = &self.feed else { return Ok(()) };
        let mut records = Vec::with_capacity(flush.changes.len() + flush.forgotten.len());
        // The change of each record.
        let mut sources = Vec::with_capacity(records.capacity());
        for change in &flush.changes {
            let parts = self.parts(topic, flush, change, self.event_bytes)?;
            sources.resize(sources.len() + parts.len(), change);
            records.extend(parts);
        }
        for forgotten in &flush.forgotten {
            let device_id = &*forgotten.device_id;
            let (device, version) = (token_of_device(device_id), forgotten.forget.version);
            let id = format!("{device}@{version}");
            let subject = Subject { input: &self.input, device_id, kind: "forgotten", id: &id };
            records.push(feed_record(&subject, event::forgotten(forgotten)));
        }
        let too_large = self.producer.send_fitting(topic, &records).await;
        for index in too_large.map_err(self.refused(topic, "sending changes"))? {
            let bytes = size(&records[index]);
            let Some(change) = sources.get(index) else {
                return Err(too_small_limit(topic, "event", bytes));
            };
            self.send_smaller_event(topic, flush, change, bytes).await?;
        }
        Ok(())
    }

    /// Encodes the event of a change, split into parts if it exceeds `bytes`.
    fn parts(
        &self,
        topic: &str,
        flush: &Flush,
        change: &Change,
        bytes: usize,
    ) -> Result<Vec<ProducerRecord>, StoreError> {
        let row = &flush.trips[change.row];
        let failed = |error: ViewError| StoreError::Failed {
            location: topic.to_owned(),
            doing: "writing an event",
            source: error.into(),
        };
        let trip = text_id(&row.device_id, row.t_star_ms).map_err(failed)?;
        let record = |(part, event): (usize, String)| {
            let id = match part {
                0 => format!("{trip}@{}", row.version),
                _ => format!("{trip}@{}.{part}", row.version),
            };
            let (device_id, kind) = (&*row.device_id, change.kind.name());
            feed_record(&Subject { input: &self.input, device_id, kind, id: &id }, event)
        };
        let overhead = size(&record((usize::MAX, String::new())));
        let events = event::events(change, row, bytes.saturating_sub(overhead)).map_err(failed)?;
        let first = usize::from(events.len() > 1);
        Ok((first..).zip(events).map(record).collect())
    }

    /// Sends an event that exceeds the actual limit of the topic, in smaller and smaller parts.
    async fn send_smaller_event(
        &self,
        topic: &str,
        flush: &Flush,
        change: &Change,
        mut refused: usize,
    ) -> Result<(), StoreError> {
        loop {
            let parts = self.parts(topic, flush, change, refused / 2)?;
            let largest = parts.iter().map(size).max().unwrap_or(0);
            if largest >= refused {
                return Err(too_small_limit(topic, "event", refused));
            }
            let too_large = self.producer.send_fitting(topic, &parts).await;
            if too_large.map_err(self.refused(topic, "sending changes"))?.is_empty() {
                return Ok(());
            }
            refused = largest;
        }
    }

    /// Sends dead letters, a few megabytes at a time: letters share data in memory that each record
    /// repeats.
    async fn send_dead_letters(&self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        let Some(topic) = &self.letters else { return Ok(()) };
        let mut rest = letters;
        while !rest.is_empty() {
            let (mut records, mut bytes) = (Vec::new(), 0);
            for letter in rest {
                let record = letter_limit::fitting_record(&self.input, letter, self.letter_limit);
                bytes += size(&record);
                records.push(record);
                if bytes >= MAX_LETTER_BYTES {
                    break;
                }
            }
            let too_large = self.offer_letters(topic, &mut records).await;
            let too_large = too_large.map_err(self.refused(topic, "sending dead letters"))?;
            let (current, remaining) = rest.split_at(records.len());
            for index in too_large {
                self.send_smaller_letter(topic, &current[index], size(&records[index])).await?;
            }
            rest = remaining;
        }
        Ok(())
    }

    /// [`Producer::send_fitting`] for letters, with the timestamps of their records, or without if
    /// the topic refuses those: its limits may differ from those of the input topic.
    async fn offer_letters(
        &self,
        topic: &str,
        letters: &mut [ProducerRecord],
    ) -> Result<Vec<usize>, ClientError> {
        match self.producer.send_fitting(topic, letters).await {
            Err(error) if is_timestamp_refused(&error) => (),
            sent => return sent,
        }
        // Letters that were already accepted are sent a second time; other partitions may still
        // refuse theirs.
        for letter in &mut *letters {
            *letter = letter_limit::without_timestamp(std::mem::take(letter));
        }
        self.producer.send_unbatched(topic, letters).await
    }

    /// Sends a letter that exceeds the actual limit of the topic, smaller and smaller.
    async fn send_smaller_letter(
        &self,
        topic: &str,
        letter: &DeadLetter,
        mut refused: usize,
    ) -> Result<(), StoreError> {
        loop {
            let limit = Limit { record: refused / 2, ..self.letter_limit };
            let mut record = [letter_limit::fitting_record(&self.input, letter, limit)];
            let bytes = size(&record[0]);
            if bytes >= refused {
                return Err(too_small_limit(topic, "dead letter", refused));
            }
            let too_large = self.offer_letters(topic, &mut record).await;
            if too_large.map_err(self.refused(topic, "sending a dead letter"))?.is_empty() {
                return Ok(());
            }
            refused = bytes;
        }
    }
}

/// The error of a topic that refuses even the smallest encoding of a record.
fn too_small_limit(topic: &str, what: &str, bytes: usize) -> StoreError {
    let problem =
        format!("this {what} has at least {bytes} bytes; raise max.message.bytes of `{topic}`");
    let source = KafkaError::TooLarge { problem }.into();
    StoreError::Failed { location: topic.to_owned(), doing: "sending a record", source }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
