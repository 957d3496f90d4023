//! The records of the change feed: events with the headers of CloudEvents 1.0, so that whatever
//! routes these needs no code of its own.

use super::producer::ProducerRecord;
use crate::source::Headers;

/// What an event is about, for its headers.
pub struct Subject<'a> {
    /// Topic of the samples.
    pub input: &'a str,
    /// Device id, the key of the record.
    pub device_id: &'a str,
    /// Type of the event, as in its JSON.
    pub kind: &'a str,
    /// Identifies the event among those of the input topic. A repeated event has it again.
    pub id: &'a str,
}

/// The record of an event, which is JSON.
#[must_use]
pub fn feed_record(subject: &Subject<'_>, event: String) -> ProducerRecord {
    ProducerRecord {
        key: Some(subject.device_id.as_bytes().to_vec()),
        value: event.into_bytes(),
        headers: headers(subject),
        timestamp_ms: None,
    }
}

/// The attributes of an event as the Kafka binding of CloudEvents, in binary mode, has them.
fn headers(Subject { input, kind, id, .. }: &Subject<'_>) -> Headers {
    let header = |name: &str, value: String| (name.to_owned(), Some(value.into_bytes()));
    vec![
        header("ce_specversion", "1.0".to_owned()),
        header("ce_id", (*id).to_owned()),
        header("ce_source", format!("/tstar/{input}")),
        header("ce_type", format!("tstar.trip.{kind}")),
        header("content-type", "application/json".to_owned()),
    ]
}
