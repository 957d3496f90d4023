//! The change feed of a store: its events after a cursor, and the events of tags. A store in a file
//! has it in a table; else it is a topic next to the log.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::identity::token_of_device;
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::producer::{Producer, ProducerRecord};
use crate::kafka::tail::{Keep, Offsets, Tail, TailSpan};
use crate::kafka::topic_names::feed_topic;
use crate::kafka::topics::Topics;
use crate::model::tag::Tag;
use crate::sink::feed::{Subject, feed_record};
use crate::store::{AnyStore, EmbeddedStore, SideTables, StoreError};
use crate::views::event::tagged;
use crate::views::{ViewError, tagged_id};

/// How long the brokers may take to acknowledge an event.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Position of a client in the change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedCursor {
    /// In a table, the number of the last event read; in a topic, the offset of the next event by
    /// partition.
    pub numbers: Offsets,
    is_of_topic: bool,
}

impl FeedCursor {
    fn of_table(number: i64) -> Self {
        Self { numbers: vec![number], is_of_topic: false }
    }

    fn of_topic(numbers: Offsets) -> Self {
        Self { numbers, is_of_topic: true }
    }

    /// Parses numbers separated by dots.
    ///
    /// # Errors
    /// The text has another form.
    pub(crate) fn parse(text: &str) -> Result<Offsets, String> {
        let number = |digits: &str| {
            let is_number = matches!(digits.len(), 1..=18);
            let is_number = is_number && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        };
        let numbers: Option<Offsets> = text.split('.').map(number).collect();
        numbers.filter(|numbers| numbers.len() <= 1000).ok_or_else(|| {
            format!("`{text}` is not a valid cursor; use `next` of a page or the id of an event")
        })
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.numbers.iter().map(i64::to_string).collect();
        to.write_str(&texts.join("."))
    }
}

impl Serialize for FeedCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.numbers[..] {
            [number] if !self.is_of_topic => serializer.serialize_i64(*number),
            _ => serializer.collect_str(self),
        }
    }
}

/// Why the change feed cannot be read from a cursor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The topic is not available yet, for this reason.
    #[error("cannot read the change feed: {0}")]
    Unavailable(String),
    /// The cursor is past the newest event, or of another feed.
    #[error("{0}")]
    NoChange(String),
    /// The next events are no longer retained.
    #[error("{detail}")]
    Gone {
        /// What is no longer retained.
        detail: String,
        /// Cursor of the first event that is.
        oldest: FeedCursor,
    },
}

/// The change feed of a store.
pub(crate) enum ChangeFeed {
    /// A table of the store, which announces tags itself.
    Table(Arc<EmbeddedStore>),
    /// A topic.
    Topic(Box<TopicFeed>),
}

/// A topic with the change feed.
pub struct TopicFeed {
    /// Its latest events, in memory.
    tail: Tail,
    /// Announces tags.
    tags: TagFeed,
}

impl TopicFeed {
    /// Starts to read the feed of the log `input`, whose topic may be created later. `None` if the
    /// store keeps it.
    ///
    /// # Errors
    /// The client or the thread cannot be created.
    pub fn start(
        store: &AnyStore,
        brokers: &Brokers,
        input: &str,
    ) -> Result<Option<Self>, KafkaError> {
        if store.embedded().is_some() {
            return Ok(None);
        }
        let tail = Tail::start(brokers, &feed_topic(input), Keep::default())?;
        Ok(Some(Self { tail, tags: TagFeed::new(brokers, input) }))
    }
}

impl ChangeFeed {
    /// The change feed of a store; `topic` is that of a store on servers.
    #[must_use]
    pub(crate) fn of_store(store: &AnyStore, topic: Option<TopicFeed>) -> Option<Self> {
        match store.embedded() {
            Some(store) => Some(Self::Table(Arc::clone(store))),
            None => topic.map(|topic| Self::Topic(Box::new(topic))),
        }
    }

    /// Whether the change feed can be read now.
    #[must_use]
    pub(crate) fn is_available(&self) -> bool {
        match self {
            Self::Table(store) => store.kept_changes().is_ok(),
            Self::Topic(topic) => topic.tail.span().is_ok(),
        }
    }

    /// Whether the cursor, from another server, is past what this server has read so far.
    #[must_use]
    pub(crate) fn is_behind(&self, after: &[i64]) -> bool {
        match self {
            Self::Table(_) => false,
            Self::Topic(topic) => topic.tail.span().is_ok_and(|span| is_ahead(after, &span)),
        }
    }

