//! One schedule: owners start, work, crash, sleep and wake, as the dice of its seed decide.

use std::collections::BTreeSet;
use std::sync::Arc;

use tstar::internals::model::scalar::Offset;
use tstar::internals::pipeline::processor::ProcessorConfig;

use super::checks;
use super::log::{CONTESTED, Kind, Record, Script};
use super::owner::{Owner, random_config};
use super::store::{Shared, lock};
use super::truth::{Truth, is_own};
use super::world::{Command, Dice, EventCounts, Homes, World};

/// Steps of a schedule before its last owners finish.
const STEPS: usize = 2_000;

/// Maximum number of steps of the last owners.
const LAST_STEPS: usize = 20_000;

pub struct Schedule {
    /// The log of each partition.
    scripts: Vec<Arc<Script>>,
    truth: Truth,
    /// The partitions of devices on which `truth` is based.
    homes: Homes,
    world: Shared,
    /// The owners of each partition. The last one is the current one; the others are paused or
    /// late.
    owners: Vec<Vec<Owner>>,
}

/// Names the running seed if something panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}: a panic", self.0);
        }
    }
}

/// Runs the schedule of a seed. Returns the violations, and adds to the events that occurred.
pub fn run(seed: u64, is_verbose: bool, seen: &mut EventCounts) -> BTreeSet<&'static str> {
    let _replay = Replay(seed);
    let mut dice = Dice::new(seed);
    let kind = Kind {
        limits: dice.percent(50),
        forgets: dice.percent(60),
        epochs: dice.percent(30),
        contested: dice.percent(25),
    };
    let scripts = Script::random(&mut dice, kind);
    let mut schedule = Schedule::new(dice, scripts, is_verbose);
    if kind.epochs {
        lock(&schedule.world).see("schedules of two epochs");
    }
    for lane in 0..schedule.scripts.len() {
        schedule.take_over(lane, 0, None);
    }
    schedule.play();
    schedule.finish(seen)
}

impl Schedule {
    pub fn new(dice: Dice, scripts: Vec<Script>, is_verbose: bool) -> Self {
        let scripts: Vec<_> = scripts.into_iter().map(Arc::new).collect();
        let homes = Homes::new();
        let truth = Truth::new(&scripts, &homes);
        let mut world = World::new(dice, is_verbose);
        if scripts.len() == 1 {
            // Each partition reads its epochs in sequence.
            world.epochs = scripts[0].starts.len();
        }
        let owners = scripts.iter().map(|_| Vec::new()).collect();
        let schedule = Self { scripts, truth, homes, world: Arc::new(world.into()), owners };
        schedule.scripts.iter().filter(|_| is_verbose).for_each(|script| print(script));
        schedule
    }

    /// Another owner starts at an offset, with the given configuration or a random one.
    pub fn take_over(&mut self, lane: usize, start: i64, config: Option<ProcessorConfig>) {
        let config = config.unwrap_or_else(|| random_config(&mut lock(&self.world).dice));
        let owner = Owner::new(&self.world, (lane, &self.scripts[lane]), start, config);
        self.owners[lane].push(owner);
    }

    /// An owner executes commands one after the other, each to its end; all messages arrive.
    pub fn does(&mut self, (lane, nth): (usize, usize), commands: &[Command]) {
        for &command in commands {
            self.begin_epochs();
            let owner = &mut self.owners[lane][nth];
            owner.submit(command);
            owner.poll();
            while !owner.is_idle() {
                lock(&self.world).deliver(usize::MAX);
                owner.poll();
            }
        }
    }

    fn below(&self, n: usize) -> usize {
        lock(&self.world).dice.below(n)
    }

    fn percent(&self, of_hundred: usize) -> bool {
        lock(&self.world).dice.percent(of_hundred)
    }

    /// A random partition.
    fn random_lane(&self) -> usize {
        if self.scripts.len() == 1 { 0 } else { self.below(self.scripts.len()) }
    }

    fn current(&mut self, lane: usize) -> &mut Owner {
        self.owners[lane].last_mut().expect("there is always an owner")
    }

