//! Sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement;
use tokio::sync::Semaphore;

use super::retry::{Failure, Retry};
use super::statements::Statements;
use super::{Consistency, ScyllaOptions, ScyllaPlace, Shared, schema};
use crate::store::StoreError;

/// A try to connect takes no longer.
const TRY: Duration = Duration::from_secs(15);

/// A node that does not answer for so long leaves the rest of a try to the others.
const NODE: Duration = Duration::from_secs(4);

/// Every table of a store.
const TABLES: [&str; 5] = ["trips", "device_days", "days_of_device", "epochs", "forgets"];

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
pub(super) async fn session(place: &ScyllaPlace, retry: &Retry) -> Result<Session, StoreError> {
    let options = retry.options();
    let limit = options.patience.map_or(TRY, |patience| patience.min(TRY));
    let request_timeout = options.request_timeout.min(limit);
    let profile = ExecutionProfile::builder()
        .consistency(options.consistency.of_driver())
        .serial_consistency(Some(options.consistency.serial()))
        .request_timeout(Some(request_timeout))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&place.nodes)
        .connection_timeout(limit.min(NODE))
        .keyspaces_to_fetch([place.keyspace.as_str()])
        .default_execution_profile_handle(profile.into_handle());
    if let Some(user) = &options.user {
        builder = builder.user(user, options.password.as_deref().unwrap_or_default());
    }
    let connect = || async {
        let built = tokio::time::timeout(limit, builder.build()).await;
        built.map_err(|elapsed| Failure::Passing(elapsed.into()))?.map_err(Failure::from)
    };
    retry.until_acknowledged("connecting", connect).await
}

/// A session of a keyspace that has the tables.
pub(super) async fn connect(
    place: &ScyllaPlace,
    options: ScyllaOptions,
) -> Result<Shared, StoreError> {
    let concurrency = options.concurrency.max(1);
    let retry = Retry::new(place, options);
    let session = session(place, &retry).await?;
    check_tables(&session, place, &retry).await?;
    let prepare = || async {
        session.use_keyspace(&place.keyspace, true).await?;
        Statements::prepare(&session, retry.options().consistency).await
    };
    let statements = retry.until_acknowledged("preparing its statements", prepare).await?;
    let (permits, foreign_rows) = (Semaphore::new(concurrency), AtomicU64::new(0));
    Ok(Shared { session, statements, retry, permits, concurrency, foreign_rows })
}

async fn check_tables(
    session: &Session,
    place: &ScyllaPlace,
    retry: &Retry,
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
        return Ok(());
    }
    if found.is_empty() {
        schema::replicas(session, place, retry).await?;
    }
    let missing = format!("table {}", missing.join(", "));
    Err(StoreError::NoSchema { place: place.to_string(), missing, flag: "" })
}
