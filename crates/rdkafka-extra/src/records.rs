//! Reads the records of several partitions from one queue, many at a time.

use std::ffi::{CStr, CString, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaErrorCode;

use crate::logins::LoggedIn;

/// A consumer, and the queue that gets the records of partitions that were redirected to it.
///
/// Its other events, such as rebalances, stay in the consumer's own queue: [`BaseConsumer::poll`]
/// has to be called as before. A rebalance met by a read of many records would be answered by
/// librdkafka itself, by reading nothing.
pub struct RecordConsumer<C: ConsumerContext> {
    queue: SharedQueue,
    /// The same queue: only the drop of this value destroys it.
    native: NonNull<sys::rd_kafka_queue_t>,
    consumer: LoggedIn<BaseConsumer<C>>,
}

/// Redirects partitions to the queue of a [`RecordConsumer`], also from its callbacks.
#[derive(Clone)]
pub struct SharedQueue(Arc<Mutex<Option<OpenQueue>>>);

struct OpenQueue {
    queue: NonNull<sys::rd_kafka_queue_t>,
    /// Only to compare.
    client: *const c_void,
}

// SAFETY: librdkafka's queues may be used from any thread, and the client is not dereferenced.
unsafe impl Send for OpenQueue {}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, Option<OpenQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redirects a partition of the consumer: its records and errors come to the queue. Has to be
    /// called each time before the partition is assigned, since librdkafka undoes it when it stops
    /// fetching the partition. Returns false, and changes nothing, if the topic name contains a
    /// NUL, the queue is closed, or it is another consumer's.
    pub fn redirect<C: ConsumerContext>(
        &self,
        consumer: &BaseConsumer<C>,
        topic: &str,
        partition: i32,
    ) -> bool {
        let open = self.lock();
        let client = consumer.client().native_ptr();
        let Some(target) = open.as_ref().filter(|open| open.client == client.cast_const().cast())
        else {
            return false;
        };
        let Ok(topic) = CString::new(topic) else { return false };
        // SAFETY: the client lives as long as the consumer, and the name ends with a NUL.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let Some(queue) = NonNull::new(queue) else { return false };
        // SAFETY: both queues are of this client, the first is ours, and the lock keeps the other.
        unsafe { sys::rd_kafka_queue_forward(queue.as_ptr(), target.queue.as_ptr()) }
        // SAFETY: the reference is ours, and released once; the partition keeps its queue.
        unsafe { sys::rd_kafka_queue_destroy(queue.as_ptr()) }
        true
    }
}

impl<C: ConsumerContext> RecordConsumer<C> {
    /// Adds a queue to a consumer.
    ///
    /// # Panics
    /// There is no memory.
    #[must_use]
    pub fn new(consumer: LoggedIn<BaseConsumer<C>>) -> Self {
        let client = consumer.client().native_ptr();
        // SAFETY: the client lives as long as the consumer.
        let queue = unsafe { sys::rd_kafka_queue_new(client) };
        let native = NonNull::new(queue).expect("librdkafka aborts without memory");
        let open = OpenQueue { queue: native, client: client.cast_const().cast() };
        Self { queue: SharedQueue(Arc::new(Mutex::new(Some(open)))), native, consumer }
    }

    /// The consumer.
    #[must_use]
    pub fn consumer(&self) -> &BaseConsumer<C> {
        &self.consumer
    }

    /// The queue, for the callbacks of the consumer.
    #[must_use]
    pub fn queue(&self) -> SharedQueue {
        self.queue.clone()
    }

