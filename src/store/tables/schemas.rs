//! The schemas of a log's records: for each id the first verdict, the same for every owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::SideTables;
use crate::model::scalar::Offset;
use crate::model::schema::{SchemaId, SchemaSubject, SchemaVerdict, UnknownUntil};
#[cfg(feature = "internals")]
use crate::store::memory::{MemoryStore, add};
use crate::store::scylla::cql::{Cql, Mode};
use crate::store::scylla::{Failure, ScyllaStore, statements};
use crate::store::sqlite::{SqliteStore, malformed};
use crate::store::{Result, StoreError};

/// A verdict in its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSchema {
    /// Epoch of the records.
    pub epoch: i32,
    /// Number of the verdict in its epoch, from 0.
    pub slot: i32,
    /// What it decides.
    pub id: SchemaSubject,
    /// The verdict; that of [`SchemaSubject::Until`] is [`SchemaVerdict::Unknown`].
    pub verdict: SchemaVerdict,
}

/// Maximum number of slots that [`SideTables::schema_subjects`] reads at once.
const SLOTS_PER_READ: i32 = 5_000;

/// What the slots of an epoch decide, without the texts of schemas. The order of the slots is that
/// of the decisions: all owners see the same.
#[derive(Clone, Debug, Default)]
pub struct SchemaHistory {
    /// The first free slot.
    next: i32,
    ids: BTreeMap<SchemaId, DecidedId>,
    unknown: Arc<UnknownUntil>,
}

/// The verdict on an id.
#[derive(Clone, Debug)]
pub struct DecidedId {
    /// Its slot.
    pub slot: i32,
    /// The records that were read before it, when the id was unknown.
    pub unknown: Arc<UnknownUntil>,
}

/// What is decided of an id at a record.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It has a verdict.
    Verdict(DecidedId),
    /// It was unknown when the record was first read.
    Unknown,
    /// Nothing is decided.
    Open,
}

impl SchemaHistory {
    /// What is decided of an id at an offset of a partition.
    #[must_use]
    pub fn decision(&self, id: SchemaId, (partition, offset): (i32, Offset)) -> Decision {
        match self.ids.get(&id) {
            Some(decided) => Decision::Verdict(decided.clone()),
            None if self.unknown.get(&partition).is_some_and(|until| offset <= *until) => {
                Decision::Unknown
            }
            None => Decision::Open,
        }
    }

    /// Number of ids with a verdict.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// The ids with a verdict.
    pub fn ids(&self) -> impl Iterator<Item = (SchemaId, &DecidedId)> {
        self.ids.iter().map(|(id, decided)| (*id, decided))
    }

    /// The last records of ids without a verdict.
    #[must_use]
    pub fn unknown(&self) -> &UnknownUntil {
        &self.unknown
    }

    /// Takes what the next slot decides.
    fn push(&mut self, subject: SchemaSubject) {
        match subject {
            SchemaSubject::Id(id) => {
                let (slot, unknown) = (self.next, Arc::clone(&self.unknown));
                self.ids.entry(id).or_insert(DecidedId { slot, unknown });
            }
            SchemaSubject::Until(partition, offset) => {
                let until = Arc::make_mut(&mut self.unknown).entry(partition).or_insert(offset);
                *until = (*until).max(offset);
            }
        }
        self.next += 1;
    }

    /// Reads the slots that were added since.
    ///
    /// # Errors
    /// The store fails.
    pub async fn update(&mut self, store: &impl SideTables, epoch: i32) -> Result<()> {
        loop {
            let subjects = store.schema_subjects(epoch, self.next).await?;
            if subjects.is_empty() {
                return Ok(());
            }
            subjects.into_iter().for_each(|subject| self.push(subject));
        }
    }

    /// Keeps a verdict on an id unless there is one; an epoch has verdicts on at most `limit` ids.
    ///
    /// # Errors
    /// The store fails.
    pub async fn keep(
        &mut self,
        store: &impl SideTables,
        (epoch, limit): (i32, usize),
        id: SchemaId,
        verdict: &SchemaVerdict,
    ) -> Result<()> {
        loop {
            self.update(store, epoch).await?;
            if self.ids.contains_key(&id) || self.ids.len() >= limit {
                return Ok(());
            }
            // Another owner may take the slot; the next read shows who did.
            let (slot, id, verdict) = (self.next, SchemaSubject::Id(id), verdict.clone());
            store.add_schema(&KeptSchema { epoch, slot, id, verdict }).await?;
        }
    }

    /// Keeps that ids are unknown, each up to an offset of a partition, unless they have verdicts.
    ///
    /// # Errors
    /// The store fails.
    pub async fn keep_unknown(
        &mut self,
        store: &impl SideTables,
        (epoch, partition): (i32, i32),
        ids: &BTreeMap<SchemaId, Offset>,
    ) -> Result<()> {
        loop {
            self.update(store, epoch).await?;
            let is_open = |(id, offset): &(&SchemaId, &Offset)| {
                matches!(self.decision(**id, (partition, **offset)), Decision::Open)
            };
            let Some(until) = ids.iter().filter(is_open).map(|(_, offset)| *offset).max() else {
                return Ok(());
            };
            self.add_until(store, (epoch, partition), until).await?;
        }
    }

