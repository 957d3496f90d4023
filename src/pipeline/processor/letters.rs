//! Dead letters: an unusable sample is stored as it arrived, with the reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Processor;
use crate::model::reason::DeadReason;
use crate::sink::Sink;
use crate::source::{
    Array, Batch, Entry, MAX_BAD_ELEMENTS, NoSample, SampleError, Span, memory_of_headers,
};
use crate::store::{DeadLetter, Flush, Result, TripStore};

/// Maximum memory of pending dead letters, bytes; above it they are staged without a flush. Actual
/// usage is higher: a growing vector reserves twice its length, and strings have overhead.
const MAX_PENDING_BYTES: usize = 8 << 20;

/// Maximum size of the key and header copies in the letters of a record, as a multiple of the
/// record's size.
const REPEATED: usize = 4;

/// Smaller records count as this size, bytes.
const SMALL_RECORD: usize = 16 << 10;

/// The message of an array that becomes one dead letter; `first` is the message of its first bad
/// element.
fn array_message(bad: u64, elements: u64, element: u32, first: &str) -> String {
    format!("{bad} of {elements} elements cannot be used; element {element}: {first}")
}

/// The bad elements of an array.
#[derive(Default)]
pub(super) struct RefusedElements {
    /// The first bad elements with their index in the record, at most [`MAX_BAD_ELEMENTS`] + 1.
    first: Vec<(usize, SampleError)>,
    by_reason: BTreeMap<DeadReason, u64>,
    look_like_seconds: u64,
}

impl RefusedElements {
    fn add(&mut self, nth: usize, fault: SampleError) {
        *self.by_reason.entry(fault.reason).or_default() += 1;
        self.look_like_seconds += u64::from(fault.looks_like_seconds);
        if self.first.len() <= MAX_BAD_ELEMENTS {
            self.first.push((nth, fault));
        }
    }

    fn count(&self) -> u64 {
        self.by_reason.values().sum()
    }
}

/// Dead letters that are not staged yet.
#[derive(Default)]
pub(super) struct PendingLetters {
    letters: Vec<DeadLetter>,
    /// Their memory, bytes.
    bytes: usize,
}

impl PendingLetters {
    fn push(&mut self, letter: DeadLetter) {
        if let Some(run) = self.letters.last_mut()
            && letter.continues(run)
        {
            run.count += letter.count;
            return;
        }
        self.bytes += memory(&letter, self.letters.last());
        self.letters.push(letter);
    }

    /// The key of a letter, shared with the previous letter if that has the same.
    fn shared_key(&self, key: Option<&[u8]>) -> Option<Arc<[u8]>> {
        match self.letters.last().and_then(|previous| previous.key.as_ref()) {
            Some(same) if Some(&same[..]) == key => Some(Arc::clone(same)),
            _ => key.map(Arc::from),
        }
    }

    /// Removes all letters and returns them.
    pub(super) fn take_all(&mut self) -> Vec<DeadLetter> {
        self.bytes = 0;
        std::mem::take(&mut self.letters)
    }
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// Rejects an entry: dead-letters it now, or collects it with the other bad elements of its
    /// array.
    pub(super) fn refuse(
        &mut self,
        batch: &Batch,
        (nth, entry): (usize, &Entry),
        fault: SampleError,
        refused: &mut RefusedElements,
    ) {
        match batch.arrays.contains_key(&entry.offset) {
            true => refused.add(nth, fault),
            false => self.dead_letter(batch, entry, fault),
        }
    }

    /// Counts and dead-letters the bad elements of an array: one letter for each, or one for the
    /// whole array if there are too many, or if they would repeat large headers too often.
    pub(super) fn dead_letter_array(
        &mut self,
        batch: &Batch,
        record: &[Entry],
        mut refused: RefusedElements,
    ) {
        let Some(first) = record.first() else { return };
        let Some(array) = batch.arrays.get(&first.offset) else { return };
        for (reason, count) in &array.more {
            *refused.by_reason.entry(*reason).or_default() += count;
        }
        if refused.first.is_empty() {
            return;
        }
        if refused.count() <= MAX_BAD_ELEMENTS as u64
            && !array.is_needed
            && !is_repetitive(batch, first, array, refused.first.len())
        {
            for (nth, fault) in refused.first {
                self.dead_letter(batch, &record[nth], fault);
            }
            return;
        }
        self.counts.delivered += refused.count();
        self.counts.looks_like_seconds += refused.look_like_seconds;
        for (reason, count) in &refused.by_reason {
            *self.counts.dead_letters.entry(*reason).or_default() += count;
        }
        let elements = record.iter().map(samples_of).sum::<u64>();
        let elements = elements + array.more.values().sum::<u64>();
        let (bad, (nth, mut fault)) = (refused.count(), refused.first.swap_remove(0));
        let element = record[nth].element.unwrap_or_default();
        fault.message = array_message(bad, elements, element, &fault.message);
        // The dead letter of a redelivered record is stored already.
        if !record[nth].again {
            self.add_letter(batch, &record[nth], (None, &array.value), fault);
        }
    }

