//! Rows that are left out where rows are read: nobody stops for one, and each is counted and told.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::TripRow;
use crate::model::reason::SkipReason;
use crate::telemetry;
use crate::timeline::Trip;

/// A row that is read each second is told of this often.
const TELL_AGAIN: Duration = Duration::from_secs(600);

/// At most so many rows are remembered as told of.
const MAX_TOLD: usize = 1000;

/// When rows were told of, by what was told.
static TOLD: Mutex<Option<HashMap<String, Instant>>> = Mutex::new(None);

/// Counts a malformed row that is left out, and logs it.
pub(crate) fn malformed(error: &impl Display) {
    telemetry::skipped(SkipReason::Malformed);
    let problem = error.to_string();
    if is_news(&problem) {
        tracing::warn!(
            problem,
            "{problem}: the row is left out; stop the instances that write to the store, run \
             `tstar verify --repair`, and start them again"
        );
    }
}

/// Whether a problem was not told of lately.
fn is_news(problem: &str) -> bool {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let told = told.get_or_insert_default();
    if told.get(problem).is_some_and(|at| at.elapsed() < TELL_AGAIN) {
        return false;
    }
    if told.len() >= MAX_TOLD {
        told.retain(|_, at| at.elapsed() < TELL_AGAIN);
    }
    // Of more rows than that the metric tells.
    let is_room = told.len() < MAX_TOLD;
    if is_room {
        told.insert(problem.to_owned(), Instant::now());
    }
    is_room
}

impl TripRow {
    /// The trip of a row; a malformed one is counted, logged, and none.
    #[must_use]
    pub fn decoded(&self) -> Option<Trip> {
        self.to_trip().inspect_err(malformed).ok()
    }

    /// Whether the row has a trip; a malformed one is counted and logged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.decoded().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_not_told_again_at_once() {
        assert!(is_news("a row of this test"));
        assert!(!is_news("a row of this test"));
        assert!(is_news("another row of this test"));
    }
}
