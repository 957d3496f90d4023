//! Three nodes with three replicas, one of them down at a time.

use std::collections::BTreeSet;
use std::net::IpAddr;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use tokio::runtime::Runtime;
use tstar::internals::model::time::format_time;

use super::{Daemon, PARTITIONS, are_same, committed, fleet, import, keyed, letters, sample};
use crate::cli::Folder;
use crate::servers::ready::until;
use crate::servers::{LIMIT, Server, free_port, start_cassandra};
use crate::topic::Topic;

pub(super) const HOSTS: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];

/// Lines per round.
const LINES: usize = 500;

/// Rounds while a node is down.
const ROUNDS: usize = 3;

/// Nodes of one cluster, with their data in folders that are named like their hosts.
pub(super) struct Cluster {
    pub(super) nodes: Vec<Server>,
    runtime: Runtime,
    session: Session,
}

impl Cluster {
    pub(super) fn start(folder: &Folder) -> Option<Self> {
        let port = free_port();
        let mut nodes = Vec::new();
        for host in HOSTS {
            let mut node = start_cassandra(&folder.path(host), port, host, HOSTS[0])?;
            node.wait_until_ready(LIMIT);
            nodes.push(node);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let known = nodes.iter().map(Server::address);
        let builder = SessionBuilder::new().known_nodes(known);
        let session = runtime.block_on(builder.build()).unwrap();
        Some(Self { nodes, runtime, session })
    }

    pub(super) fn store(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(Server::address).collect();
        format!("scylla://{}/fleet", nodes.join(","))
    }

    /// The other nodes that a node knows, once it knows both.
    fn peers(&self, node: usize) -> Vec<IpAddr> {
        let address = self.nodes[node].address().parse().unwrap();
        let only = NodeIdentifier::NodeAddress(address);
        let mut select = Statement::new("SELECT peer FROM system.peers");
        select.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(only, None)));
        let ask = || {
            // The session may not know a new node yet.
            self.runtime.block_on(self.session.refresh_metadata()).ok()?;
            let rows =
                self.runtime.block_on(self.session.query_unpaged(select.clone(), ())).ok()?;
            let rows = rows.into_rows_result().unwrap();
            let rows = rows.rows::<(IpAddr,)>().unwrap();
            let peers: BTreeSet<_> = rows.map(|row| row.unwrap().0).collect();
            (peers.len() == HOSTS.len() - 1).then(|| peers.into_iter().collect())
        };
        until("three nodes to be one cluster", LIMIT, ask, || None)
    }

    /// Waits until all nodes answer a query together.
    pub(super) fn until_whole(&self) {
        let ask = || {
            let mut select = Statement::new("SELECT topic FROM fleet.epochs");
            select.set_consistency(Consistency::All);
            self.runtime.block_on(self.session.query_unpaged(select, ())).ok().map(drop)
        };
        until("an answer of all three nodes", LIMIT, ask, || None);
    }
}

/// A daemon under load.
struct Load<'a> {
    folder: &'a Folder,
    topic: &'a Topic,
    daemon: Daemon,
    lines: std::slice::Chunks<'a, &'a [u8]>,
    /// A sample that is stored from the beginning on.
    known: (String, i64),
}

impl Load<'_> {
    fn send(&mut self) {
        let lines = self.lines.next().expect("enough lines").concat();
        self.topic.send(&keyed(&lines));
    }

    fn until_committed(&mut self) {
        self.daemon.until_committed(self.topic, &self.topic.name);
    }

    /// Trips that the store acknowledged: each is announced after that.
    fn acknowledged(&self) -> usize {
        self.topic.records_of(&format!("{}.trips", self.topic.name)).len()
    }

    fn looks_up(&self, store: &str) {
        let (device, time) = &self.known;
        let words = format!("lookup {device} {} --json --store {store}", format_time(*time));
        let found = self.folder.run(&words).ends(0).json();
        assert_eq!(found["device_id"], device.as_str());
    }

    /// Everything continues without a node, and with it again.
    fn loses(&mut self, cluster: &mut Cluster, down: usize) {
        let store = cluster.store();
        let before = (self.acknowledged(), committed(self.topic, &self.topic.name));
        self.send();
        cluster.nodes[down].kill();
        for _ in 0..ROUNDS {
            self.send();
            self.looks_up(&store);
            self.until_committed();
        }
        let writes = self.acknowledged() - before.0;
        let records = committed(self.topic, &self.topic.name) - before.1;
        println!(
            "{} down: {writes} writes acknowledged, {records} records committed, {ROUNDS} lookups",
            HOSTS[down]
        );
        assert!(writes > 0 && records == ((ROUNDS + 1) * LINES) as i64);
        cluster.nodes[down].restart();
        self.send();
        cluster.nodes[down].wait_until_ready(LIMIT);
        cluster.until_whole();
        self.until_committed();
    }
}

#[test]
#[ignore = "at night: tests/nightly/long"]
fn three_nodes_of_which_one_is_down_at_a_time_lose_nothing() {
    let folder = Folder::new();
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let Some(mut cluster) = Cluster::start(&folder) else { return };
    for (node, host) in HOSTS.iter().enumerate() {
        println!("system.peers of {host}: {:?}", cluster.peers(node));
    }
    let store = cluster.store();
    let apply = "schema apply --create-keyspace --replication-factor 3";
    folder.run(&format!("{apply} --store {store}")).ends(0);
    let rounds = 1 + HOSTS.len() * (ROUNDS + 2);
    let lines = fleet(&folder, rounds * LINES, "0.01");
    let lines: Vec<&[u8]> = lines.split_inclusive(|&byte| byte == b'\n').collect();
    let words = format!(
        "run {} --group {} --from earliest --create-topics --max-staleness 2s --store {store}",
        topic.flags(),
        topic.name
    );
    let daemon = Daemon::start(&folder, "daemon", &words);
    let known = lines.iter().find_map(|line| sample(line)).unwrap();
    let lines = lines.chunks(LINES);
    let mut load = Load { folder: &folder, topic: &topic, daemon, lines, known };
    load.send();
    load.until_committed();
    for down in 0..HOSTS.len() {
        load.loses(&mut cluster, down);
    }
    let waits = load.daemon.times("waiting for the store");
    let summary = load.daemon.drain();
    let expected = import(&folder, &topic);
    let same = are_same(&folder, &store, "sqlite:calm.db");
    assert_eq!(serde_json::to_value(letters(&topic)).unwrap(), expected["dead_letters"]);
    println!("{same} trips, delivered {}, {waits} waits logged", summary["delivered"]);
}
