//! The servers, and the topics and keyspaces that the bench creates there.

use std::collections::BTreeMap;
use std::env;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use futures_util::TryStreamExt as _;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::unprepared::Statement;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::topics::Topics;

use crate::child::{plain, tstar};
use crate::log::Log;
use crate::process::cpu_of;

/// Time limit of admin requests to a broker.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The servers.
pub struct Servers {
    /// Address of a broker, HOST:PORT.
    pub kafka: String,
    /// Address of a CQL server, HOST:PORT.
    pub cql: String,
    /// Process id of the CQL server.
    pub cql_pid: Option<u32>,
    /// Process id of the broker.
    pub kafka_pid: Option<u32>,
}

impl Servers {
    /// The servers named by environment variables.
    ///
    /// # Errors
    /// A variable is missing, or the process does not exist.
    pub fn from_env() -> anyhow::Result<Self> {
        Ok(Self {
            kafka: address("TSTAR_TEST_KAFKA")?,
            cql: address("TSTAR_TEST_CQL")?,
            cql_pid: pid("TSTAR_BENCH_CQL_PID")?,
            kafka_pid: pid("TSTAR_BENCH_KAFKA_PID")?,
        })
    }

    /// Addresses and versions, one line per server.
    ///
    /// # Errors
    /// The CQL server does not answer.
    pub fn describe(&self) -> anyhow::Result<String> {
        let kafka = env::var("TSTAR_BENCH_KAFKA_VERSION");
        let kafka = kafka.unwrap_or_else(|_| "(version unknown)".into());
        let (_, client) = rdkafka::util::get_rdkafka_version();
        let cql = blocking(self.cql_version())??;
        Ok(format!(
            "broker: Kafka {kafka}, {}; client: librdkafka {client}\nstore: {cql}, {}",
            self.kafka, self.cql
        ))
    }

    async fn cql_version(&self) -> anyhow::Result<String> {
        let session = self.session().await?;
        for (product, query) in [
            ("Scylla", "SELECT version FROM system.versions WHERE key = 'local'"),
            ("Cassandra", "SELECT release_version FROM system.local WHERE key = 'local'"),
        ] {
            // Only Scylla has the first table.
            let Ok(answer) = session.query_unpaged(query, &[]).await else { continue };
            let (version,) = answer.into_rows_result()?.single_row::<(String,)>()?;
            return Ok(format!("{product} {version}"));
        }
        Err(anyhow!("the CQL server at {} does not report its version", self.cql))
    }

    /// A session with the CQL server.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn session(&self) -> anyhow::Result<Session> {
        let built = SessionBuilder::new().known_node(&self.cql).build().await;
        built.with_context(|| format!("no CQL server answers at {}", self.cql))
    }

    /// URL of a keyspace for `--store`.
    pub fn url(&self, keyspace: &str) -> String {
        format!("scylla://{}/{keyspace}", self.cql)
    }

    /// Creates a keyspace with the tables of a program.
    ///
    /// # Errors
    /// The server refuses.
    pub fn create_keyspace(
        &self,
        folder: &Path,
        program: &Path,
        keyspace: &str,
    ) -> anyhow::Result<()> {
        let mut apply = plain(folder, program);
        apply.args(["schema", "apply", "--create-keyspace", "--store", &self.url(keyspace)]);
        let output = apply.output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tstar schema apply failed: {stderr}");
        Ok(())
    }

    /// Number of rows of trips in a keyspace.
    ///
    /// # Errors
    /// The server refuses.
    pub fn count_rows(&self, keyspace: &str) -> anyhow::Result<u64> {
        let count = async {
            let session = self.session().await?;
            let mut query = Statement::new(format!("SELECT device_id FROM {keyspace}.trips"));
            query.set_page_size(1000);
            let mut rows = session.query_iter(query, &[]).await?.rows_stream::<(String,)>()?;
            let mut count = 0;
            while rows.try_next().await?.is_some() {
                count += 1;
            }
            anyhow::Ok(count)
        };
        blocking(count)?
    }

    /// Removes a keyspace.
    ///
    /// # Errors
    /// The server refuses.
    pub fn drop_keyspace(&self, keyspace: &str) -> anyhow::Result<()> {
        let drop = async {
            let session = self.session().await?;
            let drop = format!("DROP KEYSPACE IF EXISTS {keyspace}");
            session.query_unpaged(drop, &[]).await?;
            anyhow::Ok(())
        };
        blocking(drop)?.with_context(|| format!("keyspace {keyspace} was not removed"))
    }
}

