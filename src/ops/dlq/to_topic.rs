//! Replays dead letters to the topic that is the log.

use super::batch::{RedecodedBatch, RepeatGuard, changed_letters, next_batch};
use super::init_transactions;
use super::letters::{LetterFilter, LetterId, Letters, StoredLetter};
use super::redecode::{Redecoded, Redecoder, Unrecoverable};
use super::replay::ReplayOutcome;
use crate::kafka::KafkaError;
use crate::kafka::dead_letters::{Fate, LetterTopic, replay_record};
use crate::kafka::topic::Topics;
use crate::kafka::transactions::{TransactionRecord, Transactions};
use crate::model::epoch::{Epoch, with_other_partition_count};
use crate::model::reason::DeadReason;
use crate::model::scalar::LogTime;
use crate::ops::device_partition::PartitionFinder;
use crate::ops::{Notify, PreconditionFailed};
use crate::store::{AnyStore, DeadLetter, EmbeddedStore, LetterUpdates, StoreError};

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

/// The records of one letter, which are sent in one transaction, and its index in the batch.
type LetterRecords = (usize, Vec<TransactionRecord>);

/// Sends letters to a topic.
pub(super) struct TopicSender<'a> {
    letters: &'a Letters,
    partitions: TargetPartitions,
    redecoder: Redecoder,
    outcome: ReplayOutcome,
    notify: &'a Notify,
}

impl<'a> TopicSender<'a> {
    /// Prepares a replay to the topic of the newest epoch. Its partition count must not have
    /// changed.
    pub async fn new(
        letters: &'a Letters,
        newest: &Epoch,
        redecoder: Redecoder,
        notify: &'a Notify,
    ) -> anyhow::Result<Self> {
        let partitions = TargetPartitions::open(letters, newest).await?;
        Ok(Self { letters, partitions, redecoder, outcome: ReplayOutcome::default(), notify })
    }

    /// Replays letters of the dead letter topic: a record and the fate of its letter are sent in
    /// one transaction.
    pub async fn replay_topic(
        mut self,
        topic: &LetterTopic,
        filter: &LetterFilter,
    ) -> anyhow::Result<ReplayOutcome> {
        let brokers = &self.letters.access.brokers;
        let mut transactions = init_transactions(brokers, topic.input())?;
        // Opened after an earlier command was fenced: none of its records can arrive any more.
        let topic = LetterTopic::open(brokers, topic.input())?;
        let mut reader = self.letters.read_topic(&topic, filter)?;
        let mut repeats = RepeatGuard::new(filter);
        while let Some(mut batch) = next_batch(&mut reader, &mut self.redecoder, &mut repeats)? {
            let mut groups = Vec::new();
            for (nth, (stored, redecoded)) in batch.iter().enumerate() {
                if let Some(records) = self.topic_records(&topic, stored, redecoded).await? {
                    groups.push((nth, records));
                }
            }
            self.send(&mut transactions, &groups, &mut batch)?;
            self.outcome.add_batch(&batch);
        }
        self.outcome.repeated = repeats.count;
        Ok(self.outcome)
    }

    /// The records that resolve a letter of the dead letter topic; `None` if it does not change.
    async fn topic_records(
        &mut self,
        topic: &LetterTopic,
        StoredLetter { id, letter }: &StoredLetter,
        redecoded: &Redecoded,
    ) -> Result<Option<Vec<TransactionRecord>>, StoreError> {
        let LetterId::Position { partition, offset } = *id else { return Ok(None) };
        let (record, fate) = match redecoded {
            Redecoded::Usable { key, value } => {
                let record = self.log_record(topic.input(), letter, key.as_deref(), value).await?;
                (record, Fate::Replayed)
            }
            Redecoded::Changed { reason, message } => {
                let (reason, message) = (*reason, message.clone());
                let changed = DeadLetter { reason, message, ..letter.clone() };
                (topic.instead(partition, &changed), Fate::Replaced)
            }
            Redecoded::Unchanged | Redecoded::Never(_) => return Ok(None),
        };
        Ok(Some(vec![record, topic.fate(partition, offset, fate)]))
    }

