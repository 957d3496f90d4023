//! Replays dead letters: those that can be used now go to the end of the log.
//!
//! Each is sent at least once: it is removed from its store after the log has its record. A second
//! copy of a sample is a duplicate, which changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::letters::{LetterFilter, LetterReader, LetterStore, Letters, StoredLetter};
use super::redecode::{DecodeOverrides, LogKind, Redecoded, Redecoder, Unrecoverable};
use super::to_files::replay_to_files;
use super::to_topic::TopicSender;
use crate::model::schema::SchemaVerdict;
use crate::ops::Notify;
use crate::pipeline::processor::SampleCounts;
use crate::registry::Registry;
use crate::source::MAX_SCHEMAS;

/// Maximum number of letters in a batch.
const MAX_LETTERS: usize = 500;

/// No letter is added to a batch with at least this size of values, bytes.
const MAX_BYTES: usize = 4 << 20;

/// Letters, each with the result of redecoding.
pub(super) type RedecodedBatch = Vec<(StoredLetter, Redecoded)>;

/// Reads and redecodes the next letters; empty at the end.
pub(super) fn next_batch(
    reader: &mut LetterReader<'_>,
    redecoder: &mut Redecoder,
) -> anyhow::Result<RedecodedBatch> {
    let (mut batch, mut bytes) = (RedecodedBatch::new(), 0);
    while batch.len() < MAX_LETTERS && bytes < MAX_BYTES {
        let Some(stored) = reader.next_letter()? else { break };
        bytes += stored.letter.value.len();
        let redecoded = redecoder.redecode(&stored.letter);
        batch.push((stored, redecoded));
    }
    Ok(batch)
}

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

/// What a replay did. Scripts parse it: names and order are fixed.
#[derive(Debug, Default, Serialize)]
pub struct ReplayOutcome {
    /// Nothing was written.
    pub dry_run: bool,
    /// Letters that went to the log.
    pub replayed: u64,
    /// Letters that still fail, by the reason for which they do now.
    pub still_failing: BTreeMap<&'static str, u64>,
    /// Letters that cannot be replayed, by cause.
    pub never: BTreeMap<&'static str, u64>,
}

impl ReplayOutcome {
    /// Number of control records among the letters.
    #[must_use]
    pub fn control_records(&self) -> u64 {
        self.never.get(Unrecoverable::Control.name()).copied().unwrap_or(0)
    }

    pub(super) fn add_batch(&mut self, batch: &RedecodedBatch) {
        for (_, redecoded) in batch {
            match redecoded {
                Redecoded::Usable { .. } => self.replayed += 1,
                Redecoded::Failing(reason) => {
                    *self.still_failing.entry(reason.name()).or_default() += 1;
                }
                Redecoded::Never(cause) => *self.never.entry(cause.name()).or_default() += 1,
            }
        }
    }

    /// Moves the letters that the trips rejected from the replayed ones to the failing ones.
    pub(super) fn subtract_rejected(&mut self, counts: &SampleCounts) {
        for (reason, count) in &counts.dead_letters {
            *self.still_failing.entry(reason.name()).or_default() += count;
            // The letter of a record may have several samples.
            self.replayed = self.replayed.saturating_sub(*count);
        }
    }
}

/// Replays dead letters, each at least once, even if it is killed and run again.
///
/// # Errors
/// The overrides are invalid. The store cannot be written, no broker responds, or the topic does
/// not match its newest epoch. What was replayed before stays replayed.
pub async fn replay(letters: &Letters, request: &ReplayRequest) -> anyhow::Result<ReplayOutcome> {
    let filter = &request.filter;
    let log = if letters.epochs.is_empty() { LogKind::Files } else { LogKind::Topic };
    let mut redecoder = Redecoder::new(log, &letters.rules, &request.overrides, request.now_ms)?;
    for ((_, id), verdict) in &letters.schemas.verdicts {
        redecoder.add_schema(*id, verdict);
    }
    if let Some(registry) = &request.registry {
        add_missing_schemas(letters, filter, registry, &mut redecoder).await?;
    }
    if request.dry_run {
        return dry_run(letters, filter, &mut redecoder);
    }
    match (&letters.location, letters.epochs.last()) {
        (_, Some(epoch)) => {
            let sender = TopicSender::new(letters, epoch, redecoder, &request.notify).await?;
            sender.replay(filter).await
        }
        (LetterStore::Table { path, .. }, None) => {
            replay_to_files(path, letters, filter, &mut redecoder).await
        }
        (LetterStore::Topic(_), None) => unreachable!("a topic is found by its epoch"),
    }
}

/// Asks for the schemas that letters need and the store does not have: the log reads the letters
/// again as new records, and will ask for them too.
async fn add_missing_schemas(
    letters: &Letters,
    filter: &LetterFilter,
    registry: &Registry,
    redecoder: &mut Redecoder,
) -> anyhow::Result<()> {
    let (mut ids, mut reader) = (BTreeSet::new(), letters.read(filter)?);
    while let Some(stored) = reader.next_letter()? {
        ids.extend(redecoder.needs_schema(&stored.letter));
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

fn dry_run(
    letters: &Letters,
    filter: &LetterFilter,
    redecoder: &mut Redecoder,
) -> anyhow::Result<ReplayOutcome> {
    let mut outcome = ReplayOutcome { dry_run: true, ..ReplayOutcome::default() };
    let mut reader = letters.read(filter)?;
    loop {
        let batch = next_batch(&mut reader, redecoder)?;
        if batch.is_empty() {
            return Ok(outcome);
        }
        outcome.add_batch(&batch);
    }
}
