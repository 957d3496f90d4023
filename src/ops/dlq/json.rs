//! A dead letter as JSON.

use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;

use crate::log::letters::{LetterId, StoredLetter};
use crate::model::scalar::Offset;
use crate::model::time::format_time;
use crate::source::Cut;

/// A dead letter as `dlq ls` and `dlq show` print it. Scripts parse it: names and order are fixed.
#[derive(Debug, Serialize)]
pub(crate) struct LetterJson {
    id: LetterId,
    reason: &'static str,
    message: String,
    file: String,
    line: u64,
    partition: i32,
    offset: Offset,
    element: Option<u32>,
    count: u64,
    key: Option<String>,
    key_bytes: Option<u64>,
    key_sha256: Option<String>,
    headers: Vec<(String, Option<String>)>,
    headers_bytes: Option<u64>,
    headers_sha256: Option<String>,
    log_time: String,
    value: Option<String>,
    value_base64: Option<String>,
    value_bytes: u64,
    sha256: Option<String>,
}

impl From<StoredLetter> for LetterJson {
    fn from(stored: StoredLetter) -> Self {
        let letter = stored.letter;
        // Bytes that are not UTF-8 are printed in base64, so that none of them is lost.
        let (value, value_base64) = match String::from_utf8(letter.value) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(BASE64.encode(error.as_bytes()))),
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let headers = letter.headers.iter().cloned();
        let hash = |cut: &Option<Cut>| cut.as_ref().map(|cut| HEXLOWER.encode(&cut.sha256));
        let bytes = |cut: &Option<Cut>| cut.as_ref().map(|cut| cut.bytes);
        Self {
            id: stored.id,
            reason: letter.reason.name(),
            message: letter.message,
            file: letter.origin,
            line: letter.line,
            partition: letter.partition,
            offset: letter.offset,
            element: letter.element,
            count: letter.count,
            key: letter.key.map(|key| text(key.to_vec())),
            key_bytes: bytes(&letter.key_cut),
            key_sha256: hash(&letter.key_cut),
            headers: headers.map(|(name, value)| (name, value.map(text))).collect(),
            headers_bytes: bytes(&letter.headers_cut),
            headers_sha256: hash(&letter.headers_cut),
            log_time: format_time(letter.log_time_ms.ms()),
            value,
            value_base64,
            value_bytes: letter.value_bytes,
            sha256: letter.sha256.map(|hash| HEXLOWER.encode(&hash)),
        }
    }
}
