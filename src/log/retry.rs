//! Appends dead letters that can be used now to the end of the log.
//!
//! Each is sent at least once: it is removed from its store after the log has its record. A second
//! copy of a sample is a duplicate, which changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdkafka::types::RDKafkaErrorCode;
use serde::Serialize;

use super::Notify;
use super::device_partition::PartitionFinder;
use super::letters::{LetterIter, LetterRemover, Letters, StoredLetter, letter_context};
use super::redecode::{Redecoded, Redecoder, Unrecoverable};
use crate::kafka::KafkaError;
use crate::kafka::dead_letters::{Fate, replay_record};
use crate::kafka::producer::{Producer, ProducerRecord};
use crate::kafka::topics::Topics;
use crate::model::epoch::{Epoch, with_other_partition_count};
use crate::model::failure::PreconditionFailed;
use crate::model::reason::DeadReason;
use crate::model::scalar::Offset;
use crate::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use crate::source::{Batch, Decoder, RawJson, RecordPosition};
use crate::store::{AnyStore, DeadLetter, EmbeddedStore, LetterFilter, StoreError};

/// Maximum number of letters in a batch.
const MAX_LETTERS: usize = 500;

/// No letter is added to a batch with at least this size of values, bytes.
const MAX_BYTES: usize = 4 << 20;

/// Letters, each with the result of redecoding.
type RedecodedBatch = Vec<(StoredLetter, Redecoded)>;

/// Reads and redecodes the next letters; empty at the end.
fn next_batch(
    letters: &mut LetterIter<'_, StoredLetter>,
    redecoder: &mut Redecoder,
) -> anyhow::Result<RedecodedBatch> {
    let (mut batch, mut bytes) = (RedecodedBatch::new(), 0);
    while batch.len() < MAX_LETTERS && bytes < MAX_BYTES {
        let Some(stored) = letters.next().transpose()? else { break };
        bytes += stored.letter.value.len();
        let redecoded = redecoder.redecode(&stored.letter);
        batch.push((stored, redecoded));
    }
    Ok(batch)
}

/// What was retried. Scripts parse it: names and order are fixed.
#[derive(Debug, Default, Serialize)]
pub struct RetryOutcome {
    /// Nothing was written.
    pub dry_run: bool,
    /// Letters that went to the log.
    pub replayed: u64,
    /// Letters that still fail, by the reason for which they do now.
    pub still_failing: BTreeMap<&'static str, u64>,
    /// Letters that cannot be replayed, by cause.
    pub never: BTreeMap<&'static str, u64>,
}

impl RetryOutcome {
    /// Number of control records among the letters.
    #[must_use]
    pub(crate) fn control_records(&self) -> u64 {
        self.never.get(Unrecoverable::Control.name()).copied().unwrap_or(0)
    }

    /// Counts letters.
    fn add_batch(&mut self, batch: &RedecodedBatch) {
        for (_, redecoded) in batch {
            match redecoded {
                Redecoded::Usable { .. } => self.replayed += 1,
                Redecoded::Failing(reason) => {
                    *self.still_failing.entry(reason.name()).or_default() += 1;
                }
                Redecoded::Never(cause) => *self.never.entry(cause.name()).or_default() += 1,
            }
        }
    }

    /// Moves the letters that the trips rejected from the replayed ones to the failing ones.
    fn subtract_rejected(&mut self, counts: &SampleCounts) {
        for (reason, count) in &counts.dead_letters {
            *self.still_failing.entry(reason.name()).or_default() += count;
            // The letter of a record may have several samples.
            self.replayed = self.replayed.saturating_sub(*count);
        }
    }
}

