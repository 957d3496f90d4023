//! The servers, and what the bench makes there.

use std::collections::BTreeMap;
use std::env;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tstar::kafka::client::Brokers;
use tstar::kafka::topic::Topics;

use crate::child::{plain, tstar};
use crate::process::cpu_of;
use crate::role::Log;

/// How long a broker may take to make or remove something.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the servers are.
pub struct Servers {
    /// Host and port of a broker.
    pub kafka: String,
    /// Host and port of a CQL server.
    pub cql: String,
    /// The process of the CQL server.
    pub cql_pid: Option<u32>,
}

impl Servers {
    /// Those that the environment names.
    ///
    /// # Errors
    /// It names none, or no such process runs.
    pub fn of_env() -> anyhow::Result<Self> {
        let cql_pid = match env::var("TSTAR_BENCH_CQL_PID") {
            Ok(text) => {
                let wrong = || format!("TSTAR_BENCH_CQL_PID={text} is no process");
                let pid = text.parse().with_context(wrong)?;
                cpu_of(pid).with_context(wrong)?;
                Some(pid)
            }
            Err(_) => None,
        };
        Ok(Self { kafka: address("TSTAR_TEST_KAFKA")?, cql: address("TSTAR_TEST_CQL")?, cql_pid })
    }

    /// Addresses and versions, a line each.
    ///
    /// # Errors
    /// The CQL server does not answer.
    pub fn describe(&self) -> anyhow::Result<String> {
        let kafka = env::var("TSTAR_BENCH_KAFKA_VERSION");
        let kafka = kafka.unwrap_or_else(|_| "of a version that the protocol does not tell".into());
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
        Err(anyhow!("the CQL server at {} does not tell its version", self.cql))
    }

    async fn session(&self) -> anyhow::Result<Session> {
        let built = SessionBuilder::new().known_node(&self.cql).build().await;
        built.with_context(|| format!("no CQL server answers at {}", self.cql))
    }

    /// As `--store` takes a keyspace.
    pub fn url(&self, keyspace: &str) -> String {
        format!("scylla://{}/{keyspace}", self.cql)
    }

    /// Makes a keyspace with the tables.
    ///
    /// # Errors
    /// The server refuses.
    pub fn make_keyspace(&self, folder: &Path, keyspace: &str) -> anyhow::Result<()> {
        let mut apply = plain(folder, tstar());
        apply.args(["schema", "apply", "--create-keyspace", "--store", &self.url(keyspace)]);
        let output = apply.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tstar schema apply failed: {said}");
        Ok(())
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
        blocking(drop)?.with_context(|| format!("keyspace {keyspace} stays"))
    }
}

fn address(variable: &str) -> anyhow::Result<String> {
    let address = env::var(variable).ok().filter(|address| !address.is_empty());
    address.with_context(|| {
        format!(
            "{variable} is not set; start servers by tests/servers/up, which prints where they \
             are, and set TSTAR_TEST_KAFKA and TSTAR_TEST_CQL to that"
        )
    })
}

fn blocking<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}

/// A topic of this bench's own.
pub struct Topic {
    brokers: String,
    name: String,
    partitions: i32,
    admin: AdminClient<DefaultClientContext>,
}

impl Topic {
    /// Makes it.
    ///
    /// # Errors
    /// The broker refuses, or does not answer.
    pub fn make(brokers: &str, partitions: i32) -> anyhow::Result<Self> {
        let admin = ClientConfig::new().set("bootstrap.servers", brokers).create()?;
        let name = format!("tstar-bench-{}", std::process::id());
        let topic = Self { brokers: brokers.to_owned(), name, partitions, admin };
        // Samples of the fleet are older than any retention.
        let new = NewTopic::new(&topic.name, partitions, TopicReplication::Fixed(1))
            .set("retention.ms", "-1");
        let made = blocking(topic.admin.create_topics([&new], &options()))??;
        for outcome in made {
            outcome.map_err(|(topic, code)| anyhow!("topic `{topic}` was not made: {code}"))?;
        }
        Ok(topic)
    }

    /// Sends the samples of a fleet of seed 1.
    ///
    /// # Errors
    /// The program fails, or not all of them arrived.
    pub fn fill(&self, folder: &Path, devices: u32, samples: u64) -> anyhow::Result<Log> {
        let mut simulate = plain(folder, tstar());
        simulate.args(["simulate", "--seed", "1"]);
        simulate.args(["--devices", &devices.to_string(), "--samples", &samples.to_string()]);
        simulate.args(["--brokers", &self.brokers, "--topic", &self.name]);
        ensure!(simulate.status()?.success(), "tstar simulate failed");
        let topics = Topics::new(&Brokers::new(&self.brokers, BTreeMap::new())?)?;
        let extents = topics.extents(&self.name, self.partitions)?;
        let ends = extents.iter().map(|extent| extent.next).collect();
        let log = Log { brokers: self.brokers.clone(), topic: self.name.clone(), ends };
        ensure!(log.samples() == samples, "the topic ends at {:?}", log.ends);
        Ok(log)
    }

    /// Removes it with those that the daemon made for it.
    ///
    /// # Errors
    /// The broker refuses, or does not answer.
    pub fn remove(&self) -> anyhow::Result<()> {
        let outputs = ["", ".trips", ".dlq"].map(|suffix| format!("{}{suffix}", self.name));
        let names = outputs.each_ref().map(String::as_str);
        for outcome in blocking(self.admin.delete_topics(&names, &options()))?? {
            match outcome {
                // Where a run failed early there are no outputs yet.
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => (),
                Err((topic, code)) => bail!("topic `{topic}` stays: {code}"),
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
        outcome.map_err(|(group, code)| anyhow!("group `{group}` stays: {code}"))?;
    }
    Ok(())
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE))
}
