//! Connects sessions and checks the schema.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement;
use tokio::sync::Semaphore;

use super::cql::Cql;
use super::login::FileLogin;
use super::requests::{Failure, RetryPolicy};
use super::statements::Statements;
use super::tls::Layer;
use super::{Consistency, ScyllaUrl, ServerOptions, Shared, schema};
use crate::model::time::format_duration;
use crate::store::hooks::TestCounter;
use crate::store::{Result, StoreError};

/// Maximum time of one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum time to connect to one node, which leaves time of an attempt for other nodes.
const NODE_TIMEOUT: Duration = Duration::from_secs(4);

/// Format of the tables, from 1.
const FORMAT: i64 = 1;

/// The comment of table `trips`, up to the format of all tables.
const FORMAT_PREFIX: &str = "tstar format ";

/// The levels of the driver for a consistency.
pub(super) struct Levels {
    /// Of requests.
    requests: statement::Consistency,
    /// Of conditions.
    conditions: statement::SerialConsistency,
    /// Of reads of one replica.
    pub(super) one_replica: statement::Consistency,
    /// Of reads that see conditional inserts, including those in progress.
    pub(super) serial_reads: statement::Consistency,
}

impl Consistency {
    pub(super) fn levels(self) -> Levels {
        use statement::Consistency::{
            All, LocalOne, LocalQuorum, LocalSerial, One, Quorum, Serial,
        };
        let (requests, is_local) = match self {
            Self::LocalQuorum => (LocalQuorum, true),
            Self::Quorum => (Quorum, false),
            Self::All => (All, false),
        };
        let (conditions, one_replica, serial_reads) = if is_local {
            (statement::SerialConsistency::LocalSerial, LocalOne, LocalSerial)
        } else {
            (statement::SerialConsistency::Serial, One, Serial)
        };
        Levels { requests, conditions, one_replica, serial_reads }
    }
}

/// Connects a session without a keyspace. The driver does not retry: it gives up on some writes,
/// and [`RetryPolicy`] retries every request.
pub(super) async fn session(url: &ScyllaUrl, retry: &RetryPolicy) -> Result<Session> {
    let options = retry.options();
    let limit = options.patience.map_or(CONNECT_TIMEOUT, |patience| patience.min(CONNECT_TIMEOUT));
    let request_timeout = options.request_timeout.min(limit);
    let levels = options.consistency.levels();
    let mut profile = ExecutionProfile::builder()
        .consistency(levels.requests)
        .serial_consistency(Some(levels.conditions))
        .request_timeout(Some(request_timeout))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()));
    if let Some(datacenter) = &options.datacenter {
        // In another datacenter a local quorum would have other replicas.
        let policy = DefaultPolicy::builder().prefer_datacenter(datacenter.clone());
        profile = profile.load_balancing_policy(policy.permit_dc_failover(false).build());
    }
    let mut builder = SessionBuilder::new()
        .known_nodes(&url.nodes)
        .connection_timeout(limit.min(NODE_TIMEOUT))
        .keyspaces_to_fetch([url.keyspace.as_str()])
        .default_execution_profile_handle(profile.build().into_handle());
    if let Some(user) = &options.user {
        let password = options.password.as_deref().unwrap_or_default();
        builder = match &options.password_file {
            Some(file) => {
                let login = FileLogin::new(user, file.clone(), password);
                builder.authenticator_provider(Arc::new(login))
            }
            None => builder.user(user, password),
        };
    }
    let invalid = |problem| StoreError::Options { location: url.to_string(), problem };
    let layer = options.tls.as_ref().map(Layer::new).transpose().map_err(invalid)?;
    if let Some(layer) = &layer {
        builder = layer.over(builder);
    }
    let connect = || async {
        let built = tokio::time::timeout(limit, builder.build()).await;
        let built = built.map_err(|_| Failure::Transient(no_cql(limit).into()));
        let built = built.and_then(|built| built.map_err(Failure::from));
        built.map_err(|failure| match &layer {
            Some(layer) => layer.explain(failure),
            None => failure,
        })
    };
    let session = retry.until_acknowledged("connecting", connect).await?;
    if let Some(datacenter) = &options.datacenter {
        check_datacenter(&session, datacenter).map_err(invalid)?;
    }
    Ok(session)
}

