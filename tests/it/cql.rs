//! The store in Scylla or Cassandra, on a real server: what the conformance suite cannot test.

mod differential;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;
use scylla::value::CqlTimestamp;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{Day, DeviceTime, Version};
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::scylla::{ScyllaStore, ScyllaUrl, ServerOptions};
use tstar::internals::store::{
    DeviceScope, Forget, Kinds, Order, SideTables, StoreError, TripRow, TripStore,
};
use tstar::internals::timeline::DAY_MS;

use crate::conformance::{MIDNIGHT, MINUTE, at, trip};
use crate::keyspace::{ClusteringOrder, Keyspace, patient};
use crate::support::block_on;

const TODAY: i64 = MIDNIGHT.ms() / DAY_MS;

/// The rows of a statement.
async fn rows<R>(session: &Session, select: &str, values: impl SerializeRow) -> Vec<R>
where
    R: for<'row> DeserializeRow<'row, 'row>,
{
    let found = session.query_unpaged(select, values).await.unwrap().into_rows_result().unwrap();
    found.rows::<R>().unwrap().map(Result::unwrap).collect()
}

/// Leaves a row with a driver and no version, as another program's UPDATE does.
async fn phantom(session: &Session, device: &str, end_minute: i64) {
    let update = "UPDATE trips SET driver = 'someone' WHERE device_id = ? AND bucket = ?
         AND end_time = ? AND start_time = ?";
    let (end, start) = (CqlTimestamp(at(end_minute).ms()), CqlTimestamp(at(0).ms()));
    session.query_unpaged(update, (device, CqlTimestamp(MIDNIGHT.ms()), end, start)).await.unwrap();
}

async fn all(store: &ScyllaStore, device: &str) -> Vec<TripRow> {
    store
        .range(device, Kinds::All, DeviceTime::MIN, DeviceTime::MAX, Order::Asc, usize::MAX)
        .await
        .unwrap()
}

#[test]
fn foreign_rows_are_skipped_and_counted() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let (store, session) = (keyspace.store(), &keyspace.session);
    keyspace.runtime.block_on(async {
        let rows = [trip("haunted", &[0, 30], 10), trip("haunted", &[40, 50], 12)];
        store.apply(&rows).await.unwrap();
        assert_eq!(store.foreign_rows(), 0);
        // More than a page of them before the trip, in the order of a lookup.
        for minute in 11..=20 {
            phantom(session, "haunted", minute).await;
        }
        let found = store.covering("haunted", at(10)).await.unwrap();
        assert_eq!(found.as_ref(), Some(&rows[0]));
        assert_eq!(store.foreign_rows(), 10);
        assert_eq!(store.rows_of_day("haunted", Day(TODAY)).await.unwrap(), rows);
        assert_eq!(store.owner().foreign_rows(), 20, "owners count together");
        // After this many foreign rows that cover the time, a lookup gives up on the day.
        for minute in 41..=49 {
            for second in 0..8 {
                let update = "UPDATE trips SET driver = 'x' WHERE device_id = ? AND bucket = ?
                     AND end_time = ? AND start_time = ?";
                let end = CqlTimestamp((at(minute) + second * 1000).ms());
                let key = ("haunted", CqlTimestamp(MIDNIGHT.ms()), end, CqlTimestamp(at(40).ms()));
                session.query_unpaged(update, key).await.unwrap();
            }
        }
        assert_eq!(store.covering("haunted", at(40)).await.unwrap(), None);
        assert_eq!(store.foreign_rows(), 84, "64 rows are read, and no more");
        assert_eq!(store.rows_of_day("haunted", Day(TODAY)).await.unwrap(), rows);
        // A day with foreign rows only does not count as ours.
        let forget = Forget { version: Version(20), before_ms: at(0) + DAY_MS };
        store.apply(&[trip("haunted", &[-60], 14)]).await.unwrap();
        store.forget("haunted", &forget).await.unwrap();
        phantom(session, "haunted", 15).await;
        store.forget("haunted", &forget).await.unwrap();
        let devices = store.devices(DeviceScope::OfDay(Day(TODAY)), None, 1000).await.unwrap();
        assert!(!devices.contains(&"haunted".to_owned()));
    });
}

