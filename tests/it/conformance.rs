//! One suite over every store: the guarantees of [`TripStore`] and [`Sink`].
//!
//! A store joins with one line of `conformance!` and a function that creates an empty one. The
//! cases do not depend on any store.

mod tables;
mod tags;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tstar::internals::model::change::ChangeKind;
use tstar::internals::model::scalar::{Day, DeviceTime, Offset, Version};
use tstar::internals::segment::MintPoints;
use tstar::internals::sink::Sink;
use tstar::internals::store::memory::{ApplyRows as _, MemoryStore};
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{
    Change, DeviceScope, Flush, Forget, Kinds, Order, Position, TripEnd, TripRow, TripStore,
    WriteGroup, count_trips, latest_end,
};
use tstar::internals::timeline::{DAY_MS, LegFilter, Path, READINGS, Reading, Sample, day_of};

use crate::faults::until;
use crate::keyspace::{ClusteringOrder, Keyspace, WithJournal};
use crate::support::{Dice, block_on};
use tables::what_was_added_first_stays;
use tags::{
    a_forget_erases_the_tags_of_a_device_with_its_last_row,
    a_forget_erases_the_tags_that_no_trip_covers,
    a_tag_is_written_only_over_the_revision_that_was_read,
    tags_of_a_span_are_in_the_order_of_their_ids,
};
use tstar::path::encode;
use tstar_sim::counts;
use tstar_sim::nodes::{self, Connection, Nodes};

pub const MINUTE: i64 = 60_000;
/// 2026-11-20T00:00:00Z.
pub const MIDNIGHT: DeviceTime = DeviceTime(1_795_132_800_000);

fn sample(time_ms: DeviceTime) -> Sample {
    let moved = i32::try_from((time_ms - MIDNIGHT) / 1000).unwrap();
    let position = (525_200_000 + moved, 134_050_000 - moved);
    let none = [Reading::ABSENT; READINGS];
    let speed_cmps = Reading::new(Some(1234));
    Sample { speed_cmps, ..Sample::new(time_ms, position, none) }
}

/// A trip at minutes after midnight; its first sample arrived first.
pub fn trip(device_id: &str, minutes: &[i64], version: i64) -> TripRow {
    let samples = minutes.iter().map(|minute| sample(MIDNIGHT + minute * MINUTE));
    let path = Path::from_sorted(samples).unwrap();
    let t_star_ms = path.first().time_ms;
    let ids = MintPoints::new(t_star_ms, Version(2));
    TripRow::from_path(device_id, &path, (&ids, Version(version)), LegFilter::default())
}

pub fn at(minute: i64) -> DeviceTime {
    MIDNIGHT + minute * MINUTE
}

async fn all(store: &impl TripStore, device_id: &str) -> Vec<TripRow> {
    store
        .range(device_id, Kinds::All, DeviceTime::MIN, DeviceTime::MAX, Order::Asc, usize::MAX)
        .await
        .unwrap()
}

async fn lookup(store: &impl TripStore, minute: i64) -> Option<(i64, i64)> {
    let row = store.covering("truck-17", at(minute)).await.unwrap()?;
    Some(((row.start_ms - MIDNIGHT) / MINUTE, (row.end_ms - MIDNIGHT) / MINUTE))
}

async fn repeated_changes_nothing(store: impl TripStore) {
    let rows = [trip("truck-17", &[10, 12, 14], 4), trip("truck-17", &[30, 31], 8)];
    store.apply(&rows).await.unwrap();
    let once = all(&store, "truck-17").await;
    assert_eq!(once, rows);
    for _ in 0..3 {
        store.apply(&rows).await.unwrap();
        store.apply(&rows[..1]).await.unwrap();
    }
    assert_eq!(all(&store, "truck-17").await, once);
}

async fn older_after_newer_changes_nothing(store: impl TripStore) {
    let merged = trip("truck-17", &[10, 12, 14, 18, 22], 20);
    store.apply(std::slice::from_ref(&merged)).await.unwrap();
    for older in [
        trip("truck-17", &[10, 12], 4),
        trip("truck-17", &[10, 12, 14], 6),
        trip("truck-17", &[18], 8),
        trip("truck-17", &[18, 22], 10),
        trip("truck-17", &[22], 18),
    ] {
        store.apply(&[older]).await.unwrap();
        assert_eq!(all(&store, "truck-17").await, std::slice::from_ref(&merged));
    }
}

