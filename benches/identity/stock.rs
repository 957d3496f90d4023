//! Databases that issue numbers: SQLite, where each number is durable before it is used, and a CQL
//! server with lightweight transactions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rusqlite::Connection;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::mint::{COUNTERS, Stock};

/// How long a writer waits for a lock.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of attempts of a request.
const TRIES: u32 = 100;

/// A database that issues numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Database {
    /// An SQLite file.
    File(PathBuf),
    /// A CQL server.
    Server {
        /// HOST:PORT.
        address: String,
        /// Keyspace of this bench.
        keyspace: String,
    },
}

impl Database {
    /// Name in the tables.
    pub fn label(&self) -> &'static str {
        match self {
            Self::File(_) => "SQLite",
            Self::Server { .. } => "CQL",
        }
    }

    /// Connects once for all writers of this process.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn connect(&self) -> anyhow::Result<Connected> {
        Ok(match self {
            Self::File(file) => Connected::File(file.clone()),
            Self::Server { address, keyspace } => {
                Connected::Server(Arc::new(Server::connect(address, keyspace)?))
            }
        })
    }
}

/// A connected database.
#[derive(Clone)]
pub enum Connected {
    /// Every writer opens the file.
    File(PathBuf),
    /// The writers share a session.
    Server(Arc<Server>),
}

impl Connected {
    /// Resets the tables: counters at 0, no number taken.
    ///
    /// # Errors
    /// The database fails.
    pub fn reset(&self) -> anyhow::Result<()> {
        match self {
            Self::File(file) => reset_file(file),
            Self::Server(server) => server.reset(),
        }
    }

    /// Opens the database for one writer.
    ///
    /// # Errors
    /// The database fails.
    pub fn writer(&self) -> anyhow::Result<Box<dyn Stock>> {
        Ok(match self {
            Self::File(file) => Box::new(FileStock { connection: open(file)?, requests: 0 }),
            Self::Server(server) => Box::new(ServerStock {
                server: Arc::clone(server),
                next: [0; COUNTERS as usize],
                requests: 0,
            }),
        })
    }
}

fn open(file: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(TIMEOUT)?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    Ok(connection)
}

fn reset_file(file: &Path) -> anyhow::Result<()> {
    let connection = open(file)?;
    connection.execute_batch(
        "DROP TABLE IF EXISTS counters; DROP TABLE IF EXISTS taken;
         CREATE TABLE counters (counter INTEGER PRIMARY KEY, next INTEGER NOT NULL);
         CREATE TABLE taken (number INTEGER PRIMARY KEY);",
    )?;
    for counter in 0..COUNTERS {
        connection.execute("INSERT INTO counters VALUES (?, 0)", [counter])?;
    }
    Ok(())
}

struct FileStock {
    connection: Connection,
    requests: u64,
}

impl Stock for FileStock {
    fn next_numbers(&mut self, counter: u32, count: i64) -> anyhow::Result<i64> {
        self.requests += 1;
        let mut update = self.connection.prepare_cached(
            "UPDATE counters SET next = next + ?2 WHERE counter = ?1 RETURNING next - ?2",
        )?;
        let mut rows = update.query((i64::from(counter), count))?;
        let first = rows.next()?.context("the counter exists")?.get(0)?;
        // The update commits when its last row is read; only then is the number reserved.
        anyhow::ensure!(rows.next()?.is_none(), "counter {counter} has two rows");
        Ok(first)
    }

    fn claim(&mut self, number: i64) -> anyhow::Result<bool> {
        self.requests += 1;
        let insert = "INSERT INTO taken VALUES (?) ON CONFLICT DO NOTHING";
        Ok(self.connection.prepare_cached(insert)?.execute([number])? == 1)
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}

/// A session with its prepared statements.
pub struct Server {
    runtime: Runtime,
    session: Session,
    read: PreparedStatement,
    take: PreparedStatement,
    claim: PreparedStatement,
}

impl Server {
    fn connect(address: &str, keyspace: &str) -> anyhow::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (session, read, take, claim) = runtime.block_on(async {
            let session = SessionBuilder::new().known_node(address).build().await;
            let session = session.with_context(|| format!("no CQL server answers at {address}"))?;
            for statement in [
                format!(
                    "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
                     {{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}}"
                ),
                format!(
                    "CREATE TABLE IF NOT EXISTS {keyspace}.counters \
                     (counter int PRIMARY KEY, next bigint)"
                ),
                format!("CREATE TABLE IF NOT EXISTS {keyspace}.taken (number bigint PRIMARY KEY)"),
            ] {
                session.query_unpaged(statement, &[]).await?;
            }
            let read = format!("SELECT next FROM {keyspace}.counters WHERE counter = ?");
            let mut read = session.prepare(read).await?;
            // A serial read completes a lightweight transaction in progress.
            read.set_consistency(Consistency::LocalSerial);
            let take =
                format!("UPDATE {keyspace}.counters SET next = ? WHERE counter = ? IF next = ?");
            let claim = format!("INSERT INTO {keyspace}.taken (number) VALUES (?) IF NOT EXISTS");
            let (take, claim) = (session.prepare(take).await?, session.prepare(claim).await?);
            anyhow::Ok((session, read, take, claim))
        })?;
        Ok(Self { runtime, session, read, take, claim })
    }

