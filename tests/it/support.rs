//! Helpers of several suites.

use std::path::{Path, PathBuf};
use std::process::Command;

pub use tstar_sim::support::{Dice, block_on, times};

/// Sends a signal, such as `TERM`, to a process.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success(), "no signal {name} to process {pid}");
}

/// Resident memory of a process, bytes: now, `VmRSS`, or at most so far, `VmHWM`. `None` where the
/// system does not report it, and for a process that has ended.
pub fn memory(process: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = |line| str::strip_prefix(line, field)?.strip_prefix(':');
    let value = status.lines().find_map(value)?.trim().strip_suffix(" kB")?;
    Some(value.parse::<u64>().unwrap() << 10)
}

/// A file of `tests/data`, whose README names the sources.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
