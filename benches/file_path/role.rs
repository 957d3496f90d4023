//! What a process is for that the bench starts of itself.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::child::run_here;
use crate::{drive, floor};

/// What a child process of the bench is for.
#[derive(Debug)]
pub enum Role {
    /// Runs a command and tells what it used.
    Measure(Vec<OsString>),
    /// Row (a) over a file.
    Floor(PathBuf),
    /// Row (b) over a file.
    Trips(PathBuf),
    /// Row (c) over a file.
    Encode(PathBuf),
}

impl Role {
    /// The role that the arguments give this process; none for the bench itself.
    pub fn of(args: &[OsString]) -> Option<Self> {
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

    /// Does what the role asks. What it prints goes to the bench.
    ///
    /// # Errors
    /// It cannot be done.
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
