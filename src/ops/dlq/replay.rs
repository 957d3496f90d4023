//! Replays dead letters: those that can be used now go to the end of the log.

use std::collections::BTreeMap;

use serde::Serialize;

use super::batch::{RedecodedBatch, RepeatGuard, next_batch};
use super::letters::{LetterFilter, LetterStore, Letters};
use super::redecode::{DecodeOverrides, LogKind, Redecoded, Redecoder, Unrecoverable};
use super::to_files::replay_to_files;
use super::to_topic::TopicSender;
use crate::ops::Notify;
use crate::pipeline::processor::SampleCounts;
use crate::store::EmbeddedStore;

/// Which letters to replay, and how.
pub struct ReplayRequest {
    /// Selects the letters.
    pub filter: LetterFilter,
    /// Overrides of the store's rules.
    pub overrides: DecodeOverrides,
    /// Timestamp of the replayed records, ms since 1970: device times are checked against it.
    /// `None`: the timestamp of the letter.
    pub now_ms: Option<i64>,
    /// Only count; write nothing.
    pub dry_run: bool,
    /// Receives a line for each letter that is too large for the log.
    pub notify: Notify,
}

/// What a replay did. Scripts parse it: names and order are fixed.
#[derive(Debug, Default, Serialize)]
pub struct ReplayOutcome {
    /// Nothing was written.
    pub dry_run: bool,
    /// Letters that went to the log.
    pub replayed: u64,
    /// Letters that still fail, by reason.
    pub still_failing: BTreeMap<&'static str, u64>,
    /// Still failing letters whose reason or message changed.
    pub new_reason: u64,
    /// Letters that cannot be replayed, by cause.
    pub never: BTreeMap<&'static str, u64>,
    /// Letters among the failing ones that were replayed before and failed again for the same
    /// reason.
    #[serde(skip)]
    pub repeated: u64,
}

impl ReplayOutcome {
    /// Number of control records among the letters.
    #[must_use]
    pub fn control_records(&self) -> u64 {
        self.never.get(Unrecoverable::Control.name()).copied().unwrap_or(0)
    }

    pub(super) fn add_batch(&mut self, batch: &RedecodedBatch) {
        for (stored, redecoded) in batch {
            match redecoded {
                Redecoded::Usable { .. } => self.replayed += 1,
                Redecoded::Unchanged => self.add_failing(stored.letter.reason.name()),
                Redecoded::Changed { reason, .. } => {
                    self.add_failing(reason.name());
                    self.new_reason += 1;
                }
                Redecoded::Never(cause) => *self.never.entry(cause.name()).or_default() += 1,
            }
        }
    }

    fn add_failing(&mut self, reason: &'static str) {
        *self.still_failing.entry(reason).or_default() += 1;
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

/// Replays dead letters, each once, even if it is killed and run again.
///
/// # Errors
/// The overrides are invalid. The store cannot be written, no broker responds, the topic does not
/// match its newest epoch, or another command changes the letters of the topic. What was replayed
/// before stays replayed.
pub async fn replay(letters: &Letters, request: &ReplayRequest) -> anyhow::Result<ReplayOutcome> {
    let filter = &request.filter;
    let log = if letters.epochs.is_empty() { LogKind::Files } else { LogKind::Topic };
    let mut redecoder = Redecoder::new(log, &letters.rules, &request.overrides, request.now_ms)?;
    redecoder.add_schemas(&letters.schemas);
    if request.dry_run {
        return dry_run(letters, filter, &mut redecoder);
    }
    match (&letters.location, letters.epochs.last()) {
        (LetterStore::Topic(topic), Some(epoch)) => {
            let sender = TopicSender::new(letters, epoch, redecoder, &request.notify).await?;
            sender.replay_topic(topic, filter).await
        }
        (LetterStore::Table { path, .. }, Some(epoch)) => {
            let store = EmbeddedStore::open_for_topic(path, &letters.rules, 0)?;
            let sender = TopicSender::new(letters, epoch, redecoder, &request.notify).await?;
            sender.replay_table(&store, &epoch.topic, filter).await
        }
        (LetterStore::Table { path, .. }, None) => {
            let keep_changes = letters.access.options.keep_changes;
            let store = EmbeddedStore::open_writer(path, &letters.rules, keep_changes)?;
            replay_to_files(store, letters, filter, &mut redecoder).await
        }
        (LetterStore::Topic(_), None) => unreachable!("a topic is found by its epoch"),
    }
}

fn dry_run(
    letters: &Letters,
    filter: &LetterFilter,
    redecoder: &mut Redecoder,
) -> anyhow::Result<ReplayOutcome> {
    let mut outcome = ReplayOutcome { dry_run: true, ..ReplayOutcome::default() };
    let (mut reader, mut repeats) = (letters.read(filter)?, RepeatGuard::new(filter));
    while let Some(batch) = next_batch(&mut reader, redecoder, &mut repeats)? {
        outcome.add_batch(&batch);
    }
    outcome.repeated = repeats.count;
    Ok(outcome)
}
