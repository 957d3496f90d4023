//! The device partition: decided once per epoch and the same for every caller.

use metrics::counter;

use super::{StoreError, TripStore};
use crate::model::epoch::Division;
use crate::telemetry::{CLAIM_INSERTED, CLAIM_READ, CLAIMS};

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
    counter!(CLAIMS, "how" => CLAIM_INSERTED).increment(1);
    store.claim(device_id, division.epoch, own).await
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
    store.claimed(device_id, division.epoch).await
}
