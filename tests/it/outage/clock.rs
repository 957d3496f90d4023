//! A clock that is set hours ahead and back while a daemon runs.

use std::fs;
use std::path::PathBuf;

use tstar::internals::model::time::parse_time;

use super::{Daemon, PARTITIONS, are_same, fleet, import, keyed};
use crate::cli::Folder;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::skip;
use crate::topic::Topic;

/// How far the clock is from that of the machine, for one part of the records after the other.
const CLOCKS: [&str; 4] = ["+0h", "+5h", "-5h", "+0h"];

/// The library that gives a program another clock; `None` if it is not installed.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?;
    let mut libraries = folders.filter_map(|folder| {
        let library = folder.ok()?.path().join("faketime/libfaketimeMT.so.1");
        library.exists().then_some(library)
    });
    libraries.next().or_else(|| skip("no libfaketime: apt-get install faketime"))
}

/// The hours between the earliest and the latest line of a log.
fn hours(said: &str) -> i64 {
    let times = said.lines().filter_map(|line| parse_time(line.split_whitespace().next()?).ok());
    let times: Vec<i64> = times.collect();
    (times.iter().max().unwrap() - times.iter().min().unwrap()) / 3_600_000
}

#[test]
#[ignore = "takes minutes: tests/nightly/long"]
fn a_clock_that_is_set_ahead_and_back_costs_nothing() {
    let Some(library) = library() else { return };
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let (folder, store) = (Folder::new(), keyspace.url.to_string());
    let records = keyed(&fleet(&folder, 4_000, "0.01"));
    let flags = format!("{} --group {} --store {store}", topic.flags(), topic.name);
    let words = format!(
        "run {flags} --from earliest --create-topics --flush-interval 5ms --max-staleness 50ms"
    );
    let mut command = folder.command(&words);
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", folder.path("clock"));
    // Read with each question; and time that passes is measured by another clock, as it is where
    // the system's clock is set.
    command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1");
    folder.write("clock", CLOCKS[0]);
    let mut daemon = Daemon::spawn(&folder, "daemon", command);
    for (clock, part) in CLOCKS.iter().zip(records.chunks(records.len().div_ceil(CLOCKS.len()))) {
        folder.write("clock", clock);
        topic.send(part);
        daemon.until_committed(&topic, &topic.name);
    }
    folder.write("clock", "-5h");
    let log = daemon.log.clone();
    daemon.drain();
    let hours = hours(&fs::read_to_string(log).unwrap());
    assert!(hours >= 4, "the clock was not set: {hours} hours");
    import(&folder, &topic);
    are_same(&folder, &store, "sqlite:calm.db");
    topic.remove();
}
