//! Encodes a dead letter as a record within the size limit of its topic.
//!
//! The record has the original key, value, headers and timestamp, and describes the error in
//! headers with the names of Kafka Connect. If it is too large, its largest parts are cut one after
//! the other: each to a prefix, with length and SHA-256 of the whole part in additional headers.

use sha2::{Digest, Sha256};

use super::producer::{ProducerRecord, size, size_of_header};
use crate::model::scalar::LogTime;
use crate::source::{Cut, Headers, head_of};
use crate::store::DeadLetter;

/// Headers of a dead letter: first the names that Kafka Connect uses, then ours.
pub(super) const TOPIC: &str = "__connect.errors.topic";
pub(super) const PARTITION: &str = "__connect.errors.partition";
pub(super) const OFFSET: &str = "__connect.errors.offset";
pub(super) const CONNECTOR: &str = "__connect.errors.connector.name";
pub(super) const REASON: &str = "__connect.errors.exception.class.name";
pub(crate) const MESSAGE: &str = "__connect.errors.exception.message";
pub(super) const ELEMENT: &str = "tstar-element";
/// Log timestamp of the record, ms, if the topic of the letter refuses that timestamp.
pub(crate) const LOG_TIME: &str = "tstar-log-time";
/// Length and hash of a cut part: value, key, headers.
pub(super) const VALUE_CUT: [&str; 2] = ["tstar-length", "tstar-sha256"];
pub(super) const KEY_CUT: [&str; 2] = ["tstar-key-length", "tstar-key-sha256"];
pub(super) const HEADERS_CUT: [&str; 2] = ["tstar-headers-length", "tstar-headers-sha256"];

/// Connector name of letters written by tstar.
pub(super) const TSTAR: &str = "tstar";

/// Lengths that parts are cut to, bytes; a shorter one is tried only if the longer ones are not
/// enough.
const HEAD_BYTES: [usize; 4] = [1 << 10, 256, 64, 0];

/// Length of each part, bytes: value, key, headers, message.
type PartLengths = [usize; 4];

/// Encodes a dead letter without cutting it.
#[cfg(test)]
pub(super) fn full_record(input: &str, letter: &DeadLetter) -> ProducerRecord {
    cut_to(input, letter, lengths(letter), &Cuts::default())
}

/// Size limit of a record, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Total size, as the topic counts it.
    pub record: usize,
    /// Key and value, as the client counts them.
    pub content: usize,
}

impl Limit {
    fn accepts(self, record: &ProducerRecord) -> bool {
        let content = record.key.as_ref().map_or(0, Vec::len) + record.value.len();
        size(record) <= self.record && content <= self.content
    }
}

/// Encodes a dead letter within a limit, or as small as possible if that is not enough.
pub(crate) fn fitting_record(input: &str, letter: &DeadLetter, limit: Limit) -> ProducerRecord {
    let (mut kept, mut cuts) = (lengths(letter), Cuts::default());
    let mut out = cut_to(input, letter, kept, &cuts);
    for max in HEAD_BYTES {
        while !limit.accepts(&out) {
            let largest = (0..kept.len()).filter(|part| kept[*part] > max);
            let Some(part) = largest.max_by_key(|part| kept[*part]) else { break };
            kept[part] = max;
            if let Some(cut) = cuts.get_mut(part) {
                cut.get_or_insert_with(|| cut_of(letter, part));
            }
            out = cut_to(input, letter, kept, &cuts);
        }
    }
    out
}

/// Moves the timestamp of a letter to a header, so that the letter gets the time of sending: a
/// topic may refuse a timestamp that lies too far from its clock (`message.timestamp.before.max.ms`
/// and `after.max.ms`).
pub(crate) fn without_timestamp(mut letter: ProducerRecord) -> ProducerRecord {
    if let Some(time_ms) = letter.timestamp_ms.take() {
        letter.headers.push((LOG_TIME.to_owned(), Some(time_ms.to_string().into_bytes())));
    }
    letter
}

