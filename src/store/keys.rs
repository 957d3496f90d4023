//! Which control keys count in a log.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::StoreError;
use crate::model::control::NamedKey;

/// Keeps which control keys count, beside the epochs and as they are: only ever added to.
pub trait KeyStore: Send + Sync {
    /// Every key that was ever added, by name.
    fn control_keys(&self) -> impl Future<Output = Result<Vec<NamedKey>, StoreError>> + Send;

    /// Adds a key unless there is one of its name; tells whether it was added.
    fn add_control_key(
        &self,
        key: &NamedKey,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Asks a store which keys count by now: another instance may have added some.
pub type AskKeys = Arc<dyn Fn() -> BoxFuture<'static, KeysAnswer> + Send + Sync>;

/// What the store says.
pub type KeysAnswer = Result<Vec<NamedKey>, StoreError>;

/// Asks this store.
#[must_use]
pub fn ask_keys<S: KeyStore + 'static>(store: Arc<S>) -> AskKeys {
    Arc::new(move || {
        let store = Arc::clone(&store);
        Box::pin(async move { store.control_keys().await })
    })
}
