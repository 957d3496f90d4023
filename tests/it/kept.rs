//! A store and a keyspace that an earlier version wrote: they keep its rules, so that what it
//! decided is decided so again, also for records that a new store would read in another way.

use std::io::Read as _;

use flate2::read::GzDecoder;
use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::Folder;
use crate::faults::until;
use crate::formats::comparable;
use crate::keyspace::Keyspace;
use crate::support::data;
use crate::topic::{Topic, drain, start};

const STORE: &str = "--store sqlite:trips.db";

fn text(name: &str) -> String {
    std::fs::read_to_string(data("kept").join(name)).unwrap()
}

/// A file of the kept ones that is packed.
fn unpacked(name: &str) -> Vec<u8> {
    let packed = std::fs::File::open(data("kept").join(name)).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The trips that an earlier version exported, as this one does: it has two columns more.
fn exported(name: &str) -> Vec<Value> {
    let mut trips: Vec<Value> =
        text(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for trip in &mut trips {
        let columns = trip.as_object_mut().unwrap();
        columns.insert("jumps".into(), Value::Null);
        columns.insert("tags".into(), json!({}));
    }
    trips
}

/// Checks that the views of the store have the ids of an export.
#[track_caller]
fn is_in_views(folder: &Folder, name: &str) {
    let store = Connection::open(folder.path("trips.db")).unwrap();
    let ids = |query: &str| {
        let mut query = store.prepare(query).unwrap();
        let ids = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        ids.map(|id| json!(id.unwrap())).collect::<Vec<_>>()
    };
    let trips = exported(name);
    let current: Vec<_> = trips.iter().map(|trip| trip["id"].clone()).collect();
    assert_eq!(ids("SELECT id FROM trip ORDER BY device_id, start_time"), current);
    let retired = trips.iter().flat_map(|trip| trip["absorbed"].as_array().unwrap().clone());
    let retired: Vec<_> = retired.collect();
    let query = "SELECT absorbed_id FROM trip_absorbed JOIN trip USING (id)
         ORDER BY trip.device_id, start_time, absorbed_id";
    assert!(!retired.is_empty());
    assert_eq!(ids(query), retired);
}

#[test]
fn a_store_of_an_earlier_version_decides_as_before() {
    let folder = Folder::with("first.ndjson", text("first.ndjson"));
    folder.write("later.ndjson", text("later.ndjson"));
    folder.write("trips.db", unpacked("trips.db.gz"));
    // A writer brings the file to the current format.
    let again = folder.ingest(&format!("first.ndjson {STORE}"));
    assert_eq!((&again["applied"], &again["duplicates"]), (&json!(0), &json!(46)), "{again}");
    assert_eq!(folder.trips("trips.db"), exported("first.export"));
    folder.run(&format!("verify first.ndjson {STORE}")).ends(0);
    is_in_views(&folder, "first.export");

    let later = folder.ingest(&format!("later.ndjson {STORE}"));
    let reasons = json!({"bad_json": 3, "bad_time": 3, "bad_type": 1, "out_of_range": 5});
    assert_eq!(later["dead_letters"], reasons, "{later}");
    assert_eq!(later["dropped"], json!({}), "a zero position is a position: {later}");
    assert_eq!(folder.trips("trips.db"), exported("later.export"));
    is_in_views(&folder, "later.export");
    folder.run(&format!("verify first.ndjson later.ndjson {STORE}")).ends(0);
    // A new store reads what the earlier version could not.
    let new = folder.ingest("later.ndjson --store sqlite:new.db");
    assert_eq!(new["dropped"], json!({"zero_position": 1}), "{new}");
    assert_ne!(new["dead_letters"], reasons, "{new}");
}

/// The formats of which a file is kept that a version of that time wrote, besides 6, of `trips.db`:
/// the trips that it exported, and how many samples of `first.ndjson` it could read. No version
/// wrote 1 or 5, and 11 is today's.
const FORMATS: [(i64, &str, u64); 7] = [
    (2, "first.export", 46),
    (3, "first.export", 46),
    (4, "first.export", 46),
    (7, "reading-2.export", 50),
    (8, "reading-2.export", 50),
    (9, "reading-2.export", 50),
    (10, "reading-2.export", 50),
];

#[test]
fn a_file_of_each_format_is_migrated_and_decides_as_before() {
    for (format, export, samples) in FORMATS {
        let folder = Folder::with("first.ndjson", text("first.ndjson"));
        folder.write("trips.db", unpacked(&format!("format-{format}.db.gz")));
        let store = Connection::open(folder.path("trips.db")).unwrap();
        let found: i64 = store.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(found, format);
        drop(store);
        let refused = folder.run(&format!("devices {STORE}")).ends(78);
        refused.says(&[&format!("has the older format {format}")]);
        let again = folder.ingest(&format!("first.ndjson {STORE}"));
        let counts = (&again["applied"], &again["duplicates"]);
        assert_eq!(counts, (&json!(0), &json!(samples)), "format {format}: {again}");
        assert_eq!(folder.trips("trips.db"), exported(export), "format {format}");
        is_in_views(&folder, export);
        let verified = folder.run(&format!("verify first.ndjson {STORE}"));
        if format == 2 {
            // It did not know which files it has read: the file has been read twice now.
            verified.ends(65).says(&["starts with record 57", "record 0 comes before it"]);
        } else {
            verified.ends(0);
        }
    }
}

/// A row as CQL's JSON.
#[derive(Deserialize)]
struct KeptRow {
    table: String,
    /// Of the write, microseconds.
    timestamp: i64,
    row: Value,
}

/// The kept keyspace, with the epoch of a topic.
fn keyspace(topic: &Topic) -> Option<Keyspace> {
    let keyspace = Keyspace::bare()?;
    let schema = text("schema.cql");
    let without_comments = schema.lines().map(|line| line.split("--").next().unwrap());
    let statements = without_comments.collect::<Vec<_>>().join("\n");
    let statements = statements.split(';').map(str::trim).filter(|it| !it.is_empty());
    statements.for_each(|statement| keyspace.run(statement));
    for line in text("keyspace.ndjson").lines() {
        let mut kept: KeptRow = serde_json::from_str(line).unwrap();
        if kept.table == "epochs" {
            kept.row["topic"] = json!(topic.name);
        }
        let row = kept.row.to_string().replace('\'', "''");
        let (table, timestamp) = (kept.table, kept.timestamp);
        keyspace.run(&format!("INSERT INTO {table} JSON '{row}' USING TIMESTAMP {timestamp}"));
    }
    Some(keyspace)
}

#[test]
fn a_keyspace_of_an_earlier_version_decides_as_before() {
    let Some(topic) = Topic::new(1) else { return };
    let Some(keyspace) = keyspace(&topic) else { return };
    let folder = Folder::new();
    topic.send_lines(text("first.ndjson").as_bytes(), "van-3");
    let store = format!("--store {}", keyspace.url);
    // Other tests use the same brokers meanwhile, in groups of their own.
    let verify = format!("verify {store} --brokers {} --group {}", topic.brokers, topic.name);
    let export = || comparable(folder.run(&format!("export {store}")).ends(0).objects());
    folder.run(&format!("schema apply {store}")).ends(0);
    assert_eq!(export(), comparable(exported("first.export")));
    // The group of the earlier version is not kept: a new one reads the whole topic again.
    let words = format!("run {} {store} --group {} --create-topics", topic.flags(), topic.name);
    let running = start(&folder, &words);
    let is_read = || (topic.committed(&topic.name, 1) == topic.ends(1)).then_some(());
    until("the first records were read", is_read);
    assert_eq!(export(), comparable(exported("first.export")));
    folder.run(&verify).ends(0);

    topic.send_lines(text("later.ndjson").as_bytes(), "van-3");
    until("the later records were read", is_read);
    assert_eq!(export(), comparable(exported("later.export")));
    folder.run(&verify).ends(0);
    let summary = drain(running, &words).ends(0).json();
    let reasons = json!({"bad_json": 4, "bad_time": 6, "bad_type": 2, "out_of_range": 9});
    assert_eq!(summary["dead_letters"], reasons, "{summary}");
    assert_eq!(summary["dropped"], json!({}), "{summary}");
    assert_eq!((&summary["applied"], &summary["duplicates"]), (&json!(4), &json!(47)));
}
