//! `replay topic`, `rebuild`, and late data: published ids stay valid.

mod late;
mod order;
pub mod rebuild;
mod topic;

use rusqlite::Connection;
use serde_json::Value;

use crate::chaos::expected::Expected;
use crate::cli::{Folder, Ran};
use crate::control_keys;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::file::until_read;
use crate::topic::keyspace::until_committed;
use crate::topic::{Topic, drain, start};
use crate::verify::file::dump;
use tstar_sim::model::literal::Limits;

/// Flags of daemons: short flush intervals, to save time.
const HASTE: &str = "--flush-interval 100ms --max-staleness 1s";

const PARTITIONS: i32 = 4;
const SAMPLES: usize = 5000;

/// A device that is erased up to a time in the middle of the log.
const ERASED: &str = "truck-7";

/// A topic with a fleet in it, and an erasure in between.
pub struct Site {
    pub topic: Topic,
    pub folder: Folder,
}

impl Site {
    pub fn new(samples: usize) -> Option<Self> {
        let site = Self { topic: Topic::new(PARTITIONS)?, folder: control_keys::folder() };
        let fleet = format!(
            "simulate --mix 46,34,19,1 --devices 20 --samples {samples} --seed 9 --bad 0.01"
        );
        let log = site.folder.run(&fleet).ends(0).stdout;
        let half = log.len() / 2;
        let half = half + log[half..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
        site.topic.send_lines(&log[..half], "no-device");
        site.topic.send(&[control_keys::forget(&site.topic, ERASED, "2025-01-01T00:30:00Z")]);
        site.topic.send_lines(&log[half..], "no-device");
        Some(site)
    }

    /// Reads the topic to its end into a file.
    pub fn run_file(&self, store: &str, flags: &str) -> Value {
        let flags = format!("{flags} {HASTE} --from earliest");
        let words = format!("run {} {flags} --store sqlite:{store}", self.topic.flags());
        let running = start(&self.folder, &words);
        until_read(&self.folder, store, &self.topic);
        drain(running, &words).ends(0).json()
    }

    /// Reads the topic to its end into a keyspace, as a group named after it.
    pub fn run_keyspace(&self) -> Option<Keyspace> {
        let keyspace = Keyspace::new(ClusteringOrder::Desc)?;
        let (flags, group) = (self.topic.flags(), &self.topic.name);
        let words = format!(
            "run {flags} --store {} --group {group} --from earliest --create-topics {HASTE}",
            keyspace.url
        );
        let running = start(&self.folder, &words);
        until_committed(&self.topic, group);
        drain(running, &words).ends(0);
        Some(keyspace)
    }

    /// Creates another store with the epochs of one, and nothing else.
    pub fn import(&self, from: &str, to: &str) {
        let exported = self.folder.text(&format!("epoch export --store {from}"));
        self.folder.write("epochs.json", exported);
        self.folder.run(&format!("epoch import epochs.json --store {to}")).ends(0);
    }

    /// An empty keyspace with the epochs of a store.
    pub fn empty(&self, from: &str) -> Keyspace {
        let empty = Keyspace::new(ClusteringOrder::Desc).unwrap();
        self.import(from, &empty.url.to_string());
        empty
    }

    /// Flags for the log of a store, as a group that has read all of it or nothing.
    pub fn flags(&self, store: &str, has_read: bool) -> String {
        let not = if has_read { "" } else { "-unread" };
        format!("--store {store} --brokers {} --group {}{not}", self.topic.brokers, self.topic.name)
    }

    pub fn replay(&self, flags: &str) -> Ran {
        self.folder.run(&format!("replay topic {flags}"))
    }

    /// What the literal model says of the topic under these limits, in an epoch with this base.
    pub fn expected(&self, limits: Limits, base: i64) -> Expected {
        Expected::under(limits, &self.topic.records_of(&self.topic.name), base)
    }

    /// Number of events in the change feed.
    pub fn events(&self) -> i64 {
        let feed = format!("{}.trips", self.topic.name);
        self.topic.records_of(&feed).len() as i64
    }

    /// The content of a file without events and dead letters.
    pub fn dump(&self, store: &str) -> Vec<String> {
        let path = self.folder.path(store);
        let mut all = dump(&path);
        let connection = Connection::open(path).unwrap();
        let mut statement = connection.prepare("SELECT * FROM positions").unwrap();
        let rows = statement.query_map([], |row| {
            Ok(format!("{} at {}", row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        });
        all.extend(rows.unwrap().map(Result::unwrap));
        all
    }

    /// The number of rows of a table of a file.
    pub fn count(&self, store: &str, table: &str) -> i64 {
        let connection = Connection::open(self.folder.path(store)).unwrap();
        let count = format!("SELECT count(*) FROM {table}");
        connection.query_row(&count, [], |row| row.get(0)).unwrap()
    }
}

/// Compares without printing all of both.
#[track_caller]
pub fn same(found: &[String], expected: &[String], what: &str) {
    for (found, expected) in found.iter().zip(expected) {
        assert!(found == expected, "{what}: found\n{found:.300}\nexpected\n{expected:.300}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}
