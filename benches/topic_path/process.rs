//! Resource usage of another process.

use anyhow::Context as _;

/// Ticks per second in `/proc/PID/stat`: the same on every Linux.
const TICKS: f64 = 100.0;

/// User and system time of a process so far, s.
///
/// # Errors
/// The process does not exist.
pub fn cpu_of(pid: u32) -> anyhow::Result<f64> {
    let file = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;
    // The program name in parentheses may contain any character.
    let (_, rest) = text.rsplit_once(')').with_context(|| file.clone())?;
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}