/// Appends the letters that a filter selects to the log, as far as they can be used now: each is
/// removed once the log has its record. After a kill in between it is sent a second time. `notify`
/// receives a line for each letter that is too large for the log, and what a producer waits for.
/// A dry run only counts.
///
/// # Errors
/// The store cannot be written, no broker responds, or the topic does not match its newest epoch.
/// What was replayed before stays replayed.
pub async fn retry(
    letters: &Letters,
    filter: &LetterFilter,
    mut redecoder: Redecoder,
    (dry_run, notify): (bool, &Notify),
) -> anyhow::Result<RetryOutcome> {
    let mut outcome = RetryOutcome { dry_run, ..RetryOutcome::default() };
    if dry_run {
        let mut reader = letters.read(filter)?;
        loop {
            let batch = next_batch(&mut reader, &mut redecoder)?;
            if batch.is_empty() {
                return Ok(outcome);
            }
            outcome.add_batch(&batch);
        }
    }
    let topic = match letters.epochs.last() {
        Some(newest) => Some(TopicEnd::open(letters, newest, notify).await?),
        None => None,
    };
    let remover = letters.remover(notify)?;
    let mut end = match (topic, &remover) {
        (Some(topic), _) => LogEnd::Topic(Box::new(topic)),
        (None, LetterRemover::Table(store)) => LogEnd::Files(FilesEnd::open(store, letters).await?),
        (None, LetterRemover::Topic(..)) => unreachable!("a topic is found by its epoch"),
    };
    let mut reader = letters.read(filter)?;
    loop {
        let mut batch = next_batch(&mut reader, &mut redecoder)?;
        if batch.is_empty() {
            break;
        }
        let sent = end.append(&mut redecoder, &remover, &mut batch).await;
        sent.map_err(|error| interrupted(error, outcome.replayed))?;
        outcome.add_batch(&batch);
    }
    if let LogEnd::Files(files) = &end {
        outcome.subtract_rejected(files.processor.counts());
    }
    Ok(outcome)
}

/// Adds the number of replayed letters to an error of unreachable brokers.
fn interrupted(error: anyhow::Error, replayed: u64) -> anyhow::Error {
    let is_unreachable =
        matches!(error.downcast_ref::<KafkaError>(), Some(KafkaError::Unreachable { .. }));
    if !is_unreachable {
        return error;
    }
    error.context(format!(
        "stopped early; letters replayed before: {replayed}; the others stay, rerun to continue; \
         some of them may be sent a second time, as duplicates"
    ))
}

/// The end of the log.
enum LogEnd<'a> {
    Files(FilesEnd<'a>),
    Topic(Box<TopicEnd<'a>>),
}

impl LogEnd<'_> {
    /// Appends the usable letters of a batch to the log, then removes them.
    async fn append(
        &mut self,
        redecoder: &mut Redecoder,
        remover: &LetterRemover<'_>,
        batch: &mut RedecodedBatch,
    ) -> anyhow::Result<()> {
        match self {
            Self::Files(files) => files.append(redecoder, batch).await?,
            Self::Topic(topic) => topic.append(redecoder, batch).await?,
        }
        let is_sent = |redecoded: &Redecoded| matches!(redecoded, Redecoded::Usable { .. });
        let sent = batch.iter().filter(|(_, redecoded)| is_sent(redecoded));
        let sent: Vec<_> = sent.map(|(stored, _)| stored.id).collect();
        remover.remove(&sent, Fate::Replayed).await
    }
}

/// The end of a log of files. A letter that the trips reject becomes a letter again.
struct FilesEnd<'a> {
    processor: Box<Processor<'a, EmbeddedStore, EmbeddedStore>>,
    /// Offset of the next record.
    next: Offset,
    decoder: &'a Decoder,
}

impl<'a> FilesEnd<'a> {
    async fn open(store: &'a EmbeddedStore, letters: &'a Letters) -> anyhow::Result<Self> {
        let processor = Processor::new(store, &letters.rules, ProcessorConfig::default()).await?;
        let next = processor.position().delivered;
        Ok(Self { processor: Box::new(processor), next, decoder: &letters.decoder })
    }

