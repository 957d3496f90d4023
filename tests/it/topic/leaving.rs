//! Daemons that leave their group, at any moment.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use super::keyspace::{log, store};
use super::{PARTITIONS, Topic, drain, start};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::http::Server;
use crate::keyspace::{ClusteringOrder, Keyspace};

#[test]
fn a_daemon_without_partitions_leaves_its_group() {
    let (Some(topic), Some(keyspace)) = (Topic::new(1), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let folder = Folder::new();
    let words = format!("run {} {} --from earliest --create-topics", log(&topic), store(&keyspace));
    let mut first = start(&folder, &words);
    first.until_says("reading from offset", &mut String::new());
    let second = start(&folder, &words);
    let has_settled = |members| topic.group(&topic.name) == Some(("Stable".to_owned(), members));
    until("both to be members", || has_settled(2).then_some(()));
    drain(second, &words).ends(0);
    // The group would wait for a member that is gone.
    assert_eq!(topic.group(&topic.name).unwrap().1, 1);
    drain(first, &words).ends(0);
    assert_eq!(topic.group(&topic.name).unwrap().1, 0);
}

/// A member of the group that answers no rebalance until it is polled, however long that takes.
fn member(topic: &Topic) -> BaseConsumer {
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &topic.brokers)
        .set("group.id", &topic.name)
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("enable.auto.commit", "false")
        .set("max.poll.interval.ms", "3600000")
        .create()
        .unwrap();
    member.subscribe(&[&topic.name]).unwrap();
    member
}

/// A daemon that has read a sample of each partition, and stored none of the two that it keeps: it
/// has given up the others for a new member, and waits for that one to join again.
fn waiting(topic: &Topic, keyspace: &Keyspace, limit: &str) -> (Folder, Server, BaseConsumer) {
    let folder = Folder::new();
    let words = format!(
        "run {} {} --from earliest --create-topics --flush-interval 1h --max-staleness 1h \
         --drain-timeout {limit}",
        log(topic),
        store(keyspace)
    );
    let server = Server::start(&folder, &words);
    let is_filled = || topic.ends(PARTITIONS).values().all(|end| *end > 0);
    for nth in (1..).take_while(|_| !is_filled()) {
        let device = format!("truck-{nth}");
        topic.send_lines(minutes(&device, &[1]).as_bytes(), "no-device");
        let at = "2024-05-01T08:01:00Z";
        let read = || server.get(&format!("/v1/trips/lookup?device={device}&at={at}"));
        until("a sample to be read", || (read().status == 200).then_some(()));
    }
    let member = member(topic);
    let revoked = || (server.said().matches("revoked, committed").count() == 2).then_some(());
    until("partitions to be revoked", revoked);
    (folder, server, member)
}

#[test]
fn a_daemon_that_stops_commits_once_the_other_members_have_joined() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let (_folder, server, member) = waiting(&topic, &keyspace, "300s");
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| server.drain());
        while !drained.is_finished() {
            member.poll(Duration::from_millis(20));
        }
        drained.join().unwrap();
    });
    assert_eq!(topic.committed(&topic.name, PARTITIONS), topic.ends(PARTITIONS));
}

#[test]
fn a_daemon_ends_though_its_group_waits_for_another_member() {
    let (Some(topic), Some(keyspace)) =
        (Topic::new(PARTITIONS), Keyspace::new(ClusteringOrder::Desc))
    else {
        return;
    };
    let (_folder, server, _member) = waiting(&topic, &keyspace, "1s");
    let said = server.ends(143);
    for words in ["the group waits for another instance to join it", "within --drain-timeout"] {
        assert!(said.contains(words), "{said}");
    }
}
