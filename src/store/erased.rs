//! Distinguishes unknown trips from erased ones.

use super::{Forget, StoreError, TripStore};
use crate::model::scalar::DeviceTime;

/// The combined forgets of a device if `time_ms` is before their floor. A time or id without a trip
/// is then gone rather than unknown. Call this only after the trip was not found: a trip that
/// extends past `before` is kept.
///
/// # Errors
/// The store cannot be read.
pub async fn was_erased<S: TripStore>(
    store: &S,
    device_id: &str,
    time_ms: DeviceTime,
) -> Result<Option<Forget>, StoreError> {
    let erased = store.erased(device_id).await?;
    Ok(erased.filter(|forget| time_ms < forget.before_ms))
}
