//! Where dead letters are, and which are meant.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use tstar::ops::{InvalidRequest, NoResult};

use serde::{Serialize, Serializer};
use tstar::kafka::client::Brokers;
use tstar::kafka::dead_letters::{DlqRecordKind, Fates, LetterScan, LetterTopic};
use tstar::model::epoch::Epoch;
use tstar::model::reason::DeadReason;
use tstar::model::rules::Rules;
use tstar::model::time::parse_time;
use tstar::settings::Settings;
use tstar::source::Decoder;
use tstar::store::{
    DeadLetter, DeadLetterFilter, EmbeddedStore, EpochStore, KeptDeadLetter, StoreUrl,
};

use super::{FilterFlags, PlaceFlags};
use crate::cli::flags::Context;
use crate::cli::open;

/// Dead letters of a table that are read at once: each may have a megabyte.
const PAGE: usize = 64;

/// What names a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Its number in the table.
    Number(i64),
    /// Its partition and offset in the topic.
    Place(i32, i64),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Place(partition, offset) => write!(f, "{partition}:{offset}"),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Place(..) => serializer.collect_str(self),
        }
    }
}

/// A dead letter and what names it.
pub struct StoredLetter {
    pub id: Id,
    pub letter: DeadLetter,
}

impl From<KeptDeadLetter> for StoredLetter {
    fn from(kept: KeptDeadLetter) -> Self {
        Self { id: Id::Number(kept.id), letter: kept.letter }
    }
}

/// Which dead letters are meant.
#[derive(Default)]
pub struct Filter {
    pub reason: Option<DeadReason>,
    pub device: Option<String>,
    pub from_ms: Option<i64>,
    pub upto_ms: Option<i64>,
}

impl FilterFlags {
    /// The filter that the flags say.
    pub fn read(&self) -> anyhow::Result<Filter> {
        let reason = self.reason.as_deref().map(parse_reason).transpose()?;
        let from_ms = self.from.as_deref().map(parse_time).transpose()?;
        let upto_ms = self.to.as_deref().map(parse_time).transpose()?;
        if from_ms.zip(upto_ms).is_some_and(|(from, upto)| upto < from) {
            return Err(InvalidRequest("--from is later than --to; turn them round".into()).into());
        }
        Ok(Filter { reason, device: self.device.clone(), from_ms, upto_ms })
    }

    /// Whether it means all there are.
    pub fn is_empty(&self) -> bool {
        let Self { reason, device, from, to } = self;
        [reason, device, from, to].into_iter().all(Option::is_none)
    }
}

fn parse_reason(name: &str) -> Result<DeadReason, InvalidRequest> {
    DeadReason::from_name(name).ok_or_else(|| {
        let names: Vec<_> = DeadReason::ALL.iter().map(|reason| reason.name()).collect();
        InvalidRequest(format!("`{name}` is no reason; the reasons are {}", names.join(", ")))
    })
}

impl Filter {
    /// Whether a letter is meant.
    pub fn takes(&self, letter: &DeadLetter, decoder: &Decoder) -> bool {
        self.reason.is_none_or(|reason| reason == letter.reason)
            && self.from_ms.is_none_or(|from_ms| letter.log_time_ms >= from_ms)
            && self.upto_ms.is_none_or(|upto_ms| letter.log_time_ms <= upto_ms)
            && self.is_of_the_device(letter, decoder)
    }

    fn is_of_the_device(&self, letter: &DeadLetter, decoder: &Decoder) -> bool {
        let Some(device) = &self.device else { return true };
        letter.key.as_deref() == Some(device.as_bytes())
            || decoder.device_of(&letter.value).as_ref() == Some(device)
    }
}

/// Where dead letters are.
pub enum LetterStore {
    /// In a table of the file that holds the trips.
    Table { path: PathBuf, store: Arc<EmbeddedStore> },
    /// In the topic beside the log.
    Topic(LetterTopic),
}

/// The dead letters of a store.
pub struct Letters {
    pub place: LetterStore,
    /// The lives of the log, oldest first; none where it is one of files.
    pub epochs: Vec<Epoch>,
    /// The rules by which the log is read.
    pub rules: Rules,
    pub decoder: Decoder,
    pub settings: Settings,
    pub brokers: Brokers,
}

