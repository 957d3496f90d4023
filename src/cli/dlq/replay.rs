//! `dlq replay`: what can be used now goes back into the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use tstar::ops::PreconditionFailed;

use serde::Serialize;
use tstar::kafka::KafkaError;
use tstar::kafka::dead_letters::{Fate, LetterTopic, came_again, replay_record};
use tstar::kafka::topic::Topics;
use tstar::kafka::transactions::{TransactionRecord, Transactions};
use tstar::model::epoch::Epoch;
use tstar::model::reason::DeadReason;
use tstar::ops::redecode::{Origin, Outcome, Redecoder, Unrecoverable};
use tstar::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use tstar::source::{Batch, Decoder, Entry};
use tstar::store::{
    AnyStore, DeadLetter, EmbeddedStore, LetterUpdates, Pair, RetryJournal, StoreError,
};

use super::ReplayArgs;
use super::letters::{Filter, Id, LetterStore, Letters, Reading, StoredLetter};
use crate::cli::exit;
use crate::cli::flags::Context;
use crate::cli::open;
use crate::cli::print::Printer;
use tstar::ops::device_partition::PartitionFinder;

/// Letters that are dealt with together, at most.
const TOGETHER: usize = 500;

/// Bytes of letters that are dealt with together, about.
const TOGETHER_BYTES: usize = 4 << 20;

/// What became of the letters. Others parse it: names and order are fixed.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    dry_run: bool,
    replayed: u64,
    still_failing: BTreeMap<&'static str, u64>,
    /// How many of those have another reason, or say it otherwise, than before.
    new_reason: u64,
    never: BTreeMap<&'static str, u64>,
}

/// Letters that were tried, some at a time.
type ReplayOutcomes = Vec<(StoredLetter, Outcome)>;

/// Replays the letters that are meant.
pub async fn run(
    args: &ReplayArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let (filter, fix) = (args.filter.read()?, args.fix.read(context)?);
    let letters = Letters::open(&args.place, context).await?;
    let now_ms = args.now.then_some(context.now_ms);
    let origin = if letters.epochs.is_empty() { Origin::Files } else { Origin::Topic };
    let mut retry = Redecoder::new(origin, &letters.rules, &fix, now_ms)?;
    let mut summary = Summary { dry_run: args.dry_run, ..Summary::default() };
    match (&letters.place, letters.epochs.last()) {
        _ if args.dry_run => {
            let mut reading = letters.read(&filter)?;
            let mut again = Again::new(&filter);
            while let Some(tried) = next_outcomes(&mut reading, &mut retry, &mut again)? {
                summary.count(&tried);
            }
            again.tell();
        }
        (LetterStore::Topic(topic), Some(epoch)) => {
            let partitions = Partitions::new(&letters, epoch, context).await?;
            let way = Way { partitions, retry: &mut retry, summary: &mut summary };
            in_topic(topic, &letters, &filter, way).await?;
        }
        (LetterStore::Table { path, .. }, Some(epoch)) => {
            let store = EmbeddedStore::open_for_topic(path, &letters.rules, 0)?;
            let partitions = Partitions::new(&letters, epoch, context).await?;
            let way = Way { partitions, retry: &mut retry, summary: &mut summary };
            to_topic(&store, &epoch.topic, &letters, &filter, way).await?;
        }
        (LetterStore::Table { path, .. }, None) => {
            let keep = letters.settings.keep_changes;
            let store = EmbeddedStore::open_writer(path, &letters.rules, keep)?;
            let mut reading = letters.read(&filter)?;
            into_file(store, &letters, &mut reading, &mut retry, &mut summary).await?;
        }
        (LetterStore::Topic(_), None) => unreachable!("a topic is found by its epoch"),
    }
    summary.tell();
    Ok(printer.line(&serde_json::to_string(&summary)?)?)
}

/// Letters that went back before and came again for the same reason: of the trips, which only the
/// log's reader knows. Each round would make new letters of them, so they stay unless they are
/// asked for by that reason.
struct Again {
    asked_for: bool,
    count: u64,
}

