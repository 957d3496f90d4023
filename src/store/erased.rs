//! Whether what is not there was erased.

use super::{Forget, StoreError, TripStore};

/// The forget with the latest `before` of a device, where a time is before that: a time or an id
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
    let forgets = store.forgets(device_id).await?;
    let latest = forgets.into_iter().max_by_key(|forget| forget.before_ms);
    Ok(latest.filter(|forget| time_ms < forget.before_ms))
}
