//! Opens any store by its URL. Only this file lists the kinds of stores.
//!
//! A new kind of store needs a folder next to this file, a variant here, a variant and its URL in
//! `url.rs`, and its options in [`OpenOptions`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use super::forward::{forward_tag_store, forward_trip_store};
use super::raw::{RawRow, RawRows};
use super::schemas::{KeptSchema, SchemaStore};
use super::scylla::{Health, ScyllaStore, ServerOptions, apply_schema};
use super::sqlite::SqliteStore;
use super::url::{Address, StoreUrl};
use super::{
    EpochStore, GroupStore, KeptPositions, KeyStore, PositionStore, StoreError, TagStore, TripEnd,
    TripEnds, TripRow, TripStore,
};
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::rules::Rules;
use crate::model::scalar::{Day, Offset, Version};
use crate::model::schema::{SchemaSubject, SchemaVerdict};

/// A store without a server that is also its own journal: it has tables for positions, dead
/// letters, change events and input parts. `verify` also builds its reference stores as such files.
pub type EmbeddedStore = SqliteStore;

/// The purpose of opening a store.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Read only. The store must exist.
    Read,
    /// Write trips from files. An embedded store that does not exist is created.
    WriteFiles(&'a Rules),
    /// Write trips from a topic. An embedded store that does not exist is created.
    WriteTopic(&'a Rules),
}

/// Options of all kinds of stores. Each kind uses those that apply to it.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// Options of stores on servers.
    pub server: ServerOptions,
    /// Cache size of an embedded store, bytes.
    pub cache: u64,
    /// Maximum number of change events that an embedded store keeps.
    pub keep_changes: u64,
    /// Maximum size of the dead letters that an embedded store takes, bytes; `None`: any.
    pub max_dead_letters: Option<u64>,
}

/// A store of any kind.
#[derive(Debug)]
pub struct AnyStore(Backend);

#[derive(Debug)]
enum Backend {
    /// Workers need no turn: they may block, and a flush is a call.
    Embedded(Arc<EmbeddedStore>, Option<Arc<Turn>>),
    Scylla(Box<ScyllaStore>),
}

use Backend::{Embedded, Scylla};

impl From<Arc<EmbeddedStore>> for AnyStore {
    fn from(store: Arc<EmbeddedStore>) -> Self {
        Self(Embedded(store, Some(Arc::default())))
    }
}

impl AnyStore {
    /// Opens a store. Waits for unresponsive servers for up to [`ServerOptions::patience`].
    ///
    /// # Errors
    /// The store does not exist, is not a store of this program, belongs to another log or has
    /// other rules, or cannot be reached.
    pub async fn open(
        url: &StoreUrl,
        access: Access<'_>,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        match &url.0 {
            Address::Sqlite(path) => Ok(Arc::new(open_file(path, access, &options)?).into()),
            Address::Scylla(url) => {
                let store = ScyllaStore::connect(url, options.server).await?;
                Ok(Self(Scylla(Box::new(store))))
            }
        }
    }

    /// Opens an embedded store; `None` if the URL names a store on servers.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_embedded(
        url: &StoreUrl,
        access: Access<'_>,
        options: &OpenOptions,
    ) -> Result<Option<Arc<EmbeddedStore>>, StoreError> {
        match &url.0 {
            Address::Sqlite(path) => Ok(Some(Arc::new(open_file(path, access, options)?))),
            Address::Scylla(_) => Ok(None),
        }
    }

    /// Creates the tables of a store on servers; with `replicas` also its keyspace, with that
    /// replication factor. Returns notes for the operator; `None` if the store needs no schema
    /// step.
    ///
    /// # Errors
    /// The servers cannot be reached or reject the statements.
    pub async fn create_schema(
        url: &StoreUrl,
        options: ServerOptions,
        replicas: Option<u32>,
    ) -> Result<Option<Vec<String>>, StoreError> {
        match &url.0 {
            Address::Sqlite(_) => Ok(None),
            Address::Scylla(url) => apply_schema(url, options, replicas).await.map(Some),
        }
    }

    /// The embedded store; `None` for a store on servers, whose journal is in the log.
    #[must_use]
    pub fn embedded(&self) -> Option<&Arc<EmbeddedStore>> {
        match &self.0 {
            Embedded(store, _) => Some(store),
            Scylla(_) => None,
        }
    }

    /// The store for one partition worker: workers share connections, but not what they cache about
    /// their partition.
    #[must_use]
    pub fn for_worker(&self) -> Self {
        Self(match &self.0 {
            Embedded(store, _) => Embedded(Arc::clone(store), None),
            Scylla(store) => Scylla(Box::new(store.owner())),
        })
    }

    /// The rules of the store; `None` if nothing was written yet.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn rules(&self) -> Result<Option<Rules>, StoreError> {
        match &self.0 {
            Embedded(store, _) => store.rules(),
            Scylla(store) => Ok(store.epochs().await?.pop().map(|newest| newest.rules)),
        }
    }

    /// Whether the store belongs to a topic rather than to files.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_of_topic(&self) -> Result<bool, StoreError> {
        match &self.0 {
            Embedded(store, _) => store.is_of_topic(),
            Scylla(_) => Ok(true),
        }
    }

    /// Checks that the store can be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn check(&self) -> Result<(), StoreError> {
        match &self.0 {
            Embedded(store, _) => store.check_path().and_then(|()| store.kept_changes().map(drop)),
            Scylla(store) => store.epochs().await.map(drop),
        }
    }

    /// The state of the servers and their tables; `None` for an embedded store.
    ///
    /// # Errors
    /// The servers do not respond.
    pub async fn health(&self) -> Result<Option<Health>, StoreError> {
        match &self.0 {
            Embedded(..) => Ok(None),
            Scylla(store) => store.health().await.map(Some),
        }
    }
}