impl Again {
    fn new(filter: &Filter) -> Self {
        Self { asked_for: filter.reason.is_some(), count: 0 }
    }

    /// What becomes of a letter, where that is known.
    fn judged(&mut self, letter: &DeadLetter, outcome: Outcome) -> Outcome {
        let is_good = matches!(outcome, Outcome::Good { .. });
        if self.asked_for || !is_good || !came_again(letter) {
            return outcome;
        }
        self.count += 1;
        Outcome::AsBefore
    }

    fn tell(&self) {
        if self.count > 0 {
            exit::print_status(&format!(
                "letters that went back before and came again for the same reason: {}; they stay, \
                 --reason sends them all the same",
                self.count
            ));
        }
    }
}

/// The next letters, tried; `None` at the end.
fn next_outcomes(
    reading: &mut Reading<'_>,
    retry: &mut Redecoder,
    again: &mut Again,
) -> anyhow::Result<Option<ReplayOutcomes>> {
    let (mut tried, mut bytes) = (ReplayOutcomes::new(), 0);
    while tried.len() < TOGETHER && bytes < TOGETHER_BYTES {
        let Some(kept) = reading.next()? else { break };
        bytes += kept.letter.value.len();
        let outcome = again.judged(&kept.letter, retry.redecode(&kept.letter));
        tried.push((kept, outcome));
    }
    Ok((!tried.is_empty()).then_some(tried))
}

impl Summary {
    fn count(&mut self, tried: &ReplayOutcomes) {
        for (kept, outcome) in tried {
            match outcome {
                Outcome::Good { .. } => self.replayed += 1,
                Outcome::AsBefore => self.still_fails(kept.letter.reason.name()),
                Outcome::Otherwise { reason, .. } => {
                    self.still_fails(reason.name());
                    self.new_reason += 1;
                }
                Outcome::Never(never) => *self.never.entry(never.name()).or_default() += 1,
            }
        }
    }

    /// Says what else to do.
    fn tell(&self) {
        if let Some(count) = self.never.get(Unrecoverable::Control.name()) {
            exit::print_status(&format!(
                "control records: {count}; they never go back, so that no dead one comes to life; \
                 where one was meant, send it again with tstar forget"
            ));
        }
    }

    fn still_fails(&mut self, reason: &'static str) {
        *self.still_failing.entry(reason).or_default() += 1;
    }

    /// Takes into account what the trips refused of what was put into the log.
    fn refused(&mut self, counts: &SampleCounts) {
        for (reason, count) in &counts.dead_letters {
            *self.still_failing.entry(reason.name()).or_default() += count;
            self.replayed -= count;
        }
    }
}

/// How letters go back to a topic.
struct Way<'a> {
    partitions: Partitions,
    retry: &'a mut Redecoder,
    summary: &'a mut Summary,
}

/// To which partition a record goes back.
struct Partitions {
    /// What tells where a device belongs.
    store: AnyStore,
    epochs: Vec<Epoch>,
    /// A device never moved: where its record was, its others are, however its producer chose.
    stand: bool,
}

impl Partitions {
    async fn new(letters: &Letters, epoch: &Epoch, context: &Context) -> anyhow::Result<Self> {
        let found = Topics::new(&letters.brokers)?.partitions(&epoch.topic)?;
        if found != Some(epoch.partitions) {
            let found =
                found.map_or("is not there".into(), |count| format!("has {count} partitions"));
            let problem = format!(
                "topic `{}` {found}, and had {} in epoch {}; first: tstar epoch new",
                epoch.topic, epoch.partitions, epoch.epoch
            );
            return Err(PreconditionFailed(problem).into());
        }
        let stand = letters.epochs.iter().all(|other| other.partitions == epoch.partitions);
        let store = open::reader(&letters.settings, context).await?;
        Ok(Self { store, epochs: letters.epochs.clone(), stand })
    }

