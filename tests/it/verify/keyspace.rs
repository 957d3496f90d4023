//! Faults in a keyspace, made by CQL, one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::ops::verify::DifferenceKind;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::raw::COLUMNS;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{AnyStore, DeviceScope, Kinds, Order, TripRow, TripStore};
use tstar::internals::timeline::{DAY_MS, day_of};

use super::file::Fault;
use super::{CompareResult, ImportedStore, below, compare_with, signed};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::block_on;

const FAULTS: usize = 200;

/// Versions begin here: 0 is not a write timestamp.
const BASE: i64 = 1_000_000;

/// Timestamps of later writes begin here.
const LATER: i64 = 2_000_000_000;

/// A time that does not fit into a CQL int.
const LATER_MS: i64 = 1_800_000_000_000;

const KEY: [&str; 4] = ["device_id", "bucket", "end_time", "start_time"];

/// Every trip of a store of files, as those of a log with a base.
fn rows(store: &SqliteStore) -> Vec<TripRow> {
    let mut all = Vec::new();
    for device in block_on(store.devices(DeviceScope::All, None, 1000)).unwrap() {
        let rows =
            store.range(&device, Kinds::All, DeviceTime::MIN, DeviceTime::MAX, Order::Asc, 10_000);
        all.extend(block_on(rows).unwrap());
    }
    for row in &mut all {
        row.version += BASE;
        row.ids.values_mut().flatten().for_each(|version| *version += BASE);
    }
    all
}

/// A keyspace and its reference store.
struct Site {
    keyspace: Arc<Keyspace>,
    store: AnyStore,
    reference: Arc<SqliteStore>,
    /// Rows as CQL's JSON, times as ms.
    rows: Vec<Map<String, Value>>,
    /// The same as text, with every digit.
    texts: BTreeMap<String, String>,
    clock: i64,
    _folder: TempDir,
}

impl Site {
    fn new(random: &mut ChaCha8Rng, devices: u64, trips: u64) -> Option<Self> {
        let keyspace = Arc::new(Keyspace::new(ClusteringOrder::Desc)?);
        let rows = rows(&ImportedStore::new(random, devices, trips).reference());
        let folder = tempfile::tempdir().unwrap();
        let reference = SqliteStore::scratch(folder.path(), &Rules::default(), true).unwrap();
        let reference = Arc::new(reference);
        block_on(reference.apply(&rows)).unwrap();
        let store = AnyStore::from(keyspace.store());
        keyspace.runtime.block_on(store.apply(&rows)).unwrap();
        let (clock, rows, texts) = (LATER, Vec::new(), BTreeMap::new());
        let mut site = Self { keyspace, store, reference, rows, texts, clock, _folder: folder };
        (site.rows, site.texts) = (site.everything(), site.texts());
        Some(site)
    }

    fn every_text(&self) -> Vec<String> {
        let select = "SELECT JSON * FROM trips";
        let answer = self.keyspace.session.query_unpaged(select, ());
        let answer = self.keyspace.runtime.block_on(answer).unwrap().into_rows_result().unwrap();
        answer.rows::<(String,)>().unwrap().map(|it| it.unwrap().0).collect()
    }

    fn texts(&self) -> BTreeMap<String, String> {
        self.every_text().into_iter().map(|text| (key(&parsed(&text)), text)).collect()
    }

    fn everything(&self) -> Vec<Map<String, Value>> {
        let mut rows: Vec<_> = self.every_text().iter().map(|text| parsed(text)).collect();
        rows.sort_by_key(|row| serde_json::to_string(row).unwrap());
        rows
    }

    fn compare(&self, repair: bool) -> CompareResult {
        let found = compare_with(&self.reference, &self.store, repair);
        self.keyspace.runtime.block_on(found)
    }

    /// A timestamp later than all before.
    fn tick(&mut self) -> i64 {
        self.clock += 1;
        self.clock
    }

    fn insert(&self, row: &Map<String, Value>, at: i64) {
        self.insert_text(&serde_json::to_string(row).unwrap(), at);
    }

    fn insert_text(&self, text: &str, at: i64) {
        let text = text.replace('\'', "''");
        let insert = format!("INSERT INTO trips JSON '{text}' DEFAULT UNSET USING TIMESTAMP {at}");
        self.keyspace.run(&insert);
    }

