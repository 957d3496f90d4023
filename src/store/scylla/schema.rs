//! Tables, and what Scylla has to be told about them.
//!
//! The part for Scylla alone is a statement for each table and the check of it. It runs only where
//! a node answers as Scylla does; on Cassandra nothing of it is tried.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::value::Row;

use super::connect;
use super::requests::RetryPolicy;
use super::{ScyllaUrl, ServerOptions};
use crate::store::StoreError;

/// The files, trips first.
const FILES: [&str; 2] =
    [include_str!("../../../schema/trips.cql"), include_str!("../../../schema/log.cql")];

/// Columns that earlier versions did not make, with their types.
const LATER_COLUMNS: [(&str, &str, &str); 2] =
    [("epochs", "partitioner", "text"), ("forgets", "claims", "map<int, int> static")];

/// Tables whose tombstones may not go before what they cover is everywhere.
const WITH_TOMBSTONES: [&str; 4] = ["trips", "device_days", "days_of_device", "forgets"];

/// The first release whose reversed reads are right over range tombstones in memory.
const SOUND_RELEASE: (u32, u32) = (2026, 2);

/// The statements that make the tables, one by one.
#[must_use]
pub fn ddl() -> Vec<String> {
    let uncommented =
        |line: &str| line.split("--").next().unwrap_or_default().trim_end().to_owned();
    let lines = FILES.iter().flat_map(|text| text.lines());
    let text = lines.map(uncommented).collect::<Vec<_>>().join("\n");
    let statements = text.split(';').map(|statement| statement.trim().to_owned());
    statements.filter(|statement| !statement.is_empty()).collect()
}

/// Makes the tables of a store, those that are missing, and with a replication factor its keyspace
/// as well. Returns notes for whoever runs the store.
///
/// # Errors
/// [`StoreError::NoSchema`] where the keyspace is missing and not asked for,
/// [`StoreError::Unreachable`], or [`StoreError::Failed`] with what the server said.
pub async fn apply_schema(
    place: &ScyllaUrl,
    options: ServerOptions,
    create_keyspace: Option<u32>,
) -> Result<Vec<String>, StoreError> {
    let retry = RetryPolicy::new(place, options);
    let session = connect::session(place, &retry).await?;
    if let Some(replicas) = create_keyspace {
        let create = format!(
            "CREATE KEYSPACE IF NOT EXISTS \"{}\" WITH replication = {{'class': \
             'NetworkTopologyStrategy', 'replication_factor': {replicas}}}",
            place.keyspace
        );
        change(&session, &retry, "making its keyspace", &create).await?;
    }
    let replicas = replicas(&session, place, &retry).await?;
    let enter = || async { Ok(session.use_keyspace(&place.keyspace, true).await?) };
    retry.until_acknowledged("entering its keyspace", enter).await?;
    for create in ddl() {
        change(&session, &retry, "making its tables", &create).await?;
    }
    for (table, column, kind) in missing_columns(&session, &retry, &place.keyspace).await? {
        let add = format!("ALTER TABLE {table} ADD {column} {kind}");
        if let Err(error) = change(&session, &retry, "adding to its tables", &add).await {
            // Somebody else may have been sooner.
            let missing = missing_columns(&session, &retry, &place.keyspace).await?;
            if missing.iter().any(|(of, name, _)| (*of, *name) == (table, column)) {
                return Err(error);
            }
        }
    }
    let mut notes = Vec::new();
    if replicas == 1 {
        notes.push(format!(
            "keyspace `{}` has replication factor 1: a node that is lost takes its trips with it",
            place.keyspace
        ));
    }
    if is_scylla(&session) {
        keep_tombstones(&session, &retry, replicas, &mut notes).await?;
        let version = server_version(&session, &retry).await?;
        notes.extend(unsound(&version));
    }
    Ok(notes)
}

