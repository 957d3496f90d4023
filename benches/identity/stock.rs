//! Databases that give numbers out: SQLite, each number durable before it is given, and a CQL
//! server by lightweight transactions.

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

/// How long a writer waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often in a row a server may leave it open whether it did something.
const TRIES: u32 = 100;

/// Where numbers come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Place {
    /// A SQLite file.
    File(PathBuf),
    /// A CQL server.
    Server {
        /// Host and port.
        address: String,
        /// This bench's own.
        keyspace: String,
    },
}

impl Place {
    /// As the tables name it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::File(_) => "SQLite",
            Self::Server { .. } => "CQL",
        }
    }

    /// Connects, once for all writers of this process.
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

/// A database that is connected to.
#[derive(Clone)]
pub enum Connected {
    /// Every writer opens the file for itself.
    File(PathBuf),
    /// The writers share the driver's session.
    Server(Arc<Server>),
}

impl Connected {
    /// Makes everything anew: counters at 0, no number taken.
    ///
    /// # Errors
    /// The database fails.
    pub fn reset(&self) -> anyhow::Result<()> {
        match self {
            Self::File(file) => reset_file(file),
            Self::Server(server) => server.reset(),
        }
    }

    /// For one writer.
    ///
    /// # Errors
    /// The database fails.
    pub fn writer(&self) -> anyhow::Result<Box<dyn Stock>> {
        Ok(match self {
            Self::File(file) => Box::new(FileStock { connection: open(file)?, asked: 0 }),
            Self::Server(server) => Box::new(ServerStock {
                server: Arc::clone(server),
                next: [0; COUNTERS as usize],
                asked: 0,
            }),
        })
    }
}

fn open(file: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(PATIENCE)?;
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
    asked: u64,
}

impl Stock for FileStock {
    fn take(&mut self, counter: u32, count: i64) -> anyhow::Result<i64> {
        self.asked += 1;
        let mut update = self.connection.prepare_cached(
            "UPDATE counters SET next = next + ?2 WHERE counter = ?1 RETURNING next - ?2",
        )?;
        let mut rows = update.query((i64::from(counter), count))?;
        let first = rows.next()?.context("the counter is there")?.get(0)?;
        // It is committed with its last row, and only then is the number ours.
        anyhow::ensure!(rows.next()?.is_none(), "counter {counter} is there twice");
        Ok(first)
    }

    fn claim(&mut self, number: i64) -> anyhow::Result<bool> {
        self.asked += 1;
        let insert = "INSERT INTO taken VALUES (?) ON CONFLICT DO NOTHING";
        Ok(self.connection.prepare_cached(insert)?.execute([number])? == 1)
    }

    fn asked(&self) -> u64 {
        self.asked
    }
}

/// A session with what it needs to give numbers out.
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
            // Sees what a lightweight transaction has begun, and ends it.
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

    /// Product and version, as the server tells them.
    ///
    /// # Errors
    /// It tells none.
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
            bail!("the CQL server does not tell its version")
        })
    }

    /// Removes what was made.
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
    /// What each counter is thought to stand at.
    next: [i64; COUNTERS as usize],
    asked: u64,
}

impl ServerStock {
    /// Whether a transaction was applied, and else what stood in its way. None where the server
    /// left it open: then the number in question is left alone.
    fn ask(
        &mut self,
        statement: fn(&Server) -> &PreparedStatement,
        values: impl SerializeRow,
    ) -> anyhow::Result<Option<(bool, Option<i64>)>> {
        self.asked += 1;
        let server = &self.server;
        let asked = server.session.execute_unpaged(statement(server), values);
        let Ok(answer) = server.runtime.block_on(asked) else { return Ok(None) };
        let answer = answer.into_rows_result()?;
        let row = answer.rows::<Row>()?.next().context("a transaction answers with a row")??;
        let mut columns = row.columns.into_iter().map(|column| column.unwrap_or(CqlValue::Empty));
        let applied = columns.next().and_then(|column| column.as_boolean());
        let stands = columns.find_map(|column| column.as_bigint());
        Ok(Some((applied.context("the first column tells whether it was applied")?, stands)))
    }

    /// Where a counter stands.
    fn read(&mut self, counter: i32) -> anyhow::Result<i64> {
        self.asked += 1;
        let server = &self.server;
        let asked = server.session.execute_unpaged(&server.read, (counter,));
        let answer = server.runtime.block_on(asked)?.into_rows_result()?;
        Ok(answer.single_row::<(i64,)>()?.0)
    }
}

impl Stock for ServerStock {
    fn take(&mut self, counter: u32, count: i64) -> anyhow::Result<i64> {
        let (name, at) = (i32::try_from(counter)?, counter as usize);
        for _ in 0..TRIES {
            let first = self.next[at];
            let told = self.ask(|server| &server.take, (first + count, name, first))?;
            self.next[at] = match told {
                Some((true, _)) => {
                    self.next[at] = first + count;
                    return Ok(first);
                }
                Some((false, Some(stands))) => stands,
                Some((false, None)) | None => self.read(name)?,
            };
        }
        bail!("counter {counter} could not be moved in {TRIES} tries")
    }

    fn claim(&mut self, number: i64) -> anyhow::Result<bool> {
        Ok(self.ask(|server| &server.claim, (number,))?.is_some_and(|(applied, _)| applied))
    }

    fn asked(&self) -> u64 {
        self.asked
    }
}
