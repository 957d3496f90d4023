//! The roles of child processes of the bench.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::child::run_here;
use crate::daemon::DaemonRun;
use crate::log::Log;
use crate::{drive, floor};

/// The counts of a run: a part of the summary that `tstar run` prints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RunCounts {
    /// Samples delivered.
    pub delivered: u64,
    /// Rows of trips written to the store.
    pub trips_written: u64,
    /// Number of flushes.
    pub flushes: u64,
}

/// The role of a child process of the bench.
#[derive(Debug)]
pub enum Role {
    /// Runs a command and measures its resource usage.
    Measure(Vec<OsString>),
    /// Row (a).
    Floor(Log),
    /// Row (b).
    Trips(Log),
    /// Rows (c) and (d): runs the program until it has stored everything.
    Daemon(Box<DaemonRun>),
}

impl Role {
    /// The role given by the arguments; `None` for the bench itself.
    ///
    /// # Errors
    /// The argument of the role cannot be parsed.
    pub fn from_args(args: &[OsString]) -> anyhow::Result<Option<Self>> {
        let Some((first, rest)) = args.split_first() else { return Ok(None) };
        let argument = || {
            let text = rest.first().and_then(|text| text.to_str());
            text.context("the role needs an argument")
        };
        Ok(match first.to_str() {
            Some("--measure") => Some(Self::Measure(rest.to_vec())),
            Some("--floor") => Some(Self::Floor(serde_json::from_str(argument()?)?)),
            Some("--trips") => Some(Self::Trips(serde_json::from_str(argument()?)?)),
            Some("--daemon") => Some(Self::Daemon(serde_json::from_str(argument()?)?)),
            _ => None,
        })
    }

    /// Runs the role. The bench reads its standard output.
    ///
    /// # Errors
    /// The run fails.
    pub fn play(self) -> anyhow::Result<()> {
        let output = match self {
            Self::Measure(command) => serde_json::to_string(&run_here(&command)?)?,
            Self::Floor(log) => {
                let delivered = floor::drain(&log)?;
                serde_json::to_string(&RunCounts { delivered, trips_written: 0, flushes: 0 })?
            }
            Self::Trips(log) => serde_json::to_string(&drive::trips(&log)?)?,
            Self::Daemon(daemon) => serde_json::to_string(&daemon.run()?)?,
        };
        println!("{output}");
        Ok(())
    }
}

/// The store of a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StoreTarget {
    /// Row (c).
    File(PathBuf),
    /// Row (d).
    Keyspace {
        /// URL for `--store`.
        url: String,
        /// Consumer group of the committed offsets.
        group: String,
        /// Process id of the CQL server.
        server: Option<u32>,
    },
}
