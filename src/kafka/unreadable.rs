//! Batches of records that the client cannot unpack: which partition one stands in, and where it
//! ends.
//!
//! Producers compress records batch by batch, and a small batch may unpack to any size. librdkafka
//! refuses a zstd batch that unpacks to more than `receive.message.max.bytes`, and never gets past
//! it by itself.

use std::time::{Duration, Instant};

use partition_queue::{Event, PartitionQueue};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::client::Brokers;
use super::{KafkaError, client_error};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// How long a look may take by default. Other partitions wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// A batch of records that the client cannot unpack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnreadableBatch {
    /// Offset of the first record of it that is to be read.
    pub first: i64,
    /// Offset of its last.
    pub last: i64,
    /// What the client says of it.
    pub problem: String,
}

/// Whether the client met a batch that it cannot unpack. The error does not name the partition.
pub(super) fn is_unreadable(error: &ClientError) -> bool {
    matches!(error, ClientError::MessageConsumption(code) if is_of_a_batch(*code))
}

fn is_of_a_batch(code: Code) -> bool {
    matches!(code, Code::BadCompression | Code::BadMessage)
}

/// The batch that the client cannot unpack and that stands at an offset of a partition, if one
/// does. Blocks.
///
/// # Errors
/// No broker answers in time.
pub(super) fn find(
    brokers: &Brokers,
    topic: &str,
    partition: i32,
    offset: i64,
) -> Result<Option<UnreadableBatch>, KafkaError> {
    let consumer = brokers.onlooker(&[
        // Behind the last record is none; the first of the log would be another batch.
        ("auto.offset.reset", "error"),
        ("fetch.wait.max.ms", "10"),
        ("fetch.error.backoff.ms", "10"),
    ])?;
    let Some(queue) = PartitionQueue::open(&consumer, topic, partition) else {
        return Ok(None);
    };
    let look = Look { brokers, consumer: &consumer, queue, topic, partition };
    let Some((base, problem)) = look.at(offset)? else { return Ok(None) };
    let last = last_of(offset, |offset| {
        Ok::<_, KafkaError>(look.at(offset)?.is_some_and(|(at, _)| at == base))
    })?;
    Ok(Some(UnreadableBatch { first: offset, last, problem }))
}

/// The last offset of the batch that has `first`, where `has` tells whether it has an offset.
fn last_of<E>(first: i64, mut has: impl FnMut(i64) -> Result<bool, E>) -> Result<i64, E> {
    let (mut inside, mut step) = (first, 1);
    let mut outside = loop {
        let next = inside.saturating_add(step);
        if !has(next)? {
            break next;
        }
        (inside, step) = (next, step * 2);
    };
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if has(middle)? { inside = middle } else { outside = middle }
    }
    Ok(inside)
}

/// Looks at single offsets of a partition.
struct Look<'a> {
    brokers: &'a Brokers,
    consumer: &'a BaseConsumer,
    queue: PartitionQueue<'a, DefaultConsumerContext>,
    topic: &'a str,
    partition: i32,
}

impl Look<'_> {
    /// The base offset of the batch that has an offset, and what the client says of it, where it
    /// cannot unpack it.
    fn at(&self, offset: i64) -> Result<Option<(i64, String)>, KafkaError> {
        self.assign(offset)?;
        let patience = self.brokers.limit(PATIENCE);
        let began = Instant::now();
        loop {
            match self.queue.poll(POLL) {
                Some(Event::Record(_)) => return Ok(None),
                Some(Event::Failed { code, offset: Some(base), message })
                    if is_of_a_batch(code) =>
                {
                    return Ok(Some((base, message)));
                }
                Some(Event::Failed {
                    code: Code::PartitionEOF | Code::AutoOffsetReset | Code::OffsetOutOfRange,
                    ..
                }) => return Ok(None),
                // The client recovers by itself, or stays silent.
                _ if began.elapsed() > patience => {
                    let (topic, partition) = (self.topic, self.partition);
                    let brokers = self.brokers.addresses().to_owned();
                    let problem =
                        format!("partition {partition} of `{topic}` says nothing of {offset}");
                    return Err(KafkaError::Unreachable { brokers, problem });
                }
                _ => (),
            }
        }
    }

    fn assign(&self, offset: i64) -> Result<(), KafkaError> {
        let failed = || client_error("looking at a batch");
        self.consumer.unassign().map_err(failed())?;
        // Events of the offset before do not count.
        while self.queue.poll(Duration::ZERO).is_some() {}
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(self.topic, self.partition, Offset::Offset(offset))
            .and_then(|()| self.consumer.assign(&list))
            .map_err(failed())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::last_of;

    #[test]
    fn the_last_offset_of_a_batch_is_found_in_few_looks() {
        for (first, last) in [(0, 0), (7, 8), (7, 10), (5, 1_000_004), (0, i64::from(i32::MAX))] {
            let looks = Cell::new(0);
            let has = |offset| {
                looks.set(looks.get() + 1);
                Ok::<_, ()>((first..=last).contains(&offset))
            };
            assert_eq!(last_of(first, has), Ok(last));
            assert!(looks.get() <= 64, "{} looks for {first} to {last}", looks.get());
        }
        assert_eq!(last_of(3, |offset| if offset < 9 { Ok(true) } else { Err(offset) }), Err(10));
    }
}
