//! The change feed and the dead letters of a partition, and how far it is acknowledged.

use std::ops::Deref;
use std::sync::Arc;

use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode;

use super::client::Brokers;
use super::letter_limit::Limit;
use super::partition_handle::PartitionHandle;
use super::producer::{Producer, ProducerRecord, size};
use super::topic::Topics;
use super::{KafkaError, letter_limit};
use crate::store::{Change, DeadLetter, Flush, Journal, Position, StoreError, TripStore};
use crate::views::event;

/// Bytes of dead letters that are on their way at once, about.
const AT_ONCE: usize = 4 << 20;

/// Where the changes and the dead letters of a topic go.
#[derive(Clone)]
pub struct OutputTopics {
    /// Sends them.
    pub producer: Producer,
    /// Topic that is read.
    pub input: String,
    /// Topic of the changes; `None` where nobody wants them.
    pub feed: Option<String>,
    /// Topic of the dead letters; `None` where they were sent before.
    pub letters: Option<String>,
    /// How large an event may be, bytes.
    pub event_bytes: usize,
    /// How large a dead letter may be.
    pub letter_limit: Limit,
}

/// The journal of the owner of a partition: trips go to the store, then their changes and the dead
/// letters to topics, each acknowledged before the next; then the position may be committed.
pub struct KafkaJournal<T> {
    trips: T,
    outputs: Arc<OutputTopics>,
    holding: Arc<PartitionHandle>,
}

impl<T> KafkaJournal<T> {
    /// The journal of a partition that is held.
    #[must_use]
    pub fn new(trips: T, outputs: Arc<OutputTopics>, holding: Arc<PartitionHandle>) -> Self {
        Self { trips, outputs, holding }
    }
}