    /// Counts and dead-letters an entry.
    pub(super) fn dead_letter(&mut self, batch: &Batch, entry: &Entry, fault: SampleError) {
        self.counts.delivered += 1;
        *self.counts.dead_letters.entry(fault.reason).or_default() += 1;
        self.counts.looks_like_seconds += u64::from(fault.looks_like_seconds);
        // The dead letter of a redelivered entry is stored already.
        if !entry.again {
            let value = match batch.arrays.get(&entry.offset) {
                Some(array) if array.is_needed => (None, &array.value),
                _ => (entry.element, &entry.raw),
            };
            self.add_letter(batch, entry, value, fault);
        }
    }

    /// Adds a dead letter: an element of the entry's record, or the whole record.
    fn add_letter(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        (element, value): (Option<u32>, &Span),
        fault: SampleError,
    ) {
        let value = batch.bytes(value).to_vec();
        let (value_bytes, sha256) = match fault.cut {
            Some(cut) => (cut.bytes, Some(cut.sha256)),
            None => (value.len() as u64, None),
        };
        let headers = batch.headers.get(&entry.offset);
        self.letters.push(DeadLetter {
            partition: self.log.partition,
            offset: entry.offset,
            element,
            count: 1,
            reason: fault.reason,
            message: fault.message,
            origin: batch.origin.to_string(),
            line: entry.line,
            log_time_ms: entry.log_time_ms,
            key: self.letters.shared_key(batch.key(entry)),
            key_cut: None,
            headers: headers.cloned().unwrap_or_default(),
            headers_cut: None,
            value,
            value_bytes,
            sha256,
        });
    }

    /// Sends the pending dead letters if they use too much memory, possibly before the rows of
    /// their record.
    pub(super) async fn stage_dead(&mut self) -> Result<()> {
        if self.letters.bytes <= MAX_PENDING_BYTES {
            return Ok(());
        }
        let staged = Flush { dead_letters: self.letters.take_all(), ..Flush::default() };
        let sink = self.sink;
        self.while_answering(sink.stage(&staged)).await
    }
}

/// Number of samples of an entry.
fn samples_of(entry: &Entry) -> u64 {
    match &entry.content {
        Err(NoSample::Skipped(count) | NoSample::Dropped(_, count)) => u64::from(*count),
        _ => 1,
    }
}

/// Whether `letters` copies of key and headers are too large for the size of their record.
fn is_repetitive(batch: &Batch, entry: &Entry, array: &Array, letters: usize) -> bool {
    let key = batch.key(entry).map_or(0, <[u8]>::len);
    let headers = batch.headers.get(&entry.offset).map_or(0, |headers| memory_of_headers(headers));
    let (shared, record) = (key + headers, batch.bytes(&array.value).len() + key + headers);
    shared.saturating_mul(letters) > REPEATED * record.max(SMALL_RECORD)
}

/// Memory used by a letter, bytes, including the struct, which is the larger part for short
/// records. Key and headers shared with the previous letter count once.
fn memory(letter: &DeadLetter, previous: Option<&DeadLetter>) -> usize {
    let texts = letter.value.len() + letter.message.len() + letter.origin.len();
    let key = letter.key.as_ref().filter(|key| {
        let same = previous.and_then(|previous| previous.key.as_ref());
        !same.is_some_and(|same| Arc::ptr_eq(same, key))
    });
    let same = previous.is_some_and(|previous| Arc::ptr_eq(&previous.headers, &letter.headers));
    let headers = if same { 0 } else { memory_of_headers(&letter.headers) };
    size_of::<DeadLetter>() + texts + key.map_or(0, |key| key.len()) + headers
}

#[cfg(test)]
#[path = "letters_tests.rs"]
mod tests;
