//! Rows (c) and (d): `tstar run` as its users start it, until everything is stored.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::sys::resource::UsageWho;
use serde::{Deserialize, Serialize};
use tstar::kafka::client::Brokers;
use tstar::kafka::group::Group;
use tstar::store::sqlite::SqliteStore;

use crate::child::{Used, plain, tstar, used_by};
use crate::process::cpu_of;
use crate::role::{Log, Place};

/// How often it is asked how far the daemon is.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// A run that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(600);

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Where its files are.
    pub folder: PathBuf,
    /// What is read.
    pub log: Log,
    /// Where trips go.
    pub place: Place,
}

/// What a run used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// The program; the wall time is that until everything was stored.
    pub used: Used,
    /// CPU time of the server of the store meanwhile, s.
    pub server_s: Option<f64>,
}

impl Job {
    /// Runs the daemon until its positions are at the ends, and ends it by SIGTERM.
    ///
    /// # Errors
    /// It fails, or does not come to an end.
    pub fn run(&self) -> anyhow::Result<Ran> {
        let said = self.folder.join("run.log");
        let mut command = plain(&self.folder, tstar());
        command.args(self.args()).stdout(Stdio::piped()).stderr(File::create(&said)?);
        let server_before = self.server()?;
        let began = Instant::now();
        let mut child = command.spawn().context("cannot run tstar")?;
        let reached = self.wait(&mut child, began);
        let wall_s = began.elapsed().as_secs_f64();
        let told = || std::fs::read_to_string(&said).unwrap_or_default();
        if let Err(error) = reached {
            child.kill()?;
            child.wait()?;
            return Err(error.context(format!("tstar run did not store everything:\n{}", told())));
        }
        let signalled = Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
        ensure!(signalled.success(), "tstar run got no signal");
        // Of the children waited for so far, `kill` is the one.
        let (kill_s, _) = used_by(UsageWho::RUSAGE_CHILDREN)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "tstar run ended with {}:\n{}", output.status, told());
        let server_s = self.server()?.zip(server_before).map(|(after, before)| after - before);
        let (cpu_s, peak_kib) = used_by(UsageWho::RUSAGE_CHILDREN)?;
        let stdout = String::from_utf8(output.stdout)?;
        Ok(Ran { used: Used { wall_s, cpu_s: cpu_s - kill_s, peak_kib, stdout }, server_s })
    }

    fn args(&self) -> Vec<String> {
        let Log { brokers, topic, .. } = &self.log;
        let mut args = ["run", "--from", "earliest", "--create-topics"].map(str::to_owned).to_vec();
        args.extend(["--brokers", brokers, "--topic", topic].map(str::to_owned));
        match &self.place {
            Place::File(path) => {
                args.extend(["--store".to_owned(), format!("sqlite:{}", path.display())]);
            }
            Place::Keyspace { url, group, .. } => {
                args.extend(["--store", url, "--group", group].map(str::to_owned));
            }
        }
        args
    }

    fn server(&self) -> anyhow::Result<Option<f64>> {
        match self.place {
            Place::Keyspace { server: Some(pid), .. } => cpu_of(pid).map(Some),
            _ => Ok(None),
        }
    }

    /// Waits until everything before the ends is stored.
    fn wait(&self, child: &mut Child, began: Instant) -> anyhow::Result<()> {
        let partitions = i32::try_from(self.log.ends.len())?;
        let ask: Box<dyn Fn() -> anyhow::Result<BTreeMap<i32, i64>>> = match &self.place {
            Place::File(path) => Box::new(|| Ok(positions_in(path, partitions))),
            Place::Keyspace { group, .. } => {
                let brokers = Brokers::new(&self.log.brokers, BTreeMap::new())?;
                let group = Group::new(&brokers, group)?;
                Box::new(move || Ok(group.committed(&self.log.topic, partitions)?))
            }
        };
        loop {
            let positions = ask()?;
            let reached = (0..).zip(&self.log.ends).all(|(partition, end)| {
                *end == 0 || positions.get(&partition).is_some_and(|position| position >= end)
            });
            if reached {
                return Ok(());
            }
            if let Some(status) = child.try_wait()? {
                bail!("tstar run ended by itself, with {status}");
            }
            ensure!(began.elapsed() < LIMIT, "positions after {LIMIT:?}: {positions:?}");
            std::thread::sleep(ASK_EVERY);
        }
    }
}

/// How far each partition is, by a store file; nothing where there is none to be read yet.
fn positions_in(path: &Path, partitions: i32) -> BTreeMap<i32, i64> {
    let Ok(store) = SqliteStore::open_reader(path) else { return BTreeMap::new() };
    let known = (0..partitions).map(|at| (at, store.position_of(at).ok().flatten()));
    known.filter_map(|(at, position)| Some((at, position?))).collect()
}