#[test]
fn a_row_written_twice_is_the_same_to_the_timestamp() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let store = keyspace.store();
    let row = trip("twice", &[-5, 10], 1_795_132_800_000_000);
    keyspace.runtime.block_on(async {
        let mut written = Vec::new();
        for store in [&store, &store, &store.owner()] {
            store.apply(std::slice::from_ref(&row)).await.unwrap();
            let select = "SELECT bucket, WRITETIME(version), WRITETIME(path), WRITETIME(ids)
                 FROM trips WHERE device_id = 'twice' AND bucket IN ?";
            let buckets = [CqlTimestamp((MIDNIGHT - DAY_MS).ms()), CqlTimestamp(MIDNIGHT.ms())];
            let found: Vec<(CqlTimestamp, i64, i64, i64)> =
                rows(&keyspace.session, select, (buckets.as_slice(),)).await;
            assert_eq!(found.len(), 2, "one row a day");
            written.push(found);
        }
        let at = row.version.get() + 1;
        assert!(written[0].iter().all(|&(_, a, b, c)| [a, b, c] == [at; 3]), "{written:?}");
        assert!(written.iter().all(|found| *found == written[0]), "{written:?}");
    });
}

#[test]
fn an_older_row_that_comes_late_stays_away() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let (store, zombie) = (keyspace.store(), keyspace.store());
    keyspace.runtime.block_on(async {
        let newer = trip("late", &[10, 12, 18, 22], 100);
        store.apply(std::slice::from_ref(&newer)).await.unwrap();
        for older in [trip("late", &[10, 12], 50), trip("late", &[18, 22], 98)] {
            zombie.apply(std::slice::from_ref(&older)).await.unwrap();
            assert_eq!(
                store.rows_of_day("late", Day(TODAY)).await.unwrap(),
                std::slice::from_ref(&newer)
            );
        }
    });
}

#[test]
fn a_row_that_would_be_lost_is_refused() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let store = keyspace.store();
    keyspace.runtime.block_on(async {
        let mut turned = trip("wrong", &[10, 12], 4);
        std::mem::swap(&mut turned.start_ms, &mut turned.end_ms);
        for row in [trip("wrong", &[10], 0), trip("wrong", &[10], -2), turned] {
            let refused = store.apply(&[trip("wrong", &[30], 8), row]).await;
            assert!(matches!(refused, Err(StoreError::Malformed(_))), "{refused:?}");
        }
        assert_eq!(store.rows_of_day("wrong", Day(TODAY)).await.unwrap(), []);
    });
}

#[test]
fn what_is_absent_is_no_tombstone() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let (store, session) = (keyspace.store(), &keyspace.session);
    let mut row = trip("bare", &[10, 12], 40);
    row.max_speed_mps = None;
    keyspace.runtime.block_on(async {
        store.apply(std::slice::from_ref(&row)).await.unwrap();
        assert_eq!(all(&store, "bare").await, std::slice::from_ref(&row));
        // At the same timestamp a tombstone would win over a value.
        let update = "UPDATE trips USING TIMESTAMP 41 SET jumps = 1, jump_s = 3,
             max_speed_mps = 2 WHERE device_id = 'bare' AND bucket = ? AND end_time = ?
             AND start_time = ?";
        let (end, start) = (CqlTimestamp(at(12).ms()), CqlTimestamp(at(10).ms()));
        session.query_unpaged(update, (CqlTimestamp(MIDNIGHT.ms()), end, start)).await.unwrap();
        store.apply(std::slice::from_ref(&row)).await.unwrap();
        (row.jumps, row.jump_s) = (Some(1), Some(3.0));
        row.max_speed_mps = Some(2.0);
        assert_eq!(all(&store, "bare").await, [row]);
    });
}

#[test]
fn a_forget_that_was_begun_is_done_again_with_its_days() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let (store, session) = (keyspace.store(), &keyspace.session);
    keyspace.runtime.block_on(async {
        let day = DAY_MS / MINUTE;
        let rows = [trip("gone", &[-2 * day], 2), trip("gone", &[-day], 4)];
        store.apply(&rows).await.unwrap();
        // An earlier executor recorded the first day and removed it from the index; its delete was
        // lost.
        let bucket = |day: i64| CqlTimestamp((TODAY + day) * DAY_MS);
        let note =
            "INSERT INTO forgets (device_id, version, before, days) VALUES ('gone', 30, ?, ?)
             USING TIMESTAMP 30";
        let noted = BTreeSet::from([bucket(-2)]);
        session.query_unpaged(note, (CqlTimestamp(at(0).ms()), noted)).await.unwrap();
        let unlist = "DELETE FROM days_of_device USING TIMESTAMP 30
             WHERE device_id = 'gone' AND bucket = ?";
        session.query_unpaged(unlist, (bucket(-2),)).await.unwrap();
        store.forget("gone", &Forget { version: Version(30), before_ms: at(0) }).await.unwrap();
        for day in [-2, -1] {
            assert_eq!(store.rows_of_day("gone", Day(TODAY + day)).await.unwrap(), [], "day {day}");
        }
        let select = "SELECT days FROM forgets WHERE device_id = 'gone'";
        let found: Vec<(BTreeSet<CqlTimestamp>,)> = self::rows(session, select, ()).await;
        assert_eq!(found, [(BTreeSet::from([bucket(-2), bucket(-1)]),)]);
        // The same worker adds cleared days to the index again.
        let newer = trip("gone", &[-day], 40);
        store.apply(std::slice::from_ref(&newer)).await.unwrap();
        assert_eq!(all(&store, "gone").await, [newer]);
        let devices = store.devices(DeviceScope::OfDay(Day(TODAY - 1)), None, 1000).await.unwrap();
        assert!(devices.contains(&"gone".to_owned()), "{devices:?}");
    });
}

