//! Process metrics, from `/proc`: systems other than Linux have none.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::text::family;
use super::{CPU_SECONDS, MAX_FDS, OPEN_FDS, RESIDENT_BYTES, START_TIME};

/// Writes the metrics that the system provides.
pub(super) fn write(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let Some(stat) = stat.and_then(|line| Stat::parse(&line)) else { return };
    let seconds = |ticks: u64| float(ticks) / float(clock_ticks_per_second());
    let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_time(&text));
    for (name, value) in [
        (CPU_SECONDS, Some(seconds(stat.cpu_ticks))),
        (RESIDENT_BYTES, Some(float(stat.resident_pages * page_size() as u64))),
        (OPEN_FDS, open_descriptors()),
        (MAX_FDS, Some(getrlimit(Resource::Nofile).current.map_or(f64::INFINITY, float))),
        (START_TIME, boot.map(|boot| float(boot) + seconds(stat.start_ticks))),
    ] {
        family(text, name, value.map(|value| ([], value)));
    }
}

/// Values of `/proc/self/stat`, see proc_pid_stat(5).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    /// Time of the start, since that of the system.
    start_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(line: &str) -> Option<Self> {
        // Field 2 is the name of the program, in parentheses, and may contain some and spaces.
        let (_, fields) = line.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        let field = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            start_ticks: field(22)?,
            resident_pages: field(24)?,
        })
    }
}

/// Start of the system in `/proc/stat`, seconds since 1970.
fn boot_time(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The number of open descriptors, without the one that lists them.
fn open_descriptors() -> Option<f64> {
    Some(float(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64))
}

#[expect(clippy::cast_precision_loss, reason = "bytes, counts and seconds stay far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let line = "7 (a) b (c) S 1 2 3 0 -1 4 5 6 7 8 250 50 0 0 20 0 9 0 1234 99999 512 18446\n";
        let stat = Stat { cpu_ticks: 300, start_ticks: 1234, resident_pages: 512 };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
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
        let now = crate::telemetry::seconds(crate::telemetry::clock_ms());
        assert!(value(START_TIME) > now - 86_400.0 && value(START_TIME) <= now + 2.0, "{text}");
        assert!(value(RESIDENT_BYTES) > 1e6 && value(CPU_SECONDS) >= 0.0, "{text}");
        assert!(value(OPEN_FDS) >= 3.0 && value(MAX_FDS) >= value(OPEN_FDS), "{text}");
    }
}