    /// The next epoch begins once everything before it is read, in each partition.
    fn begin_epochs(&mut self) {
        let epochs = lock(&self.world).epochs;
        if epochs == self.scripts[0].starts.len() {
            return;
        }
        let current = self.owners.iter().map(|owners| owners.last().expect("there is an owner"));
        let mut both = current.zip(&self.scripts);
        if both.all(|(owner, script)| owner.acknowledged() >= script.starts[epochs]) {
            let mut world = lock(&self.world);
            world.epochs += 1;
            world.log(|| format!("epoch {} begins", epochs + 1));
        }
    }

    fn play(&mut self) {
        let mut hand_overs = self.below(7);
        for _ in 0..STEPS {
            self.begin_epochs();
            let lane = self.random_lane();
            let owners = self.owners[lane].len();
            let nth = if self.percent(60) { owners - 1 } else { self.below(owners) };
            self.owners[lane][nth].poll();
            match self.below(100) {
                0..30 => self.absorb(lane, nth),
                30..42 => self.flush(lane, nth),
                42..72 => self.deliver(9),
                72..75 => {
                    self.update_homes();
                    checks::reader(&mut lock(&self.world), &self.truth);
                }
                75..82 if hand_overs > 0 => {
                    hand_overs -= 1;
                    self.hand_over(lane);
                }
                _ => {}
            }
            let is_read = self.current(lane).position() >= self.scripts[lane].len();
            if is_read && self.percent(3) {
                break;
            }
        }
    }

    /// Updates the partitions of devices: they are decided once per device and epoch.
    fn update_homes(&mut self) {
        let world = lock(&self.world);
        if world.homes != self.homes {
            self.homes.clone_from(&world.homes);
            self.truth = Truth::new(&self.scripts, &self.homes);
        }
    }

    fn absorb(&mut self, lane: usize, nth: usize) {
        let most = 1 + self.below(4);
        self.owners[lane][nth].submit(Command::Absorb(most));
        self.owners[lane][nth].poll();
    }

    fn flush(&mut self, lane: usize, nth: usize) {
        let round = self.below(150) as u64;
        let command = if self.percent(40) { Command::Flush } else { Command::FlushWaited(round) };
        if nth + 1 < self.owners[lane].len() && self.owners[lane][nth].is_idle() {
            lock(&self.world).see("flushes of a former owner");
        }
        self.owners[lane][nth].submit(command);
        self.owners[lane][nth].poll();
    }

    fn deliver(&mut self, most: usize) {
        let messages = 1 + self.below(most);
        lock(&self.world).deliver(messages);
    }

    /// A partition gets another owner, with or without a clean end of the former one.
    fn hand_over(&mut self, lane: usize) {
        if self.percent(25) {
            self.leave(lane);
        }
        self.update_homes();
        let (start, is_replay) = {
            let mut world = lock(&self.world);
            checks::commit(&mut world, &self.truth, (lane, &self.scripts[lane]));
            let is_replay = world.dice.percent(25);
            let committed = world.committed[lane];
            (if is_replay { 0 } else { committed }, is_replay && committed > 0)
        };
        if is_replay {
            lock(&self.world).see("replays from the first record");
        }
        self.take_over(lane, start, None);
        let owners = self.owners[lane].len();
        if owners > 3 || owners > 1 && self.percent(45) {
            let oldest = self.owners[lane].remove(0);
            lock(&self.world).die(oldest.id);
        } else if owners > 1 {
            lock(&self.world).see("owners that sleep");
        }
    }

    /// The current owner flushes, commits and leaves, while the world continues.
    fn leave(&mut self, lane: usize) {
        let mut has_flushed = false;
        for _ in 0..LAST_STEPS {
            if self.current(lane).is_idle() {
                if has_flushed {
                    break;
                }
                self.current(lane).submit(Command::Flush);
                has_flushed = true;
            }
            self.current(lane).poll();
            self.run_others();
            self.deliver(9);
        }
        lock(&self.world).see("clean hand-overs");
        self.owners[lane].pop();
    }

    /// A former owner continues.
    fn run_others(&mut self) {
        let lane = self.random_lane();
        if self.owners[lane].is_empty() {
            return;
        }
        let nth = self.below(self.owners[lane].len());
        if nth + 1 < self.owners[lane].len() {
            match self.below(4) {
                0 => self.absorb(lane, nth),
                1 => self.flush(lane, nth),
                _ => self.owners[lane][nth].poll(),
            }
        }
    }

