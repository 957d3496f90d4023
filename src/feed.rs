//! The events of the change feed: each a function of a trip's row and of the changes it tells.

use serde::Serialize;

use crate::store::{Change, TripRow};
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
