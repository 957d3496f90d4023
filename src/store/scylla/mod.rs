//! The store in Scylla or Cassandra: trips by device and UTC day, spread over nodes.
//!
//! Dead letters and changes are in topics; this store holds trips, forgets, claims, positions,
//! control keys, schemas and epochs. A row is a function of the log alone and carries its own write
//! timestamp, so a write may be repeated or come late and the newest still wins, without
//! transactions, locks or clocks. What applies to Scylla alone (`tombstone_gc`) is in `schema.rs`
//! and is checked only if the server is Scylla.

mod calls;
mod claims;
mod connect;
pub mod cql;
mod devices;
mod forgets;
mod login;
mod requests;
mod row;
mod scan;
mod schema;
mod statements;
mod tls;
mod trips;

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use scylla::client::session::Session;
use tokio::sync::{Semaphore, watch};

use cql::Cql;
pub use requests::Failure;
use requests::RetryPolicy;
use statements::Statements;
pub(super) use statements::statements;

use super::Result;
use super::hooks::TestCounter;
use crate::model::scalar::DeviceTime;

#[cfg(feature = "internals")]
pub use schema::ddl;
pub use schema::{Health, apply_schema};
pub use tls::{ClientIdentity, Tls};

/// URL of a store: the contact points and the keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScyllaUrl {
    /// Contact points as `host:port`, at least one.
    pub nodes: Vec<String>,
    /// Name of the keyspace, case-sensitive.
    pub keyspace: String,
}

impl fmt::Display for ScyllaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scylla://{}/{}", self.nodes.join(","), self.keyspace)
    }
}

/// Number of replicas that have to answer. There is no level below a quorum: a partition worker
/// could miss writes of the worker before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// A majority in the datacenter of the coordinator.
    #[default]
    LocalQuorum,
    /// A majority of all replicas, for workers that may move between datacenters.
    Quorum,
    /// Every replica.
    All,
}

/// Options of a connection to a store.
#[derive(Clone)]
pub struct ServerOptions {
    /// Number of replicas that have to answer.
    pub consistency: Consistency,
    /// CQL user; `None` connects without a login.
    pub user: Option<String>,
    /// The password of `user`.
    pub password: Option<String>,
    /// File of the password: each connection reads it again.
    pub password_file: Option<PathBuf>,
    /// TLS options; `None` connects without encryption.
    pub tls: Option<Tls>,
    /// Datacenter to connect to; `None` for all.
    pub datacenter: Option<String>,
    /// Maximum number of writes in flight, over all workers of the session.
    pub concurrency: usize,
    /// A request without an answer after this time is retried.
    pub request_timeout: Duration,
    /// How long to retry while the server does not answer; `None` retries forever.
    pub patience: Option<Duration>,
    /// Stops retrying when it becomes true.
    pub cancelled: Option<watch::Receiver<bool>>,
    /// Called with the reason while requests are retried, at most every few seconds.
    pub on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            consistency: Consistency::default(),
            user: None,
            password: None,
            password_file: None,
            tls: None,
            datacenter: None,
            concurrency: 64,
            request_timeout: Duration::from_secs(5),
            patience: None,
            cancelled: None,
            on_waiting: Arc::new(|_| ()),
        }
    }
}

/// State that the workers of one session share.
pub(super) struct Shared<C: Cql> {
    session: C,
    pub(super) statements: Statements<C>,
    retry: RetryPolicy,
    /// Limits the writes in flight, which the driver does not.
    permits: Semaphore,
    concurrency: usize,
    foreign_rows: TestCounter,
    rows_read: TestCounter,
}

/// Days (device, bucket) that are known to be in the day indexes.
type Listed = HashSet<(String, DeviceTime)>;

/// A store in Scylla or Cassandra, for one partition worker or one reader.
pub struct ScyllaStore<C: Cql = Session> {
    pub(super) shared: Arc<Shared<C>>,
    /// Not shared between workers: the next worker of a partition may have removed days from the
    /// index.
    listed: Mutex<Listed>,
    /// The devices that the last scan of the table found.
    device_page: Mutex<Option<devices::DevicePage>>,
}

impl<C: Cql> fmt::Debug for ScyllaStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScyllaStore").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl ScyllaStore {
    /// Connects to the nodes of a store and prepares its statements.
    ///
    /// # Errors
    /// `StoreError::Unreachable` after [`ServerOptions::patience`],
    /// `StoreError::Options` if TLS cannot be set up or the datacenter is unknown,
    /// `StoreError::NoSchema` for a keyspace without the tables, `StoreError::NotAStore` and
    /// `StoreError::FormatTooNew` for one with tables of another format.
    pub async fn connect(url: &ScyllaUrl, options: ServerOptions) -> Result<Self> {
        Ok(Self::new(Arc::new(connect::connect(url, options).await?)))
    }

    /// Whether the server is Scylla rather than Cassandra or a compatible server.
    #[must_use]
    #[cfg(feature = "internals")]
    pub fn is_scylla(&self) -> bool {
        schema::is_scylla(&self.shared.session)
    }

    /// The state of the servers and tables.
    ///
    /// # Errors
    /// `StoreError::Unreachable` or `StoreError::Failed`.
    pub(crate) async fn health(&self) -> Result<Health> {
        let keyspace = self.shared.session.get_keyspace();
        let name = keyspace.as_deref().map_or("", String::as_str);
        schema::inspect(&self.shared.session, &self.shared.retry, name).await
    }
}

impl<C: Cql> ScyllaStore<C> {
    fn new(shared: Arc<Shared<C>>) -> Self {
        Self { shared, listed: Mutex::default(), device_page: Mutex::default() }
    }

    /// A store over a connection in its keyspace, with all tables.
    ///
    /// # Errors
    /// The statements cannot be prepared.
    #[cfg(feature = "internals")]
    pub async fn over(session: C, url: &ScyllaUrl, options: ServerOptions) -> Result<Self> {
        let retry = RetryPolicy::new::<C>(url, options);
        Ok(Self::new(Arc::new(connect::prepare(session, retry).await?)))
    }

    /// The store for another partition worker: it shares the session, but not the cache of indexed
    /// days.
    #[must_use]
    pub fn owner(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }

    /// Number of rows without a version that were read: rows that another program wrote.
    #[must_use]
    #[cfg(feature = "internals")]
    pub fn foreign_rows(&self) -> u64 {
        self.shared.foreign_rows.get()
    }

    /// Number of rows that the queries of the session have read.
    #[must_use]
    #[cfg(feature = "internals")]
    pub fn rows_read(&self) -> u64 {
        self.shared.rows_read.get()
    }

    /// The URL of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        self.shared.retry.url()
    }

    fn device_page(&self) -> MutexGuard<'_, Option<devices::DevicePage>> {
        self.device_page.lock().expect("no holder of the lock panics")
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().expect("no holder of the lock panics")
    }
}
