//! Faults in a file, made by SQL, one at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::ops::verify::DifferenceKind;
use tstar::internals::store::raw::COLUMNS;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::timeline::{DAY_MS, day_of};

use super::{ImportedStore, below, compare_all, copy, signed, writer};

/// Number of faults.
const FAULTS: usize = 800;

/// A fault of a row, or of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Deleted,
    Cell(usize),
    Stale,
    Shifted,
    Extra,
    OtherDay,
    Unlisted(&'static str),
}

impl Fault {
    pub fn nth(nth: usize) -> Self {
        let others = [
            Self::Deleted,
            Self::Stale,
            Self::Shifted,
            Self::Extra,
            Self::OtherDay,
            Self::Unlisted("device_days"),
            Self::Unlisted("days_of_device"),
        ];
        let at = nth % (COLUMNS.len() + others.len());
        others.get(at).copied().unwrap_or_else(|| Self::Cell(at - others.len()))
    }

    pub fn name(self) -> String {
        match self {
            Self::Cell(at) => format!("cell {}", COLUMNS[at]),
            Self::Unlisted(list) => format!("unlisted {list}"),
            other => format!("{other:?}"),
        }
    }

    /// The expected difference, where the trip has copies or has none.
    pub fn kind(self, has_copies: bool) -> DifferenceKind {
        match self {
            Self::Deleted | Self::Cell(_) if has_copies => DifferenceKind::Copy,
            Self::Deleted => DifferenceKind::Missing,
            Self::Cell(_) => DifferenceKind::Different,
            Self::Stale | Self::Shifted => DifferenceKind::Overlapping,
            Self::Extra | Self::OtherDay => DifferenceKind::Extra,
            Self::Unlisted(_) => DifferenceKind::Unlisted,
        }
    }
}

/// A row: its table position and the values of all columns.
struct Row {
    id: i64,
    values: Vec<Value>,
}

const DEVICE: usize = 0;
const BUCKET: usize = 1;
const END: usize = 2;
const START: usize = 3;

impl Row {
    fn random(connection: &Connection, random: &mut ChaCha8Rng) -> Self {
        let count = "SELECT count(*) FROM trips";
        let count: i64 = connection.query_row(count, [], |row| row.get(0)).unwrap();
        let at = signed(random, count.unsigned_abs());
        let select = "SELECT rowid, * FROM trips ORDER BY rowid LIMIT 1 OFFSET ?1";
        let row = |row: &rusqlite::Row<'_>| {
            let values =
                (1..=START + 1 + COLUMNS.len()).map(|at| row.get(at)).collect::<Result<_, _>>()?;
            Ok(Self { id: row.get(0)?, values })
        };
        connection.query_row(select, [at], row).unwrap()
    }

    fn int(&self, at: usize) -> i64 {
        let Value::Integer(value) = self.values[at] else { panic!("{:?}", self.values[at]) };
        value
    }

    fn span(&self) -> (DeviceTime, DeviceTime) {
        (DeviceTime(self.int(START)), DeviceTime(self.int(END)))
    }

    fn has_copies(&self) -> bool {
        self.int(START).div_euclid(DAY_MS) != self.int(END).div_euclid(DAY_MS)
    }

    fn set(&mut self, at: usize, value: i64) {
        self.values[at] = Value::Integer(value);
    }

    fn insert(&self, connection: &Connection) {
        let marks = vec!["?"; self.values.len()].join(", ");
        let insert = format!("INSERT INTO trips VALUES ({marks})");
        connection.execute(&insert, params_from_iter(&self.values)).unwrap();
    }
}

/// Another value of the column's type.
fn other(name: &str, value: &Value, random: &mut ChaCha8Rng) -> Value {
    match value {
        Value::Null if name == "driver" => Value::Text("unknown".into()),
        Value::Null if matches!(name, "driver_time" | "jumps" | "moving_ms" | "idle_ms") => {
            Value::Integer(signed(random, 1000))
        }
        Value::Null => Value::Real(3.5),
        _ if matches!(
            name,
            "driver" | "driver_time" | "max_speed_mps" | "moving_ms" | "idle_ms"
        ) && below(random, 3) == 0 =>
        {
            Value::Null
        }
        Value::Integer(value) => Value::Integer(value + 1 + signed(random, 1000)),
        Value::Real(value) => Value::Real(value + [1e-7, 1.0][below(random, 2) as usize]),
        Value::Text(_) if name == "ids" => {
            Value::Text(format!("{{\"{}\":[{}]}}", random.next_u32(), random.next_u32()))
        }
        Value::Text(text) => Value::Text(format!("{text}x")),
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            let at = below(random, bytes.len() as u64) as usize;
            bytes[at] ^= 1 << below(random, 8);
            Value::Blob(bytes)
        }
    }
}

