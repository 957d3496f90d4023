//! Counts the trips that cannot grow any more.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use crate::segment::SegmentRules;
use crate::store::TripRow;

/// Maximum number of trips counted.
const MAX_COUNTED: usize = 10_000;

/// The trips written so far that reached `max_samples`, each counted once however often it was
/// written.
#[derive(Default)]
pub(crate) struct LimitedTrips {
    hasher: RandomState,
    full: HashSet<u64>,
}

impl LimitedTrips {
    /// Counts a trip that is written.
    pub(super) fn observe(&mut self, row: &TripRow, rules: &SegmentRules) {
        let is_full = usize::try_from(row.samples).is_ok_and(|count| count >= rules.max_samples);
        if is_full && self.full.len() < MAX_COUNTED {
            self.full.insert(self.hasher.hash_one((&row.device_id, row.t_star_ms.ms())));
        }
    }

    /// Number of trips with `max_samples`; at most 10,000.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.full.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::row;
    use super::*;

    fn counted(rows: &[TripRow]) -> usize {
        let rules = SegmentRules { max_samples: 6, ..SegmentRules::default() };
        let mut limited = LimitedTrips::default();
        rows.iter().for_each(|row| limited.observe(row, &rules));
        limited.count()
    }

    fn trip(device_id: &str, samples: i32) -> TripRow {
        TripRow { samples, ..row(device_id, (0, 1)) }
    }

    #[test]
    fn a_full_trip_counts_once_and_of_very_many_only_some() {
        assert_eq!([5, 6, 7].map(|samples| counted(&[trip("van", samples)])), [0, 1, 1]);
        let full = trip("van", 6);
        assert_eq!(counted(&[full.clone(), full, trip("bus", 6)]), 2);
        let rows: Vec<_> = (0..=MAX_COUNTED).map(|nth| trip(&nth.to_string(), 6)).collect();
        assert_eq!(counted(&rows), MAX_COUNTED);
    }
}
