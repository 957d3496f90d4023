//! One schedule: owners come, work, crash, sleep and wake, as the dice of its seed have it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tstar::processor::Pace;

use super::checks;
use super::log::{CONTESTED, Kind, OTHER, PARTITION, Record, Script};
use super::owner::{Owner, some_pace};
use super::store::{Shared, lock};
use super::truth::Truth;
use super::world::{Command, Device, Dice, Seen, World};

/// Steps of a schedule before its last owner finishes.
const STEPS: usize = 2_000;

/// Steps that the last owner takes at most.
const LAST_STEPS: usize = 20_000;

pub struct Schedule {
    script: Arc<Script>,
    truth: Truth,
    /// The devices of other partitions, by which `truth` is true.
    foreign: BTreeSet<(Device, i32)>,
    world: Shared,
    /// The last one is the current one; the others are paused or late.
    owners: Vec<Owner>,
}

/// Names the seed that was at work if something panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}: a panic", self.0);
        }
    }
}

/// Runs the schedule of a seed. Returns what went wrong, and adds to what occurred.
pub fn run(seed: u64, tells: bool, seen: &mut Seen) -> BTreeSet<&'static str> {
    let _replay = Replay(seed);
    let mut dice = Dice::new(seed);
    let kind = Kind {
        limits: dice.percent(50),
        forgets: dice.percent(60),
        epochs: dice.percent(30),
        contested: dice.percent(25),
    };
    let script = Script::random(&mut dice, kind);
    let mut schedule = Schedule::new(dice, script, tells);
    if kind.epochs {
        lock(&schedule.world).see("schedules of two epochs");
    }
    schedule.take_over(0, None);
    schedule.play();
    schedule.finish(seen)
}

impl Schedule {
    pub fn new(dice: Dice, script: Script, tells: bool) -> Self {
        let foreign = BTreeSet::new();
        let truth = Truth::of(&script, &foreign);
        if tells {
            println!("{:?} {:?}", script.rules.limits(), script.log.versions);
            for (record, offset) in script.records.iter().zip(0..) {
                println!("{offset} ({}): {}", script.log.versions.of(offset), shown(record));
            }
        }
        let world: Shared = Arc::new(World::new(dice, tells).into());
        Self { script: Arc::new(script), truth, foreign, world, owners: Vec::new() }
    }

    /// Another owner begins at an offset, at a pace of its own or some pace.
    pub fn take_over(&mut self, start: i64, pace: Option<Pace>) {
        let pace = pace.unwrap_or_else(|| some_pace(&mut lock(&self.world).dice));
        self.owners.push(Owner::new(&self.world, &self.script, start, pace));
    }

    /// An owner does one thing after the other, each to its end; all that is sent arrives.
    pub fn does(&mut self, nth: usize, commands: &[Command]) {
        for &command in commands {
            self.owners[nth].ask(command);
            self.owners[nth].poll();
            while !self.owners[nth].is_idle() {
                lock(&self.world).deliver(usize::MAX);
                self.owners[nth].poll();
            }
        }
    }

    fn below(&self, n: usize) -> usize {
        lock(&self.world).dice.below(n)
    }

    fn percent(&self, of_hundred: usize) -> bool {
        lock(&self.world).dice.percent(of_hundred)
    }

    fn current(&mut self) -> &mut Owner {
        self.owners.last_mut().expect("there is always an owner")
    }

    fn play(&mut self) {
        let mut hand_overs = self.below(7);
        for _ in 0..STEPS {
            let nth = if self.percent(60) {
                self.owners.len() - 1
            } else {
                self.below(self.owners.len())
            };
            self.owners[nth].poll();
            match self.below(100) {
                0..30 => self.absorb(nth),
                30..42 => self.flush(nth),
                42..72 => self.deliver(9),
                72..75 => {
                    self.hear();
                    checks::reader(&mut lock(&self.world), &self.truth, &self.script);
                }
                75..82 if hand_overs > 0 => {
                    hand_overs -= 1;
                    self.hand_over();
                }
                82..83 if self.is_contested() => self.contest(),
                _ => {}
            }
            let is_read = self.current().position() >= self.script.len();
            if is_read && self.percent(3) {
                break;
            }
        }
    }

    fn is_contested(&self) -> bool {
        let is_it = |it: &Record| matches!(it, Record::Samples(CONTESTED, _));
        self.script.records.iter().any(is_it)
    }

    /// The owner of another partition comes upon the device that both have.
    fn contest(&mut self) {
        let offset = self.below(self.script.records.len()) as i64;
        lock(&self.world).contest(CONTESTED, self.script.epoch_of(offset), OTHER);
    }

    /// Takes note of which devices belong elsewhere: that is decided once for each.
    fn hear(&mut self) {
        let foreign = lock(&self.world).foreign(PARTITION);
        if foreign != self.foreign {
            self.truth = Truth::of(&self.script, &foreign);
            self.foreign = foreign;
        }
    }

    fn absorb(&mut self, nth: usize) {
        let most = 1 + self.below(4);
        self.owners[nth].ask(Command::Absorb(most));
        self.owners[nth].poll();
    }