/// Why no node was connected to in time, although none refused: a server that does not speak CQL,
/// such as a Kafka broker, waits for the rest of what it takes for a request.
fn no_cql(limit: Duration) -> String {
    let limit = format_duration(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX));
    format!(
        "no node has answered as a CQL server within {limit}; check the port, 9042 unless the \
         servers have another one, and that no firewall drops packets"
    )
}

/// Checks that a datacenter has nodes: otherwise every request would fail.
fn check_datacenter(session: &Session, datacenter: &str) -> Result<(), String> {
    let state = session.get_cluster_state();
    let names = state.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref());
    let names: BTreeSet<&str> = names.collect();
    if names.contains(datacenter) {
        return Ok(());
    }
    let names = names.into_iter().collect::<Vec<_>>().join("`, `");
    Err(format!("no node is in the datacenter `{datacenter}`; name one of `{names}` as datacenter"))
}

/// Connects to a keyspace, checks its tables and prepares the statements.
pub(super) async fn connect(url: &ScyllaUrl, options: ServerOptions) -> Result<Shared<Session>> {
    let retry = RetryPolicy::new::<Session>(url, options);
    let session = session(url, &retry).await?;
    check_tables(&session, url, &retry).await?;
    let enter = || async { Ok(session.use_keyspace(&url.keyspace, true).await?) };
    retry.until_acknowledged("entering its keyspace", enter).await?;
    prepare(session, retry).await
}

/// Prepares the statements over a connection in the keyspace.
pub(super) async fn prepare<C: Cql>(session: C, retry: RetryPolicy) -> Result<Shared<C>> {
    let concurrency = retry.options().concurrency.max(1);
    let prepare = || Statements::prepare(&session, retry.options().consistency);
    let statements = retry.until_acknowledged("preparing its statements", prepare).await?;
    let permits = Semaphore::new(concurrency);
    let (foreign_rows, rows_read) = (TestCounter::default(), TestCounter::default());
    Ok(Shared { session, statements, retry, permits, concurrency, foreign_rows, rows_read })
}

/// The tables of a keyspace, each with its comment.
pub(super) async fn tables(
    session: &Session,
    url: &ScyllaUrl,
    retry: &RetryPolicy,
) -> Result<BTreeMap<String, String>> {
    let select = "SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = ?";
    let list = || async {
        let found = session.query_unpaged(select, (&url.keyspace,)).await?.into_rows_result()?;
        Ok(found.rows::<(String, String)>()?.collect::<Result<_, _>>()?)
    };
    retry.until_acknowledged("reading its list of tables", list).await
}

/// Checks the format of the tables, if there are any.
pub(super) fn check_format(tables: &BTreeMap<String, String>, url: &ScyllaUrl) -> Result<()> {
    let Some(comment) = tables.get("trips") else { return Ok(()) };
    let (location, known) = (url.to_string(), FORMAT);
    match comment.strip_prefix(FORMAT_PREFIX).and_then(|number| number.parse().ok()) {
        Some(FORMAT) => Ok(()),
        Some(found) if found > FORMAT => Err(StoreError::FormatTooNew { location, found, known }),
        _ => {
            let reason = "its tables are from before 0.1.0 or of another program: import again";
            Err(StoreError::NotAStore { location, reason: reason.into() })
        }
    }
}

async fn check_tables(session: &Session, url: &ScyllaUrl, retry: &RetryPolicy) -> Result<()> {
    let found = tables(session, url, retry).await?;
    check_format(&found, url)?;
    let mut missing: Vec<_> = schema::tables().collect();
    missing.retain(|name| !found.contains_key(name));
    if missing.is_empty() {
        return Ok(());
    }
    if found.is_empty() {
        schema::replicas(session, url, retry).await?;
    }
    let missing = format!("table {}", missing.join(", "));
    Err(StoreError::NoSchema { location: url.to_string(), missing, flag: "" })
}