fn lengths(letter: &DeadLetter) -> PartLengths {
    let key = letter.key.as_ref().map_or(0, |key| key.len());
    // Each header takes bytes even if it is empty, so count it as it is sent.
    let headers = letter.headers.iter().map(size_of_header).sum();
    [letter.value.len(), key, headers, letter.message.len()]
}

/// Length and hash of the parts that are cut here: value, key, headers.
type Cuts = [Option<Cut>; 3];

fn cut_of(letter: &DeadLetter, part: usize) -> Cut {
    match part {
        0 => Cut::new(&letter.value),
        1 => Cut::new(letter.key.as_deref().unwrap_or_default()),
        _ => cut_of_headers(&letter.headers),
    }
}

/// Length and hash of headers. The hash covers each name and each value in turn, each preceded by
/// its length as 8 bytes, big-endian; the length of a null value is 2^64 - 1.
fn cut_of_headers(headers: &Headers) -> Cut {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    for (name, value) in headers {
        bytes += name.len() + value.as_ref().map_or(0, Vec::len);
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
        let length = value.as_ref().map_or(u64::MAX, |value| value.len() as u64);
        hash.update(length.to_be_bytes());
        hash.update(value.as_deref().unwrap_or_default());
    }
    Cut { bytes: bytes as u64, sha256: hash.finalize().into() }
}

/// Cuts headers: keeps the first that fit, with no name and no value longer than a quarter of the
/// limit.
fn header_heads(headers: &Headers, bytes: usize) -> Headers {
    let (mut left, each) = (bytes, bytes / 4);
    let mut kept = Headers::new();
    for (name, value) in headers {
        let value = value.as_ref().map(|value| value[..value.len().min(each)].to_vec());
        let header = (head_of(name, each).to_owned(), value);
        let Some(rest) = left.checked_sub(size_of_header(&header)) else { break };
        left = rest;
        kept.push(header);
    }
    kept
}

fn cut_to(input: &str, letter: &DeadLetter, kept: PartLengths, cuts: &Cuts) -> ProducerRecord {
    let [value, key, header_bytes, message] = kept;
    let mut headers = match cuts[2] {
        Some(_) => header_heads(&letter.headers, header_bytes),
        None => letter.headers.to_vec(),
    };
    let mut add = |name: &str, value: String| {
        headers.push((name.to_owned(), Some(value.into_bytes())));
    };
    add(TOPIC, input.to_owned());
    add(PARTITION, letter.partition.to_string());
    add(OFFSET, letter.offset.to_string());
    add(CONNECTOR, TSTAR.to_owned());
    add(REASON, letter.reason.name().to_owned());
    add(MESSAGE, head_of(&letter.message, message).to_owned());
    if let Some(element) = letter.element {
        add(ELEMENT, element.to_string());
    }
    let value_cut = letter.sha256.map(|sha256| Cut { bytes: letter.value_bytes, sha256 });
    let parts = [
        (VALUE_CUT, value_cut.as_ref().or(cuts[0].as_ref())),
        (KEY_CUT, letter.key_cut.as_ref().or(cuts[1].as_ref())),
        (HEADERS_CUT, letter.headers_cut.as_ref().or(cuts[2].as_ref())),
    ];
    for ([length, sha256], cut) in parts {
        if let Some(cut) = cut {
            add(length, cut.bytes.to_string());
            add(sha256, data_encoding::HEXLOWER.encode(&cut.sha256));
        }
    }
    ProducerRecord {
        key: letter.key.as_ref().map(|whole| whole[..key].to_vec()),
        value: letter.value[..value].to_vec(),
        headers,
        timestamp_ms: Some(letter.log_time_ms)
            .filter(|time_ms| *time_ms > LogTime(0))
            .map(LogTime::ms),
        partition: None,
    }
}

#[cfg(test)]
#[path = "letter_record_tests.rs"]
mod tests;