    /// Keeps that all ids without a verdict are unknown up to an offset of a partition.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn keep_until(
        &mut self,
        store: &impl SideTables,
        (epoch, partition): (i32, i32),
        until: Offset,
    ) -> Result<()> {
        loop {
            self.update(store, epoch).await?;
            if self.unknown.get(&partition).is_some_and(|kept| until <= *kept) {
                return Ok(());
            }
            self.add_until(store, (epoch, partition), until).await?;
        }
    }

    async fn add_until(
        &self,
        store: &impl SideTables,
        (epoch, partition): (i32, i32),
        until: Offset,
    ) -> Result<()> {
        let id = SchemaSubject::Until(partition, until);
        let (slot, verdict) = (self.next, SchemaVerdict::Unknown);
        store.add_schema(&KeptSchema { epoch, slot, id, verdict }).await
    }
}

/// The verdict in the slot of an id.
///
/// # Errors
/// The store fails, or lacks it.
pub(crate) async fn verdict_in(
    store: &impl SideTables,
    (epoch, slot): (i32, i32),
    id: SchemaId,
) -> Result<SchemaVerdict> {
    let verdict = store.schema_in(epoch, slot).await?;
    verdict.ok_or_else(|| StoreError::LacksSchema { epoch, id: id.to_string() })
}

/// Every verdict of an epoch, by slot.
///
/// # Errors
/// The store fails.
pub async fn all_schemas(store: &impl SideTables, epoch: i32) -> Result<Vec<KeptSchema>> {
    let mut found: Vec<KeptSchema> = Vec::new();
    loop {
        let from = i32::try_from(found.len()).unwrap_or(i32::MAX);
        let subjects = store.schema_subjects(epoch, from).await?;
        if subjects.is_empty() {
            return Ok(found);
        }
        for (slot, id) in (from..).zip(subjects) {
            let verdict = match id {
                SchemaSubject::Id(id) => verdict_in(store, (epoch, slot), id).await?,
                SchemaSubject::Until(..) => SchemaVerdict::Unknown,
            };
            found.push(KeptSchema { epoch, slot, id, verdict });
        }
    }
}

statements! { Statements, consistency =>
    subjects: Mode::Serial(consistency) =>
        "SELECT id FROM schemas WHERE epoch = ? AND slot >= ?
             ORDER BY slot ASC LIMIT ?",
    verdict: Mode::Serial(consistency) =>
        "SELECT verdict FROM schemas WHERE epoch = ? AND slot = ?",
    add: Mode::Conditional =>
        "INSERT INTO schemas (epoch, slot, id, verdict) VALUES (?, ?, ?, ?)
             IF NOT EXISTS",
}

impl<C: Cql> ScyllaStore<C> {
    pub(super) async fn schema_subjects(
        &self,
        epoch: i32,
        from: i32,
    ) -> Result<Vec<SchemaSubject>> {
        let select = &self.shared.statements.side.schemas.subjects;
        let values = (epoch, from, SLOTS_PER_READ);
        let id = |(id,): (String,)| id.parse().map_err(|error| Failure::Permanent(Box::new(error)));
        self.shared.at_once("reading the ids of schemas", select, values, id).await
    }

    pub(super) async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>> {
        let select = &self.shared.statements.side.schemas.verdict;
        let verdict = |(verdict,): (String,)| Ok(serde_json::from_str(&verdict)?);
        let found = self.shared.at_once("reading a schema", select, (epoch, slot), verdict).await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn add_schema(&self, schema: &KeptSchema) -> Result<()> {
        let insert = &self.shared.statements.side.schemas.add;
        let verdict = serde_json::to_string(&schema.verdict).expect("a verdict is plain data");
        let values = (schema.epoch, schema.slot, schema.id.to_string(), verdict);
        self.shared.execute("keeping a schema", insert, values).await
    }
}

impl SqliteStore {
    pub(super) async fn schema_subjects(
        &self,
        epoch: i32,
        from: i32,
    ) -> Result<Vec<SchemaSubject>> {
        let select = "SELECT id FROM schemas WHERE epoch = ?1 AND slot >= ?2
             ORDER BY slot ASC LIMIT ?3";
        self.select("reading the ids of schemas", select, [epoch, from, SLOTS_PER_READ], |row| {
            row.get::<_, String>(0)?.parse().map_err(malformed)
        })
    }

    pub(super) async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>> {
        let select = "SELECT verdict FROM schemas WHERE epoch = ?1 AND slot = ?2";
        let found = self.select("reading a schema", select, [epoch, slot], |row| {
            serde_json::from_str(&row.get::<_, String>(0)?).map_err(malformed)
        });
        Ok(found?.pop())
    }

    pub(super) async fn add_schema(&self, schema: &KeptSchema) -> Result<()> {
        let insert = "INSERT OR IGNORE INTO schemas (epoch, slot, id, verdict)
             VALUES (?1, ?2, ?3, ?4)";
        let verdict = serde_json::to_string(&schema.verdict).expect("a verdict is plain data");
        let values = params![schema.epoch, schema.slot, schema.id.to_string(), verdict];
        self.execute("keeping a schema", insert, values).map(drop)
    }
}

#[cfg(feature = "internals")]
impl MemoryStore {
    pub(super) async fn schema_subjects(
        &self,
        epoch: i32,
        from: i32,
    ) -> Result<Vec<SchemaSubject>> {
        let state = self.state();
        let slots = state.schemas.range((epoch, from)..=(epoch, i32::MAX));
        Ok(slots.map(|(_, schema)| schema.id).collect())
    }

    pub(super) async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>> {
        Ok(self.state().schemas.get(&(epoch, slot)).map(|schema| schema.verdict.clone()))
    }

    pub(super) async fn add_schema(&self, schema: &KeptSchema) -> Result<()> {
        add(&mut self.state().schemas, (schema.epoch, schema.slot), schema);
        Ok(())
    }
}
