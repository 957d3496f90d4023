//! A log as text, for a schedule that is replayed.

use tstar::internals::model::scalar::{DeviceTime, Offset};
use tstar::internals::store::TripRow;

use super::log::{HOUR, ORIGIN, Record, Script};

/// Prints a log.
pub fn print(script: &Script) {
    println!("{:?} {:?}", script.rules.segments(), script.log);
    for (record, offset) in script.records.iter().zip(&script.offsets) {
        let version = script.log.versions.version_at(Offset(*offset));
        println!("{offset} ({version}): {}", shown(record));
    }
}

fn shown(record: &Record) -> String {
    let hours = |time: i64| (time - ORIGIN) / HOUR;
    match record {
        Record::Forget(device, before_ms) => {
            format!("forget {} before {}", char::from(*device), hours(before_ms.ms()))
        }
        Record::Forged(device, before_ms) => {
            format!("forge {} before {}", char::from(*device), hours(before_ms.ms()))
        }
        Record::Hostile(device, hostile) => format!("{hostile:?} of {}", char::from(*device)),
        Record::Samples(device, fixes) => {
            let times = fixes.iter().map(|fix| fix.as_ref().map(|fix| hours(fix.time)));
            format!("{} at {:?}", char::from(*device), times.collect::<Vec<_>>())
        }
    }
}

/// Segments as text: kind, first and last hour, version.
pub fn segments<'r>(rows: impl IntoIterator<Item = &'r TripRow>) -> String {
    let hours = |time: DeviceTime| (time.ms() - ORIGIN) as f64 / HOUR as f64;
    let shown = rows.into_iter().map(|row| {
        let (start, end) = (hours(row.start_ms), hours(row.end_ms));
        format!("{} {start:.2} to {end:.2} of {}", row.kind.name(), row.version)
    });
    shown.collect::<Vec<_>>().join(", ")
}
