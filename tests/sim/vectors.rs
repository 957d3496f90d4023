//! The core alone and the daemon decide alike: on the committed vectors, which the daemon has
//! written, and on random logs.

mod daemon;
mod file;
mod logs;

use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::sqlite::SqliteStore;
use tstar_core::codec::trip_row::TripRow;
use tstar_core::model::reason::{DeadReason, DropReason};
use tstar_core::segment::{ChangeKind, TakenSpan};
use tstar_core::{Arrival, DeviceTime, Fleet};

use crate::counts;
use crate::support::times;
use logs::Log;

/// What is decided about a log.
#[derive(Debug, Default, PartialEq)]
struct Decided {
    /// What each record did.
    effects: Vec<String>,
    /// What was taken at each flush, by device.
    flushes: Vec<Vec<Taken>>,
    /// The trips and stops at the end, by device and time.
    rows: Vec<TripRow>,
}

/// A write group.
#[derive(Debug, PartialEq)]
struct Taken {
    device_id: String,
    spans: Vec<TakenSpan>,
    /// Each row with its event: the type, and the ids that were retired.
    changes: Vec<(ChangeKind, Vec<DeviceTime>, TripRow)>,
}

impl Decided {
    fn add_flush(&mut self, mut groups: Vec<Taken>) {
        groups.sort_by(|one, other| one.device_id.cmp(&other.device_id));
        self.flushes.push(groups);
    }
}

/// What the core alone decides.
fn by_the_core(log: &Log) -> Decided {
    let mut fleet = Fleet::new(&log.rules);
    let (mut decided, legs) = (Decided::default(), fleet.legs());
    for (nth, sent) in (1..).zip(&log.records) {
        decided.effects.push(fleet.absorb(&sent.record()).name().to_owned());
        if log.flushes.contains(&nth) {
            let groups = fleet.take_changes().into_iter().map(|group| {
                let changes = group.segments.into_iter().map(|change| {
                    let row = TripRow::from_segment(group.device_id, change.segment, legs);
                    (change.event.kind, change.event.retired, row)
                });
                Taken {
                    device_id: group.device_id.to_owned(),
                    spans: group.taken,
                    changes: changes.collect(),
                }
            });
            decided.add_flush(groups.collect());
        }
    }
    decided.rows = fleet.segments().map(|(id, segment)| fleet.row(id, segment)).collect();
    decided.rows.sort_by(|one, other| {
        (&one.device_id, one.start_ms).cmp(&(&other.device_id, other.start_ms))
    });
    decided
}

#[track_caller]
fn assert_alike(log: &Log, core: &Decided, daemon: &Decided) {
    if core != daemon {
        let name = &log.name;
        for (nth, (core, daemon)) in core.effects.iter().zip(&daemon.effects).enumerate() {
            assert_eq!(core, daemon, "{name}: record {nth}: {:?}", log.records[nth]);
        }
        for (nth, (core, daemon)) in core.flushes.iter().zip(&daemon.flushes).enumerate() {
            assert_eq!(core, daemon, "{name}: flush {nth}");
        }
        assert_eq!(core.rows, daemon.rows, "{name}");
    }
}

/// The committed vectors are what the daemon writes today, into a store in a file.
#[test]
fn the_daemon_writes_the_committed_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = Vec::new();
    for (nth, log) in file::logs().iter().enumerate() {
        let path = folder.path().join(format!("{nth}.db"));
        let store = SqliteStore::open_writer(&path, &log.rules, 1_000).unwrap();
        lines.extend(file::lines(log, &daemon::decided(log, &store)));
    }
    file::assert_committed(&lines);
}

/// The core gives what the committed vectors say, which have every effect and every type of change.
#[test]
fn the_core_gives_the_committed_vectors() {
    let committed = file::read();
    for (log, expected) in &committed {
        assert_eq!(file::lines(log, &by_the_core(log)), *expected, "{}", log.name);
    }
    assert_eq!(committed.len(), file::logs().len());
    let refusals = [DeadReason::BadDeviceId, DeadReason::BadType, DeadReason::OutOfRange];
    let refusals = [&refusals[..], &[DeadReason::TimeBeforeMin, DeadReason::TimeInFuture]].concat();
    let drops = [DropReason::BadFix.name(), DropReason::ZeroPosition.name(), "duplicate"];
    let effects = Arrival::ALL.iter().map(|it| it.name()).chain(drops);
    let effects = effects.chain(refusals.iter().map(|it| it.name())).chain(["trip_full"]);
    let effects = effects.map(|name| format!("\"effect\":\"{name}\""));
    let types = ChangeKind::ALL.iter().map(|it| format!("\"type\":\"{}\"", it.name()));
    for part in effects.chain(types) {
        let has = |lines: &[String]| lines.iter().any(|line| line.contains(&part));
        assert!(committed.iter().any(|(_, lines)| has(lines)), "no log has {part}");
    }
}

/// On random logs, until enough records have arrived.
#[test]
fn core_and_daemon_decide_random_logs_alike() {
    let (first, arrivals) = (times("TSTAR_TEST_FIRST", 1), times("TSTAR_TEST_VECTORS", 200_000));
    let (mut done, mut seed) = (0, first);
    while done < arrivals {
        let log = Log::random(seed);
        let (core, daemon) = (by_the_core(&log), daemon::decided(&log, &MemoryStore::default()));
        assert_alike(&log, &core, &daemon);
        done += log.records.len() as u64;
        seed += 1;
    }
    println!("seeds {first} to {}", seed - 1);
    counts::ARRIVALS.print(done);
}
