//! Handwritten schedules, for events that fewer than one in a thousand random ones contain.

use std::rc::Rc;
use std::time::Duration;

use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::pipeline::processor::{FlushSettings, ProcessorConfig};

use super::log::{CONTESTED, Draft, Kind, Record, Script, hour};
use super::process::{Process, Setup};
use super::schedule::Schedule;
use super::world::{Device, Dice, EventCounts, lock};
use crate::model::{Class, Fix};

const HOUR: Duration = Duration::from_secs(3_600);

/// Everything stays in memory until an hour has passed.
const LASTING: Setup = Setup {
    pace: ProcessorConfig {
        flush: FlushSettings::new(HOUR, HOUR),
        memory: 1_000_000,
        by_trip: false,
        gather: 1,
        loads: 1,
    },
    from: None,
    instance: None,
    revoke_timeout: Duration::from_secs(5),
    drain_timeout: Duration::from_secs(60),
};

/// Everything is written soon.
const PROMPT: Setup = Setup {
    pace: ProcessorConfig {
        flush: FlushSettings { interval: Duration::from_millis(1), ..LASTING.pace.flush },
        ..LASTING.pace
    },
    ..LASTING
};

fn samples(hours: &[i64]) -> Record {
    samples_of(b'a', hours)
}

fn samples_of(device: Device, hours: &[i64]) -> Record {
    let class = Class::Moving;
    let fix =
        |(nth, of): (usize, &i64)| Fix { time: hour(*of), place: nth as i32, driver: None, class };
    Record::Samples(device, hours.iter().enumerate().map(fix).map(Some).collect())
}

impl Schedule {
    fn directed(logs: Vec<Draft>) -> Rc<Self> {
        Self::directed_by(Dice::new(1), logs)
    }

    fn directed_by(dice: Dice, logs: Vec<Draft>) -> Rc<Self> {
        let scripts = Script::of_partitions(logs, 100, None);
        Self::new(dice, scripts, (Kind::default(), 0), false)
    }

    /// A process works, and one message at most arrives.
    fn trickle(&self, process: &Rc<Process>) {
        self.step(process);
        for nth in 0..process.workers() {
            process.poll_worker(nth, self);
        }
        lock(&self.world).deliver(1);
        self.pass(Duration::from_millis(50));
    }

    fn write_upto(&self, lane: usize, records: usize) {
        lock(&self.world).lanes[lane].written = records;
    }

    /// All processes work until something is so.
    fn until(&self, is_so: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            self.steps();
        }
        panic!("it never is so");
    }

    /// All processes work until this number of records of a partition is committed.
    fn until_passed(&self, lane: usize, records: usize) {
        self.until(|| lock(&self.world).passed(lane) == records);
    }

    /// The sessions of all members expire.
    fn expire_sessions(&self) {
        let mut world = lock(&self.world);
        let members: Vec<u64> = world.group.members.keys().copied().collect();
        members.into_iter().for_each(|member| world.group.remove(member));
    }

    /// A process is cut off from the group, and does not notice.
    fn forsake(&self, process: &Process) {
        let mut world = lock(&self.world);
        let client = world.clients[process.id].as_mut().expect("it lives");
        client.is_deaf = true;
        let member = client.member.expect("it is a member");
        world.group.remove(member);
    }
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
            let schedule = Schedule::directed(vec![Draft::plain(records, vec![0])]);
            let guard = schedule.enter();
            let behind = schedule
                .start_with(Setup { pace: ProcessorConfig { loads, ..LASTING.pace }, ..LASTING });
            schedule.write_upto(0, 1);
            schedule.until(|| behind.progress() == Some((1, 0)));
            schedule.forsake(&behind);
            behind.is_frozen.set(true);
            schedule.write_upto(0, 3);
            schedule.start_with(PROMPT);
            schedule.until_passed(0, 3);
            // The former owner reads the second record, and not the third.
            schedule.write_upto(0, 2);
            behind.is_frozen.set(false);
            schedule.until(|| behind.progress() == Some((2, 0)));
            schedule.pass(HOUR);
            schedule.until(|| behind.progress() == Some((2, 2)));
            let bad = schedule.finish(&mut EventCounts::new());
            drop(guard);
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
    let logs = vec![Draft::plain(first, vec![0, 1]), Draft::plain(second, vec![0, 0])];
    let schedule = Schedule::directed(logs);
    let guard = schedule.enter();
    schedule.start_with(PROMPT);
    schedule.write_upto(0, 1);
    schedule.until_passed(0, 1);
    schedule.begin_epoch();
    let before = schedule.start_with(PROMPT);
    schedule.write_upto(1, 2);
    schedule.until_passed(1, 2);
    before.die(&schedule);
    schedule.expire_sessions();
    lock(&schedule.world).lanes[0].committed = Some(0);
    schedule.start_with(PROMPT);
    schedule.write_upto(0, 2);
    schedule.until_passed(0, 2);
    let bad = schedule.finish(&mut EventCounts::new());
    drop(guard);
    assert!(bad.is_empty(), "{bad:?}");
}

/// A late sample with the ignition off divides a trip that lasts over a midnight, so that rows of
/// two days are written. Its owner is killed after each message of that write in turn.
#[test]
fn a_split_across_midnight_outlives_a_kill_within_each_write() {
    let moving = |of: &[i64]| samples(of);
    let off = Fix { time: hour(47) + 600_000, place: 9, driver: None, class: Class::Separator };
    let mut seen = EventCounts::new();
    let mut kills = 0;
    for seed in 0..4 {
        for messages in 0.. {
            let records = vec![
                moving(&[45, 46, 47]),
                moving(&[48, 49]),
                Record::Samples(b'a', vec![Some(off)]),
            ];
            let logs = vec![Draft::plain(records, vec![0])];
            let schedule = Schedule::directed_by(Dice::new(seed), logs);
            let guard = schedule.enter();
            let owner = schedule.start_with(PROMPT);
            schedule.write_upto(0, 2);
            schedule.until_passed(0, 2);
            schedule.write_upto(0, 3);
            for _ in 0..messages {
                schedule.trickle(&owner);
            }
            let is_committed = lock(&schedule.world).passed(0) == 3;
            owner.die(&schedule);
            schedule.expire_sessions();
            schedule.start_with(PROMPT);
            schedule.until_passed(0, 3);
            let bad = schedule.finish(&mut seen);
            drop(guard);
            assert!(bad.is_empty(), "seed {seed}, {messages} messages: {bad:?}");
            kills += 1;
            if is_committed {
                break;
            }
        }
    }
    let within = seen.get("crashes in the middle of a write").copied().unwrap_or(0);
    assert!(within >= 20, "{within} of {kills} kills lie within a write: {seen:?}");
}
