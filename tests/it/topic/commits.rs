//! Commits: each is sent once, and again if the brokers do not keep it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::consumer::{
    self, Assignment, ConsumerConfig, ConsumerEvent, DrainResult, MemberSettings,
};
use tstar::internals::kafka::partition_handle::WorkerExit;
use tstar::internals::kafka::topics::StartFrom;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar;
use tstar::internals::model::scalar::Version;

use super::keyspace::until_committed;
use super::{PARTITIONS, REQUEST_TIMEOUT, Topic, fleet};
use crate::cli::{Folder, minutes};
use crate::faults::until;
use crate::http::Server;
use crate::keyspace::Keyspace;
use crate::servers::LIMIT;

/// How many commits of a group the brokers have kept, by partition.
fn commits(topic: &Topic, group: &str) -> BTreeMap<i32, usize> {
    let mut commits = BTreeMap::new();
    for record in topic.records_of("__consumer_offsets") {
        if let Some(partition) = record.key.and_then(|key| committed_partition(&key, group)) {
            *commits.entry(partition).or_default() += 1;
        }
    }
    commits
}

/// The partition of a record of the offsets topic: its key is the format's number, 0 or 1, then
/// group, topic and partition.
fn committed_partition(key: &[u8], group: &str) -> Option<i32> {
    let (form, mut rest) = key.split_first_chunk::<2>()?;
    if i16::from_be_bytes(*form) > 1 {
        return None;
    }
    let mut text = || {
        let (length, bytes) = rest.split_first_chunk::<2>()?;
        let (text, after) = bytes.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = after;
        Some(text)
    };
    let name = text()?;
    text()?;
    let partition = i32::from_be_bytes(rest.try_into().ok()?);
    (name == group.as_bytes()).then_some(partition)
}

/// Waits until the metric equals the committed offsets; returns them.
fn until_shown(server: &Server, topic: &Topic) -> BTreeMap<i32, i64> {
    until("the metric to say what is committed", || {
        let committed = topic.committed(&topic.name, PARTITIONS);
        let is_shown = |partition: i32| {
            let series = format!(
                "tstar_kafka_committed_offset{{topic=\"{}\",partition=\"{partition}\"}}",
                topic.name
            );
            let offset = committed.get(&partition).copied().unwrap_or(0);
            server.metric(&series) == Some(offset as f64)
        };
        (0..PARTITIONS).all(is_shown).then_some(committed.clone())
    })
}

#[test]
fn the_metric_is_what_the_group_has_and_nothing_is_committed_where_nothing_moved() {
    let (Some(topic), Some(keyspace)) = (Topic::new(PARTITIONS), Keyspace::bare()) else { return };
    let folder = Folder::new();
    topic.send_lines(&fleet(&folder, 2_000), "no-device");
    let words = format!(
        "run {} --store {} --group {} --from earliest --create-topics --create-schema",
        topic.flags(),
        keyspace.url,
        topic.name
    );
    let server = Server::start(&folder, &words);
    until_committed(&topic, &topic.name);
    assert_eq!(until_shown(&server, &topic), topic.ends(PARTITIONS));
    let before = commits(&topic, &topic.name);
    // Each of these is committed, and shown by the client's statistics, which come every 2 s.
    let mut moved = topic.ends(PARTITIONS);
    for minute in [1, 2, 3] {
        topic.send_lines(minutes("truck-1", &[minute]).as_bytes(), "no-device");
        until_committed(&topic, &topic.name);
        until_shown(&server, &topic);
    }
    moved.retain(|partition, end| topic.ends(PARTITIONS)[partition] != *end);
    assert_eq!(moved.len(), 1, "one device: {moved:?}");
    let after = commits(&topic, &topic.name);
    println!("commits before and after: {before:?}, {after:?}");
    for (partition, count) in after {
        let before = before.get(&partition).copied().unwrap_or(0);
        if moved.contains_key(&partition) {
            assert!(count >= before + 3, "partition {partition}: {before}, {count}");
        } else {
            assert_eq!(count, before, "partition {partition} did not move");
        }
    }
    assert_eq!(server.metric("tstar_kafka_commits_repeated_total"), Some(0.0));
    server.drain();
}

fn committed(brokers: &str) -> Option<i64> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "lost")
        .create()
        .unwrap();
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition("samples", 0);
    let answer = consumer.committed_offsets(wanted, REQUEST_TIMEOUT).unwrap();
    match answer.elements()[0].offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

/// A configuration to read the topic of a mock cluster.
fn config(brokers: &str) -> ConsumerConfig {
    ConsumerConfig {
        brokers: Brokers::new(brokers, BTreeMap::new()).unwrap(),
        topic: "samples".into(),
        member: MemberSettings {
            revoke_timeout: Duration::from_secs(1),
            drain_timeout: LIMIT,
            ..MemberSettings::new("lost")
        },
        assignment: Assignment::Group { from: Some(StartFrom::Earliest) },
        epoch: Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: 1,
            start_offsets: BTreeMap::new(),
            base: Version(1),
            rules: Rules::default(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        },
        memory: 1 << 20,
    }
}

#[test]
fn a_commit_that_the_brokers_refused_is_reported_and_repeated() {
    let cluster = MockCluster::new(1).unwrap();
    let brokers = cluster.bootstrap_servers();
    cluster.create_topic("samples", 1, 1).unwrap();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
    producer.send(BaseRecord::to("samples").key("truck-1").payload("{}")).unwrap();
    producer.flush(REQUEST_TIMEOUT).unwrap();
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[refusal]);

    let (config, halt) = (config(&brokers), Arc::<AtomicBool>::default());
    let (to, mut handed) = tokio::sync::mpsc::unbounded_channel();
    let (sender, events) = mpsc::channel();
    let on_event: consumer::OnConsumerEvent = Arc::new(move |it| sender.send(it).unwrap());
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| {
            let ended = |drained: Result<_, _>| assert_eq!(drained.unwrap(), DrainResult::All);
            consumer::run(&config, to, &on_event, Arc::clone(&halt), ended);
        });
        let mut handed = handed.blocking_recv().unwrap();
        while handed.batches.blocking_recv().unwrap().next_offset() != Some(scalar::Offset(1)) {}
        handed.holding.acknowledge(scalar::Offset(1));
        let until_warned = |words: &str| loop {
            match events.recv_timeout(LIMIT).expect(words) {
                ConsumerEvent::Warning(problem) if problem.contains(words) => return,
                other => println!("{other:?}"),
            }
        };
        // The client reports the refusal, and the statistics its effect.
        until_warned("Group authorization failed");
        assert_eq!(committed(&brokers), None);
        until_warned("partition 0: the brokers do not keep offset 1");
        until("the second commit", || (committed(&brokers) == Some(1)).then_some(()));
        handed.holding.end(WorkerExit::Drained);
        halt.store(true, Ordering::Release);
        polling.join().unwrap();
    });
}