    fn flush(&mut self, nth: usize) {
        let round = self.below(150) as u64;
        let command = if self.percent(40) { Command::Flush } else { Command::FlushWaited(round) };
        if nth + 1 < self.owners.len() && self.owners[nth].is_idle() {
            lock(&self.world).see("flushes of a former owner");
        }
        self.owners[nth].ask(command);
        self.owners[nth].poll();
    }

    fn deliver(&mut self, most: usize) {
        let messages = 1 + self.below(most);
        lock(&self.world).deliver(messages);
    }

    /// The partition gets another owner: after a clean end of the former one, or not.
    fn hand_over(&mut self) {
        if self.percent(25) {
            self.leave();
        }
        self.hear();
        let (start, is_replay) = {
            let mut world = lock(&self.world);
            checks::commit(&mut world, &self.truth, &self.script);
            let is_replay = world.dice.percent(25);
            let start = if is_replay { 0 } else { world.committed };
            (start, is_replay && world.committed > 0)
        };
        if is_replay {
            lock(&self.world).see("replays from the first record");
        }
        self.take_over(start, None);
        if self.owners.len() > 3 || self.owners.len() > 1 && self.percent(45) {
            let gone = self.owners.remove(0);
            lock(&self.world).die(gone.id);
        } else if self.owners.len() > 1 {
            lock(&self.world).see("owners that sleep");
        }
    }

    /// The current owner flushes, commits and goes; the world goes on meanwhile.
    fn leave(&mut self) {
        let mut asked = false;
        for _ in 0..LAST_STEPS {
            if self.current().is_idle() {
                if asked {
                    break;
                }
                self.current().ask(Command::Flush);
                asked = true;
            }
            self.current().poll();
            self.others_go_on();
            self.deliver(9);
        }
        lock(&self.world).see("clean hand-overs");
        self.owners.pop();
    }

    fn others_go_on(&mut self) {
        let nth = self.below(self.owners.len());
        if nth + 1 < self.owners.len() {
            match self.below(4) {
                0 => self.absorb(nth),
                1 => self.flush(nth),
                _ => self.owners[nth].poll(),
            }
        }
    }

    pub fn finish(mut self, seen: &mut Seen) -> BTreeSet<&'static str> {
        let end = self.script.len();
        for step in 0..LAST_STEPS {
            let current = self.current();
            if current.is_idle() {
                if current.position() < end {
                    current.ask(Command::Absorb(4));
                } else if current.acknowledged() < end || step == 0 {
                    current.ask(Command::Flush);
                } else {
                    break;
                }
            }
            self.current().poll();
            self.others_go_on();
            self.deliver(9);
        }
        if self.current().acknowledged() < end {
            lock(&self.world).bad.insert("stuck");
        }
        self.late_ones();
        self.hear();
        let mut world = lock(&self.world);
        checks::end(&mut world, &self.truth);
        self.count(&mut world);
        for (what, times) in &world.seen {
            *seen.entry(what).or_insert(0) += times;
        }
        std::mem::take(&mut world.bad)
    }

    /// Former owners wake up after the end; then everything on the wire arrives.
    fn late_ones(&mut self) {
        while self.percent(90) {
            self.others_go_on();
            self.deliver(9);
        }
        loop {
            lock(&self.world).deliver(usize::MAX);
            self.owners.iter_mut().for_each(Owner::poll);
            let is_silent = lock(&self.world).is_silent();
            if is_silent && self.owners.iter().all(Owner::is_idle) {
                break;
            }
        }
    }

    fn count(&self, world: &mut World) {
        let (truth, script) = (&self.truth, &self.script);
        world.see_many("merges", truth.merges.len() as u64);
        world.see_many("dead letters", truth.dead.len() as u64);
        let places = script.records.iter().zip(0..);
        let foreign = places.filter(|(record, offset)| match record {
            Record::Samples(device, _) => {
                self.foreign.contains(&(*device, script.epoch_of(*offset)))
            }
            Record::Forget(..) | Record::Forged(..) => false,
        });
        world.see_many("records of another partition's device", foreign.count() as u64);
        let forgets = script.records.iter().filter(|it| matches!(it, Record::Forget(..))).count();
        world.see_many("forgets", forgets as u64);
        let forged = script.records.iter().filter(|it| matches!(it, Record::Forged(..))).count();
        world.see_many("forgets that nobody signed", forged as u64);
        let erased = truth.ever.values().filter(|row| {
            let device = super::truth::device_of(row);
            row.end_ms < truth.floor(device)
        });
        world.see_many("rows erased", erased.count() as u64);
        world.see_many("events", world.feed.len() as u64);
    }
}

fn shown(record: &Record) -> String {
    let hours = |ms: i64| (ms - super::log::ORIGIN) / super::log::HOUR;
    match record {
        Record::Forget(device, before_ms) => {
            format!("forget {} before {}", char::from(*device), hours(*before_ms))
        }
        Record::Forged(device, before_ms) => {
            format!("forge {} before {}", char::from(*device), hours(*before_ms))
        }
        Record::Samples(device, fixes) => {
            let times = fixes.iter().map(|fix| fix.as_ref().map(|fix| hours(fix.time)));
            format!("{} at {:?}", char::from(*device), times.collect::<Vec<_>>())
        }
    }
}