    /// Replays letters of the table of `store`, whose log is the topic `input`: they leave the
    /// table once the topic has them. After a kill in between they are sent a second time, as
    /// duplicates, which change nothing.
    pub async fn replay_table(
        mut self,
        store: &EmbeddedStore,
        input: &str,
        filter: &LetterFilter,
    ) -> anyhow::Result<ReplayOutcome> {
        let mut transactions = init_transactions(&self.letters.access.brokers, input)?;
        let (mut reader, mut repeats) = (self.letters.read(filter)?, RepeatGuard::new(filter));
        while let Some(mut batch) = next_batch(&mut reader, &mut self.redecoder, &mut repeats)? {
            let mut groups = Vec::new();
            for (nth, (stored, redecoded)) in batch.iter().enumerate() {
                if let Redecoded::Usable { key, value } = redecoded {
                    let letter = &stored.letter;
                    let record = self.log_record(input, letter, key.as_deref(), value).await?;
                    groups.push((nth, vec![record]));
                }
            }
            self.send(&mut transactions, &groups, &mut batch)?;
            let is_sent = |redecoded: &Redecoded| matches!(redecoded, Redecoded::Usable { .. });
            let sent = batch.iter().filter(|(_, redecoded)| is_sent(redecoded));
            let gone = sent.filter_map(|(stored, _)| stored.id.number()).collect();
            store.settle(&LetterUpdates { gone, changed: changed_letters(&batch) })?;
            self.outcome.add_batch(&batch);
        }
        self.outcome.repeated = repeats.count;
        Ok(self.outcome)
    }

    /// The record of the log `input` that a letter becomes.
    async fn log_record(
        &mut self,
        input: &str,
        letter: &DeadLetter,
        key: Option<&[u8]>,
        value: &[u8],
    ) -> Result<TransactionRecord, StoreError> {
        let content = (key.map(<[u8]>::to_vec), value.to_vec());
        let time_ms = self.redecoder.log_time_ms(letter);
        let partition = self.partitions.partition_of(letter, &mut self.redecoder).await?;
        Ok(replay_record(input, letter, content, LogTime(time_ms.ms()), partition))
    }

    /// Sends the records of letters. Skips letters that are too large for the log; they stay dead
    /// letters.
    fn send(
        &self,
        transactions: &mut Transactions,
        groups: &[LetterRecords],
        batch: &mut RedecodedBatch,
    ) -> anyhow::Result<()> {
        let records: Vec<_> = groups.iter().flat_map(|(_, records)| records).cloned().collect();
        match (transactions.send(&records), groups) {
            (Ok(()), _) => Ok(()),
            (Err(error @ KafkaError::TooLarge { .. }), [(nth, _)]) => {
                let (stored, redecoded) = &mut batch[*nth];
                (self.notify)(&format!("letter {} stays: {error}", stored.id));
                *redecoded = Redecoded::Never(Unrecoverable::TooLarge);
                Ok(())
            }
            // At least one letter is too large. Nothing was sent.
            (Err(KafkaError::TooLarge { .. }), _) => {
                let (first, rest) = groups.split_at(groups.len() / 2);
                self.send(transactions, first, batch)?;
                self.send(transactions, rest, batch)
            }
            (Err(error), _) => Err(self.interrupted(error)),
        }
    }

    /// Adds the number of replayed letters to an error of unreachable brokers.
    fn interrupted(&self, error: KafkaError) -> anyhow::Error {
        let is_unreachable = matches!(error, KafkaError::Unreachable { .. });
        let error = anyhow::Error::from(error);
        if !is_unreachable {
            return error;
        }
        let replayed = self.outcome.replayed;
        error.context(format!(
            "stopped early; letters replayed before: {replayed}; the others stay, rerun to continue"
        ))
    }
}
