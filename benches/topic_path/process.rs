//! Resource usage of another process.

use std::collections::BTreeMap;

use anyhow::Context as _;

/// Ticks per second in `/proc/PID/stat`: the same on every Linux.
const TICKS: f64 = 100.0;

/// User and system time of a process so far, s.
///
/// # Errors
/// The process does not exist.
pub fn cpu_of(pid: u32) -> anyhow::Result<f64> {
    Ok(read(&format!("/proc/{pid}/stat"))?.1)
}

/// User and system time of the threads of a process so far, s, by their names. Threads that ended
/// are missing.
///
/// # Errors
/// The process does not exist.
pub fn threads_of(pid: u32) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut threads = BTreeMap::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // It may have ended since.
        let Ok((name, cpu_s)) = read(&thread?.path().join("stat").to_string_lossy()) else {
            continue;
        };
        *threads.entry(name).or_default() += cpu_s;
    }
    Ok(threads)
}

/// Name of a process or thread, and its user and system time, s.
fn read(file: &str) -> anyhow::Result<(String, f64)> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    // The name in parentheses may contain any character.
    let (head, rest) = text.rsplit_once(')').with_context(|| file.to_owned())?;
    let (_, name) = head.split_once('(').with_context(|| file.to_owned())?;
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok((name.to_owned(), ticks.iter().sum::<f64>() / TICKS))
}
