//! Servers that are absent at the start, or killed under load.

use super::{Daemon, PARTITIONS, are_same, committed, fleet, import, keyed, letters, sent};
use crate::cli::Folder;
use crate::servers::ready::until;
use crate::servers::{LIMIT, Server, free_port, start_cassandra, start_kafka};
use crate::support::{block_on, times};
use crate::topic::Topic;

const GROUP: &str = "tstar";
const WAITS: &str = "waiting for the store";
const NO_BROKER: &str = "no Kafka broker";

/// Lines per request: few, so that sending all takes much longer than the first commit.
const AT_A_TIME: usize = 40;

/// Servers of this test only, with a topic and a keyspace.
pub(super) struct OwnServers {
    pub(super) broker: Server,
    pub(super) node: Server,
    pub(super) topic: Topic,
    pub(super) store: String,
}

impl OwnServers {
    pub(super) fn start(folder: &Folder) -> Option<Self> {
        let (kafka, cql) = (folder.path("kafka"), folder.path("cassandra"));
        let mut node = start_cassandra(&cql, free_port(), "127.0.0.1", "127.0.0.1")?;
        let mut broker = start_kafka(&kafka, free_port())?;
        broker.wait_until_ready(LIMIT);
        let topic = Topic::on(broker.address(), "samples".into(), PARTITIONS, &[]);
        node.wait_until_ready(LIMIT);
        let store = format!("scylla://{}/fleet", node.address());
        folder.run(&format!("schema apply --create-keyspace --store {store}")).ends(0);
        Some(Self { broker, node, topic, store })
    }

    /// Starts the daemon without servers; it logs what it waits for, and reads once they run.
    fn comes_late(&mut self, folder: &Folder, words: &str) -> Daemon {
        self.broker.kill();
        self.node.kill();
        let mut daemon = Daemon::start(folder, "daemon", words);
        daemon.until_says(WAITS, 0);
        daemon.is_up();
        self.node.restart();
        self.node.wait_until_ready(LIMIT);
        daemon.until_says(NO_BROKER, 0);
        daemon.is_up();
        self.broker.restart();
        self.broker.wait_until_ready(LIMIT);
        daemon.until_says("reading from offset", PARTITIONS as usize - 1);
        daemon
    }

    /// The broker dies while records are sent and read.
    fn loses_its_broker(&mut self, daemon: &mut Daemon, lines: &[u8]) {
        let Self { broker, topic, .. } = self;
        let troubles = daemon.times("kafka: ");
        under_load(topic, daemon, lines, |daemon| {
            broker.kill();
            daemon.until_says("kafka: ", troubles);
            daemon.is_up();
            broker.restart();
            broker.wait_until_ready(LIMIT);
        });
    }

    /// The node dies while trips are written and records keep coming.
    fn loses_its_node(&mut self, daemon: &mut Daemon, lines: &[u8]) {
        let Self { node, topic, .. } = self;
        let waits = daemon.times(WAITS);
        under_load(topic, daemon, lines, |daemon| {
            node.kill();
            daemon.until_says(WAITS, waits);
            let all = sent(topic);
            let down = committed(topic, GROUP);
            assert!(down < all, "all {all} committed without a store");
            daemon.is_up();
            node.restart();
            node.wait_until_ready(LIMIT);
        });
    }
}

/// Sends lines in small groups; the fault comes between them, once the daemon has stored some. The
/// second half is held back until then, so that there is a load however fast the machine is.
fn under_load(topic: &Topic, daemon: &mut Daemon, lines: &[u8], fault: impl FnOnce(&mut Daemon)) {
    let before = committed(topic, GROUP);
    let (producer, records) = (topic.producer(), keyed(lines));
    let (first, second) = records.split_at(records.len() / 2);
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let send = |records: &[_]| {
            for chunk in records.chunks(AT_A_TIME) {
                block_on(producer.send(&topic.name, chunk)).unwrap();
            }
        };
        scope.spawn(move || {
            send(first);
            // If the test fails before that, the sender is dropped.
            begun.recv().ok();
            send(second);
        });
        let ask = || Some(committed(topic, GROUP)).filter(|now| *now > before);
        let now = until("the next commit", LIMIT, ask, || daemon.ended());
        begin.send(()).unwrap();
        fault(daemon);
        println!(
            "a server killed at {now} records committed of {} in the end",
            before as usize + records.len()
        );
    });
    daemon.until_committed(topic, GROUP);
}

#[test]
fn servers_that_come_late_and_are_killed_under_load_cost_nothing() {
    let folder = Folder::new();
    let Some(mut own) = OwnServers::start(&folder) else { return };
    let flags = format!("{} --store {}", own.topic.flags(), own.store);
    let words = format!("run {flags} --from earliest --create-topics --max-staleness 5s");
    let kills = ["TSTAR_TEST_BROKER_KILLS", "TSTAR_TEST_NODE_KILLS"].map(|name| times(name, 1));
    let all = usize::try_from(kills.iter().sum::<u64>()).unwrap();
    let lines_each = 60_000 / all.clamp(2, 10);
    let lines = fleet(&folder, all * lines_each, "0.01");
    let lines: Vec<&[u8]> = lines.split_inclusive(|&byte| byte == b'\n').collect();
    let mut parts = lines.chunks(lines_each).map(<[&[u8]]>::concat);

    let mut daemon = own.comes_late(&folder, &words);
    for nth in 0..kills[0].max(kills[1]) {
        if nth < kills[0] {
            own.loses_its_broker(&mut daemon, &parts.next().unwrap());
        }
        if nth < kills[1] {
            own.loses_its_node(&mut daemon, &parts.next().unwrap());
        }
    }

    let waits = [WAITS, NO_BROKER, "kafka: "].map(|word| (word, daemon.times(word)));
    let summary = daemon.drain();
    let expected = import(&folder, &own.topic);
    // What no broker acknowledged in time was sent again, and may have been kept the first time.
    let sent = sent(&own.topic);
    let is_all = sent >= lines.len() as i64 && expected["delivered"] == sent;
    assert!(is_all, "{sent}: {expected}");
    let same = are_same(&folder, &own.store, "sqlite:calm.db");
    let letters = serde_json::to_value(letters(&own.topic)).unwrap();
    assert_eq!(letters, expected["dead_letters"]);
    println!(
        "broker and node killed {kills:?} times; {same} trips, dead letters {letters}, said {waits:?}, delivered {}",
        summary["delivered"]
    );
}
