//! Process metrics from `/proc`. Only Linux has them; elsewhere they are absent.

use std::fs;
use std::sync::OnceLock;

use super::text::family;
use super::{CPU_SECONDS, MAX_FDS, OPEN_FDS, RESIDENT_BYTES, START_TIME};

/// Clock ticks per second (`USER_HZ`) in `/proc`; 100 on every architecture.
const TICKS: f64 = 100.0;

/// Writes the metrics that the system provides.
pub(super) fn write(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref();
    for (name, value) in [
        (CPU_SECONDS, stat.and_then(cpu_seconds)),
        (RESIDENT_BYTES, read_proc("/proc/self/status").as_deref().and_then(resident_bytes)),
        (OPEN_FDS, open_fds()),
        (MAX_FDS, read_proc("/proc/self/limits").as_deref().and_then(max_fds)),
        (START_TIME, start_time(stat)),
    ] {
        family(text, name, value.map(|value| ([], value)));
    }
}

fn read_proc(file: &str) -> Option<String> {
    fs::read_to_string(file).ok()
}

/// A field of `/proc/self/stat` by its number in `man 5 proc`. Field 2 is a name in parentheses and
/// may contain any character, so fields are counted from the last `)`.
fn field(stat: &str, nth: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(nth - 3)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS)
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn open_fds() -> Option<f64> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    // One of them is the descriptor of the open directory.
    u32::try_from(open).ok()?.checked_sub(1).map(f64::from)
}

fn max_fds(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        limit => limit.parse().ok(),
    }
}

fn start_time(stat: Option<&str>) -> Option<f64> {
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let after_boot = field(stat?, 22)? / TICKS;
        let boot = read_proc("/proc/stat")?;
        let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?;
        Some(boot.trim().parse::<f64>().ok()? + after_boot)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        let stat = "7 (a) b c) S 1 7 7 0 -1 4 90 0 1 0 250 50 0 0 20 0 3 0 12345 9 8 7";
        assert_eq!((cpu_seconds(stat), field(stat, 22)), (Some(3.0), Some(12345.0)));
        assert_eq!(resident_bytes("VmPeak:\t9 kB\nVmRSS:\t   20 kB\n"), Some(20_480.0));
        let limits = "Max processes  5 6 processes\nMax open files            1024  4096 files\n";
        assert_eq!(max_fds(limits), Some(1024.0));
        assert_eq!(max_fds("Max open files unlimited unlimited files"), Some(f64::INFINITY));
        assert_eq!((cpu_seconds(""), resident_bytes(""), max_fds("")), (None, None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn own_process_has_plausible_values() {
        let mut text = String::new();
        write(&mut text);
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
            let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        let now = crate::telemetry::seconds(crate::telemetry::now_ms());
        assert!(value(START_TIME) > 1.6e9 && value(START_TIME) <= now + 2.0, "{text}");
        assert!(value(RESIDENT_BYTES) > 1e6 && value(CPU_SECONDS) >= 0.0, "{text}");
        assert!(value(OPEN_FDS) >= 3.0 && value(MAX_FDS) >= value(OPEN_FDS), "{text}");
    }
}
