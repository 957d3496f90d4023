//! The dead letters of a store: opens, filters, finds and removes them.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::Notify;
use super::redecode::{DecodeOverrides, Redecoder};
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::dead_letters::{Fate, LetterTopic};
use crate::kafka::producer::Producer;
use crate::kafka::topics::Topics;
use crate::model::epoch::{Epoch, LogKind};
use crate::model::failure::{InvalidRequest, NoResult};
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::scalar::Offset;
use crate::pipeline::schemas::{KnownSchemas, known_schemas};
use crate::settings::Settings;
use crate::source::{Decoder, DecoderError, RecordContext};
use crate::store::{DeadLetter, EmbeddedStore, LetterFilter, SideTables};

/// Number of dead letters in one page of a table. A letter may have a megabyte.
const PAGE: usize = 64;

/// Identifies a dead letter of a store: by its number in a table, or its position in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterId {
    /// Partition of the dead letter topic; `None` in a table.
    pub partition: Option<i32>,
    /// Offset in the partition, or number of the row.
    pub number: i64,
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            None => self.number.fmt(f),
            Some(partition) => write!(f, "{partition}:{}", self.number),
        }
    }
}

impl Serialize for LetterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.partition {
            None => serializer.serialize_i64(self.number),
            Some(_) => serializer.collect_str(self),
        }
    }
}

/// A dead letter with its id.
#[derive(Clone, Debug)]
pub struct StoredLetter {
    /// As `dlq ls` prints it.
    pub id: LetterId,
    /// The sample, and why it could not be used.
    pub letter: DeadLetter,
}

/// Parses the name of a reason.
///
/// # Errors
/// There is no such reason.
pub(crate) fn parse_reason(name: &str) -> Result<DeadReason, InvalidRequest> {
    DeadReason::from_name(name).ok_or_else(|| {
        let names: Vec<_> = DeadReason::ALL.iter().map(|reason| reason.name()).collect();
        InvalidRequest(format!("`{name}` is not a valid reason; use one of: {}", names.join(", ")))
    })
}

/// The context of a letter's record, in the log that its origin names.
pub(super) fn letter_context(letter: &DeadLetter) -> RecordContext<'_> {
    let key = letter.key.as_deref();
    match letter.line {
        0 => {
            let topic = letter.is_of_topic().then_some(&*letter.origin);
            RecordContext { key, headers: &letter.headers, topic, ..RecordContext::default() }
        }
        _ => RecordContext { key, ..RecordContext::of_file(&letter.origin) },
    }
}

/// Where the dead letters of a store are. A file has them in a table, whatever its log.
enum Location {
    /// In a table of the file that holds the trips.
    Table(Arc<EmbeddedStore>),
    /// In the dead letter topic of its log.
    Topic(LetterTopic),
}

/// A record of the dead letters that was not resolved; `None`: another program wrote it.
pub(crate) type LetterRecord = (LetterId, Option<DeadLetter>);

/// Reads dead letters, oldest first; of a topic partition by partition.
pub(crate) type LetterIter<'a, T> = Box<dyn Iterator<Item = anyhow::Result<T>> + Send + 'a>;

/// The dead letters of a store.
pub struct Letters {
    pub(super) settings: Settings,
    pub(super) brokers: Brokers,
    location: Location,
    /// The epochs of the log, oldest first; empty for a log of files.
    pub(super) epochs: Vec<Epoch>,
    /// The rules of the newest epoch, by which the log is read.
    pub(super) rules: Rules,
    pub(super) decoder: Decoder,
    /// The schemas of the newest epoch.
    pub(super) schemas: KnownSchemas,
}

