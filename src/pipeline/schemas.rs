//! Finds out what the ids of schemas mean: from the store, where the first verdict stands, or from
//! the registry, whose answer is kept before a record is decided by it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};

use crate::model::epoch::Epoch;
use crate::model::scalar::Offset;
use crate::model::schema::{SchemaId, SchemaVerdict};
use crate::registry::Registry;
use crate::source::{CompiledSchema, Decoder, MAX_SCHEMAS};
use crate::store::schemas::{DecidedId, Decision, SchemaHistory, verdict_in};
use crate::store::{AnyStore, StoreError};

/// Delay before the registry is asked again; each further delay is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Maximum delay before the registry is asked again. Shorter than readiness remembers a reason.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Maximum number of ids that a partition asks for at the same time. Ids that no registry has are
/// free to write.
const MAX_REQUESTS: usize = 16;

/// The schemas that records of a partition need.
pub struct WantedSchemas {
    /// Epoch of the records.
    pub epoch: i32,
    /// Their partition.
    pub partition: i32,
    /// Each id, with the offset of its last record.
    pub ids: BTreeMap<SchemaId, Offset>,
    /// Receives the schemas. An id that it does not receive was unknown at these records.
    pub decoder: Arc<Decoder>,
}

/// Finds schemas, and adds them to a decoder. Waits for servers.
pub(crate) type FindSchemas =
    Arc<dyn Fn(WantedSchemas) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// What a store has on the schemas of a log.
#[derive(Debug, Default)]
pub struct KnownSchemas {
    /// The order of the decisions, by epoch.
    pub histories: BTreeMap<i32, SchemaHistory>,
    /// The verdicts by epoch and id.
    pub verdicts: BTreeMap<(i32, SchemaId), SchemaVerdict>,
}

impl KnownSchemas {
    /// Adds all verdicts of an epoch to a decoder.
    pub(crate) fn add_to(&self, decoder: &Decoder, epoch: i32) {
        for (id, decided) in self.histories.get(&epoch).iter().flat_map(|history| history.ids()) {
            if let Some(verdict) = self.verdicts.get(&(epoch, id)) {
                add(decoder, id, compile_now(decoder, id, verdict.clone()).0, decided.clone());
            }
        }
    }
}

/// All that a store has on the schemas of these epochs.
///
/// # Errors
/// The store fails.
pub(crate) async fn known_schemas(
    store: &AnyStore,
    epochs: &[Epoch],
) -> Result<KnownSchemas, StoreError> {
    let mut known = KnownSchemas::default();
    for epoch in epochs.iter().filter(|epoch| epoch.rules.names_schemas()) {
        let mut history = SchemaHistory::default();
        history.update(store, epoch.epoch).await?;
        for (id, decided) in history.ids() {
            let verdict = verdict_in(store, (epoch.epoch, decided.slot), id).await?;
            known.verdicts.insert((epoch.epoch, id), verdict);
        }
        known.histories.insert(epoch.epoch, history);
    }
    Ok(known)
}

/// [`FindSchemas`] for readers of records that are all decided.
#[must_use]
pub fn find_known(known: Arc<KnownSchemas>) -> FindSchemas {
    Arc::new(move |wanted| {
        let known = Arc::clone(&known);
        Box::pin(async move {
            let WantedSchemas { epoch, partition, ids, decoder } = wanted;
            let lacks = |id: SchemaId| StoreError::LacksSchema { epoch, id: id.to_string() };
            for (id, offset) in ids {
                let history = known.histories.get(&epoch).ok_or_else(|| lacks(id))?;
                match history.decision(id, (partition, offset)) {
                    Decision::Verdict(decided) => {
                        let verdict = known.verdicts.get(&(epoch, id)).ok_or_else(|| lacks(id))?;
                        let schema = compile(&decoder, id, verdict).await;
                        add(&decoder, id, schema.0, decided);
                    }
                    Decision::Unknown => {}
                    Decision::Open => return Err(lacks(id)),
                }
            }
            Ok(())
        })
    })
}

/// Where ids that the store does not know are asked for.
#[derive(Clone)]
pub struct RegistryAccess {
    /// The registry; `None` if the program has none.
    pub registry: Option<Arc<Registry>>,
    /// Receives the reason why the registry is asked again.
    pub on_waiting: Arc<dyn Fn(String) + Send + Sync>,
}

/// [`FindSchemas`] of a store.
#[must_use]
pub fn find_schemas(store: Arc<AnyStore>, access: RegistryAccess) -> FindSchemas {
    let finder = Arc::new(Finder { store, access, histories: Mutex::default() });
    Arc::new(move |wanted| {
        let finder = Arc::clone(&finder);
        Box::pin(async move { finder.find(wanted).await })
    })
}

