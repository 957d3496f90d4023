//! One schedule: processes start, work, die, freeze and wake, as the dice of its seed decide, in
//! virtual time on one thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tstar::internals::kafka::record::RecordReader;

use super::checks;
use super::log::{CONTESTED, Kind, Record, Script};
use super::memory::Memory;
use super::process::{Process, Setup, random_pace};
use super::reader::Reader;
use super::shown::print;
use super::table;
use super::truth::{Skips, Truth, is_own};
use super::world::{Dice, EventCounts, Homes, Shared, World, lock};
use crate::nodes::Nodes;

/// Steps of a schedule before its last processes finish, for a log of few records.
const STEPS: usize = 1_200;

/// Maximum number of rounds of the last processes, for a log of few records.
const LAST_ROUNDS: usize = 1_500;

/// More of either for each record of a large schedule.
const PER_RECORD: usize = 30;

/// How often the last processes start.
const LAST_STARTS: usize = 3;

/// Maximum number of processes at once.
pub const MAX_PROCESSES: usize = 4;

/// A polling thread that waits lets others take steps, which may wait, too.
const MAX_DEPTH: usize = 3;

pub struct Schedule {
    /// The log of each partition.
    pub scripts: Vec<Arc<Script>>,
    pub world: Shared,
    pub reader: RecordReader,
    truth: RefCell<Truth>,
    /// The partitions of devices, and the expired records, on which `truth` is based.
    base: RefCell<(Homes, Skips)>,
    pub processes: RefCell<Vec<Rc<Process>>>,
    pub lookups: Reader,
    pub kind: Kind,
    /// Number of faults to come.
    pub faults: Cell<usize>,
    depth: Cell<usize>,
    clock: Runtime,
    this: Weak<Self>,
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

/// Limits by which a failure is shrunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrunk {
    pub records: usize,
    pub faults: usize,
}

impl Shrunk {
    pub const NOT: Self = Self { records: usize::MAX, faults: usize::MAX };
}

/// Runs the schedule of a seed. Returns the violations, and adds to the events that occurred.
pub fn run(
    seed: u64,
    shrunk: Shrunk,
    is_verbose: bool,
    seen: &mut EventCounts,
) -> BTreeSet<&'static str> {
    let _replay = Replay(seed);
    run_over(seed, shrunk, is_verbose, seen, |_| ())
}

/// The same over nodes that have a fault.
pub fn run_over(
    seed: u64,
    shrunk: Shrunk,
    is_verbose: bool,
    seen: &mut EventCounts,
    break_nodes: impl FnOnce(&mut Nodes),
) -> BTreeSet<&'static str> {
    let mut dice = Dice::new(seed);
    let kind = Kind::random(&mut dice);
    let scripts = Script::random(&mut dice, kind, shrunk.records);
    let faults = dice.below(10).min(shrunk.faults);
    let schedule = Schedule::new(dice, scripts, (kind, faults), is_verbose);
    let nodes = Arc::clone(&lock(&schedule.world).nodes);
    break_nodes(&mut nodes.lock().expect("no holder of the lock panics"));
    let guard = schedule.enter();
    // The waits of the client for the brokers differ by chance alone.
    fastrand::seed(seed);
    schedule.note_kind();
    schedule.start();
    schedule.play();
    let bad = schedule.finish(seen);
    drop(guard);
    bad
}

impl Schedule {
    pub fn new(
        dice: Dice,
        scripts: Vec<Script>,
        (kind, faults): (Kind, usize),
        is_verbose: bool,
    ) -> Rc<Self> {
        let scripts: Vec<_> = scripts.into_iter().map(Arc::new).collect();
        let base = (Homes::new(), vec![0..0; scripts.len()]);
        let world = World::new(dice, &scripts, is_verbose);
        scripts.iter().filter(|_| is_verbose).for_each(|script| print(script));
        let clock = Builder::new_current_thread().enable_time().start_paused(true).build();
        Rc::new_cyclic(|this| Self {
            reader: scripts[0].reader(),
            truth: Truth::new(&scripts, &base.0, &base.1).into(),
            base: base.into(),
            scripts,
            lookups: Reader::new(&world.nodes),
            world: Arc::new(world.into()),
            processes: RefCell::default(),
            kind,
            faults: faults.into(),
            depth: Cell::new(0),
            clock: clock.expect("a clock"),
            this: Weak::clone(this),
        })
    }