impl Letters {
    /// The dead letters of the store that the settings name.
    pub async fn open(place: &PlaceFlags, context: &Context) -> anyhow::Result<Self> {
        let flags = [&place.brokers.0[..], &place.server.0].concat();
        let settings = context.settings(&flags)?.0;
        let brokers = open::brokers(&settings)?;
        let reader = open::reader(&settings, context).await?;
        let epochs = reader.epochs().await?;
        let newest = epochs.last();
        let url = StoreUrl::parse(&settings.store)?;
        let (place, rules) = match (url.path(), reader.embedded()) {
            (Some(path), Some(store)) => {
                let rules = newest.map(|epoch| epoch.rules.clone());
                let rules = rules.map_or_else(|| store.rules(), |rules| Ok(Some(rules)))?;
                let (path, store) = (path.to_owned(), Arc::clone(store));
                (LetterStore::Table { path, store }, rules.unwrap_or_default())
            }
            _ => {
                let epoch = newest.ok_or_else(|| {
                    let store = &settings.store;
                    NoResult(format!("store `{store}` has no epoch: no topic was read"))
                })?;
                (
                    LetterStore::Topic(LetterTopic::open(&brokers, &epoch.topic)?),
                    epoch.rules.clone(),
                )
            }
        };
        let decoder = Decoder::new(&rules)?;
        Ok(Self { place, epochs, rules, decoder, settings, brokers })
    }

    /// Reads those that are meant.
    pub fn read<'a>(&'a self, filter: &'a Filter) -> anyhow::Result<Reading<'a>> {
        match &self.place {
            LetterStore::Table { store, .. } => {
                let from = Source::Table { store, after: 0, page: Vec::new() };
                Ok(Reading { letters: self, filter, from })
            }
            LetterStore::Topic(topic) => self.read_topic(topic, filter),
        }
    }

    /// Reads those that are meant of a topic as it was when it was opened.
    pub fn read_topic<'a>(
        &'a self,
        topic: &LetterTopic,
        filter: &'a Filter,
    ) -> anyhow::Result<Reading<'a>> {
        let from = Source::Topic { fates: topic.fates()?, scan: topic.scan()? };
        Ok(Reading { letters: self, filter, from })
    }

    /// The letter of an id, as `dlq ls` gives it.
    pub fn find(&self, id: &str) -> anyhow::Result<StoredLetter> {
        let unread = |form: &str| {
            InvalidRequest(format!(
                "`{id}` is no id of a dead letter here: it is {form}; see `tstar dlq ls`"
            ))
        };
        let found = match &self.place {
            LetterStore::Table { store, .. } => {
                let number: i64 = id.parse().map_err(|_| unread("a number"))?;
                let after = number.saturating_sub(1);
                let one = DeadLetterFilter { after, limit: 1, ..DeadLetterFilter::default() };
                let found = store.dead_letters(&one)?.pop();
                found.filter(|kept| kept.id == number).map(StoredLetter::from)
            }
            LetterStore::Topic(topic) => {
                let place = id.split_once(':');
                let place = place.and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)));
                let (partition, offset) = place.ok_or_else(|| unread("partition:offset"))?;
                let letter = topic.find(partition, offset)?;
                letter.map(|letter| StoredLetter { id: Id::Place(partition, offset), letter })
            }
        };
        found.ok_or_else(|| {
            NoResult(format!("there is no dead letter {id}; `tstar dlq ls` lists them")).into()
        })
    }
}

/// Dead letters, one after the other.
pub struct Reading<'a> {
    letters: &'a Letters,
    filter: &'a Filter,
    from: Source<'a>,
}

enum Source<'a> {
    Table {
        store: &'a EmbeddedStore,
        after: i64,
        /// What is at hand, the next one last.
        page: Vec<KeptDeadLetter>,
    },
    Topic {
        fates: Fates,
        scan: LetterScan,
    },
}

impl Reading<'_> {
    /// The next one; `None` at the end.
    pub fn next(&mut self) -> anyhow::Result<Option<StoredLetter>> {
        let Self { letters, filter, from } = self;
        loop {
            let kept = match from {
                Source::Table { store, after, page } => {
                    if page.is_empty() {
                        *page = next_page(store, filter, *after)?;
                        page.reverse();
                    }
                    let Some(kept) = page.pop() else { return Ok(None) };
                    *after = kept.id;
                    StoredLetter::from(kept)
                }
                Source::Topic { fates, scan } => {
                    let Some(found) = scan.next_found()? else { return Ok(None) };
                    match found.what {
                        DlqRecordKind::Letter(letter)
                            if !fates.has(found.partition, found.offset) =>
                        {
                            StoredLetter {
                                id: Id::Place(found.partition, found.offset),
                                letter: *letter,
                            }
                        }
                        _ => continue,
                    }
                }
            };
            if filter.takes(&kept.letter, &letters.decoder) {
                return Ok(Some(kept));
            }
        }
    }
}

fn next_page(
    store: &EmbeddedStore,
    filter: &Filter,
    after: i64,
) -> anyhow::Result<Vec<KeptDeadLetter>> {
    let Filter { reason, from_ms, upto_ms, .. } = *filter;
    let page = DeadLetterFilter { reason, from_ms, upto_ms, after, limit: PAGE };
    Ok(store.dead_letters(&page)?)
}