/// The columns that tables of an earlier version lack. Not every server can add one on the
/// condition that it is not there.
pub(super) async fn missing_columns(
    session: &Session,
    retry: &RetryPolicy,
    keyspace: &str,
) -> Result<Vec<(&'static str, &'static str, &'static str)>, StoreError> {
    let select = "SELECT column_name FROM system_schema.columns
         WHERE keyspace_name = ? AND table_name = ?";
    let mut missing = Vec::new();
    for later @ (table, column, _) in LATER_COLUMNS {
        let list = || async {
            let listed = session.query_unpaged(select, (keyspace, table)).await?;
            let listed = listed.into_rows_result()?;
            let names = listed.rows::<(String,)>()?.map(|row| row.map(|(name,)| name));
            Ok(names.collect::<Result<Vec<String>, _>>()?)
        };
        let found = retry.until_acknowledged("looking for its columns", list).await?;
        if !found.iter().any(|name| name == column) {
            missing.push(later);
        }
    }
    Ok(missing)
}

async fn change(
    session: &Session,
    retry: &RetryPolicy,
    doing: &'static str,
    statement: &str,
) -> Result<(), StoreError> {
    let run = || async { Ok(session.query_unpaged(statement, ()).await.map(drop)?) };
    retry.until_acknowledged(doing, run).await
}

/// How many replicas the keyspace has, in the data centre that has fewest.
pub(super) async fn replicas(
    session: &Session,
    place: &ScyllaUrl,
    retry: &RetryPolicy,
) -> Result<u32, StoreError> {
    let select = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let read = || async {
        let found = session.query_unpaged(select, (&place.keyspace,)).await?.into_rows_result()?;
        Ok(found.rows::<(BTreeMap<String, String>,)>()?.next().transpose()?)
    };
    match retry.until_acknowledged("reading its replication", read).await? {
        Some((replication,)) => Ok(fewest(&replication)),
        None => Err(StoreError::NoSchema {
            place: place.to_string(),
            missing: format!("keyspace `{}`", place.keyspace),
            flag: " --create-keyspace",
        }),
    }
}

/// A value is a number, or a list of racks with one replica each.
fn fewest(replication: &BTreeMap<String, String>) -> u32 {
    let values = replication.iter().filter(|(key, _)| *key != "class").map(|(_, value)| value);
    let count = |value: &String| {
        let racks = || u32::try_from(value.split(',').count()).unwrap_or(u32::MAX);
        value.parse().unwrap_or_else(|_| racks())
    };
    values.map(count).min().unwrap_or(1)
}

/// Whether a node of the session is one of Scylla: those tell the driver how they shard.
pub(super) fn is_scylla(session: &Session) -> bool {
    session.get_cluster_state().get_nodes_info().iter().any(|node| node.sharder().is_some())
}

/// The server's own version; Scylla's, not that of the Cassandra it resembles.
pub(super) async fn server_version(
    session: &Session,
    retry: &RetryPolicy,
) -> Result<String, StoreError> {
    let select = if is_scylla(session) {
        "SELECT version FROM system.versions WHERE key = 'local'"
    } else {
        "SELECT release_version FROM system.local WHERE key = 'local'"
    };
    let read = || async {
        let found = session.query_unpaged(select, ()).await?.into_rows_result()?;
        Ok(found.rows::<(String,)>()?.next().transpose()?)
    };
    let found = retry.until_acknowledged("asking for its version", read).await?;
    Ok(found.map(|(version,)| version).unwrap_or_default())
}

/// Scylla's default collects the tombstones of writes that say their own time too early: with one
/// replica at once, else an hour after a repair.
fn tombstones(replicas: u32) -> &'static str {
    if replicas == 1 {
        "{'mode': 'timeout'}"
    } else {
        "{'mode': 'repair', 'propagation_delay_in_seconds': '864000'}"
    }
}