    pub fn finish(mut self, seen: &mut EventCounts) -> BTreeSet<&'static str> {
        for step in 0..LAST_STEPS {
            self.begin_epochs();
            let mut is_done = true;
            for lane in 0..self.scripts.len() {
                is_done &= self.comes_to_end(lane, step == 0);
            }
            if is_done {
                break;
            }
            self.run_others();
            self.deliver(9);
        }
        for lane in 0..self.scripts.len() {
            if self.current(lane).acknowledged() < self.scripts[lane].len() {
                lock(&self.world).bad.insert("stuck");
            }
        }
        self.late_ones();
        self.update_homes();
        let mut world = lock(&self.world);
        checks::end(&mut world, &self.truth);
        self.count(&mut world);
        for (what, times) in &world.seen {
            *seen.entry(what).or_insert(0) += times;
        }
        std::mem::take(&mut world.bad)
    }

    /// The current owner of a partition takes a step. Returns whether it was the last.
    fn comes_to_end(&mut self, lane: usize, is_first: bool) -> bool {
        let (end, epochs) = (self.scripts[lane].len(), lock(&self.world).epochs);
        let upto = self.scripts[lane].upto(epochs);
        let current = self.current(lane);
        if current.is_idle() {
            if current.position() < upto {
                current.submit(Command::Absorb(4));
            } else if current.acknowledged() < upto || is_first {
                current.submit(Command::Flush);
            } else {
                return upto == end;
            }
        }
        current.poll();
        false
    }

    /// Former owners wake up after the end; then all messages arrive.
    fn late_ones(&mut self) {
        while self.percent(90) {
            self.run_others();
            self.deliver(9);
        }
        loop {
            lock(&self.world).deliver(usize::MAX);
            self.owners.iter_mut().flatten().for_each(Owner::poll);
            let is_silent = lock(&self.world).is_silent();
            if is_silent && self.owners.iter().flatten().all(Owner::is_idle) {
                break;
            }
        }
    }

    fn count(&self, world: &mut World) {
        let truth = &self.truth;
        world.see_many("merges", truth.merges.len() as u64);
        world.see_many("dead letters", truth.dead.len() as u64);
        for script in &self.scripts {
            for (record, offset) in script.records.iter().zip(0..) {
                let (epoch, partition) = (script.epoch_of(offset), script.log.partition);
                let is_own = |device: &u8| is_own(&self.homes, *device, epoch, partition);
                world.see(match record {
                    Record::Samples(device, _) if is_own(device) => continue,
                    Record::Samples(..) => "records of another partition's device",
                    Record::Forged(..) => "forgets without a signature",
                    Record::Forget(device, _) if !is_own(device) => "forgets in another partition",
                    Record::Forget(CONTESTED, _) => "forgets of a contested device",
                    Record::Forget(..) => "forgets",
                });
            }
        }
        let homes: BTreeSet<i32> = self.homes.range((CONTESTED, 0)..).map(|it| *it.1).collect();
        if homes.len() > 1 {
            world.see("devices that move with an epoch");
        }
        let erased = truth.ever.values().filter(|row| {
            let device = super::truth::device_of(row);
            row.end_ms < truth.floor(device)
        });
        world.see_many("rows erased", erased.count() as u64);
        world.see_many("events", world.feed.len() as u64);
        let of_nodes = std::mem::take(&mut world.nodes().seen);
        of_nodes.into_iter().for_each(|(what, times)| world.see_many(what, times));
    }
}

fn print(script: &Script) {
    println!("{:?} {:?}", script.rules.limits(), script.log);
    for (record, offset) in script.records.iter().zip(0..) {
        println!(
            "{offset} ({}): {}",
            script.log.versions.version_at(Offset(offset)),
            shown(record)
        );
    }
}

fn shown(record: &Record) -> String {
    let hours = |time: i64| (time - super::log::ORIGIN) / super::log::HOUR;
    match record {
        Record::Forget(device, before_ms) => {
            format!("forget {} before {}", char::from(*device), hours(before_ms.ms()))
        }
        Record::Forged(device, before_ms) => {
            format!("forge {} before {}", char::from(*device), hours(before_ms.ms()))
        }
        Record::Samples(device, fixes) => {
            let times = fixes.iter().map(|fix| fix.as_ref().map(|fix| hours(fix.time)));
            format!("{} at {:?}", char::from(*device), times.collect::<Vec<_>>())
        }
    }
}
