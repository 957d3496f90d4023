//! The trips of simulated fleets, by the command that `inspect` prints, are those of the vehicles'
//! plans.

#[path = "../../../crates/tstar-core/tests/fleets/cell.rs"]
#[expect(dead_code, reason = "the core compares more")]
mod cell;
#[path = "../../../crates/tstar-core/tests/fleets/plan.rs"]
mod plan;
#[path = "../../../crates/tstar-core/tests/fleets/random.rs"]
#[expect(dead_code, reason = "the core compares more")]
mod random;
#[path = "../../../crates/tstar-core/tests/fleets/tracker.rs"]
mod tracker;

use chrono::{TimeDelta, TimeZone};
use chrono_tz::Tz;
use serde_json::{Value, json};
use tstar::Sample;
use tstar::internals::model::time::parse_time;

use super::Folder;
use super::inspect::{inspect, run_printed};
use cell::{Cell, Ends, Fleet};
use tracker::{Span, Vehicle};

/// Vehicles of a fleet, one by day and one by night.
const VEHICLES: u64 = 2;

/// Days of each vehicle.
const DAYS: i64 = 3;

/// Another one than that of the core's tests.
const SEED: u64 = 9_000_000_000;

/// How far an end of a trip may lie from the true one, ms.
const TOLERANCE_MS: i64 = 2000;

/// A shorter trip is one noisy sample of a parked vehicle, m.
const MIN_TRIP_M: f64 = 100.0;

/// The vehicles of a fleet, each with its device.
fn vehicles(cell: Cell, nth_cell: u64, days: i64) -> Vec<(String, Vehicle)> {
    let vehicle = |nth| Vehicle::new(cell, SEED + nth_cell * 1_000_000 + nth, nth, days);
    (0..VEHICLES).map(|nth| (format!("van-{nth}"), vehicle(nth))).collect()
}

