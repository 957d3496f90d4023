//! The events of the change feed: each a function of a trip's row and of the changes it tells.

use serde::Serialize;

use crate::moment::format_time;
use crate::store::{Change, Forgotten, TripRow};
use crate::surface::{SurfaceError, TripJson, text_id};

/// An event, keys in the order of the contract.
#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    absorbed: Vec<String>,
    version: i64,
    trip: TripJson,
}

/// The event of trips that were erased.
#[derive(Serialize)]
struct ForgottenEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    device_id: &'a str,
    before: String,
    version: i64,
}

/// The event of a change, as one line of JSON: `{type, id, absorbed, version, trip}`, `absorbed`
/// being the ids that this change retired, `trip` the trip without its path.
///
/// # Errors
/// An id of the trip has no text form.
pub fn event(change: &Change, row: &TripRow) -> Result<String, SurfaceError> {
    let retired = change.retired.iter().map(|t_star_ms| text_id(&row.device_id, *t_star_ms));
    let absorbed = retired.collect::<Result<_, _>>()?;
    let trip = TripJson::of(row)?;
    let (kind, id, version) = (change.kind.name(), trip.id.clone(), row.version);
    let event = Event { kind, id, absorbed, version, trip };
    Ok(serde_json::to_string(&event).expect("an event is plain data"))
}

/// The event of a forget that was carried out, as one line of JSON: `{type, device_id, before,
/// version}`: every trip of the device that ends before `before` is gone.
#[must_use]
pub fn forgotten(forgotten: &Forgotten) -> String {
    let event = ForgottenEvent {
        kind: "forgotten",
        device_id: &forgotten.device_id,
        before: format_time(forgotten.forget.before_ms),
        version: forgotten.forget.version,
    };
    serde_json::to_string(&event).expect("an event is plain data")
}
