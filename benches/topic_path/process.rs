//! What another process uses.

use anyhow::Context as _;

/// Ticks a second in `/proc/PID/stat`: the same on every Linux.
const TICKS: f64 = 100.0;

/// User and system time of a process so far, s.
///
/// # Errors
/// There is no such process.
pub fn cpu_of(pid: u32) -> anyhow::Result<f64> {
    let file = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&file).with_context(|| file.clone())?;
    // The name of the program, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(')').with_context(|| file.clone())?;
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}