    /// Counts features of the schedule.
    fn note_kind(&self) {
        let mut world = lock(&self.world);
        for (is_so, what) in [
            (self.kind.epochs, "schedules of two epochs"),
            (self.kind.is_fine, "schedules of times within an hour"),
            (self.kind.table.is_some(), "schedules with a table topic"),
            (self.kind.is_large, "schedules of many records"),
            (self.kind.has_stops, "schedules with stops"),
            (self.scripts.len() == 4, "schedules of four partitions"),
        ] {
            world.see_many(what, u64::from(is_so));
        }
    }

    /// Makes its clock the one of this thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.clock.enter()
    }

    pub fn below(&self, n: usize) -> usize {
        lock(&self.world).dice.below(n)
    }

    pub fn percent(&self, of_hundred: usize) -> bool {
        lock(&self.world).dice.percent(of_hundred)
    }

    /// A random process for which a condition holds.
    pub fn process(&self, is_meant: impl Fn(&Process) -> bool) -> Option<Rc<Process>> {
        let processes = self.processes.borrow();
        let count = processes.iter().filter(|process| is_meant(process)).count();
        let nth = if count == 0 { return None } else { self.below(count) };
        processes.iter().filter(|process| is_meant(process)).nth(nth).cloned()
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.clock.block_on(tokio::time::advance(time));
    }

    /// Starts a process.
    pub fn start(&self) {
        let setup = {
            let world = &mut *lock(&self.world);
            let dice = &mut world.dice;
            Setup {
                pace: random_pace(dice),
                from: self.kind.from.filter(|_| world.is_calm || dice.percent(60)),
                instance: self.kind.is_static.then(|| dice.below(2)),
                revoke_timeout: Duration::from_millis(dice.one_of(&[500, 5_000])),
                drain_timeout: Duration::from_millis(dice.one_of(&[1_000, 60_000, 60_000])),
            }
        };
        self.start_with(setup);
    }

    pub fn start_with(&self, setup: Setup) -> Rc<Process> {
        // The process that has this static id is no more, or it hangs.
        let has_id = |process: &Process| setup.instance.is_some() && process.is_live();
        if let Some(instance) = setup.instance
            && let Some(other) =
                self.process(|it| has_id(it) && self.instance_of(it.id) == Some(instance))
        {
            other.die(self);
        }
        let process = Process::start(self, &self.this, setup);
        self.processes.borrow_mut().push(Rc::clone(&process));
        process
    }

    fn instance_of(&self, process: usize) -> Option<usize> {
        lock(&self.world).clients[process].as_ref()?.instance
    }

    /// Something happens next.
    pub fn turn(&self) {
        self.age_backup();
        let is_behind = lock(&self.world).is_behind();
        match self.below(1_000) {
            0..400 => self.poll_worker(),
            400..600 => self.step_poller(),
            600..860 => {
                let messages = 1 + self.below(9);
                lock(&self.world).deliver(messages);
            }
            860..910 => {
                let ms = lock(&self.world).dice.one_of(&[1, 20, 100, 500, 1_500]);
                self.pass(Duration::from_millis(ms));
                self.sessions();
            }
            910..945 => self.write(),
            945..980 if is_behind => (),
            945..975 => self.look_up(),
            975..980 => self.check(),
            _ => self.disturb(),
        }
    }

    fn poll_worker(&self) {
        let runs = |process: &Process| !process.is_frozen.get() && process.workers() > 0;
        if let Some(process) = self.process(runs) {
            let nth = self.below(8);
            process.poll_worker(nth, self);
        }
    }

    fn step_poller(&self) {
        if self.depth.get() >= MAX_DEPTH {
            return;
        }
        if let Some(process) = self.process(|process| !process.is_frozen.get()) {
            self.step(&process);
        }
        self.processes.borrow_mut().retain(|process| !process.is_gone());
    }

    pub fn step(&self, process: &Process) {
        self.depth.set(self.depth.get() + 1);
        process.step(self);
        self.depth.set(self.depth.get() - 1);
    }

    /// Producers write some records. The next epoch begins once everything before it is committed,
    /// in each partition.
    fn write(&self) {
        let is_new = {
            let world = &mut *lock(&self.world);
            let mut lanes = 0..self.scripts.len();
            !world.is_behind()
                && world.epochs < self.scripts[0].starts.len()
                && lanes.all(|of| world.passed(of) >= self.scripts[of].starts[world.epochs])
        };
        if is_new {
            self.begin_epoch();
            self.start();
        }
        let world = &mut *lock(&self.world);
        for of in 0..self.scripts.len() {
            let most = if world.is_calm { usize::MAX } else { world.dice.below(5) };
            let upto = self.scripts[of].upto(world.epochs);
            let lane = &mut world.lanes[of];
            lane.written = lane.written.saturating_add(most).min(upto).max(lane.written);
        }
    }

    /// An operator begins an epoch. No process may run; those that are frozen are not noticed.
    pub fn begin_epoch(&self) {
        let running = self.processes.borrow().clone();
        running.iter().filter(|it| !it.is_frozen.get()).for_each(|it| it.die(self));
        let world = &mut *lock(&self.world);
        let members: Vec<u64> = world.group.members.keys().copied().collect();
        members.into_iter().for_each(|member| world.group.remove(member));
        world.table.fence();
        // It would be of the epoch before.
        world.backup = None;
        world.epochs += 1;
        world.log(|| format!("epoch {} begins", world.epochs));
    }

    /// The reader continues.
    fn look_up(&self) {
        self.update_truth();
        // A server of any process: also of one that has lost its partitions.
        let server = self.percent(70).then(|| self.process(|_| true)).flatten();
        let memory = server.map(|process| Memory::new(&process));
        self.lookups.step(&mut lock(&self.world), &self.truth.borrow(), memory);
    }

    fn check(&self) {
        self.update_truth();
        let (world, truth) = (&mut *lock(&self.world), self.truth.borrow());
        checks::reader(world, &truth);
        if std::mem::take(&mut world.has_news) {
            for lane in 0..self.scripts.len() {
                checks::commit(world, &truth, lane);
            }
        }
    }

    /// Updates what the truth is based on: the partitions of devices, which are decided once per
    /// device and epoch, and what expired unread.
    fn update_truth(&self) {
        let world = lock(&self.world);
        let skip = |lane: usize| match world.expired[lane] {
            Some((first, chosen)) => first..chosen.unwrap_or(world.lanes[lane].written).max(first),
            None => 0..0,
        };
        let skips: Vec<_> = (0..self.scripts.len()).map(skip).collect();
        let mut base = self.base.borrow_mut();
        if world.homes != base.0 || skips != base.1 {
            *base = (world.homes.clone(), skips);
            *self.truth.borrow_mut() = Truth::new(&self.scripts, &base.0, &base.1);
        }
    }

    /// Number of steps or rounds that a large schedule has more.
    fn more(&self) -> usize {
        let records: usize = self.scripts.iter().map(|script| script.len()).sum();
        if self.kind.is_large { PER_RECORD * records } else { 0 }
    }

    fn play(&self) {
        for _ in 0..STEPS + self.more() {
            self.turn();
            let world = lock(&self.world);
            let mut lanes = 0..self.scripts.len();
            if lanes.all(|of| world.passed(of) == self.scripts[of].len()) {
                drop(world);
                if self.percent(3) {
                    break;
                }
            }
        }
    }

    /// Each process and its workers take a step.
    pub fn steps(&self) {
        let processes = self.processes.borrow().clone();
        for process in processes.iter().filter(|process| !process.is_frozen.get()) {
            self.step(process);
            for nth in 0..process.workers() {
                process.poll_worker(nth, self);
            }
        }
        lock(&self.world).deliver(9);
        self.pass(Duration::from_millis(50));
        self.processes.borrow_mut().retain(|process| !process.is_gone());
    }

    fn is_read(&self) -> bool {
        let world = &mut *lock(&self.world);
        !world.is_behind()
            && (0..self.scripts.len()).all(|of| world.passed(of) == self.scripts[of].len())
    }

    pub fn finish(&self, seen: &mut EventCounts) -> BTreeSet<&'static str> {
        {
            let world = &mut *lock(&self.world);
            (world.is_calm, world.backup) = (true, None);
        }
        // A commit that arrived late has fallen back, and its response was lost: only the commit at
        // the end of the process, or its successor, mends that.
        for _ in 0..LAST_STARTS {
            self.read_all();
            self.end_all();
            if self.is_read() {
                break;
            }
        }
        if !self.is_read() {
            lock(&self.world).bad.insert("stuck");
        }
        self.update_truth();
        let mut world = lock(&self.world);
        let truth = self.truth.borrow();
        self.lookups.finish(&mut world, &truth);
        world.deliver(usize::MAX);
        (0..self.scripts.len()).for_each(|lane| checks::commit(&mut world, &truth, lane));
        checks::end(&mut world, &truth);
        if let Some(kinds) = self.kind.table {
            table::check(&mut world, &truth, kinds);
        }
        self.count(&mut world, &truth);
        for (what, times) in &world.seen {
            *seen.entry(what).or_insert(0) += times;
        }
        std::mem::take(&mut world.bad)
    }

    /// The last processes read what is left.
    fn read_all(&self) {
        for _ in 0..LAST_ROUNDS + self.more() {
            if self.is_read() {
                break;
            }
            self.write();
            self.sessions();
            self.steps();
        }
        {
            // A commit may have fallen back since, and the next epoch waits for it.
            let world = &mut *lock(&self.world);
            if world.lanes.iter().any(|lane| lane.passed < lane.written) {
                world.bad.insert("stuck");
            }
        }
        // Former owners wake up after the end.
        self.processes.borrow().iter().for_each(|process| process.is_frozen.set(false));
        while self.percent(95) {
            self.turn();
        }
    }

    /// All processes drain and end.
    fn end_all(&self) {
        for _ in 0..LAST_ROUNDS + self.more() {
            let processes = self.processes.borrow().clone();
            if processes.is_empty() {
                return;
            }
            processes.iter().for_each(|process| process.stops.set(true));
            self.steps();
        }
        lock(&self.world).bad.insert("a process does not end");
    }

    fn count(&self, world: &mut World, truth: &Truth) {
        world.see_many("merges", truth.merges.len() as u64);
        world.see_many("revivals of an id", truth.revivals.len() as u64);
        world.see_many("splits", truth.splits);
        world.see_many("turns of a trip or stop", truth.turns);
        world.see_many("dead letters", truth.dead.len() as u64);
        let homes = &self.base.borrow().0;
        for script in &self.scripts {
            for (record, offset) in script.records.iter().zip(&script.offsets) {
                let (epoch, partition) = (script.epoch_of(*offset), script.log.partition);
                let is_own = |device: &u8| is_own(homes, *device, epoch, partition);
                if matches!(record, Record::Samples(_, fixes) if fixes.len() >= 20) {
                    world.see("arrays of twenty samples");
                }
                world.see(match record {
                    Record::Samples(device, _) if is_own(device) => continue,
                    Record::Hostile(_, hostile) => hostile.event(),
                    Record::Samples(..) => "records of another partition's device",
                    Record::Forged(..) => "forgets without a signature",
                    Record::Forget(device, _) if !is_own(device) => "forgets in another partition",
                    Record::Forget(CONTESTED.., _) => "forgets of a contested device",
                    Record::Forget(..) => "forgets",
                });
            }
        }
        let moves = homes.iter().zip(homes.iter().skip(1));
        let moves = moves.filter(|((one, from), (next, to))| one.0 == next.0 && from != to);
        world.see_many("devices that move with an epoch", moves.count() as u64);
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
