//! The control keys that are valid in a log.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::StoreError;
use crate::model::control::NamedKey;

/// Stores the names and fingerprints of control keys. Like epochs, they are only ever added.
pub trait KeyStore: Send + Sync {
    /// All keys, by name.
    fn control_keys(&self) -> impl Future<Output = Result<Vec<NamedKey>, StoreError>> + Send;

    /// Adds a key unless one of that name exists; returns whether it was added.
    fn add_control_key(
        &self,
        key: &NamedKey,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Reads the current keys of a store: another instance may have added some.
pub type AskKeys = Arc<dyn Fn() -> BoxFuture<'static, KeysAnswer> + Send + Sync>;

/// The keys of a store, or the error of reading them.
pub type KeysAnswer = Result<Vec<NamedKey>, StoreError>;

/// An [`AskKeys`] that reads `store`.
#[must_use]
pub fn ask_keys<S: KeyStore + 'static>(store: Arc<S>) -> AskKeys {
    Arc::new(move || {
        let store = Arc::clone(&store);
        Box::pin(async move { store.control_keys().await })
    })
}
