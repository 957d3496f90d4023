//! Announces tags in the change feed, for stores whose feed is a topic. A store in a file announces
//! them itself.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::feed_record::{Subject, feed_record};
use crate::kafka::producer::{Producer, ProducerRecord};
use crate::kafka::topic::Topics;
use crate::kafka::topic_names::feed_topic;
use crate::model::tag::Tag;
use crate::views::event::tagged;
use crate::views::{ViewError, text_id};

/// How long the brokers may take to acknowledge an event.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

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
pub struct TagFeed {
    brokers: Brokers,
    /// Topic of the samples.
    input: String,
    topic: String,
    /// Created with the first event.
    producer: OnceLock<Producer>,
}

impl TagFeed {
    /// The feed of the log `input`. Connects with the first event.
    #[must_use]
    pub fn new(brokers: &Brokers, input: &str) -> Self {
        let brokers = brokers.clone().within(ACK_TIMEOUT);
        let (input, topic) = (input.to_owned(), feed_topic(input));
        Self { brokers, input, topic, producer: OnceLock::new() }
    }

    /// Announces tags of a device that were set or, if so marked, removed. Without a topic there is
    /// no feed, and nothing to do.
    ///
    /// # Errors
    /// The brokers do not acknowledge the events.
    pub async fn announce(
        &self,
        device_id: &str,
        changes: impl IntoIterator<Item = (&Tag, bool)>,
    ) -> Result<(), AnnounceError> {
        let failed = |source| AnnounceError::Feed { topic: self.topic.clone(), source };
        let record = |(tag, is_removed)| -> Result<ProducerRecord, ViewError> {
            let event = tagged(device_id, tag, is_removed)?;
            let trip = text_id(device_id, tag.t_star_ms)?;
            let id = format!("{trip}/{}@{}", tag.key.as_str(), tag.revision);
            let (input, kind) = (&*self.input, "tagged");
            Ok(feed_record(&Subject { input, device_id, kind, id: &id }, event))
        };
        let records = changes.into_iter().map(record).collect::<Result<Vec<_>, _>>()?;
        let Some(producer) = self.producer().await.map_err(failed)? else { return Ok(()) };
        let sent = producer.send(&self.topic, &records).await;
        sent.map_err(producer.failed("announcing a tag", &self.topic)).map_err(failed)
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
