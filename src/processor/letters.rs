//! Dead letters: a sample that cannot be used is kept as it came, with why.

use super::Processor;
use crate::rules::TimeUnit;
use crate::source::{Batch, Entry, Fault};
use crate::store::{DeadLetter, Journal, TripStore};
use crate::timeline::{ClockGuard, WrongClock};

/// What is wrong with a device time that cannot be true.
#[must_use]
pub fn wrong_clock(guard: &ClockGuard, wrong: WrongClock, time_ms: i64, log_time_ms: i64) -> Fault {
    let message = match wrong {
        WrongClock::BeforeMin => {
            format!("device time {time_ms} ms is before --min-time, {} ms", guard.min_time_ms)
        }
        WrongClock::InFuture => format!(
            "device time {time_ms} ms is more than --max-future, {} ms, past the log's {log_time_ms} ms",
            guard.max_future_ms
        ),
    };
    Fault::new(wrong.into(), message)
}

impl<S: TripStore + Journal> Processor<'_, S> {
    /// What is wrong with a device time that cannot be true, and whether it may be in seconds.
    pub(super) fn wrong_clock(&self, wrong: WrongClock, time_ms: i64, log_time_ms: i64) -> Fault {
        let mut fault = wrong_clock(&self.guard, wrong, time_ms, log_time_ms);
        let in_seconds = time_ms.checked_mul(1000);
        fault.looks_like_seconds = self.time_unit == TimeUnit::Millis
            && wrong == WrongClock::BeforeMin
            && in_seconds.is_some_and(|ms| self.guard.judge(ms, log_time_ms).is_ok());
        fault
    }

    /// Counts an entry that cannot be used, and keeps it.
    pub(super) fn bury(&mut self, batch: &Batch, entry: &Entry, fault: Fault) {
        self.counts.delivered += 1;
        *self.counts.dead_letters.entry(fault.reason).or_default() += 1;
        self.counts.looks_like_seconds += u64::from(fault.looks_like_seconds);
        if entry.again {
            // Its dead letter is kept already.
            return;
        }
        let value = batch.raw(entry).to_vec();
        // Of a short line the letter itself is the larger part.
        let texts = value.len() + fault.message.len() + batch.origin.len();
        self.dead_bytes += size_of::<DeadLetter>() + texts;
        let (value_bytes, sha256) = match fault.cut {
            Some(cut) => (cut.bytes, Some(cut.sha256)),
            None => (value.len() as u64, None),
        };
        self.dead.push(DeadLetter {
            partition: self.log.partition,
            offset: entry.offset,
            element: entry.element,
            reason: fault.reason,
            message: fault.message,
            origin: batch.origin.to_string(),
            line: entry.line,
            log_time_ms: entry.log_time_ms,
            key: batch.key(entry).map(<[u8]>::to_vec),
            headers: batch.headers.get(&entry.offset).cloned().unwrap_or_default(),
            value,
            value_bytes,
            sha256,
        });
    }
}
