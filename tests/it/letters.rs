//! Dead letters in a table and in a topic: listed, shown, replayed, purged.

mod large;
mod replay;
mod table;
mod too_large;

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::{Value, json};
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::Version;
use tstar::internals::store::SideTables;

use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers;
use crate::topic::{StoredRecord, Topic, drain, start};

/// Partitions of the topics.
const PARTITIONS: i32 = 3;

/// The reason of each of [`bad_records`], sorted.
const REASONS: [&str; 8] = [
    "bad_json",
    "bad_utf8",
    "key_mismatch",
    "missing_field",
    "missing_field",
    "missing_field",
    "no_key",
    "time_in_future",
];

fn keyed(key: &str, value: impl Into<Vec<u8>>) -> ProducerRecord {
    ProducerRecord { key: Some(key.into()), value: value.into(), ..ProducerRecord::default() }
}

fn sample(device: &str, minute: u32) -> String {
    minutes(device, &[minute]).trim().to_owned()
}

/// A sample whose time has another name.
fn renamed(device: &str, minute: u32) -> String {
    sample(device, minute).replace("time", "when")
}

/// Four samples, and a record for each of [`REASONS`].
fn bad_records() -> Vec<ProducerRecord> {
    let trace = ("trace".to_owned(), Some(vec![7, 0xff]));
    let array = format!("[{}, {}]", sample("truck-3", 1), renamed("truck-3", 2));
    let soon = renamed("truck-1", 6).replace("2024-05-01T08:06:00Z", "soon");
    let ahead = sample("truck-1", 7).replace("2024", "2124");
    let no_key = ProducerRecord {
        headers: vec![trace],
        value: sample("truck-2", 4).into(),
        ..ProducerRecord::default()
    };
    vec![
        keyed("truck-1", sample("truck-1", 1)),
        keyed("truck-1", sample("truck-1", 2)),
        keyed("truck-1", renamed("truck-1", 3)),
        no_key,
        keyed("truck-9", sample("truck-1", 5)),
        keyed("truck-3", array),
        keyed("truck-1", soon),
        keyed("truck-1", ahead),
        keyed("truck-4", "[1, 2"),
        keyed("truck-5", vec![b'{', 0xff]),
        keyed("truck-6", sample("truck-6", 1)),
    ]
}

/// A topic of bad records, and a keyspace that was built from it.
struct Site {
    topic: Topic,
    keyspace: Keyspace,
    folder: Folder,
}

impl Site {
    /// An empty topic and an empty keyspace.
    fn bare() -> Option<Self> {
        let (topic, keyspace) = (Topic::new(PARTITIONS)?, Keyspace::new(ClusteringOrder::Desc)?);
        Some(Self { topic, keyspace, folder: Folder::new() })
    }

    /// A site whose daemon has read [`bad_records`].
    fn new() -> Option<Self> {
        let site = Self::bare()?;
        site.topic.send(&bad_records());
        site.run_until("the dead letters", || {
            let found = site.run("ls");
            (found.code == Some(0) && found.objects().len() == REASONS.len()).then_some(())
        });
        Some(site)
    }

    /// Flags of the log, with a group of its own.
    fn log(&self) -> String {
        format!("{} --group {}", self.topic.flags(), self.topic.name)
    }

    fn store(&self) -> String {
        format!("--store scylla://{}/{}", self.keyspace.url.nodes[0], self.keyspace.url.keyspace)
    }

    /// Runs the daemon until `ask` returns something.
    fn run_until<T>(&self, what: &str, ask: impl FnMut() -> Option<T>) -> T {
        let (flags, store) = (self.log(), self.store());
        let words = format!("run {flags} {store} --from earliest --create-topics");
        let running = start(&self.folder, &words);
        let found = until(what, ask);
        drain(running, &words).ends(0);
        found
    }

    /// Arguments of a `dlq` command over the topic.
    fn words(&self, words: &str) -> String {
        format!("dlq {words} {} --brokers {}", self.store(), self.topic.brokers)
    }

    fn run(&self, words: &str) -> crate::cli::Ran {
        self.folder.run(&self.words(words))
    }

    fn ls(&self, words: &str) -> Vec<Value> {
        self.run(&format!("ls {words}")).ends(0).objects()
    }

    fn letter_topic(&self) -> String {
        format!("{}.dlq", self.topic.name)
    }

    /// The replayed records in the log, by their origin.
    fn sent_back(&self) -> BTreeMap<String, Vec<StoredRecord>> {
        let mut sent: BTreeMap<String, Vec<StoredRecord>> = BTreeMap::new();
        for kept in self.topic.records_of(&self.topic.name) {
            if kept.headers.contains_key("tstar-dlq-origin") {
                sent.entry(kept.header("tstar-dlq-origin").to_owned()).or_default().push(kept);
            }
        }
        sent
    }

    fn samples(&self) -> u64 {
        let found = self.folder.run(&format!("export {}", self.store()));
        let trips = if found.code == Some(0) { found.objects() } else { vec![] };
        trips.iter().map(|trip| trip["samples"].as_u64().unwrap()).sum()
    }
}

fn reasons(letters: &[Value]) -> Vec<&str> {
    let mut reasons: Vec<_> = letters.iter().map(|it| it["reason"].as_str().unwrap()).collect();
    reasons.sort_unstable();
    reasons
}

