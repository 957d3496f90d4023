//! The flush policy: when a flush is due, and which trips it writes.

use std::time::Duration;

use tokio::time::Instant;

use super::ProcessorConfig;
use crate::timeline::Trip;

/// Assumed time to write a device, until a flush was measured.
const FIRST_GUESS: Duration = Duration::from_micros(20);

/// The delay before a flush, as a multiple of its expected duration, which is estimated from the
/// number of dirty devices: flushing takes a twentieth of the time.
const FLUSH_SHARE: u32 = 19;

/// When flushes are due.
pub(super) struct FlushSchedule {
    /// Minimum time between two flushes.
    interval: Duration,
    /// Maximum time that a change waits.
    max_staleness: Duration,
    /// Time of the last flush.
    flushed_at: Instant,
    /// Time to write a device in the last flush.
    device_took: Duration,
}

impl FlushSchedule {
    /// A schedule that begins now.
    pub(super) fn new(config: &ProcessorConfig) -> Self {
        Self {
            interval: config.flush_interval,
            max_staleness: config.max_staleness,
            flushed_at: Instant::now(),
            device_took: FIRST_GUESS,
        }
    }

    /// Time since the last flush.
    pub(super) fn elapsed(&self) -> Duration {
        self.flushed_at.elapsed()
    }

    /// Delay between the last flush and one of `dirty` devices.
    fn delay(&self, dirty: usize) -> Duration {
        let will_take = self.device_took.saturating_mul(devices(dirty));
        let delay = will_take.saturating_mul(FLUSH_SHARE).max(self.interval);
        delay.min(self.max_staleness)
    }

    /// When a flush of `dirty` devices is due; `None` if never.
    pub(super) fn next(&self, dirty: usize) -> Option<Instant> {
        self.flushed_at.checked_add(self.delay(dirty))
    }

    /// Whether a flush of `dirty` devices is due.
    pub(super) fn is_due(&self, dirty: usize) -> bool {
        self.elapsed() >= self.delay(dirty)
    }

    /// Adds `round` to the age of a dirty trip. Returns whether its delay has passed.
    pub(super) fn has_waited(&self, trip: &mut Trip, round: Duration) -> bool {
        let waited = trip.wait(u32::try_from(round.as_millis()).unwrap_or(u32::MAX));
        let samples = u32::try_from(trip.samples()).unwrap_or(u32::MAX);
        let due = ProcessorConfig::WAIT_PER_SAMPLE.saturating_mul(samples);
        let due = due.max(self.interval).min(self.max_staleness);
        Duration::from_millis(waited.into()) >= due
    }

    /// Measures how long it took to write the rows of `dirty` devices.
    pub(super) fn measure(&mut self, took: Duration, dirty: usize) {
        if dirty > 0 {
            self.device_took = took / devices(dirty);
        }
    }

    /// Records a flush.
    pub(super) fn restart(&mut self) {
        self.flushed_at = Instant::now();
    }
}

fn devices(dirty: usize) -> u32 {
    u32::try_from(dirty).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_in_proportion_to_the_time_it_takes() {
        let config = ProcessorConfig::default();
        let mut schedule = FlushSchedule::new(&config);
        assert_eq!(schedule.delay(1), config.flush_interval);
        schedule.measure(Duration::from_millis(100), 10);
        schedule.measure(Duration::from_secs(9), 0);
        assert_eq!(schedule.delay(100), Duration::from_secs(19));
        assert_eq!(schedule.delay(usize::MAX), config.max_staleness);
        assert!(!schedule.is_due(100));
    }
}
