//! Whether what is not there was erased.

use super::{Forget, StoreError, TripStore};

/// The forgets of a device as one, where a time is before their floor: a time or an id
/// that nothing covers is gone, then, rather than unknown. Ask after the trip was looked for: one
/// that reaches past `before` stands, and answers.
///
/// # Errors
/// The store cannot be read.
pub async fn was_erased<S: TripStore>(
    store: &S,
    device_id: &str,
    time_ms: i64,
) -> Result<Option<Forget>, StoreError> {
    let erased = store.erased(device_id).await?;
    Ok(erased.filter(|forget| time_ms < forget.before_ms))
}
