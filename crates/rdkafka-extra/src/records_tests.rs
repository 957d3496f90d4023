use std::collections::BTreeMap;
use std::time::Instant;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::DefaultConsumerContext;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::*;

const TOPIC: &str = "samples";
const PARTITIONS: i32 = 3;
const LIMIT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

type Cluster = MockCluster<'static, DefaultProducerContext>;

/// A cluster with `count` records in each partition.
fn cluster(count: usize) -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, PARTITIONS, 1).unwrap();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers()).set("linger.ms", "5");
    let producer: BaseProducer = config.create().unwrap();
    for nth in 0..count {
        for partition in 0..PARTITIONS {
            let (key, value) = (format!("key {nth}"), value(partition, nth));
            let record = BaseRecord::to(TOPIC).partition(partition).key(&key).payload(&value);
            producer.send(record.timestamp(1_000 + nth as i64)).unwrap();
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(LIMIT).unwrap();
    cluster
}

fn value(partition: i32, nth: usize) -> String {
    format!("value {nth} of {partition}, {}", "x".repeat(nth % 100))
}

fn consumer(cluster: &Cluster, options: &[(&str, &str)]) -> RecordConsumer<DefaultConsumerContext> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "readers")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error");
    options.iter().for_each(|(name, value)| {
        config.set(*name, *value);
    });
    RecordConsumer::new(config.create::<BaseConsumer>().unwrap().into())
}

fn assign(consumer: &RecordConsumer<DefaultConsumerContext>, starts: &[(i32, i64)]) {
    let mut list = TopicPartitionList::new();
    for &(partition, offset) in starts {
        assert!(consumer.queue().redirect(consumer.consumer(), TOPIC, partition));
        list.add_partition_offset(TOPIC, partition, Offset::Offset(offset)).unwrap();
    }
    consumer.consumer().assign(&list).unwrap();
}

