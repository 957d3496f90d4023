//! Whether what is not there was erased.

use super::{Forget, StoreError, TripStore};

impl Forget {
    /// Two of a device as one: the newer version, and the later `before`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let version = self.version.max(other.version);
        Self { version, before_ms: self.before_ms.max(other.before_ms) }
    }
}

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
