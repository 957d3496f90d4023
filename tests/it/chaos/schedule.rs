//! Schedules of kills, stops, joins and leaves. Each has a seed, which is new in each run and is
//! printed: `TSTAR_TEST_CHAOS_SEED` runs that one only, `TSTAR_TEST_CHAOS` is the number of
//! schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::group::Group;

use super::check::{feed, nothing_is_ahead};
use super::expected::Counts;
use super::log::Size;
use super::outcome::is_whole;
use super::{Instance, LoggedEvent, PARTITIONS, Site};
use crate::faults::until;
use crate::servers;
use tstar_sim::counts;

const SAMPLES: usize = 20_000;

/// Schedules that run concurrently.
const SIDE_BY_SIDE: usize = 2;

/// What happens to instances.
#[derive(Clone, Copy, Debug)]
enum Act {
    Kill,
    Stop,
    Join,
    Leave,
}

const ACTS: [Act; 6] = [Act::Kill, Act::Kill, Act::Stop, Act::Stop, Act::Join, Act::Leave];

/// Events of the schedules, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Kills between the first and the last flush.
    kills: usize,
    /// Stops for longer than the session timeout.
    stops: usize,
    /// Records that were applied and announced, and had to be read again.
    read_again: i64,
    /// Partitions that moved to another instance.
    moves: usize,
    /// Partitions that an instance had lost before it noticed.
    lost: usize,
    /// Merges that were announced and not yet committed when their instance was killed or stopped.
    merges_in_flight: usize,
    /// Committed records that were checked while a schedule ran.
    checked: usize,
    /// What the logs have.
    log: Counts,
}

impl Tally {
    /// Whether each kind has occurred.
    fn is_complete(&self) -> bool {
        let Self { kills, stops, read_again, moves, lost, merges_in_flight, checked, log } = *self;
        let Counts { arrays, bad_elements, erased, forgotten, merges } = log;
        let of_servers = [kills, stops, moves, lost, merges_in_flight, checked];
        let of_logs = [arrays, bad_elements, erased, forgotten, merges];
        read_again > 0 && of_servers.iter().chain(&of_logs).all(|count| *count > 0)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.stops += other.stops;
        self.read_again += other.read_again;
        self.moves += other.moves;
        self.lost += other.lost;
        self.merges_in_flight += other.merges_in_flight;
        self.checked += other.checked;
        self.log += other.log;
    }
}

/// A running schedule.
struct Schedule<'a> {
    site: &'a Site,
    group: Group,
    random: ChaCha8Rng,
    running: Vec<Instance>,
    ended: Vec<Instance>,
    sent: usize,
    /// Length of the feed at each kill.
    kills: Vec<i64>,
    tally: Tally,
}