/// The fault, and the expected differences.
struct Done {
    kind: DifferenceKind,
    span: Option<(DeviceTime, DeviceTime)>,
    device: String,
}

/// Applies a fault to a random row; `None` where the fault does not apply to that row.
fn spoil(store: &Path, fault: Fault, random: &mut ChaCha8Rng) -> Option<Done> {
    let connection = Connection::open(store).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let mut row = Row::random(&connection, random);
    let Value::Text(device) = row.values[DEVICE].clone() else { panic!("no device") };
    let (start, end) = row.span();
    let kind = fault.kind(row.has_copies());
    let within = |random: &mut ChaCha8Rng| {
        let room = u64::try_from(end - start).unwrap();
        (room > 0).then(|| 1 + signed(random, room))
    };
    match fault {
        Fault::Deleted => {
            connection.execute("DELETE FROM trips WHERE rowid = ?1", [row.id]).unwrap();
        }
        Fault::Cell(at) => {
            let value = other(COLUMNS[at], &row.values[4 + at], random);
            if value == row.values[4 + at] {
                return None;
            }
            let update = format!("UPDATE trips SET {} = ?1 WHERE rowid = ?2", COLUMNS[at]);
            connection.execute(&update, (value, row.id)).unwrap();
        }
        Fault::Stale => {
            row.set(END, end.ms() - within(random)?);
            row.set(4 + 3, (row.int(4 + 3) - 2).max(0));
            row.insert(&connection);
        }
        Fault::Shifted => {
            let by = within(random)?;
            row.set(START, start.ms() + by);
            row.set(END, end.ms() + by);
            row.insert(&connection);
        }
        Fault::Extra => {
            let last = "SELECT max(end_time) FROM trips WHERE device_id = ?1";
            let last: i64 = connection.query_row(last, [&device], |row| row.get(0)).unwrap();
            let start = last + 1 + signed(random, 86_400_000);
            row.set(START, start);
            row.set(END, start + 1);
            row.set(BUCKET, start.div_euclid(DAY_MS) * DAY_MS);
            row.insert(&connection);
        }
        Fault::OtherDay => {
            let days = day_of(end).get() + 1 + signed(random, 400);
            row.set(BUCKET, days * DAY_MS);
            row.insert(&connection);
        }
        Fault::Unlisted(list) => {
            let delete = format!("DELETE FROM {list} WHERE device_id = ?1 AND bucket = ?2");
            let deleted = connection.execute(&delete, (&device, row.int(BUCKET))).unwrap();
            assert_eq!(deleted, 1);
            return Some(Done { kind, span: None, device });
        }
    }
    Some(Done { kind, span: Some(row.span()), device })
}

/// Every row of the compared tables.
pub fn dump(store: &Path) -> Vec<String> {
    let connection = Connection::open(store).unwrap();
    let mut all = Vec::new();
    for table in ["trips", "device_days", "days_of_device", "forgets", "log"] {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        // Which group reads the log is a matter of `run` alone.
        let columns = (0..statement.column_count())
            .filter(|&at| statement.column_name(at).unwrap() != "consumer_group")
            .collect::<Vec<_>>();
        let rows = statement.query_map([], |row| {
            let values = columns.iter().map(|&at| row.get::<_, Value>(at));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            Ok(format!("{table} {values:?}"))
        });
        all.extend(rows.unwrap().map(Result::unwrap));
    }
    all.sort_unstable();
    all
}

