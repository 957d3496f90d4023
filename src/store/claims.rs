//! Which partition a device belongs to: one decision for each epoch, whoever asks, whenever.

use metrics::counter;

use super::{Order, StoreError, TripStore};
use crate::model::epoch::Division;
use crate::telemetry::{CLAIM_INSERTED, CLAIM_READ, CLAIMS};

/// Trips that are looked through at a time for the latest of an epoch.
const PAGE: usize = 16;

/// The partition of a device in an epoch. Where it is not known yet it becomes `own`, the one that
/// a record of it has come in.
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
    // A plain read first: the conditional insert costs several round trips between replicas.
    if let Some(partition) = store.claimed(device_id, division.epoch).await? {
        counter!(CLAIMS, "how" => CLAIM_READ).increment(1);
        return Ok(partition);
    }
    let of_trips = partition_of_trips(store, device_id, division).await?;
    counter!(CLAIMS, "how" => CLAIM_INSERTED).increment(1);
    store.claim(device_id, division.epoch, of_trips.unwrap_or(own)).await
}

/// The partition of a device in an epoch, if it is known: nothing is claimed.
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

/// The partition of a device's latest trip of an epoch, where claims were not made from the
/// beginning of it.
async fn partition_of_trips(
    store: &impl TripStore,
    device_id: &str,
    division: &Division,
) -> Result<Option<i32>, StoreError> {
    if division.has_claims_from_beginning() {
        return Ok(None);
    }
    let mut upto_ms = i64::MAX;
    loop {
        let rows = store.range(device_id, i64::MIN, upto_ms, Order::Desc, PAGE).await?;
        if let Some(row) = rows.iter().find(|row| division.holds(row.version)) {
            return Ok(Some(row.partition));
        }
        match rows.last() {
            Some(oldest) if rows.len() == PAGE => upto_ms = oldest.start_ms - 1,
            _ => return Ok(None),
        }
    }
}
