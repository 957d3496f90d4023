//! What a sample does to the trips of its device: the contract's examples, its rules one by one,
//! and every order of every small pattern against both models.

mod random;
mod rows;

use crate::model::{Class, Fix, legs, literal, spans};
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::segment::{
    self, Arrival, Kind, Outcome, Segment, SegmentRules, Timeline, is_live,
};
use tstar::internals::timeline::{Jumps, LegFilter, PathStats, READINGS, Reading, Sample};

const MINUTE: i64 = 60_000;
const UNLIMITED: SegmentRules = SegmentRules {
    max_gap_ms: 5 * MINUTE,
    min_stop_ms: None,
    stop_speed_cmps: 50,
    max_samples: usize::MAX,
};

fn sample(fix: Fix) -> Sample {
    let sample = Sample::new(DeviceTime(fix.time), (fix.place, 0), [Reading::ABSENT; READINGS]);
    match fix.class {
        Class::Moving => sample,
        Class::Slow => Sample { speed_cmps: Reading::new(Some(49)), ..sample },
        Class::Separator => Sample { ignition: Some(false), ..sample },
    }
}

/// As it arrives in the record at a version.
fn arriving(fix: Fix, version: i64) -> Sample {
    Sample { version: Version(version), ..sample(fix) }
}

/// As it is kept from that record.
fn kept(fix: Fix, version: i64) -> Sample {
    let class = match fix.class {
        Class::Moving => segment::Class::Moving,
        Class::Slow => segment::Class::Slow,
        Class::Separator => segment::Class::Separator,
    };
    Sample { class, ..arriving(fix, version) }
}

fn for_model(rules: &SegmentRules) -> literal::Limits {
    let SegmentRules { max_gap_ms, min_stop_ms, max_samples, .. } = *rules;
    literal::Limits { max_gap: max_gap_ms, min_stop: min_stop_ms, max_samples }
}

/// The model's name for an outcome.
fn did(outcome: Outcome) -> literal::Did {
    match outcome {
        Outcome::Applied(Arrival::New) => literal::Did::New,
        Outcome::Applied(Arrival::End) => literal::Did::End,
        Outcome::Applied(Arrival::Inside) => literal::Did::Inside,
        Outcome::Applied(Arrival::Beginning) => literal::Did::Beginning,
        Outcome::Applied(Arrival::Merge) => literal::Did::Merge,
        Outcome::Applied(Arrival::Split) => literal::Did::Split,
        Outcome::Applied(Arrival::Turn) => literal::Did::Turn,
        Outcome::Duplicate { conflict } => {
            literal::Did::Duplicate { conflicting: conflict.is_some() }
        }
        Outcome::Full => literal::Did::TripFull,
    }
}

/// I1 and I2 against the literal model: every field of every trip.
#[track_caller]
fn assert_equal(trips: &[&Segment], device: &literal::Device) {
    let mut expected: Vec<_> = device.trips.iter().collect();
    expected.sort_unstable_by_key(|trip| trip.start());
    let equal = trips.len() == expected.len()
        && trips.iter().zip(&expected).all(|(found, expected)| is_equal(found, expected));
    assert!(equal, "found {trips:#?}\nexpected {expected:#?}");
}

/// The length and the jumps of every trip, which depend on the set of kept samples only.
#[track_caller]
fn assert_legs(trips: &[&Segment], device: &literal::Device, max_speed_cmps: Option<i32>) {
    let mut expected: Vec<_> = device.trips.iter().collect();
    expected.sort_unstable_by_key(|trip| trip.start());
    for (trip, expected) in trips.iter().zip(expected) {
        let filter = LegFilter { max_speed_cmps, ..LegFilter::default() };
        let found = PathStats::from_path(trip.path(), filter);
        let point = |fix: &Fix| legs::Point {
            time: fix.time,
            lat: f64::from(fix.place) / 1e7,
            lon: 0.0,
            stands: fix.class != Class::Moving,
        };
        let max_mps = max_speed_cmps.map(|cmps| f64::from(cmps) / 100.0);
        let expected = legs::legs(expected.kept.iter().map(point), max_mps);
        // A micrometre: far below the quantum of a position.
        assert!((found.distance_m - expected.counted_m).abs() < 1e-6, "{found:?} {expected:?}");
        let jumps = Jumps { count: expected.jumps, duration_ms: expected.jump_ms };
        assert_eq!(found.jumps, max_mps.map(|_| jumps), "{trip:#?}");
    }
}