impl<T> Journal for KafkaJournal<T>
where
    T: Deref<Target: TripStore> + Send + Sync,
{
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        if !ahead.trips.is_empty() {
            self.trips.apply(&ahead.trips).await?;
        }
        self.outputs.send_changes(ahead).await?;
        self.outputs.send_dead_letters(&ahead.dead_letters).await
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

impl OutputTopics {
    /// The topic of changes and that of dead letters, `None` for what nobody wants, with what each
    /// takes; brokers that do not tell are found out by trying.
    ///
    /// # Errors
    /// No broker answers, or an option is unknown to the client.
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
            let Some(most) = topics.max_bytes(topic).await? else { continue };
            batch_bytes = batch_bytes.min(most);
            let of_topic = match Some(topic) == letters.as_ref() {
                true => &mut letter_bytes,
                false => &mut event_bytes,
            };
            *of_topic = most;
        }
        let producer = Producer::within(brokers, on_waiting, batch_bytes)?;
        let letter_limit = Limit { record: letter_bytes, content: producer.max_bytes() };
        let event_bytes = event_bytes.min(producer.max_bytes());
        Ok(Self { producer, input, feed, letters, event_bytes, letter_limit })
    }

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

    async fn send_changes(&self, flush: &Flush) -> Result<(), StoreError> {
        let Some(topic) = &self.feed else { return Ok(()) };
        let mut records = Vec::with_capacity(flush.changes.len() + flush.forgotten.len());
        // What each record is about.
        let mut of = Vec::with_capacity(records.capacity());
        for change in &flush.changes {
            let parts = self.parts(topic, flush, change, self.event_bytes)?;
            of.resize(of.len() + parts.len(), change);
            records.extend(parts);
        }
        for forgotten in &flush.forgotten {
            records.push(keyed(&forgotten.device_id, event::forgotten(forgotten)));
        }
        let too_large = self.producer.offer(topic, &records).await;
        for nth in too_large.map_err(self.refused(topic, "sending changes"))? {
            let bytes = size(&records[nth]);
            let Some(change) = of.get(nth) else { return Err(too_small(topic, "event", bytes)) };
            self.tell_smaller(topic, flush, change, bytes).await?;
        }
        Ok(())
    }

    /// The event of a change, in parts where it is larger than so many bytes.
    fn parts(
        &self,
        topic: &str,
        flush: &Flush,
        change: &Change,
        bytes: usize,
    ) -> Result<Vec<ProducerRecord>, StoreError> {
        let row = &flush.trips[change.row];
        let bare = size(&keyed(&row.device_id, String::new()));
        let events = event::events(change, row, bytes.saturating_sub(bare));
        let events = events.map_err(|error| StoreError::Failed {
            place: topic.to_owned(),
            doing: "writing an event",
            source: error.into(),
        })?;
        Ok(events.into_iter().map(|event| keyed(&row.device_id, event)).collect())
    }

    /// Sends an event of which the topic takes less than was known, in smaller and smaller parts.
    async fn tell_smaller(
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
                return Err(too_small(topic, "event", refused));
            }
            let too_large = self.producer.offer(topic, &parts).await;
            if too_large.map_err(self.refused(topic, "sending changes"))?.is_empty() {
                return Ok(());
            }
            refused = largest;
        }
    }

    /// Sends dead letters, a few megabytes at a time: as records each repeats what it shares with
    /// others.
    async fn send_dead_letters(&self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        let Some(topic) = &self.letters else { return Ok(()) };
        let mut rest = letters;
        while !rest.is_empty() {
            let (mut records, mut bytes) = (Vec::new(), 0);
            for letter in rest {
                let record = letter_limit::fitting(&self.input, letter, self.letter_limit);
                bytes += size(&record);
                records.push(record);
                if bytes >= AT_ONCE {
                    break;
                }
            }
            let too_large = self.offer_letters(topic, &mut records).await;
            let too_large = too_large.map_err(self.refused(topic, "sending dead letters"))?;
            let (now, later) = rest.split_at(records.len());
            for nth in too_large {
                self.bury_smaller(topic, &now[nth], size(&records[nth])).await?;
            }
            rest = later;
        }
        Ok(())
    }

    /// [`Producer::offer`] of letters, stamped as their records were where the topic takes that: it
    /// may refuse times that the topic of the log took.
    async fn offer_letters(
        &self,
        topic: &str,
        letters: &mut [ProducerRecord],
    ) -> Result<Vec<usize>, ClientError> {
        match self.producer.offer(topic, letters).await {
            Err(error) if may_be_of_time(&error) => (),
            offered => return offered,
        }
        // Those that were taken come a second time; those of other partitions may be refused still.
        for letter in &mut *letters {
            *letter = letter_limit::undated(std::mem::take(letter));
        }
        self.producer.offer_alone(topic, letters).await
    }

    /// Sends a letter of which the topic takes less than was known: smaller and smaller.
    async fn bury_smaller(
        &self,
        topic: &str,
        letter: &DeadLetter,
        mut refused: usize,
    ) -> Result<(), StoreError> {
        loop {
            let limit = Limit { record: refused / 2, ..self.letter_limit };
            let mut record = [letter_limit::fitting(&self.input, letter, limit)];
            let bytes = size(&record[0]);
            if bytes >= refused {
                return Err(too_small(topic, "dead letter", refused));
            }
            let too_large = self.offer_letters(topic, &mut record).await;
            if too_large.map_err(self.refused(topic, "sending a dead letter"))?.is_empty() {
                return Ok(());
            }
            refused = bytes;
        }
    }
}

/// Brokers say of a batch with such a time that it has an invalid record.
fn may_be_of_time(error: &ClientError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(error.rdkafka_error_code(), Some(Code::InvalidTimestamp | Code::InvalidRecord))
}

fn keyed(device_id: &str, event: String) -> ProducerRecord {
    ProducerRecord {
        key: Some(device_id.as_bytes().to_vec()),
        value: event.into_bytes(),
        ..ProducerRecord::default()
    }
}

/// What to say of a topic that does not take the smallest form of a record.
fn too_small(topic: &str, what: &str, bytes: usize) -> StoreError {
    let problem = format!(
        "the smallest form of this {what} has {bytes} bytes; raise max.message.bytes of `{topic}`"
    );
    let source = KafkaError::TooLarge { problem }.into();
    StoreError::Failed { place: topic.to_owned(), doing: "sending a record", source }
}
