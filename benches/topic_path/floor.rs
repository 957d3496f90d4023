//! Row (a): the minimum cost of reading the records of a topic with the client.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Context as _;
use rdkafka::ClientConfig;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;

use crate::log::Log;

/// Options of tstar's consumer (`src/kafka/consumer/mod.rs`).
const OPTIONS: [(&str, &str); 12] = [
    ("group.id", "tstar-bench-floor"),
    ("group.protocol", "classic"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    ("max.poll.interval.ms", "300000"),
    ("queued.max.messages.kbytes", "16384"),
    ("queued.min.messages", "10000"),
    ("fetch.queue.backoff.ms", "10"),
    ("check.crcs", "true"),
    ("allow.auto.create.topics", "false"),
];

/// Timeout of a poll.
const POLL: Duration = Duration::from_millis(20);

/// Reads every record of a topic without decoding it, and returns their number.
///
/// # Errors
/// The client fails.
pub fn drain(log: &Log) -> anyhow::Result<u64> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &log.brokers);
    for (name, value) in OPTIONS {
        config.set(name, value);
    }
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    for (partition, _) in (0..).zip(&log.ends) {
        list.add_partition_offset(&log.topic, partition, Offset::Offset(0))?;
    }
    consumer.assign(&list)?;
    let (samples, mut received) = (log.samples(), 0);
    while received < samples {
        let Some(polled) = consumer.poll(POLL) else { continue };
        let message = polled.with_context(|| format!("reading topic `{}`", log.topic))?;
        black_box((message.key(), message.payload(), message.timestamp()));
        received += 1;
    }
    Ok(received)
}