fn is_equal(found: &Segment, expected: &literal::Trip) -> bool {
    let ids = |(at, history): (DeviceTime, &[Version])| {
        (at.ms(), history.iter().map(|version| version.get()).collect::<Vec<_>>())
    };
    let driver = found.path().first_driver().map(|(time_ms, name)| (name, time_ms.ms()));
    let kept = expected.kept.iter().map(|&fix| kept(fix, expected.arrived[&fix.time]));
    (found.t_star_ms(), found.version())
        == (DeviceTime(expected.t_star()), Version(expected.version))
        && (found.start_ms(), found.end_ms())
            == (DeviceTime(expected.start()), DeviceTime(expected.end()))
        && found.outline().points.iter().map(ids).eq(expected.ids.clone())
        && driver == expected.driver()
        && found.samples() == expected.kept.len()
        && found.path().iter().eq(kept)
        && (found.outline().kind == Kind::Stop) == expected.is_stop
}

/// Its retired ids.
fn absorbed(trip: &Segment) -> impl Iterator<Item = (DeviceTime, Version)> {
    let retired = trip.outline().points.iter().filter(|(_, history)| !is_live(history));
    retired.map(|(at, history)| (at, history[history.len() - 1]))
}

/// I1 and I2 against the definition, which knows no limits and no days.
#[track_caller]
fn assert_defined(trips: &[&Segment], arrivals: &[i64], max_gap: i64) {
    let found = trips.iter().map(|trip| spans::Span {
        start: trip.start_ms().ms(),
        end: trip.end_ms().ms(),
        t_star: trip.t_star_ms().ms(),
        absorbed: absorbed(trip).map(|(t_star_ms, _)| t_star_ms.ms()).collect(),
    });
    let expected = spans::spans(arrivals, max_gap);
    assert!(found.eq(expected.iter().cloned()), "found {trips:#?}\nexpected {expected:#?}");
}

/// Parses `-3+1b@ann`: minute -3 and 1 ms, at place b, driven by ann.
fn fix(word: &'static str) -> Fix {
    let (word, driver) = word.split_once('@').map_or((word, None), |(w, name)| (w, Some(name)));
    let time = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let place = word[time.len()..].bytes().next().map_or(0, i32::from);
    let (minutes, ms) = time.split_once('+').unwrap_or((time, "0"));
    let number = |text: &str| text.parse::<i64>().expect("a number");
    Fix { time: number(minutes) * MINUTE + number(ms), place, driver, class: Class::Moving }
}

fn minutes(DeviceTime(ms): DeviceTime) -> String {
    match ms.rem_euclid(MINUTE) {
        0 => (ms / MINUTE).to_string(),
        rest => format!("{}+{rest}", ms.div_euclid(MINUTE)),
    }
}

/// Applies one record per word, at versions 0, 2, 4 and so on.
fn run(rules: &SegmentRules, arrivals: &'static str) -> (Timeline, Vec<Outcome>) {
    let mut timeline = Timeline::default();
    let outcomes =
        arrivals.split_whitespace().map(fix).zip((0..).step_by(2)).map(|(fix, version)| {
            let load = timeline.days_to_load(rules, DeviceTime(fix.time));
            timeline.insert_loaded(rules, load.days(), Vec::new(), Version(version));
            timeline.absorb(rules, arriving(fix, version), fix.driver)
        });
    let outcomes = outcomes.collect();
    timeline.check();
    (timeline, outcomes)
}

fn spelled(timeline: &Timeline) -> String {
    let trips = timeline.segments().map(|trip| {
        let times = [trip.start_ms(), trip.end_ms(), trip.t_star_ms()].map(minutes);
        format!("{}..{}#{}", times[0], times[1], times[2])
    });
    trips.collect::<Vec<_>>().join(" ")
}

/// Arrivals, and the resulting trips as `start..end#t_star`, in minutes. `max_gap` is 5 minutes.
#[track_caller]
fn check(arrivals: &'static str, expected: &str) {
    check_within(&UNLIMITED, arrivals, expected);
}

#[track_caller]
fn check_within(rules: &SegmentRules, arrivals: &'static str, expected: &str) {
    assert_eq!(spelled(&run(rules, arrivals).0), expected, "{arrivals}");
}

