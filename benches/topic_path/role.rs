//! What a process is for that the bench starts of itself.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::child::run_here;
use crate::daemon::Job;
use crate::{drive, floor};

/// The topic that all rows read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log {
    /// Where the brokers are.
    pub brokers: String,
    /// Its name.
    pub topic: String,
    /// The offset after the last record of each partition.
    pub ends: Vec<i64>,
}

impl Log {
    /// How many samples it holds: each is a record, and nothing else is.
    pub fn samples(&self) -> u64 {
        self.ends.iter().map(|end| end.unsigned_abs()).sum()
    }
}

/// What a row tells of its work: a part of the summary that `tstar run` prints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Told {
    /// Samples.
    pub delivered: u64,
    /// Rows of trips handed to the store.
    pub trips_written: u64,
    /// Flushes.
    pub flushes: u64,
}

/// What a child process of the bench is for.
#[derive(Debug)]
pub enum Role {
    /// Runs a command and tells what it used.
    Measure(Vec<OsString>),
    /// Row (a).
    Floor(Log),
    /// Row (b).
    Trips(Log),
    /// Rows (c) and (d): runs the program until it has stored everything.
    Daemon(Box<Job>),
}

impl Role {
    /// The role that the arguments give this process; none for the bench itself.
    ///
    /// # Errors
    /// What the role is about cannot be read.
    pub fn of(args: &[OsString]) -> anyhow::Result<Option<Self>> {
        let Some((first, rest)) = args.split_first() else { return Ok(None) };
        let about = || {
            let text = rest.first().and_then(|text| text.to_str());
            text.context("a child of the bench needs to be told what it is about")
        };
        Ok(match first.to_str() {
            Some("--measure") => Some(Self::Measure(rest.to_vec())),
            Some("--floor") => Some(Self::Floor(serde_json::from_str(about()?)?)),
            Some("--trips") => Some(Self::Trips(serde_json::from_str(about()?)?)),
            Some("--daemon") => Some(Self::Daemon(serde_json::from_str(about()?)?)),
            _ => None,
        })
    }

    /// Does what the role asks. What it prints goes to the bench.
    ///
    /// # Errors
    /// It cannot be done.
    pub fn play(self) -> anyhow::Result<()> {
        let told = match self {
            Self::Measure(command) => serde_json::to_string(&run_here(&command)?)?,
            Self::Floor(log) => {
                let told = Told { delivered: floor::drain(&log)?, trips_written: 0, flushes: 0 };
                serde_json::to_string(&told)?
            }
            Self::Trips(log) => serde_json::to_string(&drive::trips(&log)?)?,
            Self::Daemon(job) => serde_json::to_string(&job.run()?)?,
        };
        println!("{told}");
        Ok(())
    }
}

/// Where the store of a row is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Place {
    /// Row (c).
    File(PathBuf),
    /// Row (d).
    Keyspace {
        /// As `--store` takes it.
        url: String,
        /// The consumer group that keeps the offsets.
        group: String,
        /// The process of the server.
        server: Option<u32>,
    },
}
