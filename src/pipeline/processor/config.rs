//! Settings of a processor.

use super::schedule::GATHER;
pub use crate::settings::FlushSettings;
use crate::settings::Settings;

/// Settings of a processor; none of them affects the resulting trips.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorConfig {
    /// When trips are written.
    pub flush: FlushSettings,
    /// Approximate memory limit of the trips, bytes. Above it, stored trips are evicted, and loaded
    /// again when a sample needs them.
    pub memory: usize,
    /// Whether a growing trip waits until it has gathered samples, within the limits above: see
    /// `schedule`. Without it, a flush writes every dirty trip.
    pub by_trip: bool,
    /// Minimum number of samples that a growing trip gathers with `by_trip`.
    pub gather: u32,
    /// Maximum number of devices that are loaded concurrently.
    pub loads: usize,
}

impl ProcessorConfig {
    /// The partition workers of a daemon.
    #[must_use]
    pub fn daemon(settings: &Settings) -> Self {
        Self {
            flush: settings.flush,
            // The other half is for batches in flight and the queues of the Kafka client.
            memory: usize::try_from(settings.memory / 2).unwrap_or(usize::MAX),
            by_trip: true,
            gather: GATHER,
            loads: 32,
        }
    }
}

impl Default for ProcessorConfig {
    /// 1 s, 30 s, 400 MB and one load at a time: for a store on the same machine.
    fn default() -> Self {
        Self {
            flush: FlushSettings::default(),
            memory: 400_000_000,
            by_trip: false,
            gather: GATHER,
            loads: 1,
        }
    }
}
