//! What `serve` answers from: the store, and what belongs to its log.
//!
//! Servers may come later than this process: everything here is tried again until it succeeds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ingest_request::{FileSink, SampleSink, TopicSink};
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::producer::Producer;
use crate::kafka::tail::{Keep, Tail};
use crate::kafka::topic_names::feed_topic;
use crate::model::epoch::Epoch;
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::store::{Access, AnyStore, EpochStore, OpenOptions, StoreUrl, Timed};

/// Delay before a store or log that is not available is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What is served.
#[derive(Clone)]
pub struct ServeRequest {
    /// URL of the store.
    pub url: StoreUrl,
    /// Makes the options of the store. Called at each try: a file with a secret may come later.
    pub options: Arc<dyn Fn() -> anyhow::Result<OpenOptions> + Send + Sync>,
    /// Makes the connection settings of the log, only for a store of a topic.
    pub brokers: Arc<dyn Fn() -> Result<Brokers, KafkaError> + Send + Sync>,
    /// Rules for a store that has none yet.
    pub rules: RulesRequest,
    /// Change events that a store of files keeps.
    pub keep_changes: u64,
    /// Accept samples.
    pub accepts_samples: bool,
    /// The clock, ms since 1970.
    pub clock: fn() -> i64,
}

impl ServeRequest {
    /// The rules of a store that has none yet.
    #[must_use]
    pub fn new_rules(&self) -> Rules {
        self.rules.over(&Rules::default())
    }
}

/// A store that is open.
pub struct OpenedStore {
    /// Its operations are timed for the metrics.
    pub store: Timed<AnyStore>,
    /// Its log; `None` if no topic was read into the store yet: see [`first_log`].
    pub log: Option<ServedLog>,
}

/// What belongs to the log of a store.
pub struct ServedLog {
    /// Maximum gap within a trip, ms.
    pub max_gap_ms: i64,
    /// The change feed, if a topic keeps it.
    pub feed: Option<Tail>,
    /// Where samples go, if they are accepted.
    pub sink: Option<SampleSink>,
}

/// Opens the store and its log, as soon as they are available.
pub async fn open_store(request: &ServeRequest) -> OpenedStore {
    loop {
        match try_open(request).await {
            Ok(opened) => return opened,
            Err(error) => {
                tracing::debug!(error = %format!("{error:#}"), "the store is not available yet");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

async fn try_open(request: &ServeRequest) -> anyhow::Result<OpenedStore> {
    let store = AnyStore::open(&request.url, Access::Read, (request.options)()?).await?;
    let store = Timed(store);
    let epochs = store.epochs().await?;
    let log = match (epochs.last(), request.url.path()) {
        (Some(newest), _) => Some(topic_log(request, newest, store.0.embedded().is_none())?),
        (None, Some(path)) => {
            let stored = store.0.rules().await?;
            Some(file_log(request, path, stored.as_ref()))
        }
        (None, None) => None,
    };
    Ok(OpenedStore { store, log })
}

/// Waits until a topic was first read into a store on servers.
pub async fn first_log(request: &ServeRequest, store: &impl EpochStore) -> ServedLog {
    loop {
        tokio::time::sleep(RETRY_INTERVAL).await;
        let epochs = store.epochs().await.unwrap_or_default();
        let Some(newest) = epochs.last() else { continue };
        match topic_log(request, newest, true) {
            Ok(log) => return log,
            Err(error) => {
                tracing::debug!(error = %format!("{error:#}"), "the log is not available yet");
            }
        }
    }
}

/// Samples become further records of the file, by its rules, which are `stored`.
fn file_log(request: &ServeRequest, path: &Path, stored: Option<&Rules>) -> ServedLog {
    let max_gap_ms = stored.map_or_else(|| request.new_rules().max_gap_ms, |it| it.max_gap_ms);
    let sink = request.accepts_samples.then(|| {
        // The rules of a store without samples may change until the first one comes.
        let rules = stored.map_or_else(|| request.rules.clone(), |_| RulesRequest::default());
        SampleSink::File(Box::new(FileSink::new(
            path.to_owned(),
            rules,
            request.keep_changes,
            request.clock,
        )))
    });
    ServedLog { max_gap_ms, feed: None, sink }
}

/// Samples go to the topic that the store was built from; `has_feed_topic`: the change feed is a
/// topic as well, not a table of the store.
fn topic_log(
    request: &ServeRequest,
    newest: &Epoch,
    has_feed_topic: bool,
) -> anyhow::Result<ServedLog> {
    let brokers = (request.brokers)()?;
    let start_feed = || Tail::start(&brokers, &feed_topic(&newest.topic), Keep::default());
    let feed = has_feed_topic.then(start_feed).transpose()?;
    let sink = if request.accepts_samples {
        let on_waiting = Arc::new(|what: &str| tracing::warn!("{what}"));
        let producer = Producer::new(&brokers, on_waiting)?;
        let intake = TopicSink::new(producer, newest.topic.clone(), &newest.rules)?;
        Some(SampleSink::Topic(Box::new(intake)))
    } else {
        None
    };
    Ok(ServedLog { max_gap_ms: newest.rules.max_gap_ms, feed, sink })
}
