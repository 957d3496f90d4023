//! How a processor works.

use std::time::Duration;

/// How a processor works; none of it decides trips.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorConfig {
    /// How long changes may wait before they are flushed, at least.
    pub flush_interval: Duration,
    /// How long changes may wait before they are flushed, at most; but those of samples that are
    /// set aside wait until these come back.
    pub max_staleness: Duration,
    /// How much memory trips take, about, bytes. Above it they leave memory once they are stored,
    /// and come back when a sample needs them, however late.
    pub memory: usize,
    /// A flush passes over a trip whose changes are young for its length: it waits
    /// [`Pace::WAIT_PER_SAMPLE`] for each of its samples, within the bounds above. For a store to
    /// which every row travels; without it a flush writes all that changed.
    pub by_trip: bool,
    /// How many devices are loaded at a time.
    pub loads: usize,
}

impl ProcessorConfig {
    /// How long a trip waits for each sample that it holds: so rewriting a path that grows costs
    /// O(n log n), not O(n^2).
    pub const WAIT_PER_SAMPLE: Duration = Duration::from_millis(50);
}

impl Default for ProcessorConfig {
    /// 1 s, 30 s, and 400 MB, for a store beside the program.
    fn default() -> Self {
        Self {
            flush_interval: Duration::from_secs(1),
            max_staleness: Duration::from_secs(30),
            memory: 400_000_000,
            by_trip: false,
            loads: 1,
        }
    }
}