async fn keep_tombstones(
    session: &Session,
    retry: &RetryPolicy,
    replicas: u32,
    notes: &mut Vec<String>,
) -> Result<(), StoreError> {
    let wanted = tombstones(replicas);
    for table in WITH_TOMBSTONES {
        let alter = format!("ALTER TABLE {table} WITH tombstone_gc = {wanted}");
        change(session, retry, "setting when tombstones go", &alter).await?;
        let described = describe(session, retry, table).await?;
        if !has_tombstones(&described, wanted) {
            notes.push(format!(
                "table {table} does not have tombstone_gc = {wanted} although it was set: \
                 trips that were replaced may come back; see DESCRIBE TABLE {table}"
            ));
        }
    }
    Ok(())
}

/// How the servers of a store are.
#[derive(Clone, Debug)]
pub struct Health {
    /// What they are, with their version.
    pub server: String,
    /// The clock of the one that was asked, ms since 1970.
    pub clock_ms: i64,
    /// What is not as it should be, and what helps.
    pub notes: Vec<(String, String)>,
}

/// Looks at the servers and the tables of a keyspace.
pub(super) async fn look_at(
    session: &Session,
    retry: &RetryPolicy,
    keyspace: &str,
) -> Result<Health, StoreError> {
    let version = server_version(session, retry).await?;
    let kind = if is_scylla(session) { "Scylla" } else { "Cassandra, or alike:" };
    let mut notes = Vec::new();
    let select = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let read = || async {
        let found = session.query_unpaged(select, (keyspace,)).await?.into_rows_result()?;
        Ok(found.rows::<(BTreeMap<String, String>,)>()?.next().transpose()?)
    };
    let found = retry.until_acknowledged("reading its replication", read).await?;
    let replicas = found.map_or(1, |(replication,)| fewest(&replication));
    if replicas == 1 {
        let note = "replication factor 1: a node that is lost takes its trips with it";
        notes.push((note.to_owned(), "ALTER KEYSPACE to 3 replicas, then repair".to_owned()));
    }
    for table in WITH_TOMBSTONES {
        let described = describe(session, retry, table).await?;
        if is_scylla(session) && !has_tombstones(&described, tombstones(replicas)) {
            let note =
                format!("table {table} does not have tombstone_gc = {}", tombstones(replicas));
            notes.push((note, "tstar schema apply sets it; repair within 10 days".to_owned()));
        }
        if let Some(grace) = grace_seconds(&described).filter(|grace| *grace < GRACE_SECONDS) {
            let note = format!("table {table} has gc_grace_seconds = {grace}");
            let fix = format!(
                "set it to {GRACE_SECONDS}, and repair more often than that: a row that was \
                 replaced comes back where its deletion is collected before all replicas have it"
            );
            notes.push((note, fix));
        }
    }
    if is_scylla(session) {
        notes.extend(unsound(&version).map(|note| (note, "upgrade".to_owned())));
    }
    let now = "SELECT toUnixTimestamp(now()) FROM system.local WHERE key = 'local'";
    let read = || async {
        let found = session.query_unpaged(now, ()).await?.into_rows_result()?;
        Ok(found.rows::<(i64,)>()?.next().transpose()?)
    };
    let clock = retry.until_acknowledged("asking for its clock", read).await?;
    let clock_ms = clock.map_or(0, |(clock_ms,)| clock_ms);
    Ok(Health { server: format!("{kind} {version}, {replicas} replicas"), clock_ms, notes })
}

/// How long the tables keep what tells that a row was deleted, seconds: `schema/*.cql`.
const GRACE_SECONDS: u64 = 864_000;

