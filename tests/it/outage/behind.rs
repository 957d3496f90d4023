//! The daemon behind a proxy that injects faults by a seeded script.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::Value;
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::time::parse_time;
use tstar::internals::store::sqlite::SqliteStore;

use super::proxy::{Fault, FaultProxy, Seeded};
use super::{Daemon, PARTITIONS, are_same, fleet, sample, sent};
use crate::cli::{Folder, minutes};
use crate::control_keys;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::topic::Topic;

/// Lines of the fleet that arrive during a fault.
const LINES: usize = 400;

/// Number of records that arrive while the store is silent, and bytes of each.
const FLOOD: (usize, usize) = (50_000, 5_000);

/// Maximum memory of the daemon: `--memory`, plus its code, threads and allocator.
const MAX_MEMORY: u64 = 96 << 20;

/// Every sample that the group has committed lies in a trip that the server holds (I6). Returns the
/// number of samples.
#[track_caller]
fn is_durable(folder: &Folder, topic: &Topic, direct: &str, but: &BTreeSet<String>) -> usize {
    // First the committed offsets, then the rows: the reverse would prove nothing.
    let committed = topic.committed(&topic.name, PARTITIONS);
    let exported = folder.run(&format!("export --store {direct}")).ends(0).objects();
    let mut trips: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let ms = |time: &Value| parse_time(time.as_str().unwrap()).unwrap();
    for trip in &exported {
        let device = trip["device_id"].as_str().unwrap().to_owned();
        let span = (ms(&trip["start_time"]), ms(&trip["end_time"]));
        trips.entry(device).or_default().push(span);
    }
    let mut count = 0;
    for record in topic.records_of(&topic.name) {
        let Some((device, time)) = sample(&record.value) else { continue };
        let is_committed = committed.get(&record.partition).is_some_and(|at| record.offset < *at);
        if is_committed && !but.contains(&device) {
            let spans = trips.get(&device).into_iter().flatten();
            let covered = spans.clone().any(|(start, end)| *start <= time && time <= *end);
            assert!(covered, "{device} at {time} is committed and not stored: {record:?}");
            count += 1;
        }
    }
    count
}

/// Samples of many devices, with an unknown field that no compression shrinks.
fn flood() -> Vec<ProducerRecord> {
    let mut random = rand_chacha::ChaCha8Rng::from_seed([5; 32]);
    let mut ballast = vec![0; FLOOD.1 / 2];
    let sample = |nth: usize| {
        random.fill_bytes(&mut ballast);
        let ballast = data_encoding::HEXLOWER.encode(&ballast);
        let (device, time) = (format!("flood-{}", nth % 50), 1_714_550_400_000 + nth * 1000);
        let value = format!(
            r#"{{"device_id":"{device}","ts":{time},"lat":52.1,"lon":13.5,"ballast":"{ballast}"}}"#
        );
        ProducerRecord {
            key: Some(device.into()),
            value: value.into(),
            ..ProducerRecord::default()
        }
    };
    (0..FLOOD.0).map(sample).collect()
}

/// Waits until the undisturbed run into a file has read everything.
fn until_read(folder: &Folder, topic: &Topic, calm: &mut Daemon) {
    let ends = topic.ends(PARTITIONS);
    let ask = || {
        let store = SqliteStore::open_reader(&folder.path("calm.db")).ok()?;
        let read = |(at, end): (&i32, &i64)| {
            *end == 0 || store.position_of(*at).ok().flatten() >= Some(*end)
        };
        ends.iter().all(read).then_some(())
    };
    until("the undisturbed run", LIMIT, ask, || calm.ended());
}

/// A daemon behind a proxy, and an undisturbed one that writes a file.
struct Case {
    folder: Folder,
    topic: Topic,
    between: FaultProxy,
    daemon: Daemon,
    /// The store, without the proxy.
    direct: String,
    /// Devices that are partly erased.
    forgotten: BTreeSet<String>,
}

