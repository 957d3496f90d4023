//! The roles of child processes of the bench.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::child::run_here;
use crate::{drive, floor};

/// The role of a child process of the bench.
#[derive(Debug)]
pub enum Role {
    /// Runs a command and measures its resource usage.
    Measure(Vec<OsString>),
    /// Row (a) over a file.
    Floor(PathBuf),
    /// Row (b) over a file.
    Trips(PathBuf),
    /// Row (c) over a file.
    Encode(PathBuf),
}

impl Role {
    /// The role given by the arguments; `None` for the bench itself.
    pub fn from_args(args: &[OsString]) -> Option<Self> {
        let (first, rest) = args.split_first()?;
        let file = || rest.first().map(PathBuf::from);
        match first.to_str()? {
            "--measure" => Some(Self::Measure(rest.to_vec())),
            "--floor" => file().map(Self::Floor),
            "--trips" => file().map(Self::Trips),
            "--encode" => file().map(Self::Encode),
            _ => None,
        }
    }

    /// Runs the role. The bench reads its standard output.
    ///
    /// # Errors
    /// The run fails.
    pub fn play(self) -> anyhow::Result<()> {
        let samples = match self {
            Self::Measure(command) => {
                println!("{}", serde_json::to_string(&run_here(&command)?)?);
                return Ok(());
            }
            Self::Floor(file) => floor::decode(&file)?,
            Self::Trips(file) => drive::trips(&file, false)?,
            Self::Encode(file) => drive::trips(&file, true)?,
        };
        println!("{samples}");
        Ok(())
    }
}
