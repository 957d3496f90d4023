//! Classifies entries without the trips of their devices.

use crate::model::reason::DropReason;
use crate::model::rules::{Rules, TimeUnit};
use crate::model::scalar::{DeviceTime, LogTime};
use crate::model::time::{format_duration, format_time};
use crate::source::{DecodedSample, Entry, NoSample, SampleError};
use crate::timeline::{ClockGuard, ClockViolation, FixFilter};

/// The rules that classify entries.
pub(super) struct Classifier {
    guard: ClockGuard,
    fixes: FixFilter,
    time_unit: TimeUnit,
}

/// Class of an entry, decided without the trips of its device.
pub(super) enum EntryClass<'b> {
    Sample(&'b DecodedSample),
    /// Number of samples.
    Dropped(DropReason, u32),
    /// Number of samples.
    Skipped(u32),
    Dead(&'b SampleError),
    /// Its device time violates the clock limits.
    Untimely(&'b DecodedSample, ClockViolation),
}

impl Classifier {
    pub(super) fn new(rules: &Rules) -> Self {
        let (guard, fixes) = (rules.guard(), rules.fixes());
        Self { guard, fixes, time_unit: rules.time_unit }
    }

    #[inline]
    pub(super) fn classify<'b>(&self, entry: &'b Entry) -> EntryClass<'b> {
        let decoded = match &entry.content {
            Ok(decoded) => decoded,
            Err(NoSample::Dead(fault)) => return EntryClass::Dead(fault),
            Err(NoSample::Dropped(reason, count)) => return EntryClass::Dropped(*reason, *count),
            Err(NoSample::Skipped(count)) => return EntryClass::Skipped(*count),
        };
        let time_ms = decoded.sample.time_ms;
        if let Err(wrong) = self.guard.judge(time_ms, entry.log_time_ms) {
            return EntryClass::Untimely(decoded, wrong);
        }
        match self.fixes.judge(&decoded.sample) {
            Ok(()) => EntryClass::Sample(decoded),
            Err(none) => EntryClass::Dropped(none.into(), 1),
        }
    }

    /// The error of a device time that violates the clock limits, and whether it looks like
    /// seconds.
    pub(super) fn wrong_clock(
        &self,
        wrong: ClockViolation,
        time_ms: DeviceTime,
        log_time_ms: LogTime,
    ) -> SampleError {
        let mut fault = wrong_clock(&self.guard, wrong, time_ms, log_time_ms);
        let in_seconds = time_ms.ms().checked_mul(1000).map(DeviceTime);
        fault.looks_like_seconds = self.time_unit == TimeUnit::Millis
            && wrong == ClockViolation::BeforeMin
            && in_seconds.is_some_and(|ms| self.guard.judge(ms, log_time_ms).is_ok());
        fault
    }
}

/// The error of a device time that violates the clock limits.
#[must_use]
pub(crate) fn wrong_clock(
    guard: &ClockGuard,
    wrong: ClockViolation,
    time_ms: DeviceTime,
    log_time_ms: LogTime,
) -> SampleError {
    let (time, log_time) = (format_time(time_ms.ms()), format_time(log_time_ms.ms()));
    let message = match wrong {
        ClockViolation::BeforeMin => {
            format!(
                "device time {time} is before --min-time, {}",
                format_time(guard.min_time_ms.ms())
            )
        }
        ClockViolation::InFuture => format!(
            "device time {time} is more than --max-future, {}, past the log timestamp, {log_time}",
            format_duration(guard.max_future_ms)
        ),
    };
    SampleError::new(wrong.into(), message)
}
