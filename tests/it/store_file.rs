//! The file of the embedded store: its owner, its format, its writers, its rules.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tstar::internals::model::change::ChangeKind;
use tstar::internals::model::reason::DeadReason;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{DeviceTime, LogTime, Offset, Version};
use tstar::internals::segment::MintPoints;
use tstar::internals::sink::Sink;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{
    Access, AnyStore, Change, DeadLetter, DeviceScope, Flush, LetterFilter, OpenOptions, Position,
    StoreError, StoreUrl, TripRow, TripStore, WriteGroup,
};
use tstar::internals::timeline::{LegFilter, Path as TripPath, READINGS, Reading, Sample, day_of};

use crate::support::block_on;

/// 2026-11-20T12:00:00Z.
const NOON: DeviceTime = DeviceTime(1_795_176_000_000);

fn trip(device_id: &str) -> TripRow {
    let sample = Sample::new(NOON, (1, 2), [Reading::ABSENT; READINGS]);
    let path = TripPath::new(sample);
    let ids = MintPoints::new(NOON, Version(0));
    TripRow::from_path(device_id, &path, (&ids, Version(0)), LegFilter::default())
}

fn open(file: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open_writer(file, &Rules::default(), 100)
}

fn flush(names: &[&str]) -> Flush {
    let change = || Change { kind: ChangeKind::Started, retired: vec![], row: 0, in_past: false };
    let group = |name: &&str| WriteGroup { changes: vec![change()], ..trip(name).into() };
    Flush { groups: names.iter().map(group).collect(), ..Flush::default() }
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let writer = open(&file).unwrap();
    block_on(writer.commit(&flush(&["truck-17"]))).unwrap();
    let second = open(&file).unwrap_err();
    assert!(matches!(second, StoreError::Locked { .. }), "{second}");
    assert!(matches!(SqliteStore::remove(&file), Err(StoreError::Locked { .. })));
    let reader = SqliteStore::open_reader(&file).unwrap();
    assert!(block_on(reader.covering("truck-17", NOON)).unwrap().is_some());
    drop(writer);
    open(&file).unwrap();
}

#[test]
fn a_snapshot_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let writer = open(&file).unwrap();
    block_on(writer.commit(&flush(&["truck-1"]))).unwrap();
    let url = StoreUrl::parse(&format!("sqlite:{}", file.display())).unwrap();
    let reader = block_on(AnyStore::open(&url, Access::Read, OpenOptions::default())).unwrap();
    let devices = || block_on(reader.devices(DeviceScope::All, None, 10)).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(devices(), ["truck-1"]);
    block_on(writer.commit(&flush(&["truck-2"]))).unwrap();
    assert_eq!(devices(), ["truck-1"]);
    drop(snapshot);
    assert_eq!(devices(), ["truck-1", "truck-2"]);
    drop(reader.snapshot().unwrap());
}

#[test]
fn a_second_writer_by_another_name_is_refused_too() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("trips.db"), folder.path().join("link.db"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let writer = open(&file).unwrap();
    assert!(matches!(open(&link), Err(StoreError::Locked { .. })));
    drop(writer);
    let writer = open(&link).unwrap();
    assert!(matches!(open(&file), Err(StoreError::Locked { .. })));
    drop(writer);
}

#[test]
fn reading_never_makes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let missing = SqliteStore::open_reader(&file).unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing}");
    assert!(!file.exists());
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "not a database, and long enough to have no header of one".repeat(30))
        .unwrap();
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE contacts (name TEXT)").unwrap();
    for file in [&text, &other] {
        let before = std::fs::read(file).unwrap();
        for refused in [
            open(file).map(drop),
            SqliteStore::open_reader(file).map(drop),
            SqliteStore::remove(file),
        ] {
            assert!(matches!(refused, Err(StoreError::NotAStore { .. })), "{refused:?}");
        }
        assert_eq!(std::fs::read(file).unwrap(), before);
    }
}

#[test]
fn other_rules_are_refused_and_both_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    drop(open(&file).unwrap());
    let wider = Rules { max_gap_ms: 600_000, ..Rules::default() };
    let refused = SqliteStore::open_writer(&file, &wider, 100).unwrap_err().to_string();
    assert!(refused.contains("max_gap: the store has 5m, requested 10m"), "{refused}");
    open(&file).unwrap();
}

