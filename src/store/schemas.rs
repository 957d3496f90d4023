//! The schemas of a log's records: for each id the first verdict, the same for every owner.

use std::future::Future;

use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::model::schema::{SchemaId, SchemaVerdict};

/// A verdict on the id of a schema, in its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSchema {
    /// Epoch of the records.
    pub epoch: i32,
    /// Number of the verdict in its epoch, from 0.
    pub slot: i32,
    /// The id.
    pub id: SchemaId,
    /// The verdict.
    pub verdict: SchemaVerdict,
}

/// Stores verdicts on the ids of schemas. Like epochs, they are only ever added.
pub trait SchemaStore: Send + Sync {
    /// The ids of an epoch, by slot from 0.
    fn schema_ids(
        &self,
        epoch: i32,
    ) -> impl Future<Output = Result<Vec<SchemaId>, StoreError>> + Send;

    /// The verdict in a slot.
    fn schema_in(
        &self,
        epoch: i32,
        slot: i32,
    ) -> impl Future<Output = Result<Option<SchemaVerdict>, StoreError>> + Send;

    /// Adds a verdict unless its slot is taken. Whether it was added is for
    /// [`SchemaStore::schema_ids`] to say: an attempt without an answer may have added it.
    fn add_schema(
        &self,
        schema: &KeptSchema,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The verdict that a store has on an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaSlot {
    /// The first one.
    Verdict(SchemaVerdict),
    /// None, and a new one would have this slot.
    Free(i32),
    /// None, and none will ever be added.
    Full,
}

/// Reads the verdict on an id; an epoch has at most `limit`.
///
/// # Errors
/// The store fails.
pub async fn kept_schema(
    store: &impl SchemaStore,
    (epoch, limit): (i32, usize),
    id: SchemaId,
) -> Result<SchemaSlot, StoreError> {
    let ids = store.schema_ids(epoch).await?;
    let slot = |at: usize| i32::try_from(at).unwrap_or(i32::MAX);
    let Some(at) = ids.iter().position(|known| *known == id) else {
        return Ok(if ids.len() < limit {
            SchemaSlot::Free(slot(ids.len()))
        } else {
            SchemaSlot::Full
        });
    };
    match store.schema_in(epoch, slot(at)).await? {
        Some(verdict) => Ok(SchemaSlot::Verdict(verdict)),
        None => Err(StoreError::LacksSchema { epoch, id: id.to_string() }),
    }
}

/// Keeps a verdict on an id unless there is one. Returns the one that stands, never
/// [`SchemaSlot::Free`].
///
/// # Errors
/// The store fails.
pub async fn keep_schema(
    store: &impl SchemaStore,
    (epoch, limit): (i32, usize),
    id: SchemaId,
    verdict: &SchemaVerdict,
) -> Result<SchemaSlot, StoreError> {
    loop {
        let slot = match kept_schema(store, (epoch, limit), id).await? {
            SchemaSlot::Free(slot) => slot,
            kept => return Ok(kept),
        };
        // Another owner may take the slot, for this id or another one; the next read shows which.
        store.add_schema(&KeptSchema { epoch, slot, id, verdict: verdict.clone() }).await?;
    }
}

/// Every verdict of an epoch, by slot.
///
/// # Errors
/// The store fails.
pub async fn all_schemas(
    store: &impl SchemaStore,
    epoch: i32,
) -> Result<Vec<KeptSchema>, StoreError> {
    let mut found = Vec::new();
    for (slot, id) in (0..).zip(store.schema_ids(epoch).await?) {
        if let Some(verdict) = store.schema_in(epoch, slot).await? {
            found.push(KeptSchema { epoch, slot, id, verdict });
        }
    }
    Ok(found)
}
