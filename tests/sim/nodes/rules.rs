//! The rules of Cassandra that the store leans on, each against the simulated nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use scylla::value::{CqlTimestamp, CqlValue, MaybeUnset};
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::store::scylla::cql::{Cql, Mode};
use tstar::internals::store::{Forget, TripStore};

use super::data::{Change, Component, Deletion, Mutation, Partition, Replica, Slice};
use super::statement::bind;
use super::{Connection, Nodes, PAIRS};
use crate::support::{Dice, block_on};

type Cells = Vec<MaybeUnset<Option<CqlValue>>>;

fn text(text: &str) -> MaybeUnset<Option<CqlValue>> {
    MaybeUnset::Set(Some(CqlValue::Text(text.to_owned())))
}

fn number(number: i64) -> MaybeUnset<Option<CqlValue>> {
    MaybeUnset::Set(Some(CqlValue::BigInt(number)))
}

fn int(number: i32) -> MaybeUnset<Option<CqlValue>> {
    MaybeUnset::Set(Some(CqlValue::Int(number)))
}

fn time(ms: i64) -> MaybeUnset<Option<CqlValue>> {
    MaybeUnset::Set(Some(CqlValue::Timestamp(CqlTimestamp(ms))))
}

const INSERT: &str = "INSERT INTO trips (device_id, bucket, end_time, start_time, driver, version)
    VALUES ('a', 0, ?, 0, ?, ?) USING TIMESTAMP ?";
const SPAN: &str = "DELETE FROM trips USING TIMESTAMP ?
    WHERE device_id = 'a' AND bucket = 0 AND end_time >= ? AND end_time <= ?";
const ROWS: &str = "SELECT end_time, driver FROM trips WHERE device_id = 'a' AND bucket = 0
    ORDER BY end_time ASC, start_time ASC";

/// An insert of the row that ends at a time.
fn insert(end: i64, driver: &str, at: i64) -> (&'static str, Cells) {
    (INSERT, vec![time(end), text(driver), number(at), number(at)])
}

fn delete((from, upto): (i64, i64), at: i64) -> (&'static str, Cells) {
    (SPAN, vec![number(at), time(from), time(upto)])
}

fn calm() -> Connection {
    let nodes = Arc::new(Mutex::new(Nodes::new(Dice::new(1), true)));
    Connection::live(&nodes, 0)
}

/// The ends and the drivers of the rows.
fn rows(connection: &Connection) -> Vec<(i64, Option<String>)> {
    let found = block_on(connection.query(ROWS, ())).unwrap();
    let row = |row: Vec<Option<CqlValue>>| {
        let end = row[0].as_ref().and_then(CqlValue::as_cql_timestamp).unwrap().0;
        (end, row[1].as_ref().and_then(CqlValue::as_text).cloned())
    };
    found.into_iter().map(row).collect()
}

fn ran(connection: &Connection, statements: &[(&str, Cells)]) -> Vec<(i64, Option<String>)> {
    for (text, values) in statements {
        block_on(connection.query(text, values)).unwrap();
    }
    rows(connection)
}

fn row(end: i64, driver: &str) -> (i64, Option<String>) {
    (end, Some(driver.to_owned()))
}

#[test]
fn the_later_cell_wins_and_the_greater_of_equal_timestamps() {
    let late_first = [insert(5, "late", 9), insert(5, "early", 8)];
    assert_eq!(ran(&calm(), &late_first), [row(5, "late")]);
    for order in [["ann", "bob"], ["bob", "ann"]] {
        let both = order.map(|driver| insert(5, driver, 7));
        assert_eq!(ran(&calm(), &both), [row(5, "bob")]);
    }
    let null = (INSERT, vec![time(5), MaybeUnset::Set(None), number(7), number(7)]);
    let unset = (INSERT, vec![time(5), MaybeUnset::Unset, number(9), number(9)]);
    for order in [[insert(5, "ann", 7), null.clone()], [null, insert(5, "ann", 7)]] {
        let connection = calm();
        assert_eq!(ran(&connection, &order), [(5, None)], "the tombstone of a cell wins");
        assert_eq!(
            ran(&connection, std::slice::from_ref(&unset)),
            [(5, None)],
            "unset writes nothing"
        );
    }
}

