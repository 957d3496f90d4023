//! A daemon that runs for long, under load, while others come and go and servers are restarted.

use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::time::{format_time, parse_time};

use super::kill::OwnServers;
use super::{Daemon, sent};
use crate::cli::Folder;
use crate::servers::{LIMIT, Server};
use crate::support::{block_on, times};
use crate::topic::Topic;
use tstar_sim::counts;

const GROUP: &str = "tstar";
const DEVICES: u64 = 500;
const TICK: Duration = Duration::from_millis(100);
const RECORDS_PER_TICK: u64 = 50;

/// Samples of a trip, and the seconds between them.
const TRIP: u64 = 10;
const STEP_S: u64 = 10;
/// Seconds without samples after a trip.
const GAP_S: u64 = 3_600;

/// How much the memory of a daemon, and its log, may grow in the second half of the run, bytes.
const MAX_GROWTH: f64 = 1_000_000.0;

/// Minutes after which memory has settled: in a run of two hours it took 55, some of them after the
/// node was away. Of a run whose first half is shorter, memory is only printed.
const WARM_UP_MINUTES: u64 = 60;

/// What a process has at one moment.
struct Use {
    /// Seconds since the start.
    at: f64,
    resident_bytes: f64,
    files: usize,
    log_bytes: u64,
}

impl Use {
    fn measure(daemon: &Daemon, began: Instant) -> Self {
        Self {
            at: began.elapsed().as_secs_f64(),
            resident_bytes: daemon.memory("VmRSS") as f64,
            files: fs::read_dir(format!("/proc/{}/fd", daemon.child.id())).unwrap().count(),
            log_bytes: fs::metadata(&daemon.log).unwrap().len(),
        }
    }
}

/// The growth of the memory within these moments by the line that fits them best, bytes.
fn growth(uses: &[Use]) -> f64 {
    let count = uses.len() as f64;
    let mean = |of: fn(&Use) -> f64| uses.iter().map(of).sum::<f64>() / count;
    let (at, bytes) = (mean(|it| it.at), mean(|it| it.resident_bytes));
    let (mut above, mut below) = (0.0, 0.0);
    for it in uses {
        above += (it.at - at) * (it.resident_bytes - bytes);
        below += (it.at - at).powi(2);
    }
    above / below * (uses[uses.len() - 1].at - uses[0].at)
}

/// A record of the load: devices in turn, a trip after the other; of every second device each pair
/// of samples arrives in reverse.
fn record(nth: u64, start_ms: i64) -> ProducerRecord {
    let (device, arrival) = (nth % DEVICES, nth / DEVICES);
    let sample = arrival ^ (device & 1);
    let time_s = sample * STEP_S + sample / TRIP * GAP_S;
    let time = format_time(start_ms + 1000 * i64::try_from(time_s).unwrap());
    let lat = (sample % TRIP) as f64 / 1e4;
    let value = format!(r#"{{"device_id":"{device}","time":"{time}","lat":{lat},"lon":13.4}}"#);
    ProducerRecord {
        key: Some(device.to_string().into_bytes()),
        value: value.into_bytes(),
        ..ProducerRecord::default()
    }
}

/// Sends records until it is to stop; returns their number. A broker that is away keeps it waiting.
fn send(topic: &Topic, stop: &Receiver<()>) -> u64 {
    let producer = topic.producer();
    let start_ms = parse_time("2020-01-01T00:00:00Z").unwrap();
    let mut next = 0;
    while stop.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let records: Vec<_> =
            (next..next + RECORDS_PER_TICK).map(|nth| record(nth, start_ms)).collect();
        block_on(producer.send(&topic.name, &records)).unwrap();
        next += RECORDS_PER_TICK;
    }
    next
}

/// Lets a second member join and leave the group, and restarts the servers, until the time is up;
/// returns what the first one used, once a second, and the number of members that left.
fn disturb(
    [broker, node]: [&mut Server; 2],
    (folder, words): (&Folder, &str),
    first: &mut Daemon,
    minutes: u64,
) -> (Vec<Use>, u64) {
    let (began, whole) = (Instant::now(), Duration::from_secs(60 * minutes));
    let (_open, tick) = channel::<()>();
    let (mut uses, mut left, mut second) = (Vec::new(), 0, None);
    let mut faults = vec![whole * 2 / 5, whole / 5];
    while began.elapsed() < whole {
        assert_eq!(tick.recv_timeout(Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
        first.is_up();
        uses.push(Use::measure(first, began));
        if faults.last().is_some_and(|at| began.elapsed() > *at) {
            faults.pop();
            let server = if faults.is_empty() { &mut *node } else { &mut *broker };
            server.kill();
            server.restart();
            server.wait_until_ready(LIMIT);
        }
        if uses.len() % 30 == 0 {
            match second.take() {
                None => second = Some(Daemon::start(folder, "second", words)),
                Some(member) => {
                    Daemon::drain(member);
                    left += 1;
                }
            }
        }
    }
    second.map(Daemon::drain);
    (uses, left)
}

#[test]
#[ignore = "at night: tests/nightly/soak"]
fn a_daemon_runs_on_without_growing() {
    let folder = Folder::new();
    let minutes = times("TSTAR_TEST_SOAK", 10);
    let Some(mut own) = OwnServers::start(&folder) else { return };
    let flags = format!("{} --store {} --memory 64MB", own.topic.flags(), own.store);
    let words = format!("run {flags} --from earliest --create-topics");
    let mut first = Daemon::start(&folder, "first", &words);
    first.until_says("reading from offset", 0);
    let OwnServers { broker, node, topic, store } = &mut own;
    let topic = &*topic;
    let (records, uses, left) = thread::scope(|scope| {
        // If the test fails before the end, `stop` is dropped.
        let (stop, stopped) = channel();
        let sender = scope.spawn(move || send(topic, &stopped));
        let (uses, left) = disturb([broker, node], (&folder, &words), &mut first, minutes);
        drop(stop);
        (sender.join().unwrap(), uses, left)
    });
    first.until_committed(topic, GROUP);
    let summary = first.drain();

    let half = &uses[uses.len() / 2..];
    let (start, end) = (&half[0], &half[half.len() - 1]);
    let grown = growth(half);
    let files = |uses: &[Use]| uses.iter().map(|it| it.files).max().unwrap();
    println!(
        "soak: {minutes} minutes, {records} records, {} in the topic, {left} members joined and left; \
         memory of the first {:.1} MB at the start of the second half, {:.1} MB at its end, by the \
         best line {:.2} MB more; {} files open at most, log {} bytes more",
        sent(topic),
        start.resident_bytes / 1e6,
        end.resident_bytes / 1e6,
        grown / 1e6,
        files(half),
        end.log_bytes - start.log_bytes,
    );
    for it in uses.iter().step_by(uses.len().div_ceil(20)) {
        println!("at {:.0} s: {:.1} MB, {} files", it.at, it.resident_bytes / 1e6, it.files);
    }
    assert!(minutes < 2 * WARM_UP_MINUTES || grown < MAX_GROWTH, "memory grew by {grown} bytes");
    assert!(files(half) <= files(&uses[..uses.len() / 2]), "files stay open");
    assert!((end.log_bytes - start.log_bytes) as f64 <= MAX_GROWTH, "the log grew");
    let verify = format!("verify --brokers {} --group {GROUP} --store {store}", topic.brokers);
    let report = folder.run(&verify).ends(0).json();
    println!("verified: {report}; summary of the first: {summary}");
    counts::SOAK.print(minutes);
}
