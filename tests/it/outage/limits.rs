//! A store that does not answer while a daemon has a time limit: on shutdown, and for a partition
//! that it hands over.

use serde_json::{Value, json};

use super::proxy::{Fault, FaultProxy};
use super::{Daemon, PARTITIONS};
use crate::cli::{Folder, minutes};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::LIMIT;
use crate::servers::ready::until;
use crate::topic::Topic;

/// A keyspace, and a proxy in front of it.
struct Case {
    topic: Topic,
    keyspace: Keyspace,
    folder: Folder,
    between: FaultProxy,
}

impl Case {
    fn new() -> Option<Self> {
        let topic = Topic::new(PARTITIONS)?;
        let keyspace = Keyspace::new(ClusteringOrder::Desc)?;
        let between = FaultProxy::start(&keyspace.url.nodes[0]);
        Some(Self { topic, keyspace, folder: Folder::new(), between })
    }

    /// The store, by the proxy or directly.
    fn store(&self, node: &str) -> String {
        format!("--store scylla://{node}/{}", self.keyspace.url.keyspace)
    }

    fn words(&self, node: &str) -> String {
        let (topic, store) = (&self.topic, self.store(node));
        let log = format!("{} --group {}", topic.flags(), topic.name);
        // A lost member is noticed soon.
        let haste = "--kafka session.timeout.ms=3000 --kafka heartbeat.interval.ms=300";
        format!("run {log} {store} --from earliest --create-topics --listen off {haste}")
    }

    /// A daemon behind the proxy that has all partitions.
    fn start(&self, flags: &str) -> Daemon {
        let words = format!("{} {flags}", self.words(&self.between.address.to_string()));
        let mut daemon = Daemon::start(&self.folder, "behind", &words);
        daemon.until_says("reading from offset", PARTITIONS as usize - 1);
        daemon
    }

    /// Trips of nine devices.
    fn lines() -> String {
        (1..=9).map(|truck| minutes(&format!("truck-{truck}"), &[1, 2, 3])).collect()
    }

    /// From now on the store does not answer, and there are records for it.
    fn begin(&mut self, daemon: &mut Daemon) {
        let mut lost = self.between.inject(Fault::Dropped, usize::MAX);
        self.topic.send_lines(Self::lines().as_bytes(), "");
        let ask = || (lost.count() > 0).then_some(());
        until("a request that is lost", LIMIT, ask, || daemon.ended());
    }

    /// Each trip is stored as it would be by an import.
    fn is_whole(&self) {
        self.folder.write("all.ndjson", Self::lines());
        self.folder.ingest("all.ndjson --store sqlite:file.db");
        let spans = |store: &str| {
            let trips = self.folder.run(&format!("export {store}")).ends(0).objects();
            let span = |trip: &Value| json!([trip["id"], trip["end_time"], trip["samples"]]);
            trips.iter().map(span).collect::<Vec<_>>()
        };
        let direct = self.store(&self.keyspace.url.nodes[0]);
        assert_eq!(spans(&direct), spans("--store sqlite:file.db"));
    }
}

#[test]
fn what_is_not_stored_within_drain_timeout_is_read_again() {
    let Some(mut case) = Case::new() else { return };
    let mut daemon = case.start("--drain-timeout 2s");
    case.begin(&mut daemon);
    daemon.signal("TERM");
    let ended = until("its end", LIMIT, || daemon.ended(), || None);
    assert!(ended.contains("exit status: 143"), "{ended}");
    assert!(ended.contains("could be stored within --drain-timeout, 2 s"), "{ended}");
    case.between.calm();
    let mut next = Daemon::start(&case.folder, "next", &case.words(&case.keyspace.url.nodes[0]));
    next.until_committed(&case.topic, &case.topic.name);
    next.drain();
    case.is_whole();
}

#[test]
fn what_is_not_stored_within_revoke_timeout_is_left_to_the_next_owner() {
    let Some(mut case) = Case::new() else { return };
    let mut first = case.start("--revoke-timeout 1s");
    case.begin(&mut first);
    let mut second =
        Daemon::start(&case.folder, "second", &case.words(&case.keyspace.url.nodes[0]));
    first.until_says("revoked before everything was stored", 0);
    second.until_says("reading from offset", 0);
    // It still has other partitions, and answers its group.
    first.is_up();
    drop(first);
    second.until_committed(&case.topic, &case.topic.name);
    second.drain();
    case.is_whole();
}
