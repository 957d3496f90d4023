//! Creates the tables of a store on servers.

use super::InvalidRequest;
use crate::store::{AnyStore, ServerOptions, StoreUrl};

/// A store whose tables are to be created.
pub struct ApplyRequest {
    /// The store as messages name it.
    pub store: String,
    /// The store.
    pub url: StoreUrl,
    /// How to reach the servers.
    pub server: ServerOptions,
    /// Replicas in each datacenter, to create the keyspace as well; `None`: it exists.
    pub replicas: Option<u32>,
}

/// Creates what does not exist yet and changes nothing else. Returns notes for the operator.
///
/// # Errors
/// The store creates its tables itself. The servers cannot be reached or reject the statements.
pub async fn apply(request: ApplyRequest) -> anyhow::Result<Vec<String>> {
    let ApplyRequest { store, url, server, replicas } = request;
    let notes = AnyStore::create_schema(&url, server, replicas).await?;
    let own_tables = || {
        InvalidRequest(format!(
            "store `{store}` creates its tables itself; pass --store scylla://HOST/KEYSPACE"
        ))
    };
    notes.ok_or_else(|| own_tables().into())
}
