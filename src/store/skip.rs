//! Malformed rows: readers skip, count and log them instead of failing. Who answers from what was
//! read learns of them by [`collecting`].

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{RowError, TripRow};
use crate::model::reason::SkipReason;
use crate::model::scalar::DeviceTime;
use crate::telemetry;

/// What repairs a malformed row.
pub(crate) const REPAIR: &str = "stop what writes to the store, then run `tstar verify --repair`, with \
                          all its files if it was built from files";

/// Maximum number of skipped rows to collect.
const MAX_COLLECTED: usize = 100_000;

tokio::task_local! {
    /// The rows that the reads of a task have skipped. Not a result of the reads: most readers
    /// continue without these rows, and all layers between would have to pass them on.
    static SKIPPED: RefCell<Vec<RowError>>;
}

/// Runs reads, and returns the rows that they skipped as well.
pub(crate) async fn collecting<T>(reads: impl Future<Output = T>) -> (T, Vec<RowError>) {
    let reads = async {
        let read = reads.await;
        (read, SKIPPED.with(RefCell::take))
    };
    let (read, skipped) = SKIPPED.scope(RefCell::default(), reads).await;
    // The caller may be collecting, too.
    skipped.iter().for_each(collect);
    (read, skipped)
}

fn collect(error: &RowError) {
    let add = |skipped: &RefCell<Vec<RowError>>| {
        let mut skipped = skipped.borrow_mut();
        if skipped.len() < MAX_COLLECTED {
            skipped.push(error.clone());
        }
    };
    // Fails without a scope.
    SKIPPED.try_with(add).ok();
}

/// Trips that an answer lacks, as their rows are malformed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Number of trips.
    pub trips: u64,
    /// The first of them.
    pub first: Option<RowError>,
    /// The device that was read last, and the spans of its trips that are counted.
    counted: (String, BTreeSet<(DeviceTime, DeviceTime)>),
}

impl Missing {
    /// Counts the skipped rows of a device that overlap a span. One that overlaps a listed row is a
    /// copy of that trip in another day, or another form of it.
    pub fn add<R: Borrow<TripRow>>(
        &mut self,
        skipped: Vec<RowError>,
        (from_ms, upto_ms): (DeviceTime, DeviceTime),
        listed: &[R],
    ) {
        for error in skipped {
            let is_listed = listed.iter().map(Borrow::borrow).any(|row: &TripRow| {
                let overlaps = row.start_ms <= error.end_ms && row.end_ms >= error.start_ms;
                row.device_id == error.device && overlaps
            });
            if is_listed || error.start_ms > upto_ms || error.end_ms < from_ms {
                continue;
            }
            let (device, spans) = &mut self.counted;
            if *device != error.device {
                device.clone_from(&error.device);
                spans.clear();
            }
            if spans.insert((error.start_ms, error.end_ms)) {
                self.trips += 1;
                self.first.get_or_insert(error);
            }
        }
    }

    /// What is missing, and what to do; `None` if nothing is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let (trips, first) = (self.trips, self.first.as_ref()?);
        Some(format!("malformed trips left out: {trips}; the first: {first}; {REPAIR}"))
    }
}

/// Minimum interval between two log lines about the same row.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum number of logged rows to remember.
const MAX_LOGGED: usize = 1000;

/// When each problem was last logged, by its text.
static LAST_LOGGED: Mutex<Option<HashMap<String, Instant>>> = Mutex::new(None);

/// Counts and logs a malformed row that is skipped.
pub(crate) fn malformed(error: &RowError) {
    telemetry::skipped(SkipReason::Malformed);
    collect(error);
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

/// Whether a row can be decoded; a malformed row is counted and logged.
#[must_use]
pub fn is_whole(row: &TripRow) -> bool {
    row.to_path().inspect_err(malformed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scalar::Version;
    use crate::segment::MintPoints;
    use crate::timeline::{LegFilter, Path, READINGS, Reading, Sample};

    /// A trip of two samples, s since 1970, at a version.
    fn row(device: &str, span: (i64, i64), version: i64) -> TripRow {
        let sample = |second: i64| {
            Sample::new(DeviceTime(second * 1000), (0, 0), [Reading::ABSENT; READINGS])
        };
        let path = Path::from_sorted([sample(span.0), sample(span.1)]).unwrap();
        let (t_star, version) = (path.first().time_ms, Version(version));
        let ids = MintPoints::new(t_star, version);
        TripRow::from_path(device, &path, (&ids, version), LegFilter::default())
    }

    fn error(row: &TripRow) -> RowError {
        TripRow { path: vec![9], ..row.clone() }.to_path().unwrap_err()
    }

    #[test]
    fn a_trip_is_missing_once_unless_a_row_of_it_is_listed() {
        let (lost, other) = (row("a", (100, 200), 8), row("b", (100, 200), 8));
        let count = |skipped: &[&TripRow], listed: &[TripRow]| {
            let mut missing = Missing::default();
            // Two pages, the same rows in both.
            for _ in 0..2 {
                let skipped = skipped.iter().map(|row| error(row)).collect();
                missing.add(skipped, (DeviceTime(150_000), DeviceTime(400_000)), listed);
            }
            assert_eq!(missing.first.is_some(), missing.trips > 0);
            missing.trips
        };
        assert_eq!(count(&[], &[]), 0);
        assert_eq!(count(&[&lost], &[]), 1);
        assert_eq!(count(&[&lost, &lost], std::slice::from_ref(&other)), 1, "another device");
        assert_eq!(count(&[&lost, &row("a", (300, 310), 2)], &[]), 2);
        assert_eq!(count(&[&row("a", (1, 149), 2), &row("a", (401, 410), 2)], &[]), 0, "outside");
        assert_eq!(count(&[&lost], std::slice::from_ref(&lost)), 0, "the copy of another day");
        assert_eq!(count(&[&lost], &[row("a", (100, 250), 10)]), 0, "an older form");
        assert_eq!(count(&[&lost], &[row("a", (120, 200), 6)]), 0, "a newer form");
    }

    #[tokio::test]
    async fn skipped_rows_reach_every_scope_around_the_read() {
        let lost = error(&row("a", (100, 200), 8));
        malformed(&lost);
        let inner = async {
            let ((), skipped) = collecting(async { malformed(&lost) }).await;
            skipped.len()
        };
        let (inner, outer) = collecting(inner).await;
        assert_eq!((inner, outer), (1, vec![lost.clone()]));
    }

    #[test]
    fn the_same_problem_is_not_logged_twice_at_once() {
        assert!(should_log("a row of this test"));
        assert!(!should_log("a row of this test"));
        assert!(should_log("another row of this test"));
    }
}
