//! Replays and deletes dead letters.

mod json;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

pub(crate) use json::LetterJson;

use crate::kafka::KafkaError;
use crate::kafka::dead_letters::Fate;
use crate::log::Notify;
use crate::log::letters::Letters;
use crate::log::redecode::{DecodeOverrides, Redecoder};
use crate::log::retry::{RetryOutcome, retry};
use crate::model::schema::SchemaVerdict;
use crate::registry::Registry;
use crate::source::MAX_SCHEMAS;
use crate::store::LetterFilter;

/// Maximum number of letters deleted at a time.
const MAX_BATCH: usize = 5000;

/// Which letters to replay, and how.
pub struct ReplayRequest {
    /// Selects the letters.
    pub filter: LetterFilter,
    /// Overrides of the store's rules.
    pub overrides: DecodeOverrides,
    /// Timestamp of the replayed records, ms since 1970: device times are checked against it.
    /// `None`: the timestamp of the letter.
    pub now_ms: Option<i64>,
    /// Where schemas are asked for that the store does not have; `None`: nowhere.
    pub registry: Option<Arc<Registry>>,
    /// Only count; write nothing.
    pub dry_run: bool,
    /// Receives a line for each letter that is too large for the log, and what a producer waits
    /// for.
    pub notify: Notify,
}

/// Replays dead letters, each at least once, even if it is killed and run again.
///
/// # Errors
/// The overrides are invalid. The store cannot be written, no broker responds, or the topic does
/// not match its newest epoch. What was replayed before stays replayed.
pub async fn replay(letters: &Letters, request: &ReplayRequest) -> anyhow::Result<RetryOutcome> {
    let filter = &request.filter;
    let mut redecoder = letters.redecoder(&request.overrides, request.now_ms)?;
    if let Some(registry) = &request.registry {
        add_missing_schemas(letters, filter, registry, &mut redecoder).await?;
    }
    retry(letters, filter, redecoder, (request.dry_run, &request.notify)).await
}

/// Asks for the schemas that letters need and the store does not have: the log reads the letters
/// again as new records, and will ask for them too.
async fn add_missing_schemas(
    letters: &Letters,
    filter: &LetterFilter,
    registry: &Registry,
    redecoder: &mut Redecoder,
) -> anyhow::Result<()> {
    let mut ids = BTreeSet::new();
    for stored in letters.read(filter)? {
        ids.extend(redecoder.missing_schema(&stored?.letter));
        if ids.len() == MAX_SCHEMAS {
            break;
        }
    }
    for id in ids {
        match registry.verdict(id).await? {
            SchemaVerdict::Unknown => {}
            verdict => redecoder.add_schema(id, &verdict),
        }
    }
    Ok(())
}

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
    let remover = letters.remover(notify)?;
    let (mut ids, mut purged) = (Vec::new(), 0);
    // The first record of each partition that is not deleted.
    let mut remaining = BTreeMap::new();
    for record in letters.records(filter)? {
        let (id, letter) = record?;
        if letter.is_some_and(|letter| letters.selects(filter, &letter)) {
            ids.push(id);
            purged += 1;
        } else if let Some(partition) = id.partition {
            remaining.entry(partition).or_insert(id.number);
        }
        if ids.len() == MAX_BATCH {
            remover.remove(&std::mem::take(&mut ids), Fate::Purged).await?;
        }
    }
    remover.remove(&ids, Fate::Purged).await?;
    Ok(PurgeOutcome { purged, space_not_freed: remover.free(remaining).await?.err() })
}