#[test]
fn each_fault_is_found_as_what_it_is_and_repaired() {
    let mut random = ChaCha8Rng::seed_from_u64(20_261_123);
    let made = ImportedStore::new(&mut random, 12, 8);
    let (clean, spoiled) = (dump(&made.store), made.folder.path("t.db"));
    let reference = made.reference();
    let mut table: BTreeMap<(String, &str), u32> = BTreeMap::new();
    let (mut done, mut repaired, mut unchanged) = (0, 0, 0);
    for nth in 0.. {
        if done == FAULTS {
            break;
        }
        copy(&made.store, &spoiled);
        let fault = Fault::nth(nth);
        let Some(expected) = spoil(&spoiled, fault, &mut random) else {
            unchanged += 1;
            continue;
        };
        let found = Arc::new(SqliteStore::open_reader(&spoiled).unwrap());
        let (compared, seen) = compare_all(&reference, &found, false);
        drop(found);
        let [(seen, true)] = seen.as_slice() else { panic!("{fault:?}: {seen:?}") };
        assert_eq!((seen.kind, seen.span_ms), (expected.kind, expected.span), "{fault:?}");
        assert_eq!((&seen.device_id, compared.count_left()), (&expected.device, 1));
        if let Fault::Cell(at) = fault {
            assert_eq!(seen.columns, [COLUMNS[at]]);
        }
        *table.entry((fault.name(), seen.kind.name())).or_default() += 1;
        done += 1;
        if nth % 3 == 0 {
            let store = Arc::new(writer(&spoiled));
            let (compared, _) = compare_all(&reference, &store, true);
            assert_eq!((compared.count(), compared.count_left()), (1, 0), "{fault:?}");
            assert_eq!(compare_all(&reference, &store, true).0.count(), 0, "{fault:?}");
            drop(store);
            assert!(dump(&spoiled) == clean, "{fault:?} is not repaired to the byte");
            repaired += 1;
        }
    }
    println!("verify, file: {done} faults found, {repaired} repaired; {unchanged} changed nothing");
    for ((fault, kind), count) in table {
        println!("  {fault:<24} {kind:<12} {count}");
    }
}

#[test]
fn the_command_reports_and_repairs_each_kind() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let made = ImportedStore::new(&mut random, 6, 6);
    let (folder, spoiled) = (&made.folder, made.folder.path("t.db"));
    let exported = folder.text("export --path --store sqlite:clean.db");
    let verify = format!("verify {} --store sqlite:t.db", made.names());
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for nth in 0.. {
        if kinds.len() == 6 && nth >= 26 {
            break;
        }
        assert!(nth < 500, "{kinds:?}");
        copy(&made.store, &spoiled);
        let Some(done) = spoil(&spoiled, Fault::nth(nth), &mut random) else { continue };
        let count = kinds.entry(done.kind.name()).or_default();
        *count += 1;
        if *count > 2 {
            continue;
        }
        let before = dump(&spoiled);
        let ran = folder.run(&format!("{verify} --json"));
        let report = ran.ends(1).says(&["1 differences; --repair fixes"]).json();
        assert_eq!(report["differences"], serde_json::json!({ done.kind.name(): 1 }));
        assert_eq!(report["examples"][0]["kind"], done.kind.name());
        assert_eq!(report["examples"][0]["device_id"], done.device);
        assert!(dump(&spoiled) == before, "a comparison changed the store");
        let one = folder.run(&format!("{verify} --device {} --json", done.device)).ends(1).json();
        assert_eq!(one["differences"], report["differences"]);
        let text = folder.run(&format!("{verify} --format table")).ends(1).text();
        assert!(text.contains(&format!("differences: {} 1", done.kind.name())), "{text}");
        let ran = folder.run(&format!("{verify} --json --repair")).ends(0);
        let report = ran.says(&["1 differences were repaired"]).json();
        assert_eq!(
            (&report["left"], &report["examples"][0]["repaired"]),
            (&serde_json::json!({}), &true.into())
        );
        let text = folder.run(&format!("{verify} --format table")).ends(0).text();
        assert!(text.contains("nothing differs"), "{text}");
        assert!(folder.text("export --path --store sqlite:t.db") == exported, "{nth}");
        assert!(dump(&spoiled) == dump(&made.store));
    }
    println!("verify, file, by the command: {kinds:?}");
}