    fn delete(&self, row: &Map<String, Value>, at: i64) {
        let delete = format!("DELETE FROM trips USING TIMESTAMP {at} WHERE {}", key(row));
        self.keyspace.run(&delete);
    }

    /// A random row.
    fn row(&self, random: &mut ChaCha8Rng) -> Map<String, Value> {
        self.rows[below(random, self.rows.len() as u64) as usize].clone()
    }
}

/// A row from CQL's JSON, with times as ms.
fn parsed(text: &str) -> Map<String, Value> {
    let mut row: Map<String, Value> = serde_json::from_str(text).unwrap();
    for name in ["bucket", "end_time", "start_time", "t_star", "driver_time"] {
        if let Some(text) = row[name].as_str() {
            let ms = tstar::internals::model::time::parse_time(&text.replace(' ', "T")).unwrap();
            row[name] = ms.into();
        }
    }
    row
}

/// The key of a row as a condition.
fn key(row: &Map<String, Value>) -> String {
    let key = KEY.map(|name| match &row[name] {
        Value::String(text) => format!("{name} = '{text}'"),
        value => format!("{name} = {value}"),
    });
    key.join(" AND ")
}

fn int(row: &Map<String, Value>, name: &str) -> i64 {
    row[name].as_i64().unwrap()
}

fn span(row: &Map<String, Value>) -> (DeviceTime, DeviceTime) {
    (DeviceTime(int(row, "start_time")), DeviceTime(int(row, "end_time")))
}

fn has_copies(row: &Map<String, Value>) -> bool {
    let (start, end) = span(row);
    day_of(start) != day_of(end)
}

/// Another value of a column.
fn other(name: &str, value: &Value, random: &mut ChaCha8Rng) -> Value {
    match (name, value) {
        ("ids", _) => {
            json!({ random.next_u32().to_string(): [random.next_u32()] })
        }
        ("path", Value::String(hex)) => {
            let mut hex = hex.clone();
            let last = if hex.ends_with('0') { "1" } else { "0" };
            hex.replace_range(hex.len() - 1.., last);
            hex.into()
        }
        ("driver", Value::Null) => "unknown".into(),
        ("driver_time", Value::Null) => LATER_MS.into(),
        ("max_speed_mps" | "jumps" | "jump_s" | "moving_ms" | "idle_ms", Value::Null) => 5.into(),
        ("driver" | "driver_time" | "max_speed_mps" | "moving_ms" | "idle_ms", _)
            if below(random, 3) == 0 =>
        {
            Value::Null
        }
        (_, Value::String(text)) => format!("{text}x").into(),
        (_, Value::Number(number)) if number.is_i64() => {
            (number.as_i64().unwrap() + 1 + signed(random, 1000)).into()
        }
        (_, value) => json!(value.as_f64().unwrap() + 0.5),
    }
}

/// A fault of a file, or one of a keyspace only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Fault(Fault),
    /// An insert without a version: a new row, or over an existing one.
    Foreign {
        over: bool,
    },
}

impl Act {
    fn nth(nth: usize) -> Self {
        match nth % 10 {
            3 => Self::Foreign { over: false },
            7 => Self::Foreign { over: true },
            _ => Self::Fault(Fault::nth(nth)),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Fault(fault) => fault.name(),
            Self::Foreign { over: false } => "foreign row".into(),
            Self::Foreign { over: true } => "foreign cells".into(),
        }
    }
}

/// The fault: the expected differences, and how to undo it.
struct Done {
    kind: DifferenceKind,
    span: Option<(DeviceTime, DeviceTime)>,
    /// A row that was added.
    came: Option<Map<String, Value>>,
    /// A row that was changed.
    was: Option<Map<String, Value>>,
    /// An insert that undoes it.
    unlisted: Option<String>,
}

/// Deletes an entry of an index; returns the statement that undoes it.
fn unlist(site: &mut Site, list: &str, row: &Map<String, Value>) -> String {
    let device = row["device_id"].as_str().unwrap();
    let (day, shard) = (int(row, "bucket"), tstar::internals::identity::shard(device));
    let (names, values) = match list {
        "device_days" => ("bucket, shard, device_id", format!("{day}, {shard}, '{device}'")),
        _ => ("device_id, bucket", format!("'{device}', {day}")),
    };
    let pairs = names.split(", ").zip(values.split(", "));
    let key: Vec<_> = pairs.map(|(name, value)| format!("{name} = {value}")).collect();
    let (at, key) = (site.tick(), key.join(" AND "));
    site.keyspace.run(&format!("DELETE FROM {list} USING TIMESTAMP {at} WHERE {key}"));
    let at = site.tick();
    format!("INSERT INTO {list} ({names}) VALUES ({values}) USING TIMESTAMP {at}")
}

