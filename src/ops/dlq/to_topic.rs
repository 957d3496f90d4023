//! Replays dead letters to the topic that is the log.

use std::sync::Arc;

use rdkafka::types::RDKafkaErrorCode;

use super::letters::{LetterFilter, Letters, StoredLetter};
use super::redecode::{Redecoded, Redecoder, Unrecoverable};
use super::remover::LetterRemover;
use super::replay::{RedecodedBatch, ReplayOutcome, next_batch};
use crate::kafka::KafkaError;
use crate::kafka::dead_letters::{Fate, replay_record};
use crate::kafka::producer::Producer;
use crate::kafka::topic::Topics;
use crate::model::epoch::{Epoch, with_other_partition_count};
use crate::model::reason::DeadReason;
use crate::ops::device_partition::PartitionFinder;
use crate::ops::{Notify, PreconditionFailed};
use crate::store::{AnyStore, DeadLetter, StoreError};

/// Chooses the partition of a replayed record.
struct TargetPartitions {
    /// The store with the claims and trips of devices.
    store: AnyStore,
    /// Oldest first; at least one.
    epochs: Vec<Epoch>,
    /// All epochs have the same number of partitions. Then no device ever moved: all its records
    /// are in the partition of its letter, whatever partitioner its producer uses.
    has_one_partition_count: bool,
}

impl TargetPartitions {
    async fn open(letters: &Letters, newest: &Epoch) -> anyhow::Result<Self> {
        let found = Topics::new(&letters.access.brokers)?.partitions(&newest.topic)?;
        newest.check_partition_count(found).map_err(|mismatch| {
            let topic = &newest.topic;
            PreconditionFailed(format!("topic `{topic}` {mismatch}; first: tstar epoch new"))
        })?;
        let other_count = with_other_partition_count(&letters.epochs, newest.partitions);
        let has_one_partition_count = other_count.is_none();
        let store = letters.access.open_reader().await?;
        Ok(Self { store, epochs: letters.epochs.clone(), has_one_partition_count })
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
        let newest = self.epochs.last().expect("there is one");
        let is_keyed = newest.rules.key == "device_id";
        let (store, topic, epochs) = (&self.store, newest.topic.clone(), self.epochs.clone());
        Ok(PartitionFinder { store, topic, epochs, is_keyed }.find(device).await?.partition)
    }
}

/// Sends letters to a topic.
pub(super) struct TopicSender<'a> {
    letters: &'a Letters,
    /// The log.
    topic: &'a str,
    partitions: TargetPartitions,
    redecoder: Redecoder,
    producer: Producer,
    remover: LetterRemover<'a>,
    notify: &'a Notify,
}

impl<'a> TopicSender<'a> {
    /// Prepares a replay to the topic of the newest epoch. Its partition count must not have
    /// changed.
    pub async fn new(
        letters: &'a Letters,
        newest: &'a Epoch,
        redecoder: Redecoder,
        notify: &'a Notify,
    ) -> anyhow::Result<Self> {
        let partitions = TargetPartitions::open(letters, newest).await?;
        let producer = Producer::new(&letters.access.brokers, Arc::clone(notify))?;
        let remover = LetterRemover::open(letters, notify)?;
        let topic = &newest.topic;
        Ok(Self { letters, topic, partitions, redecoder, producer, remover, notify })
    }

    /// Replays letters: each is removed once the topic has acknowledged its record. After a kill in
    /// between it is sent a second time.
    pub async fn replay(mut self, filter: &LetterFilter) -> anyhow::Result<ReplayOutcome> {
        let (mut outcome, mut reader) = (ReplayOutcome::default(), self.letters.read(filter)?);
        loop {
            let mut batch = next_batch(&mut reader, &mut self.redecoder)?;
            if batch.is_empty() {
                return Ok(outcome);
            }
            let sent = self.send(&mut batch).await;
            sent.map_err(|error| interrupted(error, outcome.replayed))?;
            outcome.add_batch(&batch);
        }
    }

    /// Sends the usable letters of a batch, then removes them. Those that are too large for the log
    /// stay.
    async fn send(&mut self, batch: &mut RedecodedBatch) -> anyhow::Result<()> {
        let (mut indices, mut records) = (Vec::new(), Vec::new());
        for (index, (StoredLetter { letter, .. }, redecoded)) in batch.iter().enumerate() {
            let Redecoded::Usable { key, value } = redecoded else { continue };
            let log_time_ms = self.redecoder.log_time_ms(letter);
            let content = (key.clone(), value.clone());
            let record = replay_record(self.topic, letter, content, log_time_ms);
            records
                .push((record, self.partitions.partition_of(letter, &mut self.redecoder).await?));
            indices.push(index);
        }
        let records: Vec<_> = records.iter().map(|(record, to)| (record, *to)).collect();
        let too_large = self.producer.send_fitting_to_partition(self.topic, &records).await;
        for nth in too_large.map_err(self.producer.failed("sending dead letters", self.topic))? {
            let (stored, redecoded) = &mut batch[indices[nth]];
            let problem = RDKafkaErrorCode::MessageSizeTooLarge.to_string();
            let error = KafkaError::TooLarge { problem };
            (self.notify)(&format!("letter {} stays: {error}", stored.id));
            *redecoded = Redecoded::Never(Unrecoverable::TooLarge);
        }
        let is_sent = |redecoded: &Redecoded| matches!(redecoded, Redecoded::Usable { .. });
        let sent = batch.iter().filter(|(_, redecoded)| is_sent(redecoded));
        let sent: Vec<_> = sent.map(|(stored, _)| stored.id).collect();
        self.remover.remove(&sent, Fate::Replayed).await
    }
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
