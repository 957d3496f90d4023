//! Rows (c) to (e): runs `tstar run` until everything is stored.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::sys::resource::UsageWho;
use serde::{Deserialize, Serialize};
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::group::Group;
use tstar::internals::store::sqlite::SqliteStore;

use crate::child::{Used, plain, used_by};
use crate::log::Log;
use crate::process::{cpu_of, threads_of};
use crate::role::StoreTarget;

/// Reads the committed offset of each partition.
type ReadPositions<'a> = Box<dyn Fn() -> anyhow::Result<BTreeMap<i32, i64>> + 'a>;

/// Interval between two checks of the daemon's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Minimum time limit of a run.
const LIMIT: Duration = Duration::from_secs(600);

/// Samples that a run may at least take a second: the slowest store of new devices takes more.
const MIN_RATE: u64 = 1000;

/// A run of the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonRun {
    /// Folder for its files.
    pub folder: PathBuf,
    /// The program.
    pub program: PathBuf,
    /// The input topic.
    pub log: Log,
    /// The store.
    pub target: StoreTarget,
    /// More flags.
    pub flags: Vec<String>,
}

/// Resource usage of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunUsage {
    /// Usage of the program. The wall time ends when everything is stored.
    pub used: Used,
    /// CPU time of the CQL server during the run, s.
    pub server_s: Option<f64>,
    /// CPU time of the daemon's threads when everything is stored, s, by their names.
    pub threads: BTreeMap<String, f64>,
}

impl DaemonRun {
    /// Runs the daemon until its committed offsets reach the ends, and stops it with SIGTERM.
    ///
    /// # Errors
    /// The daemon fails or exceeds the time limit.
    pub fn run(&self) -> anyhow::Result<RunUsage> {
        let log_file = self.folder.join("run.log");
        let mut command = plain(&self.folder, &self.program);
        command.args(self.args()).stdout(Stdio::piped()).stderr(File::create(&log_file)?);
        let server_before = self.server()?;
        let began = Instant::now();
        let mut child = command.spawn().context("cannot run tstar")?;
        let reached = self.wait(&mut child, began);
        let wall_s = began.elapsed().as_secs_f64();
        let log = || std::fs::read_to_string(&log_file).unwrap_or_default();
        if let Err(error) = reached {
            child.kill()?;
            child.wait()?;
            return Err(error.context(format!("tstar run did not store everything:\n{}", log())));
        }
        let threads = threads_of(child.id())?;
        let signalled = Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
        ensure!(signalled.success(), "SIGTERM could not be sent to tstar run");
        // `kill` is the only child waited for so far.
        let (kill_s, _) = used_by(UsageWho::RUSAGE_CHILDREN)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "tstar run ended with {}:\n{}", output.status, log());
        let server_s = self.server()?.zip(server_before).map(|(after, before)| after - before);
        let (cpu_s, peak_kib) = used_by(UsageWho::RUSAGE_CHILDREN)?;
        let stdout = String::from_utf8(output.stdout)?;
        let used = Used { wall_s, cpu_s: cpu_s - kill_s, peak_kib, stdout };
        Ok(RunUsage { used, server_s, threads })
    }

    fn args(&self) -> Vec<String> {
        let Log { brokers, topic, .. } = &self.log;
        let mut args = ["run", "--from", "earliest", "--create-topics"].map(str::to_owned).to_vec();
        args.extend(["--brokers", brokers, "--topic", topic].map(str::to_owned));
        match &self.target {
            StoreTarget::File(path) => {
                args.extend(["--store".to_owned(), format!("sqlite:{}", path.display())]);
            }
            StoreTarget::Keyspace { url, group, .. } => {
                args.extend(["--store", url, "--group", group].map(str::to_owned));
            }
        }
        args.extend(self.flags.iter().cloned());
        args
    }

    fn server(&self) -> anyhow::Result<Option<f64>> {
        match self.target {
            StoreTarget::Keyspace { server: Some(pid), .. } => cpu_of(pid).map(Some),
            _ => Ok(None),
        }
    }

    /// Waits until all records before the ends are stored.
    fn wait(&self, child: &mut Child, began: Instant) -> anyhow::Result<()> {
        let partitions = i32::try_from(self.log.ends.len())?;
        let limit = LIMIT.max(Duration::from_secs(self.log.samples() / MIN_RATE));
        let read_positions: ReadPositions<'_> = match &self.target {
            StoreTarget::File(path) => Box::new(|| Ok(positions_in(path, partitions))),
            StoreTarget::Keyspace { group, .. } => {
                let brokers = Brokers::new(&self.log.brokers, BTreeMap::new())?;
                let group = Group::new(&brokers, group)?;
                Box::new(move || Ok(group.committed(&self.log.topic, partitions)?))
            }
        };
        loop {
            let positions = read_positions()?;
            let reached = (0..).zip(&self.log.ends).all(|(partition, end)| {
                *end == 0 || positions.get(&partition).is_some_and(|position| position >= end)
            });
            if reached {
                return Ok(());
            }
            if let Some(status) = child.try_wait()? {
                bail!("tstar run exited early with {status}");
            }
            ensure!(began.elapsed() < limit, "positions after {limit:?}: {positions:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Committed offset of each partition in a store file; empty if the file cannot be read yet.
fn positions_in(path: &Path, partitions: i32) -> BTreeMap<i32, i64> {
    let Ok(store) = SqliteStore::open_reader(path) else { return BTreeMap::new() };
    let positions = (0..partitions).map(|at| (at, store.position_of(at).ok().flatten()));
    positions.filter_map(|(at, position)| Some((at, position?))).collect()
}