#[test]
fn owners_remember_listed_days_apart() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    let (first, second) = (keyspace.store(), keyspace.store().owner());
    keyspace.runtime.block_on(async {
        let day = DAY_MS / MINUTE;
        second.apply(&[trip("moved", &[-day], 2)]).await.unwrap();
        first.apply(&[trip("moved", &[-day, 5 - day], 4)]).await.unwrap();
        first.forget("moved", &Forget { version: Version(10), before_ms: at(0) }).await.unwrap();
        assert_eq!(all(&first, "moved").await, []);
        // The partition moved to a worker that knows nothing.
        let newer = trip("moved", &[-day], 12);
        let third = second.owner();
        third.apply(std::slice::from_ref(&newer)).await.unwrap();
        assert_eq!(all(&third, "moved").await, [newer]);
    });
}

fn epoch(epoch: i32, topic: &str) -> Epoch {
    let rules = Rules { max_gap_ms: 60_000, ..Rules::default() };
    let start_offsets = [(0, 5), (1, 0)].into();
    let (topic, partitioner) = (topic.into(), Partitioner::Murmur2);
    let (base, topic_id) = (Version(1000), Some("cP6H8KMbQKSiZNYvyGNPFA".into()));
    let keeps_positions = true;
    Epoch {
        epoch,
        topic,
        partitions: 2,
        start_offsets,
        base,
        rules,
        partitioner,
        topic_id,
        keeps_positions,
    }
}

#[test]
fn of_two_who_add_an_epoch_one_succeeds() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = keyspace.store();
    keyspace.runtime.block_on(async {
        assert_eq!(store.epochs().await.unwrap(), []);
        let epochs = [epoch(1, "samples"), epoch(1, "other")];
        let (one, other) = tokio::join!(store.add_epoch(&epochs[0]), store.add_epoch(&epochs[1]));
        let added = [one.unwrap(), other.unwrap()];
        assert!(added[0] != added[1], "one of them: {added:?}");
        let winner = epochs[usize::from(added[1])].clone();
        assert_eq!(store.epochs().await.unwrap(), std::slice::from_ref(&winner));
        assert!(!store.add_epoch(&winner).await.unwrap(), "the same again is not added");
        let next = epoch(2, "samples");
        assert!(store.add_epoch(&next).await.unwrap());
        assert_eq!(store.epochs().await.unwrap(), [winner, next]);
    });
}