#[test]
fn a_deletion_wins_between_equal_timestamps_and_stays() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let all = [
            delete((10, 20), 7),
            insert(10, "equal", 7),
            insert(20, "later", 8),
            insert(21, "outside", 3),
        ];
        let found = ran(&calm(), &order.map(|nth| all[nth].clone()));
        assert_eq!(found, [row(20, "later"), row(21, "outside")], "{order:?}");
    }
}

#[test]
fn replicas_agree_whatever_the_order_of_arrival() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let mutations: Vec<Mutation> = (0..12).map(|_| random_mutation(&mut dice)).collect();
        let mut replicas = [Replica::default(), Replica::default()];
        for mutation in &mutations {
            replicas[0].apply(mutation);
        }
        for _ in 0..40 {
            replicas[1].apply(&mutations[dice.below(12)]);
        }
        for mutation in mutations.iter().rev() {
            replicas[1].apply(mutation);
        }
        let [one, other] = replicas.map(|replica| replica.partition(&mutations[0].place));
        assert_eq!((&one.rows, &one.statics), (&other.rows, &other.statics), "seed {seed}");
    }
}

fn random_mutation(dice: &mut Dice) -> Mutation {
    let (at, end) = (dice.between(1, 6), dice.between(1, 9));
    let (text, values) = if dice.percent(60) {
        insert(end, dice.one_of(&["ann", "bob", "cid"]), at)
    } else {
        delete((end, dice.between(end, 9)), at)
    };
    let plan = super::connection::prepared(text).unwrap();
    let bound = bind(&plan.bound, &values).unwrap();
    plan.mutation(&bound, 1).unwrap().0
}

#[test]
fn pages_follow_each_other_while_rows_come_and_go() {
    let connection = calm();
    let inserts: Vec<_> = (1..=9).map(|end| insert(end, "ann", 3)).collect();
    ran(&connection, &inserts);
    let all: Vec<_> = (1..=9).map(|end| (CqlTimestamp(end),)).collect();
    for descends in [false, true] {
        let order = if descends { "DESC" } else { "ASC" };
        let text = format!(
            "SELECT end_time FROM trips WHERE device_id = ? AND bucket = 0
             ORDER BY end_time {order}"
        );
        let select = connection.prepare_any(&text, Mode::Paged(2)).unwrap();
        let (mut found, mut from) = (Vec::new(), Some(scylla::response::PagingState::start()));
        while let Some(at) = from {
            let page: (Vec<(CqlTimestamp,)>, _) =
                block_on(connection.page(&select, &("a",), at)).unwrap();
            found.extend(page.0);
            from = page.1;
            // The row that a page ended with is deleted, and written again.
            if let Some((end,)) = found.last() {
                ran(&connection, &[delete((end.0, end.0), 4), insert(end.0, "ann", 5)]);
                ran(&connection, &[delete((end.0, end.0), 6)]);
            }
        }
        let mut want = all.clone();
        if descends {
            want.reverse();
        }
        assert_eq!(found, want);
        let again: Vec<_> = (1..=9).map(|end| insert(end, "ann", 9)).collect();
        ran(&connection, &again);
    }
}

#[test]
fn a_limit_counts_rows_of_all_pages() {
    let connection = calm();
    let list = "INSERT INTO days_of_device (device_id, bucket) VALUES ('a', ?) USING TIMESTAMP ?";
    for bucket in 1..=9 {
        block_on(connection.query(list, (CqlTimestamp(bucket), 5_i64))).unwrap();
    }
    let text = "SELECT bucket FROM days_of_device WHERE device_id = 'a' AND bucket >= ?
        AND bucket <= ? ORDER BY bucket DESC LIMIT ?";
    let select = block_on(connection.prepare(text, Mode::Listed)).unwrap();
    let (mut found, mut from) = (Vec::new(), Some(scylla::response::PagingState::start()));
    while let Some(at) = from {
        let values = (CqlTimestamp(2), CqlTimestamp(8), 5_i32);
        let page: (Vec<(CqlTimestamp,)>, _) =
            block_on(connection.page(&select, &values, at)).unwrap();
        found.extend(page.0.into_iter().map(|(bucket,)| bucket.0));
        from = page.1;
    }
    assert_eq!(found, [8, 7, 6, 5, 4]);
}

