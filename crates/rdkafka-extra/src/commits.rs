//! Commits with a time limit.

use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaErrorCode;

use crate::EventHandle;

/// Commits offsets, and waits for the answer of the brokers until the timeout.
///
/// rdkafka's synchronous commit waits without limit: librdkafka keeps a commit for as long as the
/// coordinator is away, and brokers do not read it while the member waits, on the same connection,
/// for others to join the group. A commit that timed out may still arrive.
///
/// # Errors
/// The brokers refuse, or do not answer in time.
pub fn commit_within<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    offsets: &TopicPartitionList,
    timeout: Duration,
) -> KafkaResult<()> {
    let failed = |code: RDKafkaErrorCode| Err(KafkaError::ConsumerCommit(code));
    let client = consumer.client().native_ptr();
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the client lives as long as the consumer.
    let queue = unsafe { sys::rd_kafka_queue_new(client) };
    let queue = AnswerQueue(NonNull::new(queue).expect("librdkafka aborts without memory"));
    // SAFETY: all of them live; librdkafka copies the offsets, and keeps the queue itself.
    let sent = unsafe {
        sys::rd_kafka_commit_queue(client, offsets.ptr(), queue.0.as_ptr(), None, ptr::null_mut())
    };
    let code = RDKafkaErrorCode::from(sent);
    if code != RDKafkaErrorCode::NoError {
        return failed(code);
    }
    // SAFETY: the queue lives.
    let event = unsafe { sys::rd_kafka_queue_poll(queue.0.as_ptr(), timeout_ms) };
    let Some(event) = NonNull::new(event).map(EventHandle) else {
        return failed(RDKafkaErrorCode::OperationTimedOut);
    };
    // SAFETY: the event lives as long as its handle.
    let answered = unsafe { sys::rd_kafka_event_error(event.0.as_ptr()) };
    match RDKafkaErrorCode::from(answered) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => failed(code),
    }
}

/// A queue that gets the answer to one request, destroyed on drop. An answer that comes after that
/// is discarded.
struct AnswerQueue(NonNull<sys::rd_kafka_queue_t>);

impl Drop for AnswerQueue {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and it is destroyed once.
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::topic_partition_list::Offset;

    use super::*;

    const TOPIC: &str = "samples";
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_commit_waits_for_its_coordinator_until_the_timeout() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic(TOPIC, 1, 1).unwrap();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers()).set("group.id", "readers");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(TOPIC, 0, Offset::Offset(7)).unwrap();
        commit_within(&consumer, &offsets, LIMIT).unwrap();
        let committed = consumer.committed_offsets(offsets.clone(), LIMIT).unwrap();
        assert_eq!(committed.elements()[0].offset(), Offset::Offset(7));

        cluster.broker_down(1).unwrap();
        let refused = commit_within(&consumer, &offsets, Duration::from_millis(50)).unwrap_err();
        assert_eq!(refused, KafkaError::ConsumerCommit(RDKafkaErrorCode::OperationTimedOut));
        // So that the client ends.
        cluster.broker_up(1).unwrap();
    }
}
