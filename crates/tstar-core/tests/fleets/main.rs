//! Trips and ids of simulated fleets whose true trips are known: they are those of the vehicles'
//! plans, whatever the rules say.
//!
//! The tables are printed in Markdown:
//!
//! ```sh
//! cargo test -p tstar-core --test fleets -- --nocapture --test-threads=1
//! ```
//!
//! - `TSTAR_TEST_FLEET_SCALE`: a fleet has twice as many vehicles, over 5 days at 1 and a week
//!   otherwise; default 1
//! - `TSTAR_TEST_FLEET_SEED`: another one gives other vehicles; default 1
//! - `TSTAR_TEST_FLEET_ORDERS`: random orders of arrival of each vehicle; default 3

mod cell;
mod ids;
mod plan;
mod proposed;
mod random;
mod score;
mod tracker;

use std::fmt::Write as _;
use std::num::NonZero;

use tstar_core::segment::Kind;
use tstar_core::{Outcome, Sample, Segment, SegmentRules, Timeline, Version};

use cell::Cell;
use ids::{IdChanges, IdCounts};
use random::Random;
use score::Score;
use tracker::{Span, Vehicle};

/// Vehicles of a fleet, at scale 1.
const VEHICLES: u64 = 2;

/// Days of each vehicle, at scale 1.
const DAYS: i64 = 5;

/// Days of each vehicle, at any other scale.
const WEEK_DAYS: i64 = 7;

/// A number from the environment, at least 1.
fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = text.parse().map(NonZero::<u64>::get);
    number.unwrap_or_else(|fault| panic!("{name} is `{text}`: {fault}"))
}

/// The vehicles of a cell, each generated when it is asked for.
fn vehicles(cell: Cell, nth_cell: u64) -> impl Iterator<Item = Vehicle> {
    let scale = number("TSTAR_TEST_FLEET_SCALE", 1);
    let days = if scale == 1 { DAYS } else { WEEK_DAYS };
    let seed = number("TSTAR_TEST_FLEET_SEED", 1) - 1;
    (0..VEHICLES * scale).map(move |nth| vehicle(cell, (seed, nth_cell), nth, days))
}

fn vehicle(cell: Cell, (seed, nth_cell): (u64, u64), nth: u64, days: i64) -> Vehicle {
    Vehicle::new(cell, (seed * 1000 + nth_cell) * 1_000_000 + nth, nth, days)
}

fn cells() -> impl Iterator<Item = (Cell, u64)> {
    Cell::all().into_iter().zip(0..)
}

/// How many samples arrive between two flushes, which keep few changes waiting.
const FLUSH_EVERY: i64 = 64;

/// Absorbs the `nth` sample of a log.
fn absorb(timeline: &mut Timeline, rules: &SegmentRules, sample: Sample, nth: i64) {
    let outcome = timeline.absorb(rules, Sample { version: Version(2 * nth), ..sample }, None);
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    if nth % FLUSH_EVERY == 0 {
        drop(timeline.take_groups(true));
    }
}

/// The timeline of samples that arrive in this order.
fn timeline(rules: &SegmentRules, samples: &[Sample]) -> Timeline {
    let mut timeline = Timeline::in_memory();
    for (sample, nth) in samples.iter().zip(0..) {
        absorb(&mut timeline, rules, *sample, nth);
    }
    timeline
}

/// A share in percent.
#[expect(clippy::cast_precision_loss, reason = "counts of a test")]
fn percent(part: usize, whole: usize) -> f64 {
    part as f64 * 100.0 / whole as f64
}

/// Scores of the cells under some rules, as a table.
fn scores(title: &str, rules: impl Fn(Cell, u64) -> SegmentRules) -> Vec<(Cell, Score)> {
    let mut table = format!(
        "{title}\n\n| fleet | ends by | parked heartbeat | true trips | found with both ends, % | missed | of these around midnight | wrong extra trips | flagged |\n|---|---|---|---|---|---|---|---|---|\n"
    );
    let scores = cells().map(|(cell, nth_cell)| {
        let mut score = Score::default();
        let rules = rules(cell, nth_cell);
        for vehicle in vehicles(cell, nth_cell) {
            let timeline = timeline(&rules, &vehicle.samples);
            score.add(Score::new(&vehicle.truth, &timeline, &rules));
        }
        let Score { truth, extra, flagged, .. } = score;
        let (columns, missed) = (cell.columns(), score.missed.len());
        // Rounded down: only all of them are 100 %.
        let share = (percent(score.right(), truth) * 100.0).floor() / 100.0;
        let at_midnight = missed - score.missed_by_day().count();
        writeln!(
            table,
            "| {columns} | {truth} | {share:.2} | {missed} | {at_midnight} | {extra} | {flagged} |"
        )
        .expect("a string takes any text");
        (cell, score)
    });
    let scores = scores.collect();
    println!("{table}");
    scores
}

