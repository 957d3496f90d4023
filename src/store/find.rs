//! The trip of an id, in whichever form.

use super::{DeviceScope, Forget, StoreError, TripRow, TripStore, was_erased};
use crate::identity::{AnyId, UuidId};
use crate::timeline::day_of;

/// Devices asked for at once.
const PAGE: usize = 1000;

/// What an id, or a time, finds.
#[derive(Debug)]
pub enum LookupResult {
    /// The trip that covers it.
    Trip(Box<TripRow>),
    /// Nothing: the trips up to a later time were erased.
    Gone {
        /// Device id.
        device_id: String,
        /// What erased them.
        forget: Forget,
    },
    /// Nothing.
    Unknown,
}

/// Finds the trip of a device that covers a time, ms since 1970.
///
/// # Errors
/// The store cannot be read.
pub async fn find_at<S: TripStore>(
    store: &S,
    device_id: &str,
    time_ms: i64,
) -> Result<LookupResult, StoreError> {
    if let Some(row) = store.covering(device_id, time_ms).await? {
        return Ok(LookupResult::Trip(Box::new(row)));
    }
    let forget = was_erased(store, device_id, time_ms).await?;
    let device_id = device_id.to_owned();
    Ok(forget.map_or(LookupResult::Unknown, |forget| LookupResult::Gone { device_id, forget }))
}

/// Finds the trip that covers the time of an id; a UUID names no device, so of one that finds
/// nothing it cannot be told whether it was erased.
///
/// # Errors
/// The store cannot be read.
pub async fn find<S: TripStore>(store: &S, id: &AnyId) -> Result<LookupResult, StoreError> {
    match id {
        AnyId::Trip(id) => find_at(store, &id.device_id, id.t_star_ms).await,
        AnyId::Uuid(id) => {
            let found = covering_uuid(store, id).await?;
            Ok(found.map_or(LookupResult::Unknown, |row| LookupResult::Trip(Box::new(row))))
        }
    }
}

/// The trip of a UUID. It holds a hash of the device alone, but its time names a day that the trip
/// touches, a retired id's too, its hash a shard of that day's list of devices.
async fn covering_uuid<S: TripStore>(
    store: &S,
    id: &UuidId,
) -> Result<Option<TripRow>, StoreError> {
    let whose = DeviceScope::OfShard(day_of(id.t_star_ms), id.shard());
    let mut after: Option<String> = None;
    loop {
        let devices = store.devices(whose, after.as_deref(), PAGE).await?;
        if let Some(device) = devices.iter().find(|device| id.matches(device, id.t_star_ms)) {
            return store.covering(device, id.t_star_ms).await;
        }
        after = devices.into_iter().next_back();
        if after.is_none() {
            return Ok(None);
        }
    }
}