    /// The cursor to resume from: `after`, or the newest event if that is `None`.
    ///
    /// # Errors
    /// The feed cannot be read, does not have the event, or no longer has those after it.
    pub(crate) fn cursor_after(&self, after: Option<Offsets>) -> Result<FeedCursor, FeedError> {
        match self {
            Self::Table(store) => in_table(store.kept_changes()?, after).map(FeedCursor::of_table),
            Self::Topic(topic) => {
                let span = topic.tail.span().map_err(FeedError::Unavailable)?;
                in_topic(topic.tail.topic(), &span, after).map(FeedCursor::of_topic)
            }
        }
    }

    /// At most `limit` events after a cursor with their own cursors, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn after(
        &self,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<(FeedCursor, Arc<str>)>, StoreError> {
        match self {
            Self::Table(store) => {
                let number = cursor.numbers.first().copied().unwrap_or_default();
                let changes = store.changes(number, limit)?.into_iter();
                Ok(changes.map(|(seq, event)| (FeedCursor::of_table(seq), event.into())).collect())
            }
            Self::Topic(topic) => {
                let events = topic.tail.after(&cursor.numbers, limit).into_iter();
                Ok(events.map(|(at, event)| (FeedCursor::of_topic(at), event)).collect())
            }
        }
    }

    /// What announces tags, unless the store does.
    #[must_use]
    pub(crate) fn tags(&self) -> Option<&TagFeed> {
        match self {
            Self::Table(_) => None,
            Self::Topic(topic) => Some(&topic.tags),
        }
    }
}

fn in_table((first, next): (i64, i64), after: Option<Offsets>) -> Result<i64, FeedError> {
    let newest = next - 1;
    let after = match after.as_deref() {
        None => newest,
        Some([after]) => *after,
        Some(_) => {
            return Err(FeedError::NoChange("a cursor of this server has one number".into()));
        }
    };
    // Checked before the addition below, which could overflow with a number from a client.
    if after > newest {
        return Err(FeedError::NoChange(format!(
            "event {after} does not exist; the newest is {newest}"
        )));
    }
    if after + 1 < first {
        let detail = format!("events up to {} are no longer retained", first - 1);
        return Err(FeedError::Gone { detail, oldest: FeedCursor::of_table(first) });
    }
    Ok(after)
}

fn is_ahead(after: &[i64], span: &TailSpan) -> bool {
    after.iter().zip(&span.next).any(|(at, next)| at > next)
}

fn in_topic(topic: &str, span: &TailSpan, after: Option<Offsets>) -> Result<Offsets, FeedError> {
    let Some(mut after) = after else { return Ok(span.next.clone()) };
    let partitions = span.next.len();
    if after.len() > partitions {
        return Err(FeedError::NoChange(format!("topic `{topic}` has {partitions} partitions")));
    }
    // The topic has new partitions, of which the client has read nothing.
    after.resize(partitions, 0);
    if is_ahead(&after, span) {
        let newest = FeedCursor::of_topic(span.next.clone());
        return Err(FeedError::NoChange(format!(
            "the cursor is past the newest event, which is {newest}"
        )));
    }
    if after.iter().zip(&span.first).any(|(at, first)| at < first) {
        let oldest = FeedCursor::of_topic(span.first.clone());
        let detail = format!("events before {oldest} are no longer in memory");
        return Err(FeedError::Gone { detail, oldest });
    }
    Ok(after)
}

/// A tag was stored, and the feed does not have it.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// The brokers do not acknowledge the event.
    #[error("the tag is stored, but topic `{topic}` did not acknowledge its event; set it again")]
    Feed {
        /// Name of the topic.
        topic: String,
        /// The cause.
        source: KafkaError,
    },
    /// The event cannot be written.
    #[error(transparent)]
    View(#[from] ViewError),
}

/// The change feed of a topic's store, for tags.
pub(crate) struct TagFeed {
    brokers: Brokers,
    /// Topic of the samples.
    input: String,
    topic: String,
    /// Created with the first event.
    producer: OnceLock<Producer>,
}

