//! Replays the letters of a log of files: appends them to the log as records, then removes them
//! from their table.

use std::path::Path;

use super::letters::{LetterFilter, Letters, StoredLetter, letter_context};
use super::redecode::{Redecoded, Redecoder};
use super::replay::{ReplayOutcome, next_batch};
use crate::pipeline::processor::{Processor, ProcessorConfig};
use crate::source::{Batch, Decoder, JsonTemplate, RawJson, RecordPosition};
use crate::store::EmbeddedStore;

/// Replays letters of the store at `path`. One that the trips reject becomes a letter again.
pub(super) async fn replay_to_files(
    path: &Path,
    letters: &Letters,
    filter: &LetterFilter,
    redecoder: &mut Redecoder,
) -> anyhow::Result<ReplayOutcome> {
    let keep_changes = letters.access.options.keep_changes;
    let store = EmbeddedStore::open_writer(path, &letters.rules, keep_changes)?;
    let mut processor = Processor::new(&store, &letters.rules, ProcessorConfig::default()).await?;
    let (mut outcome, mut reader) = (ReplayOutcome::default(), letters.read(filter)?);
    let mut next = processor.position().delivered;
    loop {
        let batch = next_batch(&mut reader, redecoder)?;
        if batch.is_empty() {
            break;
        }
        let mut ids = Vec::new();
        for (stored, redecoded) in &batch {
            let Redecoded::Usable { value, .. } = redecoded else { continue };
            let log_time_ms = redecoder.log_time_ms(&stored.letter);
            let line = stored.letter.line;
            let position =
                RecordPosition { offset: next, line, log_time_ms, again: false, key: None };
            processor.absorb(&log_record(stored, value, &position, &letters.decoder)).await?;
            ids.extend(stored.id.number());
            next += 1;
        }
        processor.flush().await?;
        store.delete_letters(&ids)?;
        outcome.add_batch(&batch);
    }
    outcome.subtract_rejected(processor.counts());
    Ok(outcome)
}

/// A letter as a record of the log.
fn log_record(
    stored: &StoredLetter,
    value: &[u8],
    position: &RecordPosition,
    decoder: &Decoder,
) -> Batch {
    let origin = stored.letter.origin.as_str().into();
    let (mut batch, mut template) = (Batch { origin, ..Batch::default() }, JsonTemplate::default());
    let json = RawJson {
        value,
        context: letter_context(&stored.letter),
        schema_id: None,
        check: &|_| Ok(()),
    };
    decoder.split(&mut template, &json, position, &mut batch);
    batch
}
