//! Schedules by hand, for what comes about in fewer than one of a thousand random ones.

use std::time::Duration;

use tstar::processor::Pace;

use super::log::{Record, Script, hour};
use super::schedule::Schedule;
use super::world::{Command, Dice, Seen};
use crate::model::Fix;

/// Everything stays in memory.
const LASTING: Pace = Pace {
    flush_interval: Duration::ZERO,
    max_staleness: Duration::from_millis(500),
    memory: 1_000_000,
    by_trip: false,
    loads: 1,
};

fn samples(hours: &[i64]) -> Record {
    let fix = |(nth, of): (usize, &i64)| Fix { time: hour(*of), place: nth as i32, driver: None };
    Record::Samples(b'a', hours.iter().enumerate().map(fix).map(Some).collect())
}

/// A former owner has the first record in memory while its successor erases the trip up to hour 35
/// and goes on. The second record's last sample makes the former one load another day, and so learn
/// of it: what it has of the day before is older than the store, and has to be loaded again before
/// hour 36 is decided.
#[test]
fn one_that_is_behind_learns_of_a_forget_within_a_record() {
    for loads in 1..=2 {
        for second in [[35, 36, 2], [2, 35, 36], [36, 2, 35]] {
            let records = vec![samples(&[34]), samples(&second), Record::Forget(b'a', hour(36))];
            let script = Script::new(records, i64::MAX, 100, &[0]);
            let mut schedule = Schedule::new(Dice::new(1), script, false);
            let pace = Pace { loads, ..LASTING };
            schedule.take_over(0, Some(pace));
            schedule.does(0, &[Command::Absorb(1)]);
            schedule.take_over(0, Some(pace));
            schedule.does(1, &[Command::Absorb(2), Command::Absorb(1), Command::Flush]);
            schedule.does(0, &[Command::Absorb(1), Command::Flush]);
            let bad = schedule.finish(&mut Seen::new());
            assert!(bad.is_empty(), "{second:?}, {loads} at a time: {bad:?}");
        }
    }
}
