//! A dead letter as a record that its topic takes.
//!
//! The original key, value, headers and timestamp, and why it is here under the names that Kafka
//! Connect uses. Where that is too large, its largest parts are cut, one after the other: each to a
//! head, with length and SHA-256 of the whole in headers of their own.

use sha2::{Digest, Sha256};

use super::producer::{ProducerRecord, size, size_of_header};
use crate::source::{Cut, Headers, head_of};
use crate::store::DeadLetter;

/// Headers of a dead letter: the names that Kafka Connect uses, then ours.
pub(super) const TOPIC: &str = "__connect.errors.topic";
pub(super) const PARTITION: &str = "__connect.errors.partition";
pub(super) const OFFSET: &str = "__connect.errors.offset";
pub(super) const CONNECTOR: &str = "__connect.errors.connector.name";
pub(super) const REASON: &str = "__connect.errors.exception.class.name";
pub(super) const MESSAGE: &str = "__connect.errors.exception.message";
pub(super) const ELEMENT: &str = "tstar-element";
/// The log's time of the record, ms, of a letter whose topic does not take it.
pub(super) const LOG_TIME: &str = "tstar-log-time";
/// Length and hash of a part that is a head, in this order: value, key, headers.
pub(super) const VALUE_CUT: [&str; 2] = ["tstar-length", "tstar-sha256"];
pub(super) const KEY_CUT: [&str; 2] = ["tstar-key-length", "tstar-key-sha256"];
pub(super) const HEADERS_CUT: [&str; 2] = ["tstar-headers-length", "tstar-headers-sha256"];

/// The connector's name: who wrote the letter.
pub(super) const TSTAR: &str = "tstar";

/// Bytes kept of each part that is cut, the most first: the first ones that are enough.
const HEADS: [usize; 4] = [1 << 10, 256, 64, 0];

/// How much is kept of each part, bytes: value, key, headers, message.
type KeptBytes = [usize; 4];

/// A dead letter as a record, whole.
pub(super) fn whole(input: &str, letter: &DeadLetter) -> ProducerRecord {
    cut_to(input, letter, lengths(letter), &Cuts::default())
}

/// How large a record may be, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// All of it, as the topic counts.
    pub record: usize,
    /// Key and value, as the client counts.
    pub content: usize,
}

impl Limit {
    fn holds(self, record: &ProducerRecord) -> bool {
        let content = record.key.as_ref().map_or(0, Vec::len) + record.value.len();
        size(record) <= self.record && content <= self.content
    }
}

/// A dead letter as a record within a limit where that can be, else as the smallest one.
pub(super) fn fitting(input: &str, letter: &DeadLetter, limit: Limit) -> ProducerRecord {
    let (mut kept, mut cuts) = (lengths(letter), Cuts::default());
    let mut out = cut_to(input, letter, kept, &cuts);
    for head in HEADS {
        while !limit.holds(&out) {
            let largest = (0..kept.len()).filter(|part| kept[*part] > head);
            let Some(part) = largest.max_by_key(|part| kept[*part]) else { break };
            kept[part] = head;
            cuts.mark_cut(letter, part);
            out = cut_to(input, letter, kept, &cuts);
        }
    }
    out
}

/// The same letter at the time when it is sent: a topic may refuse times that lie too far from its
/// clock, which that of the record may do (`message.timestamp.before.max.ms` and `after.max.ms`).
pub(super) fn undated(mut letter: ProducerRecord) -> ProducerRecord {
    if let Some(time_ms) = letter.timestamp_ms.take() {
        letter.headers.push((LOG_TIME.to_owned(), Some(time_ms.to_string().into_bytes())));
    }
    letter
}

fn lengths(letter: &DeadLetter) -> KeptBytes {
    let key = letter.key.as_ref().map_or(0, |key| key.len());
    // Each has a length even where it is empty, so it is counted as it is sent.
    let headers = letter.headers.iter().map(size_of_header).sum();
    [letter.value.len(), key, headers, letter.message.len()]
}

/// The wholes of what is cut here.
#[derive(Default)]
struct Cuts {
    value: Option<Cut>,
    key: Option<Cut>,
    headers: Option<Cut>,
}

impl Cuts {
    /// Notes that a part is cut; one that was before is known by what it was then.
    fn mark_cut(&mut self, letter: &DeadLetter, part: usize) {
        match part {
            0 => {
                self.value.get_or_insert_with(|| cut_of(&letter.value));
            }
            1 => {
                self.key.get_or_insert_with(|| cut_of(letter.key.as_deref().unwrap_or_default()));
            }
            2 => {
                self.headers.get_or_insert_with(|| of_headers(&letter.headers));
            }
            _ => (),
        }
    }
}

fn cut_of(bytes: &[u8]) -> Cut {
    Cut { bytes: bytes.len() as u64, sha256: Sha256::digest(bytes).into() }
}

/// Bytes of names and values.
fn length_of(headers: &Headers) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum()
}

/// The hash is one of each name and each value in turn, in front of each its length as 8 bytes,
/// big-endian; of a value that is null the length is 2^64 - 1.
fn of_headers(headers: &Headers) -> Cut {
    let mut hash = Sha256::new();
    for (name, value) in headers {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
        let length = value.as_ref().map_or(u64::MAX, |value| value.len() as u64);
        hash.update(length.to_be_bytes());
        hash.update(value.as_deref().unwrap_or_default());
    }
    Cut { bytes: length_of(headers) as u64, sha256: hash.finalize().into() }
}

/// The heads of headers: the first that fit, no name and no value longer than a quarter of all.
fn heads(headers: &Headers, bytes: usize) -> Headers {
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

fn cut_to(input: &str, letter: &DeadLetter, kept: KeptBytes, cuts: &Cuts) -> ProducerRecord {
    let [value, key, header_bytes, message] = kept;
    let mut headers = match cuts.headers {
        Some(_) => heads(&letter.headers, header_bytes),
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
    let before = letter.sha256.map(|sha256| Cut { bytes: letter.value_bytes, sha256 });
    let parts = [
        (VALUE_CUT, before.as_ref().or(cuts.value.as_ref())),
        (KEY_CUT, letter.key_cut.as_ref().or(cuts.key.as_ref())),
        (HEADERS_CUT, letter.headers_cut.as_ref().or(cuts.headers.as_ref())),
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
        timestamp_ms: Some(letter.log_time_ms).filter(|time_ms| *time_ms > 0),
    }
}

#[cfg(test)]
#[path = "letter_limit_tests.rs"]
mod tests;