async fn a_claim_stands_whatever_comes_after_it(store: impl TripStore) {
    assert_eq!(store.claimed("truck-17", 1).await.unwrap(), None);
    assert_eq!(store.claim("truck-17", 1, 3).await.unwrap(), 3);
    assert_eq!(store.claim("truck-17", 1, 5).await.unwrap(), 3);
    assert_eq!(store.claim("truck-17", 2, 5).await.unwrap(), 5);
    assert_eq!(store.claim("truck-18", 1, 0).await.unwrap(), 0);
    store.apply(&[trip("truck-17", &[1, 2], 2)]).await.unwrap();
    let forget = Forget { version: Version(6), before_ms: at(3 * 24 * 60) };
    store.forget("truck-17", &forget).await.unwrap();
    for (epoch, partition) in [(1, Some(3)), (2, Some(5)), (3, None)] {
        assert_eq!(store.claimed("truck-17", epoch).await.unwrap(), partition);
    }
    assert_eq!(store.claim("truck-17", 1, 5).await.unwrap(), 3);
}

async fn growth_leaves_one_row(store: impl TripStore) {
    let steps: [&[i64]; 4] = [&[12], &[12, 13], &[10, 12, 13], &[10, 12, 13, 14]];
    for (minutes, version) in steps.iter().zip((2..).step_by(2)) {
        store.apply(&[trip("truck-17", minutes, version)]).await.unwrap();
        let rows = all(&store, "truck-17").await;
        assert_eq!(rows, [trip("truck-17", minutes, version)]);
    }
}

async fn a_merge_leaves_one_row(store: impl TripStore) {
    let (left, right) = (trip("truck-17", &[1, 2], 2), trip("truck-17", &[9, 10], 4));
    let far = trip("truck-17", &[40], 5);
    store.apply(&[left, right, far.clone()]).await.unwrap();
    assert_eq!(lookup(&store, 6).await, None);
    let merged = trip("truck-17", &[1, 2, 6, 9, 10], 6);
    store.apply(std::slice::from_ref(&merged)).await.unwrap();
    assert_eq!(all(&store, "truck-17").await, [merged, far]);
    for minute in 1..=10 {
        assert_eq!(lookup(&store, minute).await, Some((1, 10)), "minute {minute}");
    }
}

async fn a_lookup_finds_the_trip_that_covers_the_time(store: impl TripStore) {
    let rows: Vec<_> = (0..20).map(|n| trip("truck-17", &[n * 60, n * 60 + 7], 2 * n)).collect();
    store.apply(&rows).await.unwrap();
    store.apply(&[trip("truck-18", &[30], 100)]).await.unwrap();
    for n in 0..20 {
        let covered = Some((n * 60, n * 60 + 7));
        assert_eq!(lookup(&store, n * 60).await, covered);
        assert_eq!(lookup(&store, n * 60 + 3).await, covered);
        assert_eq!(lookup(&store, n * 60 + 7).await, covered);
        assert_eq!(lookup(&store, n * 60 + 8).await, None);
        assert_eq!(lookup(&store, n * 60 + 30).await, None);
    }
    assert_eq!(lookup(&store, -1).await, None);
    assert_eq!(store.covering("truck-19", at(0)).await.unwrap(), None);
}

async fn a_time_between_trips_has_two_neighbours(store: impl TripStore) {
    let day = DAY_MS / MINUTE;
    // Days with one, several and no trips, and one that ends on the day after its start.
    let starts = [-3 * day + 5, 60, 67, 120, 240, day - 4, day + 60, 5 * day];
    let versions = (2..).step_by(2);
    let made = starts.into_iter().zip(versions);
    let rows: Vec<_> = made.map(|(at, n)| trip("truck-17", &[at, at + 5], n)).collect();
    store.apply(&rows).await.unwrap();
    store.apply(&[trip("truck-18", &[61, 121, 241], 100)]).await.unwrap();
    for minute in starts.into_iter().flat_map(|at| [at - 1, at + 6, at + 7, at + day]) {
        let time_ms = at(minute);
        if lookup(&store, minute).await.is_some() {
            continue;
        }
        let before = rows.iter().rev().find(|row| row.end_ms < time_ms);
        let after = rows.iter().find(|row| row.start_ms > time_ms);
        for (order, expected) in [(Order::Desc, before), (Order::Asc, after)] {
            let found = store.neighbour("truck-17", Kinds::Trips, time_ms, order).await.unwrap();
            assert_eq!(found.as_ref(), expected, "{order:?} of minute {minute}");
        }
    }
    assert_eq!(store.neighbour("truck-19", Kinds::All, at(0), Order::Asc).await.unwrap(), None);
    // The ends of time.
    for (time_ms, order, expected) in [
        (DeviceTime::MIN, Order::Desc, None),
        (DeviceTime::MIN, Order::Asc, rows.first()),
        (DeviceTime::MAX, Order::Desc, rows.last()),
        (DeviceTime::MAX, Order::Asc, None),
    ] {
        let found = store.neighbour("truck-17", Kinds::Trips, time_ms, order).await.unwrap();
        assert_eq!(found.as_ref(), expected, "{order:?} of {time_ms:?}");
    }
}

