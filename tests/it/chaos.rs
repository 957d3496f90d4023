//! Instances that are killed, stopped and moved over a real broker and a real CQL server.
//!
//! Each test asks: do store, feed and dead letters end as the literal model says, and was every
//! committed offset durable?

mod check;
mod down;
pub mod expected;
pub mod log;
mod named;
mod outcome;
mod paused;
mod probe;
pub mod replay;
mod schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::Value;
use tstar::internals::kafka::producer::{Producer, ProducerRecord};
use tstar::internals::store::SideTables;
use tstar::internals::store::scylla::ScyllaStore;

use crate::cli::{Folder, Ran};
use crate::control_keys;
use crate::faults::{until, until_handles_term};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::{self, block_on};
use crate::topic::Topic;
use expected::Place;
use log::Size;

const PARTITIONS: i32 = 4;

/// The group notices a lost member soon, and flushes are short: much happens in little time.
const HASTE: &str = "--kafka session.timeout.ms=1500 --kafka heartbeat.interval.ms=300 \
     --flush-interval 100ms --max-staleness 1s --stop-staleness 1s";

/// Samples of a fleet, and their topics and keyspace.
struct Site {
    topic: Topic,
    feed: Topic,
    letters: Topic,
    /// The table topic of every other seed.
    table: Option<Topic>,
    keyspace: Keyspace,
    folder: Folder,
    /// In arrival order.
    lines: Vec<ProducerRecord>,
    producer: Producer,
    /// Queries the ends of topics.
    watch: BaseConsumer,
}

impl Site {
    /// A log that a seed decides; none of it is sent yet.
    fn new(size: Size, seed: u64) -> Option<Self> {
        let topic = Topic::new(PARTITIONS)?;
        let companion = |end: &str| {
            let name = format!("{}.{end}", topic.name);
            Topic::on(topic.brokers.clone(), name, PARTITIONS, &[])
        };
        let (feed, letters) = (companion("trips"), companion("dlq"));
        let table = seed.is_multiple_of(2).then(|| {
            let name = format!("{}.trips.table", topic.name);
            let options = [("cleanup.policy", "compact")];
            Topic::on(topic.brokers.clone(), name, PARTITIONS, &options)
        });
        Some(Self { table, ..Self::on([topic, feed, letters], size, seed)? })
    }

    /// The same on topics of the test's own: input, feed and dead letters.
    fn on([topic, feed, letters]: [Topic; 3], size: Size, seed: u64) -> Option<Self> {
        let keyspace = Keyspace::new(ClusteringOrder::Desc)?;
        let folder = control_keys::folder();
        let lines = log::mixed(&folder, &topic, size, seed);
        let producer = topic.producer();
        let watch = ClientConfig::new().set("bootstrap.servers", &topic.brokers).create().unwrap();
        let table = None;
        Some(Self { topic, feed, letters, table, keyspace, folder, lines, producer, watch })
    }

    fn send(&self, lines: &[ProducerRecord]) {
        block_on(self.producer.send(&self.topic.name, lines)).unwrap();
    }

    /// The command of an instance; its group is named after the topic.
    fn words(&self) -> String {
        let words = self.words_of(&self.keyspace, &self.topic.name);
        match &self.table {
            Some(_) => format!("{words} --table-topic --table-partitions {PARTITIONS}"),
            None => words,
        }
    }

    fn words_of(&self, keyspace: &Keyspace, group: &str) -> String {
        let (flags, url) = (self.topic.flags(), &keyspace.url);
        format!("run {flags} --store {url} --group {group} --from earliest {HASTE}")
    }

    fn committed(&self, group: &str) -> BTreeMap<i32, i64> {
        self.topic.committed(group, PARTITIONS)
    }

    /// How many events the feed has.
    fn events(&self) -> i64 {
        let patience = Duration::from_secs(30);
        let end = |at| self.watch.fetch_watermarks(&self.feed.name, at, patience).unwrap().1;
        (0..PARTITIONS).map(end).sum()
    }

    /// Waits until a group has committed the whole topic.
    fn until_committed(&self, group: &str, instances: &mut [Instance]) {
        let ends = self.topic.ends(PARTITIONS);
        until("the group to commit the ends", || {
            for instance in &mut *instances {
                instance.must_run();
            }
            let committed = self.committed(group);
            let is_read = |(at, end): (&i32, &i64)| *end == 0 || committed.get(at) == Some(end);
            ends.iter().all(is_read).then_some(())
        });
    }

    /// The version of the record at offset 0: there is one epoch.
    fn base(&self, store: &ScyllaStore) -> i64 {
        let epochs = self.keyspace.runtime.block_on(store.epochs()).unwrap();
        assert_eq!(epochs.len(), 1);
        epochs[0].base.get()
    }

