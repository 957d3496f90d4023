//! Determines the log that a store was built from.

use std::path::PathBuf;

use super::topic_log::no_files;
use super::{InvalidRequest, PreconditionFailed};
use crate::store::{AnyStore, EmbeddedStore, EpochStore};

/// The log that a store was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// A topic.
    Topic,
    /// Imported files.
    Files,
}

impl LogSource {
    /// Determines the log of a store, and checks that `files` are named exactly if it was built
    /// from files. `name` is the store in messages.
    ///
    /// # Errors
    /// The store cannot be read, files are missing, or files are named for a store of a topic.
    pub async fn detect(store: &AnyStore, files: &[PathBuf], name: &str) -> anyhow::Result<Self> {
        let is_of_topic = !store.epochs().await?.is_empty();
        match (is_of_topic, files.is_empty()) {
            (true, true) => Ok(Self::Topic),
            (false, false) => Ok(Self::Files),
            (true, false) => {
                let problem =
                    "the store was built from a topic, which is replayed; do not name files";
                Err(InvalidRequest(problem.into()).into())
            }
            (false, true) => Err(no_files(store, name)),
        }
    }
}

/// The file of a store that was built from files.
pub(super) fn imported_store(store: &AnyStore) -> Result<&EmbeddedStore, PreconditionFailed> {
    let store = store.embedded().map(|store| &**store);
    store.ok_or_else(|| PreconditionFailed("a keyspace is never built from files".to_owned()))
}