fn open_file(
    path: &Path,
    access: Access<'_>,
    options: &OpenOptions,
) -> Result<EmbeddedStore, StoreError> {
    let mut store = match access {
        // It writes tags, and their events.
        Access::Read => {
            let mut store = SqliteStore::open_reader(path)?;
            store.set_keep_changes(options.keep_changes);
            store
        }
        Access::WriteFiles(rules) => SqliteStore::open_writer(path, rules, options.keep_changes)?,
        Access::WriteTopic(rules) => {
            SqliteStore::open_for_topic(path, rules, options.keep_changes)?
        }
    };
    if let Some(max) = options.max_dead_letters {
        store.bound_letters(max, None);
    }
    store.set_cache(options.cache)?;
    Ok(store)
}

/// The turn of the callers of an embedded store, whose calls block: on the disk, and for as long as
/// it takes to decode a row.
#[derive(Debug, Default)]
struct Turn(Mutex<()>);

impl Turn {
    /// Completes a call. Under a runtime with several threads the others keep running its tasks,
    /// however many calls there are: all but one wait without a thread.
    async fn run<T>(&self, call: impl Future<Output = T>) -> T {
        match Handle::try_current() {
            Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
                let _turn = self.0.lock().await;
                block_in_place(|| handle.block_on(call))
            }
            _ => call.await,
        }
    }
}

/// Calls the same method on either kind of store.
macro_rules! either {
    ($self:expr, $operation:literal, $($call:tt)*) => {
        either!($self, $($call)*)
    };
    ($self:expr, $($call:tt)*) => {
        match &$self.0 {
            Embedded(store, Some(turn)) => turn.run(store.$($call)*).await,
            Embedded(store, None) => store.$($call)*.await,
            Scylla(store) => store.$($call)*.await,
        }
    };
}

impl TripStore for AnyStore {
    forward_trip_store!(
        either: apply, covering, rows_of_day, range, neighbour, devices, forgets, erased, forget,
        begin_forget, claimed, claim,
    );
}

impl TripEnds for AnyStore {
    async fn latest_days(&self, device_id: &str, limit: usize) -> Result<Vec<Day>, StoreError> {
        either!(self, latest_days(device_id, limit))
    }

    async fn ends_of_day(
        &self,
        device_id: &str,
        day: Day,
        limit: usize,
    ) -> Result<Vec<TripEnd>, StoreError> {
        either!(self, ends_of_day(device_id, day, limit))
    }
}

impl KeyStore for AnyStore {
    async fn control_keys(&self) -> Result<Vec<NamedKey>, StoreError> {
        either!(self, control_keys())
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool, StoreError> {
        either!(self, add_control_key(key))
    }
}

impl TagStore for AnyStore {
    forward_tag_store!(either);
}

impl SchemaStore for AnyStore {
    async fn schema_subjects(
        &self,
        epoch: i32,
        from: i32,
    ) -> Result<Vec<SchemaSubject>, StoreError> {
        either!(self, schema_subjects(epoch, from))
    }

    async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>, StoreError> {
        either!(self, schema_in(epoch, slot))
    }

