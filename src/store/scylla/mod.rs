//! The store in Scylla or Cassandra: trips by device and UTC day, spread over nodes.
//!
//! The log is the journal; here are trips, what was erased, and the epochs. A row is a function of
//! the log alone and carries its own write timestamp, so that any write may be repeated, come late,
//! or come twice, and the newest still stands: no transaction, no lock, no clock. What is true of
//! Scylla alone (its settings of tombstones) is in `schema.rs`, and is checked only where the
//! server is Scylla.

mod claims;
mod connect;
mod devices;
mod epochs;
mod forgets;
mod keys;
mod requests;
mod row;
mod scan;
mod schema;
mod statements;
mod tls;
mod trips;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use scylla::client::session::Session;
use tokio::sync::{Semaphore, watch};

use requests::RetryPolicy;
use statements::Statements;

use super::StoreError;

pub use schema::{Health, apply_schema, ddl};
pub use tls::{ClientIdentity, Tls};

/// Address of a store: nodes to begin with, and a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScyllaUrl {
    /// `host:port`, at least one.
    pub nodes: Vec<String>,
    /// Name of the keyspace, as it is spelled.
    pub keyspace: String,
}

impl fmt::Display for ScyllaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scylla://{}/{}", self.nodes.join(","), self.keyspace)
    }
}

/// How many replicas have to answer. Fewer than a quorum would let an owner miss what the one
/// before it wrote, so there is no weaker one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// A majority in the data centre of the node that is asked.
    #[default]
    LocalQuorum,
    /// A majority of all replicas: owners may move between data centres.
    Quorum,
    /// Every replica.
    All,
}

/// How a store is talked to.
#[derive(Clone)]
pub struct ServerOptions {
    /// How many replicas have to answer.
    pub consistency: Consistency,
    /// Who asks; without a name nobody does.
    pub user: Option<String>,
    /// The password of `user`.
    pub password: Option<String>,
    /// How what is said is encrypted; without it nothing is.
    pub tls: Option<Tls>,
    /// The datacenter whose nodes are asked; without one, those of all.
    pub datacenter: Option<String>,
    /// Writes in flight, over all owners of the session.
    pub concurrency: usize,
    /// A request that has no answer after this is tried again.
    pub request_timeout: Duration,
    /// A server that does not answer for so long is given up; `None` waits for ever.
    pub patience: Option<Duration>,
    /// Ends the waiting when it becomes true.
    pub cancelled: Option<watch::Receiver<bool>>,
    /// Is told why the store waits, at most every few seconds.
    pub on_waiting: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            consistency: Consistency::default(),
            user: None,
            password: None,
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

/// What the owners of one session share.
struct Shared {
    session: Session,
    statements: Statements,
    retry: RetryPolicy,
    /// Bounds the writes in flight: the driver does not.
    permits: Semaphore,
    concurrency: usize,
    foreign_rows: AtomicU64,
    rows_read: AtomicU64,
}

/// Days (device, bucket) that are known to be listed.
type Listed = HashSet<(String, i64)>;

/// A store in Scylla or Cassandra, as the owner of one partition, or a reader, uses it.
pub struct ScyllaStore {
    shared: Arc<Shared>,
    /// Belongs to one owner: another one may have erased what it listed.
    listed: Mutex<Listed>,
    /// The devices that a scan of the table found last.
    found: Mutex<Option<devices::DevicePage>>,
}

impl fmt::Debug for ScyllaStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScyllaStore").field("place", &self.url()).finish_non_exhaustive()
    }
}

impl ScyllaStore {
    /// Connects to the nodes of a store and prepares its statements.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] once the patience of the options has run out,
    /// [`StoreError::Options`] for TLS that cannot be had and for an unknown datacenter,
    /// [`StoreError::NoSchema`] for a keyspace without the tables.
    pub async fn connect(place: &ScyllaUrl, options: ServerOptions) -> Result<Self, StoreError> {
        let shared = Arc::new(connect::connect(place, options).await?);
        Ok(Self { shared, listed: Mutex::default(), found: Mutex::default() })
    }

    /// The store for the owner of another partition: over the same session, with a memory of its
    /// own of which days are listed.
    #[must_use]
    pub fn owner(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        Self { shared, listed: Mutex::default(), found: Mutex::default() }
    }

    /// Rows without a version that reads came upon: somebody else writes to the table.
    #[must_use]
    pub fn foreign_rows(&self) -> u64 {
        self.shared.foreign_rows.load(Ordering::Relaxed)
    }

    /// How many rows questions have read; those of one session are counted together.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.shared.rows_read.load(Ordering::Relaxed)
    }

    /// Whether the server is Scylla; else it is Cassandra, or something like it.
    #[must_use]
    pub fn is_scylla(&self) -> bool {
        schema::is_scylla(&self.shared.session)
    }

    /// The server's own version.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] or [`StoreError::Failed`].
    pub async fn server_version(&self) -> Result<String, StoreError> {
        schema::server_version(&self.shared.session, &self.shared.retry).await
    }

    /// How its servers and tables are.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] or [`StoreError::Failed`].
    pub async fn health(&self) -> Result<Health, StoreError> {
        let keyspace = self.shared.session.get_keyspace();
        let name = keyspace.as_deref().map_or("", String::as_str);
        schema::look_at(&self.shared.session, &self.shared.retry, name).await
    }

    /// The URL of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        self.shared.retry.url()
    }

    fn found(&self) -> MutexGuard<'_, Option<devices::DevicePage>> {
        self.found.lock().expect("no holder of the lock panics")
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().expect("no holder of the lock panics")
    }
}
