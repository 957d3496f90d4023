//! The dead letter that unit tests start from.

use std::sync::Arc;

use crate::model::reason::DeadReason;
use crate::model::scalar::{LogTime, Offset};
use crate::source::Headers;
use crate::store::DeadLetter;

/// A dead letter of `truck-17`, whole, whose sample had these headers.
pub(crate) fn letter_with_headers(headers: Headers) -> DeadLetter {
    DeadLetter {
        partition: 3,
        offset: Offset(71),
        element: Some(2),
        count: 1,
        reason: DeadReason::BadTime,
        message: "time has no value".into(),
        origin: "samples".into(),
        line: 0,
        log_time_ms: LogTime(1_795_210_680_123),
        key: Some(b"truck-17"[..].into()),
        key_cut: None,
        headers: Arc::new(headers),
        headers_cut: None,
        value: b"{}".to_vec(),
        value_bytes: 2,
        sha256: None,
    }
}
