//! Deletes dead letters.

use std::collections::BTreeMap;

use serde::Serialize;

use super::letters::{LetterFilter, LetterId, LetterStore, Letters};
use super::remover::LetterRemover;
use crate::kafka::KafkaError;
use crate::kafka::dead_letters::{DlqRecordKind, Fate, LetterTopic};
use crate::kafka::topic::Topics;
use crate::ops::Notify;

/// Maximum number of letters deleted at a time.
const MAX_BATCH: usize = 5000;

/// What [`purge`] did. Scripts parse it: names are fixed.
#[derive(Debug, Serialize)]
pub struct PurgeOutcome {
    /// Number of letters deleted.
    pub purged: u64,
    /// Why the brokers did not free the space of the deleted letters, which readers skip. `None`:
    /// they did, or the letters were in a table.
    #[serde(skip)]
    pub space_not_freed: Option<KafkaError>,
}

/// Deletes the letters that a filter selects. `notify` receives what a producer waits for.
///
/// # Errors
/// The store cannot be written, or no broker responds. What was deleted before stays deleted.
pub async fn purge(
    letters: &Letters,
    filter: &LetterFilter,
    notify: &Notify,
) -> anyhow::Result<PurgeOutcome> {
    let remover = LetterRemover::open(letters, notify)?;
    match &letters.location {
        LetterStore::Table { .. } => {
            let purged = purge_table(&remover, letters, filter).await?;
            Ok(PurgeOutcome { purged, space_not_freed: None })
        }
        LetterStore::Topic(topic) => purge_topic(topic, &remover, letters, filter).await,
    }
}

async fn purge_table(
    remover: &LetterRemover<'_>,
    letters: &Letters,
    filter: &LetterFilter,
) -> anyhow::Result<u64> {
    let (mut reader, mut purged) = (letters.read(filter)?, 0);
    loop {
        let mut ids = Vec::new();
        while ids.len() < MAX_BATCH {
            match reader.next_letter()? {
                Some(stored) => ids.push(stored.id),
                None => break,
            }
        }
        if ids.is_empty() {
            return Ok(purged);
        }
        purged += ids.len() as u64;
        remover.remove(&ids, Fate::Purged).await?;
    }
}

async fn purge_topic(
    topic: &LetterTopic,
    remover: &LetterRemover<'_>,
    letters: &Letters,
    filter: &LetterFilter,
) -> anyhow::Result<PurgeOutcome> {
    let (fates, mut scan) = (topic.fates()?, topic.scan()?);
    let (mut ids, mut purged) = (Vec::new(), 0);
    // The first record of each partition that is not deleted.
    let mut first_remaining: BTreeMap<i32, i64> = BTreeMap::new();
    while let Some(record) = scan.next_found()? {
        let (partition, offset) = (record.partition, record.offset);
        let is_selected = match &record.what {
            DlqRecordKind::FateOf(_) => continue,
            DlqRecordKind::Letter(_) if fates.has(partition, offset) => continue,
            DlqRecordKind::Letter(letter) => filter.matches(letter, &letters.decoder),
            DlqRecordKind::Foreign => false,
        };
        if !is_selected {
            first_remaining.entry(partition).or_insert(offset.get());
            continue;
        }
        ids.push(LetterId::Position { partition, offset });
        if ids.len() == MAX_BATCH {
            remover.remove(&std::mem::take(&mut ids), Fate::Purged).await?;
        }
        purged += 1;
    }
    remover.remove(&ids, Fate::Purged).await?;
    let mut delete_before = topic.ends();
    delete_before.extend(first_remaining);
    let topics = Topics::new(&letters.access.brokers)?;
    let deleted = topics.delete_before(topic.name(), &delete_before).await;
    Ok(PurgeOutcome { purged, space_not_freed: deleted.err() })
}