/// Reads until `is_done` says so of what was passed to it.
fn read_until(
    consumer: &RecordConsumer<DefaultConsumerContext>,
    mut is_done: impl FnMut(&QueuedMessage<'_>) -> bool,
) {
    let (started, mut done) = (Instant::now(), false);
    while !done {
        assert!(started.elapsed() < LIMIT, "it takes too long");
        assert!(consumer.consumer().poll(Duration::ZERO).is_none(), "nothing comes the other way");
        consumer.read(SHORT, 100, |message| done |= is_done(message));
    }
}

#[test]
fn records_of_several_partitions_come_from_one_queue_in_order() {
    let cluster = cluster(1_000);
    let consumer = consumer(&cluster, &[("enable.partition.eof", "true")]);
    assign(&consumer, &[(0, 0), (1, 10), (2, 1_000)]);
    let mut next = BTreeMap::from([(0, 0), (1, 10), (2, 1_000)]);
    let mut ends = BTreeMap::new();
    read_until(&consumer, |message| {
        let (partition, offset) = (message.partition(), message.offset());
        if let Some((code, _)) = message.error() {
            assert_eq!(code, RDKafkaErrorCode::PartitionEOF);
            assert_eq!((message.key(), message.timestamp_ms()), (None, None));
            ends.insert(partition, offset);
            return ends.len() == 3;
        }
        assert_eq!(next.insert(partition, offset + 1), Some(offset), "of {partition}");
        let nth = usize::try_from(offset).unwrap();
        assert_eq!(message.key(), Some(format!("key {nth}").as_bytes()));
        assert_eq!(message.value(), Some(value(partition, nth).as_bytes()));
        assert_eq!(message.timestamp_ms(), Some(1_000 + offset));
        assert!(message.headers().is_none());
        false
    });
    assert_eq!(next, BTreeMap::from([(0, 1_000), (1, 1_000), (2, 1_000)]));
    assert_eq!(ends, next);
}

#[test]
fn a_record_keeps_headers_of_any_bytes_and_what_it_lacks() {
    let cluster = cluster(0);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    let producer: BaseProducer = config.create().unwrap();
    let headers = OwnedHeaders::new()
        .insert(Header { key: "a", value: Some("one") })
        .insert(Header { key: "", value: Some("") })
        .insert(Header { key: "a", value: None::<&str> });
    let record = BaseRecord::<(), ()>::to(TOPIC).partition(0).headers(headers);
    producer.send(record).unwrap();
    producer.send(BaseRecord::to(TOPIC).partition(0).key("").payload("")).unwrap();
    producer.flush(LIMIT).unwrap();
    let (consumer, mut read) = (consumer(&cluster, &[]), Vec::new());
    assign(&consumer, &[(0, 0)]);
    read_until(&consumer, |message| {
        let headers = message.headers().map(|headers| {
            assert_eq!(headers.get(headers.count()), None);
            let owned =
                |(name, value): (&[u8], Option<&[u8]>)| (name.to_vec(), value.map(<[u8]>::to_vec));
            (0..headers.count()).map(|index| owned(headers.get(index).unwrap())).collect()
        });
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        read.push((owned(message.key()), owned(message.value()), headers));
        read.len() == 2
    });
    let one: Vec<(Vec<u8>, Option<Vec<u8>>)> = vec![
        (b"a".to_vec(), Some(b"one".to_vec())),
        (Vec::new(), Some(Vec::new())),
        (b"a".to_vec(), None),
    ];
    assert_eq!(read[0], (None, None, Some(one)));
    assert_eq!(read[1], (Some(Vec::new()), Some(Vec::new()), None));
}

#[test]
fn pauses_seeks_and_new_assignments_lose_and_repeat_nothing() {
    let cluster = cluster(2_000);
    let consumer = consumer(&cluster, &[]);
    assign(&consumer, &[(0, 0), (1, 0)]);
    let mut list = TopicPartitionList::new();
    list.add_partition(TOPIC, 0);
    let (started, mut next, mut reads) = (Instant::now(), [0, 0], 0);
    while next != [2_000, 2_000] {
        assert!(started.elapsed() < LIMIT, "it takes too long, at {next:?}");
        consumer.read(SHORT, 64, |message| {
            assert_eq!(message.error(), None);
            let partition = usize::try_from(message.partition()).unwrap();
            assert_eq!(message.offset(), next[partition]);
            next[partition] += 1;
        });
        reads += 1;
        // Each time, librdkafka discards what it has fetched, and fetches it again.
        match reads % 3 {
            0 => consumer.consumer().pause(&list).unwrap(),
            1 => consumer.consumer().resume(&list).unwrap(),
            _ => (),
        }
    }
    consumer.consumer().resume(&list).unwrap();
    consumer.consumer().seek(TOPIC, 1, Offset::Offset(1_500), LIMIT).unwrap();
    let mut next = 1_500;
    read_until(&consumer, |message| {
        assert_eq!((message.partition(), message.offset()), (1, next));
        next += 1;
        true
    });
    // The rest of the queue is of an assignment that is over.
    consumer.consumer().unassign().unwrap();
    assign(&consumer, &[(2, 7)]);
    let mut next = 7;
    read_until(&consumer, |message| {
        assert_eq!((message.partition(), message.offset()), (2, next));
        next += 1;
        next == 2_000
    });
}

#[test]
fn rebalances_and_errors_of_the_start_are_not_swallowed() {
    let cluster = cluster(10);
    let consumer = consumer(&cluster, &[("session.timeout.ms", "6000")]);
    consumer.consumer().subscribe(&[TOPIC]).unwrap();
    let (started, mut first) = (Instant::now(), BTreeMap::new());
    // The context of this test assigns by itself, so only the second assignment is redirected.
    while consumer.consumer().assignment().unwrap().count() < 3 {
        assert!(started.elapsed() < LIMIT);
        consumer.read(Duration::ZERO, 10, |_| panic!("nothing is redirected"));
        let _error = consumer.consumer().poll(SHORT);
    }
    consumer.consumer().unassign().unwrap();
    while consumer.consumer().poll(SHORT).is_some() {}
    assign(&consumer, &[(0, 5), (1, 1_000_000)]);
    read_until(&consumer, |message| {
        let error = message.error().map(|(code, _)| code);
        first.entry(message.partition()).or_insert((message.offset(), error));
        first.len() == 2
    });
    assert_eq!(first[&0], (5, None));
    assert_eq!(first[&1].1, Some(RDKafkaErrorCode::AutoOffsetReset));
}

#[test]
fn a_queue_outlives_neither_its_client_nor_a_panic() {
    let cluster = cluster(500);
    let (one, other) = (consumer(&cluster, &[]), consumer(&cluster, &[]));
    let queue = one.queue();
    assert!(!queue.redirect(other.consumer(), TOPIC, 0), "it is another client's");
    assert!(!queue.redirect(one.consumer(), "a\0b", 0));
    assign(&one, &[(0, 0), (1, 0), (2, 0)]);
    let started = Instant::now();
    let panicked = loop {
        assert!(started.elapsed() < LIMIT);
        let read = || one.read(SHORT, 100, |_| std::panic::panic_any("stop"));
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)) {
            Ok(count) => assert_eq!(count, 0),
            Err(panicked) => break panicked,
        }
    };
    assert_eq!(panicked.downcast_ref(), Some(&"stop"));
    // Records are still queued.
    drop(one);
    assert!(!queue.redirect(other.consumer(), TOPIC, 0), "it is closed");
}
