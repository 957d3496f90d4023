//! Rows that cannot be decoded: no process stops for one, and `verify --repair` repairs them.

use rusqlite::Connection;
use serde_json::Value;

use super::keyspace::until_committed;
use super::{PARTITIONS, Topic, drain, start};
use crate::cli::{Folder, Ran, minutes, number};
use crate::faults::until;
use crate::http::Server;
use crate::keyspace::{ClusteringOrder, Keyspace};

const DAY: &str = "2024-05-01";
const BUCKET: i64 = 1_714_521_600_000;

/// Devices with a corrupt row, each in its own way, and one with a good row.
const POISONED: [&str; 7] = ["path", "ends", "number", "identity", "column", "kind", "ids"];
const GOOD: &str = "good";

/// A topic that was read into a store, by a daemon that has ended.
struct Site {
    topic: Topic,
    folder: Folder,
    store: String,
}

impl Site {
    fn new(topic: Topic, store: String) -> Self {
        let site = Self { topic, folder: Folder::new(), store };
        site.send(&[1, 2, 3]);
        site.read();
        site
    }

    /// Samples of every device at these minutes.
    fn send(&self, at: &[u32]) {
        for device in POISONED.iter().chain(&[GOOD]) {
            self.topic.send_lines(minutes(device, at).as_bytes(), "no-device");
        }
    }

    fn words(&self) -> String {
        format!(
            "run {} --store {} --group {} --from earliest --create-topics",
            self.topic.flags(),
            self.store,
            self.topic.name
        )
    }

    /// Reads all there is.
    fn read(&self) {
        let running = start(&self.folder, &self.words());
        self.until_stored(GOOD);
        drain(running, &self.words()).ends(0);
    }

    /// Waits until all that was sent is stored.
    fn until_stored(&self, name: &str) {
        if self.store.starts_with("scylla") {
            return until_committed(&self.topic, &self.topic.name);
        }
        let path = self.store.strip_prefix("sqlite:").unwrap();
        until(name, || {
            let store =
                tstar::internals::store::sqlite::SqliteStore::open_reader(&self.folder.path(path));
            let store = store.ok()?;
            let ends = self.topic.ends(PARTITIONS);
            let is_read =
                |(at, end): (&i32, &i64)| store.position_of(*at).ok()?.filter(|it| it >= end);
            ends.iter().all(|it| *it.1 == 0 || is_read(it).is_some()).then_some(())
        });
    }

    fn verify(&self, flags: &str) -> Ran {
        let (brokers, group) = (&self.topic.brokers, &self.topic.name);
        let flags = format!("--brokers {brokers} --group {group} --json {flags}");
        self.folder.run(&format!("verify --store {} {flags}", self.store))
    }

    fn trips(&self) -> Vec<Value> {
        self.folder.run(&format!("export --path --store {}", self.store)).ends(0).objects()
    }

    /// A daemon runs over the rows, and all requests succeed.
    fn stays_available(&self) {
        let server = Server::start(&self.folder, &self.words());
        until("readiness", || (server.get("/readyz").status == 200).then_some(()));
        self.send(&[5]);
        self.until_stored("what came over poisoned rows");
        for device in POISONED {
            let found = |minute: u32| {
                let at = format!("{DAY}T08:{minute:02}:00Z");
                server.get(&format!("/v1/trips/lookup?device={device}&at={at}&path=true"))
            };
            // What came since is a trip of its own, until the row is repaired.
            let trip = found(5).is(200).json();
            assert_eq!((&trip["samples"], &trip["start_time"]), (&1.into(), &trip["end_time"]));
            found(2).fails(500, "malformed_trip");
            let list = server.get(&format!("/v1/devices/{device}/trips")).is(200).json();
            assert_eq!(list["trips"].as_array().unwrap().len(), 1, "{device}: {list}");
            assert_eq!(list["skipped"], 1, "{device}: {list}");
        }
        let of_day = server.get(&format!("/v1/trips?day={DAY}")).is(200).json();
        assert_eq!(of_day["trips"].as_array().unwrap().len(), POISONED.len() + 1, "{of_day}");
        let devices = server.get("/v1/devices").is(200).text();
        POISONED.iter().for_each(|device| assert!(devices.contains(device), "{devices}"));
        server.get("/readyz").is(200);
        let skipped = server.metric("tstar_store_rows_skipped_total{reason=\"malformed\"}");
        assert!(skipped >= Some(POISONED.len() as f64), "{skipped:?}");
        let said = server.drain();
        for device in POISONED {
            // The loader and the readers met it several times, and it is logged once.
            let warning = format!("device=`{device}`");
            assert_eq!(said.matches(&warning).count(), 1, "{device}: {said}");
        }
        assert!(said.contains("tstar verify --repair"), "{said}");
        let export = format!("export --store {}", self.store);
        self.folder.run(&export).ends(65);
        let ran = self.folder.run(&format!("{export} --skip-malformed")).ends(0);
        assert_eq!(ran.objects().len(), POISONED.len() + 1);
        ran.says(&["device=`path`", "tstar verify --repair"]);
    }