#[test]
fn the_changes_kept_are_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let store = SqliteStore::open_writer(&file, &Rules::default(), 3).unwrap();
    let names: Vec<String> = (0..10).map(|n| format!("truck-{n}")).collect();
    for name in &names {
        block_on(store.commit(&flush(&[name]))).unwrap();
    }
    let changes = store.changes(0, 100).unwrap();
    assert_eq!(changes.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [8, 9, 10]);
    let event: serde_json::Value = serde_json::from_str(&changes[2].1).unwrap();
    assert_eq!(event["type"], "started");
    assert_eq!(event["id"], "truck-9~20261120T120000.000Z");
    assert_eq!(event["trip"]["samples"], 1);
}

#[test]
fn a_flush_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let store = open(&file).unwrap();
    // The second row cannot be written: NaN is stored as NULL, which the column refuses.
    let mut bad = flush(&["truck-1", "truck-2"]);
    bad.groups[1].rows[0].distance_m = f64::NAN;
    bad.position.delivered = Offset(7);
    let failed = block_on(store.commit(&bad)).unwrap_err();
    assert!(matches!(failed, StoreError::Failed { .. }), "{failed}");
    assert_eq!(block_on(store.covering("truck-1", NOON)).unwrap(), None);
    assert_eq!(block_on(store.position()).unwrap().delivered, Offset(0));
    assert!(store.changes(0, 10).unwrap().is_empty());
}

#[test]
fn what_was_staged_without_a_flush_is_gone_and_was_never_visible() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let store = open(&file).unwrap();
    block_on(store.stage(&flush(&["truck-1"]))).unwrap();
    let reader = SqliteStore::open_reader(&file).unwrap();
    assert_eq!(block_on(reader.covering("truck-1", NOON)).unwrap(), None);
    // A failing piece undoes those before it.
    let mut bad = flush(&["truck-2"]);
    bad.groups[0].rows[0].distance_m = f64::NAN;
    block_on(store.stage(&bad)).unwrap_err();
    assert_eq!(block_on(store.covering("truck-1", NOON)).unwrap(), None);
    block_on(store.stage(&flush(&["truck-3"]))).unwrap();
    drop(store);
    let store = open(&file).unwrap();
    assert_eq!(block_on(store.covering("truck-3", NOON)).unwrap(), None);
    assert!(store.changes(0, 10).unwrap().is_empty());
}

#[test]
fn a_letter_that_another_partition_committed_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let open = || Arc::new(SqliteStore::open_for_topic(&file, &Rules::default(), 100).unwrap());
    let letter = |offset, element| DeadLetter {
        partition: 1,
        offset: Offset(offset),
        element,
        count: 1,
        reason: DeadReason::BadTime,
        message: "no time".into(),
        origin: "samples".into(),
        line: 0,
        log_time_ms: LogTime(0),
        key: None,
        key_cut: None,
        headers: Arc::default(),
        headers_cut: None,
        value: b"{}".to_vec(),
        value_bytes: 2,
        sha256: None,
    };
    let of = |dead_letters, next| Flush {
        dead_letters,
        position: Position { delivered: Offset(next) },
        ..Flush::default()
    };
    let letters = [letter(5, None), letter(6, Some(0)), letter(6, Some(2))];
    let store = open();
    (0..2).for_each(|partition| store.set_position(partition, 0).unwrap());
    // The flush of partition 0 commits them, and the process ends before that of partition 1.
    store.stage_flush(&of(letters.to_vec(), 0)).unwrap();
    store.commit_flush(&of(vec![], 1), Some(0)).unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.position_of(1).unwrap(), Some(0));
    store.commit_flush(&of([&letters[..], &[letter(7, None)]].concat(), 8), Some(1)).unwrap();
    let kept = store
        .dead_letters(&LetterFilter::default(), 0, 100)
        .unwrap()
        .into_iter()
        .map(|kept| kept.letter);
    let kept: Vec<_> = kept.map(|letter| (letter.offset.get(), letter.element)).collect();
    assert_eq!(kept, [(5, None), (6, Some(0)), (6, Some(2)), (7, None)]);
}

