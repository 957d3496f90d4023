//! Creates and checks the tables.
//!
//! Scylla also needs one setting per table (`tombstone_gc`), which is set and checked only if a
//! node of the cluster is Scylla.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;
use scylla::value::Row;

use super::connect;
use super::requests::RetryPolicy;
use super::{ScyllaUrl, ServerOptions};
use crate::store::{Result, StoreError};

/// The schema files, trips first.
const FILES: [&str; 3] = [
    include_str!("../../../schema/trips.cql"),
    include_str!("../../../schema/log.cql"),
    include_str!("../../../schema/tags.cql"),
];

/// Tables whose tombstones must be kept until every replica has them.
const TOMBSTONE_TABLES: [&str; 5] =
    ["trips", "device_days", "days_of_device", "forgets", "trip_tags"];

/// The first Scylla release whose reversed reads are correct over range tombstones in memory.
const FIXED_RELEASE: (u32, u32) = (2026, 2);

/// The names of the tables that a store needs, trips first.
pub(super) fn tables() -> impl Iterator<Item = String> {
    ddl().into_iter().map(|create| {
        let rest = create.strip_prefix(CREATE).unwrap_or_default();
        rest.split(' ').next().unwrap_or_default().to_owned()
    })
}

/// How each statement begins.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS ";

/// The statements that create the tables, one per table.
#[must_use]
pub fn ddl() -> Vec<String> {
    let uncommented =
        |line: &str| line.split("--").next().unwrap_or_default().trim_end().to_owned();
    let lines = FILES.iter().flat_map(|text| text.lines());
    let text = lines.map(uncommented).collect::<Vec<_>>().join("\n");
    let statements = text.split(';').map(|statement| statement.trim().to_owned());
    statements.filter(|statement| !statement.is_empty()).collect()
}

/// Creates the missing tables of a store, and with a replication factor also its keyspace. Returns
/// notes for the operator.
///
/// # Errors
/// [`StoreError::NoSchema`] if the keyspace does not exist and is not to be created,
/// [`StoreError::NotAStore`] if it has other tables, [`StoreError::Unreachable`], or
/// [`StoreError::Failed`] with the server's error.
pub async fn apply_schema(
    url: &ScyllaUrl,
    options: ServerOptions,
    create_keyspace: Option<u32>,
) -> Result<Vec<String>> {
    let retry = RetryPolicy::new::<Session>(url, options);
    let session = connect::session(url, &retry).await?;
    if let Some(replicas) = create_keyspace {
        let create = format!(
            "CREATE KEYSPACE IF NOT EXISTS \"{}\" WITH replication = {{'class': \
             'NetworkTopologyStrategy', 'replication_factor': {replicas}}}",
            url.keyspace
        );
        execute(&session, &retry, "creating its keyspace", &create).await?;
    }
    let replicas = replicas(&session, url, &retry).await?;
    let enter = || async { Ok(session.use_keyspace(&url.keyspace, true).await?) };
    retry.until_acknowledged("entering its keyspace", enter).await?;
    connect::check_format(&connect::tables(&session, url, &retry).await?, url)?;
    for create in ddl() {
        execute(&session, &retry, "creating its tables", &create).await?;
    }
    let mut notes = Vec::new();
    if replicas == 1 {
        notes.push(format!(
            "keyspace `{}` has replication factor 1: the trips of a lost node are lost",
            url.keyspace
        ));
    }
    if is_scylla(&session) {
        set_tombstone_gc(&session, &retry, replicas, &mut notes).await?;
        let version = server_version(&session, &retry).await?;
        notes.extend(release_fault(&version));
    }
    Ok(notes)
}

async fn execute(
    session: &Session,
    retry: &RetryPolicy,
    doing: &'static str,
    statement: &str,
) -> Result<()> {
    let run = || async { Ok(session.query_unpaged(statement, ()).await.map(drop)?) };
    retry.until_acknowledged(doing, run).await
}

/// The first row of an answer.
async fn first_row<R>(
    session: &Session,
    retry: &RetryPolicy,
    doing: &'static str,
    (select, values): (&str, impl SerializeRow),
) -> Result<Option<R>>
where
    R: for<'row> DeserializeRow<'row, 'row>,
{
    let read = || async {
        let found = session.query_unpaged(select, &values).await?.into_rows_result()?;
        Ok(found.rows::<R>()?.next().transpose()?)
    };
    retry.until_acknowledged(doing, read).await
}

/// The replication factor of a keyspace, in the datacenter with the lowest one; `None` if there is
/// no such keyspace.
async fn replication(
    session: &Session,
    retry: &RetryPolicy,
    keyspace: &str,
) -> Result<Option<u32>> {
    let select = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let doing = "reading its replication";
    let found = first_row(session, retry, doing, (select, (keyspace,))).await?;
    Ok(found.map(|(replication,)| min_replicas(&replication)))
}

