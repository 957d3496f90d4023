//! What `serve` answers from: the store, and what belongs to its log.
//!
//! Servers may come later than this process: everything here is tried again until it succeeds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::kafka::producer::Producer;
use crate::log::append::{FileSink, SampleSink, TopicSink};
use crate::log::changes::TopicFeed;
use crate::model::epoch::Epoch;
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::settings::Settings;
use crate::store::{AnyStore, FileId, SideTables};

/// Delay before a store or log that is not available is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What is served.
#[derive(Clone)]
pub(crate) struct ServeRequest {
    /// The store, its brokers, and whether samples are accepted: with tokens.
    pub settings: Settings,
    /// This process reads a topic into the store: without an epoch, it is not a store of files.
    pub reads_topic: bool,
}

impl ServeRequest {
    /// The rules of a store that has none yet.
    #[must_use]
    pub(crate) fn new_rules(&self) -> Rules {
        self.settings.rules_request().over(&Rules::default())
    }

    fn accepts_samples(&self) -> bool {
        !self.settings.http.token_file.is_empty()
    }
}

/// A store that is open.
pub(crate) struct OpenedStore {
    /// Its operations are timed for the metrics.
    pub store: AnyStore,
    /// Its log; `None` if no topic was read into the store yet: see [`first_log`].
    pub log: Option<ServedLog>,
}

/// What belongs to the log of a store.
pub struct ServedLog {
    /// The rules by which it was read.
    pub rules: Rules,
    /// The change feed, if a topic keeps it.
    pub feed: Option<TopicFeed>,
    /// Where samples go, if they are accepted.
    pub sink: Option<SampleSink>,
}

/// Opens the store and its log, as soon as they are available.
pub(crate) async fn open_store(request: &ServeRequest) -> OpenedStore {
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
    let store = request.settings.reader().await?.timed();
    let epochs = store.epochs().await?;
    let log = match (epochs.last(), served_file(&store, &request.settings)?) {
        (Some(newest), _) => Some(topic_log(request, newest, &store)?),
        (None, Some(file)) if !request.reads_topic => {
            let stored = store.rules().await?;
            Some(file_log(request, file, stored.as_ref()))
        }
        (None, _) => None,
    };
    Ok(OpenedStore { store, log })
}

/// The file of a store that is one.
fn served_file(store: &AnyStore, settings: &Settings) -> anyhow::Result<Option<(PathBuf, FileId)>> {
    let id = store.embedded().and_then(|store| store.file_id());
    Ok(settings.url()?.path().map(ToOwned::to_owned).zip(id))
}

/// Where samples go that become further records of the file that a store is; `None` if it is none.
///
/// # Errors
/// The store URL is invalid.
pub(crate) fn sink_of_file(
    store: &AnyStore,
    settings: &Settings,
) -> anyhow::Result<Option<SampleSink>> {
    let sink = |file| FileSink::new(file, RulesRequest::default(), settings.clone());
    Ok(served_file(store, settings)?.map(|file| SampleSink::File(Box::new(sink(file)))))
}

/// Waits until a topic is first read into the store.
pub(crate) async fn first_log(request: &ServeRequest, store: &AnyStore) -> ServedLog {
    loop {
        tokio::time::sleep(RETRY_INTERVAL).await;
        let epochs = store.epochs().await.unwrap_or_default();
        let Some(newest) = epochs.last() else { continue };
        match topic_log(request, newest, store) {
            Ok(log) => return log,
            Err(error) => {
                tracing::debug!(error = %format!("{error:#}"), "the log is not available yet");
            }
        }
    }
}

/// Samples become further records of the file, by its rules, which are `stored`.
fn file_log(request: &ServeRequest, file: (PathBuf, FileId), stored: Option<&Rules>) -> ServedLog {
    let current = stored.cloned().unwrap_or_else(|| request.new_rules());
    let sink = request.accepts_samples().then(|| {
        // The rules of a store without samples may change until the first one comes.
        let rules =
            stored.map_or_else(|| request.settings.rules_request(), |_| RulesRequest::default());
        SampleSink::File(Box::new(FileSink::new(file, rules, request.settings.clone())))
    });
    ServedLog { rules: current, feed: None, sink }
}

/// Samples go to the topic that the store was built from.
fn topic_log(
    request: &ServeRequest,
    newest: &Epoch,
    store: &AnyStore,
) -> anyhow::Result<ServedLog> {
    let settings = &request.settings;
    let brokers = settings.daemon_brokers(settings.kafka.clone())?;
    let feed = TopicFeed::start(store, &brokers, &newest.topic)?;
    let sink = if request.accepts_samples() {
        let on_waiting = Arc::new(|what: &str| tracing::warn!("{what}"));
        let producer = Producer::new(&brokers, on_waiting)?;
        let intake = TopicSink::new(producer, newest.topic.clone(), &newest.rules)?;
        Some(SampleSink::Topic(Box::new(intake)))
    } else {
        None
    };
    Ok(ServedLog { rules: newest.rules.clone(), feed, sink })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::partitioner::Partitioner;
    use crate::model::scalar::Version;
    use crate::settings::HttpSettings;
    use crate::store::Access;

    #[tokio::test]
    async fn a_store_that_a_topic_is_read_into_waits_for_its_epoch() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("trips.db").display());
        let rules = Rules::default();
        let http = HttpSettings { token_file: "tokens".into(), ..HttpSettings::default() };
        let settings = Settings { store: url, http, keep_changes: 10, ..Settings::default() };
        let request = ServeRequest { settings, reads_topic: true };
        let writer = request.settings.open(Access::WriteTopic(&rules)).await.unwrap();
        let OpenedStore { store, log } = open_store(&request).await;
        assert!(log.is_none(), "it is taken for a store of files");
        let epoch = Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: 1,
            start_offsets: BTreeMap::new(),
            base: Version(1),
            rules,
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        };
        assert!(writer.add_epoch(&epoch).await.unwrap());
        let log = first_log(&request, &store).await;
        assert!(matches!(log.sink, Some(SampleSink::Topic(_))) && log.feed.is_none());
    }
}
