//! Trips that the rules find, compared with the true ones.

use tstar_core::segment::Kind;
use tstar_core::timeline::LegFilter;
use tstar_core::{PathStats, Segment, SegmentRules, Timeline};

use crate::plan::{DAY_MS, MINUTE_MS, SECOND_MS};
use crate::tracker::{Driven, Span};

/// How far an end of a trip may lie from the true one.
const TOLERANCE_MS: i64 = 2 * SECOND_MS;

/// A shorter trip is flagged, and left out.
const MIN_TRIP_M: f64 = 100.0;

/// Only movement of its own day keeps a short slow phase in a trip. So a trip that ends or begins
/// with slow samples around a midnight may lack those across it.
const AROUND_MIDNIGHT_MS: i64 = 10 * MINUTE_MS;

/// How many trips are right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// True trips.
    pub truth: usize,
    /// Those of them of which no trip has both ends.
    pub missed: Vec<Span>,
    /// Trips that have both ends of no true one.
    pub extra: usize,
    /// Trips that are too short, and left out.
    pub flagged: usize,
}

impl Score {
    /// Compares the trips of a timeline by some rules with the true ones.
    pub fn new(truth: &[Span], timeline: &Timeline, rules: &SegmentRules) -> Self {
        let trips = timeline.segments().filter(|segment| segment.outline().kind == Kind::Trip);
        let (trips, flagged): (Vec<_>, Vec<_>) = trips.partition(|trip| is_long(trip, rules));
        let trips: Vec<Span> = trips.into_iter().map(span).collect();
        Self { flagged: flagged.len(), ..Self::compare(truth, &trips) }
    }

    fn compare(truth: &[Span], trips: &[Span]) -> Self {
        let missed: Vec<_> =
            truth.iter().filter(|trip| !is_among(trips, **trip)).copied().collect();
        let extra = trips.iter().filter(|trip| !is_among(truth, **trip)).count();
        Self { truth: truth.len(), missed, extra, flagged: 0 }
    }

    pub fn add(&mut self, other: Self) {
        self.truth += other.truth;
        self.missed.extend(other.missed);
        self.extra += other.extra;
        self.flagged += other.flagged;
    }

    /// True trips that were found.
    pub fn right(&self) -> usize {
        self.truth - self.missed.len()
    }

    /// Whether at least 99.5 % of the true trips were found.
    pub fn is_sufficient(&self) -> bool {
        self.right() * 1000 >= self.truth * 995
    }

    /// Missed trips that neither start nor end around a midnight.
    pub fn missed_by_day(&self) -> impl Iterator<Item = &Span> {
        let is_around_midnight = |time_ms: i64| {
            let of_day_ms = time_ms.rem_euclid(DAY_MS);
            of_day_ms.min(DAY_MS - of_day_ms) < AROUND_MIDNIGHT_MS
        };
        let is_by_day =
            move |it: &&Span| ![it.start_ms, it.end_ms].into_iter().any(is_around_midnight);
        self.missed.iter().filter(is_by_day)
    }
}

/// Time that a vehicle waits during a trip, and how far a found one may differ: by a sample at the
/// begin of each wait, or at its end.
pub fn waits(trip: &Segment, driven: &[Driven], interval_ms: i64) -> (i64, i64) {
    let waits = driven.iter().filter(|it| it.speed_cmps == 0);
    let within = waits.map(|it| it.span.within_ms(span(trip)));
    let within: Vec<i64> = within.filter(|&duration_ms| duration_ms > 0).collect();
    let count = i64::try_from(within.len()).expect("a trip has few waits");
    // Intervals differ by at most a tenth.
    (within.iter().sum(), count * interval_ms * 11 / 10)
}

/// How far a vehicle drives during a trip, m.
pub fn driven_m(trip: &Segment, driven: &[Driven]) -> f64 {
    driven.iter().map(|it| it.within_m(span(trip))).sum()
}

/// Whether one of the trips, which are sorted, has the ends of a trip.
fn is_among(trips: &[Span], trip: Span) -> bool {
    let is_near = |a: i64, b: i64| (a - b).abs() <= TOLERANCE_MS;
    let from = trips.partition_point(|it| it.start_ms < trip.start_ms - TOLERANCE_MS);
    let mut near = trips[from..].iter().take_while(|it| is_near(it.start_ms, trip.start_ms));
    near.any(|it| is_near(it.end_ms, trip.end_ms))
}

pub fn is_long(trip: &Segment, rules: &SegmentRules) -> bool {
    stats(trip, rules).distance_m >= MIN_TRIP_M
}

/// Length and durations of a trip.
pub fn stats(trip: &Segment, rules: &SegmentRules) -> PathStats {
    let stop_speed_cmps = rules.stop_speed_cmps;
    PathStats::from_path(trip.path(), LegFilter { stop_speed_cmps, ..LegFilter::default() })
}

fn span(segment: &Segment) -> Span {
    Span { start_ms: segment.start_ms().ms(), end_ms: segment.end_ms().ms() }
}

#[test]
fn a_trip_is_right_if_both_of_its_ends_are() {
    let spans = |ends: &[(i64, i64)]| {
        let spans = ends.iter().map(|&(start_ms, end_ms)| Span { start_ms, end_ms });
        spans.collect::<Vec<_>>()
    };
    let noon_ms = DAY_MS / 2;
    let truth = [(0, 60_000), (90_000, 200_000), (noon_ms, noon_ms + 100_000)];
    let trips = [(2000, 58_000), (90_000, 202_001), (noon_ms - 2001, noon_ms + 100_000)];
    let score = Score::compare(&spans(&truth), &spans(&trips));
    let missed = spans(&truth[1..]);
    assert_eq!(score, Score { truth: 3, missed: missed.clone(), extra: 2, flagged: 0 });
    assert_eq!(score.missed_by_day().collect::<Vec<_>>(), [&missed[1]]);
    let score = Score::compare(&spans(&truth), &[]);
    assert_eq!((score.missed.len(), score.extra), (3, 0));
    let missed = missed[..1].to_vec();
    assert!(Score { truth: 200, missed: missed.clone(), extra: 0, flagged: 0 }.is_sufficient());
    assert!(!Score { truth: 199, missed, extra: 0, flagged: 0 }.is_sufficient());
}
