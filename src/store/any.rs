//! Opens any store by its URL. Only this file lists the kinds of stores.
//!
//! A new kind of store needs a folder next to this file, a variant here, a variant and its URL in
//! `url.rs`, and its options in [`OpenOptions`].

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use super::scylla::{Health, ScyllaStore, ServerOptions, apply_schema};
use super::sqlite::SqliteStore;
use super::url::{Address, StoreUrl};
use super::{Result, SideTables as _, TripStore as _};
use crate::model::control::NamedKey;
use crate::model::epoch::{Division, Epoch, divisions};
use crate::model::rules::Rules;

/// A store without a server. It also has what lies in topics for a store on servers: tables of
/// positions, dead letters, change events and input parts. `verify` also builds its reference
/// stores as such files.
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
pub struct AnyStore {
    pub(super) backend: Backend,
    /// Whether the durations of its operations are metrics.
    pub(super) is_timed: bool,
    guide: Option<Guide>,
}

#[derive(Debug)]
pub(super) enum Backend {
    /// Workers need no turn: they may block, and a flush is a call.
    Embedded(Arc<EmbeddedStore>, Option<Arc<Turn>>),
    Scylla(Box<ScyllaStore>),
}

use Backend::{Embedded, Scylla};

impl From<Backend> for AnyStore {
    fn from(backend: Backend) -> Self {
        Self { backend, is_timed: false, guide: None }
    }
}

impl From<Arc<EmbeddedStore>> for AnyStore {
    fn from(store: Arc<EmbeddedStore>) -> Self {
        Embedded(store, Some(Arc::default())).into()
    }
}

impl From<ScyllaStore> for AnyStore {
    fn from(store: ScyllaStore) -> Self {
        Scylla(Box::new(store)).into()
    }
}

impl AnyStore {
    /// Opens a store. Waits for unresponsive servers for up to [`ServerOptions::patience`].
    ///
    /// # Errors
    /// The store does not exist, is not a store of this program, belongs to another log or has
    /// other rules, or cannot be reached.
    pub async fn open(url: &StoreUrl, access: Access<'_>, options: OpenOptions) -> Result<Self> {
        match &url.0 {
            Address::Sqlite(path) => Ok(Arc::new(open_file(path, access, &options)?).into()),
            Address::Scylla(url) => Ok(ScyllaStore::connect(url, options.server).await?.into()),
        }
    }

    /// Opens an embedded store; `None` if the URL names a store on servers.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_embedded(
        url: &StoreUrl,
        access: Access<'_>,
        options: &OpenOptions,
    ) -> Result<Option<Arc<EmbeddedStore>>> {
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
    pub(crate) async fn create_schema(
        url: &StoreUrl,
        options: ServerOptions,
        replicas: Option<u32>,
    ) -> Result<Option<Vec<String>>> {
        match &url.0 {
            Address::Sqlite(_) => Ok(None),
            Address::Scylla(url) => apply_schema(url, options, replicas).await.map(Some),
        }
    }

    /// The embedded store; `None` for a store on servers.
    #[must_use]
    pub fn embedded(&self) -> Option<&Arc<EmbeddedStore>> {
        match &self.backend {
            Embedded(store, _) => Some(store),
            Scylla(_) => None,
        }
    }

    /// The store for one partition worker: workers share connections, but not what they cache about
    /// their partition.
    #[must_use]
    pub(crate) fn for_worker(&self) -> Self {
        let backend = match &self.backend {
            Embedded(store, _) => Embedded(Arc::clone(store), None),
            Scylla(store) => Scylla(Box::new(store.owner())),
        };
        Self { backend, is_timed: self.is_timed, guide: self.guide.clone() }
    }

    /// The same store, whose operations are timed for the metrics.
    #[must_use]
    pub fn timed(self) -> Self {
        Self { is_timed: true, ..self }
    }

    /// The same store, which copies the claims that it lacks from a guide.
    #[must_use]
    pub(crate) fn guided(self, guide: Guide) -> Self {
        Self { guide: Some(guide), ..self }
    }

    /// An [`AskKeys`] that reads this store.
    #[must_use]
    pub fn ask_keys(self: Arc<Self>) -> AskKeys {
        Arc::new(move || {
            let store = Arc::clone(&self);
            Box::pin(async move { store.control_keys().await })
        })
    }

    /// The rules of the store; `None` if nothing was written yet.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn rules(&self) -> Result<Option<Rules>> {
        match &self.backend {
            Embedded(store, _) => store.rules(),
            Scylla(store) => Ok(store.epochs().await?.pop().map(|newest| newest.rules)),
        }
    }

    /// Whether the store belongs to a topic rather than to files.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn is_of_topic(&self) -> Result<bool> {
        match &self.backend {
            Embedded(store, _) => store.is_of_topic(),
            Scylla(_) => Ok(true),
        }
    }

    /// Checks that the store can be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn check(&self) -> Result<()> {
        match &self.backend {
            Embedded(store, _) => store.check_path().and_then(|()| store.kept_changes().map(drop)),
            Scylla(store) => store.epochs().await.map(drop),
        }
    }

    /// The state of the servers and their tables; `None` for an embedded store.
    ///
    /// # Errors
    /// The servers do not respond.
    pub(crate) async fn health(&self) -> Result<Option<Health>> {
        match &self.backend {
            Embedded(..) => Ok(None),
            Scylla(store) => store.health().await.map(Some),
        }
    }
}

