//! Counts the trips that a limit stopped from growing.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::store::TripRow;
use crate::timeline::Limits;

/// Maximum number of trips counted for each limit.
const MAX_COUNTED: usize = 10_000;

/// The trips written so far that reached a limit, each counted once however often it was written.
#[derive(Default)]
pub struct LimitedTrips {
    hasher: RandomState,
    by_duration: HashSet<u64>,
    by_samples: HashSet<u64>,
}

impl LimitedTrips {
    /// Counts a trip that is written.
    pub(super) fn observe(&mut self, row: &TripRow, limits: &Limits) {
        let duration_ms = row.end_ms - row.start_ms;
        // A sample that is at most `max_gap` away may not fit any more. A trip that is far from the
        // limit does not count, even if the gap is nearly as long.
        let is_long = duration_ms.saturating_add(limits.max_gap_ms) > limits.max_duration_ms
            && duration_ms >= limits.max_duration_ms / 10 * 9;
        let is_full = usize::try_from(row.samples).is_ok_and(|count| count >= limits.max_samples);
        if !is_long && !is_full {
            return;
        }
        let id = self.hasher.hash_one((&row.device_id, row.t_star_ms.ms()));
        for (reached, trips) in [(is_long, &mut self.by_duration), (is_full, &mut self.by_samples)]
        {
            if reached && trips.len() < MAX_COUNTED {
                trips.insert(id);
            }
        }
    }

    /// Number of trips within `max_gap` of `max_duration`; at most 10,000.
    #[must_use]
    pub fn by_duration(&self) -> usize {
        self.by_duration.len()
    }

    /// Number of trips with `max_samples`; at most 10,000.
    #[must_use]
    pub fn by_samples(&self) -> usize {
        self.by_samples.len()
    }
}
