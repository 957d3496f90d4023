//! The same random statements on the simulated nodes and on a real server give the same rows.

use std::sync::{Arc, Mutex};

use scylla::statement::Statement;
use scylla::value::{CqlTimestamp, CqlValue, MaybeUnset, Row};

use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::{Dice, block_on};
use tstar_sim::nodes::{Connection, Nodes};

type Values = Vec<MaybeUnset<Option<CqlValue>>>;

const WRITES: [(&str, &str); 11] = [
    (
        "INSERT INTO trips (device_id, bucket, end_time, start_time, driver, version, jumps)
         VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
        "dtttxvpw",
    ),
    (
        "DELETE FROM trips USING TIMESTAMP ? WHERE device_id = ? AND bucket = ?
         AND end_time >= ? AND end_time <= ?",
        "wdttt",
    ),
    (
        "DELETE FROM trips USING TIMESTAMP ? WHERE device_id = ? AND bucket = ? AND end_time < ?",
        "wdtt",
    ),
    (
        "DELETE FROM trips USING TIMESTAMP ? WHERE device_id = ? AND bucket = ?
         AND end_time = ? AND start_time = ?",
        "wdttt",
    ),
    ("INSERT INTO forgets (device_id, version, before) VALUES (?, ?, ?) USING TIMESTAMP ?", "dwtw"),
    ("INSERT INTO forgets (device_id, version) VALUES (?, ?) USING TIMESTAMP ?", "dww"),
    ("UPDATE forgets USING TIMESTAMP ? SET claims[?] = ? WHERE device_id = ?", "wiid"),
    ("INSERT INTO days_of_device (device_id, bucket) VALUES (?, ?) USING TIMESTAMP ?", "dtw"),
    ("DELETE FROM days_of_device USING TIMESTAMP ? WHERE device_id = ? AND bucket = ?", "wdt"),
    ("INSERT INTO claims (device_id, epoch, partition) VALUES (?, ?, ?) IF NOT EXISTS", "dii"),
    ("DELETE FROM claims WHERE device_id = ? AND epoch = ? IF EXISTS", "di"),
];

const READS: [(&str, &str); 12] = [
    (
        "SELECT device_id, bucket, end_time, start_time, driver, version, jumps FROM trips
         WHERE device_id = ? AND bucket = ? AND end_time >= ?
         ORDER BY end_time ASC, start_time ASC",
        "dtt",
    ),
    (
        "SELECT device_id, end_time, start_time, driver, version FROM trips
         WHERE device_id = ? AND bucket = ? AND end_time < ?
         ORDER BY end_time DESC, start_time DESC",
        "dtt",
    ),
    ("SELECT end_time, start_time, driver FROM trips WHERE device_id = ? AND bucket = ?", "dt"),
    (
        "SELECT bucket FROM days_of_device WHERE device_id = ? AND bucket >= ? AND bucket <= ?
         ORDER BY bucket ASC LIMIT ?",
        "dttl",
    ),
    (
        "SELECT bucket FROM days_of_device WHERE device_id = ? AND bucket >= ? AND bucket <= ?
         ORDER BY bucket DESC LIMIT ?",
        "dttl",
    ),
    ("SELECT version, before FROM forgets WHERE device_id = ? ORDER BY version ASC", "d"),
    ("SELECT max(version), max(before), count(before) FROM forgets WHERE device_id = ?", "d"),
    ("SELECT before FROM forgets WHERE device_id = ? AND version = ?", "dw"),
    ("SELECT claims FROM forgets WHERE device_id = ? LIMIT 1", "d"),
    ("SELECT version, claims FROM forgets WHERE device_id = ?", "d"),
    ("SELECT partition FROM claims WHERE device_id = ? AND epoch = ?", "di"),
    ("SELECT epoch, partition FROM claims WHERE device_id = ? ORDER BY epoch ASC", "d"),
];

/// Random values of the kinds that the letters name: device, time, text, version, jumps, write
/// timestamp, int and limit.
fn values(kinds: &str, seed: u64, dice: &mut Dice) -> Values {
    let value = |kind: char, dice: &mut Dice| match kind {
        'd' => CqlValue::Text(format!("{seed}-{}", dice.below(2))),
        't' => CqlValue::Timestamp(CqlTimestamp(dice.between(0, 4))),
        'x' => CqlValue::Text(dice.one_of(&["", "ann", "bob"]).to_owned()),
        'v' | 'w' => CqlValue::BigInt(dice.between(1, 6)),
        'l' => CqlValue::Int(dice.between(1, 4) as i32),
        _ => CqlValue::Int(dice.between(-1, 2) as i32),
    };
    let may_lack = |kind| matches!(kind, 'x' | 'v' | 'p');
    let mut made = Values::new();
    for kind in kinds.chars() {
        made.push(match dice.below(5) {
            0 if may_lack(kind) => MaybeUnset::Set(None),
            1 if may_lack(kind) => MaybeUnset::Unset,
            _ => MaybeUnset::Set(Some(value(kind, dice))),
        });
    }
    made
}

/// The rows of a real server; for a conditional statement whether it was applied, and the
/// existing row.
async fn real(keyspace: &Keyspace, text: &str, values: &Values) -> Vec<Vec<Option<CqlValue>>> {
    let answer = keyspace.session.query_unpaged(Statement::new(text), values).await;
    let answer = answer.unwrap_or_else(|error| panic!("{text} {values:?}: {error}"));
    if !answer.is_rows() {
        return Vec::new();
    }
    let rows = answer.into_rows_result().unwrap();
    let rows = rows.rows::<Row>().unwrap().map(|row| row.unwrap().columns);
    rows.collect()
}

#[test]
fn random_statements_give_the_rows_of_a_real_server() {
    let Some(keyspace) = Keyspace::shared(ClusteringOrder::Desc) else { return };
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let nodes = Arc::new(Mutex::new(Nodes::new(Dice::new(seed), true)));
        let connection = Connection::live(&nodes, 0);
        let mut compared = 0;
        for step in 0..150 {
            let (text, kinds) = dice.one_of(&WRITES);
            let bound = values(kinds, seed, &mut dice);
            keyspace.runtime.block_on(real(&keyspace, text, &bound));
            block_on(connection.query(text, &bound)).unwrap();
            for _ in 0..3 {
                let (text, kinds) = dice.one_of(&READS);
                let bound = values(kinds, seed, &mut dice);
                let want = keyspace.runtime.block_on(real(&keyspace, text, &bound));
                let found = block_on(connection.query(text, &bound)).unwrap();
                assert_eq!(found, want, "seed {seed}, step {step}: {text} {bound:?}");
                compared += usize::from(!want.is_empty());
            }
        }
        assert!(compared > 200, "seed {seed}: only {compared} reads found rows");
    }
}