/// The replication factor of the keyspace of a store.
pub(super) async fn replicas(
    session: &Session,
    url: &ScyllaUrl,
    retry: &RetryPolicy,
) -> Result<u32> {
    let found = replication(session, retry, &url.keyspace).await?;
    found.ok_or_else(|| StoreError::NoSchema {
        location: url.to_string(),
        missing: format!("keyspace `{}`", url.keyspace),
        flag: " --create-keyspace",
    })
}

/// The lowest replication factor of all datacenters. A value is a number, or a list of racks with
/// one replica each.
fn min_replicas(replication: &BTreeMap<String, String>) -> u32 {
    let values = replication.iter().filter(|(key, _)| *key != "class").map(|(_, value)| value);
    let count = |value: &String| {
        let racks = || u32::try_from(value.split(',').count()).unwrap_or(u32::MAX);
        value.parse().unwrap_or_else(|_| racks())
    };
    values.map(count).min().unwrap_or(1)
}

/// Whether a node of the session is Scylla: only Scylla sends sharding information to the driver.
pub(super) fn is_scylla(session: &Session) -> bool {
    session.get_cluster_state().get_nodes_info().iter().any(|node| node.sharder().is_some())
}

/// The version of the server; for Scylla its own one, not that of the compatible Cassandra.
pub(super) async fn server_version(session: &Session, retry: &RetryPolicy) -> Result<String> {
    let select = if is_scylla(session) {
        "SELECT version FROM system.versions WHERE key = 'local'"
    } else {
        "SELECT release_version FROM system.local WHERE key = 'local'"
    };
    let found = first_row(session, retry, "reading its version", (select, ())).await?;
    Ok(found.map(|(version,)| version).unwrap_or_default())
}

/// The `tombstone_gc` that tables need. Scylla's default collects the tombstones of writes with
/// explicit timestamps too early: at once with one replica, otherwise an hour after a repair.
fn tombstone_gc(replicas: u32) -> &'static str {
    if replicas == 1 {
        "{'mode': 'timeout'}"
    } else {
        "{'mode': 'repair', 'propagation_delay_in_seconds': '864000'}"
    }
}

async fn set_tombstone_gc(
    session: &Session,
    retry: &RetryPolicy,
    replicas: u32,
    notes: &mut Vec<String>,
) -> Result<()> {
    let wanted = tombstone_gc(replicas);
    for table in TOMBSTONE_TABLES {
        let alter = format!("ALTER TABLE {table} WITH tombstone_gc = {wanted}");
        execute(session, retry, "setting tombstone_gc", &alter).await?;
        let described = describe(session, retry, table).await?;
        if !has_tombstone_gc(&described, wanted) {
            notes.push(format!(
                "table {table} does not have tombstone_gc = {wanted} although it was set, so \
                 replaced trips may reappear; see DESCRIBE TABLE {table}"
            ));
        }
    }
    Ok(())
}

/// The state of the servers of a store.
#[derive(Clone, Debug)]
pub struct Health {
    /// Product, version and replication factor.
    pub server: String,
    /// Clock of the coordinator, ms since 1970.
    pub clock_ms: i64,
    /// Problems, each with its fix.
    pub notes: Vec<(String, String)>,
}

/// Checks the servers and the tables of a keyspace.
pub(super) async fn inspect(
    session: &Session,
    retry: &RetryPolicy,
    keyspace: &str,
) -> Result<Health> {
    let version = server_version(session, retry).await?;
    let kind = if is_scylla(session) { "Scylla" } else { "Cassandra or compatible:" };
    let mut notes = Vec::new();
    let replicas = replication(session, retry, keyspace).await?.unwrap_or(1);
    if replicas == 1 {
        let note = "replication factor 1: the trips of a lost node are lost";
        notes.push((note.to_owned(), "ALTER KEYSPACE to 3 replicas, then repair".to_owned()));
    }
    for table in TOMBSTONE_TABLES {
        let described = describe(session, retry, table).await?;
        if is_scylla(session) && !has_tombstone_gc(&described, tombstone_gc(replicas)) {
            let note =
                format!("table {table} does not have tombstone_gc = {}", tombstone_gc(replicas));
            notes.push((note, "run tstar schema apply, then repair within 10 days".to_owned()));
        }
        if let Some(grace) = grace_seconds(&described).filter(|grace| *grace < GRACE_SECONDS) {
            let note = format!("table {table} has gc_grace_seconds = {grace}");
            let fix = format!(
                "set it to {GRACE_SECONDS} and repair more often than that: a replaced row \
                 reappears if its deletion is collected before all replicas have it"
            );
            notes.push((note, fix));
        }
    }
    if is_scylla(session) {
        notes.extend(release_fault(&version).map(|note| (note, "upgrade".to_owned())));
    }
    let now = "SELECT toUnixTimestamp(now()) FROM system.local WHERE key = 'local'";
    let clock = first_row(session, retry, "reading its clock", (now, ())).await?;
    let clock_ms = clock.map_or(0, |(clock_ms,)| clock_ms);
    Ok(Health { server: format!("{kind} {version}, {replicas} replicas"), clock_ms, notes })
}

