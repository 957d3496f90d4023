//! Children of the bench, and its own resource usage.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// CPU time of this process so far.
///
/// # Errors
/// The system call fails.
pub fn own_cpu() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros(time.tv_sec().unsigned_abs() * 1_000_000 + time.tv_usec().unsigned_abs())
}

/// A command in `folder`, with nothing to read.
pub fn plain(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    command
}