impl Letters {
    /// Opens the dead letters of a store.
    ///
    /// # Errors
    /// The store cannot be read, or has no epoch. The dead letter topic does not exist, or no
    /// broker responds.
    pub async fn open(settings: Settings) -> anyhow::Result<Self> {
        let brokers = settings.brokers()?;
        let reader = settings.reader().await?;
        let epochs = reader.epochs().await?;
        let newest = epochs.last();
        let (location, rules) = match reader.embedded() {
            Some(store) => {
                let rules = newest.map(|epoch| epoch.rules.clone());
                let rules = rules.map_or_else(|| store.rules(), |rules| Ok(Some(rules)))?;
                (Location::Table(Arc::clone(store)), rules.unwrap_or_default())
            }
            None => {
                let epoch = newest.ok_or_else(|| {
                    let store = &settings.store;
                    NoResult(format!("store `{store}` has no epoch: no topic was read"))
                })?;
                let topic = LetterTopic::open(&brokers, &epoch.topic)?;
                (Location::Topic(topic), epoch.rules.clone())
            }
        };
        let decoder = Decoder::new(&rules)?;
        let newest = epochs.last().map(std::slice::from_ref).unwrap_or_default();
        let schemas = known_schemas(&reader, newest).await?;
        for ((_, id), verdict) in &schemas.verdicts {
            decoder.add_schema(*id, verdict);
        }
        Ok(Self { settings, brokers, location, epochs, rules, decoder, schemas })
    }

    /// The store as messages name it.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.settings.store
    }

    /// Whether a filter selects a letter.
    #[must_use]
    pub fn selects(&self, filter: &LetterFilter, letter: &DeadLetter) -> bool {
        let is_of = |device: &String| {
            let of_value = || self.decoder.device_of(&letter.value, &letter_context(letter));
            letter.key.as_deref() == Some(device.as_bytes()) || of_value().as_ref() == Some(device)
        };
        filter.reason.is_none_or(|reason| reason == letter.reason)
            && filter.from_ms.is_none_or(|from_ms| letter.log_time_ms >= from_ms)
            && filter.to_ms.is_none_or(|to_ms| letter.log_time_ms <= to_ms)
            && filter.device.as_ref().is_none_or(is_of)
    }

    /// Reads the letters that a filter selects, without those that are added meanwhile.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub fn read<'a>(
        &'a self,
        filter: &'a LetterFilter,
    ) -> anyhow::Result<LetterIter<'a, StoredLetter>> {
        let selected = move |record: anyhow::Result<LetterRecord>| match record {
            Ok((id, letter)) => {
                let letter = letter.filter(|letter| self.selects(filter, letter))?;
                Some(Ok(StoredLetter { id, letter }))
            }
            Err(error) => Some(Err(error)),
        };
        Ok(Box::new(self.records(filter)?.filter_map(selected)))
    }

    /// Reads the records among which are all letters that a filter selects.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub fn records<'a>(
        &'a self,
        filter: &'a LetterFilter,
    ) -> anyhow::Result<LetterIter<'a, LetterRecord>> {
        match &self.location {
            Location::Table(store) => {
                let (upto, mut after, mut page) = (store.last_dead_letter()?, 0, Vec::new());
                Ok(Box::new(std::iter::from_fn(move || {
                    if page.is_empty() {
                        page = match store.dead_letters(filter, after, PAGE) {
                            Ok(page) => page,
                            Err(error) => return Some(Err(error.into())),
                        };
                        page.reverse();
                    }
                    let row = page.pop().filter(|row| row.id <= upto)?;
                    after = row.id;
                    Some(Ok((LetterId { partition: None, number: row.id }, Some(row.letter))))
                })))
            }
            Location::Topic(topic) => Ok(Box::new(topic.unresolved()?.map(|record| {
                let (partition, offset, letter) = record?;
                Ok((LetterId { partition: Some(partition), number: offset.get() }, letter))
            }))),
        }
    }

    /// Finds a letter by its id, as `dlq ls` prints it.
    ///
    /// # Errors
    /// The id is malformed, or no letter has it. The store cannot be read, or no broker responds.
    pub fn find(&self, id: &str) -> anyhow::Result<StoredLetter> {
        let invalid = |form: &str| {
            InvalidRequest(format!(
                "`{id}` is not a valid id of a dead letter here; write {form}, as `tstar dlq ls` \
                 prints it"
            ))
        };
        let (parsed, letter) = match &self.location {
            Location::Table(store) => {
                let number: i64 = id.parse().map_err(|_| invalid("a number"))?;
                let rows =
                    store.dead_letters(&LetterFilter::default(), number.saturating_sub(1), 1)?;
                let row = rows.into_iter().find(|row| row.id == number);
                (LetterId { partition: None, number }, row.map(|row| row.letter))
            }
            Location::Topic(topic) => {
                let parse = || -> Option<(i32, i64)> {
                    let (partition, offset) = id.split_once(':')?;
                    Some((partition.parse().ok()?, offset.parse().ok()?))
                };
                let (partition, number) = parse().ok_or_else(|| invalid("partition:offset"))?;
                let letter = topic.find(partition, Offset(number))?;
                (LetterId { partition: Some(partition), number }, letter)
            }
        };
        let missing = || NoResult(format!("no dead letter {id}; `tstar dlq ls` lists them"));
        Ok(StoredLetter { id: parsed, letter: letter.ok_or_else(missing)? })
    }

    /// A decoder of the letters by the rules of the store, by its schemas and by overrides.
    ///
    /// # Errors
    /// The overrides map fields in an invalid way.
    pub(crate) fn redecoder(
        &self,
        overrides: &DecodeOverrides,
        now_ms: Option<i64>,
    ) -> Result<Redecoder, DecoderError> {
        let log = if self.epochs.is_empty() { LogKind::Files } else { LogKind::Topic };
        let mut redecoder = Redecoder::new(log, &self.rules, overrides, now_ms)?;
        for ((_, id), verdict) in &self.schemas.verdicts {
            redecoder.add_schema(*id, verdict);
        }
        Ok(redecoder)
    }

    /// Opens the store of the letters for writing. `notify` receives what a producer waits for.
    ///
    /// # Errors
    /// The store cannot be written, or an option is unknown to the client.
    pub(crate) fn remover(&self, notify: &Notify) -> anyhow::Result<LetterRemover<'_>> {
        match &self.location {
            Location::Topic(topic) => {
                let producer = Producer::new(&self.brokers, Arc::clone(notify))?;
                Ok(LetterRemover::Topic(topic, producer, &self.brokers))
            }
            Location::Table(_) => {
                let url = self.settings.url()?;
                let path = url.path().expect("a file has a path");
                let open = if self.epochs.is_empty() {
                    EmbeddedStore::open_writer
                } else {
                    EmbeddedStore::open_for_topic
                };
                let store = open(path, &self.rules, self.settings.keep_changes)?;
                Ok(LetterRemover::Table(store))
            }
        }
    }
}