fn grace_seconds(described: &str) -> Option<u64> {
    let (_, value) = described.split_once("gc_grace_seconds = ")?;
    let digits = value.split(|digit: char| !digit.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The statement that would make a table as it is.
async fn describe(
    session: &Session,
    retry: &RetryPolicy,
    table: &str,
) -> Result<String, StoreError> {
    let describe = format!("DESCRIBE TABLE {table}");
    let read = || async {
        let found = session.query_unpaged(describe.as_str(), ()).await?.into_rows_result()?;
        let place = found.column_specs().get_by_name("create_statement").map(|(at, _)| at);
        let row = found.rows::<Row>()?.next().transpose()?;
        let column = row.zip(place).and_then(|(mut row, at)| row.columns[at].take());
        Ok(column.and_then(|column| column.into_string()).unwrap_or_default())
    };
    retry.until_acknowledged("describing its tables", read).await
}

/// The mode, and the delay where one is wanted, whatever else stands beside them.
fn has_tombstones(described: &str, wanted: &str) -> bool {
    let bare = |text: &str| text.replace([' ', '{', '}'], "");
    let described = bare(described);
    let stands = described.lines().find_map(|line| line.split_once("tombstone_gc="));
    stands.is_some_and(|(_, found)| bare(wanted).split(',').all(|part| found.contains(part)))
}

/// What to know about a release of Scylla.
fn unsound(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let release = (numbers.next()?, numbers.next()?);
    (release < SOUND_RELEASE).then(|| {
        format!(
            "Scylla {version}: before 2026.2 a read against the order of the table, over range \
             tombstones in memory, may skip a row, and each lookup is such a read; upgrade, or \
             make table trips with CLUSTERING ORDER BY (end_time ASC, start_time ASC)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_fall_into_one_statement_a_table() {
        let statements = ddl();
        assert_eq!(statements.len(), 7);
        let tables = [
            "trips",
            "device_days",
            "days_of_device",
            "epochs",
            "forgets",
            "control_keys",
            "claims",
        ];
        for (statement, table) in statements.iter().zip(tables) {
            let create = format!("CREATE TABLE IF NOT EXISTS {table} (");
            assert!(statement.starts_with(&create) && !statement.contains("--"), "{statement}");
        }
    }

    #[test]
    fn the_fewest_replicas_of_a_data_centre_count() {
        let of = |pairs: &[(&str, &str)]| {
            let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            fewest(&pairs.iter().map(owned).collect())
        };
        let class = ("class", "org.apache.cassandra.locator.NetworkTopologyStrategy");
        assert_eq!(of(&[class, ("a", "3"), ("b", "1")]), 1);
        assert_eq!(of(&[class, ("a", "3"), ("b", "['r1', 'r2']")]), 2);
        assert_eq!(of(&[class]), 1);
    }

    #[test]
    fn settings_of_tombstones_are_found_in_a_description() {
        let described = |gc: &str| {
            format!("CREATE TABLE x.trips (\n a int\n) WITH b = 1\n    AND tombstone_gc = {gc}\n;")
        };
        let one = "{'mode': 'timeout', 'propagation_delay_in_seconds': '3600'}";
        let late = "{'mode':'repair','propagation_delay_in_seconds':'864000'}";
        let soon = "{'mode': 'repair', 'propagation_delay_in_seconds': '3600'}";
        assert!(has_tombstones(&described(one), tombstones(1)));
        assert!(has_tombstones(&described(late), tombstones(3)));
        assert!(!has_tombstones(&described(soon), tombstones(3)));
        assert!(!has_tombstones(&described(soon), tombstones(1)));
        assert!(!has_tombstones("CREATE TABLE x.trips (a int)", tombstones(1)));
    }

    #[test]
    fn the_grace_of_a_table_is_found_in_a_description() {
        assert_eq!(grace_seconds("WITH x = 1 AND gc_grace_seconds = 60\n AND y = 2"), Some(60));
        assert_eq!(grace_seconds("CREATE TABLE x (a int)"), None);
    }

    #[test]
    fn releases_with_the_fault_are_told() {
        for (version, told) in [
            ("2026.1.4-0.20260301.abc", true),
            ("6.2.0", true),
            ("2026.2.0", false),
            ("2026.4.0-dev", false),
            ("2027.1.0", false),
            ("unknown", false),
        ] {
            assert_eq!(unsound(version).is_some(), told, "{version}");
        }
    }
}
