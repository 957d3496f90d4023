//! What stands in a topic, read once from one end to the other. Its calls block.

use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::topic_partition_list::Offset;

use super::client::Brokers;
use super::topic::OffsetRange;
use super::unreadable::{self, UnreadableBatch};
use super::{KafkaError, client_error};
use crate::model::time::format_duration;

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// How long a broker may keep silent, where nobody says.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records of some partitions of a topic, partition by partition, oldest first. Those alone that
/// were committed; what brokers put between them for themselves is none.
pub struct Scan {
    consumer: BaseConsumer,
    brokers: Brokers,
    patience: Duration,
    topic: String,
    /// Partitions that are still to be read, the next one last.
    rest: Vec<(i32, OffsetRange)>,
    /// The partition that is read, and which offsets of it are left.
    current: Option<(i32, Range<i64>)>,
}

impl Scan {
    /// The records of these partitions between these offsets.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn new(
        brokers: &Brokers,
        topic: &str,
        mut rest: Vec<(i32, OffsetRange)>,
    ) -> Result<Self, KafkaError> {
        let consumer = brokers.onlooker(&[
            ("queued.max.messages.kbytes", "16384"),
            ("fetch.wait.max.ms", "10"),
            ("fetch.queue.backoff.ms", "10"),
        ])?;
        rest.reverse();
        let (topic, kept) = (topic.to_owned(), brokers.clone());
        let patience = brokers.limit(PATIENCE);
        Ok(Self { consumer, brokers: kept, patience, topic, rest, current: None })
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// No broker answers, or the client cannot go on.
    pub fn next_message(&mut self) -> Result<Option<OwnedMessage>, KafkaError> {
        let mut heard = Instant::now();
        loop {
            let Some((partition, left)) = &mut self.current else {
                if !self.turn()? {
                    return Ok(None);
                }
                heard = Instant::now();
                continue;
            };
            let partition = *partition;
            match self.consumer.poll(POLL) {
                Some(Ok(message)) if message.partition() == partition => {
                    let message = message.detach();
                    left.start = message.offset() + 1;
                    let is_asked_for = message.offset() < left.end;
                    if left.is_empty() {
                        self.current = None;
                    }
                    if is_asked_for {
                        return Ok(Some(message));
                    }
                }
                Some(Err(ClientError::PartitionEOF(at))) if at == partition => self.current = None,
                Some(Err(error))
                    if unreadable::is_unreadable(&error) && heard.elapsed() <= self.patience =>
                {
                    self.pass_unreadable(&mut heard)?;
                }
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
                    let brokers = self.brokers.addresses().to_owned();
                    return Err(KafkaError::Unreachable { brokers, problem });
                }
                _ => (),
            }
        }
    }

    /// Goes on behind a batch that the client cannot unpack: whoever builds trips of the topic has
    /// it among the dead letters. Notes when one was found.
    fn pass_unreadable(&mut self, heard: &mut Instant) -> Result<(), KafkaError> {
        let Some((partition, left)) = &self.current else { return Ok(()) };
        let (partition, end) = (*partition, left.end);
        let found = unreadable::find(&self.brokers, &self.topic, partition, left.start)?;
        let Some(UnreadableBatch { first, last, problem }) = found else { return Ok(()) };
        *heard = Instant::now();
        tracing::warn!(topic = self.topic, partition, first, last, problem, "cannot be unpacked");
        self.current = None;
        if last + 1 < end {
            self.start_partition(partition, last + 1..end)?;
        }
        Ok(())
    }

    /// Goes on to the next partition that has a record.
    fn turn(&mut self) -> Result<bool, KafkaError> {
        while let Some((partition, extent)) = self.rest.pop() {
            if extent.first < extent.next {
                self.start_partition(partition, extent.first..extent.next)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn start_partition(&mut self, partition: i32, left: Range<i64>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, partition, Offset::Offset(left.start))
            .and_then(|()| self.consumer.assign(&list))
            .map_err(client_error("beginning to read a topic"))?;
        self.current = Some((partition, left));
        Ok(())
    }
}
