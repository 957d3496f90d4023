//! Servers that fail while the daemon runs, and return.
//!
//! Each test asks: afterwards, does the store hold what an undisturbed run gives?

mod behind;
mod datacenters;
mod kill;
mod limits;
mod nodes;
mod proxy;
mod restore;
mod soak;
mod timestamps;
mod turns;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::time::parse_time;

use crate::cli::Folder;
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::support;
use crate::topic::{Topic, records};

const PARTITIONS: i32 = 4;

/// A running daemon whose stderr goes to a file, killed when dropped.
struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn start(folder: &Folder, name: &str, words: &str) -> Self {
        let log = folder.path(&format!("{name}.log"));
        let file = File::create(&log).unwrap();
        let child = folder.command(words).stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// How often its log contains this.
    fn times(&self, word: &str) -> usize {
        self.said().matches(word).count()
    }

    /// How it ended; `None` while it runs.
    fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        Some(format!("the daemon ended with {status}: {}", self.said()))
    }

    /// Waits until its log contains this more than `before` times.
    #[track_caller]
    fn until_says(&mut self, word: &str, before: usize) {
        let log = self.log.clone();
        let said = || String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
        let ask = || (said().matches(word).count() > before).then_some(());
        until(&format!("the daemon to say `{word}`"), LIMIT, ask, || self.ended());
    }

    /// Waits until it has committed everything that the topic has now.
    #[track_caller]
    fn until_committed(&mut self, topic: &Topic, group: &str) {
        let ends = topic.ends(PARTITIONS);
        let ask = || {
            let committed = topic.committed(group, PARTITIONS);
            let read = |(at, end): (&i32, &i64)| *end == 0 || committed.get(at) == Some(end);
            ends.iter().all(read).then_some(())
        };
        until("everything to be committed", LIMIT, ask, || self.ended());
    }

    #[track_caller]
    fn signal(&self, name: &str) {
        support::signal(self.child.id(), name);
    }

    #[track_caller]
    fn is_up(&mut self) {
        assert_eq!(self.ended(), None);
    }

    /// [`support::memory`].
    fn memory(&self, field: &str) -> u64 {
        support::memory(self.child.id(), field).unwrap()
    }

    /// Ends it as an operator would; returns its summary.
    #[track_caller]
    fn drain(mut self) -> Value {
        self.signal("TERM");
        let child = &mut self.child;
        let status = until("the drain", LIMIT, || child.try_wait().unwrap(), || None);
        assert_eq!(status.code(), Some(0), "{}", self.said());
        let mut summary = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
        serde_json::from_str(&summary).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Lines of a fleet.
fn fleet(folder: &Folder, samples: usize, bad: &str) -> Vec<u8> {
    let words =
        format!("simulate --mix 46,34,19,1 --devices 20 --samples {samples} --seed 11 --bad {bad}");
    folder.run(&words).ends(0).stdout
}

/// Lines as records. An empty device id would be an empty key, and so have a reason of its own.
fn keyed(lines: &[u8]) -> Vec<ProducerRecord> {
    let mut records = records(lines, "unknown");
    for record in records.iter_mut().filter(|it| it.key.as_deref() == Some(b"")) {
        record.key = Some(b"unknown".to_vec());
    }
    records
}

/// How many records a group has committed.
fn committed(topic: &Topic, group: &str) -> i64 {
    topic.committed(group, PARTITIONS).values().sum()
}

/// How many records a topic has.
fn sent(topic: &Topic) -> i64 {
    topic.ends(PARTITIONS).values().sum()
}

/// The trips of a store, without versions, which differ between logs.
fn trips(folder: &Folder, store: &str) -> Vec<Value> {
    let mut trips = folder.run(&format!("export --path --store {store}")).ends(0).objects();
    for trip in &mut trips {
        trip.as_object_mut().unwrap().remove("version").unwrap();
    }
    trips.sort_by_cached_key(|trip| trip["id"].to_string());
    trips
}

/// Two stores hold the same; returns the number of trips.
#[track_caller]
fn are_same(folder: &Folder, store: &str, expected: &str) -> usize {
    let (found, expected) = (trips(folder, store), trips(folder, expected));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "trips");
    found.len()
}

/// Imports the records of a topic, in the order of its partitions, into `calm.db`; returns the
/// summary.
fn import(folder: &Folder, topic: &Topic) -> Value {
    let mut lines = Vec::new();
    for record in topic.records_of(&topic.name) {
        lines.extend_from_slice(&record.value);
        lines.push(b'\n');
    }
    folder.write("calm.ndjson", lines);
    folder.ingest("calm.ndjson --store sqlite:calm.db")
}

/// The dead letters of a topic by reason, each sample once.
fn letters(topic: &Topic) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for kept in topic.records_of(&format!("{}.dlq", topic.name)) {
        let place = ["partition", "offset"]
            .map(|name| kept.header(&format!("__connect.errors.{name}")).parse::<i64>().unwrap());
        let reason = kept.header("__connect.errors.exception.class.name").to_owned();
        reasons.insert((place, kept.headers.get("tstar-element").cloned()), reason);
    }
    let mut counts = BTreeMap::new();
    reasons.into_values().for_each(|reason| *counts.entry(reason).or_default() += 1);
    counts
}

/// Device and device time, ms, of a record that is a sample.
fn sample(value: &[u8]) -> Option<(String, i64)> {
    let value: Value = serde_json::from_slice(value).ok()?;
    let time = parse_time(value["time"].as_str()?).ok()?;
    Some((value["device_id"].as_str()?.to_owned(), time))
}
