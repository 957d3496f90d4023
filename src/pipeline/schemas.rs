//! Finds out what the id of a schema means: from the store, where the first verdict stands, or from
//! the registry, whose answer is kept before a record is decided by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::model::epoch::Epoch;
use crate::model::schema::{SchemaId, SchemaVerdict};
use crate::registry::Registry;
use crate::source::MAX_SCHEMAS;
use crate::store::StoreError;
use crate::store::schemas::{SchemaSlot, SchemaStore, all_schemas, keep_schema, kept_schema};

/// Delay before the registry is asked again; each further delay is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Maximum delay before the registry is asked again. Shorter than readiness remembers a reason.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Finds the verdict on the id of a schema in an epoch. Waits for servers.
pub type FindSchema = Arc<dyn Fn(i32, SchemaId) -> BoxFuture<'static, Verdict> + Send + Sync>;

/// The verdict on an id, or the error of the store.
pub type Verdict = Result<SchemaVerdict, StoreError>;

/// Verdicts by epoch and id.
pub type KnownSchemas = BTreeMap<(i32, SchemaId), SchemaVerdict>;

/// A [`FindSchema`] for readers that have all schemas of their store already.
#[must_use]
pub fn find_none() -> FindSchema {
    Arc::new(|epoch, id| {
        Box::pin(async move { Err(StoreError::LacksSchema { epoch, id: id.to_string() }) })
    })
}

/// All verdicts that a store has on the schemas of these epochs.
///
/// # Errors
/// The store fails.
pub async fn known_schemas(
    store: &impl SchemaStore,
    epochs: &[Epoch],
) -> Result<KnownSchemas, StoreError> {
    let mut known = KnownSchemas::new();
    for epoch in epochs.iter().filter(|epoch| epoch.rules.names_schemas()) {
        let kept = all_schemas(store, epoch.epoch).await?;
        known.extend(kept.into_iter().map(|it| ((it.epoch, it.id), it.verdict)));
    }
    Ok(known)
}

/// Where ids that the store does not know are asked for.
#[derive(Clone)]
pub struct RegistryAccess {
    /// The registry; `None` if the program has none.
    pub registry: Option<Arc<Registry>>,
    /// Receives the reason why the registry is asked again.
    pub on_waiting: Arc<dyn Fn(String) + Send + Sync>,
}

/// A [`FindSchema`] of a store.
#[must_use]
pub fn find_schema<S: SchemaStore + 'static>(store: Arc<S>, access: RegistryAccess) -> FindSchema {
    Arc::new(move |epoch, id| {
        let (store, access) = (Arc::clone(&store), access.clone());
        Box::pin(async move { find(&*store, &access, epoch, id).await })
    })
}

async fn find(
    store: &impl SchemaStore,
    access: &RegistryAccess,
    epoch: i32,
    id: SchemaId,
) -> Verdict {
    let of_epoch = (epoch, MAX_SCHEMAS);
    let kept = match kept_schema(store, of_epoch, id).await? {
        SchemaSlot::Free(_) => {
            let Some(registry) = &access.registry else {
                return Err(StoreError::LacksSchema { epoch, id: id.to_string() });
            };
            let verdict = request_verdict(registry, id, &*access.on_waiting).await;
            keep_schema(store, of_epoch, id, &verdict).await?
        }
        kept => kept,
    };
    Ok(match kept {
        SchemaSlot::Verdict(verdict) => verdict,
        SchemaSlot::Free(_) | SchemaSlot::Full => SchemaVerdict::Unusable {
            problem: format!("the epoch has {MAX_SCHEMAS} schemas, and takes no more"),
        },
    })
}

/// Asks the registry until it answers.
async fn request_verdict(
    registry: &Registry,
    id: SchemaId,
    on_waiting: &(dyn Fn(String) + Sync),
) -> SchemaVerdict {
    let mut wait = FIRST_WAIT;
    loop {
        match registry.verdict(id).await {
            Ok(verdict) => return verdict,
            Err(error) => on_waiting(format!("{error}; schema {id} is needed")),
        }
        tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        wait = (wait * 2).min(MAX_WAIT);
    }
}

#[cfg(test)]
#[path = "schemas_tests.rs"]
mod tests;
