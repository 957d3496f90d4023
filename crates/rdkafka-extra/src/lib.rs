//! Calls of librdkafka that rdkafka does not have.
//!
//! - [`PartitionQueue`] reads one partition event by event. When a batch of records cannot be
//!   unpacked, rdkafka's error gives neither its partition nor its offset; librdkafka's own event
//!   has both.
//! - [`RecordConsumer`] reads the records of several partitions, many at a time, without copying
//!   them. rdkafka's poll costs an event, an allocation and two readings of the clock a record.
//! - [`Logins`] changes the OAuth token of clients while they are used. rdkafka asks for one when a
//!   client is polled, which clients for metadata and administration are not.
//! - [`topic_id`] asks for the id of a topic.
//! - [`commit_within`] commits offsets, and waits for the answer no longer than a timeout.
//! - [`is_member`] returns whether a consumer is in its group. Its close may not leave the group.
//!
//! It is the only place with unsafe code, so that the program itself can forbid it.

mod commits;
mod logins;
mod members;
mod records;
mod topics;

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::types::RDKafkaErrorCode;

pub use self::commits::commit_within;
pub use self::logins::{HasClient, LoggedIn, Logins, NotAccepted, OAuthToken};
pub use self::members::is_member;
pub use self::records::{QueuedHeaders, QueuedMessage, RecordConsumer, SharedQueue};
pub use self::topics::topic_id;

/// The queue of a partition, detached from the consumer's own queue for as long as this value
/// lives.
pub struct PartitionQueue<'a, C: ConsumerContext> {
    /// Has to outlive the queue, and serves callbacks when it is polled.
    consumer: &'a BaseConsumer<C>,
    queue: NonNull<sys::rd_kafka_queue_t>,
}

/// An event of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Records are available; this is the offset of the first.
    Record(i64),
    /// librdkafka reported an error or the end of the partition.
    Failed {
        /// librdkafka's error code; the end of the partition has one too.
        code: RDKafkaErrorCode,
        /// Offset of the error, if it has one. For a batch that cannot be unpacked: the offset of
        /// its first record.
        offset: Option<i64>,
        /// librdkafka's error message.
        message: String,
    },
}

/// An event of librdkafka, destroyed on drop.
struct EventHandle(NonNull<sys::rd_kafka_event_t>);

impl Drop for EventHandle {
    fn drop(&mut self) {
        // SAFETY: the event came from a poll, only this handle refers to it, and it is destroyed
        // once.
        unsafe { sys::rd_kafka_event_destroy(self.0.as_ptr()) }
    }
}

impl<'a, C: ConsumerContext> PartitionQueue<'a, C> {
    /// Detaches the queue of a partition from the consumer's. `None` if the topic name contains a
    /// NUL, or the client does not know the partition.
    #[must_use]
    pub fn open(consumer: &'a BaseConsumer<C>, topic: &str, partition: i32) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        let client = consumer.client().native_ptr();
        // SAFETY: the client lives as long as the consumer, and the name ends with a NUL.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let queue = NonNull::new(queue)?;
        // SAFETY: we just got this reference to the queue; without a target, events stay in it.
        unsafe { sys::rd_kafka_queue_forward(queue.as_ptr(), std::ptr::null_mut()) }
        Some(Self { consumer, queue })
    }

    /// Returns the next event of the partition, or `None` on timeout. Other events of the consumer,
    /// such as those of its brokers, go to its context; the consumer's errors are returned without
    /// an offset.
    pub fn poll(&self, timeout: Duration) -> Option<Event> {
        // Serves callbacks. Events of the partition do not come here: its queue is detached.
        if let Some(Err(error)) = self.consumer.poll(Duration::ZERO) {
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
            return Some(Event::Failed { code, offset: None, message: error.to_string() });
        }
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue lives as long as `self`.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue.as_ptr(), timeout_ms) };
        read(&EventHandle(NonNull::new(event)?))
    }
}

impl<C: ConsumerContext> Drop for PartitionQueue<'_, C> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, it is released once, and the client still lives.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// Converts an event; `None` for kinds other than records and errors.
fn read(event: &EventHandle) -> Option<Event> {
    let event = event.0.as_ptr();
    // SAFETY: the event lives as long as its handle; so below.
    let kind = unsafe { sys::rd_kafka_event_type(event) };
    if kind == sys::RD_KAFKA_EVENT_FETCH {
        // SAFETY: as above.
        let message = unsafe { sys::rd_kafka_event_message_next(event) };
        // SAFETY: librdkafka returns null or a message that lives as long as its event.
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
        // SAFETY: librdkafka's strings end with a NUL and live as long as their event.
        unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
    };
    Some(Event::Failed { code: code.into(), offset: offset_of(event), message })
}

/// Offset of an error, if it has one.
fn offset_of(event: *mut sys::rd_kafka_event_t) -> Option<i64> {
    // SAFETY: the caller holds a live event.
    let partition = unsafe { sys::rd_kafka_event_topic_partition(event) };
    let partition = NonNull::new(partition)?;
    // SAFETY: the pointer is not null, and ours until we destroy it.
    let offset = unsafe { partition.as_ref() }.offset;
    // SAFETY: librdkafka passes ownership to its caller, and we do not use the pointer after this.
    unsafe { sys::rd_kafka_topic_partition_destroy(partition.as_ptr()) }
    (offset >= 0).then_some(offset)
}
