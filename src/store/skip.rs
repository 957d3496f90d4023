//! Malformed rows: readers skip, count and log them instead of failing.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::TripRow;
use crate::model::reason::SkipReason;
use crate::telemetry;
use crate::timeline::Trip;

/// What repairs a malformed row.
pub const REPAIR: &str = "stop what writes to the store, then run `tstar verify --repair`, with \
                          all its files if it was built from files";

/// Minimum interval between two log lines about the same row.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum number of logged rows to remember.
const MAX_LOGGED: usize = 1000;

/// When each problem was last logged, by its text.
static LAST_LOGGED: Mutex<Option<HashMap<String, Instant>>> = Mutex::new(None);

/// Counts and logs a malformed row that is skipped.
pub(crate) fn malformed(error: &impl Display) {
    telemetry::skipped(SkipReason::Malformed);
    let problem = error.to_string();
    if should_log(&problem) {
        tracing::warn!(problem, "{problem}: the row is skipped; {REPAIR}");
    }
}

/// Whether a problem was not logged lately. Records it as logged.
fn should_log(problem: &str) -> bool {
    let mut logged = LAST_LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    let logged = logged.get_or_insert_default();
    if logged.get(problem).is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
        return false;
    }
    if logged.len() >= MAX_LOGGED {
        logged.retain(|_, at| at.elapsed() < LOG_INTERVAL);
    }
    // Rows past the maximum are only counted in the metric.
    let has_capacity = logged.len() < MAX_LOGGED;
    if has_capacity {
        logged.insert(problem.to_owned(), Instant::now());
    }
    has_capacity
}

impl TripRow {
    /// The trip of a row; `None` for a malformed row, which is counted and logged.
    #[must_use]
    pub fn decoded(&self) -> Option<Trip> {
        self.to_trip().inspect_err(malformed).ok()
    }

    /// Whether the row can be decoded; a malformed row is counted and logged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.decoded().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_problem_is_not_logged_twice_at_once() {
        assert!(should_log("a row of this test"));
        assert!(!should_log("a row of this test"));
        assert!(should_log("another row of this test"));
    }
}
