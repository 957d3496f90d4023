//! Records up to the broker's size limit: none stops a partition, takes unbounded memory or erases
//! anything. A seeded generator combines hostile records of all kinds, between good samples of
//! other devices, and sends them through a real broker into a file and into a keyspace.
//!
//! `TSTAR_TEST_HOSTILE_RECORDS` is the number of hostile records. A failure names the seed and
//! index of a record; `TSTAR_TEST_HOSTILE_ONLY=SEED:INDEX` then sends that one only.

mod body;
mod check;
mod daemon;
mod directed;
mod draw;
mod generate;
mod site;
mod wire;

use std::collections::BTreeMap;

use serde_json::Value;

use self::check::Model;
use self::daemon::Daemon;
use self::generate::{Shape, TestRecord, hostile, well_behaved};
use self::site::Site;
use crate::cli::number;
use crate::faults::until;
use crate::topic::Topic;
use tstar_sim::counts;

/// A broker's default `max.message.bytes`.
const LIMIT: usize = 1_048_588;

/// The daemon's `--memory`.
const MEMORY: (&str, u64) = ("64MB", 64_000_000);

/// Memory besides, bytes: the program itself, the client's queues, and what the allocator retains
/// between batches of a megabyte per record.
const BARE: u64 = 112 << 20;

/// And this many times the largest record: it is in the client's queue, in a batch, in the dead
/// letters of that batch, in the record of a dead letter, and in the client's queue again.
const TIMES_THE_LARGEST: u64 = 16;

/// One good sample per this many hostile records.
const EACH: u64 = 2;

fn number_of(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect(name))
}

/// Hostile records between good ones; the first and the last are good. `None`: the requested record
/// belongs to another run.
fn records(shape: Shape) -> Option<Box<dyn Iterator<Item = TestRecord>>> {
    let good = move |nth| well_behaved(&shape, nth);
    if let Ok(only) = std::env::var("TSTAR_TEST_HOSTILE_ONLY") {
        let (seed, index) = only.split_once(':').expect("SEED:INDEX");
        let record = hostile(&shape, index.parse().unwrap());
        let records = (0..100).map(good).chain([record]).chain((100..200).map(good));
        return (seed == shape.seed.to_string()).then(|| Box::new(records) as Box<_>);
    }
    let first = shape.records / 10;
    let mixed = (0..shape.records).flat_map(move |index| {
        let good = index.is_multiple_of(EACH).then(|| good(first + index / EACH));
        std::iter::once(hostile(&shape, index)).chain(good)
    });
    let last = first + shape.records.div_ceil(EACH);
    Some(Box::new((0..first).map(good).chain(mixed).chain((last..last + 100).map(good))))
}

/// The sample counts of the metrics.
fn metrics(daemon: &Daemon) -> BTreeMap<&'static str, u64> {
    let samples = |label: &str| daemon.metric("tstar_samples_total", label);
    BTreeMap::from([
        ("all", samples("")),
        ("dead", samples("result=\"dead\"")),
        ("duplicate", samples("result=\"duplicate\"")),
        ("dead letters", daemon.metric("tstar_dead_letters_total", "")),
    ])
}

/// Runs the daemon over all records of a site, and checks everything afterwards. Returns its
/// summary.
#[track_caller]
fn prove(site: &Site) -> Value {
    let words = site.words(MEMORY.0);
    let mut daemon = Daemon::start(&site.folder, &words, "first");
    site.until_read(&mut daemon);
    until("readiness", || daemon.is_ready().then_some(()));
    until("no lag", || (daemon.metric("tstar_kafka_consumer_lag", "") == 0).then_some(()));
    let counted = metrics(&daemon);
    let peak = daemon.peak_bytes();
    let said = daemon.said();
    assert!(!said.contains("stopped until"), "{said}");
    let summary = daemon.drain().ends(0).json();
    let model = Model::from_site(site);
    check::trips(site, &model);
    check::dead_letters(site);
    check::counts(&model, &summary, &counted);
    restarts(site);
    let most = MEMORY.1 + BARE + TIMES_THE_LARGEST * site.largest as u64 + site.refused;
    eprintln!("{} MB at most, of {} MB; {summary}", peak.unwrap_or(0) >> 20, most >> 20);
    assert!(peak.is_none_or(|peak| peak <= most), "{peak:?} bytes of {most}");
    summary
}

/// The next start is ready, reads nothing again, and ends cleanly.
#[track_caller]
fn restarts(site: &Site) {
    let before = site.committed();
    let mut daemon = Daemon::start(&site.folder, &site.words(MEMORY.0), "second");
    until("readiness after a restart", || {
        assert_eq!(daemon.ended(), None, "{}", daemon.said());
        daemon.is_ready().then_some(())
    });
    site.until_read(&mut daemon);
    let summary = daemon.drain().ends(0).json();
    assert_eq!(number(&summary["delivered"]), 0, "nothing is read again: {summary}");
    assert_eq!(site.committed(), before);
}

/// Hostile records of the run into a file; the other runs have a part of them.
fn requested_records() -> u64 {
    number_of("TSTAR_TEST_HOSTILE_RECORDS", 10_000)
}

#[test]
fn no_record_stops_a_run_into_a_file() {
    let shape = Shape { seed: 15, partitions: 4, limit: LIMIT, records: requested_records() };
    let Some(records) = records(shape) else { return };
    let Some(mut site) = Site::new(shape, None) else { return };
    site.send(records);
    prove(&site);
    counts::HOSTILE_RECORDS.print(shape.records);
}

#[test]
fn no_record_stops_a_run_into_a_keyspace() {
    let shape = Shape { seed: 16, partitions: 4, limit: LIMIT, records: requested_records() / 5 };
    let Some(records) = records(shape) else { return };
    let Some(mut site) = Site::in_keyspace(shape) else { return };
    site.send(records);
    prove(&site);
}

/// The input takes four times the usual size, the dead-letter topic a fiftieth.
#[test]
fn no_large_record_stops_a_run_with_small_letters() {
    let shape =
        Shape { seed: 17, partitions: 2, limit: 4 << 20, records: requested_records() / 20 };
    let Some(records) = records(shape) else { return };
    let Some(mut site) = Site::in_keyspace(shape) else { return };
    let letters = format!("{}.dlq", site.topic.name);
    let options = [("max.message.bytes", "20000"), ("retention.ms", "-1")];
    Topic::on(site.topic.brokers.clone(), letters, shape.partitions, &options);
    site.send(records);
    prove(&site);
}