fn spoil(site: &mut Site, act: Act, random: &mut ChaCha8Rng) -> Option<Done> {
    let at = site.tick();
    let was = site.row(random);
    let mut row = was.clone();
    let (start, end) = span(&row);
    let room = u64::try_from(end - start).unwrap();
    let mut done =
        Done { kind: DifferenceKind::Extra, span: None, came: None, was: None, unlisted: None };
    match act {
        Act::Fault(Fault::Deleted) => site.delete(&row, at),
        Act::Fault(Fault::Cell(nth)) => {
            let name = COLUMNS[nth];
            row[name] = other(name, &was[name], random);
            row.retain(|column, _| column == name || KEY.contains(&column.as_str()));
            site.insert(&row, at);
        }
        Act::Foreign { over: true } => {
            row.retain(|column, _| column != "version");
            row["samples"] = (int(&row, "samples") + 1).into();
            site.insert(&row, at);
        }
        Act::Fault(Fault::Unlisted(list)) => {
            let unlisted = Some(unlist(site, list, &row));
            return Some(Done { kind: DifferenceKind::Unlisted, unlisted, ..done });
        }
        Act::Fault(Fault::Stale) => {
            row["end_time"] = (end.ms() - 1 - signed(random, (room > 0).then_some(room)?)).into();
            row["version"] = (int(&row, "version") - 2).into();
        }
        Act::Fault(Fault::Shifted) => {
            let by = 1 + signed(random, (room > 0).then_some(room)?);
            (row["start_time"], row["end_time"]) =
                ((start + by).ms().into(), (end + by).ms().into());
        }
        Act::Foreign { over: false } | Act::Fault(Fault::Extra) => {
            let same = |it: &&Map<String, Value>| it["device_id"] == row["device_id"];
            let last = site.rows.iter().filter(same).map(|it| int(it, "end_time")).max()?;
            let start = last + 1 + signed(random, 86_400_000);
            (row["start_time"], row["end_time"]) = (start.into(), (start + 1).into());
            row["bucket"] = (start.div_euclid(DAY_MS) * DAY_MS).into();
            if act == (Act::Foreign { over: false }) {
                row.remove("version");
            }
        }
        Act::Fault(Fault::OtherDay) => {
            let day = day_of(end).get() + 1 + signed(random, 400);
            row["bucket"] = (day * DAY_MS).into();
        }
    }
    done.kind = match act {
        Act::Fault(fault) => fault.kind(has_copies(&was)),
        Act::Foreign { over: false } => DifferenceKind::NoVersion,
        Act::Foreign { over: true } if has_copies(&was) => DifferenceKind::Copy,
        Act::Foreign { over: true } => DifferenceKind::Different,
    };
    done.span = Some(span(&row));
    match act {
        Act::Fault(Fault::Deleted | Fault::Cell(_)) | Act::Foreign { over: true } => {
            done.was = Some(was);
        }
        _ => {
            site.insert(&row, at);
            done.came = Some(row);
        }
    }
    Some(done)
}

fn undo(site: &mut Site, done: &Done) {
    if let Some(row) = &done.came {
        let at = site.tick();
        site.delete(row, at);
    }
    if let Some(row) = &done.was {
        let at = site.tick();
        site.insert_text(&site.texts[&key(row)], at);
    }
    if let Some(insert) = &done.unlisted {
        site.keyspace.run(insert);
    }
}

