//! Finds the batches of records that the client cannot unpack: their partition and offsets.
//!
//! Producers compress records batch by batch, and a small batch may unpack to any size. librdkafka
//! refuses a zstd batch that unpacks to more than `receive.message.max.bytes`, and never gets past
//! it by itself.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, DefaultConsumerContext};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_extra::{Event, PartitionQueue};

use super::client::Brokers;
use super::{KafkaError, client_error, offset_list};

/// Maximum wait of one poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Time limit of one probe, if [`Brokers`] sets none. Other partitions wait meanwhile.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A batch of records that the client cannot unpack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableBatch {
    /// Offset of its first record to read.
    pub first: i64,
    /// Offset of its last record.
    pub last: i64,
    /// The client's error.
    pub problem: String,
}

/// Whether an error is caused by a batch that the client cannot unpack. The error does not name the
/// partition.
pub(super) fn is_unreadable(error: &ClientError) -> bool {
    matches!(error, ClientError::MessageConsumption(code) if is_batch_error(*code))
}

fn is_batch_error(code: Code) -> bool {
    matches!(code, Code::BadCompression | Code::BadMessage)
}

/// Finds the batch at an offset of a partition, if the client cannot unpack it. Blocks.
///
/// # Errors
/// No broker responds in time.
pub(super) fn find(
    brokers: &Brokers,
    topic: &str,
    partition: i32,
    offset: i64,
) -> Result<Option<UnreadableBatch>, KafkaError> {
    let consumer = brokers.standalone_consumer(&[
        // At the end of the partition there is no batch; with `earliest`, the client would read the
        // first batch of the log.
        ("auto.offset.reset", "error"),
        ("fetch.wait.max.ms", "10"),
        ("fetch.error.backoff.ms", "10"),
    ])?;
    let Some(queue) = PartitionQueue::open(&consumer, topic, partition) else {
        return Ok(None);
    };
    let probe = Probe { brokers, consumer: &consumer, queue, topic, partition };
    let Some((base, problem)) = probe.at(offset)? else { return Ok(None) };
    let last = last_of(offset, |offset| {
        Ok::<_, KafkaError>(probe.at(offset)?.is_some_and(|(at, _)| at == base))
    })?;
    Ok(Some(UnreadableBatch { first: offset, last, problem }))
}

/// Finds the last offset of the batch that starts at `first` or contains it; `contains` checks an
/// offset.
fn last_of<E>(first: i64, mut contains: impl FnMut(i64) -> Result<bool, E>) -> Result<i64, E> {
    let (mut inside, mut step) = (first, 1);
    let mut outside = loop {
        let next = inside.saturating_add(step);
        if !contains(next)? {
            break next;
        }
        (inside, step) = (next, step * 2);
    };
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if contains(middle)? { inside = middle } else { outside = middle }
    }
    Ok(inside)
}

/// Reads single offsets of a partition.
struct Probe<'a> {
    brokers: &'a Brokers,
    consumer: &'a BaseConsumer,
    queue: PartitionQueue<'a, DefaultConsumerContext>,
    topic: &'a str,
    partition: i32,
}

impl Probe<'_> {
    /// Base offset of the batch that contains an offset, and the error of the client; `None` if the
    /// client can unpack it.
    fn at(&self, offset: i64) -> Result<Option<(i64, String)>, KafkaError> {
        self.assign(offset)?;
        let timeout = self.brokers.timeout_or(DEFAULT_TIMEOUT);
        let started = Instant::now();
        loop {
            match self.queue.poll(POLL_TIMEOUT) {
                Some(Event::Record(_)) => return Ok(None),
                Some(Event::Failed { code, offset: Some(base), message })
                    if is_batch_error(code) =>
                {
                    return Ok(Some((base, message)));
                }
                Some(Event::Failed {
                    code: Code::PartitionEOF | Code::AutoOffsetReset | Code::OffsetOutOfRange,
                    ..
                }) => return Ok(None),
                // The client recovers by itself, or stays silent.
                _ if started.elapsed() > timeout => {
                    let (topic, partition) = (self.topic, self.partition);
                    let brokers = self.brokers.addresses().to_owned();
                    let problem = format!(
                        "no response for offset {offset} of partition {partition} of `{topic}`"
                    );
                    return Err(KafkaError::Unreachable { brokers, problem });
                }
                _ => (),
            }
        }
    }

    fn assign(&self, offset: i64) -> Result<(), KafkaError> {
        let failed = || client_error("reading a batch");
        self.consumer.unassign().map_err(failed())?;
        // Discard events of the previous offset.
        while self.queue.poll(Duration::ZERO).is_some() {}
        offset_list(self.topic, [(self.partition, offset)])
            .and_then(|list| self.consumer.assign(&list))
            .map_err(failed())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::last_of;

    #[test]
    fn the_last_offset_of_a_batch_is_found_with_few_probes() {
        for (first, last) in [(0, 0), (7, 8), (7, 10), (5, 1_000_004), (0, i64::from(i32::MAX))] {
            let probes = Cell::new(0);
            let contains = |offset| {
                probes.set(probes.get() + 1);
                Ok::<_, ()>((first..=last).contains(&offset))
            };
            assert_eq!(last_of(first, contains), Ok(last));
            assert!(probes.get() <= 64, "{} probes for {first} to {last}", probes.get());
        }
        assert_eq!(last_of(3, |offset| if offset < 9 { Ok(true) } else { Err(offset) }), Err(10));
    }
}
