//! Control keys in Scylla, added by a conditional insert.

use std::sync::atomic::{AtomicU32, Ordering};

use super::ScyllaStore;
use super::epochs::applied;
use crate::model::control::NamedKey;
use crate::store::{KeyStore, StoreError};

impl KeyStore for ScyllaStore {
    async fn control_keys(&self) -> Result<Vec<NamedKey>, StoreError> {
        let shared = &self.shared;
        let select = || async {
            let found = shared.session.execute_unpaged(&shared.statements.control_keys, ()).await?;
            let found = found.into_rows_result()?;
            let named = |(name, fingerprint)| NamedKey { name, fingerprint };
            let rows = found.rows::<(String, String)>()?;
            Ok(rows.map(|row| row.map(named)).collect::<Result<Vec<_>, _>>()?)
        };
        shared.retry.until_acknowledged("reading the control keys", select).await
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool, StoreError> {
        let (shared, attempts) = (&self.shared, AtomicU32::new(0));
        let values = (&key.name, &key.fingerprint);
        let insert = || async {
            attempts.fetch_add(1, Ordering::Relaxed);
            let statement = &shared.statements.add_control_key;
            applied(shared.session.execute_unpaged(statement, values).await?)
        };
        let added = shared.retry.until_acknowledged("adding a control key", insert).await?;
        if added || attempts.load(Ordering::Relaxed) == 1 {
            return Ok(added);
        }
        // An earlier attempt without an answer may have added it.
        Ok(self.control_keys().await?.contains(key))
    }
}