/// Removes letters from their store.
pub(crate) enum LetterRemover<'a> {
    /// From a table.
    Table(EmbeddedStore),
    /// By a mark in a topic, which has these brokers.
    Topic(&'a LetterTopic, Producer, &'a Brokers),
}

impl LetterRemover<'_> {
    /// Removes letters; of a topic, the fate remains.
    ///
    /// # Errors
    /// The store cannot be written, or no broker responds.
    pub(crate) async fn remove(&self, ids: &[LetterId], fate: Fate) -> anyhow::Result<()> {
        match self {
            _ if ids.is_empty() => {}
            Self::Table(store) => {
                let numbers: Vec<_> = ids.iter().map(|id| id.number).collect();
                store.delete_letters(&numbers)?;
            }
            Self::Topic(topic, producer, _) => {
                let position = |id: &LetterId| Some((id.partition?, Offset(id.number)));
                let positions: Vec<_> = ids.iter().filter_map(position).collect();
                topic.resolve(producer, &positions, fate).await?;
            }
        }
        Ok(())
    }

    /// Frees the space of what was removed. `remaining` has the first record of each partition that
    /// was not, if there is any.
    ///
    /// # Errors
    /// The brokers refuse, or none responds. A table fails never.
    pub(crate) async fn free(
        &self,
        remaining: impl IntoIterator<Item = (i32, i64)>,
    ) -> anyhow::Result<Result<(), KafkaError>> {
        let Self::Topic(topic, _, brokers) = self else { return Ok(Ok(())) };
        let mut delete_before = topic.ends();
        delete_before.extend(remaining);
        Ok(Topics::new(brokers)?.delete_before(topic.name(), &delete_before).await)
    }
}
