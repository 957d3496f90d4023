//! A store in two datacenters, one of which is lost for a while.

use super::{Daemon, PARTITIONS, fleet, keyed};
use crate::cli::Folder;
use crate::servers::{LIMIT, free_port, start_cassandra};
use crate::topic::Topic;

#[test]
#[ignore = "at night: tests/nightly/long"]
fn two_datacenters_have_the_same_trips_and_one_is_enough() {
    let folder = Folder::new();
    let Some(topic) = Topic::new(PARTITIONS) else { return };
    let port = free_port();
    let node = |host: &str, datacenter: &str| {
        // The script reads the name from the folder.
        std::fs::create_dir(folder.path(host)).unwrap();
        folder.write(&format!("{host}/datacenter"), datacenter);
        let mut node = start_cassandra(&folder.path(host), port, host, "127.0.0.1")?;
        node.wait_until_ready(LIMIT);
        Some(node)
    };
    let (Some(_east), Some(mut west)) = (node("127.0.0.1", "east"), node("127.0.0.2", "west"))
    else {
        return;
    };
    let at = |host: &str, datacenter: &str| {
        format!("--store scylla://{host}:{port}/fleet --datacenter {datacenter}")
    };
    let (in_east, in_west) = (at("127.0.0.1", "east"), at("127.0.0.2", "west"));
    let apply = "schema apply --create-keyspace --replication-factor 1 --consistency quorum";
    folder.run(&format!("{apply} {in_east}")).ends(0);
    let group = format!("--group {}", topic.name);
    let words = |store: &str| {
        format!("run {} {group} {store} --from earliest --create-topics", topic.flags())
    };
    let is_right = |store: &str| {
        folder.run(&format!("verify --brokers {} {group} {store}", topic.brokers)).ends(0);
    };
    let lines = fleet(&folder, 4_000, "0");
    let lines: Vec<&[u8]> = lines.split_inclusive(|&byte| byte == b'\n').collect();
    let (first, rest) = lines.split_at(lines.len() / 2);

    // With a replica in each, a quorum is both.
    let mut daemon =
        Daemon::start(&folder, "both", &format!("{} --consistency quorum", words(&in_east)));
    topic.send(&keyed(&first.concat()));
    daemon.until_committed(&topic, &topic.name);
    daemon.drain();
    let export = |store: &str| folder.run(&format!("export {store}")).ends(0).stdout;
    let stored = export(&in_east);
    assert!(!stored.is_empty() && stored == export(&in_west));
    is_right(&in_west);

    west.kill();
    let mut daemon = Daemon::start(&folder, "east", &words(&in_east));
    topic.send(&keyed(&rest.concat()));
    daemon.until_committed(&topic, &topic.name);
    daemon.drain();
    is_right(&in_east);
    folder.run(&format!("export {in_east} --consistency quorum")).ends(69);

    west.restart();
    west.wait_until_ready(LIMIT);
    // What it missed comes with the replica of the other one.
    is_right(&format!("{in_west} --consistency quorum"));
    let stored = export(&in_east);
    assert_eq!(export(&format!("{in_west} --consistency quorum")), stored);
}