const FORGET: &str =
    "INSERT INTO forgets (device_id, version, before) VALUES ('a', ?, ?) USING TIMESTAMP ?";
const MOVE: &str = "UPDATE forgets USING TIMESTAMP ? SET claims[?] = ? WHERE device_id = 'a'";

#[test]
fn static_columns_make_a_row_of_their_own_and_are_in_every_row() {
    let connection = calm();
    let moved = |connection: &Connection| {
        let select = "SELECT version, claims FROM forgets WHERE device_id = 'a'";
        block_on(connection.query(select, ())).unwrap()
    };
    assert_eq!(moved(&connection), [[None, None]; 0]);
    for (at, partition) in [(5, 3), (4, 8)] {
        let values: Cells = vec![number(at), int(1), int(partition)];
        block_on(connection.query(MOVE, &values)).unwrap();
    }
    let claims = Some(CqlValue::Map(vec![(CqlValue::Int(1), CqlValue::Int(3))]));
    assert_eq!(moved(&connection), [[None, claims.clone()]]);
    for version in [10, 12] {
        let values: Cells = vec![number(version), time(version), number(version)];
        block_on(connection.query(FORGET, &values)).unwrap();
    }
    let version = |number| Some(CqlValue::BigInt(number));
    assert_eq!(moved(&connection), [[version(10), claims.clone()], [version(12), claims]]);
    let newest = "SELECT max(version), max(before) FROM forgets WHERE device_id = ?";
    let found = block_on(connection.query(newest, ("a",))).unwrap();
    assert_eq!(found, [[version(12), Some(CqlValue::Timestamp(CqlTimestamp(12)))]]);
    assert_eq!(block_on(connection.query(newest, ("b",))).unwrap(), [[None, None]]);
}

#[test]
fn conditional_writes_have_one_order() {
    let connection = calm();
    let claim = "INSERT INTO claims (device_id, epoch, partition) VALUES (?, ?, ?) IF NOT EXISTS";
    let claim = block_on(connection.prepare(claim, Mode::Conditional)).unwrap();
    let decided = |partition: i32| {
        let values = ("a", 1_i32, partition);
        let answer = block_on(connection.execute_conditional(&claim, &values)).unwrap();
        assert_eq!(answer[0].0, "[applied]");
        let standing = answer.iter().find(|(name, _)| name == "partition");
        let standing = standing.and_then(|(_, value)| value.as_ref()?.as_int());
        (answer[0].1.as_ref().unwrap().as_boolean().unwrap(), standing)
    };
    assert_eq!(decided(7), (true, None));
    assert_eq!(decided(3), (false, Some(7)));
    let delete = "DELETE FROM claims WHERE device_id = ? AND epoch = ? IF EXISTS";
    let delete = block_on(connection.prepare(delete, Mode::Conditional)).unwrap();
    for applied in [true, false] {
        let answer = block_on(connection.execute_conditional(&delete, &("a", 1_i32))).unwrap();
        assert_eq!(answer[0].1, Some(CqlValue::Boolean(applied)));
    }
    assert_eq!(decided(3), (true, None), "later than the deletion");
    let found = "SELECT partition FROM claims WHERE device_id = 'a' AND epoch = 1";
    let found = block_on(connection.query(found, ())).unwrap();
    assert_eq!(found, [[Some(CqlValue::Int(3))]]);
}

#[test]
fn a_quorum_sees_what_a_quorum_has_and_a_repair_sends_what_was_read() {
    let connection = calm();
    let plan = super::connection::prepared(INSERT).unwrap();
    let bound = bind(&plan.bound, &insert(5, "ann", 9).1).unwrap();
    let mutation = plan.mutation(&bound, 1).unwrap().0;
    connection.nodes().replicas[0].apply(&mutation);
    let of_pair = |pair| Connection::at_once(connection.shared(), 0, Some(pair));
    let seen = PAIRS.map(|pair| rows(&of_pair(pair)).len());
    assert_eq!(seen, [1, 1, 0]);
    let slice = super::data::Slice::default();
    let partition = connection.nodes().replicas[0].partition(&mutation.place);
    let changes = partition.repair(&slice, &[]);
    let repair = Mutation { place: mutation.place, changes };
    connection.nodes().replicas[1].apply(&repair);
    assert_eq!(
        rows(&of_pair([1, 2])),
        [(5, None)],
        "the row without the columns that were not read"
    );
}