/// The process that a variable names.
fn pid(variable: &str) -> anyhow::Result<Option<u32>> {
    let Ok(text) = env::var(variable) else { return Ok(None) };
    let wrong = || format!("{variable}={text} is not a running process");
    let pid = text.parse().with_context(wrong)?;
    cpu_of(pid).with_context(wrong)?;
    Ok(Some(pid))
}

fn address(variable: &str) -> anyhow::Result<String> {
    let address = env::var(variable).ok().filter(|address| !address.is_empty());
    address.with_context(|| {
        format!(
            "{variable} is not set; run tests/servers/up and set TSTAR_TEST_KAFKA and \
             TSTAR_TEST_CQL to the addresses that it prints"
        )
    })
}

fn blocking<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}

/// A topic created by this bench.
pub struct Topic {
    brokers: String,
    name: String,
    partitions: i32,
    admin: AdminClient<DefaultClientContext>,
}

impl Topic {
    /// Creates the topic.
    ///
    /// # Errors
    /// The broker refuses, or does not answer.
    pub fn create(brokers: &str, suffix: &str, partitions: i32) -> anyhow::Result<Self> {
        let admin = ClientConfig::new().set("bootstrap.servers", brokers).create()?;
        let name = format!("tstar-bench-{}-{suffix}", std::process::id());
        let topic = Self { brokers: brokers.to_owned(), name, partitions, admin };
        // The samples are older than any retention.
        let new = NewTopic::new(&topic.name, partitions, TopicReplication::Fixed(1))
            .set("retention.ms", "-1");
        let created = blocking(topic.admin.create_topics([&new], &options()))??;
        for outcome in created {
            outcome.map_err(|(topic, code)| anyhow!("topic `{topic}` was not created: {code}"))?;
        }
        Ok(topic)
    }

    /// Sends the samples of a fleet of seed 1.
    ///
    /// # Errors
    /// The program fails, or samples are missing.
    pub fn fill(&self, folder: &Path, devices: u32, samples: u64) -> anyhow::Result<Log> {
        let mut simulate = plain(folder, tstar());
        simulate.args(["simulate", "--seed", "1", "--mix", "46,34,19,1"]);
        simulate.args(["--devices", &devices.to_string(), "--samples", &samples.to_string()]);
        simulate.args(["--brokers", &self.brokers, "--topic", &self.name]);
        ensure!(simulate.status()?.success(), "tstar simulate failed");
        let log = self.log()?;
        ensure!(log.samples() == samples, "the topic ends at {:?}", log.ends);
        Ok(log)
    }

    /// The records that the topic holds now.
    ///
    /// # Errors
    /// The broker refuses, or does not answer.
    pub fn log(&self) -> anyhow::Result<Log> {
        self.records(self.name.clone(), self.partitions)
    }

    /// The events that its change feed holds now.
    ///
    /// # Errors
    /// The broker refuses, does not answer, or has no such topic.
    pub fn feed(&self) -> anyhow::Result<Log> {
        self.records(format!("{}.trips", self.name), self.partitions)
    }

    fn records(&self, topic: String, partitions: i32) -> anyhow::Result<Log> {
        let topics = Topics::new(&Brokers::new(&self.brokers, BTreeMap::new())?)?;
        let extents = topics.extents(&topic, partitions)?;
        let ends = extents.iter().map(|extent| extent.next).collect();
        Ok(Log { brokers: self.brokers.clone(), topic, ends })
    }

    /// Removes the topic and its output topics, or a topic that Kafka Streams wrote and its log.
    ///
    /// # Errors
    /// The broker refuses, or does not answer.
    pub fn remove(&self) -> anyhow::Result<()> {
        let outputs = ["", ".trips", ".trips.table", ".dlq", "-trips-changelog"]
            .map(|suffix| format!("{}{suffix}", self.name));
        let names = outputs.each_ref().map(String::as_str);
        for outcome in blocking(self.admin.delete_topics(&names, &options()))?? {
            match outcome {
                // After an early failure there are no output topics.
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => (),
                Err((topic, code)) => bail!("topic `{topic}` was not removed: {code}"),
            }
        }
        Ok(())
    }
}

/// Removes a consumer group without members.
///
/// # Errors
/// The broker refuses, or does not answer.
pub fn remove_group(brokers: &str, group: &str) -> anyhow::Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", brokers).create()?;
    for outcome in blocking(admin.delete_groups(&[group], &options()))?? {
        outcome.map_err(|(group, code)| anyhow!("group `{group}` was not removed: {code}"))?;
    }
    Ok(())
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(TIMEOUT))
}