fn open_file(path: &Path, access: Access<'_>, options: &OpenOptions) -> Result<EmbeddedStore> {
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
pub(super) struct Turn(Mutex<()>);

impl Turn {
    /// Completes a call. Under a runtime with several threads the others keep running its tasks,
    /// however many calls there are: all but one wait without a thread.
    pub(super) async fn run<T>(&self, call: impl Future<Output = T>) -> T {
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
    ($self:expr, $($call:tt)*) => {
        match &$self.backend {
            $crate::store::any::Backend::Embedded(store, Some(turn)) => {
                turn.run(store.$($call)*).await
            }
            $crate::store::any::Backend::Embedded(store, None) => store.$($call)*.await,
            $crate::store::any::Backend::Scylla(store) => store.$($call)*.await,
        }
    };
}

pub(super) use either;

/// Reads the current keys of a store: another instance may have added some.
pub(crate) type AskKeys = Arc<dyn Fn() -> BoxFuture<'static, KeysAnswer> + Send + Sync>;

/// The keys of a store, or the error of reading them.
pub(crate) type KeysAnswer = Result<Vec<NamedKey>>;

/// Declares a trait of operations, and implements it for [`AnyStore`]. Each operation has the value
/// of its `Ok`; its label in the metrics, or `untimed`; and a default, or `;`. The operations of
/// tables are those of each kind of store; where one has a default, of servers alone.
macro_rules! store_operations {
    ($(#[$docs:meta])* pub trait $trait:ident over $over:ident {$(
        $(#[$doc:meta])*
        fn $name:ident(&$self:ident $(, $arg:ident: $kind:ty)* $(,)?) -> $ok:ty = $label:tt $body:tt
    )+}) => {
        $(#[$docs])*
        pub trait $trait: Send + Sync {$(
            $(#[$doc])*
            fn $name(
                &$self
                $(, $arg: $kind)*
            ) -> impl Future<Output = $crate::store::Result<$ok>> + Send $body
        )+}

        impl $trait for $crate::store::AnyStore {$(
            async fn $name(&$self $(, $arg: $kind)*) -> $crate::store::Result<$ok> {
                $crate::store::any::store_operations!(@ $label $self $name($($arg),*))
            }
        )+}

        /// A substitute for tests: what it does not replace are operations of another store.
        #[cfg(feature = "internals")]
        pub trait $over: Send + Sync {
            /// The other store.
            type Under: $trait;

            /// The other store.
            fn under(&self) -> &Self::Under;

            $(#[allow(missing_docs)]
            fn $name(
                &$self
                $(, $arg: $kind)*
            ) -> impl Future<Output = $crate::store::Result<$ok>> + Send {
                $trait::$name($self.under() $(, $arg)*)
            })+
        }

        #[cfg(feature = "internals")]
        impl<T: $over> $trait for T {$(
            async fn $name(&$self $(, $arg: $kind)*) -> $crate::store::Result<$ok> {
                $over::$name($self $(, $arg)*).await
            }
        )+}
    };
    ($(#[$docs:meta])* pub trait $trait:ident over $over:ident, one file a table {$(
        $(#[$doc:meta])*
        fn $name:ident(&$self:ident $(, $arg:ident: $kind:ty)* $(,)?) -> $ok:ty = $label:tt $body:tt
    )+}) => {
        $crate::store::any::store_operations! {
            $(#[$docs])* pub trait $trait over $over {$(
                $(#[$doc])* fn $name(&$self $(, $arg: $kind)*) -> $ok = $label $body
            )+}
        }

        impl $trait for $crate::store::sqlite::SqliteStore {$(
            $crate::store::any::store_operations! { @own $body
                async fn $name(&$self $(, $arg: $kind)*) -> $crate::store::Result<$ok> {
                    Self::$name($self $(, $arg)*).await
                }
            }
        )+}

        impl<C: $crate::store::scylla::cql::Cql> $trait
            for $crate::store::scylla::ScyllaStore<C>
        {$(
            async fn $name(&$self $(, $arg: $kind)*) -> $crate::store::Result<$ok> {
                Self::$name($self $(, $arg)*).await
            }
        )+}

        #[cfg(feature = "internals")]
        impl $trait for $crate::store::memory::MemoryStore {$(
            $crate::store::any::store_operations! { @own $body
                async fn $name(&$self $(, $arg: $kind)*) -> $crate::store::Result<$ok> {
                    Self::$name($self $(, $arg)*).await
                }
            }
        )+}
    };
    (@own ; $($operation:tt)*) => { $($operation)* };
    (@own { $($default:tt)* } $($operation:tt)*) => {};
    (@ untimed $self:ident $($call:tt)*) => { $crate::store::any::either!($self, $($call)*) };
    (@ guided $self:ident claimed $args:tt) => {
        $crate::store::any::store_operations!(
            @ timed "claimed" $self, $self.claimed_or_copied $args.await
        )
    };
    (@ $label:literal $self:ident $($call:tt)*) => {
        $crate::store::any::store_operations!(
            @ timed $label $self, $crate::store::any::either!($self, $($call)*)
        )
    };
    (@ timed $label:literal $self:ident, $call:expr) => {{
        let started = $self.is_timed.then($crate::telemetry::start_operation).flatten();
        let result = $call;
        $crate::telemetry::end_operation($label, started);
        result
    }};
}

pub(super) use store_operations;

impl AnyStore {
    /// The partition that a device has claimed here, or in the guide: that is copied, because the
    /// store may be used without the guide later.
    pub(super) async fn claimed_or_copied(
        &self,
        device_id: &str,
        epoch: i32,
    ) -> Result<Option<i32>> {
        let (claimed, guide) = (self.claimed_here(device_id, epoch).await?, &self.guide);
        let (None, Some(guide)) = (claimed, guide) else { return Ok(claimed) };
        match Box::pin(guide.claimed(device_id, epoch)).await? {
            Some(partition) => self.claim(device_id, epoch, partition).await.map(Some),
            None => Ok(None),
        }
    }

    async fn claimed_here(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        either!(self, claimed(device_id, epoch))
    }
}

/// A store whose claims already exist. A claim depends on which record came first, so a rebuild
/// cannot repeat it and has to copy it.
#[derive(Clone, Debug)]
pub(crate) struct Guide {
    store: Arc<AnyStore>,
    divisions: Vec<Division>,
    /// The store that is built has one epoch for all of these, so a claim of any epoch counts.
    merged: bool,
}

impl Guide {
    /// A guide for a store with the same epochs.
    #[must_use]
    pub(crate) fn new(store: Arc<AnyStore>, epochs: &[Epoch]) -> Self {
        Self { store, divisions: divisions(epochs), merged: false }
    }

    /// A guide for a store with one epoch in place of all of these; the newest claim counts.
    #[must_use]
    pub(crate) fn merged(self) -> Self {
        Self { merged: true, ..self }
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        let counts = |division: &&Division| self.merged || division.epoch == epoch;
        for division in self.divisions.iter().rev().filter(counts) {
            let known = match division.computed(device_id) {
                None => self.store.claimed_here(device_id, division.epoch).await?,
                computed => computed,
            };
            if known.is_some() {
                return Ok(known);
            }
        }
        Ok(None)
    }
}

impl AnyStore {
    /// Begins a snapshot of a store that was opened for reading. `None` if its kind has none: then
    /// the days of a device are read at different moments.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn snapshot(&self) -> Result<Option<Snapshot<'_>>> {
        match &self.backend {
            Embedded(store, _) => {
                store.begin_snapshot()?;
                Ok(Some(Snapshot(store)))
            }
            Scylla(_) => Ok(None),
        }
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