    async fn add_schema(&self, schema: &KeptSchema) -> Result<(), StoreError> {
        either!(self, add_schema(schema))
    }
}

impl EpochStore for AnyStore {
    async fn epochs(&self) -> Result<Vec<Epoch>, StoreError> {
        either!(self, epochs())
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool, StoreError> {
        either!(self, add_epoch(epoch))
    }
}

impl PositionStore for AnyStore {
    async fn positions(&self, epoch: i32) -> Result<KeptPositions, StoreError> {
        either!(self, positions(epoch))
    }

    async fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        next: (i32, Offset),
    ) -> Result<(), StoreError> {
        either!(self, keep_position(epoch, generation, next))
    }

    async fn erased_since(&self, first: Version) -> Result<BTreeMap<String, Version>, StoreError> {
        either!(self, erased_since(first))
    }
}

impl GroupStore for AnyStore {
    async fn group(&self) -> Result<Option<String>, StoreError> {
        either!(self, group())
    }

    async fn keep_group(
        &self,
        former: Option<&str>,
        group: &str,
    ) -> Result<Option<String>, StoreError> {
        either!(self, keep_group(former, group))
    }
}

/// All reads see the store as it was at the first of them, until this is dropped.
#[derive(Debug)]
pub struct Snapshot<'a>(&'a EmbeddedStore);

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.0.end_snapshot();
    }
}

impl AnyStore {
    /// Begins a snapshot of a store that was opened for reading. `None` if its kind has none: then
    /// the days of a device are read at different moments.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn snapshot(&self) -> Result<Option<Snapshot<'_>>, StoreError> {
        match &self.0 {
            Embedded(store, _) => {
                store.begin_snapshot()?;
                Ok(Some(Snapshot(store)))
            }
            Scylla(_) => Ok(None),
        }
    }
}

/// Where a scan continues.
#[derive(Debug)]
pub enum AnyCursor {
    /// In a file.
    Embedded(<EmbeddedStore as RawRows>::Cursor),
    /// In a keyspace.
    Scylla(<ScyllaStore as RawRows>::Cursor),
}

impl RawRows for AnyStore {
    type Cursor = AnyCursor;

    async fn raw_rows(
        &self,
        device_id: Option<&str>,
        from: Option<AnyCursor>,
    ) -> Result<(Vec<RawRow>, Option<AnyCursor>), StoreError> {
        match &self.0 {
            Embedded(store, _) => {
                let from = from.map(|cursor| match cursor {
                    AnyCursor::Embedded(cursor) => cursor,
                    AnyCursor::Scylla(_) => unreachable!("a cursor of another store"),
                });
                let (rows, next) = store.raw_rows(device_id, from).await?;
                Ok((rows, next.map(AnyCursor::Embedded)))
            }
            Scylla(store) => {
                let from = from.map(|cursor| match cursor {
                    AnyCursor::Scylla(cursor) => cursor,
                    AnyCursor::Embedded(_) => unreachable!("a cursor of another store"),
                });
                let (rows, next) = store.raw_rows(device_id, from).await?;
                Ok((rows, next.map(AnyCursor::Scylla)))
            }
        }
    }

    async fn raw_day(&self, device_id: &str, day: Day) -> Result<Vec<RawRow>, StoreError> {
        either!(self, raw_day(device_id, day))
    }

    async fn unlisted(&self, device_id: &str, days: &[Day]) -> Result<Vec<Day>, StoreError> {
        either!(self, unlisted(device_id, days))
    }

    async fn repair_rows(&self, wrong: &[RawRow], right: &[TripRow]) -> Result<(), StoreError> {
        either!(self, repair_rows(wrong, right))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// Longer than a machine under load needs.
    const LIMIT: Duration = Duration::from_secs(20);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_call_that_blocks_delays_no_other_task() {
        let turn = Arc::new(Turn::default());
        let (sender, receiver) = channel();
        // More calls than there are threads; the first one that runs waits for another task.
        let calls = [Some(receiver), None, None].map(|receiver| {
            let turn = Arc::clone(&turn);
            tokio::spawn(async move {
                turn.run(async move { receiver.map(|it| it.recv_timeout(LIMIT)) }).await
            })
        });
        tokio::task::yield_now().await;
        tokio::spawn(async move { sender.send(7).ok() }).await.unwrap();
        let [first, second, third] = calls;
        assert_eq!(first.await.unwrap(), Some(Ok(7)));
        assert_eq!([second.await.unwrap(), third.await.unwrap()], [None, None]);
    }
}