impl<'a> Schedule<'a> {
    fn new(site: &'a Site, seed: u64) -> Self {
        let brokers = Brokers::new(&site.topic.brokers, BTreeMap::new()).unwrap();
        let group = Group::new(&brokers, &site.topic.name).unwrap();
        let random = ChaCha8Rng::seed_from_u64(seed);
        let (running, ended, kills) = (vec![], vec![], vec![]);
        Self { site, group, random, running, ended, sent: 0, kills, tally: Tally::default() }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.next_u64() % bound as u64).unwrap()
    }

    fn join(&mut self) {
        let name = format!("instance-{}", self.running.len() + self.ended.len());
        self.running.push(Instance::start(&self.site.folder, &self.site.words(), &name));
    }

    /// Sends the next part of the log, and waits until some of it is announced.
    fn send_next(&mut self, parts: usize) {
        let before = self.site.events();
        let upto = (self.sent + SAMPLES.div_ceil(parts)).min(self.site.lines.len());
        self.site.send(&self.site.lines[self.sent..upto]);
        self.sent = upto;
        let more = i64::try_from(self.below(40)).unwrap() + 1;
        until("events", || (self.site.events() >= before + more).then_some(()));
    }

    /// Waits until each instance has a partition, so that whichever is hit is busy.
    fn until_each_holds(&mut self) {
        until("each instance to hold a partition", || {
            self.running.iter_mut().for_each(Instance::must_run);
            self.running.iter().all(|instance| !instance.holds().is_empty()).then_some(())
        });
    }

    fn act(&mut self, act: Act) {
        if self.running.len() < 2 {
            self.join();
        }
        let is_calm = matches!(act, Act::Stop) || self.below(2) == 0;
        if is_calm {
            self.until_each_holds();
        }
        let nth = self.below(self.running.len());
        match act {
            Act::Join => self.join(),
            Act::Kill => self.kill(nth),
            Act::Stop => self.stop(nth),
            Act::Leave => {
                let instance = &mut self.running[nth];
                instance.stop();
                instance.leaves();
                self.ended.push(self.running.remove(nth));
            }
        }
    }

    fn kill(&mut self, nth: usize) {
        let mut killed = self.running.remove(nth);
        let events = self.site.events();
        killed.kill();
        let committed = self.site.committed(&self.site.topic.name);
        self.interrupted(&killed.holds(), &committed);
        self.ended.push(killed);
        if self.kills.is_empty() {
            self.tally.checked += nothing_is_ahead(self.site, &committed);
        }
        self.kills.push(events);
        if self.below(2) == 0 {
            self.join();
        }
    }

    /// Stops an instance until its partitions have moved, then resumes it.
    fn stop(&mut self, nth: usize) {
        let stopped = &self.running[nth];
        stopped.signal("STOP");
        let committed = self.site.committed(&self.site.topic.name);
        let holds = stopped.holds();
        self.interrupted(&holds, &committed);
        let others = self.running.len() - 1;
        until("the group to evict an instance", || {
            (self.group.members().unwrap() == others).then_some(())
        });
        self.send_next(ACTS.len() * 3);
        self.running[nth].signal("CONT");
        self.tally.stops += 1;
    }

    /// Counts what an instance had done beyond its commits. Its partitions have not moved yet.
    fn interrupted(&mut self, holds: &BTreeSet<i32>, committed: &BTreeMap<i32, i64>) {
        let base = self.site.base(&self.site.keyspace.store());
        let (events, _) = feed(self.site);
        for partition in holds {
            let next = committed.get(partition).copied().unwrap_or(0);
            let ahead = events
                .iter()
                .filter(|event| event.partition == *partition && event.version >= base + 2 * next);
            let offsets = ahead.clone().map(|event| (event.version - base) / 2);
            self.tally.read_again += offsets.max().map_or(0, |last| last + 1 - next);
            self.tally.merges_in_flight += ahead.filter(|event| event.is_merge).count();
        }
    }

    /// Runs what is left to the ends of the log and drains it.
    fn heal(&mut self) {
        if self.running.is_empty() {
            self.join();
        }
        self.site.until_committed(&self.site.topic.name, &mut self.running);
        for instance in &mut self.running {
            instance.stop();
        }
        for instance in &mut self.running {
            instance.leaves();
        }
        self.ended.append(&mut self.running);
    }

    fn run(&mut self) -> Tally {
        let mut acts = ACTS.to_vec();
        for last in (1..acts.len()).rev() {
            let other = self.below(last + 1);
            acts.swap(last, other);
        }
        (0..3).for_each(|_| self.join());
        for act in acts {
            self.send_next(ACTS.len() * 3 / 2);
            self.act(act);
        }
        self.send_next(1);
        assert_eq!(self.sent, self.site.lines.len());
        self.heal();
        let events = self.site.events();
        self.tally.kills = self.kills.iter().filter(|at| (1..events).contains(*at)).count();
        let said: Vec<_> = self.ended.iter().flat_map(Instance::logged).collect();
        let count = |is: fn(&LoggedEvent) -> bool| said.iter().filter(|said| is(said)).count();
        self.tally.moves =
            count(|said| matches!(said, LoggedEvent::Assigned(_))) - PARTITIONS as usize;
        self.tally.lost = count(|said| matches!(said, LoggedEvent::Lost(_)));
        self.tally
    }
}

impl Drop for Schedule<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for instance in self.ended.iter().chain(&self.running) {
                eprintln!("{}", instance.describe());
            }
        }
    }
}

/// Prints how to rerun a failed schedule.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!(
                "again: TSTAR_TEST_CHAOS_SEED={seed} cargo test --test it -- chaos::schedule"
            );
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value}")))
}

/// The schedules are repeated up to this often until each kind of event has occurred: which ones
/// occur depends on the servers' timing.
const AT_MOST: u64 = 4;

/// Runs the schedules of these seeds, some concurrently; adds up their events.
fn run(seeds: Range<u64>, all: &Mutex<Tally>) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            let _replay = Replay(seed);
            let site = Site::new(Size { devices: 40, samples: SAMPLES }, seed).unwrap();
            let mut tally = Schedule::new(&site, seed).run();
            tally.log = is_whole(&site);
            site.remove();
            println!("seed {seed}: {tally:?}");
            *all.lock().unwrap() += tally;
        }
    };
    std::thread::scope(|scope| {
        (0..SIDE_BY_SIDE).for_each(|_| drop(scope.spawn(work)));
    });
}

#[test]
fn schedules_of_faults_end_as_the_model_says() {
    if servers::kafka().is_none() || servers::cql().is_none() {
        return;
    }
    let all = Mutex::new(Tally::default());
    if let Some(seed) = number("TSTAR_TEST_CHAOS_SEED") {
        return run(seed..seed + 1, &all);
    }
    let schedules = number("TSTAR_TEST_CHAOS").unwrap_or(10);
    let first = u64::from(fastrand::u32(..));
    println!("chaos: schedules of seeds from {first}");
    for round in 0..AT_MOST {
        run(first + round * schedules..first + (round + 1) * schedules, &all);
        let tally = *all.lock().unwrap();
        println!("{} schedules: {tally:?}", (round + 1) * schedules);
        if tally.is_complete() {
            return counts::CHAOS.print((round + 1) * schedules);
        }
    }
    panic!("not all occurred: {:?}", all.lock().unwrap());
}