/// The log of a fleet, with its times moved.
fn log(vehicles: &[(String, Vehicle)], moved_ms: i64) -> String {
    let mut lines = Vec::new();
    for (device, vehicle) in vehicles {
        let samples = vehicle.samples.iter().zip(&vehicle.arrivals_ms);
        let line = |sample: &Sample| line(device, sample, moved_ms);
        lines.extend(samples.map(|(sample, arrival_ms)| (arrival_ms, line(sample))));
    }
    lines.sort_by_key(|(arrival_ms, _)| *arrival_ms);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn line(device: &str, sample: &Sample, moved_ms: i64) -> String {
    let speed = sample.speed_cmps.get().map(|cmps| f64::from(cmps) / 100.0);
    let mut record = json!({
        "device_id": device, "time": sample.time_ms.ms() + moved_ms, "lat": sample.lat(),
        "lon": sample.lon(), "speed": speed,
    });
    if let Some(is_on) = sample.ignition {
        record["ignition"] = is_on.into();
    }
    record.to_string() + "\n"
}

/// Whether a trip has the ends of a true one.
fn is_same(trip: &Value, (device, span): &(String, Span)) -> bool {
    let is_near = |key: &str, expected_ms: i64| {
        let found_ms = parse_time(trip[key].as_str().unwrap()).unwrap();
        (found_ms - expected_ms).abs() <= TOLERANCE_MS
    };
    trip["device_id"] == *device
        && is_near("start_time", span.start_ms)
        && is_near("end_time", span.end_ms)
}

#[test]
fn what_inspect_prints_gives_the_trips_of_the_plans() {
    for (cell, nth_cell) in Cell::all().into_iter().zip(0..) {
        let vehicles = vehicles(cell, nth_cell, DAYS);
        let folder = Folder::with("log", log(&vehicles, 0));
        let of_device = |(name, vehicle): (String, Vehicle)| {
            vehicle.truth.into_iter().map(move |span| (name.clone(), span))
        };
        let truth: Vec<_> = vehicles.into_iter().flat_map(of_device).collect();
        let found = inspect(&folder, "log");
        let summary = run_printed(&folder, &found, "--json").ends(0).json();
        assert_eq!(summary["warnings"], Value::Null, "the rules suit the data");
        let trips = folder.trips("trips.db");
        let trips: Vec<_> =
            trips.iter().filter(|it| it["distance_m"].as_f64() >= Some(MIN_TRIP_M)).collect();
        let right = truth.iter().filter(|true_trip| trips.iter().any(|it| is_same(it, true_trip)));
        let (right, all) = (right.count(), truth.len());
        let command = &found["command"];
        println!("{}: {right} of {all}, {} trips, {command}", cell.columns(), trips.len());
        assert!(right * 1000 >= all * 995, "{}: {right} of {all} by {command}", cell.columns());
        assert!(trips.len() - right <= all - right, "{}: {} trips", cell.columns(), trips.len());
    }
}

/// What vehicles did during a span: trips that start in it, metres, and waiting; and how much the
/// last two may differ.
#[derive(Debug, Default)]
struct Truth {
    trips: usize,
    driven_m: f64,
    waited_ms: i64,
    tolerance_m: f64,
    tolerance_ms: i64,
}

impl Truth {
    fn new(vehicles: &[(String, Vehicle)], span: Span, interval_ms: i64) -> Self {
        let mut sum = Self::default();
        for (_, vehicle) in vehicles {
            for trip in &vehicle.truth {
                let within = trip.common(span);
                if within.start_ms > within.end_ms {
                    continue;
                }
                sum.trips += usize::from(trip.start_ms == within.start_ms);
                let driven = vehicle.driven.iter();
                for piece in driven.filter(|it| it.span.within_ms(within) > 0) {
                    let is_wait = piece.speed_cmps == 0;
                    sum.driven_m += piece.within_m(within);
                    sum.waited_ms += if is_wait { piece.span.within_ms(within) } else { 0 };
                    // Intervals differ by at most a tenth.
                    sum.tolerance_ms += if is_wait { interval_ms * 11 / 10 } else { 0 };
                }
            }
        }
        // A trip that midnight divides is driven at more than one speed between two samples there.
        sum.tolerance_m = sum.driven_m * 0.01 + 50.0;
        sum
    }
}

/// The days of a zone from a date on, each with its name and span.
fn local_days(
    zone: Tz,
    (year, month, day): (i32, u32, u32),
) -> impl Iterator<Item = (String, Span)> {
    let first = chrono::NaiveDate::from_ymd_opt(year, month, day).unwrap();
    let midnight = move |date: chrono::NaiveDate| {
        let midnight = date.and_hms_opt(0, 0, 0).unwrap();
        zone.from_local_datetime(&midnight).unwrap().timestamp_millis()
    };
    first.iter_days().map(move |date| {
        let end_ms = midnight(date + TimeDelta::days(1));
        (date.to_string(), Span { start_ms: midnight(date), end_ms: end_ms - 1 })
    })
}

/// Drives by night pass the midnights of both zones. The days are around one of 25 hours, and
/// around one of 23.
#[test]
fn sums_of_local_days_are_those_of_the_plans() {
    const HOUR_MS: i64 = 3_600_000;
    let zones = [
        (Tz::Europe__Berlin, -9, (2026, 10, 23), 25),
        (Tz::America__New_York, -240, (2026, 3, 6), 23),
    ];
    let heartbeat_ms = Some(300_000);
    let fleets = [
        (Fleet::Parcel, Ends::Ignition, "off"),
        (Fleet::Service, Ends::Standing, "200s"),
        (Fleet::LongHaul, Ends::Ignition, "off"),
    ];
    println!("| zone | day | hours | fleet | trips | km | of the plan | idle, s | of the plan |");
    for ((fleet, ends, min_stop), nth_cell) in fleets.into_iter().zip(100..) {
        let cell = Cell { fleet, ends, heartbeat_ms };
        let vehicles = vehicles(cell, nth_cell, DAYS);
        for (zone, moved_days, first_day, hours) in zones {
            let moved_ms = moved_days * 24 * HOUR_MS;
            let folder = Folder::with("log", log(&vehicles, moved_ms));
            let rules = format!("--max-gap 15m --stop-speed 1.6 --min-stop {min_stop}");
            folder.run(&format!("ingest log {rules}")).ends(0);
            let days: Vec<_> = local_days(zone, first_day).take(6).collect();
            let (from, to) = (&days[0].0, &days[5].0);
            let span = format!("--from {from} --to {to} --tz {zone}");
            let found = folder.text(&format!("summary {span} --json"));
            let found: Vec<Value> = serde_json::from_str(&found).unwrap();
            let mut trips = 0;
            for (day, span) in &days {
                let planned =
                    Span { start_ms: span.start_ms - moved_ms, end_ms: span.end_ms - moved_ms };
                let truth = Truth::new(&vehicles, planned, cell.interval_ms());
                let Some(row) = found.iter().find(|row| row["key"] == *day) else {
                    assert!(truth.driven_m < 1.0, "{day}: {truth:?}");
                    continue;
                };
                let value = |key: &str| row[key].as_f64().unwrap();
                let day_hours = (span.end_ms + 1 - span.start_ms) / HOUR_MS;
                println!(
                    "| {zone} | {day} | {day_hours} | {} | {} | {:.1} | {:.1} | {} | {} |",
                    cell.columns(),
                    row["trips"],
                    value("distance_m") / 1e3,
                    truth.driven_m / 1e3,
                    row["idle_s"],
                    truth.waited_ms / 1000,
                );
                let off_m = (value("distance_m") - truth.driven_m).abs();
                assert!(off_m <= truth.tolerance_m, "{zone} {day}: {row} {truth:?}");
                let off_ms = (value("idle_s") * 1e3 - truth.waited_ms as f64).abs();
                assert!(off_ms <= truth.tolerance_ms as f64, "{zone} {day}: {row} {truth:?}");
                assert_eq!(row["trips"], truth.trips, "{zone} {day}");
                trips += truth.trips;
            }
            assert!(days.iter().any(|(_, it)| it.end_ms + 1 - it.start_ms == hours * HOUR_MS));
            let all: usize = vehicles.iter().map(|(_, vehicle)| vehicle.truth.len()).sum();
            assert_eq!(trips, all, "{zone}");
        }
    }
}

/// The log of a fleet with jams, tunnels, and a sample a minute of parked vehicles.
pub fn service_log(days: i64) -> String {
    let heartbeat_ms = Some(60_000);
    let cell = Cell { fleet: Fleet::Service, ends: Ends::Ignition, heartbeat_ms };
    log(&vehicles(cell, 0, days), 0)
}

fn service() -> Folder {
    Folder::with("log", service_log(DAYS))
}

#[test]
fn trips_are_compared_by_rules() {
    let folder = service();
    let found = inspect(&folder, "log");
    let flags = "--max-gap 15m --min-stop off --stop-speed 1.6";
    assert_eq!(found["command"], format!("tstar ingest log {flags}"));
    let rows = found["trips_under"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["rules"].as_str().unwrap()).collect();
    assert_eq!(names, ["proposed", "default", "geotab", "traccar"]);
    assert_eq!(rows[0]["flags"], flags);
    let trips = |nth: usize| rows[nth]["trips"].as_u64().unwrap();
    assert!(trips(1) > trips(0), "tunnels and jams end trips: {found}");
    assert!(trips(2) > trips(0), "jams end trips: {found}");
    let median = &rows[0]["median_s"];
    assert!((480.0..2400.0).contains(&median.as_f64().unwrap()), "{median}");
    let shown = folder.text("inspect log --format table");
    assert!(shown.contains("Trips of these records, by rules:\n"), "{shown}");
    assert!(shown.contains("stops with the ignition off") || shown.contains("goes off"), "{shown}");

    let geotab = "--max-gap 1h --min-stop 200s --stop-speed 0.28";
    let found = inspect(&folder, "log --rules geotab");
    assert_eq!(found["command"], format!("tstar ingest log {geotab}"));
    assert_eq!(found["trips_under"][0]["trips"], found["trips_under"][2]["trips"]);
    let found = inspect(&folder, "log --rules traccar --max-gap 2h");
    let traccar = "--max-gap 2h --min-stop 5m --stop-speed 0.01";
    assert_eq!(found["command"], format!("tstar ingest log {traccar}"));
    assert_eq!(found["trips_under"][0]["flags"], traccar);
    folder.run("inspect log --rules other").ends(2).says(&["it is not geotab or traccar"]);
}

/// The only warning of an import: its name, and its message, which is on stderr, too.
fn warning(folder: &Folder, words: &str) -> (String, String) {
    let ran = folder.run(&format!("ingest {words} --json")).ends(0);
    let summary = ran.json();
    let [warning] = summary["warnings"].as_array().unwrap().as_slice() else { panic!("{ran}") };
    let text = |key: &str| warning[key].as_str().unwrap().to_owned();
    assert_eq!(ran.stderr.matches(&text("message")).count(), 1, "{ran}");
    (text("warning"), text("message"))
}

#[test]
fn rules_that_do_not_suit_the_data_are_warned_of() {
    let folder = service();
    let (name, message) = warning(&folder, "log");
    assert_eq!(name, "rules_unlike_data");
    for part in [
        "by the rules of the store, --max-gap 5m --min-stop 5m --stop-speed 0.5, the first 10000 ",
        "by --max-gap 15m --min-stop off --stop-speed 1.6 they form ",
        ". --min-stop: ",
        "`tstar inspect` compares them",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn an_ignition_that_is_always_off_is_warned_of() {
    let folder = service();
    let log = String::from_utf8(folder.read("log")).unwrap();
    let off = log.lines().take(3000).filter(|line| line.contains("\"ignition\""));
    let off = off.map(|line| line.replace(":true", ":false") + "\n").collect::<String>();
    folder.write("off", off);
    let (name, message) = warning(&folder, "off");
    assert_eq!(name, "nothing_moves");
    assert!(message.contains("although 2 devices travel"), "{message}");
    assert!(message.contains("a protobuf `bool` without `optional`"), "{message}");
    let found = inspect(&folder, "off");
    assert!(found["notes"].to_string().contains("the ignition is off in "), "{found}");
    // The remedy works.
    let map = "--map ignition=none";
    let summary =
        folder.run(&format!("ingest off --store sqlite:b.db --json {map}")).ends(0).json();
    assert!(summary["trips"].as_u64().unwrap() > 5, "{summary}");
}