    fn reset(&self) -> anyhow::Result<()> {
        let keyspace = self.take.get_table_spec().context("an update has a table")?.ks_name();
        self.runtime.block_on(async {
            for table in ["counters", "taken"] {
                self.session.query_unpaged(format!("TRUNCATE {keyspace}.{table}"), &[]).await?;
            }
            for counter in 0..COUNTERS {
                let insert = format!(
                    "INSERT INTO {keyspace}.counters (counter, next) VALUES ({counter}, 0) \
                     IF NOT EXISTS"
                );
                self.session.query_unpaged(insert, &[]).await?;
            }
            anyhow::Ok(())
        })
    }

    /// Product and version of the server.
    ///
    /// # Errors
    /// The server does not report them.
    pub fn version(&self) -> anyhow::Result<String> {
        self.runtime.block_on(async {
            for (product, query) in [
                ("Scylla", "SELECT version FROM system.versions WHERE key = 'local'"),
                ("Cassandra", "SELECT release_version FROM system.local WHERE key = 'local'"),
            ] {
                // Only Scylla has the first table.
                let Ok(answer) = self.session.query_unpaged(query, &[]).await else { continue };
                let (version,) = answer.into_rows_result()?.single_row::<(String,)>()?;
                return Ok(format!("{product} {version}"));
            }
            bail!("the CQL server does not report its version")
        })
    }

    /// Drops the keyspace.
    ///
    /// # Errors
    /// The server refuses.
    pub fn remove(&self) -> anyhow::Result<()> {
        let keyspace = self.take.get_table_spec().context("an update has a table")?.ks_name();
        let drop = format!("DROP KEYSPACE IF EXISTS {keyspace}");
        self.runtime.block_on(self.session.query_unpaged(drop, &[]))?;
        Ok(())
    }
}

struct ServerStock {
    server: Arc<Server>,
    /// Expected value of each counter.
    next: [i64; COUNTERS as usize],
    requests: u64,
}

impl ServerStock {
    /// Runs a lightweight transaction. Returns whether it was applied, and the current value if it
    /// was not. `None` if the result is unknown: then the numbers are not used.
    fn execute(
        &mut self,
        statement: fn(&Server) -> &PreparedStatement,
        values: impl SerializeRow,
    ) -> anyhow::Result<Option<(bool, Option<i64>)>> {
        self.requests += 1;
        let server = &self.server;
        let request = server.session.execute_unpaged(statement(server), values);
        let Ok(answer) = server.runtime.block_on(request) else { return Ok(None) };
        let answer = answer.into_rows_result()?;
        let row = answer.rows::<Row>()?.next().context("a transaction answers with a row")??;
        let mut columns = row.columns.into_iter().map(|column| column.unwrap_or(CqlValue::Empty));
        let applied = columns.next().and_then(|column| column.as_boolean());
        let current = columns.find_map(|column| column.as_bigint());
        Ok(Some((applied.context("the first column is `[applied]`")?, current)))
    }

    /// Current value of a counter.
    fn read(&mut self, counter: i32) -> anyhow::Result<i64> {
        self.requests += 1;
        let server = &self.server;
        let request = server.session.execute_unpaged(&server.read, (counter,));
        let answer = server.runtime.block_on(request)?.into_rows_result()?;
        Ok(answer.single_row::<(i64,)>()?.0)
    }
}

impl Stock for ServerStock {
    fn next_numbers(&mut self, counter: u32, count: i64) -> anyhow::Result<i64> {
        let (name, at) = (i32::try_from(counter)?, counter as usize);
        for _ in 0..TRIES {
            let first = self.next[at];
            let outcome = self.execute(|server| &server.take, (first + count, name, first))?;
            self.next[at] = match outcome {
                Some((true, _)) => {
                    self.next[at] = first + count;
                    return Ok(first);
                }
                Some((false, Some(current))) => current,
                Some((false, None)) | None => self.read(name)?,
            };
        }
        bail!("counter {counter} could not be advanced in {TRIES} attempts")
    }

    fn claim(&mut self, number: i64) -> anyhow::Result<bool> {
        Ok(self.execute(|server| &server.claim, (number,))?.is_some_and(|(applied, _)| applied))
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}
