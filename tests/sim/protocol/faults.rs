//! The faults of a schedule.

use tstar::internals::kafka::topics::StartFrom;
use tstar::internals::segment::Kinds;

use super::log::{Kind, log_time};
use super::process::Process;
use super::schedule::{MAX_PROCESSES, Schedule};
use super::world::{Dice, World, lock};

/// Number of large schedules in a thousand, which take some forty times as long.
const LARGE: usize = 6;

impl Schedule {
    /// Members that are dead or hang lose their places, and there is always a process that reads.
    pub fn sessions(&self) {
        let gone: Vec<u64> = {
            let processes = self.processes.borrow();
            let world = &mut *lock(&self.world);
            let is_silent = |process: usize| {
                let found = processes.iter().find(|it| it.id == process);
                found.is_none_or(|it| it.is_frozen.get() || it.is_dead())
            };
            let members = world.group.members.iter();
            let silent: Vec<u64> =
                members.filter(|(_, it)| is_silent(it.process)).map(|(id, _)| *id).collect();
            silent.into_iter().filter(|_| world.is_calm || world.dice.percent(30)).collect()
        };
        for member in gone {
            let mut world = lock(&self.world);
            world.log(|| format!("member {member} is removed"));
            world.see("members removed");
            world.group.remove(member);
        }
        let is_down = lock(&self.world).is_down;
        if is_down != [false; 2] && self.percent(30) {
            lock(&self.world).is_down = [false; 2];
        }
        if !self.processes.borrow().iter().any(|process| process.is_live()) && self.percent(50) {
            self.start();
        }
    }

    /// One of the faults of a schedule.
    pub fn disturb(&self) {
        if self.faults.get() == 0 || lock(&self.world).is_calm {
            return;
        }
        self.faults.set(self.faults.get() - 1);
        match self.below(100) {
            0..22 => {
                if let Some(process) = self.process(|process| !process.is_dead()) {
                    process.die(self);
                }
            }
            22..37 => {
                if let Some(process) = self.process(Process::is_live) {
                    let mut world = lock(&self.world);
                    world.log(|| format!("{} freezes", process.id));
                    world.see("owners that sleep");
                    process.is_frozen.set(true);
                }
            }
            37..47 => self.wake(),
            47..62 => {
                if let Some(process) = self.process(Process::is_live) {
                    lock(&self.world).log(|| format!("{} is to stop", process.id));
                    process.stops.set(true);
                }
            }
            62..78 => {
                if self.processes.borrow().len() < MAX_PROCESSES {
                    self.start();
                }
            }
            78..84 => self.lose_session(),
            84..87 => self.reset(),
            87..94 => self.expire(),
            // A former owner that has not learnt it begins to write the table topic, and dies.
            94..96 => lock(&self.world).table.fence(),
            96..98 => self.back_up(),
            _ => {
                let of = self.below(2);
                lock(&self.world).is_down[of] = true;
            }
        }
    }

    fn wake(&self) {
        if let Some(process) = self.process(|process| process.is_frozen.get()) {
            lock(&self.world).log(|| format!("{} wakes", process.id));
            process.is_frozen.set(false);
        }
    }

    /// A member that lives is cut off from its coordinator for too long.
    fn lose_session(&self) {
        let world = &mut *lock(&self.world);
        let members: Vec<u64> = world.group.members.keys().copied().collect();
        if !members.is_empty() {
            let member = world.dice.one_of(&members);
            world.log(|| format!("member {member} loses its session"));
            world.group.remove(member);
        }
    }

    /// All processes are killed or hang, and an operator resets the offsets of the empty group.
    fn reset(&self) {
        let processes = self.processes.borrow().clone();
        for process in processes {
            if self.percent(50) { process.die(self) } else { process.is_frozen.set(true) }
        }
        let world = &mut *lock(&self.world);
        let members: Vec<u64> = world.group.members.keys().copied().collect();
        members.into_iter().for_each(|member| world.group.remove(member));
        world.resets += 1;
        let mut is_replay = false;
        for (of, (lane, script)) in world.lanes.iter_mut().zip(&self.scripts).enumerate() {
            // What `--from` has skipped stays unread, and what expired unread is not passed.
            let skipped = world.expired[of].and_then(|(_, chosen)| chosen);
            let first = lane.first.max(script.end_after(skipped.unwrap_or(0)));
            if let Some(committed) = lane.committed.filter(|committed| *committed >= first) {
                is_replay |= script.before(first) < script.before(committed);
                lane.committed = Some(first);
            }
        }
        world.log(|| "the offsets are reset".to_owned());
        if is_replay {
            world.see("replays from the first record");
        }
    }

    /// Old records expire: those that are passed, or some that are unread.
    fn expire(&self) {
        let world = &mut *lock(&self.world);
        if world.is_behind() {
            return;
        }
        let of = world.dice.below(self.scripts.len());
        let (passed, script) = (world.passed(of), &self.scripts[of]);
        let World { lanes, dice, expired, .. } = world;
        let lane = &mut lanes[of];
        let is_unread = lane.fetched <= passed && passed == lane.passed && lane.written > passed;
        if self.kind.is_lossy && is_unread && expired[of].is_none() {
            let first = passed + 1 + dice.below(lane.written - passed);
            lane.first = script.end_after(first);
            expired[of] = Some((passed, None));
            world.log(|| format!("records {passed} to {first} expire unread"));
            world.see("records that expire unread");
        } else if !self.kind.is_lossy && passed > 0 {
            let first = script.end_after(dice.below(passed)).max(lane.first);
            lane.first = first;
            world.log(|| format!("what lies before {first} expires"));
            world.see("records that expire");
        }
    }
}

impl Kind {
    pub fn random(dice: &mut Dice) -> Self {
        let is_lossy = dice.percent(25);
        let time = StartFrom::Time(log_time(dice.below(20)));
        let choices = [StartFrom::Earliest, StartFrom::Latest, StartFrom::Latest, time];
        let has_stops = dice.percent(50);
        let from = if is_lossy { dice.one_of(&choices) } else { StartFrom::Earliest };
        Self {
            limits: dice.percent(50),
            forgets: dice.percent(60),
            epochs: dice.percent(30),
            contested: dice.percent(25),
            is_lossy,
            from: Some(from),
            is_static: dice.percent(20),
            table: dice.one_of(&[None, None, Some(Kinds::Trips), Some(Kinds::All)]),
            is_hostile: dice.percent(30),
            is_fine: dice.percent(30),
            has_stops,
            is_large: dice.below(1_000) < LARGE,
        }
    }
}
