//! What stands in a topic, read once from one end to the other. Its calls block.

use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::topic_partition_list::Offset;

use super::client::Brokers;
use super::topic::Extent;
use super::{KafkaError, client_error};
use crate::moment::format_duration;

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// How long a broker may keep silent, where nobody says.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records of some partitions of a topic, partition by partition, oldest first. Those alone that
/// were committed; what brokers put between them for themselves is none.
pub struct Scan {
    consumer: BaseConsumer,
    addresses: String,
    patience: Duration,
    topic: String,
    /// Partitions that are still to be read, the next one last.
    rest: Vec<(i32, Extent)>,
    /// The partition that is read, and where it ends.
    current: Option<(i32, i64)>,
}

impl Scan {
    /// The records of these partitions between these offsets.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn new(
        brokers: &Brokers,
        topic: &str,
        mut rest: Vec<(i32, Extent)>,
    ) -> Result<Self, KafkaError> {
        let consumer = brokers.onlooker(&[
            ("queued.max.messages.kbytes", "16384"),
            ("fetch.wait.max.ms", "10"),
            ("fetch.queue.backoff.ms", "10"),
        ])?;
        rest.reverse();
        let (addresses, topic) = (brokers.addresses().to_owned(), topic.to_owned());
        let patience = brokers.limit(PATIENCE);
        Ok(Self { consumer, addresses, patience, topic, rest, current: None })
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// No broker answers, or the client cannot go on.
    pub fn next_message(&mut self) -> Result<Option<OwnedMessage>, KafkaError> {
        let mut heard = Instant::now();
        loop {
            let Some((partition, end)) = self.current else {
                if !self.turn()? {
                    return Ok(None);
                }
                heard = Instant::now();
                continue;
            };
            match self.consumer.poll(POLL) {
                Some(Ok(message)) if message.partition() == partition => {
                    let message = message.detach();
                    if message.offset() + 1 >= end {
                        self.current = None;
                    }
                    if message.offset() < end {
                        return Ok(Some(message));
                    }
                }
                Some(Err(ClientError::PartitionEOF(at))) if at == partition => self.current = None,
                Some(Err(error @ ClientError::MessageConsumptionFatal(_))) => {
                    return Err(client_error("reading a topic")(error));
                }
                // The client gets over it, or never says anything again.
                _ if heard.elapsed() > self.patience => {
                    let patience_ms = i64::try_from(self.patience.as_millis()).unwrap_or(i64::MAX);
                    let problem = format!(
                        "partition {partition} of `{}` says nothing for {}",
                        self.topic,
                        format_duration(patience_ms)
                    );
                    let brokers = self.addresses.clone();
                    return Err(KafkaError::Unreachable { brokers, problem });
                }
                _ => (),
            }
        }
    }

    /// Goes on to the next partition that has a record.
    fn turn(&mut self) -> Result<bool, KafkaError> {
        while let Some((partition, extent)) = self.rest.pop() {
            if extent.first >= extent.next {
                continue;
            }
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&self.topic, partition, Offset::Offset(extent.first))
                .and_then(|()| self.consumer.assign(&list))
                .map_err(client_error("beginning to read a topic"))?;
            self.current = Some((partition, extent.next));
            return Ok(true);
        }
        Ok(false)
    }
}