async fn the_last_trip_is_found_without_its_path(store: impl TripStore + Sink) {
    let day = DAY_MS / MINUTE;
    let end = |row: &TripRow| TripEnd {
        kind: row.kind,
        t_star_ms: row.t_star_ms,
        start_ms: row.start_ms,
        end_ms: row.end_ms,
        version: row.version,
        lat: row.end_lat,
        lon: row.end_lon,
    };
    let rows =
        [trip("truck-17", &[-30, -5], 2), trip("truck-17", &[60], 4), trip("truck-17", &[10], 6)];
    store.apply(&rows).await.unwrap();
    store.apply(&[trip("truck-18", &[61, 121, 241], 100)]).await.unwrap();
    assert_eq!(latest_end(&store, "truck-17").await.unwrap(), Some(end(&rows[1])));
    let grown = trip("truck-17", &[day - 5, day - 2, day + 3], 8);
    store.apply(&[trip("truck-17", &[day - 5], 7)]).await.unwrap();
    store.apply(std::slice::from_ref(&grown)).await.unwrap();
    assert_eq!(latest_end(&store, "truck-17").await.unwrap(), Some(end(&grown)));
    assert_eq!(latest_end(&store, "truck-19").await.unwrap(), None);
    let today = day_of(MIDNIGHT);
    for (day, count) in [(today - 1, 1), (today, 3), (today + 1, 1), (today + 2, 0)] {
        let span = (day.start_ms(), (day + 1).start_ms() - 1);
        assert_eq!(count_trips(&store, "truck-17", span).await.unwrap(), count, "{day:?}");
    }
    let forget = Forget { version: Version(10), before_ms: at(day + 4) };
    store.forget("truck-17", &forget).await.unwrap();
    store.commit(&Flush::default()).await.unwrap();
    assert_eq!(latest_end(&store, "truck-17").await.unwrap(), None);
}

async fn a_trip_is_found_in_every_day_it_touches(store: impl TripStore) {
    let day = DAY_MS / MINUTE;
    let before = trip("truck-17", &[-30, -5], 2);
    let grown = trip("truck-17", &[-30, -5, 4, day + 3], 4);
    store.apply(&[before]).await.unwrap();
    store.apply(std::slice::from_ref(&grown)).await.unwrap();
    for minute in [-30, -1, 0, 1, 600, day - 1, day, day + 3] {
        assert_eq!(lookup(&store, minute).await, Some((-30, day + 3)), "minute {minute}");
    }
    let today = day_of(MIDNIGHT).get();
    for day in today - 1..=today + 1 {
        assert_eq!(
            store.rows_of_day("truck-17", Day(day)).await.unwrap(),
            std::slice::from_ref(&grown)
        );
        assert_eq!(
            store.devices(DeviceScope::OfDay(Day(day)), None, 10).await.unwrap(),
            ["truck-17"]
        );
    }
    assert_eq!(all(&store, "truck-17").await, [grown]);
    assert!(store.devices(DeviceScope::OfDay(Day(today + 2)), None, 10).await.unwrap().is_empty());
}