    async fn partition_of(
        &self,
        letter: &DeadLetter,
        retry: &mut Redecoder,
    ) -> Result<Option<i32>, StoreError> {
        let has_key = letter.key.as_ref().is_some_and(|key| !key.is_empty());
        if self.stand && has_key && letter.reason != DeadReason::OtherPartition {
            return Ok(Some(letter.partition));
        }
        let Some(device) = retry.device_of(letter) else { return Ok(None) };
        let newest = self.epochs.last().expect("there is one");
        let is_keyed = newest.rules.key == "device_id";
        let (store, topic, epochs) = (&self.store, newest.topic.clone(), self.epochs.clone());
        Ok(PartitionFinder { store, topic, epochs, is_keyed }.find(device).await?.partition)
    }
}

/// The records of a letter, which go together, and which of those tried it is.
type Group = (usize, Vec<TransactionRecord>);

impl Way<'_> {
    /// Sends the records of letters. One that is too large for the log stays, the others go.
    fn send(
        &self,
        out: &mut Transactions,
        groups: &[Group],
        tried: &mut ReplayOutcomes,
    ) -> anyhow::Result<()> {
        let records: Vec<_> = groups.iter().flat_map(|(_, records)| records).cloned().collect();
        match (out.send(&records), groups) {
            (Ok(()), _) => Ok(()),
            (Err(error @ KafkaError::TooLarge { .. }), [(nth, _)]) => {
                let (kept, outcome) = &mut tried[*nth];
                exit::print_status(&format!("letter {} stays: {error}", kept.id));
                *outcome = Outcome::Never(Unrecoverable::TooLarge);
                Ok(())
            }
            // One of them is; nothing was sent.
            (Err(KafkaError::TooLarge { .. }), _) => {
                let (first, rest) = groups.split_at(groups.len() / 2);
                self.send(out, first, tried)?;
                self.send(out, rest, tried)
            }
            (Err(error), _) => {
                let stays = format!(
                    "letters that went back before: {}; the others stay, the same command goes on",
                    self.summary.replayed
                );
                Err(exit::broke_off(error, &stays))
            }
        }
    }

    /// The record that a letter becomes.
    async fn replay_record(
        &mut self,
        input: &str,
        letter: &DeadLetter,
        key: &Option<Vec<u8>>,
        value: &[u8],
    ) -> Result<TransactionRecord, StoreError> {
        let record = (key.clone(), value.to_vec());
        let time_ms = self.retry.log_time_ms(letter);
        let partition = self.partitions.partition_of(letter, self.retry).await?;
        Ok(replay_record(input, letter, record, time_ms, partition))
    }
}

/// The name under which letters of a topic are dealt with: of two at a time the first gives way.
pub fn transactions(letters: &Letters, topic: &str) -> anyhow::Result<Transactions> {
    Ok(Transactions::init(&letters.brokers, &format!("tstar-dlq-{topic}"))?)
}

/// Letters of a topic: what goes back, and what tells so, in one transaction.
async fn in_topic(
    topic: &LetterTopic,
    letters: &Letters,
    filter: &Filter,
    mut way: Way<'_>,
) -> anyhow::Result<()> {
    let mut out = transactions(letters, topic.name())?;
    // Looked at anew: now nothing that somebody began before is on its way.
    let topic = LetterTopic::open(&letters.brokers, topic.input())?;
    let (mut reading, mut again) = (letters.read_topic(&topic, filter)?, Again::new(filter));
    while let Some(mut tried) = next_outcomes(&mut reading, way.retry, &mut again)? {
        let mut groups = Vec::new();
        for (nth, (StoredLetter { id, letter }, outcome)) in tried.iter().enumerate() {
            let Id::Place(partition, offset) = *id else { continue };
            let (record, fate) = match outcome {
                Outcome::Good { key, value } => {
                    (way.replay_record(topic.input(), letter, key, value).await?, Fate::Replayed)
                }
                Outcome::Otherwise { reason, message } => {
                    let (reason, message) = (*reason, message.clone());
                    let other = DeadLetter { reason, message, ..letter.clone() };
                    (topic.instead(partition, &other), Fate::Replaced)
                }
                Outcome::AsBefore | Outcome::Never(_) => continue,
            };
            groups.push((nth, vec![record, topic.fate(partition, offset, fate)]));
        }
        way.send(&mut out, &groups, &mut tried)?;
        way.summary.count(&tried);
    }
    again.tell();
    Ok(())
}

