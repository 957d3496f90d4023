//! Handwritten schedules, for events that fewer than one in a thousand random ones contain.

use std::time::Duration;

use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::pipeline::processor::ProcessorConfig;

use super::log::{CONTESTED, Record, Script, hour};
use super::schedule::Schedule;
use super::world::{Command, Device, Dice, EventCounts};
use crate::model::Fix;

/// Everything stays in memory.
const LASTING: ProcessorConfig = ProcessorConfig {
    flush_interval: Duration::ZERO,
    max_staleness: Duration::from_millis(500),
    memory: 1_000_000,
    by_trip: false,
    loads: 1,
};

fn samples(hours: &[i64]) -> Record {
    samples_of(b'a', hours)
}

fn samples_of(device: Device, hours: &[i64]) -> Record {
    let fix = |(nth, of): (usize, &i64)| Fix { time: hour(*of), place: nth as i32, driver: None };
    Record::Samples(device, hours.iter().enumerate().map(fix).map(Some).collect())
}

/// A former owner has the first record in memory while its successor erases the trip up to hour 35
/// and continues. The second record's last sample makes the former owner load another day, and so
/// find the forget: its copy of the day before is older than the store, and has to be loaded again
/// before hour 36 is decided.
#[test]
fn one_that_is_behind_learns_of_a_forget_within_a_record() {
    for loads in 1..=2 {
        for second in [[35, 36, 2], [2, 35, 36], [36, 2, 35]] {
            let records =
                vec![samples(&[34]), samples(&second), Record::Forget(b'a', DeviceTime(hour(36)))];
            let script = Script::of_partitions(vec![(records, vec![0])], i64::MAX, 100);
            let mut schedule = Schedule::new(Dice::new(1), script, false);
            let pace = ProcessorConfig { loads, ..LASTING };
            schedule.take_over(0, 0, Some(pace));
            schedule.does((0, 0), &[Command::Absorb(1)]);
            schedule.take_over(0, 0, Some(pace));
            schedule.does((0, 1), &[Command::Absorb(2), Command::Absorb(1), Command::Flush]);
            schedule.does((0, 0), &[Command::Absorb(1), Command::Flush]);
            let bad = schedule.finish(&mut EventCounts::new());
            assert!(bad.is_empty(), "{second:?}, {loads} at a time: {bad:?}");
        }
    }
}

/// A device moves to another partition with an epoch, and the partition that it left is read again
/// from its first record: it loads rows of the other one, and writes them unchanged.
#[test]
fn rows_of_another_partition_stay_its_own_when_an_older_epoch_is_read_again() {
    let record = |hours| samples_of(CONTESTED, hours);
    let [first, second] =
        [vec![record(&[30]), record(&[33])], vec![record(&[31]), record(&[35]), record(&[37])]];
    let logs = vec![(first, vec![0, 1]), (second, vec![0, 0])];
    let scripts = Script::of_partitions(logs, i64::MAX, 100);
    let mut schedule = Schedule::new(Dice::new(1), scripts, false);
    schedule.take_over(0, 0, Some(LASTING));
    schedule.take_over(1, 0, Some(LASTING));
    schedule.does((0, 0), &[Command::Absorb(1), Command::Flush]);
    schedule.does((1, 0), &[Command::Absorb(1), Command::Absorb(1), Command::Flush]);
    schedule.take_over(0, 0, Some(LASTING));
    schedule.does((0, 1), &[Command::Absorb(2), Command::Flush]);
    let bad = schedule.finish(&mut EventCounts::new());
    assert!(bad.is_empty(), "{bad:?}");
}