async fn a_range_shows_each_overlapping_trip_once_in_order(store: impl TripStore) {
    let day = DAY_MS / MINUTE;
    let rows = [
        trip("truck-17", &[-20, -10], 2),
        trip("truck-17", &[-3, 5], 4),
        trip("truck-17", &[20, 30], 6),
        trip("truck-17", &[40, day + 40], 8),
        trip("truck-17", &[day + 60], 10),
    ];
    store.apply(&rows).await.unwrap();
    let range = async |from: i64, upto: i64, order, limit| {
        let found =
            store.range("truck-17", Kinds::All, at(from), at(upto), order, limit).await.unwrap();
        found.iter().map(|row| row.version.get() / 2).collect::<Vec<_>>()
    };
    assert_eq!(range(-60, 2 * day, Order::Asc, 9).await, [1, 2, 3, 4, 5]);
    assert_eq!(range(-60, 2 * day, Order::Desc, 9).await, [5, 4, 3, 2, 1]);
    assert_eq!(range(-60, 2 * day, Order::Desc, 2).await, [5, 4]);
    assert_eq!(range(0, 20, Order::Asc, 9).await, [2, 3]);
    assert_eq!(range(5, 5, Order::Asc, 9).await, [2]);
    assert_eq!(range(6, 19, Order::Asc, 9).await, [0; 0]);
    assert_eq!(range(day + 10, day + 60, Order::Desc, 9).await, [5, 4]);
    assert_eq!(range(day + 10, day + 60, Order::Asc, 1).await, [4]);
}

async fn devices_come_in_byte_order_and_by_page(store: impl TripStore) {
    let mut names: Vec<String> = (0..50).map(|n| format!("truck-{n}")).collect();
    names.extend(["A".into(), "a".into(), "z\u{f6}".into(), "\u{1F69A}".into(), "~".into()]);
    for (name, version) in names.iter().zip((2..).step_by(2)) {
        store.apply(&[trip(name, &[5], version)]).await.unwrap();
    }
    names.sort_unstable();
    let mut paged = Vec::new();
    loop {
        let after = paged.last().map(String::as_str);
        let page = store.devices(DeviceScope::All, after, 7).await.unwrap();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, names);
    assert_eq!(
        store.devices(DeviceScope::OfDay(day_of(MIDNIGHT)), None, 100).await.unwrap(),
        names
    );
}

async fn a_row_comes_back_as_it_was(store: impl TripStore) {
    let mut row = trip("\u{1F69A} '\"; DROP TABLE trips; --", &[10, 12, 14], i64::MAX / 4);
    let history = |versions: &[i64]| versions.iter().copied().map(Version).collect();
    row.ids.insert(at(11), history(&[2, 9]));
    row.ids.insert(at(12), history(&[2, 4, 4, i64::MAX / 4]));
    let mut path = row.to_path().unwrap();
    path.name_driver(at(12), Some("O'Hara\n\""));
    (row.path, row.driver) = (encode(&path), Some("O'Hara\n\"".into()));
    row.driver_ms = Some(at(12));
    row.max_speed_mps = None;
    row.distance_m = 1.0 / 3.0;
    (row.moving_ms, row.idle_ms, row.parked_ms) = (Some(i64::MAX), None, i64::from(i32::MAX) + 1);
    (row.jumps, row.jump_s) = (Some(i32::MAX), Some(0.1 + 0.2));
    store.apply(std::slice::from_ref(&row)).await.unwrap();
    let found = store.covering(&row.device_id, at(13)).await.unwrap();
    assert_eq!(found.as_ref(), Some(&row));
    assert_eq!(found.unwrap().to_path().unwrap().len(), 3);
    // A newer row whose rules know no jumps leaves none of them.
    let newer = TripRow { version: row.version + 2, jumps: None, jump_s: None, ..row };
    store.apply(std::slice::from_ref(&newer)).await.unwrap();
    assert_eq!(store.covering(&newer.device_id, at(13)).await.unwrap(), Some(newer));
}

async fn a_flush_is_durable_with_its_position(store: impl TripStore + Sink) {
    assert_eq!(store.position().await.unwrap(), Position::default());
    let row = trip("truck-17", &[10, 12], 4);
    let change = Change { kind: ChangeKind::Started, retired: vec![], row: 0, in_past: false };
    let flush = Flush {
        groups: vec![WriteGroup { changes: vec![change], ..row.clone().into() }],
        dead_letters: vec![],
        forgotten: vec![],
        position: Position { delivered: Offset(3) },
        parts: vec![],
    };
    store.commit(&flush).await.unwrap();
    assert_eq!(all(&store, "truck-17").await, [row]);
    assert_eq!(store.position().await.unwrap(), Position { delivered: Offset(3) });
    store
        .commit(&Flush { position: Position { delivered: Offset(9) }, ..Flush::default() })
        .await
        .unwrap();
    assert_eq!(store.position().await.unwrap(), Position { delivered: Offset(9) });
}

