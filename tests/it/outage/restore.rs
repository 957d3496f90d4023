//! Keyspaces that are lost, and restored: from snapshots of the nodes and the positions that were
//! copied before them, or from nothing but the log.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::nodes::{Cluster, HOSTS};
use super::{Daemon, PARTITIONS, fleet, keyed};
use crate::cli::Folder;
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::{LIMIT, Server, free_port};
use crate::topic::Topic;

/// What `run` says of a partition whose rows are behind the group, and once they have caught up.
const BEHIND: &str = "it was restored; reading again from";
const CAUGHT_UP: &str = "the store has what it had before";

/// Everything of each trip, versions included.
fn export(folder: &Folder, store: &str) -> Vec<Value> {
    let mut trips = folder.run(&format!("export --path --store {store}")).ends(0).objects();
    trips.sort_by_cached_key(|trip| trip["id"].to_string());
    trips
}

/// Puts a snapshot in the place of what a node has of the keyspace.
fn put_back(node: &Path, snapshots: [(&str, &str); 2]) {
    for lost in ["commitlog", "hints", "saved_caches"] {
        fs::remove_dir_all(node.join(lost)).unwrap();
    }
    let children = |folder: &Path| fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    // A snapshot also has a list of its files and the statements of its table.
    let is_of_table = |it: &PathBuf| it.extension().is_none_or(|end| end != "json" && end != "cql");
    for table in children(&node.join("data/fleet")) {
        children(&table).filter(|it| it.is_file()).for_each(|it| fs::remove_file(it).unwrap());
        let name = table.file_name().unwrap().to_str().unwrap();
        let (_, snapshot) = snapshots.iter().rfind(|(it, _)| name.starts_with(it)).unwrap();
        let snapshot = table.join("snapshots").join(snapshot);
        for file in children(&snapshot).filter(is_of_table) {
            fs::copy(&file, table.join(file.file_name().unwrap())).unwrap();
        }
    }
}

/// The flags of a daemon that writes often.
fn words(topic: &Topic, store: &str) -> String {
    let flags = format!("{} --group {} --store {store}", topic.flags(), topic.name);
    format!("run {flags} --from earliest --create-topics --flush-interval 5ms --max-staleness 50ms")
}

/// Runs a daemon until the rows of every partition have caught up with the group.
fn catch_up(folder: &Folder, topic: &Topic, store: &str) {
    let before = topic.committed(&topic.name, PARTITIONS);
    let mut daemon = Daemon::start(folder, "again", &words(topic, store));
    daemon.until_says(CAUGHT_UP, PARTITIONS as usize - 1);
    assert_eq!(daemon.times(BEHIND), PARTITIONS as usize);
    let committed = topic.committed(&topic.name, PARTITIONS);
    assert_eq!(committed, before, "the offsets of the group are not set back");
    daemon.drain();
}

#[test]
#[ignore = "at night: tests/nightly/long"]
fn a_lost_keyspace_is_restored_and_ends_as_if_nothing_had_happened() {
    let folder = Folder::new();
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    for host in HOSTS {
        fs::create_dir(folder.path(host)).unwrap();
        folder.write(&format!("{host}/jmx"), free_port().to_string());
    }
    let Some(mut cluster) = Cluster::start(&folder) else { return };
    let store = cluster.store();
    let apply = "schema apply --create-keyspace --replication-factor 3";
    folder.run(&format!("{apply} --store {store}")).ends(0);
    let refused = folder.run(&format!("backup positions p.json --store {store}"));
    refused.ends(78).says(&["has read no topic"]);

    let records = keyed(&fleet(&folder, 9_000, "0"));
    let (first, rest) = records.split_at(3_000);
    topic.send(first);
    let mut daemon = Daemon::start(&folder, "first", &words(&topic, &store));
    daemon.until_committed(&topic, &topic.name);
    let copied = folder.run(&format!("backup positions p.json --store {store}")).ends(0).json();
    assert_eq!(copied["topic"], topic.name.as_str());
    // The snapshots are later and of different moments, while rows are written.
    let (during, last) = rest.split_at(3_000);
    for (node, part) in cluster.nodes.iter().zip(during.chunks(1_000)) {
        topic.send(part);
        node.nodetool(&["snapshot", "-t", "rows", "fleet"]);
    }
    for node in &cluster.nodes {
        node.nodetool(&["snapshot", "-t", "rows-forgets", "--table", "forgets", "fleet"]);
    }
    topic.send(last);
    daemon.until_committed(&topic, &topic.name);
    daemon.drain();
    let expected = export(&folder, &store);

    cluster.nodes.iter_mut().for_each(Server::kill);
    for (node, host) in cluster.nodes.iter_mut().zip(HOSTS) {
        put_back(&folder.path(host), [("", "rows"), ("forgets-", "rows-forgets")]);
        node.restart();
        node.wait_until_ready(LIMIT);
    }
    cluster.until_whole();
    assert_ne!(export(&folder, &store), expected, "nothing was lost");
    let restored = folder.run(&format!("restore positions p.json --store {store}")).ends(0).json();
    assert_eq!(restored, copied, "those of the snapshot are higher");
    let verify =
        format!("verify --brokers {} --group {} --store {store}", topic.brokers, topic.name);
    catch_up(&folder, &topic, &store);
    assert_eq!(export(&folder, &store), expected);
    folder.run(&verify).ends(0);
    topic.remove();
}

#[test]
#[ignore = "at night: tests/nightly/long"]
fn rows_put_back_empty_are_built_again_or_refused() {
    let folder = Folder::new();
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = format!("scylla://{}/{}", keyspace.url.nodes[0], keyspace.url.keyspace);
    topic.send(&keyed(&fleet(&folder, 3_000, "0")));
    let mut daemon = Daemon::start(&folder, "first", &words(&topic, &store));
    daemon.until_committed(&topic, &topic.name);
    daemon.drain();
    let expected = export(&folder, &store);
    let lose = |and_epochs: &[&str]| {
        let rows = ["trips", "device_days", "days_of_device", "claims", "positions"];
        rows.iter().chain(and_epochs).for_each(|table| keyspace.run(&format!("TRUNCATE {table}")));
        assert!(export(&folder, &store).is_empty());
    };
    lose(&[]);
    catch_up(&folder, &topic, &store);
    assert_eq!(export(&folder, &store), expected);

    // Without its epoch, it is as a new one: `--from` says where that starts.
    lose(&["epochs"]);
    catch_up(&folder, &topic, &store);
    let ids = |trips: &[Value]| trips.iter().map(|trip| trip["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&export(&folder, &store)), ids(&expected));

    // A partition was read again, but its first records are gone.
    lose(&[]);
    let end = topic.ends(PARTITIONS)[&0];
    topic.delete_records_before(0, end / 2);
    let refused = words(&topic, &store).replace(" --from earliest", "");
    let refused = folder.run(&refused).ends(78);
    refused.says(&["of partition 0", "expired before they were read", "--from"]);
    topic.remove();
}
