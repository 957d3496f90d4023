//! The names and fingerprints of control keys.

use rusqlite::params;

use crate::model::control::NamedKey;
use crate::store::Result;
#[cfg(feature = "internals")]
use crate::store::memory::{MemoryStore, add};
use crate::store::scylla::ScyllaStore;
use crate::store::scylla::cql::{Cql, Mode, applied};
use crate::store::scylla::statements;
use crate::store::sqlite::SqliteStore;

statements! { Statements, consistency =>
    all: Mode::Serial(consistency) =>
        "SELECT name, fingerprint FROM control_keys
             WHERE log = 'log' ORDER BY name ASC",
    add: Mode::Conditional =>
        "INSERT INTO control_keys (log, name, fingerprint)
             VALUES ('log', ?, ?) IF NOT EXISTS",
}

impl<C: Cql> ScyllaStore<C> {
    pub(super) async fn control_keys(&self) -> Result<Vec<NamedKey>> {
        let select = &self.shared.statements.side.control_keys.all;
        let named = |(name, fingerprint)| Ok(NamedKey { name, fingerprint });
        self.shared.at_once("reading the control keys", select, (), named).await
    }

    pub(super) async fn add_control_key(&self, key: &NamedKey) -> Result<bool> {
        let (shared, insert) = (&self.shared, &self.shared.statements.side.control_keys.add);
        let values = (&key.name, &key.fingerprint);
        let added = shared.conditional("adding a control key", insert, values).await?;
        let (answer, is_repeated) = added;
        // An earlier attempt without an answer may have added it.
        Ok(applied(&answer) || (is_repeated && self.control_keys().await?.contains(key)))
    }
}

impl SqliteStore {
    pub(super) async fn control_keys(&self) -> Result<Vec<NamedKey>> {
        let select = "SELECT name, fingerprint FROM control_keys ORDER BY name ASC";
        self.select("reading the control keys", select, [], |row| {
            Ok(NamedKey { name: row.get(0)?, fingerprint: row.get(1)? })
        })
    }

    pub(super) async fn add_control_key(&self, key: &NamedKey) -> Result<bool> {
        let insert = "INSERT OR IGNORE INTO control_keys (name, fingerprint) VALUES (?1, ?2)";
        let values = params![key.name, key.fingerprint];
        Ok(self.execute("adding a control key", insert, values)? == 1)
    }
}

#[cfg(feature = "internals")]
impl MemoryStore {
    pub(super) async fn control_keys(&self) -> Result<Vec<NamedKey>> {
        Ok(self.state().keys.values().cloned().collect())
    }

    pub(super) async fn add_control_key(&self, key: &NamedKey) -> Result<bool> {
        Ok(add(&mut self.state().keys, key.name.clone(), key))
    }
}
