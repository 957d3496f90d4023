//! Repairs: commands that write missing rows while partition workers may run.
//!
//! A worker reads no rows of devices that the day index lacked when it was read. A repair may write
//! rows and index entries of such devices, so it is noted in the store before its first write, and
//! after its last. Workers read the notes at least once in [`MAX_AGE`] while they depend on them; a
//! repair waits longer than that before it writes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum age of the notes that a worker depends on.
pub const MAX_AGE: Duration = Duration::from_secs(1);

/// How long a repair waits after it is noted.
pub const WAIT: Duration = Duration::from_secs(3);

/// A repair that began this long before another one ended has ended too, or crashed.
pub const MAX_DURATION_US: i64 = 86_400_000_000;

/// The repairs that are noted in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Number of notes; it only rises.
    pub count: usize,
    /// Whether a repair has begun and not ended.
    pub is_active: bool,
}

/// A repair: when it began, microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair(pub i64);

impl Repair {
    /// A repair that begins now.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}
