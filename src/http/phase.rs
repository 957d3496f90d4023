//! What the server does now: waits for its store, answers from it, or drains.

use std::sync::Arc;

use tokio::sync::watch;

use crate::log::append::SampleSink;
use crate::log::changes::ChangeFeed;
use crate::model::rules::Rules;
use crate::ops::serve::ServedLog;
use crate::store::AnyStore;

/// An open store, and what belongs to its log.
#[derive(Clone)]
pub struct OpenStore {
    pub(super) store: Arc<AnyStore>,
    /// The rules by which its log was read.
    pub(super) rules: Arc<Rules>,
    /// The change feed.
    pub(super) feed: Option<Arc<ChangeFeed>>,
    /// Where samples go, if they are accepted.
    pub(super) sink: Option<Arc<SampleSink>>,
}

impl OpenStore {
    /// A store with its log.
    #[must_use]
    pub fn new(store: Arc<AnyStore>, log: ServedLog) -> Self {
        let feed = ChangeFeed::of_store(&store, log.feed).map(Arc::new);
        Self { store, rules: Arc::new(log.rules), feed, sink: log.sink.map(Arc::new) }
    }

    /// A store that no topic was read into yet; the rules are those of the settings.
    #[must_use]
    pub(crate) fn without_log(store: Arc<AnyStore>, rules: Rules) -> Self {
        let feed = ChangeFeed::of_store(&store, None).map(Arc::new);
        Self { store, rules: Arc::new(rules), feed, sink: None }
    }
}

/// What the server does now. Each phase holds what exists in it: without a store there is no log.
#[derive(Default)]
pub(crate) enum Phase {
    /// Waits for the store; requests that need it are rejected.
    #[default]
    Opening,
    /// Answers requests.
    Serving(OpenStore),
    /// Ends streams and completes the requests in progress, from the store if it is open.
    Draining(Option<OpenStore>),
}

impl Phase {
    /// What requests are answered from; `None` until the store is open.
    pub(crate) fn opened(&self) -> Option<&OpenStore> {
        match self {
            Self::Opening => None,
            Self::Serving(opened) => Some(opened),
            Self::Draining(opened) => opened.as_ref(),
        }
    }

    /// Answers from `opened` from now on; a server that drains continues to drain.
    pub(crate) fn open(&mut self, opened: OpenStore) {
        *self = match self {
            Self::Opening | Self::Serving(_) => Self::Serving(opened),
            Self::Draining(_) => Self::Draining(Some(opened)),
        };
    }

    /// Starts to drain.
    pub(crate) fn drain(&mut self) {
        *self = match std::mem::take(self) {
            Self::Opening => Self::Draining(None),
            Self::Serving(opened) => Self::Draining(Some(opened)),
            Self::Draining(opened) => Self::Draining(opened),
        };
    }

    fn is_draining(&self) -> bool {
        matches!(self, Self::Draining(_))
    }
}

/// Completes when the server drains.
pub(crate) async fn draining(phase: &mut watch::Receiver<Phase>) {
    // An error means that the sender is dropped, which is a stop, too.
    phase.wait_for(Phase::is_draining).await.map(drop).ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;
    use crate::store::{Access, OpenOptions, StoreUrl};

    async fn opened(folder: &tempfile::TempDir) -> OpenStore {
        let path = folder.path().join("trips.db");
        let url = StoreUrl::parse(&format!("sqlite:{}", path.display())).unwrap();
        let access = Access::WriteFiles(&Rules::default());
        let store = AnyStore::open(&url, access, OpenOptions::default()).await.unwrap();
        OpenStore::without_log(Arc::new(store), Rules::default())
    }

    #[tokio::test]
    async fn a_drain_lasts_and_keeps_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let opened = opened(&folder).await;
        let mut phase = Phase::default();
        phase.drain();
        assert!(phase.is_draining() && phase.opened().is_none());
        phase.open(opened.clone());
        assert!(phase.is_draining() && phase.opened().is_some(), "requests in progress need it");
        let mut phase = Phase::default();
        phase.open(opened);
        assert!(!phase.is_draining() && phase.opened().is_some());
        phase.drain();
        phase.drain();
        assert!(phase.is_draining() && phase.opened().is_some());
    }
}
