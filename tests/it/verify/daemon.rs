//! While a daemon writes, and by the command on a keyspace.

use std::thread;

use serde_json::Value;
use tstar::internals::store::raw::COLUMNS;

use crate::cli::{Folder, Ran, number};
use crate::control_keys;
use crate::faults::{Running, until};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::topic::keyspace::until_committed;
use crate::topic::{Topic, drain, start};

const HASTE: &str = "--flush-interval 100ms --max-staleness 1s";
const PARTITIONS: i32 = 4;

/// A topic and a keyspace with a daemon between them.
struct Site {
    topic: Topic,
    keyspace: Keyspace,
    folder: Folder,
    words: String,
    daemon: Option<Running>,
}

impl Site {
    fn new() -> Option<Self> {
        let (topic, keyspace) = (Topic::new(PARTITIONS)?, Keyspace::new(ClusteringOrder::Desc)?);
        let group = &topic.name;
        let words = format!(
            "run {} --store {} --group {group} --from earliest --create-topics {HASTE}",
            topic.flags(),
            keyspace.url
        );
        let folder = control_keys::folder();
        Some(Self { topic, keyspace, folder, words, daemon: None })
    }

    fn start(&mut self) {
        self.daemon = Some(start(&self.folder, &self.words));
    }

    fn drain(&mut self) -> Value {
        until_committed(&self.topic, &self.topic.name);
        drain(self.daemon.take().unwrap(), &self.words).ends(0).json()
    }

    fn verify(&self, flags: &str) -> Ran {
        let (brokers, group) = (&self.topic.brokers, &self.topic.name);
        let words = format!(
            "verify --store {} --brokers {brokers} --group {group} --json {flags}",
            self.keyspace.url
        );
        self.folder.run(&words)
    }
}

/// Rounds without a row newer than what was read: this number in a row means that none ever is.
const ROUNDS: u64 = 5;

#[test]
fn nothing_is_found_while_samples_and_forgets_keep_coming() {
    for round in 0..ROUNDS {
        let Some(mut site) = Site::new() else { return };
        if verified_while_a_daemon_writes(&mut site, 11 + round) > 0 {
            return;
        }
    }
    panic!("no row was ever newer than what was read");
}

/// Compares repeatedly while records come. Returns how many rows were newer than what it read.
fn verified_while_a_daemon_writes(site: &mut Site, seed: u64) -> u64 {
    let fleet =
        format!("simulate --mix 46,34,19,1 --devices 60 --samples 30000 --seed {seed} --bad 0.01");
    let log = site.folder.run(&fleet).ends(0).stdout;
    let lines: Vec<&[u8]> = log.split_inclusive(|&byte| byte == b'\n').collect();
    let (first, rest) = lines.split_at(6000);
    site.topic.send_lines(&first.concat(), "no-device");
    site.start();
    until_committed(&site.topic, &site.topic.name);
    let (topic, folder, url) = (&site.topic, &site.folder, &site.keyspace.url);
    let (mut times, mut ahead, mut compared) = (0, 0, 0);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            for (nth, part) in rest.chunks(400).enumerate() {
                topic.send_lines(&part.concat(), "no-device");
                if nth % 3 == 0 {
                    let forget = format!(
                        "forget truck-{} --before 2025-01-01T00:40:00Z --yes {} --store {url}",
                        1 + nth,
                        topic.flags()
                    );
                    folder.run(&forget);
                }
            }
        });
        while !load.is_finished() || times < 5 {
            let report = site.verify("").ends(0).json();
            assert_eq!(report["differences"], serde_json::json!({}));
            ahead += number(&report["ahead"]);
            compared += number(&report["same"]);
            times += 1;
        }
        load.join().unwrap();
    });
    let summary = site.drain();
    let report = site.verify("").ends(0).json();
    assert_eq!(report["ahead"], 0);
    println!(
        "verify with a daemon: {times} times, {compared} rows equal, {ahead} newer \
         than what was read; {} dropped",
        summary["dropped"]
    );
    ahead
}

#[test]
fn the_command_names_what_helps_where_nothing_can_be_repaired() {
    let Some(mut site) = Site::new() else { return };
    let log = site
        .folder
        .run("simulate --mix 46,34,19,1 --devices 10 --samples 3000 --seed 4")
        .ends(0)
        .stdout;
    site.topic.send_lines(&log, "no-device");
    site.start();
    site.drain();
    let clean = site.verify("").ends(0).json();
    assert!(number(&clean["same"]) > 5 && number(&clean["records"]) == 3000, "{clean}");
    let trip = &site.folder.run(&format!("export --store {}", site.keyspace.url)).objects()[0];
    let time = |name: &str| {
        tstar::internals::model::time::parse_time(trip[name].as_str().unwrap()).unwrap()
    };
    let (start, end, device) = (time("start_time"), time("end_time"), &trip["device_id"]);
    let day = start.div_euclid(86_400_000) * 86_400_000;
    let device = device.as_str().unwrap();
    let key = format!(
        "device_id = '{device}' AND bucket = {day} AND end_time = {end} AND start_time = {start}"
    );

    // Far before the row's version: it never shows.
    site.keyspace.run(&format!("DELETE FROM trips USING TIMESTAMP 5 WHERE {key}"));
    site.verify("").ends(0);
    // A stale form of the row, with its version, that another worker left.
    let version = trip["version"].as_i64().unwrap() - 2;
    let names = COLUMNS.join(", ");
    let select = format!(
        "SELECT JSON device_id, bucket, end_time, start_time, {names} FROM trips WHERE {key}"
    );
    let answer = site.keyspace.session.query_unpaged(select, ());
    let answer = site.keyspace.runtime.block_on(answer).unwrap().into_rows_result().unwrap();
    let (text,) = answer.single_row::<(String,)>().unwrap();
    let mut row: Value = serde_json::from_str(&text).unwrap();
    (row["start_time"], row["end_time"]) = ((start + 1).into(), (end + 1).into());
    row["version"] = version.into();
    let insert = format!("INSERT INTO trips JSON '{row}' USING TIMESTAMP {}", version + 1);
    site.keyspace.run(&insert);
    let found = site.verify("").ends(1).says(&["1 differences; --repair"]).json();
    assert_eq!(found["differences"], serde_json::json!({"overlapping": 1}));
    site.verify("--repair").ends(0).says(&["1 differences were repaired"]);
    site.verify("").ends(0);

    // A plain delete has the clock's timestamp.
    site.keyspace.run(&format!("DELETE FROM trips WHERE {key}"));
    let missing =
        |report: Value| assert_eq!(report["differences"], serde_json::json!({"missing": 1}));
    missing(site.verify("").ends(1).json());
    for _ in 0..2 {
        let ran = site.verify("--repair").ends(1);
        missing(
            ran.says(&["1 of 1 differences cannot be repaired", "tstar rebuild --into"]).json(),
        );
    }
    let rebuild = format!(
        "rebuild --store {} --brokers {} --group {} --into sqlite:new.db --json",
        site.keyspace.url, site.topic.brokers, site.topic.name
    );
    site.folder.run(&rebuild).ends(0);
    until("the new store", || site.folder.has("new.db").then_some(()));
    assert_eq!(site.folder.trips("new.db").len(), number(&clean["trips_rebuilt"]) as usize);
}