/// Letters of a table whose log is a topic: they leave the table once the topic has them. Killed
/// between, they go back a second time: as duplicates, which change nothing.
async fn to_topic(
    store: &EmbeddedStore,
    input: &str,
    letters: &Letters,
    filter: &Filter,
    mut way: Way<'_>,
) -> anyhow::Result<()> {
    let mut out = transactions(letters, &LetterTopic::name_beside(input))?;
    let (mut reading, mut again) = (letters.read(filter)?, Again::new(filter));
    while let Some(mut tried) = next_outcomes(&mut reading, way.retry, &mut again)? {
        let mut groups = Vec::new();
        for (nth, (kept, outcome)) in tried.iter().enumerate() {
            if let Outcome::Good { key, value } = outcome {
                groups.push((nth, vec![way.replay_record(input, &kept.letter, key, value).await?]));
            }
        }
        way.send(&mut out, &groups, &mut tried)?;
        let sent = tried.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Good { .. }));
        let number = |kept: &StoredLetter| match kept.id {
            Id::Number(id) => Some(id),
            Id::Place(..) => None,
        };
        let gone = sent.filter_map(|(kept, _)| number(kept)).collect();
        store.settle(&LetterUpdates { gone, changed: changed(&tried) })?;
        way.summary.count(&tried);
    }
    again.tell();
    Ok(())
}

/// The letters that stay with another reason.
fn changed(tried: &ReplayOutcomes) -> Vec<(i64, DeadReason, String)> {
    let other = |(kept, outcome): &(StoredLetter, Outcome)| match (kept.id, outcome) {
        (Id::Number(id), Outcome::Otherwise { reason, message }) => {
            Some((id, *reason, message.clone()))
        }
        _ => None,
    };
    tried.iter().filter_map(other).collect()
}

/// Letters of a table whose log is one of files: further records at its end, with which they leave
/// the table in one transaction.
async fn into_file(
    store: EmbeddedStore,
    letters: &Letters,
    reading: &mut Reading<'_>,
    retry: &mut Redecoder,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let store = Arc::new(store);
    let journal = RetryJournal::new(Arc::clone(&store));
    let pair = Pair { trips: store, journal };
    let mut processor = Processor::new(&pair, &letters.rules, ProcessorConfig::default()).await?;
    // What the trips refuse stays where it is: nothing of it comes again.
    let mut again = Again { asked_for: true, count: 0 };
    while let Some(tried) = next_outcomes(reading, retry, &mut again)? {
        let (batch, ids) = batch(&tried, &letters.decoder, processor.position().delivered, retry);
        pair.journal.set_updates(ids, changed(&tried));
        if batch.entries.is_empty() {
            pair.trips.settle(&LetterUpdates { gone: vec![], changed: changed(&tried) })?;
        }
        processor.absorb(&batch).await?;
        processor.flush().await?;
        summary.count(&tried);
    }
    summary.refused(processor.counts());
    Ok(())
}

/// What can be used now as records at an offset and behind it, and the numbers of their letters.
fn batch(
    tried: &ReplayOutcomes,
    decoder: &Decoder,
    first_offset: i64,
    retry: &Redecoder,
) -> (Batch, BTreeMap<i64, i64>) {
    let (mut batch, mut ids) = (Batch::default(), BTreeMap::new());
    for (StoredLetter { id, letter }, outcome) in tried {
        let (Id::Number(id), Outcome::Good { value, .. }) = (*id, outcome) else { continue };
        let offset = first_offset + i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let start = u32::try_from(batch.raw.len()).expect("letters of some megabytes");
        batch.raw.extend_from_slice(value);
        let end = u32::try_from(batch.raw.len()).expect("letters of some megabytes");
        batch.entries.push(Entry {
            offset,
            element: None,
            line: letter.line,
            log_time_ms: retry.log_time_ms(letter),
            again: false,
            raw: start..end,
            key: None,
            content: decoder.json(value, &mut batch.text),
        });
        ids.insert(offset, id);
    }
    (batch, ids)
}