#[test]
fn a_row_that_breaks_an_invariant_is_named_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    for (change, problem) in [
        ("samples = 2", "another number of samples"),
        ("t_star = t_star - 1", "t_star lies outside"),
        ("driver = 'Bea'", "another driver"),
        ("driver = 'Bea', driver_time = start_time", "another driver"),
        ("driver_time = start_time", "another driver"),
        ("path = x'ff'", "path"),
    ] {
        block_on(open(&file).unwrap().apply(&[trip("truck-17")])).unwrap();
        let connection = Connection::open(&file).unwrap();
        connection.execute_batch(&format!("UPDATE trips SET {change}")).unwrap();
        let store = SqliteStore::open_reader(&file).unwrap();
        assert_eq!(block_on(store.covering("truck-17", NOON)).unwrap(), None, "{change}");
        let row = block_on(store.rows_of_day("truck-17", day_of(NOON))).unwrap().remove(0);
        let error = row.to_path().unwrap_err().to_string();
        assert!(error.contains("truck-17") && error.contains(problem), "{change}: {error}");
        connection.execute_batch("DELETE FROM trips").unwrap();
    }
}

/// A letter of a file, with a value of this many bytes.
fn letter_of_file(offset: i64, bytes: usize) -> DeadLetter {
    DeadLetter {
        partition: 0,
        offset: Offset(offset),
        element: None,
        count: 1,
        reason: DeadReason::BadJson,
        message: "no JSON".into(),
        origin: "log".into(),
        line: 1 + offset.unsigned_abs(),
        log_time_ms: LogTime(0),
        key: None,
        key_cut: None,
        headers: Arc::default(),
        headers_cut: None,
        value: vec![b'x'; bytes],
        value_bytes: bytes as u64,
        sha256: None,
    }
}

#[test]
fn dead_letters_have_a_bound_and_each_token_a_share_of_it() {
    const MAX: u64 = 80_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let bounded = |token: Option<&str>| {
        let mut store = open(&file).unwrap();
        store.bound_letters(MAX, token);
        store
    };
    let add = |token: Option<&str>, offset: i64, bytes: usize| {
        let flush = Flush {
            dead_letters: vec![letter_of_file(offset, bytes)],
            groups: vec![trip(&format!("truck-{offset}")).into()],
            ..Flush::default()
        };
        block_on(bounded(token).commit(&flush))
    };
    let is_full = |added: Result<(), StoreError>| match added {
        Ok(()) => false,
        Err(StoreError::LettersFull { max: MAX, .. }) => true,
        Err(other) => panic!("{other}"),
    };
    // A token has an eighth, and what it sends beyond that is not stored in part.
    assert!(!is_full(add(Some("phone"), 0, 9_000)));
    assert!(is_full(add(Some("phone"), 1, 1_000)));
    assert_eq!(block_on(open(&file).unwrap().covering("truck-1", NOON)).unwrap(), None);
    let good = Flush { groups: vec![trip("truck-2").into()], ..Flush::default() };
    block_on(bounded(Some("phone")).commit(&good)).unwrap();
    assert!(!is_full(add(Some("other"), 3, 9_000)), "another token has its own share");
    assert!(!is_full(add(None, 4, 40_000)), "a file has all of it");
    assert!(is_full(add(None, 5, 30_000)));
    assert!(!is_full(add(None, 6, 20_000)));
    assert!(is_full(add(Some("third"), 7, 5_000)), "all letters together are at the bound");
    // A staged part is undone with the rest.
    let store = bounded(None);
    let staged = Flush { dead_letters: vec![letter_of_file(8, 10)], ..Flush::default() };
    block_on(store.stage(&staged)).unwrap();
    let large = Flush { dead_letters: vec![letter_of_file(9, 30_000)], ..Flush::default() };
    assert!(is_full(block_on(store.commit(&large))));
    let ids: Vec<_> = store
        .dead_letters(&LetterFilter::default(), 0, 100)
        .unwrap()
        .iter()
        .map(|kept| kept.id)
        .collect();
    assert_eq!(ids.len(), 4);
    // What is removed makes place.
    store.delete_letters(&ids[..1]).unwrap();
    drop(store);
    assert!(!is_full(add(Some("phone"), 10, 5_000)));
}

#[test]
fn a_run_continues_over_flushes_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let add = |offset: i64, bytes: usize, count: u64| {
        let letter = DeadLetter { count, ..letter_of_file(offset, bytes) };
        let flush = Flush { dead_letters: vec![letter], ..Flush::default() };
        block_on(open(&file).unwrap().commit(&flush)).unwrap();
    };
    add(0, 3, 1);
    add(1, 3, 4);
    add(5, 3, 1);
    add(6, 4, 1);
    add(8, 4, 1);
    let kept = open(&file).unwrap().dead_letters(&LetterFilter::default(), 0, 100).unwrap();
    let kept: Vec<_> = kept.iter().map(|it| (it.letter.offset.get(), it.letter.count)).collect();
    assert_eq!(kept, [(0, 6), (6, 1), (8, 1)]);
}
