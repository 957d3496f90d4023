//! Control keys in Scylla, added by a conditional insert.

use std::sync::atomic::{AtomicU32, Ordering};

use super::ScyllaStore;
use super::cql::Cql;
use super::epochs::applied;
use crate::model::control::NamedKey;
use crate::store::{KeyStore, StoreError};

impl<C: Cql> KeyStore for ScyllaStore<C> {
    async fn control_keys(&self) -> Result<Vec<NamedKey>, StoreError> {
        let shared = &self.shared;
        let select = || shared.session.unpaged(&shared.statements.control_keys, &());
        let found: Vec<(String, String)> =
            shared.retry.until_acknowledged("reading the control keys", select).await?;
        let named = |(name, fingerprint)| NamedKey { name, fingerprint };
        Ok(found.into_iter().map(named).collect())
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool, StoreError> {
        let (shared, attempts) = (&self.shared, AtomicU32::new(0));
        let values = (&key.name, &key.fingerprint);
        let insert = || async {
            attempts.fetch_add(1, Ordering::Relaxed);
            let statement = &shared.statements.add_control_key;
            Ok(applied(&shared.session.execute_conditional(statement, &values).await?))
        };
        let added = shared.retry.until_acknowledged("adding a control key", insert).await?;
        if added || attempts.load(Ordering::Relaxed) == 1 {
            return Ok(added);
        }
        // An earlier attempt without an answer may have added it.
        Ok(self.control_keys().await?.contains(key))
    }
}
