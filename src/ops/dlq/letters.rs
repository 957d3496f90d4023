//! Opens the dead letters of a store, filters and finds them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::kafka::client::Brokers;
use crate::kafka::dead_letters::{DlqRecordKind, Fates, LetterScan, LetterTopic};
use crate::model::epoch::Epoch;
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::scalar::{LogTime, Offset};
use crate::ops::{InvalidRequest, NoResult};
use crate::pipeline::schemas::{KnownSchemas, known_schemas};
use crate::source::{Decoder, RecordContext};
use crate::store::{
    Access, AnyStore, DeadLetter, DeadLetterFilter, EmbeddedStore, EpochStore, KeptDeadLetter,
    OpenOptions, StoreUrl,
};

/// Number of dead letters in one page of a table. A letter may have a megabyte.
const PAGE: usize = 64;

/// Identifies a dead letter of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterId {
    /// Row number in the table of an embedded store.
    Number(i64),
    /// Position in the dead letter topic.
    Position {
        /// Partition number, from 0.
        partition: i32,
        /// Offset in the partition.
        offset: Offset,
    },
}

impl LetterId {
    /// The row number; `None` for a letter of a topic.
    #[must_use]
    pub fn number(self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Position { .. } => None,
        }
    }

    /// The position in the dead letter topic; `None` for a letter of a table.
    #[must_use]
    pub fn position(self) -> Option<(i32, Offset)> {
        match self {
            Self::Number(_) => None,
            Self::Position { partition, offset } => Some((partition, offset)),
        }
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Position { partition, offset } => write!(f, "{partition}:{offset}"),
        }
    }
}

impl Serialize for LetterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Position { .. } => serializer.collect_str(self),
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

impl From<KeptDeadLetter> for StoredLetter {
    fn from(row: KeptDeadLetter) -> Self {
        Self { id: LetterId::Number(row.id), letter: row.letter }
    }
}

/// Selects dead letters; the default selects all.
#[derive(Clone, Debug, Default)]
pub struct LetterFilter {
    /// Only those with this reason.
    pub reason: Option<DeadReason>,
    /// Only those whose key is this device, or whose JSON names it.
    pub device: Option<String>,
    /// Earliest log timestamp, inclusive, ms since 1970.
    pub from_ms: Option<LogTime>,
    /// Latest log timestamp, inclusive, ms since 1970.
    pub to_ms: Option<LogTime>,
}

/// Parses the name of a reason.
///
/// # Errors
/// There is no such reason.
pub fn parse_reason(name: &str) -> Result<DeadReason, InvalidRequest> {
    DeadReason::from_name(name).ok_or_else(|| {
        let names: Vec<_> = DeadReason::ALL.iter().map(|reason| reason.name()).collect();
        InvalidRequest(format!("`{name}` is not a valid reason; use one of: {}", names.join(", ")))
    })
}

impl LetterFilter {
    /// Whether it selects a letter; `decoder` finds the device in JSON.
    #[must_use]
    pub fn matches(&self, letter: &DeadLetter, decoder: &Decoder) -> bool {
        self.reason.is_none_or(|reason| reason == letter.reason)
            && self.from_ms.is_none_or(|from_ms| letter.log_time_ms >= from_ms)
            && self.to_ms.is_none_or(|to_ms| letter.log_time_ms <= to_ms)
            && self.matches_device(letter, decoder)
    }

    fn matches_device(&self, letter: &DeadLetter, decoder: &Decoder) -> bool {
        let Some(device) = &self.device else { return true };
        letter.key.as_deref() == Some(device.as_bytes())
            || decoder.device_of(&letter.value, &letter_context(letter)).as_ref() == Some(device)
    }
}

/// The context of a letter's record, in the log that its origin names.
pub(super) fn letter_context(letter: &DeadLetter) -> RecordContext<'_> {
    let key = letter.key.as_deref();
    match letter.line {
        0 => {
            let topic = letter.is_of_topic().then_some(&*letter.origin);
            RecordContext { key, headers: &letter.headers, topic, file: None }
        }
        _ => RecordContext { key, ..RecordContext::of_file(&letter.origin) },
    }
}

/// How to reach the dead letters of a store.
#[derive(Clone)]
pub struct DlqAccess {
    /// The store as messages name it.
    pub store: String,
    /// The store.
    pub url: StoreUrl,
    /// How the store is opened.
    pub options: OpenOptions,
    /// The brokers of the store's topic.
    pub brokers: Brokers,
}

impl DlqAccess {
    pub(super) async fn open_reader(&self) -> anyhow::Result<AnyStore> {
        Ok(AnyStore::open(&self.url, Access::Read, self.options.clone()).await?)
    }
}

/// Where the dead letters of a store are.
pub(super) enum LetterStore {
    /// In a table of the file that holds the trips.
    Table { path: PathBuf, store: Arc<EmbeddedStore> },
    /// In the dead letter topic of its log.
    Topic(LetterTopic),
}

