//! A log as text, for a schedule that is replayed.

use tstar::internals::model::scalar::Offset;

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