    async fn append(
        &mut self,
        redecoder: &Redecoder,
        batch: &RedecodedBatch,
    ) -> anyhow::Result<()> {
        for (StoredLetter { letter, .. }, redecoded) in batch {
            let Redecoded::Usable { value, .. } = redecoded else { continue };
            let log_time_ms = redecoder.log_time_ms(letter);
            let (offset, line) = (self.next, letter.line);
            let position = RecordPosition { offset, line, log_time_ms, again: false, key: None };
            let origin = letter.origin.as_str().into();
            let mut record = Batch { origin, ..Batch::default() };
            let context = letter_context(letter);
            let json = RawJson { value, context, schema_id: None, check: &|_| Ok(()) };
            self.decoder.split(&json, &position, &mut record);
            self.processor.absorb(&record).await?;
            self.next += 1;
        }
        Ok(self.processor.flush().await?)
    }
}

/// The end of a log that is a topic.
struct TopicEnd<'a> {
    /// The store with the claims and trips of devices.
    store: AnyStore,
    epochs: &'a [Epoch],
    newest: &'a Epoch,
    /// All epochs have the same number of partitions. Then no device ever moved: all its records
    /// are in the partition of its letter, whatever partitioner its producer uses.
    has_one_partition_count: bool,
    producer: Producer,
    notify: &'a Notify,
}

impl<'a> TopicEnd<'a> {
    /// Opens the topic of the newest epoch. Its partition count must not have changed.
    async fn open(
        letters: &'a Letters,
        newest: &'a Epoch,
        notify: &'a Notify,
    ) -> anyhow::Result<Self> {
        let brokers = &letters.brokers;
        let found = Topics::new(brokers)?.partitions(&newest.topic)?;
        newest.check_partition_count(found).map_err(|mismatch| {
            let topic = &newest.topic;
            PreconditionFailed(format!("topic `{topic}` {mismatch}; first: tstar epoch new"))
        })?;
        let epochs = &letters.epochs[..];
        let has_one_partition_count =
            with_other_partition_count(epochs, newest.partitions).is_none();
        let store = letters.settings.reader().await?;
        let producer = Producer::new(brokers, Arc::clone(notify))?;
        Ok(Self { store, epochs, newest, has_one_partition_count, producer, notify })
    }

    /// Sends the usable letters of a batch. Those that are too large for the log stay.
    async fn append(
        &self,
        redecoder: &mut Redecoder,
        batch: &mut RedecodedBatch,
    ) -> anyhow::Result<()> {
        let topic = &self.newest.topic;
        let (mut indices, mut records) = (Vec::new(), Vec::new());
        for (index, (StoredLetter { letter, .. }, redecoded)) in batch.iter().enumerate() {
            let Redecoded::Usable { key, value } = redecoded else { continue };
            let log_time_ms = redecoder.log_time_ms(letter);
            let record = replay_record(topic, letter, (key.clone(), value.clone()), log_time_ms);
            let partition = self.partition_of(letter, redecoder).await?;
            records.push(ProducerRecord { partition, ..record });
            indices.push(index);
        }
        let too_large = self.producer.send_fitting(topic, &records).await;
        for nth in too_large.map_err(self.producer.failed("sending dead letters", topic))? {
            let (stored, redecoded) = &mut batch[indices[nth]];
            let problem = RDKafkaErrorCode::MessageSizeTooLarge.to_string();
            let error = KafkaError::TooLarge { problem };
            (self.notify)(&format!("letter {} stays: {error}", stored.id));
            *redecoded = Redecoded::Never(Unrecoverable::TooLarge);
        }
        Ok(())
    }

    /// The partition of a letter's device; `None`: that of the record's key.
    async fn partition_of(
        &self,
        letter: &DeadLetter,
        redecoder: &mut Redecoder,
    ) -> Result<Option<i32>, StoreError> {
        let has_key = letter.key.as_ref().is_some_and(|key| !key.is_empty());
        if self.has_one_partition_count && has_key && letter.reason != DeadReason::OtherPartition {
            return Ok(Some(letter.partition));
        }
        let Some(device) = redecoder.device_of(letter) else { return Ok(None) };
        let (store, epochs) = (&self.store, self.epochs.to_vec());
        Ok(PartitionFinder { store, epochs }.find(device).await?.partition)
    }
}