#[test]
fn each_fault_is_found_as_what_it_is() {
    let mut random = ChaCha8Rng::seed_from_u64(20_261_124);
    let Some(mut site) = Site::new(&mut random, 8, 6) else { return };
    assert_eq!(site.compare(false).0.count(), 0);
    let mut table: BTreeMap<(String, &str), u32> = BTreeMap::new();
    let mut found = 0;
    for nth in 0.. {
        if found == FAULTS {
            break;
        }
        let act = Act::nth(nth);
        let Some(done) = spoil(&mut site, act, &mut random) else { continue };
        let (_, seen) = site.compare(false);
        let [(seen, true)] = seen.as_slice() else { panic!("{act:?}: {seen:?}") };
        assert_eq!((seen.kind, seen.span_ms), (done.kind, done.span), "{act:?}");
        if let Act::Fault(Fault::Cell(at)) = act {
            assert_eq!(seen.columns, [COLUMNS[at]]);
        }
        *table.entry((act.name(), seen.kind.name())).or_default() += 1;
        found += 1;
        undo(&mut site, &done);
        if found % 20 == 0 {
            assert_eq!(site.compare(false).0.count(), 0, "undone: {act:?}");
        }
    }
    assert_eq!(site.everything(), site.rows);
    println!("verify, keyspace: {found} faults found");
    for ((fault, kind), count) in table {
        println!("  {fault:<24} {kind:<12} {count}");
    }
}

/// A row that no earlier fault has touched.
fn fresh(site: &Site, used: &mut Vec<Value>, copies: bool) -> Map<String, Value> {
    let is_fresh = |row: &&Map<String, Value>| {
        has_copies(row) == copies && !used.contains(&row["t_star"]) && span(row).0 < span(row).1
    };
    let row = site.rows.iter().find(is_fresh).expect("a trip that is untouched").clone();
    used.push(row["t_star"].clone());
    row
}

#[test]
fn what_is_stamped_as_it_should_be_is_repaired_and_what_is_later_is_reported() {
    let mut random = ChaCha8Rng::seed_from_u64(20_261_125);
    let Some(site) = Site::new(&mut random, 8, 6) else { return };
    let mut used = Vec::new();
    // A delete below the row's version never shows.
    for copies in [false, true] {
        let row = fresh(&site, &mut used, copies);
        site.delete(&row, int(&row, "version"));
        assert_eq!(site.compare(false).0.count(), 0, "a delete below the row");
    }
    // The delete that came with the row hides a stale row within the span; one that extends beyond
    // it shows, and is deleted.
    for (nth, copies) in [(0, false), (1, true), (2, false), (3, true)] {
        let mut row = fresh(&site, &mut used, copies);
        let (start, end) = span(&row);
        let version = int(&row, "version") - 2;
        match nth {
            0 | 1 => row["end_time"] = (end - 1).ms().into(),
            _ => {
                row["start_time"] = (start + 1).ms().into();
                row["end_time"] = (end + 1).ms().into();
            }
        }
        row["version"] = version.into();
        site.insert(&row, version + 1);
        let (compared, seen) = site.compare(false);
        if nth < 2 {
            assert_eq!(compared.count(), 0, "{seen:?}");
            continue;
        }
        assert_eq!(compared.differences, [(DifferenceKind::Overlapping, 1)].into(), "{seen:?}");
        let (compared, seen) = site.compare(true);
        assert_eq!((compared.count(), compared.count_left()), (1, 0), "{seen:?}");
        assert_eq!(site.compare(true).0.count(), 0);
        assert_eq!(site.everything(), site.rows, "{nth}");
    }
    // A row that was never written, or was lost with a node, is restored; so is a day's entry.
    let row = fresh(&site, &mut used, false);
    let mut extra = row.clone();
    extra["bucket"] = (int(&row, "bucket") + 400 * DAY_MS).into();
    site.insert(&extra, int(&extra, "version") + 1);
    let (compared, _) = site.compare(true);
    assert_eq!(compared.differences, [(DifferenceKind::Extra, 1)].into());
    assert_eq!(compared.count_left(), 0);
    assert_eq!(site.everything(), site.rows);

    // Later writes stay.
    let (gone, changed) = (fresh(&site, &mut used, false), fresh(&site, &mut used, false));
    site.delete(&gone, LATER);
    let mut cell = changed.clone();
    cell.retain(|name, _| KEY.contains(&name.as_str()));
    cell.insert("samples".into(), 77.into());
    site.insert(&cell, LATER);
    assert_eq!(site.compare(false).0.count(), 2);
    for _ in 0..2 {
        let (compared, seen) = site.compare(true);
        // Of the changed row the later cell is left, and nothing else is deleted.
        let later = seen.iter().filter(|it| {
            it.1 && it.0.kind == DifferenceKind::Different && it.0.columns == ["samples"]
        });
        assert_eq!((compared.count_left(), later.count()), (2, 1), "{seen:?}");
    }
}
