//! The device partition: decided once per epoch and the same for every caller.

use metrics::counter;

use super::{Order, StoreError, TripStore};
use crate::model::epoch::Division;
use crate::model::scalar::DeviceTime;
use crate::telemetry::{CLAIM_INSERTED, CLAIM_READ, CLAIMS};

/// Trips read per query while looking for the latest one of an epoch.
const PAGE: usize = 16;

/// The partition of a device in an epoch. If it is unknown, claims `own`, the partition of the
/// current record.
///
/// # Errors
/// The store fails.
pub async fn home(
    store: &impl TripStore,
    device_id: &str,
    division: &Division,
    own: i32,
) -> Result<i32, StoreError> {
    if let Some(partition) = division.computed(device_id) {
        return Ok(partition);
    }
    // A plain read first: a conditional insert costs several round trips between replicas.
    if let Some(partition) = store.claimed(device_id, division.epoch).await? {
        counter!(CLAIMS, "how" => CLAIM_READ).increment(1);
        return Ok(partition);
    }
    let of_trips = partition_of_trips(store, device_id, division).await?;
    counter!(CLAIMS, "how" => CLAIM_INSERTED).increment(1);
    store.claim(device_id, division.epoch, of_trips.unwrap_or(own)).await
}

/// The partition of a device in an epoch, if it is known. Never claims one.
///
/// # Errors
/// The store fails.
pub async fn known_home(
    store: &impl TripStore,
    device_id: &str,
    division: &Division,
) -> Result<Option<i32>, StoreError> {
    if let Some(partition) = division.computed(device_id) {
        return Ok(Some(partition));
    }
    match store.claimed(device_id, division.epoch).await? {
        None => partition_of_trips(store, device_id, division).await,
        claimed => Ok(claimed),
    }
}

/// The partition of a device's latest trip of an epoch, for epochs that began without claims.
async fn partition_of_trips(
    store: &impl TripStore,
    device_id: &str,
    division: &Division,
) -> Result<Option<i32>, StoreError> {
    if division.has_claims_from_beginning() {
        return Ok(None);
    }
    let mut upto_ms = DeviceTime::MAX;
    loop {
        let rows = store.range(device_id, DeviceTime::MIN, upto_ms, Order::Desc, PAGE).await?;
        if let Some(row) = rows.iter().find(|row| division.holds(row.version)) {
            return Ok(Some(row.partition));
        }
        match rows.last() {
            Some(oldest) if rows.len() == PAGE => upto_ms = oldest.start_ms - 1,
            _ => return Ok(None),
        }
    }
}