/// Dead letters by their log position, without their ids.
fn by_place(letters: Vec<Value>) -> Vec<Value> {
    let mut letters = letters;
    for letter in &mut letters {
        letter.as_object_mut().unwrap().remove("id").unwrap();
    }
    let number = |letter: &Value, name: &str| letter[name].as_i64();
    letters
        .sort_by_key(|it| (number(it, "partition"), number(it, "offset"), number(it, "element")));
    letters
}

#[test]
fn a_topic_of_letters_shows_what_a_table_of_them_shows() {
    let Some(site) = Site::new() else { return };
    let words = format!("run {} --store sqlite:t.db --from earliest", site.topic.flags());
    let running = start(&site.folder, &words);
    let table = until("the table", || {
        let found = site.folder.run("dlq ls --store sqlite:t.db");
        let letters = if found.code == Some(0) { found.objects() } else { vec![] };
        (letters.len() == REASONS.len()).then_some(letters)
    });
    drain(running, &words).ends(0);
    let topic = site.ls("");
    assert_eq!(reasons(&topic), REASONS);
    assert_eq!(by_place(topic.clone()), by_place(table));

    for (filter, count) in [
        ("--reason missing_field", 3),
        ("--reason trip_full", 0),
        ("--device truck-9", 1),
        // By the key, and by the device in the value.
        ("--device truck-1", 4),
        ("--device truck-2", 1),
        ("--device truck-1 --reason missing_field", 2),
        ("--from 2020-01-01T00:00:00Z", 8),
        ("--to 2020-01-01T00:00:00Z", 0),
        ("--limit 3", 3),
    ] {
        assert_eq!(site.ls(filter).len(), count, "{filter}");
        let table = site.folder.run(&format!("dlq ls {filter} --store sqlite:t.db")).ends(0);
        assert_eq!(table.objects().len(), count, "{filter}");
    }
    let tables = site.run("ls --format table").ends(0).text();
    assert!(tables.contains("key_mismatch") && tables.contains(&site.topic.name), "{tables}");
    for letter in &topic {
        let id = letter["id"].as_str().unwrap();
        assert_eq!(site.run(&format!("show {id}")).ends(0).json(), *letter);
        let raw = site.run(&format!("show {id} --raw")).ends(0).stdout;
        assert_eq!(raw.len() as u64, letter["value_bytes"].as_u64().unwrap());
    }
    let utf8 = topic.iter().find(|it| it["reason"] == "bad_utf8").unwrap();
    let shown = site.run(&format!("show {} --raw", utf8["id"].as_str().unwrap()));
    assert_eq!(shown.stdout, [b'{', 0xff]);

    // A reader that closes the pipe is not an error.
    let mut command = site.folder.command(&site.words("ls"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.stderr, b"");
}

#[test]
fn what_makes_no_sense_says_so() {
    let Some(site) = Site::bare() else { return };
    site.run("ls").ends(1).prints_nothing().says(&["has no epoch"]);
    let epoch = Epoch {
        epoch: 1,
        topic: site.topic.name.clone(),
        partitions: PARTITIONS,
        start_offsets: BTreeMap::new(),
        base: Version(1),
        rules: Rules::default(),
        partitioner: Partitioner::None,
        topic_id: None,
        keeps_positions: false,
    };
    let store = site.keyspace.store();
    assert!(site.keyspace.runtime.block_on(store.add_epoch(&epoch)).unwrap());
    let letters = site.letter_topic();
    for words in ["ls", "show 0:0", "replay", "purge --all --yes"] {
        let none = format!("topic `{letters}` does not exist");
        site.run(words).ends(78).prints_nothing().says(&[&none, "--create-topics"]);
    }
    let letter_topic = Topic::on(site.topic.brokers.clone(), letters, PARTITIONS, &[]);
    assert_eq!(site.ls("--json"), [json!([])]);
    for (words, code, why) in [
        ("show 0:0", 1, "no dead letter 0:0"),
        ("show 7:0", 1, "no dead letter 7:0"),
        ("show 7", 2, "partition:offset"),
        ("ls --reason tired", 2, "tired"),
        ("ls --from yesterday", 2, "yesterday"),
        ("ls --from 2 --to 1", 2, "swap them"),
        ("ls --format csv", 2, "table, ndjson, json"),
        ("ls --kafka isolation.level=read_uncommitted", 78, "isolation.level"),
        ("ls --kafka receive.message.max.bytes=1000000000", 78, "whoever reads it"),
        ("replay --map devise=x", 2, "devise"),
        ("purge --yes", 2, "--all"),
        ("purge --all --reason bad_json --yes", 2, "--all"),
        ("purge --all", 2, "--yes"),
    ] {
        site.run(words).ends(code).says(&[why]);
    }
    letter_topic.grow(4);
    site.topic.grow(4);
    site.run("replay").ends(78).says(&["has 4 partitions, and had 3", "tstar epoch new"]);
    let unreachable =
        format!("dlq ls {} --brokers 127.0.0.1:{}", site.store(), servers::free_port());
    site.folder.run(&unreachable).ends(69).prints_nothing().says(&["no Kafka broker"]);
}