    /// The source of each dead letter.
    fn dead_letters(&self) -> BTreeSet<Place> {
        let letters = self.topic.records_of(&self.letters.name);
        let from = |letter: &crate::topic::StoredRecord| {
            let number = |name: &str| letter.header(name).parse().unwrap();
            let element = letter.headers.contains_key("tstar-element");
            let element = element.then(|| letter.header("tstar-element").parse().unwrap());
            let offset = letter.header("__connect.errors.offset").parse().unwrap();
            (number("__connect.errors.partition"), offset, element)
        };
        letters.iter().map(from).collect()
    }

    fn remove(self) {
        for topic in [&self.topic, &self.feed, &self.letters].into_iter().chain(&self.table) {
            topic.remove();
        }
    }
}

/// What an instance logs about a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LoggedEvent {
    Assigned(i32),
    Revoked(i32),
    Lost(i32),
}

/// A running daemon, killed when dropped.
struct Instance {
    words: String,
    child: Child,
    /// Files for its stdout and stderr.
    printed: PathBuf,
    said: PathBuf,
}

impl Instance {
    fn start(folder: &Folder, words: &str, name: &str) -> Self {
        let (printed, said) = (folder.path(&format!("{name}.out")), folder.path(name));
        let mut command = folder.command(words);
        let command = command.stdout(File::create(&printed).unwrap());
        let child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
        Self { words: words.to_owned(), child, printed, said }
    }

    /// Its log's name, its process id and its log.
    fn describe(&self) -> String {
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        format!("{}, pid {}\n{said}", self.said.display(), self.child.id())
    }

    fn signal(&self, name: &str) {
        support::signal(self.child.id(), name);
    }

    /// How often its log contains this.
    fn times(&self, words: &str) -> usize {
        std::fs::read_to_string(&self.said).unwrap().matches(words).count()
    }

    /// What it logged about partitions, in order.
    fn logged(&self) -> Vec<LoggedEvent> {
        let text = std::fs::read_to_string(&self.said).unwrap();
        assert!(!text.contains("stopped until"), "{text}");
        let read = |line: &str| {
            let (_, event) = line.split_once("partition ")?;
            let (partition, what) = event.split_once(": ")?;
            let partition = partition.parse().ok()?;
            match what.split(' ').next()? {
                "reading" => Some(LoggedEvent::Assigned(partition)),
                "revoked" | "revoked," => Some(LoggedEvent::Revoked(partition)),
                "lost," => Some(LoggedEvent::Lost(partition)),
                _ => None,
            }
        };
        text.lines().filter_map(read).collect()
    }

    /// The partitions that it has now.
    fn holds(&self) -> BTreeSet<i32> {
        let mut holds = BTreeSet::new();
        for said in self.logged() {
            match said {
                LoggedEvent::Assigned(partition) => holds.insert(partition),
                LoggedEvent::Revoked(partition) | LoggedEvent::Lost(partition) => {
                    holds.remove(&partition)
                }
            };
        }
        holds
    }

    #[track_caller]
    fn must_run(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("an instance ended: {status}\ntstar {}\n{}", self.words, self.describe());
        }
    }

    /// Asks it to stop, as an operator would.
    fn stop(&self) {
        until_handles_term(&self.child);
        self.signal("TERM");
    }

    /// Waits for its end, as after SIGTERM; returns its summary.
    #[track_caller]
    fn drains(&mut self) -> Value {
        self.ran().ends(0).json()
    }

    /// The same, but the group may take its partitions away before all is stored: with sessions
    /// this short, an instance on a busy machine can be silent for too long. With a table topic,
    /// one that was silent may also write the table of a partition that this one has since. It
    /// has to say so.
    #[track_caller]
    fn leaves(&mut self) {
        let ran = self.ran();
        let said = ran.stderr.split_once("stopping: ").map_or("", |(_, said)| said);
        let is_fenced = self.words.contains("--table-topic") && said.contains("took them over");
        let is_expelled = said.contains("lost, another member owns it") || is_fenced;
        let code = if ran.code == Some(143) && is_expelled { 143 } else { 0 };
        ran.ends(code);
    }

    fn ran(&mut self) -> Ran {
        // Several drain at once, and all are described when one does not.
        let what = format!("pid {} to drain", self.child.id());
        let status = until(&what, || self.child.try_wait().unwrap());
        Ran {
            words: self.words.clone(),
            code: status.code(),
            stdout: std::fs::read(&self.printed).unwrap(),
            stderr: std::fs::read_to_string(&self.said).unwrap(),
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
