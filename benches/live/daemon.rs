//! Runs `tstar run` on a topic, and waits until it has stored what the topic holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::group::Group;

use crate::child::plain;
use crate::log::Log;
use crate::process::cpu_of;

/// Interval between two checks of the daemon's progress.
pub const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Time limit of each wait.
pub const LIMIT: Duration = Duration::from_secs(600);

/// A part of the summary that `tstar run` prints.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Summary {
    /// Samples delivered.
    pub delivered: u64,
    /// Rows of trips written to the store.
    pub trips_written: u64,
}

/// A running daemon, killed when dropped.
pub struct Daemon {
    child: Child,
    stderr: PathBuf,
    /// Address of its HTTP API, HOST:PORT.
    pub address: String,
}

impl Daemon {
    /// Starts a daemon and waits until it listens.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(folder: &Path, program: &Path, log: &Log, store: &Store) -> anyhow::Result<Self> {
        let stderr = folder.join(format!("{}.log", store.group));
        let mut command = plain(folder, program);
        command.args(["run", "--from", "earliest", "--create-topics", "--listen", "127.0.0.1:0"]);
        command.args(["--brokers", &log.brokers, "--topic", &log.topic]);
        command.args(["--store", &store.url, "--group", &store.group]);
        command.stdout(Stdio::piped()).stderr(File::create(&stderr)?);
        let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        let mut daemon = Self { child, stderr, address: String::new() };
        let began = Instant::now();
        while daemon.address.is_empty() {
            daemon.check(began)?;
            let said = daemon.stderr();
            let address = said.lines().find_map(|line| line.split_once("listening on http://"));
            daemon.address = address.map(|(_, rest)| rest.trim().to_owned()).unwrap_or_default();
        }
        Ok(daemon)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// User and system time so far, s.
    ///
    /// # Errors
    /// It ended.
    pub fn cpu(&self) -> anyhow::Result<f64> {
        cpu_of(self.pid())
    }

    /// Resident memory, MiB.
    ///
    /// # Errors
    /// It ended.
    pub fn rss_mib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: u64 = line.context("no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kib >> 10)
    }

    /// Bytes that it sent to a port so far; `None` without `ss`.
    pub fn sent_to(&self, address: &str) -> Option<u64> {
        let output = Command::new("ss").args(["-tinpHO", "dst", address]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let own = format!("pid={},", self.pid());
        let mut sent = None;
        for line in text.lines().filter(|line| line.contains(&own)) {
            let field = line.split(' ').find_map(|field| field.strip_prefix("bytes_sent:"));
            let bytes: u64 = field.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
            sent = Some(sent.unwrap_or(0) + bytes);
        }
        sent
    }

    /// Waits until everything before the ends is stored and committed.
    ///
    /// # Errors
    /// It ends, or exceeds the time limit.
    pub fn wait_until_stored(&mut self, log: &Log, store: &Store) -> anyhow::Result<()> {
        let group = Group::new(&Brokers::new(&log.brokers, BTreeMap::new())?, &store.group)?;
        let partitions = i32::try_from(log.ends.len())?;
        let began = Instant::now();
        loop {
            let committed = group.committed(&log.topic, partitions)?;
            let is_stored = (0..).zip(&log.ends).all(|(partition, end)| {
                *end == 0 || committed.get(&partition).is_some_and(|offset| offset >= end)
            });
            if is_stored {
                return Ok(());
            }
            self.check(began)?;
        }
    }

    /// Stops it with SIGTERM. Returns its summary.
    ///
    /// # Errors
    /// It fails.
    pub fn stop(mut self) -> anyhow::Result<Summary> {
        let signalled = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status()?;
        ensure!(signalled.success(), "SIGTERM could not be sent to tstar run");
        let status = self.child.wait()?;
        ensure!(status.success(), "tstar run ended with {status}:\n{}", self.stderr());
        let stdout = self.child.stdout.take().context("stdout is piped")?;
        Ok(serde_json::from_reader(stdout)?)
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Waits a moment, unless it ended or a wait exceeds the time limit.
    fn check(&mut self, began: Instant) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("tstar run exited early with {status}:\n{}", self.stderr());
        }
        ensure!(began.elapsed() < LIMIT, "not done within {LIMIT:?}:\n{}", self.stderr());
        std::thread::sleep(POLL_INTERVAL);
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have exited already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Where a daemon writes.
#[derive(Clone, Debug)]
pub struct Store {
    /// Name of the keyspace.
    pub keyspace: String,
    /// URL for `--store`.
    pub url: String,
    /// Consumer group.
    pub group: String,
}