/// How long the tables keep tombstones, seconds; the value in `schema/*.cql`.
const GRACE_SECONDS: u64 = 864_000;

fn grace_seconds(described: &str) -> Option<u64> {
    let (_, value) = described.split_once("gc_grace_seconds = ")?;
    let digits = value.split(|digit: char| !digit.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The statement that would create the table as it is.
async fn describe(session: &Session, retry: &RetryPolicy, table: &str) -> Result<String> {
    let describe = format!("DESCRIBE TABLE {table}");
    let read = || async {
        let found = session.query_unpaged(describe.as_str(), ()).await?.into_rows_result()?;
        let index = found.column_specs().get_by_name("create_statement").map(|(at, _)| at);
        let row = found.rows::<Row>()?.next().transpose()?;
        let column = row.zip(index).and_then(|(mut row, at)| row.columns[at].take());
        Ok(column.and_then(|column| column.into_string()).unwrap_or_default())
    };
    retry.until_acknowledged("describing its tables", read).await
}

/// Whether a table has the wanted `tombstone_gc`, possibly with further options.
fn has_tombstone_gc(described: &str, wanted: &str) -> bool {
    let bare = |text: &str| text.replace([' ', '{', '}'], "");
    let described = bare(described);
    let setting = described.lines().find_map(|line| line.split_once("tombstone_gc="));
    setting.is_some_and(|(_, found)| bare(wanted).split(',').all(|part| found.contains(part)))
}

/// The known fault of a Scylla release, if it has one.
fn release_fault(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let release = (numbers.next()?, numbers.next()?);
    (release < FIXED_RELEASE).then(|| {
        format!(
            "Scylla {version}: before 2026.2 a reversed read over range tombstones in memory may \
             skip a row, and every lookup is a reversed read; upgrade, or create table trips with \
             CLUSTERING ORDER BY (end_time ASC, start_time ASC)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ddl_has_one_statement_per_table() {
        let statements = ddl();
        assert_eq!(statements.len(), 11);
        let tables = [
            "trips",
            "device_days",
            "days_of_device",
            "epochs",
            "forgets",
            "control_keys",
            "claims",
            "schemas",
            "positions",
            "consumer_group",
            "trip_tags",
        ];
        assert!(super::tables().eq(tables));
        for (statement, table) in statements.iter().zip(tables) {
            let create = format!("CREATE TABLE IF NOT EXISTS {table} (");
            assert!(statement.starts_with(&create) && !statement.contains("--"), "{statement}");
        }
    }

    #[test]
    fn the_lowest_replication_factor_counts() {
        let lowest = |pairs: &[(&str, &str)]| {
            let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            min_replicas(&pairs.iter().map(owned).collect())
        };
        let class = ("class", "org.apache.cassandra.locator.NetworkTopologyStrategy");
        assert_eq!(lowest(&[class, ("a", "3"), ("b", "1")]), 1);
        assert_eq!(lowest(&[class, ("a", "3"), ("b", "['r1', 'r2']")]), 2);
        assert_eq!(lowest(&[class]), 1);
    }

    #[test]
    fn tombstone_gc_is_found_in_a_description() {
        let described = |gc: &str| {
            format!("CREATE TABLE x.trips (\n a int\n) WITH b = 1\n    AND tombstone_gc = {gc}\n;")
        };
        let one = "{'mode': 'timeout', 'propagation_delay_in_seconds': '3600'}";
        let late = "{'mode':'repair','propagation_delay_in_seconds':'864000'}";
        let soon = "{'mode': 'repair', 'propagation_delay_in_seconds': '3600'}";
        assert!(has_tombstone_gc(&described(one), tombstone_gc(1)));
        assert!(has_tombstone_gc(&described(late), tombstone_gc(3)));
        assert!(!has_tombstone_gc(&described(soon), tombstone_gc(3)));
        assert!(!has_tombstone_gc(&described(soon), tombstone_gc(1)));
        assert!(!has_tombstone_gc("CREATE TABLE x.trips (a int)", tombstone_gc(1)));
    }

    #[test]
    fn gc_grace_seconds_are_found_in_a_description() {
        assert_eq!(grace_seconds("WITH x = 1 AND gc_grace_seconds = 60\n AND y = 2"), Some(60));
        assert_eq!(grace_seconds("CREATE TABLE x (a int)"), None);
    }

    #[test]
    fn releases_with_the_fault_are_reported() {
        for (version, is_faulty) in [
            ("2026.1.4-0.20260301.abc", true),
            ("6.2.0", true),
            ("2026.2.0", false),
            ("2026.4.0-dev", false),
            ("2027.1.0", false),
            ("unknown", false),
        ] {
            assert_eq!(release_fault(version).is_some(), is_faulty, "{version}");
        }
    }
}
