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
#[expect(dead_code, reason = "the core compares more")]
mod tracker;

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

/// The log of a fleet, and its true trips, each with its device.
fn fleet(cell: Cell, nth_cell: u64, days: i64) -> (String, Vec<(String, Span)>) {
    let (mut lines, mut truth) = (Vec::new(), Vec::new());
    for nth in 0..VEHICLES {
        let name = format!("van-{nth}");
        let vehicle = Vehicle::new(cell, SEED + nth_cell * 1_000_000 + nth, nth, days);
        let samples = vehicle.samples.iter().zip(vehicle.arrivals_ms);
        lines.extend(samples.map(|(sample, arrival_ms)| (arrival_ms, line(&name, sample))));
        truth.extend(vehicle.truth.into_iter().map(|span| (name.clone(), span)));
    }
    lines.sort_by_key(|(arrival_ms, _)| *arrival_ms);
    (lines.into_iter().map(|(_, line)| line).collect(), truth)
}

fn line(device: &str, sample: &Sample) -> String {
    let speed = sample.speed_cmps.get().map(|cmps| f64::from(cmps) / 100.0);
    let mut record = json!({
        "device_id": device, "time": sample.time_ms.ms(), "lat": sample.lat(), "lon": sample.lon(),
        "speed": speed,
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
        let (log, truth) = fleet(cell, nth_cell, DAYS);
        let folder = Folder::with("log", log);
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

/// The log of a fleet with jams, tunnels, and a sample a minute of parked vehicles.
pub fn service_log(days: i64) -> String {
    let heartbeat_ms = Some(60_000);
    let cell = Cell { fleet: Fleet::Service, ends: Ends::Ignition, heartbeat_ms };
    fleet(cell, 0, days).0
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