struct Finder {
    store: Arc<AnyStore>,
    access: RegistryAccess,
    /// What was read of the store, by epoch.
    histories: Mutex<BTreeMap<i32, SchemaHistory>>,
}

/// A verdict, and what it was compiled to.
type Compiled = (Option<CompiledSchema>, SchemaVerdict);

impl Finder {
    async fn find(&self, wanted: WantedSchemas) -> Result<(), StoreError> {
        let WantedSchemas { epoch, partition, ids, decoder } = wanted;
        let mut history = self.history(epoch);
        history.update(&*self.store, epoch).await?;
        let is_open = |(id, offset): &(&SchemaId, &Offset)| {
            let decision = history.decision(**id, (partition, **offset));
            matches!(decision, Decision::Open) && history.count() < MAX_SCHEMAS
        };
        let open: Vec<SchemaId> = ids.iter().filter(is_open).map(|(id, _)| *id).collect();
        let mut answers = self.request(epoch, &open, &decoder).await?;
        for (id, (_, verdict)) in &answers {
            history.keep(&*self.store, (epoch, MAX_SCHEMAS), *id, verdict).await?;
        }
        if history.count() < MAX_SCHEMAS {
            history.keep_unknown(&*self.store, (epoch, partition), &ids).await?;
        }
        for (id, offset) in ids.iter().filter(|(id, _)| !decoder.has_schema(**id)) {
            match history.decision(*id, (partition, *offset)) {
                Decision::Verdict(decided) => {
                    let stands = verdict_in(&*self.store, (epoch, decided.slot), *id).await?;
                    let schema = match answers.remove(id).filter(|(_, ours)| *ours == stands) {
                        Some((schema, _)) => schema,
                        None => compile(&decoder, *id, &stands).await.0,
                    };
                    add(&decoder, *id, schema, decided);
                }
                Decision::Unknown => {}
                // No verdict will ever be added.
                Decision::Open => {
                    let problem = format!("the epoch has {MAX_SCHEMAS} schemas, and takes no more");
                    decoder.add_schema(*id, &SchemaVerdict::Unusable { problem });
                }
            }
        }
        self.histories.lock().expect("no holder panics").insert(epoch, history);
        Ok(())
    }

    fn history(&self, epoch: i32) -> SchemaHistory {
        self.histories.lock().expect("no holder panics").get(&epoch).cloned().unwrap_or_default()
    }

    /// Asks the registry for ids, several at a time. Returns those that it knows, compiled: what
    /// cannot be compiled is kept as unusable, so that no reader tries it again.
    async fn request(
        &self,
        epoch: i32,
        ids: &[SchemaId],
        decoder: &Arc<Decoder>,
    ) -> Result<BTreeMap<SchemaId, Compiled>, StoreError> {
        let Some(first) = ids.first() else { return Ok(BTreeMap::new()) };
        let Some(registry) = &self.access.registry else {
            return Err(StoreError::LacksSchema { epoch, id: first.to_string() });
        };
        let request = |id: SchemaId| async move {
            match request_verdict(registry, id, &*self.access.on_waiting).await {
                SchemaVerdict::Unknown => None,
                verdict => Some((id, compile(decoder, id, &verdict).await)),
            }
        };
        let answers = stream::iter(ids.iter().copied().map(request)).buffer_unordered(MAX_REQUESTS);
        Ok(answers.filter_map(|answer| async { answer }).collect().await)
    }
}

/// Compiles a verdict outside of the runtime; one whose schema cannot be used becomes
/// [`SchemaVerdict::Unusable`].
async fn compile(decoder: &Arc<Decoder>, id: SchemaId, verdict: &SchemaVerdict) -> Compiled {
    let (decoder, verdict) = (Arc::clone(decoder), verdict.clone());
    let work = move || compile_now(&decoder, id, verdict);
    tokio::task::spawn_blocking(work).await.expect("a compiler does not panic")
}

fn compile_now(decoder: &Decoder, id: SchemaId, verdict: SchemaVerdict) -> Compiled {
    match decoder.compile_schema(id, &verdict) {
        Ok(schema) => (schema, verdict),
        Err(problem) => {
            let verdict = SchemaVerdict::Unusable { problem };
            (decoder.compile_schema(id, &verdict).ok().flatten(), verdict)
        }
    }
}

fn add(decoder: &Decoder, id: SchemaId, schema: Option<CompiledSchema>, decided: DecidedId) {
    if let Some(schema) = schema {
        decoder.insert_schema(id, schema, decided.unknown);
    }
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