/// The dead letters of a store.
pub struct Letters {
    pub(super) access: DlqAccess,
    pub(super) location: LetterStore,
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
    pub async fn open(access: DlqAccess) -> anyhow::Result<Self> {
        let reader = access.open_reader().await?;
        let epochs = reader.epochs().await?;
        let newest = epochs.last();
        let (location, rules) = match (access.url.path(), reader.embedded()) {
            (Some(path), Some(store)) => {
                let rules = newest.map(|epoch| epoch.rules.clone());
                let rules = rules.map_or_else(|| store.rules(), |rules| Ok(Some(rules)))?;
                let (path, store) = (path.to_owned(), Arc::clone(store));
                (LetterStore::Table { path, store }, rules.unwrap_or_default())
            }
            _ => {
                let epoch = newest.ok_or_else(|| {
                    let store = &access.store;
                    NoResult(format!("store `{store}` has no epoch: no topic was read"))
                })?;
                let topic = LetterTopic::open(&access.brokers, &epoch.topic)?;
                (LetterStore::Topic(topic), epoch.rules.clone())
            }
        };
        let decoder = Decoder::new(&rules)?;
        let newest = epochs.last().map(std::slice::from_ref).unwrap_or_default();
        let schemas = known_schemas(&reader, newest).await?;
        for ((_, id), verdict) in &schemas.verdicts {
            decoder.add_schema(*id, verdict);
        }
        Ok(Self { access, location, epochs, rules, decoder, schemas })
    }

    /// The store as messages name it.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.access.store
    }

    /// Reads the letters that a filter selects, without those that are added meanwhile.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub fn read<'a>(&'a self, filter: &'a LetterFilter) -> anyhow::Result<LetterReader<'a>> {
        match &self.location {
            LetterStore::Table { store, .. } => {
                let upto = store.last_dead_letter()?;
                let cursor = Cursor::Table { store, after: 0, upto, page: Vec::new() };
                Ok(LetterReader { letters: self, filter, cursor })
            }
            LetterStore::Topic(topic) => {
                let cursor = Cursor::Topic { fates: topic.fates()?, scan: Box::new(topic.scan()?) };
                Ok(LetterReader { letters: self, filter, cursor })
            }
        }
    }

    /// Counts the letters that a filter selects; reads them all.
    ///
    /// # Errors
    /// The store cannot be read, or no broker responds.
    pub fn count(&self, filter: &LetterFilter) -> anyhow::Result<u64> {
        let (mut count, mut reader) = (0, self.read(filter)?);
        while reader.next_letter()?.is_some() {
            count += 1;
        }
        Ok(count)
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
        let found = match &self.location {
            LetterStore::Table { store, .. } => {
                let number: i64 = id.parse().map_err(|_| invalid("a number"))?;
                let after = number.saturating_sub(1);
                let filter = DeadLetterFilter { after, limit: 1, ..DeadLetterFilter::default() };
                let found = store.dead_letters(&filter)?.pop();
                found.filter(|row| row.id == number).map(StoredLetter::from)
            }
            LetterStore::Topic(topic) => {
                let (partition, offset) =
                    parse_position(id).ok_or_else(|| invalid("partition:offset"))?;
                let letter = topic.find(partition, Offset(offset))?;
                let id = LetterId::Position { partition, offset: Offset(offset) };
                letter.map(|letter| StoredLetter { id, letter })
            }
        };
        let missing = || NoResult(format!("no dead letter {id}; `tstar dlq ls` lists them"));
        found.ok_or_else(|| missing().into())
    }
}

/// Parses `partition:offset`.
fn parse_position(id: &str) -> Option<(i32, i64)> {
    let (partition, offset) = id.split_once(':')?;
    Some((partition.parse().ok()?, offset.parse().ok()?))
}

/// Reads dead letters, oldest first; of a topic partition by partition.
pub struct LetterReader<'a> {
    letters: &'a Letters,
    filter: &'a LetterFilter,
    cursor: Cursor<'a>,
}

enum Cursor<'a> {
    Table {
        store: &'a EmbeddedStore,
        after: i64,
        /// Number of the last letter to read.
        upto: i64,
        /// Letters read ahead, the next one last.
        page: Vec<KeptDeadLetter>,
    },
    Topic {
        fates: Fates,
        scan: Box<LetterScan>,
    },
}

impl LetterReader<'_> {
    /// Reads the next letter; `None` at the end.
    ///
    /// # Errors
    /// The store cannot be read, or no broker responds.
    pub fn next_letter(&mut self) -> anyhow::Result<Option<StoredLetter>> {
        loop {
            let stored = match &mut self.cursor {
                Cursor::Table { store, after, upto, page } => {
                    if page.is_empty() {
                        *page = next_page(store, self.filter, *after)?;
                        page.reverse();
                    }
                    let Some(row) = page.pop().filter(|row| row.id <= *upto) else {
                        return Ok(None);
                    };
                    *after = row.id;
                    StoredLetter::from(row)
                }
                Cursor::Topic { fates, scan } => {
                    let Some(record) = scan.next_found()? else { return Ok(None) };
                    let (partition, offset) = (record.partition, record.offset);
                    match record.what {
                        DlqRecordKind::Letter(letter) if !fates.has(partition, offset) => {
                            let id = LetterId::Position { partition, offset };
                            StoredLetter { id, letter: *letter }
                        }
                        _ => continue,
                    }
                }
            };
            if self.filter.matches(&stored.letter, &self.letters.decoder) {
                return Ok(Some(stored));
            }
        }
    }
}

fn next_page(
    store: &EmbeddedStore,
    filter: &LetterFilter,
    after: i64,
) -> anyhow::Result<Vec<KeptDeadLetter>> {
    let LetterFilter { reason, from_ms, to_ms, .. } = *filter;
    let page = DeadLetterFilter { reason, from_ms, upto_ms: to_ms, after, limit: PAGE };
    Ok(store.dead_letters(&page)?)
}
