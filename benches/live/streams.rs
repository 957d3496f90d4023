//! Kafka Streams while the daemon runs: the program in `streams/` builds trips from the same topic.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset;
use rdkafka::{ClientConfig, TopicPartitionList};
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::group::Group;

use crate::child::plain;
use crate::daemon::{LIMIT, POLL_INTERVAL};
use crate::log::Log;
use crate::process::cpu_of;
use crate::run::PARTITIONS;
use crate::servers::{Topic, remove_group};

/// Exit status of a JVM that a SIGTERM ended.
const TERMINATED: i32 = 143;

/// What a trip of Kafka Streams has.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Trips {
    /// All its samples, as trips of tstar
    Paths,
    /// Its number of samples, the first and the last
    Ends,
}

/// The program, built.
#[derive(Clone, Debug)]
pub struct Program {
    class_path: String,
    trips: Trips,
}

impl Program {
    /// Builds it by Maven.
    ///
    /// # Errors
    /// Maven is missing or fails.
    pub fn build(folder: &Path, trips: Trips) -> anyhow::Result<Self> {
        let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/live/streams/pom.xml");
        let (target, jars) = (folder.join("streams"), folder.join("streams/lib"));
        let mut maven = plain(folder, Path::new("mvn"));
        maven.args(["-q", "-B", "package", "dependency:copy-dependencies", "-f"]).arg(pom);
        maven.arg(format!("-Dbuild.folder={}", target.display()));
        maven.arg(format!("-DoutputDirectory={}", jars.display()));
        // Rows are on standard output.
        let output = maven.output().context("cannot run mvn")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "mvn failed:\n{said}");
        let class_path = format!("{}/streams-1.jar:{}/*", target.display(), jars.display());
        Ok(Self { class_path, trips })
    }
}

/// A running Streams application, killed when dropped.
pub struct Streams {
    child: Child,
    stderr: PathBuf,
    /// The topic of its trips. Its name is also that of the application.
    output: Topic,
    application: String,
    brokers: String,
}

impl Streams {
    /// Starts it on a topic.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(folder: &Path, program: &Program, log: &Log, name: &str) -> anyhow::Result<Self> {
        let output = Topic::create(&log.brokers, &format!("streams-{name}"), PARTITIONS)?;
        let application = output.log()?.topic;
        let stderr = folder.join(format!("{application}.log"));
        let mut java = plain(folder, Path::new("java"));
        // The collector with the least CPU.
        java.args(["-Xms2g", "-Xmx2g", "-XX:+UseSerialGC", "-cp", &program.class_path]);
        java.args(["tstar.streams.Main", &log.brokers, &log.topic, &application]);
        java.arg(folder.join(format!("{application}.state"))).arg(match program.trips {
            Trips::Paths => "paths",
            Trips::Ends => "ends",
        });
        java.stdout(Stdio::null()).stderr(File::create(&stderr)?);
        let child = java.spawn().context("cannot run java")?;
        Ok(Self { child, stderr, output, application, brokers: log.brokers.clone() })
    }

    /// User and system time so far, s.
    ///
    /// # Errors
    /// It ended.
    pub fn cpu(&self) -> anyhow::Result<f64> {
        cpu_of(self.child.id())
    }

    /// Number of samples that it has not committed yet.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn behind(&self, log: &Log) -> anyhow::Result<u64> {
        let group =
            Group::new(&Brokers::new(&log.brokers, Default::default())?, &self.application)?;
        let committed = group.committed(&log.topic, PARTITIONS)?;
        let left = (0..).zip(&log.ends).map(|(partition, end)| {
            (end - committed.get(&partition).copied().unwrap_or(0).max(0)).max(0).unsigned_abs()
        });
        Ok(left.sum())
    }

    /// Waits until everything before the ends is committed.
    ///
    /// # Errors
    /// It ends, or exceeds the time limit.
    pub fn wait(&mut self, log: &Log) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.behind(log)? > 0 {
            if let Some(status) = self.child.try_wait()? {
                bail!("Kafka Streams exited early with {status}:\n{}", self.stderr());
            }
            ensure!(began.elapsed() < LIMIT, "not done within {LIMIT:?}:\n{}", self.stderr());
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Stops it with SIGTERM when it has committed everything. Returns the number of its trips.
    ///
    /// # Errors
    /// It fails, or a sample is in no trip.
    pub fn stop(mut self, log: &Log) -> anyhow::Result<u64> {
        self.wait(log)?;
        let pid = self.child.id().to_string();
        let signalled = Command::new("kill").args(["-TERM", &pid]).status()?;
        ensure!(signalled.success(), "SIGTERM could not be sent to Kafka Streams");
        let code = self.child.wait()?.code();
        ensure!(code == Some(TERMINATED), "Kafka Streams ended with {code:?}:\n{}", self.stderr());
        let trips = self.trips()?;
        let samples: u64 = trips.values().copied().map(u64::from).sum();
        ensure!(samples == log.samples(), "{samples} of {} samples in trips", log.samples());
        Ok(trips.len() as u64)
    }

    /// The number of samples of each trip, by the key of its window.
    fn trips(&self) -> anyhow::Result<HashMap<Vec<u8>, u32>> {
        let output = self.output.log()?;
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &output.brokers)
            .set("group.id", "tstar-bench-streams")
            .set("enable.auto.commit", "false")
            .create()?;
        let mut list = TopicPartitionList::new();
        for (partition, _) in (0..).zip(&output.ends) {
            list.add_partition_offset(&output.topic, partition, Offset::Offset(0))?;
        }
        consumer.assign(&list)?;
        let (mut trips, mut left, began) = (HashMap::new(), output.samples(), Instant::now());
        while left > 0 {
            ensure!(began.elapsed() < LIMIT, "{left} trips were not read within {LIMIT:?}");
            let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
            let record = record?;
            let key = record.key().context("a trip without a key")?.to_vec();
            match record.payload() {
                Some(trip) => {
                    let samples = trip.first_chunk().context("a trip without samples")?;
                    trips.insert(key, u32::from_be_bytes(*samples));
                }
                // The window grew: its trip has another key now.
                None => drop(trips.remove(&key)),
            }
            left -= 1;
        }
        Ok(trips)
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // It may have exited already, and the broker may be gone.
        self.child.kill().ok();
        self.child.wait().ok();
        self.output.remove().ok();
        remove_group(&self.brokers, &self.application).ok();
    }
}
