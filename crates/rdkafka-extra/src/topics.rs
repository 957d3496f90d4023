//! What brokers report of topics.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use crate::EventHandle;
use crate::logins::HasClient;

/// The id that a broker gives to topics from before it gave ids, as librdkafka writes it.
const ZERO: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// An object of librdkafka, and what destroys it.
struct LibraryObject<T>(NonNull<T>, unsafe extern "C" fn(*mut T));

impl<T> Drop for LibraryObject<T> {
    fn drop(&mut self) {
        // SAFETY: each is created with the function that destroys it, and destroyed once.
        unsafe { (self.1)(self.0.as_ptr()) }
    }
}

impl<T> LibraryObject<T> {
    /// `None` if librdkafka returned null.
    fn new(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        NonNull::new(object).map(|object| Self(object, destroy))
    }
}

/// The id of a topic (KIP-516), as Kafka's own tools write it: a topic that was deleted and created
/// again has another one. `None` if the brokers give no ids. Blocks until there is an answer.
///
/// # Errors
/// The topic does not exist or may not be described, or no broker answers within the timeout.
pub fn topic_id(
    client: &impl HasClient,
    topic: &str,
    timeout: Duration,
) -> Result<Option<String>, KafkaError> {
    let failed = |code: RDKafkaErrorCode| KafkaError::AdminOp(code);
    let broken = || failed(RDKafkaErrorCode::Fail);
    let native = client.native().ok_or_else(broken)?.as_ptr();
    let name = CString::new(topic).map_err(|_| failed(RDKafkaErrorCode::InvalidArgument))?;
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let mut names = [name.as_ptr()];
    // SAFETY: there is one name, which librdkafka copies.
    let names = unsafe { sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), 1) };
    let names =
        LibraryObject::new(names, sys::rd_kafka_TopicCollection_destroy).ok_or_else(broken)?;
    let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    // SAFETY: the client lives as long as `client`; so below.
    let options = unsafe { sys::rd_kafka_AdminOptions_new(native, operation) };
    let options =
        LibraryObject::new(options, sys::rd_kafka_AdminOptions_destroy).ok_or_else(broken)?;
    let (reason, length) = (std::ptr::null_mut(), 0);
    // SAFETY: the options live, and a reason of no length is not written.
    unsafe {
        sys::rd_kafka_AdminOptions_set_request_timeout(
            options.0.as_ptr(),
            timeout_ms,
            reason,
            length,
        );
    }
    // SAFETY: as above.
    let queue = unsafe { sys::rd_kafka_queue_new(native) };
    let queue = LibraryObject::new(queue, sys::rd_kafka_queue_destroy).ok_or_else(broken)?;
    // SAFETY: all of them live; librdkafka copies what it needs and keeps the queue itself.
    unsafe {
        sys::rd_kafka_DescribeTopics(
            native,
            names.0.as_ptr(),
            options.0.as_ptr(),
            queue.0.as_ptr(),
        );
    }
    // SAFETY: the queue lives.
    let event = unsafe { sys::rd_kafka_queue_poll(queue.0.as_ptr(), timeout_ms) };
    let event = NonNull::new(event).ok_or_else(|| failed(RDKafkaErrorCode::OperationTimedOut))?;
    id_of(&EventHandle(event))
}

/// The id in the answer about one topic.
fn id_of(event: &EventHandle) -> Result<Option<String>, KafkaError> {
    let failed = |code: RDKafkaErrorCode| KafkaError::AdminOp(code);
    let event = event.0.as_ptr();
    // SAFETY: the event lives as long as its handle; so below.
    let code = RDKafkaErrorCode::from(unsafe { sys::rd_kafka_event_error(event) });
    if code != RDKafkaErrorCode::NoError {
        return Err(failed(code));
    }
    // SAFETY: as above.
    let result = unsafe { sys::rd_kafka_event_DescribeTopics_result(event) };
    let result = NonNull::new(result.cast_mut()).ok_or(failed(RDKafkaErrorCode::Fail))?;
    let mut count = 0;
    // SAFETY: the result lives as long as its event.
    let topics = unsafe { sys::rd_kafka_DescribeTopics_result_topics(result.as_ptr(), &mut count) };
    if count != 1 || topics.is_null() {
        return Err(failed(RDKafkaErrorCode::Fail));
    }
    // SAFETY: there is one, which lives as long as its event; so below.
    let topic = unsafe { *topics };
    // SAFETY: as above.
    let error = unsafe { sys::rd_kafka_TopicDescription_error(topic) };
    // SAFETY: as above; without an error librdkafka takes null for none.
    let code = RDKafkaErrorCode::from(unsafe { sys::rd_kafka_error_code(error) });
    if code != RDKafkaErrorCode::NoError {
        return Err(failed(code));
    }
    // SAFETY: as above.
    let id = unsafe { sys::rd_kafka_TopicDescription_topic_id(topic) };
    // SAFETY: the id lives as long as its event.
    let text = unsafe { sys::rd_kafka_Uuid_base64str(id) };
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: librdkafka's texts end with a NUL, and live as long as what they describe.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    Ok((text != ZERO).then_some(text))
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;
    use rdkafka::consumer::BaseConsumer;

    use super::*;

    // Mock brokers do not answer such requests: what real ones answer is tested with them.
    #[test]
    fn a_topic_that_no_broker_describes_is_an_error() {
        let mut config = ClientConfig::new();
        let config = config.set("bootstrap.servers", "127.0.0.1:1");
        let client: BaseConsumer = config.create().unwrap();
        let refused = |topic| topic_id(&client, topic, Duration::from_millis(100)).unwrap_err();
        let code = |error| match error {
            KafkaError::AdminOp(code) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(refused("samples")), RDKafkaErrorCode::OperationTimedOut);
        assert_eq!(code(refused("a\0b")), RDKafkaErrorCode::InvalidArgument);
    }
}
