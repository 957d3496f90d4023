//! Sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement;
use tokio::sync::Semaphore;

use super::requests::{Failure, RetryPolicy};
use super::statements::Statements;
use super::tls::Layer;
use super::{Consistency, ScyllaUrl, ServerOptions, Shared, schema};
use crate::store::StoreError;

/// A try to connect takes no longer.
const TRY: Duration = Duration::from_secs(15);

/// A node that does not answer for so long leaves the rest of a try to the others.
const NODE: Duration = Duration::from_secs(4);

/// Every table of a store.
const TABLES: [&str; 6] = ["trips", "device_days", "days_of_device", "epochs", "forgets", "claims"];

impl Consistency {
    fn of_driver(self) -> statement::Consistency {
        match self {
            Self::LocalQuorum => statement::Consistency::LocalQuorum,
            Self::Quorum => statement::Consistency::Quorum,
            Self::All => statement::Consistency::All,
        }
    }

    fn serial(self) -> statement::SerialConsistency {
        match self {
            Self::LocalQuorum => statement::SerialConsistency::LocalSerial,
            Self::Quorum | Self::All => statement::SerialConsistency::Serial,
        }
    }

    /// To read what conditional inserts wrote, those included that have no answer yet.
    pub(super) fn of_conditional_reads(self) -> statement::Consistency {
        match self {
            Self::LocalQuorum => statement::Consistency::LocalSerial,
            Self::Quorum | Self::All => statement::Consistency::Serial,
        }
    }
}

/// A session, without a keyspace. The driver does not retry: it gives up on some writes, and its
/// loop would stand inside ours.
pub(super) async fn session(place: &ScyllaUrl, retry: &RetryPolicy) -> Result<Session, StoreError> {
    let options = retry.options();
    let limit = options.patience.map_or(TRY, |patience| patience.min(TRY));
    let request_timeout = options.request_timeout.min(limit);
    let mut profile = ExecutionProfile::builder()
        .consistency(options.consistency.of_driver())
        .serial_consistency(Some(options.consistency.serial()))
        .request_timeout(Some(request_timeout))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()));
    if let Some(datacenter) = &options.datacenter {
        // Elsewhere a local quorum would be another one.
        let policy = DefaultPolicy::builder().prefer_datacenter(datacenter.clone());
        profile = profile.load_balancing_policy(policy.permit_dc_failover(false).build());
    }
    let mut builder = SessionBuilder::new()
        .known_nodes(&place.nodes)
        .connection_timeout(limit.min(NODE))
        .keyspaces_to_fetch([place.keyspace.as_str()])
        .default_execution_profile_handle(profile.build().into_handle());
    if let Some(user) = &options.user {
        builder = builder.user(user, options.password.as_deref().unwrap_or_default());
    }
    let refused = |problem| StoreError::Options { place: place.to_string(), problem };
    let layer = options.tls.as_ref().map(Layer::new).transpose().map_err(refused)?;
    if let Some(layer) = &layer {
        builder = layer.over(builder);
    }
    let connect = || async {
        let built = tokio::time::timeout(limit, builder.build()).await;
        let built = built.map_err(|elapsed| Failure::Transient(elapsed.into()));
        let built = built.and_then(|built| built.map_err(Failure::from));
        built.map_err(|failure| match &layer {
            Some(layer) => layer.explain(failure),
            None => failure,
        })
    };
    let session = retry.until_acknowledged("connecting", connect).await?;
    if let Some(datacenter) = &options.datacenter {
        known(&session, datacenter).map_err(refused)?;
    }
    Ok(session)
}

/// A datacenter without nodes would leave nobody to ask, at every request anew.
fn known(session: &Session, datacenter: &str) -> Result<(), String> {
    let state = session.get_cluster_state();
    let names = state.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref());
    let names: BTreeSet<&str> = names.collect();
    if names.contains(datacenter) {
        return Ok(());
    }
    let names = names.into_iter().collect::<Vec<_>>().join("`, `");
    Err(format!("no node is in the datacenter `{datacenter}`; name one of `{names}` as datacenter"))
}

/// A session of a keyspace that has the tables.
pub(super) async fn connect(
    place: &ScyllaUrl,
    options: ServerOptions,
) -> Result<Shared, StoreError> {
    let concurrency = options.concurrency.max(1);
    let retry = RetryPolicy::new(place, options);
    let session = session(place, &retry).await?;
    check_tables(&session, place, &retry).await?;
    let prepare = || async {
        session.use_keyspace(&place.keyspace, true).await?;
        Statements::prepare(&session, retry.options().consistency).await
    };
    let statements = retry.until_acknowledged("preparing its statements", prepare).await?;
    let permits = Semaphore::new(concurrency);
    let (foreign_rows, rows_read) = (AtomicU64::new(0), AtomicU64::new(0));
    Ok(Shared { session, statements, retry, permits, concurrency, foreign_rows, rows_read })
}

async fn check_tables(
    session: &Session,
    place: &ScyllaUrl,
    retry: &RetryPolicy,
) -> Result<(), StoreError> {
    let select = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
    let list = || async {
        let listed = session.query_unpaged(select, (&place.keyspace,)).await?.into_rows_result()?;
        let names = listed.rows::<(String,)>()?.map(|row| row.map(|(name,)| name));
        Ok(names.collect::<Result<BTreeSet<String>, _>>()?)
    };
    let found = retry.until_acknowledged("looking for its tables", list).await?;
    let missing: Vec<_> = TABLES.into_iter().filter(|name| !found.contains(*name)).collect();
    if missing.is_empty() {
        return check_columns(session, place, retry).await;
    }
    if found.is_empty() {
        schema::replicas(session, place, retry).await?;
    }
    let missing = format!("table {}", missing.join(", "));
    Err(StoreError::NoSchema { place: place.to_string(), missing, flag: "" })
}

async fn check_columns(
    session: &Session,
    place: &ScyllaUrl,
    retry: &RetryPolicy,
) -> Result<(), StoreError> {
    let missing = schema::missing_columns(session, retry, &place.keyspace).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> =
        missing.iter().map(|(table, column, _)| format!("{table}.{column}")).collect();
    let missing = format!("column {}", names.join(", "));
    Err(StoreError::NoSchema { place: place.to_string(), missing, flag: "" })
}