/// Where this fails, the generator has changed: measure the tables again that docs have of it.
#[test]
fn vehicles_are_those_that_were_measured() {
    let mut hasher = crc32fast::Hasher::new();
    for (cell, nth_cell) in cells() {
        for vehicle in [0, 1].map(|nth| vehicle(cell, (0, nth_cell), nth, WEEK_DAYS)) {
            for Sample { time_ms, lat_e7, lon_e7, speed_cmps, ignition, .. } in vehicle.samples {
                hasher.update(&time_ms.ms().to_le_bytes());
                let ignition = ignition.map_or(-1, i32::from);
                for value in [lat_e7, lon_e7, speed_cmps.get().unwrap_or(-1), ignition] {
                    hasher.update(&value.to_le_bytes());
                }
            }
            for Span { start_ms, end_ms } in vehicle.truth {
                hasher.update(&start_ms.to_le_bytes());
                hasher.update(&end_ms.to_le_bytes());
            }
        }
    }
    assert_eq!(hasher.finalize(), 0xdb62_dac6);
}

#[test]
fn trips_are_those_of_the_plans() {
    check(scores("Rules by hand:", |cell, _| cell.rules_by_hand()));
}

#[test]
fn proposed_rules_find_the_trips_of_the_plans() {
    check(scores("Rules as `inspect` proposes them:", proposed::rules));
}

/// Checks that almost all trips are right.
fn check(scores: Vec<(Cell, Score)>) {
    for (cell, score) in scores {
        let (columns, missed) = (cell.columns(), score.missed.len());
        let by_day = score.missed_by_day().next();
        assert!(by_day.is_none(), "{columns}: {missed} are missed, among them {by_day:?}");
        assert!(score.extra <= missed, "{columns}: {} wrong trips, {missed} missed", score.extra);
        // Of fewer trips, one that is missed is more than 0.5 %.
        assert!(score.truth < 200 || score.is_sufficient(), "{columns}: {missed} are missed");
    }
}

#[test]
fn default_rules_find_the_same_trips_again() {
    let rules = SegmentRules::default();
    let scores = scores("Default rules:", |_, _| rules);
    for ((cell, score), nth_cell) in scores.into_iter().zip(0..) {
        let mut newest_first = Score::default();
        for mut vehicle in vehicles(cell, nth_cell) {
            vehicle.samples.sort_by_key(|sample| std::cmp::Reverse(sample.time_ms));
            let timeline = timeline(&rules, &vehicle.samples);
            newest_first.add(Score::new(&vehicle.truth, &timeline, &rules));
        }
        assert!(score == newest_first, "{}", cell.columns());
    }
}

/// What two segments must have in common that were built in different orders.
fn is_same(one: &Segment, other: &Segment) -> bool {
    let unversioned = |sample: Sample| Sample { version: Version(0), ..sample };
    one.outline().kind == other.outline().kind
        && one.outline().phases == other.outline().phases
        && one.path().iter().map(unversioned).eq(other.path().iter().map(unversioned))
}

#[test]
fn segments_do_not_depend_on_the_order_of_arrival() {
    let orders = number("TSTAR_TEST_FLEET_ORDERS", 3);
    let mut built = 0;
    for (cell, nth_cell) in cells() {
        let rules = cell.rules_by_hand();
        for (vehicle, nth) in vehicles(cell, nth_cell).zip(0..) {
            let expected = timeline(&rules, &vehicle.samples);
            let mut samples = vehicle.samples;
            let mut random = Random::new(nth_cell * 1_000_000 + nth);
            for order in 0..orders {
                random.shuffle(&mut samples);
                let found = timeline(&rules, &samples);
                let is_equal = found.segments().count() == expected.segments().count()
                    && found.segments().zip(expected.segments()).all(|(a, b)| is_same(a, b));
                assert!(is_equal, "{}: vehicle {nth}, order {order}", cell.columns());
                built += 1;
            }
        }
    }
    println!("count of random orders of a vehicle's samples: {built}\n");
}

