//! Runs what is measured in separate processes.
//!
//! The bench calls itself with a hidden first argument. `--measure` runs one command, waits for it
//! and prints its resource usage. That process has no other child, so the kernel's figures for its
//! children are those of the command, including peak memory, which would otherwise be the maximum
//! over all children. The few MiB of the starting process are the minimum of the peak.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};

/// Resource usage of a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Used {
    /// Wall time from start to end, s.
    pub wall_s: f64,
    /// User and system time of all its threads, s.
    pub cpu_s: f64,
    /// Peak resident memory, `VmHWM`, KiB.
    pub peak_kib: i64,
    /// Its standard output.
    pub stdout: String,
}

impl Used {
    /// Peak memory, MiB.
    #[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^53 KiB")]
    pub fn peak_mib(&self) -> f64 {
        self.peak_kib as f64 / 1024.0
    }
}

/// Runs a command and waits for it. The process must not have had another child.
///
/// # Errors
/// The command fails or cannot be started.
pub fn run_here(command: &[OsString]) -> anyhow::Result<Used> {
    let (program, args) = command.split_first().context("no command to measure")?;
    let began = Instant::now();
    let output = Command::new(program).args(args).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let wall_s = began.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{} ended with {}", program.display(), output.status);
    let (cpu_s, peak_kib) = used_by(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Used { wall_s, cpu_s, peak_kib, stdout: String::from_utf8(output.stdout)? })
}

/// User and system time, s, and peak memory, KiB. Children count once they were waited for.
///
/// # Errors
/// The system call fails.
pub fn used_by(who: UsageWho) -> anyhow::Result<(f64, i64)> {
    let usage = getrusage(who)?;
    let cpu = duration(usage.user_time()) + duration(usage.system_time());
    Ok((cpu.as_secs_f64(), usage.max_rss()))
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros(time.tv_sec().unsigned_abs() * 1_000_000 + time.tv_usec().unsigned_abs())
}

/// CPU time of this process so far.
///
/// # Errors
/// The system call fails.
pub fn own_cpu() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

/// Runs a command in `folder` and measures its resource usage.
///
/// # Errors
/// The command fails or cannot be started.
pub fn measured<A: AsRef<OsStr>>(
    folder: &Path,
    program: &Path,
    args: &[A],
) -> anyhow::Result<Used> {
    let output = plain(folder, &std::env::current_exe()?)
        .arg("--measure")
        .arg(program)
        .args(args)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("a measured run of {} failed", program.display());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A command without the `TSTAR_*` variables of the user.
pub fn plain(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TSTAR_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// What that program says of its version.
///
/// # Errors
/// The program does not run.
pub fn version(folder: &Path) -> anyhow::Result<String> {
    let output = plain(folder, tstar()).arg("--version").output().context("cannot run tstar")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The `tstar` program of this build.
pub fn tstar() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tstar"))
}