async fn what_is_staged_is_shown_and_comes_with_the_flush(store: impl TripStore + Sink) {
    let (early, late) = (trip("truck-17", &[10, 12], 4), trip("truck-18", &[10], 6));
    let rows = |row: &TripRow| Flush { groups: vec![row.clone().into()], ..Flush::default() };
    store.stage(&rows(&early)).await.unwrap();
    store.stage(&Flush::default()).await.unwrap();
    assert_eq!(all(&store, "truck-17").await, std::slice::from_ref(&early));
    assert_eq!(store.position().await.unwrap(), Position::default());
    let grown = trip("truck-17", &[10, 12, 14], 8);
    store.stage(&rows(&grown)).await.unwrap();
    let last = Flush { position: Position { delivered: Offset(5) }, ..rows(&late) };
    store.commit(&last).await.unwrap();
    assert_eq!(all(&store, "truck-17").await, [grown]);
    assert_eq!(all(&store, "truck-18").await, [late]);
    assert_eq!(store.position().await.unwrap(), last.position);
}

async fn a_forget_erases_whole_trips_and_is_remembered(store: impl TripStore + Sink) {
    let day = DAY_MS / MINUTE;
    let (old, over) = (trip("truck-17", &[-60, -30], 2), trip("truck-17", &[-10, 5], 4));
    let (later, other) = (trip("truck-17", &[day + 5], 6), trip("truck-18", &[-60, -30], 8));
    store.apply(&[old.clone(), over.clone(), later.clone(), other.clone()]).await.unwrap();
    let forget = Forget { version: Version(10), before_ms: at(3) };
    for _ in 0..2 {
        // A half-done forget is done again in full.
        store.forget("truck-17", &forget).await.unwrap();
        store.commit(&Flush::default()).await.unwrap();
        assert_eq!(all(&store, "truck-17").await, [over.clone(), later.clone()]);
        assert_eq!(store.forgets("truck-17").await.unwrap(), std::slice::from_ref(&forget));
        assert_eq!(store.erased("truck-17").await.unwrap().as_ref(), Some(&forget));
        assert_eq!(store.covering("truck-17", at(-40)).await.unwrap(), None);
        // A row older than the forget stays erased; one that extends past its time was stored
        // whole.
        store.apply(std::slice::from_ref(&over)).await.unwrap();
    }
    let today = day_of(MIDNIGHT).get();
    let devices = async |scope| store.devices(scope, None, 9).await.unwrap();
    let of_day = async |day| devices(DeviceScope::OfDay(Day(day))).await;
    let all_erased = Forget { version: Version(12), before_ms: at(2 * day) };
    store.forget("truck-17", &all_erased).await.unwrap();
    store.commit(&Flush::default()).await.unwrap();
    assert_eq!(all(&store, "truck-17").await, []);
    assert_eq!(of_day(today).await, [] as [String; 0]);
    assert_eq!(of_day(today - 1).await, ["truck-18"]);
    assert_eq!(devices(DeviceScope::All).await, ["truck-18"]);
    // A split leaves a part before the floor; its day is not listed once that is erased.
    store.apply(&[trip("truck-17", &[4, 5], 13)]).await.unwrap();
    let again = Forget { version: Version(14), before_ms: at(6) };
    store.forget("truck-17", &again).await.unwrap();
    store.commit(&Flush::default()).await.unwrap();
    assert_eq!(all(&store, "truck-17").await, []);
    assert_eq!(of_day(today).await, [] as [String; 0]);
    let lower = Forget { version: Version(16), before_ms: at(-90) };
    store.forget("truck-17", &lower).await.unwrap();
    store.commit(&Flush::default()).await.unwrap();
    let as_one = Forget { version: Version(16), before_ms: at(2 * day) };
    assert_eq!(store.erased("truck-17").await.unwrap(), Some(as_one), "newest and floor");
    assert_eq!(store.forgets("truck-17").await.unwrap(), [forget, all_erased, again, lower]);
    assert_eq!(store.forgets("truck-18").await.unwrap(), []);
    assert_eq!(store.erased("truck-18").await.unwrap(), None);
    assert_eq!(all(&store, "truck-18").await, [other]);
}