#[test]
fn a_trip_is_idle_while_the_vehicle_waits() {
    let (mut idle_ms, mut waited_ms, mut trips) = (0, 0, 0);
    for (cell, nth_cell) in cells() {
        let rules = cell.rules_by_hand();
        for vehicle in vehicles(cell, nth_cell) {
            let timeline = timeline(&rules, &vehicle.samples);
            let trips_found = timeline.segments().filter(|it| it.outline().kind == Kind::Trip);
            for trip in trips_found.filter(|it| score::is_long(it, &rules)) {
                let stats = score::stats(trip, &rules);
                let found_ms = stats.idle_ms().expect("its samples have speeds");
                let (expected_ms, tolerance_ms) =
                    score::waits(trip, &vehicle.driven, cell.interval_ms());
                let is_near = (found_ms - expected_ms).abs() <= tolerance_ms;
                let at = trip.start_ms();
                assert!(is_near, "{} at {at}: {found_ms}, {expected_ms}", cell.columns());
                idle_ms += found_ms;
                waited_ms += expected_ms;
                trips += 1;
            }
        }
    }
    println!("{trips} trips are idle for {idle_ms} ms, and wait for {waited_ms}\n");
    assert!((idle_ms - waited_ms).abs() * 50 < waited_ms, "{idle_ms} of {waited_ms}");
}

/// How far the length of a trip may differ from the true one: by this share, and by the error of
/// the fixes at its ends and where it waits.
const LENGTH_TOLERANCE: (f64, f64) = (0.01, 12.0);

#[test]
fn a_trip_is_as_long_as_the_vehicle_drives() {
    let mut table = String::from(
        "Lengths:\n\n| fleet | ends by | parked heartbeat | trips | driven, km | found, % more |\n|---|---|---|---|---|---|\n",
    );
    for (cell, nth_cell) in cells() {
        let (rules, columns) = (cell.rules_by_hand(), cell.columns());
        let (mut found_m, mut driven_m, mut trips) = (0.0, 0.0, 0);
        for vehicle in vehicles(cell, nth_cell) {
            let timeline = timeline(&rules, &vehicle.samples);
            let trips_found = timeline.segments().filter(|it| it.outline().kind == Kind::Trip);
            for trip in trips_found.filter(|it| score::is_long(it, &rules)) {
                let trip_m = score::stats(trip, &rules).distance_m;
                let true_m = score::driven_m(trip, &vehicle.driven);
                let (share, metres) = LENGTH_TOLERANCE;
                let is_near = (trip_m - true_m).abs() <= true_m * share + metres;
                assert!(is_near, "{columns} at {}: {trip_m} m, {true_m} m", trip.start_ms());
                found_m += trip_m;
                driven_m += true_m;
                trips += 1;
            }
        }
        let more = (found_m / driven_m - 1.0) * 100.0;
        writeln!(table, "| {columns} | {trips} | {:.1} | {more:.2} |", driven_m / 1000.0)
            .expect("a string takes any text");
        assert!(more.abs() < 0.5, "{columns}: {more} %");
    }
    println!("{table}");
}

fn id_row(columns: &str, counts: IdCounts) -> String {
    let IdCounts { arrivals, trips, stops } = counts;
    let mut row = format!("| {columns} | {arrivals} |");
    for IdChanges { minted, split, retired, revived } in [trips, stops] {
        for count in [minted, split, retired, revived] {
            write!(row, " {:.3} |", percent(count, arrivals)).expect("a string takes any text");
        }
    }
    row + "\n"
}

#[test]
fn the_id_of_a_trip_names_the_trip_of_its_sample_for_ever() {
    let mut table = String::from(
        "Ids, per 100 arrivals:\n\n| fleet | ends by | parked heartbeat | arrivals | trips: minted | of these by a split | retired | revived | stops: minted | of these by a split | retired | revived |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut sum = IdCounts::default();
    let mut in_random_order = IdCounts::default();
    for (cell, nth_cell) in cells() {
        let rules = cell.rules_by_hand();
        let mut counts = IdCounts::default();
        for vehicle in vehicles(cell, nth_cell) {
            counts.add(IdCounts::new(&rules, &vehicle.samples));
        }
        let mut first = vehicles(cell, nth_cell).next().expect("a fleet has vehicles");
        Random::new(nth_cell).shuffle(&mut first.samples);
        in_random_order.add(IdCounts::new(&rules, &first.samples));
        table += &id_row(&cell.columns(), counts);
        sum.add(counts);
    }
    table += &id_row("all | | ", sum);
    table += &id_row("one vehicle of each, in random order | | ", in_random_order);
    println!("{table}");
    assert!(sum.trips.split > 0 && sum.stops.retired > 0, "{sum:?}");
    for changes in [in_random_order.trips, in_random_order.stops] {
        let IdChanges { split, retired, revived, .. } = changes;
        assert!(split > 0 && retired > 0 && revived > 0, "{changes:?}");
    }
}
