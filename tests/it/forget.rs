//! What is erased stays erased, and nothing else is.

mod file;
mod keyspace;
mod topic;

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::cli::{Folder, Ran, number};

/// Later than all samples of the fleets, and their days.
pub const LATER: &str = "2025-03-01T00:00:00.000Z";

/// Flags of daemons: short flush intervals, to save time.
pub const HASTE: &str = "--flush-interval 100ms --max-staleness 1s";

/// Samples of 30 devices, bad ones among them.
pub fn fleet(folder: &Folder, samples: usize) -> Vec<u8> {
    let words =
        format!("simulate --mix 46,34,19,1 --devices 30 --samples {samples} --seed 3 --bad 0.01");
    folder.run(&words).ends(0).stdout
}

/// The same lines in another order.
pub fn shuffled(log: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = log.split_inclusive(|&byte| byte == b'\n').collect();
    // A step coprime to the count visits every line once.
    let step = (7919..).find(|step| gcd(*step, lines.len()) == 1).unwrap();
    (0..lines.len()).flat_map(|nth| lines[nth * step % lines.len()]).copied().collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How many samples of a device a log has.
fn samples_of(folder: &Folder, log: &[u8], device: &str) -> u64 {
    let name = format!("\"device_id\":\"{device}\"");
    let names_device = |line: &&[u8]| line.windows(name.len()).any(|part| part == name.as_bytes());
    let lines: Vec<&[u8]> =
        log.split_inclusive(|&byte| byte == b'\n').filter(names_device).collect();
    folder.write("one.ndjson", lines.concat());
    let summary = folder.ingest("one.ndjson --store sqlite:one.db");
    number(&summary["applied"]) + number(&summary["duplicates"])
}

/// Every trip with its samples, one per line, except those of some devices.
pub fn others(folder: &Folder, store: &str, without: &[&str]) -> Vec<String> {
    let text = folder.text(&format!("export --path --store {store}"));
    let device_of = |line: &str| {
        let trip: Value = serde_json::from_str(line).unwrap();
        trip["device_id"].as_str().unwrap().to_owned()
    };
    let kept = text.lines().filter(|line| !without.contains(&device_of(line).as_str()));
    kept.map(str::to_owned).collect()
}

/// The ids of a device's trips.
fn ids(folder: &Folder, store: &str, device: &str) -> Vec<String> {
    let trips = folder.run(&format!("trips {device} --store {store}")).ends(0).objects();
    trips.iter().map(|trip| trip["id"].as_str().unwrap().to_owned()).collect()
}

pub fn devices(folder: &Folder, store: &str) -> Vec<String> {
    let found = folder.run(&format!("devices --store {store}")).ends(0).objects();
    found.iter().map(|it| it["device_id"].as_str().unwrap().to_owned()).collect()
}

/// The device appears nowhere, and its ids answer that they were erased.
#[track_caller]
fn is_gone(folder: &Folder, store: &str, device: &str, ids: &[String]) {
    assert_eq!(self::ids(folder, store, device), [""; 0]);
    assert!(!devices(folder, store).contains(&device.to_owned()), "{device} is listed");
    for id in ids {
        let (_, time) = id.rsplit_once('~').unwrap();
        let (day, clock) = (&time[..8], &time[9..]);
        let time = format!(
            "{}-{}-{}T{}:{}:{}",
            &day[..4],
            &day[4..6],
            &day[6..],
            &clock[..2],
            &clock[2..4],
            &clock[4..]
        );
        for question in [format!("trip {id}"), format!("lookup {device} {time}")] {
            let message = format!("gone: the trips of {device} before {LATER} were erased");
            let ran = folder.run(&format!("{question} --json --store {store}"));
            ran.ends(1).prints_nothing().says(&[&message]);
        }
    }
}

/// The lines of one kind that a forget has printed, in order.
pub fn lines_of(ran: &Ran, kind: &str) -> Vec<Value> {
    ran.objects().into_iter().filter(|line| line[kind].is_string()).collect()
}

/// The count that a query on a store returns.
pub fn count(store: &Path, query: &str) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(store, flags).unwrap();
    connection.query_row(query, [], |row| row.get(0)).unwrap()
}
