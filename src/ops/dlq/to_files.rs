//! Replays the letters of a log of files: appends them to the log as records, and removes them from
//! their table in the same transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::batch::{RedecodedBatch, RepeatGuard, changed_letters, next_batch};
use super::letters::{LetterFilter, Letters, letter_context};
use super::redecode::{Redecoded, Redecoder};
use super::replay::ReplayOutcome;
use crate::model::epoch::Log;
use crate::model::scalar::Offset;
use crate::pipeline::processor::{Processor, ProcessorConfig};
use crate::source::{Batch, Decoder, JsonTemplate, RawJson, RecordPosition};
use crate::store::{EmbeddedStore, LetterUpdates, RetryJournal};

/// Replays the letters of `store`, which is opened for writing.
pub(super) async fn replay_to_files(
    store: EmbeddedStore,
    letters: &Letters,
    filter: &LetterFilter,
    redecoder: &mut Redecoder,
) -> anyhow::Result<ReplayOutcome> {
    let mut outcome = ReplayOutcome::default();
    let mut reader = letters.read(filter)?;
    let store = Arc::new(store);
    let journal = RetryJournal::new(Arc::clone(&store));
    let (log, config) = (Log::of_files(), ProcessorConfig::default());
    let stores = (&*store, &journal);
    let mut processor = Processor::of_log(stores, log, &letters.rules, config).await?;
    // A letter that the trips reject stays in the table; no new letter is created.
    let mut repeats = RepeatGuard::off();
    while let Some(redecoded) = next_batch(&mut reader, redecoder, &mut repeats)? {
        let first_offset = processor.position().delivered;
        let (batch, ids) = log_records(&redecoded, &letters.decoder, first_offset, redecoder);
        let changed = changed_letters(&redecoded);
        journal.set_updates(ids, changed.clone());
        if batch.entries.is_empty() {
            store.settle(&LetterUpdates { gone: vec![], changed })?;
        }
        processor.absorb(&batch).await?;
        processor.flush().await?;
        outcome.add_batch(&redecoded);
    }
    outcome.subtract_rejected(processor.counts());
    Ok(outcome)
}

/// The usable letters as records from `first_offset` on, and their row numbers by offset.
fn log_records(
    redecoded: &RedecodedBatch,
    decoder: &Decoder,
    first_offset: Offset,
    redecoder: &Redecoder,
) -> (Batch, BTreeMap<Offset, i64>) {
    let (mut batch, mut ids) = (Batch::default(), BTreeMap::new());
    let mut template = JsonTemplate::default();
    for (stored, outcome) in redecoded {
        let (Some(id), Redecoded::Usable { value, .. }) = (stored.id.number(), outcome) else {
            continue;
        };
        let offset = first_offset + i64::try_from(ids.len()).unwrap_or(i64::MAX);
        let position = RecordPosition {
            offset,
            line: stored.letter.line,
            log_time_ms: redecoder.log_time_ms(&stored.letter),
            again: false,
            key: None,
        };
        let json = RawJson {
            value,
            context: letter_context(&stored.letter),
            schema_id: None,
            check: &|_| Ok(()),
        };
        decoder.split(&mut template, &json, &position, &mut batch);
        ids.insert(offset, id);
    }
    (batch, ids)
}
