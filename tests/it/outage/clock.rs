//! The system's clock is set hours ahead and back while a daemon runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tstar::internals::model::time::parse_time;

use super::{Daemon, PARTITIONS, are_same, fleet, import, keyed};
use crate::cli::Folder;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::Topic;

/// How many hours the clock is ahead, for one part of the records after the other.
const AHEAD: [i64; 4] = [0, 5, -5, 0];

/// Compiles the library that gives a program a clock of its own: `tests/clock/clock.c`.
fn library(folder: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clock/clock.c");
    let library = folder.path("clock.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&library).arg(source);
    let status = compile.status().expect("a C compiler, which librdkafka needs, too");
    assert!(status.success(), "{compile:?}: {status}");
    library
}

fn set_clock(folder: &Folder, hours: i64) {
    // At once: the program reads the file at any moment.
    folder.write("clock.new", (hours * 3600).to_string());
    fs::rename(folder.path("clock.new"), folder.path("clock")).unwrap();
}

/// The hours between the earliest and the latest event of a log in JSON.
fn hours(log: &str) -> i64 {
    let time =
        |line| parse_time(serde_json::from_str::<Value>(line).ok()?["timestamp"].as_str()?).ok();
    let times: Vec<i64> = log.lines().filter_map(time).collect();
    (times.iter().max().unwrap() - times.iter().min().unwrap()) / 3_600_000
}

/// A daemon with a clock of its own, in file `clock`.
fn start(folder: &Folder, topic: &Topic, store: &str) -> Daemon {
    let words = format!(
        "run {} --group {} --store {store} --from earliest --create-topics --flush-interval 5ms \
         --max-staleness 50ms --log-format json",
        topic.flags(),
        topic.name
    );
    let mut command = folder.command(&words);
    command.env("LD_PRELOAD", library(folder)).env("TSTAR_TEST_CLOCK", folder.path("clock"));
    set_clock(folder, 0);
    Daemon::spawn(folder, "daemon", command)
}

#[test]
fn a_clock_that_is_set_ahead_and_back_costs_nothing() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let (folder, store) = (Folder::new(), keyspace.url.to_string());
    let records = keyed(&fleet(&folder, 4_000, "0.01"));
    let mut daemon = start(&folder, &topic, &store);
    for (hours, part) in AHEAD.iter().zip(records.chunks(records.len().div_ceil(AHEAD.len()))) {
        set_clock(&folder, *hours);
        topic.send(part);
        daemon.until_committed(&topic, &topic.name);
    }
    // No record wakes the threads that wait when the clock is set back.
    set_clock(&folder, -5);
    let log = daemon.log.clone();
    daemon.drain();
    let said = fs::read_to_string(log).unwrap();
    assert!(hours(&said) >= 4, "the clock was not set: {said}");
    import(&folder, &topic);
    are_same(&folder, &store, "sqlite:calm.db");
    topic.remove();
}

#[test]
fn a_clock_that_brokers_refuse_is_waited_for() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let (folder, store) = (Folder::new(), keyspace.url.to_string());
    // A change feed whose records have the time of their producer, as topics have by default.
    let feed = Topic::on(topic.brokers.clone(), format!("{}.trips", topic.name), PARTITIONS, &[]);
    let mut daemon = start(&folder, &topic, &store);
    set_clock(&folder, 5);
    topic.send(&keyed(&fleet(&folder, 1_000, "0")));
    daemon.until_says("is the clock of this machine right?", 0);
    set_clock(&folder, 0);
    daemon.until_committed(&topic, &topic.name);
    daemon.drain();
    import(&folder, &topic);
    are_same(&folder, &store, "sqlite:calm.db");
    feed.remove();
    topic.remove();
}