impl Case {
    fn new(keyspace: &Keyspace, topic: Topic) -> Self {
        let (node, name) = (&keyspace.url.nodes[0], &keyspace.url.keyspace);
        let (folder, between) = (control_keys::folder(), FaultProxy::start(node));
        let direct = format!("scylla://{node}/{name}");
        let words = format!(
            "run {} --group {} --from earliest --create-topics --memory 64MB --max-staleness 3s \
             --store scylla://{}/{name}",
            topic.flags(),
            topic.name,
            between.address
        );
        let daemon = Daemon::start(&folder, "daemon", &words);
        Self { folder, topic, between, daemon, direct, forgotten: BTreeSet::new() }
    }

    /// Sends records while a fault hits `times` requests, and checks that what is committed is
    /// durable.
    fn step(&mut self, nth: usize, fault: Fault, times: usize, lines: &[u8]) -> usize {
        let mut fired = self.between.inject(fault, times);
        self.topic.send_lines(lines, "no-device");
        let fresh = minutes(&format!("fresh-{nth}"), &[1, 2, 3, 20]);
        self.topic.send_lines(fresh.as_bytes(), "no-device");
        if nth % 5 == 4 {
            let device = format!("fresh-{}", nth - 2);
            let forget = control_keys::forget(&self.topic, &device, "2024-05-01T08:10:00Z");
            self.topic.send(&[forget]);
            self.forgotten.insert(device);
        }
        let daemon = &mut self.daemon;
        let all = || (fired.count() == times).then_some(());
        until(&format!("{fault:?}, {times} times"), LIMIT, all, || daemon.ended());
        is_durable(&self.folder, &self.topic, &self.direct, &self.forgotten)
    }

    /// The server is silent while more arrives than fits into memory: partitions wait on the
    /// broker.
    fn silence(&mut self) {
        let mut fired = self.between.inject(Fault::Dropped, usize::MAX);
        let before = sent(&self.topic);
        self.topic.send(&flood());
        let daemon = &mut self.daemon;
        // Each worker loads several devices at once, so these are several attempts of all of them.
        // A worker inside a flush has few requests in flight, and waits longer after each: on a
        // busy machine a hundred would take longer than anything else here.
        let many = || (fired.count() >= 100).then_some(());
        until("a hundred requests without an answer", 2 * LIMIT, many, || daemon.ended());
        let held = self.topic.committed(&self.topic.name, PARTITIONS);
        let silent = self.daemon.memory("VmHWM");
        assert!(held.values().sum::<i64>() <= before, "committed without a store");
        self.between.calm();
        self.daemon.until_committed(&self.topic, &self.topic.name);
        let peak = self.daemon.memory("VmHWM");
        println!(
            "{} requests without an answer while {} MB came; at most {} MB of memory, {} MB in all",
            fired.count(),
            (FLOOD.0 * FLOOD.1) >> 20,
            silent >> 20,
            peak >> 20
        );
        assert!(peak < MAX_MEMORY, "{peak} bytes");
    }
}

#[test]
fn a_daemon_behind_a_failing_server_stays_small_and_writes_no_wrong_row() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let mut case = Case::new(&keyspace, topic);
    let calm = format!("run {} --from earliest --store sqlite:calm.db", case.topic.flags());
    let mut calm = Daemon::start(&case.folder, "calm", &calm);

    let mut random = Seeded::new(5);
    let faults = random.faults(2);
    let lines = fleet(&case.folder, faults.len() * LINES, "0");
    let lines: Vec<&[u8]> = lines.split_inclusive(|&byte| byte == b'\n').collect();
    let mut fired: BTreeMap<String, usize> = BTreeMap::new();
    let mut checked = 0;
    for ((nth, fault), lines) in faults.into_iter().enumerate().zip(lines.chunks(LINES)) {
        let times = 1 + random.below(12);
        checked += case.step(nth, fault, times, &lines.concat());
        *fired.entry(format!("{fault:?}")).or_default() += times;
    }
    case.silence();
    until_read(&case.folder, &case.topic, &mut calm);
    calm.drain();
    let (waits, summary) = (case.daemon.times("waiting for the store"), case.daemon.drain());
    let same = are_same(&case.folder, &case.direct, "sqlite:calm.db");
    println!("{fired:?}; {checked} times a committed sample was found; {waits} waits logged");
    println!("{same} trips, delivered {}", summary["delivered"]);
    assert!(checked > 0 && waits > 0);
}
