//! Dead letters redecoded in batches.

use super::letters::{LetterFilter, LetterReader, StoredLetter};
use super::redecode::{Redecoded, Redecoder};
use crate::kafka::dead_letters::came_again;
use crate::model::reason::DeadReason;
use crate::store::DeadLetter;

/// Maximum number of letters in a batch.
const MAX_LETTERS: usize = 500;

/// No letter is added to a batch with at least this size of values, bytes.
const MAX_BYTES: usize = 4 << 20;

/// Letters, each with the result of redecoding.
pub(super) type RedecodedBatch = Vec<(StoredLetter, Redecoded)>;

/// Holds back letters that were replayed before and failed again for the same reason. That is a
/// reason that depends on the trips, so redecoding does not detect it, and each further replay
/// would only create new letters. They stay unless the filter names their reason.
pub(super) struct RepeatGuard {
    is_off: bool,
    /// Letters held back so far.
    pub count: u64,
}

impl RepeatGuard {
    pub fn new(filter: &LetterFilter) -> Self {
        Self { is_off: filter.reason.is_some(), count: 0 }
    }

    /// A guard that holds no letter back.
    pub fn off() -> Self {
        Self { is_off: true, count: 0 }
    }

    fn check(&mut self, letter: &DeadLetter, redecoded: Redecoded) -> Redecoded {
        let is_usable = matches!(redecoded, Redecoded::Usable { .. });
        if self.is_off || !is_usable || !came_again(letter) {
            return redecoded;
        }
        self.count += 1;
        Redecoded::Unchanged
    }
}

/// Reads and redecodes the next letters; `None` at the end.
pub(super) fn next_batch(
    reader: &mut LetterReader<'_>,
    redecoder: &mut Redecoder,
    repeats: &mut RepeatGuard,
) -> anyhow::Result<Option<RedecodedBatch>> {
    let (mut batch, mut bytes) = (RedecodedBatch::new(), 0);
    while batch.len() < MAX_LETTERS && bytes < MAX_BYTES {
        let Some(stored) = reader.next_letter()? else { break };
        bytes += stored.letter.value.len();
        let redecoded = repeats.check(&stored.letter, redecoder.redecode(&stored.letter));
        batch.push((stored, redecoded));
    }
    Ok((!batch.is_empty()).then_some(batch))
}

/// The letters of a table that still fail, with another reason or message.
pub(super) fn changed_letters(batch: &RedecodedBatch) -> Vec<(i64, DeadReason, String)> {
    let changed = batch.iter().filter_map(|(stored, redecoded)| match redecoded {
        Redecoded::Changed { reason, message } => {
            Some((stored.id.number()?, *reason, message.clone()))
        }
        _ => None,
    });
    changed.collect()
}
