//! Control records: what the log asks to do about a device, where the operator has signed it.

use serde_json::Value;

use super::record::Record;
use crate::model::control::{Claim, ControlKeys, Signature};
use crate::model::reason::DeadReason;
use crate::model::time::{format_duration, format_time, parse_time};
use crate::source::{Control, SampleError};

/// Header of a record that is about a device rather than from it.
pub const CONTROL_HEADER: &str = "tstar-control";

/// Header of the signature of such a record, as `KEY NAME:HEX`.
pub const SIGNATURE_HEADER: &str = "tstar-signature";

/// Maximum length of the body of a control record, bytes.
const MAX_BODY_BYTES: usize = 1 << 10;

/// Who may give orders in a topic, and which.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    /// Name of the topic: an order of one counts in no other.
    pub topic: String,
    /// Keys that count.
    pub keys: ControlKeys,
    /// Maximum time that a `before` may lie past the log timestamp of its record, ms.
    pub max_future_ms: i64,
}

impl Authority {
    /// Reads a control record of a kind. Without a right signature it is `not_authorised`,
    /// whatever else is wrong with it.
    pub(super) fn read(&self, record: &Record<'_>, kind: &[u8]) -> Result<Control, SampleError> {
        let key = record.key.unwrap_or_default();
        let before = self.signed_before(record, key, kind)?;
        let bad = |message: String| Err(SampleError::new(DeadReason::BadType, message));
        if kind != b"forget" {
            let kind = String::from_utf8_lossy(kind);
            return bad(format!("control record `{kind}` is not known; there is `forget`"));
        }
        let device_id = match std::str::from_utf8(key) {
            Ok(id) if (1..=256).contains(&id.len()) && !id.contains('\0') => id.to_owned(),
            _ => {
                let message = "a control record needs a device id for its key";
                return Err(SampleError::new(DeadReason::NoKey, message));
            }
        };
        // No sample is older, and nothing is left of a day that far back to count in.
        if before < 0 {
            return bad(format!("before is {before} ms, which lies before 1970"));
        }
        if before > record.log_time_ms.saturating_add(self.max_future_ms) {
            return Err(refused(format!(
                "before {} lies more than --max-future, {}, past the record's timestamp {}",
                format_time(before),
                format_duration(self.max_future_ms),
                format_time(record.log_time_ms)
            )));
        }
        Ok(Control::Forget { offset: record.offset, device_id, before_ms: before })
    }

    /// The `before` of a record that is signed by a key that counts.
    fn signed_before(
        &self,
        record: &Record<'_>,
        key: &[u8],
        kind: &[u8],
    ) -> Result<i64, SampleError> {
        let Some(signature) = record.header(SIGNATURE_HEADER) else {
            let message = "a control record counts with the operator's signature alone, and this \
                 one has none; tstar forget signs";
            return Err(refused(message));
        };
        let Some(signature) = Signature::parse(signature) else {
            return Err(refused("header tstar-signature is not NAME:HEX of 32 bytes"));
        };
        let name = &signature.key;
        let Some(control_key) = self.keys.key_of(&signature) else {
            let message = format!("it is signed by key `{name}`, and no key of that name counts");
            return Err(SampleError { unknown_key: Some(name.clone()), ..refused(message) });
        };
        let before_ms = before(record.value.unwrap_or_default()).map_err(refused)?;
        let claim = Claim { topic: &self.topic, device: key, kind, before_ms };
        if !control_key.verifies(&signature, &claim) {
            return Err(refused(format!(
                "the signature by key `{name}` is not one of this topic, device, kind and before"
            )));
        }
        Ok(before_ms)
    }
}

fn refused(message: impl Into<String>) -> SampleError {
    SampleError::new(DeadReason::NotAuthorised, message)
}

/// `{"before": TIME}`, in ms since 1970.
fn before(value: &[u8]) -> Result<i64, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        before: Value,
    }
    if value.len() > MAX_BODY_BYTES {
        let length = value.len();
        return Err(format!("the body of a forget is {{\"before\": TIME}}, not {length} bytes"));
    }
    let body: Body = serde_json::from_slice(value)
        .map_err(|error| format!("the body of a forget is {{\"before\": TIME}}: {error}"))?;
    match body.before {
        Value::String(text) => parse_time(&text).map_err(|error| error.to_string()),
        other => {
            let ms = other.as_i64();
            ms.ok_or_else(|| format!("before is {other}; it needs RFC 3339 or ms since 1970"))
        }
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