/// The arrival kind of each sample.
#[track_caller]
fn check_did(rules: &SegmentRules, arrivals: &'static str, expected: &str) {
    let outcomes = run(rules, arrivals).1.into_iter().map(|outcome| match did(outcome) {
        literal::Did::Duplicate { conflicting: false } => "duplicate",
        literal::Did::Duplicate { conflicting: true } => "conflicting",
        literal::Did::TripFull => "trip_full",
        literal::Did::Inside => "inside",
        literal::Did::Merge => "merge",
        literal::Did::Split => "split",
        literal::Did::Turn => "turn",
        literal::Did::End => "end",
        literal::Did::Beginning => "beginning",
        literal::Did::New => "new",
    });
    assert_eq!(outcomes.collect::<Vec<_>>().join(" "), expected, "{arrivals}");
}

#[test]
fn worked_examples_of_the_contract() {
    check("10 12 0 2 6", "0..12#0");
    check("12 10 6 2 0", "0..12#12");
    let retired = |arrivals| {
        let (timeline, _) = run(&UNLIMITED, arrivals);
        timeline.segments().flat_map(|trip| absorbed(trip).map(|(at, _)| at)).collect::<Vec<_>>()
    };
    assert_eq!(retired("10 12 0 2 6"), [DeviceTime(10 * MINUTE)]);
    assert!(retired("12 10 6 2 0").is_empty());
}

#[test]
fn each_arrival_does_what_its_rule_says() {
    check_did(&UNLIMITED, "0 4 2 -4 13 9", "new end inside beginning new merge");
    check_did(&UNLIMITED, "0 10 5", "new new merge");
    check("2 0", "0..2#2");
    check("0 2", "0..2#0");
    check("0 4 2", "0..4#0");
    check("-1440 0 -1436", "-1440..-1436#-1440 0..0#0");
}

#[test]
fn exactly_max_gap_apart_is_one_trip() {
    check("0 5", "0..5#0");
    check("5 0", "0..5#5");
    check("0 5+1", "0..0#0 5+1..5+1#5+1");
    check("5+1 0", "0..0#0 5+1..5+1#5+1");
    check("0 10 5", "0..10#0");
    check("0 10+1 5", "0..5#0 10+1..10+1#10+1");
    check("-10 -5 0", "-10..0#-10");
}

#[test]
fn a_later_sample_of_the_same_time_changes_nothing() {
    check_did(
        &UNLIMITED,
        "0 0 4 0 2b 2b 2c",
        "new duplicate end duplicate inside duplicate conflicting",
    );
    let (timeline, _) = run(&UNLIMITED, "0a@ann 0b@bob 3");
    let trip = timeline.segments().next().unwrap();
    assert_eq!(trip.path().first().lat_e7, i32::from(b'a'));
    assert_eq!(trip.path().first_driver().map(|(_, name)| name), Some("ann"));
    let (timeline, _) = run(&UNLIMITED, "0 3 0 3");
    assert_eq!(timeline.segments().next().unwrap().version(), Version(2));
}

#[test]
fn a_day_that_is_filled_is_a_trip_of_its_own() {
    let rules = SegmentRules { max_gap_ms: 360 * MINUTE, ..UNLIMITED };
    // Over one midnight, and not from midnight to midnight.
    check_within(&rules, "-300 0 300 600 900", "-300..900#-300");
    // Minute 1200 reaches the next midnight.
    check_did(&rules, "-300 0 300 600 900 1200", "new end end end end split");
    check_within(&rules, "-300 0 300 600 900 1200", "-300..-300#-300 0..1200#0");
    check_within(&rules, "0 300 600 900 1200 1500 1800", "0..1200#0 1500..1800#1500");
    check_within(&rules, "1800 1500 1200 900 600 300 0", "0..1200#300 1500..1800#1800");
    // The id that was retired lives again.
    check_within(&rules, "0 -600 300 600 900 -300 1200", "-600..-300#-600 0..1200#0");
}

#[test]
fn no_trip_keeps_more_than_max_samples() {
    let rules = SegmentRules { max_samples: 3, ..UNLIMITED };
    check_did(&rules, "0 2 4 6 10", "new end end trip_full new");
    check_did(&rules, "6 4 2 0", "new beginning beginning trip_full");
    check_did(&rules, "0 10 5", "new new merge");
    check_did(&rules, "0 1 10 5 11", "new end new trip_full end");
    check_did(&rules, "0 1 2 10 6", "new end end new trip_full");
    check_within(&rules, "0 1 2 10 11 12 6", "0..2#0 10..12#10");
}

#[test]
fn a_full_trip_takes_no_sample_inside_but_knows_its_own() {
    let rules = SegmentRules { max_samples: 3, ..UNLIMITED };
    check_did(&rules, "0 1 4 2 1 1b", "new end end trip_full duplicate conflicting");
    check_within(&rules, "0 1 4 2", "0..4#0");
    check_did(&SegmentRules { max_samples: 1, ..UNLIMITED }, "0 1 0", "new trip_full duplicate");
}

