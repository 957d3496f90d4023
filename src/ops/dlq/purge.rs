//! Deletes dead letters.

use std::collections::BTreeMap;

use serde::Serialize;

use super::init_transactions;
use super::letters::{LetterFilter, LetterStore, Letters};
use crate::kafka::KafkaError;
use crate::kafka::dead_letters::{DlqRecordKind, Fate, LetterTopic};
use crate::kafka::topic::Topics;
use crate::store::{EmbeddedStore, LetterUpdates};

/// Maximum number of letters deleted in one transaction.
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

/// Deletes the letters that a filter selects.
///
/// # Errors
/// The store cannot be written, no broker responds, or another command changes the letters of the
/// topic. What was deleted before stays deleted.
pub async fn purge(letters: &Letters, filter: &LetterFilter) -> anyhow::Result<PurgeOutcome> {
    match &letters.location {
        LetterStore::Table { path, .. } => {
            let open = if letters.epochs.is_empty() {
                EmbeddedStore::open_writer
            } else {
                EmbeddedStore::open_for_topic
            };
            let store = open(path, &letters.rules, letters.access.options.keep_changes)?;
            let purged = purge_table(&store, letters, filter)?;
            Ok(PurgeOutcome { purged, space_not_freed: None })
        }
        LetterStore::Topic(topic) => purge_topic(topic, letters, filter).await,
    }
}

fn purge_table(
    store: &EmbeddedStore,
    letters: &Letters,
    filter: &LetterFilter,
) -> anyhow::Result<u64> {
    let (mut reader, mut purged) = (letters.read(filter)?, 0);
    loop {
        let mut ids = Vec::new();
        while ids.len() < MAX_BATCH {
            match reader.next_letter()?.and_then(|stored| stored.id.number()) {
                Some(id) => ids.push(id),
                None => break,
            }
        }
        if ids.is_empty() {
            return Ok(purged);
        }
        purged += ids.len() as u64;
        store.settle(&LetterUpdates { gone: ids, changed: vec![] })?;
    }
}

async fn purge_topic(
    topic: &LetterTopic,
    letters: &Letters,
    filter: &LetterFilter,
) -> anyhow::Result<PurgeOutcome> {
    let brokers = &letters.access.brokers;
    let mut transactions = init_transactions(brokers, topic.input())?;
    // Opened after an earlier command was fenced: none of its records can arrive any more.
    let topic = LetterTopic::open(brokers, topic.input())?;
    let (fates, mut scan) = (topic.fates()?, topic.scan()?);
    let (mut records, mut purged) = (Vec::new(), 0);
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
        records.push(topic.fate(partition, offset, Fate::Purged));
        if records.len() == MAX_BATCH {
            transactions.send(&std::mem::take(&mut records))?;
        }
        purged += 1;
    }
    transactions.send(&records)?;
    let mut delete_before = topic.ends();
    delete_before.extend(first_remaining);
    let deleted = Topics::new(brokers)?.delete_before(topic.name(), &delete_before).await;
    Ok(PurgeOutcome { purged, space_not_freed: deleted.err() })
}