    /// Reads at most `max` messages of redirected partitions, and passes each to `take`. Waits for
    /// that number until the timeout. Returns how many there were.
    ///
    /// librdkafka considers all of them as read, even if `take` panics.
    pub fn read(
        &self,
        timeout: Duration,
        max: usize,
        mut take: impl FnMut(&QueuedMessage<'_>),
    ) -> usize {
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let mut messages = vec![ptr::null_mut(); max];
        let (queue, first) = (self.native.as_ptr(), messages.as_mut_ptr());
        // SAFETY: the queue lives as long as `self`, and the array has room for `max` pointers.
        let count = unsafe { sys::rd_kafka_consume_batch_queue(queue, timeout_ms, first, max) };
        // Negative if there is an error.
        messages.truncate(usize::try_from(count).unwrap_or(0));
        let count = messages.len();
        let handles: Vec<_> =
            messages.into_iter().filter_map(NonNull::new).map(MessageHandle).collect();
        for handle in handles {
            // SAFETY: librdkafka returned a message, which lives as long as its handle.
            let message = unsafe { handle.0.as_ref() };
            take(&QueuedMessage { message, handle: PhantomData });
        }
        count
    }
}

impl<C: ConsumerContext> Drop for RecordConsumer<C> {
    fn drop(&mut self) {
        // No callback uses the queue from now on.
        self.queue.lock().take();
        // SAFETY: the reference is ours, it is released once, and the client, which is dropped
        // after this, still lives. What is redirected to a destroyed queue is discarded.
        unsafe { sys::rd_kafka_queue_destroy(self.native.as_ptr()) }
    }
}

/// A message of librdkafka, destroyed on drop.
struct MessageHandle(NonNull<sys::rd_kafka_message_t>);

impl Drop for MessageHandle {
    fn drop(&mut self) {
        // SAFETY: the message came from a read, only this handle refers to it, and it is destroyed
        // once, before its client.
        unsafe { sys::rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

/// A record, or an error of a partition.
pub struct QueuedMessage<'a> {
    message: &'a sys::rd_kafka_message_t,
    handle: PhantomData<&'a MessageHandle>,
}

impl<'a> QueuedMessage<'a> {
    /// A record of the client's own queue. rdkafka panics on a header whose name is not UTF-8.
    #[must_use]
    pub fn from_borrowed(message: &'a BorrowedMessage<'_>) -> Self {
        // SAFETY: rdkafka's message is one of librdkafka's for as long as it lives.
        let message = unsafe { &*message.ptr() };
        Self { message, handle: PhantomData }
    }

    /// Partition number, from 0.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.message.partition
    }

    /// Offset of the record or of the error; negative if an error has none.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.message.offset
    }

    /// The error and librdkafka's message, if it is not a record. The end of the partition is one.
    #[must_use]
    pub fn error(&self) -> Option<(RDKafkaErrorCode, String)> {
        let code = RDKafkaErrorCode::from(self.message.err);
        if code == RDKafkaErrorCode::NoError {
            return None;
        }
        let text = self.payload().unwrap_or_default();
        Some((code, String::from_utf8_lossy(text).trim().to_owned()))
    }

    /// Timestamp of the record, ms since 1970, if it has one.
    #[must_use]
    pub fn timestamp_ms(&self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is one of librdkafka's, and lives; the kind is ours.
        let time_ms = unsafe { sys::rd_kafka_message_timestamp(self.message, &raw mut kind) };
        let none = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (kind != none && time_ms != -1).then_some(time_ms)
    }

    /// Key of the record, if it has one.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: an error has no key; that of a record lives as long as the message.
        unsafe { slice(self.message.key, self.message.key_len) }
    }

    /// Value of the record, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.payload()
    }

    /// The value, or the text of the error.
    fn payload(&self) -> Option<&'a [u8]> {
        // SAFETY: the payload of a message lives as long as the message.
        unsafe { slice(self.message.payload, self.message.len) }
    }

    /// Headers of the record; `None` if it has none.
    #[must_use]
    pub fn headers(&self) -> Option<QueuedHeaders<'a>> {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is one of librdkafka's, and lives; the pointer is ours.
        let code = unsafe { sys::rd_kafka_message_headers(self.message, &raw mut headers) };
        let is_found = RDKafkaErrorCode::from(code) == RDKafkaErrorCode::NoError;
        let headers = NonNull::new(headers).filter(|_| is_found)?;
        // SAFETY: the headers live as long as the message.
        let count = unsafe { sys::rd_kafka_header_cnt(headers.as_ptr()) };
        Some(QueuedHeaders { headers, count, message: PhantomData })
    }
}

/// Headers of a record.
pub struct QueuedHeaders<'a> {
    headers: NonNull<sys::rd_kafka_headers_t>,
    count: usize,
    message: PhantomData<&'a MessageHandle>,
}

impl<'a> QueuedHeaders<'a> {
    /// Number of headers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Name and value of a header, by its index. The name may be any bytes without a NUL.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let (mut name, mut value, mut len) = (ptr::null::<c_char>(), ptr::null(), 0);
        let (headers, to_name) = (self.headers.as_ptr(), &raw mut name);
        // SAFETY: the headers live as long as the message, and the pointers are ours.
        let code = unsafe {
            sys::rd_kafka_header_get_all(headers, index, to_name, &raw mut value, &raw mut len)
        };
        if RDKafkaErrorCode::from(code) != RDKafkaErrorCode::NoError {
            return None;
        }
        // SAFETY: librdkafka's names end with a NUL, and live as long as the message.
        let name = unsafe { CStr::from_ptr(name) };
        // SAFETY: so does a value, of this length.
        Some((name.to_bytes(), unsafe { slice(value, len) }))
    }
}

/// The bytes at a pointer; `None` if it is null.
///
/// # Safety
/// Otherwise, `len` bytes at it may be read and do not change for as long as `'a`.
unsafe fn slice<'a>(bytes: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller guarantees it, and the pointer is not null.
    NonNull::new(bytes.cast_mut()).map(|bytes| unsafe {
        std::slice::from_raw_parts(bytes.cast::<u8>().as_ptr().cast_const(), len)
    })
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