#[test]
fn the_driver_is_that_of_the_earliest_sample_that_names_one() {
    for (arrivals, expected) in [
        ("0 2 4", None),
        ("0 4@ann 2@bob", Some("bob")),
        ("0 2@bob 4@ann", Some("bob")),
        ("10@ann 0 5", Some("ann")),
        ("10@ann 0@bob 5", Some("bob")),
        ("0@bob 10@ann 5@cyd", Some("bob")),
        ("0 10@ann 5@cyd", Some("cyd")),
    ] {
        let (timeline, _) = run(&UNLIMITED, arrivals);
        let drivers: Vec<_> = timeline
            .segments()
            .map(|trip| trip.path().first_driver().map(|(_, name)| name))
            .collect();
        assert_eq!(drivers, [expected], "{arrivals}");
    }
}

#[test]
fn a_chain_of_merges_keeps_the_version_of_each() {
    // The record at version 6 joins 20 and 10; the record at version 10 joins 0 to them.
    let (timeline, _) = run(&UNLIMITED, "20 10 24 15 0 5");
    let [trip] = &timeline.segments().collect::<Vec<_>>()[..] else { panic!("{timeline:?}") };
    assert_eq!(
        (trip.t_star_ms(), trip.outline().points.live().unwrap().1, trip.version()),
        (DeviceTime(0), &[Version(8)][..], Version(10))
    );
    let expected = [(DeviceTime(10 * MINUTE), Version(10)), (DeviceTime(20 * MINUTE), Version(6))];
    assert!(absorbed(trip).eq(expected));
}

/// Every order of six numbers (Heap's algorithm).
fn orders() -> Vec<[usize; 6]> {
    fn permute(k: usize, order: &mut [usize; 6], found: &mut Vec<[usize; 6]>) {
        if k == 1 {
            found.push(*order);
            return;
        }
        for i in 0..k {
            permute(k - 1, order, found);
            order.swap(if k.is_multiple_of(2) { i } else { 0 }, k - 1);
        }
    }
    let mut found = Vec::new();
    permute(6, &mut [0, 1, 2, 3, 4, 5], &mut found);
    found
}

/// Applies the samples of `fixes` in the given order, and compares with the models.
fn compare(rules: &SegmentRules, fixes: &[Fix; 6], order: &[usize; 6]) -> bool {
    let (mut timeline, mut device) = (Timeline::default(), literal::Device::new(for_model(rules)));
    for (&nth, version) in order.iter().zip((0..).step_by(2)) {
        let fix = fixes[nth];
        let load = timeline.days_to_load(rules, DeviceTime(fix.time));
        timeline.insert_loaded(rules, load.days(), Vec::new(), Version(version));
        let found = did(timeline.absorb(rules, arriving(fix, version), fix.driver));
        assert_eq!(found, device.arrive(version, fix), "{fixes:?} {order:?}");
    }
    let trips: Vec<_> = timeline.segments().collect();
    assert_equal(&trips, &device);
    if !device.met_a_limit {
        assert_defined(&trips, &order.map(|nth| fixes[nth].time), rules.max_gap_ms);
    }
    device.met_a_limit
}

#[test]
fn every_order_of_every_pattern_of_six() {
    let gap = UNLIMITED.max_gap_ms;
    let tight = SegmentRules { max_samples: 3, ..UNLIMITED };
    let orders = orders();
    assert_eq!(orders.iter().collect::<std::collections::BTreeSet<_>>().len(), 720);
    let (mut logs, mut limited) = (0, 0);
    for pattern in 0..4_usize.pow(5) {
        let mut time = -gap;
        let fixes: [Fix; 6] = std::array::from_fn(|nth| {
            if nth > 0 {
                time += [0, 1, gap, gap + 1][pattern / 4_usize.pow(nth as u32 - 1) % 4];
            }
            // Neighbours share a place: of equal times some conflict and some do not.
            let driver = [None, Some("ann"), Some("bob")][nth % 3];
            Fix { time, place: nth as i32 / 2, driver, class: Class::Moving }
        });
        for order in &orders {
            assert!(!compare(&UNLIMITED, &fixes, order));
            limited += u32::from(compare(&tight, &fixes, order));
            logs += 1;
        }
    }
    println!("{logs} logs of six, each without limits and with: {limited} reached one");
    assert_eq!(logs, 737_280);
    assert!(limited > logs / 4);
}
