//! Removes dead letters: from a table, or by a mark in a topic.

use std::sync::Arc;

use super::letters::{LetterId, LetterStore, Letters};
use crate::kafka::dead_letters::{Fate, LetterTopic};
use crate::kafka::producer::Producer;
use crate::ops::Notify;
use crate::store::EmbeddedStore;

/// Removes letters from their store.
pub(super) enum LetterRemover<'a> {
    Table(EmbeddedStore),
    Topic(&'a LetterTopic, Producer),
}

impl<'a> LetterRemover<'a> {
    /// Opens the store of the letters for writing. `notify` receives what the producer waits for.
    pub fn open(letters: &'a Letters, notify: &Notify) -> anyhow::Result<Self> {
        match &letters.location {
            LetterStore::Table { path, .. } => {
                let open = if letters.epochs.is_empty() {
                    EmbeddedStore::open_writer
                } else {
                    EmbeddedStore::open_for_topic
                };
                let store = open(path, &letters.rules, letters.access.options.keep_changes)?;
                Ok(Self::Table(store))
            }
            LetterStore::Topic(topic) => {
                let producer = Producer::new(&letters.access.brokers, Arc::clone(notify))?;
                Ok(Self::Topic(topic, producer))
            }
        }
    }

    /// Removes letters; of a topic, the fate remains.
    pub async fn remove(&self, ids: &[LetterId], fate: Fate) -> anyhow::Result<()> {
        match self {
            Self::Table(store) => {
                let ids: Vec<i64> = ids.iter().filter_map(|id| id.number()).collect();
                store.delete_letters(&ids)?;
            }
            Self::Topic(topic, producer) => {
                let positions: Vec<_> = ids.iter().filter_map(|id| id.position()).collect();
                topic.resolve(producer, &positions, fate).await?;
            }
        }
        Ok(())
    }
}