    /// The rows are found and repaired; a daemon then continues as if they had always been good.
    fn is_repaired(&self) {
        let report = self.verify("").ends(1).says(&["--repair"]).json();
        let examples = report["examples"].to_string();
        for device in POISONED {
            assert!(examples.contains(&format!("\"device_id\":\"{device}\"")), "{report}");
        }
        assert!(!examples.contains(&format!("\"device_id\":\"{GOOD}\"")), "{report}");
        let report = self.verify("--repair").ends(0).json();
        assert_eq!(report["left"], serde_json::json!({}), "{report}");
        let report = self.verify("").ends(0).json();
        assert_eq!(number(&report["same"]), POISONED.len() as u64 + 1, "{report}");
        self.is_whole(&[1, 2, 3, 5]);
        self.send(&[4, 6]);
        self.read();
        self.is_whole(&[1, 2, 3, 4, 5, 6]);
        self.verify("").ends(0);
    }

    /// Each device has one trip, of samples at these minutes.
    fn is_whole(&self, at: &[u32]) {
        let trips = self.trips();
        let mut devices: Vec<_> = POISONED.iter().chain(&[GOOD]).copied().collect();
        devices.sort_unstable();
        assert_eq!(trips.iter().map(|it| it["device_id"].clone()).collect::<Vec<_>>(), devices);
        for trip in trips {
            let times: Vec<_> = at.iter().map(|it| format!("{DAY}T08:{it:02}:00.000Z")).collect();
            assert_eq!(trip["path"]["times"], serde_json::json!(times), "{trip}");
            assert_eq!(trip["t_star"], times[0].as_str(), "{trip}");
        }
    }
}

#[test]
fn a_file_with_poisoned_rows_is_read_on_and_repaired() {
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let site = Site::new(topic, "sqlite:t.db".to_owned());
    let file = Connection::open(site.folder.path("t.db")).unwrap();
    let spoil = |device: &str, what: &str| {
        let update = format!("UPDATE trips SET {what} WHERE device_id = '{device}'");
        assert_eq!(file.execute(&update, []).unwrap(), 1, "{update}");
    };
    spoil("path", "path = x'ff'");
    spoil("ends", "path = (SELECT path FROM trips WHERE device_id = 'good'), samples = 7");
    spoil("number", "samples = 99999999999");
    spoil("identity", "t_star = 999999999999999");
    spoil("column", "ids = '{'");
    spoil("kind", "kind = 'walk'");
    spoil("ids", "ids = '{\"999999999999999\": [2]}'");
    drop(file);
    site.stays_available();
    site.is_repaired();
}

#[test]
fn a_keyspace_with_poisoned_rows_is_read_on_and_repaired() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let site = Site::new(topic, keyspace.url.to_string());
    let time = |trip: &Value, name: &str| {
        tstar::internals::model::time::parse_time(trip[name].as_str().unwrap()).unwrap()
    };
    let trips = site.trips();
    let spoil = |device: &str, what: &str| {
        let trip = trips.iter().find(|trip| trip["device_id"] == device).unwrap();
        // As written by another program from the same record: the timestamps are equal.
        let at = trip["version"].as_i64().unwrap() + 1;
        let key = format!(
            "device_id = '{device}' AND bucket = {BUCKET} AND end_time = {} AND start_time = {}",
            time(trip, "end_time"),
            time(trip, "start_time")
        );
        let statement = match what.split_once(" = ") {
            Some(_) => format!("UPDATE trips USING TIMESTAMP {at} SET {what} WHERE {key}"),
            None => format!("DELETE {what} FROM trips USING TIMESTAMP {at} WHERE {key}"),
        };
        keyspace.run(&statement);
    };
    spoil("path", "path = 0xff");
    spoil("ends", "samples = 7");
    spoil("number", "distance_m = NaN");
    spoil("identity", "t_star = 999999999999999");
    spoil("column", "ids");
    spoil("kind", "kind = 'walk'");
    spoil("ids", "ids = {999999999999999: [2]}");
    site.stays_available();
    site.is_repaired();
}

#[test]
fn an_older_row_answers_where_a_newer_one_is_poisoned() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let site = Site::new(topic, keyspace.url.to_string());
    let before = site.trips();
    for trip in &before {
        let (device, version) = (&trip["device_id"], trip["version"].as_i64().unwrap());
        let key = format!("WHERE device_id = {device} AND bucket = {BUCKET}").replace('"', "'");
        let select = format!("SELECT JSON * FROM trips {key}");
        let answer = keyspace.session.query_unpaged(select, ());
        let answer = keyspace.runtime.block_on(answer).unwrap().into_rows_result().unwrap();
        let (text,) = answer.single_row::<(String,)>().unwrap();
        let mut row: Value = serde_json::from_str(&text).unwrap();
        // Longer at both ends, and newer: by its columns it hides the other.
        row["start_time"] = (BUCKET + 7 * 3_600_000).into();
        row["end_time"] = (BUCKET + 9 * 3_600_000).into();
        row["version"] = (version + 1).into();
        row["path"] = "0xff".into();
        let insert = format!("INSERT INTO trips JSON '{row}' USING TIMESTAMP {}", version + 2);
        keyspace.run(&insert);
    }
    assert_eq!(site.trips(), before);
    for device in POISONED {
        let lookup = format!("lookup {device} {DAY}T08:02:00Z --json --store {}", site.store);
        let ran = site.folder.run(&lookup).ends(0);
        assert_eq!(ran.json()["start_time"], format!("{DAY}T08:01:00.000Z"));
        ran.says(&[&format!("device=`{device}`")]);
    }
    site.verify("").ends(1);
    site.verify("--repair").ends(0);
    site.verify("").ends(0);
    assert_eq!(site.trips(), before);
}
