//! Creates the tables of a store on servers.

use super::InvalidRequest;
use crate::settings::Settings;
use crate::store::AnyStore;

/// Creates what does not exist yet and changes nothing else. Returns notes for the operator.
/// `replicas` in each datacenter: creates the keyspace as well; `None`: it exists.
///
/// # Errors
/// The store creates its tables itself. The servers cannot be reached or reject the statements.
pub async fn apply(settings: &Settings, replicas: Option<u32>) -> anyhow::Result<Vec<String>> {
    let (server, store) = (settings.server_options()?, &settings.store);
    let notes = AnyStore::create_schema(&settings.url()?, server, replicas).await?;
    let own_tables = || {
        InvalidRequest(format!(
            "store `{store}` creates its tables itself; pass --store scylla://HOST/KEYSPACE"
        ))
    };
    notes.ok_or_else(|| own_tables().into())
}