#[test]
fn repairs_after_many_reads_of_a_partition_keep_few_deletions() {
    let number = Component::Number;
    let upto = |end| Slice { upto: Some((number(end), false)), ..Slice::default() };
    let mut replicas = <[Partition; 3]>::default();
    for (replica, at) in replicas.iter_mut().zip(1..) {
        replica.apply(&Change::Deletion(Deletion { slices: vec![upto(100)], at }));
    }
    for end in 0..100 {
        for [one, other] in PAIRS {
            let read = replicas[one].merged(&replicas[other]);
            for change in read.repair(&upto(end), &[]) {
                replicas[one].apply(&change);
                replicas[other].apply(&change);
            }
        }
    }
    let counts = replicas.map(|replica| replica.deletions.len());
    assert_eq!(counts, [101, 101, 1], "its own, and a part of a later one for each read");
}

/// A forget was being written when a keyspace was lost, and its snapshot has it on one node. Later
/// reads may find it, so that it counts.
#[test]
fn a_forget_that_one_replica_has_is_among_those_since_a_backup() {
    let connection = calm();
    let store = block_on(super::store(connection.clone()));
    let forget = Forget { version: Version(8), before_ms: DeviceTime(5) };
    block_on(store.forget("a", &forget)).unwrap();
    let held = connection.nodes().replicas[0].clone();
    for holder in 0..3 {
        let only = |replica| if replica == holder { held.clone() } else { Replica::default() };
        connection.nodes().replicas = [0, 1, 2].map(only);
        for _ in 0..10 {
            let erased = block_on(store.erased_since(Version(8))).unwrap();
            assert_eq!(erased, BTreeMap::from([("a".to_owned(), Version(8))]));
            assert_eq!(block_on(store.erased_since(Version(9))).unwrap(), BTreeMap::new());
        }
    }
}

#[test]
fn what_a_server_refuses_is_refused() {
    let connection = calm();
    let refused = |text: &str, values: Cells| block_on(connection.query(text, values)).unwrap_err();
    for text in [
        "SELECT nothing FROM trips WHERE device_id = 'a' AND bucket = 0",
        "SELECT driver FROM nowhere",
        "SELECT driver FROM trips WHERE device_id = 'a'",
        "SELECT driver FROM trips WHERE device_id = 'a' AND bucket = 0 AND start_time = 1",
        "SELECT driver FROM trips WHERE device_id = 'a' AND bucket = 0 ORDER BY start_time ASC",
        "SELECT driver FROM trips WHERE device_id = 'a' AND bucket = 0
             ORDER BY end_time ASC, start_time DESC",
        "INSERT INTO trips (device_id, bucket, end_time) VALUES ('a', 0, 1)",
        "INSERT INTO claims (device_id, epoch) VALUES ('a', 1) IF NOT EXISTS USING TIMESTAMP 5",
        "DELETE FROM trips WHERE device_id = 'a'",
        "DELETE FROM claims WHERE device_id = 'a' IF EXISTS",
        "SELECT driver FROM trips WHERE device_id = 'a' AND bucket = 0 LIMIT",
    ] {
        refused(text, Cells::new());
    }
    refused(INSERT, vec![MaybeUnset::Set(None), text("ann"), number(7), number(7)]);
    refused(INSERT, vec![MaybeUnset::Unset, text("ann"), number(7), number(7)]);
    refused(INSERT, vec![time(5), text("ann"), number(7), MaybeUnset::Set(None)]);
    refused(INSERT, vec![time(5), text("ann"), number(7)]);
    // An unset timestamp is the server's clock: no later version reaches it.
    let found = ran(
        &connection,
        &[
            (INSERT, vec![time(5), text("now"), number(7), MaybeUnset::Unset]),
            insert(5, "ann", 1_700_000_000_000_000),
        ],
    );
    assert_eq!(found, [row(5, "now")]);
}
