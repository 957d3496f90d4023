//! Dead letters: a sample that cannot be used is kept as it came, with why.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Processor;
use super::flush::MAX_DEAD_BYTES;
use crate::model::reason::{DeadReason, DropReason};
use crate::model::rules::TimeUnit;
use crate::source::{Array, Batch, Entry, MAX_BAD_ELEMENTS, SampleError, Span, memory_of_headers};
use crate::store::{DeadLetter, Flush, Journal, StoreError, TripStore};
use crate::timeline::{ClockGuard, ClockViolation};

/// How many times its own size the letters of a record may repeat of its key and headers.
const REPEATED: usize = 4;

/// A record that is smaller is as good as one of this size, bytes.
const SMALL_RECORD: usize = 16 << 10;

/// What is wrong with a device time that cannot be true.
#[must_use]
pub fn wrong_clock(
    guard: &ClockGuard,
    wrong: ClockViolation,
    time_ms: i64,
    log_time_ms: i64,
) -> SampleError {
    let message = match wrong {
        ClockViolation::BeforeMin => {
            format!("device time {time_ms} ms is before --min-time, {} ms", guard.min_time_ms)
        }
        ClockViolation::InFuture => format!(
            "device time {time_ms} ms is more than --max-future, {} ms, past the log's {log_time_ms} ms",
            guard.max_future_ms
        ),
    };
    SampleError::new(wrong.into(), message)
}

/// What is said of an array that is one dead letter, `first` being the message of its first bad
/// element.
fn of_array(bad: u64, elements: u64, element: u32, first: &str) -> String {
    format!("{bad} of {elements} elements cannot be used; element {element}: {first}")
}

/// Whether a message says of an array what `first` says of an element of it.
#[must_use]
pub fn says_of_array(message: &str, first: &str) -> bool {
    let rest = message.strip_suffix(first).and_then(|rest| rest.strip_suffix(": "));
    rest.is_some_and(|rest| rest.contains(" elements cannot be used; element "))
}

/// The bad elements of an array.
#[derive(Default)]
pub(super) struct RefusedElements {
    /// The first of them, with their places in the record; one more than may be letters.
    first: Vec<(usize, SampleError)>,
    by_reason: BTreeMap<DeadReason, u64>,
    look_like_seconds: u64,
}

impl RefusedElements {
    fn record_fault(&mut self, nth: usize, fault: SampleError) {
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

impl<S: TripStore + Journal> Processor<'_, S> {
    /// What is wrong with a device time that cannot be true, and whether it may be in seconds.
    pub(super) fn wrong_clock(
        &self,
        wrong: ClockViolation,
        time_ms: i64,
        log_time_ms: i64,
    ) -> SampleError {
        let mut fault = wrong_clock(&self.guard, wrong, time_ms, log_time_ms);
        let in_seconds = time_ms.checked_mul(1000);
        fault.looks_like_seconds = self.time_unit == TimeUnit::Millis
            && wrong == ClockViolation::BeforeMin
            && in_seconds.is_some_and(|ms| self.guard.judge(ms, log_time_ms).is_ok());
        fault
    }

    /// Counts an entry that is dropped.
    pub(super) fn drop_one(&mut self, reason: DropReason) {
        self.counts.delivered += 1;
        *self.counts.dropped.entry(reason).or_default() += 1;
    }

    /// Refuses an entry of a record: at once, or with the others of its array.
    pub(super) fn refuse(
        &mut self,
        batch: &Batch,
        (nth, entry): (usize, &Entry),
        fault: SampleError,
        refused: &mut RefusedElements,
    ) {
        match batch.arrays.contains_key(&entry.offset) {
            true => refused.record_fault(nth, fault),
            false => self.dead_letter(batch, entry, fault),
        }
    }

    /// Counts the bad elements of an array, and keeps them: each as a letter, or all as one where
    /// they are many, or would repeat large headers many times.
    pub(super) fn bury_array(
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
            && !repeats_much(batch, first, array, refused.first.len())
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
        let elements = record.len() as u64 + array.more.values().sum::<u64>();
        let (bad, (nth, mut fault)) = (refused.count(), refused.first.swap_remove(0));
        let element = record[nth].element.unwrap_or_default();
        fault.message = of_array(bad, elements, element, &fault.message);
        self.keep(batch, &record[nth], (None, &array.value), fault);
    }

    /// Counts an entry that cannot be used, and keeps it.
    pub(super) fn dead_letter(&mut self, batch: &Batch, entry: &Entry, fault: SampleError) {
        self.counts.delivered += 1;
        *self.counts.dead_letters.entry(fault.reason).or_default() += 1;
        self.counts.looks_like_seconds += u64::from(fault.looks_like_seconds);
        // Else its dead letter is kept already.
        if !entry.again {
            self.keep(batch, entry, (entry.element, &entry.raw), fault);
        }
    }

    /// Keeps a dead letter: an element of an entry's record, or the record.
    fn keep(
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
        let before = self.dead.last();
        let (key, headers) = (batch.key(entry), batch.headers.get(&entry.offset));
        let key = match before.and_then(|before| before.key.as_ref()) {
            Some(same) if Some(&same[..]) == key => Some(Arc::clone(same)),
            _ => key.map(Arc::from),
        };
        let letter = DeadLetter {
            partition: self.log.partition,
            offset: entry.offset,
            element,
            reason: fault.reason,
            message: fault.message,
            origin: batch.origin.to_string(),
            line: entry.line,
            log_time_ms: entry.log_time_ms,
            key,
            key_cut: None,
            headers: headers.cloned().unwrap_or_default(),
            headers_cut: None,
            value,
            value_bytes,
            sha256,
        };
        self.dead_bytes += memory(&letter, before);
        self.dead.push(letter);
    }

    /// Hands the dead letters over where those that wait take much memory. They may go ahead of the
    /// rows of their record.
    pub(super) async fn stage_dead(&mut self) -> Result<(), StoreError> {
        if self.dead_bytes <= MAX_DEAD_BYTES {
            return Ok(());
        }
        let dead_letters = std::mem::take(&mut self.dead);
        self.dead_bytes = 0;
        self.store.stage(&Flush { dead_letters, ..Flush::default() }).await
    }
}

/// Whether letters of so many elements would repeat key and headers more often than the size of
/// their record is worth.
fn repeats_much(batch: &Batch, entry: &Entry, array: &Array, letters: usize) -> bool {
    let key = batch.key(entry).map_or(0, <[u8]>::len);
    let headers = batch.headers.get(&entry.offset).map_or(0, |headers| memory_of_headers(headers));
    let (shared, record) = (key + headers, batch.bytes(&array.value).len() + key + headers);
    shared.saturating_mul(letters) > REPEATED * record.max(SMALL_RECORD)
}

/// What a letter takes in memory, bytes: of a short line it is itself the larger part. What it
/// shares with the one before it counts once.
fn memory(letter: &DeadLetter, before: Option<&DeadLetter>) -> usize {
    let texts = letter.value.len() + letter.message.len() + letter.origin.len();
    let key = letter.key.as_ref().filter(|key| {
        let same = before.and_then(|before| before.key.as_ref());
        !same.is_some_and(|same| Arc::ptr_eq(same, key))
    });
    let same = before.is_some_and(|before| Arc::ptr_eq(&before.headers, &letter.headers));
    let headers = if same { 0 } else { memory_of_headers(&letter.headers) };
    size_of::<DeadLetter>() + texts + key.map_or(0, |key| key.len()) + headers
}
