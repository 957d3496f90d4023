//! The forms of a trip id, as JSON.

use serde::Serialize;
use tstar_core::DeviceTime;
use tstar_core::identity::{AnyId, TripId, check_device_id, prefix, prefix_range};

use crate::error::CallError;

/// What an id says.
#[derive(Serialize)]
struct IdJson {
    /// Null in the UUID form, which has only a hash of it.
    device_id: Option<String>,
    t_star_ms: i64,
}

/// The id of a device and a time in all forms. One that it does not have is null.
#[derive(Serialize)]
struct FormsJson {
    text: Option<String>,
    key: String,
    uuid: Option<String>,
}

/// What a prefix selects.
#[derive(Serialize)]
struct RangeJson {
    device_id: String,
    from_ms: i64,
    upto_ms: i64,
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(value).map_err(|error| CallError::input("answer", error))
}

/// The id of a device and a time in all forms.
pub(crate) fn forms(device_id: &str, t_star_ms: DeviceTime) -> Result<Vec<u8>, CallError> {
    let id = TripId::new(device_id, t_star_ms)?;
    let uuid = id.uuid().ok().map(|it| it.to_string());
    json(&FormsJson { text: id.text().ok(), key: id.key_text(), uuid })
}

/// Device and time of an id in any form.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>, CallError> {
    let id = AnyId::parse(text)?;
    let t_star_ms = id.t_star_ms().ms();
    let device_id = match id {
        AnyId::Trip(id) => Some(id.device_id.as_str().to_owned()),
        AnyId::Uuid(_) => None,
    };
    json(&IdJson { device_id, t_star_ms })
}

/// Whether an id in any form is one of a device.
pub(crate) fn is_of(text: &str, device_id: &str) -> Result<Vec<u8>, CallError> {
    check_device_id(device_id)?;
    json(&match AnyId::parse(text)? {
        AnyId::Trip(id) => id.device_id.as_str() == device_id,
        AnyId::Uuid(id) => id.matches(device_id, id.t_star_ms),
    })
}

/// The prefix of the text ids of a device's trips of a date.
pub(crate) fn prefix_of(device_id: &str, date: &str) -> Result<Vec<u8>, CallError> {
    json(&prefix(device_id, date)?)
}

/// What a prefix selects.
pub(crate) fn range(text: &str) -> Result<Vec<u8>, CallError> {
    let (device_id, from_ms, upto_ms) = prefix_range(text)?;
    let device_id = device_id.as_str().to_owned();
    json(&RangeJson { device_id, from_ms: from_ms.ms(), upto_ms: upto_ms.ms() })
}
