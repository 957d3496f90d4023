//! Membership of a consumer group.

use std::ffi::CStr;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};

/// Whether a consumer is a member of its group. It is none any more once it has sent the request to
/// leave.
pub fn is_member<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> bool {
    let client = consumer.client().native_ptr();
    // SAFETY: the client lives as long as the consumer.
    let id = unsafe { sys::rd_kafka_memberid(client) };
    if id.is_null() {
        return false;
    }
    // SAFETY: it is a text that ends with a NUL, and ours until it is freed.
    let is_member = !unsafe { CStr::from_ptr(id) }.is_empty();
    // SAFETY: librdkafka allocated it, and it is freed once.
    unsafe { sys::rd_kafka_mem_free(client, id.cast()) };
    is_member
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rdkafka::config::ClientConfig;
    use rdkafka::mocking::MockCluster;

    use super::*;

    /// Polls until the consumer is a member, or none.
    fn poll_until(consumer: &BaseConsumer, wanted: bool) {
        let started = Instant::now();
        while is_member(consumer) != wanted {
            assert!(started.elapsed() < Duration::from_secs(60), "it takes too long");
            consumer.poll(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_consumer_is_a_member_until_it_leaves() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("samples", 1, 1).unwrap();
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("group.id", "readers")
            .set("partition.assignment.strategy", "cooperative-sticky");
        let consumer: BaseConsumer = config.create().unwrap();
        assert!(!is_member(&consumer));
        consumer.subscribe(&["samples"]).unwrap();
        poll_until(&consumer, true);
        consumer.unsubscribe();
        poll_until(&consumer, false);
    }
}
