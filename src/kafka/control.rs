//! Control records: commands about a device in the log, signed by the operator.

use serde_json::Value;

use super::record::Record;
use crate::identity::DeviceId;
use crate::model::control::{Claim, ControlKeys, Signature};
use crate::model::reason::DeadReason;
use crate::model::scalar::DeviceTime;
use crate::model::time::{format_duration, format_time, parse_time};
use crate::source::{Control, SampleError};

/// Header of a control record; its value is the kind of command.
pub const CONTROL_HEADER: &str = "tstar-control";

/// Header of the signature of a control record, as `KEY NAME:HEX`.
pub const SIGNATURE_HEADER: &str = "tstar-signature";

/// Maximum length of the body of a control record, bytes.
const MAX_BODY_BYTES: usize = 1 << 10;

/// Keys and limits that control records of a topic have to satisfy.
#[derive(Clone, Debug, Default)]
pub struct Authority {
    /// Name of the topic; a signature for another topic is invalid.
    pub topic: String,
    /// Valid keys.
    pub keys: ControlKeys,
    /// Maximum time that a `before` may lie past the log timestamp of its record, ms.
    pub max_future_ms: i64,
}

impl Authority {
    /// Verifies and decodes a control record. Without a valid signature it is `not_authorised`,
    /// whatever else is wrong with it.
    pub(super) fn read(&self, record: &Record<'_>, kind: &[u8]) -> Result<Control, SampleError> {
        let key = record.key.unwrap_or_default();
        let (before, signer) = self.signed_before(record, key, kind)?;
        let bad_type = |message: String| Err(SampleError::new(DeadReason::BadType, message));
        if kind != b"forget" {
            let kind = String::from_utf8_lossy(kind);
            return bad_type(format!(
                "control record `{kind}` is unknown; the only kind is `forget`"
            ));
        }
        let device_id = std::str::from_utf8(key).ok().and_then(|id| DeviceId::new(id).ok());
        let Some(device_id) = device_id else {
            let message = "the key of a control record has to be a device id";
            return Err(SampleError::new(DeadReason::NoKey, message));
        };
        // No sample is older: `min_time` is 1970 or later.
        if before < DeviceTime(0) {
            let before = format_time(before.ms());
            return bad_type(format!("before is {before}, which is before 1970"));
        }
        if before.ms() > record.log_time_ms.saturating_add(self.max_future_ms).ms() {
            return Err(not_authorised(format!(
                "before {} is more than --max-future, {}, past the record's timestamp {}",
                format_time(before.ms()),
                format_duration(self.max_future_ms),
                format_time(record.log_time_ms.ms())
            )));
        }
        let (offset, key) = (record.offset, Some(signer));
        Ok(Control::Forget { offset, device_id, before_ms: before, key })
    }

    /// The `before` of a record and the name of its key, if its signature is valid.
    fn signed_before(
        &self,
        record: &Record<'_>,
        key: &[u8],
        kind: &[u8],
    ) -> Result<(DeviceTime, String), SampleError> {
        let Some(signature) = record.header(SIGNATURE_HEADER) else {
            let message = "a control record needs the operator's signature, and this one has \
                 none; tstar forget signs";
            return Err(not_authorised(message));
        };
        let Some(signature) = Signature::parse(signature) else {
            return Err(not_authorised(
                "header tstar-signature is not NAME:HEX with 32 bytes of hex",
            ));
        };
        let name = &signature.key;
        let Some(control_key) = self.keys.key_of(&signature) else {
            let message = format!("it is signed by key `{name}`, which is not a known control key");
            return Err(SampleError { unknown_key: Some(name.clone()), ..not_authorised(message) });
        };
        let before_ms = before(record.value.unwrap_or_default()).map_err(not_authorised)?;
        let claim = Claim { topic: &self.topic, device: key, kind, before_ms };
        if !control_key.verifies(&signature, &claim) {
            return Err(not_authorised(format!(
                "the signature by key `{name}` does not match this topic, device, kind and before"
            )));
        }
        Ok((before_ms, signature.key))
    }
}

fn not_authorised(message: impl Into<String>) -> SampleError {
    SampleError::new(DeadReason::NotAuthorised, message)
}

/// Parses `{"before": TIME}` into ms since 1970.
fn before(value: &[u8]) -> Result<DeviceTime, String> {
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
        Value::String(text) => parse_time(&text).map(DeviceTime).map_err(|error| error.to_string()),
        other => {
            let ms = other.as_i64().map(DeviceTime);
            ms.ok_or_else(|| format!("before is {other}; it needs RFC 3339 or ms since 1970"))
        }
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