impl TagFeed {
    /// The feed of a store; `None` if the store announces tags itself, or no topic was read into
    /// it.
    ///
    /// # Errors
    /// The store cannot be read, or the brokers are not well defined.
    pub(crate) async fn of_store(
        store: &AnyStore,
        brokers: impl FnOnce() -> Result<Brokers, KafkaError>,
    ) -> anyhow::Result<Option<Self>> {
        match (store.embedded(), store.epochs().await?.pop()) {
            (None, Some(newest)) => Ok(Some(Self::new(&brokers()?, &newest.topic))),
            _ => Ok(None),
        }
    }

    /// The feed of the log `input`. Connects with the first event.
    fn new(brokers: &Brokers, input: &str) -> Self {
        let brokers = brokers.clone().within(ACK_TIMEOUT);
        let (input, topic) = (input.to_owned(), feed_topic(input));
        Self { brokers, input, topic, producer: OnceLock::new() }
    }

    /// Announces tags of a device that were set or, if so marked, removed. Without a topic there is
    /// no feed, and nothing to do.
    ///
    /// # Errors
    /// The brokers do not acknowledge the events.
    pub(crate) async fn announce(
        &self,
        device_id: &str,
        changes: impl IntoIterator<Item = (&Tag, bool)>,
    ) -> Result<(), AnnounceError> {
        let failed = |source| AnnounceError::Feed { topic: self.topic.clone(), source };
        let record = |(tag, is_removed)| -> Result<ProducerRecord, ViewError> {
            let event = tagged(device_id, tag, is_removed)?;
            let id = tagged_id(device_id, tag)?.unwrap_or_else(|| token_of_device(device_id));
            let id = format!("{id}/{}@{}", tag.key.as_str(), tag.revision);
            let (input, kind) = (&*self.input, "tagged");
            Ok(feed_record(&Subject { input, device_id, kind, id: &id }, event))
        };
        let records = changes.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
        let Some(producer) = self.producer().await.map_err(failed)? else { return Ok(()) };
        let sent = producer.send(&self.topic, &records).await;
        sent.map(drop).map_err(producer.failed("announcing a tag", &self.topic)).map_err(failed)
    }

    /// The producer, or `None` if the topic does not exist.
    async fn producer(&self) -> Result<Option<&Producer>, KafkaError> {
        if let Some(producer) = self.producer.get() {
            return Ok(Some(producer));
        }
        let (brokers, topic) = (self.brokers.clone(), self.topic.clone());
        let exists = move || Ok(Topics::new(&brokers)?.partitions(&topic)?.is_some());
        let exists = tokio::task::spawn_blocking(exists).await.expect("it does not panic");
        if !exists? {
            return Ok(None);
        }
        let on_waiting = Arc::new(|what: &str| tracing::warn!("{what}"));
        let producer = Producer::new(&self.brokers, on_waiting)?;
        // Another request may have created one meanwhile.
        Ok(Some(self.producer.get_or_init(|| producer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<Offsets, FeedError>) -> Result<Offsets, &'static str> {
        result.map_err(|error| match error {
            FeedError::NoChange(_) => "no_change",
            FeedError::Gone { .. } => "changes_gone",
            FeedError::Store(_) | FeedError::Unavailable(_) => "no_changes",
        })
    }

    #[test]
    fn a_cursor_is_numbers_separated_by_dots() {
        assert_eq!(FeedCursor::parse("7"), Ok(vec![7]));
        assert_eq!(FeedCursor::parse("12.0.7"), Ok(vec![12, 0, 7]));
        assert_eq!(FeedCursor::of_topic(vec![12, 0, 7]).to_string(), "12.0.7");
        for wrong in ["", ".", "1.", "-1", "+1", "1..2", "x", "1234567890123456789"] {
            FeedCursor::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_client_resumes_only_without_a_gap() {
        let span = TailSpan { first: vec![3, 0], next: vec![9, 4] };
        let resume = |after: Option<&[i64]>| code(in_topic("t", &span, after.map(<[_]>::to_vec)));
        assert_eq!(resume(None), Ok(vec![9, 4]));
        assert_eq!(resume(Some(&[3, 1])), Ok(vec![3, 1]));
        assert_eq!(resume(Some(&[9])), Ok(vec![9, 0]), "the topic has grown");
        assert_eq!(resume(Some(&[2, 1])), Err("changes_gone"));
        assert_eq!(resume(Some(&[3, 5])), Err("no_change"));
        assert_eq!(resume(Some(&[3, 1, 0])), Err("no_change"));
    }
}
