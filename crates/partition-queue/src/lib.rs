//! The queue of one partition of a consumer, read event by event.
//!
//! The Rust client tells that a batch of records could not be unpacked, and neither which partition
//! it stands in nor where. librdkafka's own event has both. This crate reads them; it is the only
//! place with unsafe code, so that the program itself can forbid it.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::types::RDKafkaErrorCode;

/// The queue of a partition, taken out of the consumer's own for as long as this lives.
pub struct PartitionQueue<'a, C: ConsumerContext> {
    /// It has to outlive the queue, and answers for credentials when it is polled.
    consumer: &'a BaseConsumer<C>,
    queue: NonNull<sys::rd_kafka_queue_t>,
}

/// What a partition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Records are there; this is the offset of the first.
    Record(i64),
    /// Something went wrong.
    Failed {
        /// What, by librdkafka's code; the end of a partition is one of them.
        code: RDKafkaErrorCode,
        /// Where. Of a batch that cannot be unpacked it is the offset of its first record.
        offset: Option<i64>,
        /// What librdkafka says of it.
        message: String,
    },
}

/// An event of librdkafka, destroyed when it goes.
struct EventHandle(NonNull<sys::rd_kafka_event_t>);

impl Drop for EventHandle {
    fn drop(&mut self) {
        // SAFETY: the event came from a poll, only its owner has it, and it is destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}

impl<'a, C: ConsumerContext> PartitionQueue<'a, C> {
    /// Takes the queue of a partition out of the consumer's. `None` where the topic's name is none,
    /// or the client knows no such partition.
    #[must_use]
    pub fn open(consumer: &'a BaseConsumer<C>, topic: &str, partition: i32) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        let client = consumer.client().native_ptr();
        // SAFETY: the client lives as long as the consumer does, and the name ends with a NUL.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let queue = NonNull::new(queue)?;
        // SAFETY: the queue was just given to us; without a target events stay in it.
        unsafe { sys::rd_kafka_queue_forward(queue.as_ptr(), std::ptr::null_mut()) }
        Some(Self { consumer, queue })
    }

    /// The next event of the partition, if one comes in time. Other events of the consumer, such as
    /// of its brokers, go to its context; its errors are returned without an offset.
    pub fn poll(&self, timeout: Duration) -> Option<Event> {
        // This renews credentials. Events of the partition do not come here: its queue is taken.
        if let Some(Err(error)) = self.consumer.poll(Duration::ZERO) {
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
            return Some(Event::Failed { code, offset: None, message: error.to_string() });
        }
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue lives as long as this does.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue.as_ptr(), timeout_ms) };
        read(&EventHandle(NonNull::new(event)?))
    }
}

impl<C: ConsumerContext> Drop for PartitionQueue<'_, C> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, it is given up once, and the client still lives.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// An event, where it is one of a partition.
fn read(event: &EventHandle) -> Option<Event> {
    let event = event.0.as_ptr();
    // SAFETY: the event lives until its owner goes; so below.
    let kind = unsafe { sys::rd_kafka_event_type(event) };
    if kind == sys::RD_KAFKA_EVENT_FETCH {
        // SAFETY: as above.
        let message = unsafe { sys::rd_kafka_event_message_next(event) };
        // SAFETY: librdkafka gives a message that lives as long as its event, or null.
        return unsafe { message.as_ref() }.map(|message| Event::Record(message.offset));
    }
    if kind != sys::RD_KAFKA_EVENT_ERROR {
        return None;
    }
    // SAFETY: as above.
    let code = unsafe { sys::rd_kafka_event_error(event) };
    // SAFETY: as above.
    let message = unsafe { sys::rd_kafka_event_error_string(event) };
    let message = if message.is_null() {
        String::new()
    } else {
        // SAFETY: librdkafka's texts end with a NUL and live as long as their event.
        unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
    };
    Some(Event::Failed { code: code.into(), offset: offset_of(event), message })
}

/// Where the error happened, if it happened at an offset.
fn offset_of(event: *mut sys::rd_kafka_event_t) -> Option<i64> {
    // SAFETY: the caller has the event.
    let place = unsafe { sys::rd_kafka_event_topic_partition(event) };
    let place = NonNull::new(place)?;
    // SAFETY: it is not null and ours until it is destroyed.
    let offset = unsafe { place.as_ref() }.offset;
    // SAFETY: librdkafka hands it over to its caller, who does not use it after this.
    unsafe { sys::rd_kafka_topic_partition_destroy(place.as_ptr()) }
    (offset >= 0).then_some(offset)
}
