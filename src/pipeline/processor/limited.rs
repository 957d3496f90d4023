//! Counts the trips that a limit stopped from growing.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::store::TripRow;
use crate::timeline::Limits;

/// Maximum number of trips counted for each limit.
const MAX_COUNTED: usize = 10_000;

/// The trips written so far that reached a limit, each counted once however often it was written.
#[derive(Default)]
pub(crate) struct LimitedTrips {
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
    pub(crate) fn by_duration(&self) -> usize {
        self.by_duration.len()
    }

    /// Number of trips with `max_samples`; at most 10,000.
    #[must_use]
    pub(crate) fn by_samples(&self) -> usize {
        self.by_samples.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{EVENING, row};
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn limits(max_gap_ms: i64) -> Limits {
        Limits { max_gap_ms, max_duration_ms: 10 * HOUR, max_samples: 6 }
    }

    /// A trip of this duration and number of samples.
    fn trip(device_id: &str, duration_ms: i64, samples: i32) -> TripRow {
        TripRow { end_ms: EVENING + duration_ms, samples, ..row(device_id, (0, 1)) }
    }

    fn counted(limits: &Limits, rows: &[TripRow]) -> (usize, usize) {
        let mut limited = LimitedTrips::default();
        rows.iter().for_each(|row| limited.observe(row, limits));
        (limited.by_duration(), limited.by_samples())
    }

    #[test]
    fn a_trip_counts_where_its_next_sample_may_not_fit() {
        let of = |max_gap_ms, duration_ms| {
            counted(&limits(max_gap_ms), &[trip("van", duration_ms, 2)]).0
        };
        assert_eq!([of(HOUR / 2, 19 * HOUR / 2), of(HOUR / 2, 19 * HOUR / 2 + 1)], [0, 1]);
        // It is far from the limit, although a gap would pass it.
        assert_eq!([of(8 * HOUR, 9 * HOUR - 1), of(8 * HOUR, 9 * HOUR)], [0, 1]);
        for (samples, full) in [(5, 0), (6, 1), (7, 1)] {
            assert_eq!(counted(&limits(HOUR), &[trip("van", 0, samples)]), (0, full));
        }
    }

    #[test]
    fn a_trip_counts_once_and_of_very_many_only_some() {
        let (full, long) = (trip("van", HOUR, 6), trip("van", 10 * HOUR, 2));
        let both = trip("bus", 10 * HOUR, 6);
        let rows = [full.clone(), full, long.clone(), long, both];
        assert_eq!(counted(&limits(HOUR), &rows), (2, 2));
        let rows: Vec<_> = (0..=MAX_COUNTED).map(|nth| trip(&nth.to_string(), 0, 6)).collect();
        assert_eq!(counted(&limits(HOUR), &rows), (0, MAX_COUNTED));
    }
}