/// Runs the program on a store; returns its exit code, stdout and stderr.
fn tstar(url: &ScyllaUrl, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tstar"));
    let output = command.args(args).arg("--store").arg(url.to_string()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_store_is_made_by_a_command_and_read_by_others() {
    let Some(keyspace) = Keyspace::bare() else { return };
    let mut url = keyspace.url.clone();
    let connect = || keyspace.runtime.block_on(ScyllaStore::connect(&url, patient()));
    let missing = connect().unwrap_err();
    assert!(matches!(missing, StoreError::NoSchema { .. }), "{missing:?}");
    let error = missing.to_string();
    assert!(
        error.contains(
            "no table trips, device_days, days_of_device, epochs, forgets, control_keys, claims, \
             schemas"
        ),
        "{error}"
    );
    let command = format!("`tstar schema apply --store {url}`");
    assert!(error.contains(&command), "{error}");

    let (code, printed, said) = tstar(&url, &["schema", "apply"]);
    assert_eq!((code, printed.as_str()), (0, "ok\n"), "{said}");
    assert!(said.contains("replication factor 1"), "{said}");
    assert_eq!(tstar(&url, &["schema", "apply", "--create-keyspace"]).0, 0, "again");
    let store = connect().unwrap();
    let row = trip("truck-17", &[10, 12], 4);
    keyspace.runtime.block_on(store.apply(&[row, trip("z", &[-5, 5], 6)])).unwrap();
    let lookup = ["lookup", "truck-17", "2026-11-20T00:11:00Z", "--json"];
    let (code, printed, said) = tstar(&url, &lookup);
    assert_eq!(code, 0, "{said}");
    assert!(printed.contains("\"id\":\"truck-17~20261120T001000.000Z\""), "{printed}");
    let (code, _, said) = tstar(&url, &["lookup", "truck-17", "2026-11-20T00:13:00Z"]);
    assert_eq!(code, 1, "{said}");
    for (args, lines) in [
        (vec!["trips", "truck-17"], 1),
        (vec!["trips", "--day", "2026-11-19"], 1),
        (vec!["devices"], 2),
        (vec!["devices", "--day", "2026-11-20"], 2),
        (vec!["export"], 2),
        (vec!["trip", "truck-17~20261120T001000.000Z"], 1),
    ] {
        let (code, printed, said) = tstar(&url, &args);
        assert_eq!((code, printed.lines().count()), (0, lines), "{args:?}\n{printed}{said}");
    }
    assert_eq!(tstar(&url, &["devices", "--consistency", "all"]).0, 0);

    url.keyspace.push_str("_none");
    let (code, _, said) = tstar(&url, &["devices"]);
    assert_eq!(code, 78, "{said}");
    let command = format!("`tstar schema apply --create-keyspace --store {url}`");
    assert!(said.contains(&command), "{said}");
    assert_eq!(tstar(&url, &["schema", "apply"]).0, 78);
}

#[test]
fn a_datacenter_that_no_node_is_in_is_told_with_those_there_are() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let url = &keyspace.url;
    let find = "SELECT data_center FROM system.local";
    let found = keyspace.runtime.block_on(rows::<(String,)>(&keyspace.session, find, ()));
    let here = found[0].0.as_str();
    for args in [["devices"].as_slice(), &["schema", "apply"]] {
        let asked = |datacenter| [args, &["--datacenter", datacenter]].concat();
        let (code, _, said) = tstar(url, &asked(here));
        assert_eq!(code, 0, "{said}");
        let (code, printed, said) = tstar(url, &asked("nowhere"));
        assert_eq!((code, printed.as_str()), (78, ""), "{said}");
        let expected = format!("no node is in the datacenter `nowhere`; name one of `{here}`");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn whether_a_trip_is_open_follows_from_the_rules_of_the_newest_epoch() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = keyspace.store();
    let row = trip("truck-17", &[10, 12], 4);
    let is_open = || {
        // Long after the trip, but the rules have a long gap.
        let lookup = ["lookup", "truck-17", "2026-11-20T00:11:00Z", "--json", "--settle", "0s"];
        let (code, printed, said) = tstar(&keyspace.url, &lookup);
        assert_eq!(code, 0, "{said}");
        printed.contains("\"open\":true")
    };
    keyspace.runtime.block_on(store.apply(&[row])).unwrap();
    let mut long = epoch(1, "samples");
    long.rules.max_gap_ms = 100 * 366 * DAY_MS;
    assert!(keyspace.runtime.block_on(store.add_epoch(&long)).unwrap());
    assert!(is_open());
    assert!(keyspace.runtime.block_on(store.add_epoch(&epoch(2, "samples"))).unwrap());
    assert!(!is_open());
}

#[test]
fn a_server_that_does_not_answer_is_abandoned_after_the_timeout() {
    // A port without a listener, and one that accepts connections and stays silent.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for node in ["127.0.0.1:1".to_owned(), silent.local_addr().unwrap().to_string()] {
        let url = ScyllaUrl { nodes: vec![node], keyspace: "fleet".into() };
        let (line, count) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicUsize::new(0)));
        let on_waiting = {
            let (last, count) = (Arc::clone(&line), Arc::clone(&count));
            move |line: &str| {
                line.clone_into(&mut last.lock().unwrap());
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let options = ServerOptions {
            patience: Some(Duration::from_millis(700)),
            on_waiting: Arc::new(on_waiting),
            ..ServerOptions::default()
        };
        let error = block_on(ScyllaStore::connect(&url, options)).unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(&url.to_string()), "{error}");
        // An attempt may take the whole timeout; then there is no wait to report.
        assert!(count.load(Ordering::Relaxed) <= 1, "not at every attempt");
        let line = line.lock().unwrap();
        assert!(line.is_empty() || line.starts_with("waiting for the store: "), "{line}");
    }
}
