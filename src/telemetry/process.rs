//! Process metrics, as far as the system provides them.

use metrics_process::collector::collect;

use super::text::family;
use super::{CPU_SECONDS, MAX_FDS, OPEN_FDS, RESIDENT_BYTES, START_TIME};

/// Writes the metrics that the system provides.
pub(super) fn write(text: &mut String) {
    // The crate's own recorder is not used: it rounds CPU time to seconds.
    let found = collect();
    for (name, value) in [
        (CPU_SECONDS, found.cpu_seconds_total),
        (RESIDENT_BYTES, found.resident_memory_bytes.map(float)),
        (OPEN_FDS, found.open_fds.map(float)),
        (MAX_FDS, found.max_fds.map(limit)),
        (START_TIME, found.start_time_seconds.map(float)),
    ] {
        family(text, name, value.map(|value| ([], value)));
    }
}

/// A limit of which 0 means unlimited.
fn limit(value: u64) -> f64 {
    if value == 0 { f64::INFINITY } else { float(value) }
}

#[expect(clippy::cast_precision_loss, reason = "bytes, counts and seconds stay far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlimited_number_of_descriptors_is_infinite() {
        assert_eq!((limit(0), limit(1024)), (f64::INFINITY, 1024.0));
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