/// Runs every case on a store of its own, where that store is available.
macro_rules! conformance {
    ($store:ident, $make:expr, [$($case:ident),* $(,)?]) => {
        mod $store {
            $(
                #[test]
                fn $case() {
                    let Some((store, _kept_until_the_end)) = $make() else { return };
                    crate::support::block_on(super::$case(store));
                }
            )*
        }
    };
    ($store:ident, $make:expr) => {
        conformance!($store, $make, [
            repeated_changes_nothing,
            older_after_newer_changes_nothing,
            a_claim_stands_whatever_comes_after_it,
            growth_leaves_one_row,
            a_merge_leaves_one_row,
            a_lookup_finds_the_trip_that_covers_the_time,
            a_time_between_trips_has_two_neighbours,
            the_last_trip_is_found_without_its_path,
            a_trip_is_found_in_every_day_it_touches,
            a_range_shows_each_overlapping_trip_once_in_order,
            devices_come_in_byte_order_and_by_page,
            a_row_comes_back_as_it_was,
            a_flush_is_durable_with_its_position,
            what_is_staged_is_shown_and_comes_with_the_flush,
            a_forget_erases_whole_trips_and_is_remembered,
            a_tag_is_written_only_over_the_revision_that_was_read,
            tags_of_a_span_are_in_the_order_of_their_ids,
            a_forget_erases_the_tags_that_no_trip_covers,
            a_forget_erases_the_tags_of_a_device_with_its_last_row,
        ]);
    };
}

fn memory() -> Option<(MemoryStore, ())> {
    Some((MemoryStore::default(), ()))
}

fn sqlite() -> Option<(SqliteStore, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let store =
        SqliteStore::open_writer(&file, &tstar::internals::model::rules::Rules::default(), 100)
            .unwrap();
    Some((store, folder))
}

fn cql(order: ClusteringOrder) -> Option<(WithJournal, Arc<Keyspace>)> {
    let keyspace = Keyspace::shared(order)?;
    Some((WithJournal::of_its_own(keyspace.store()), keyspace))
}

fn nodes() -> Option<(WithJournal<Connection>, ())> {
    let nodes = Arc::new(Mutex::new(Nodes::new(Dice::new(1), true)));
    let connection = Connection::live(&nodes, 0);
    Some((WithJournal::of_its_own(block_on(nodes::store(connection))), ()))
}

conformance!(in_memory, crate::conformance::memory);
conformance!(in_sqlite, crate::conformance::sqlite);
conformance!(in_simulated_nodes, crate::conformance::nodes);
// A keyspace that others share has one group.
conformance!(tables_in_memory, crate::conformance::memory, [what_was_added_first_stays]);
conformance!(tables_in_sqlite, crate::conformance::sqlite, [what_was_added_first_stays]);
conformance!(tables_in_simulated_nodes, crate::conformance::nodes, [what_was_added_first_stays]);
conformance!(in_cql, || crate::conformance::cql(crate::keyspace::ClusteringOrder::Desc));
conformance!(in_cql_made_asc, || crate::conformance::cql(crate::keyspace::ClusteringOrder::Asc));

#[test]
fn a_covered_time_stays_covered_while_another_connection_writes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trips.db");
    let rules = tstar::internals::model::rules::Rules::default();
    let writer = SqliteStore::open_writer(&file, &rules, 100).unwrap();
    block_on(writer.apply(&[trip("truck-17", &[100], 2)])).unwrap();
    let reader = SqliteStore::open_reader(&file).unwrap();
    let (done, lookups) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Grows at both ends, over midnight too, so that its key and its days change (I7).
            for n in 1..200 {
                let minutes = [100 - n, 100, 100 + n];
                block_on(writer.apply(&[trip("truck-17", &minutes, 2 + 2 * n)])).unwrap();
                // However fast either is, each row is looked up.
                let before = lookups.load(Ordering::Acquire);
                until("a lookup", || (lookups.load(Ordering::Acquire) > before).then_some(()));
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let found = block_on(lookup(&reader, 100));
            assert!(found.is_some(), "lost after {lookups:?} lookups");
            lookups.fetch_add(1, Ordering::AcqRel);
        }
        counts::LOOKUPS.print(lookups.load(Ordering::Acquire) as u64);
    });
}
