//! Schedules of kills, stops, joins and leaves. A seed makes one: `TSTAR_TEST_CHAOS_SEED` runs it
//! alone, `TSTAR_TEST_CHAOS` says how many are run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tstar::kafka::client::Brokers;
use tstar::kafka::group::Group;

use super::check::{events, nothing_is_ahead};
use super::outcome::is_whole;
use super::{Instance, PARTITIONS, Said, Site};
use crate::faults::until;
use crate::servers;

const SAMPLES: usize = 20_000;

/// Schedules that run side by side.
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

/// What the schedules were.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Kills between the first and the last flush.
    kills: usize,
    /// Stops for longer than the session lasts.
    stops: usize,
    /// Records that were applied and told, and had to be read again.
    read_again: i64,
    /// Partitions that went to another instance.
    moves: usize,
    /// Partitions that an instance had lost before it knew.
    lost: usize,
    /// Merges that were told when their instance was killed or stopped, and not committed yet.
    merges_in_flight: usize,
    /// Committed records that were looked for in the middle.
    looked_at: usize,
}

impl Tally {
    fn counts(&self) -> [usize; 7] {
        let read_again = usize::try_from(self.read_again).unwrap();
        let Self { kills, stops, moves, lost, merges_in_flight, looked_at, .. } = *self;
        [kills, stops, read_again, moves, lost, merges_in_flight, looked_at]
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
        self.looked_at += other.looked_at;
    }
}

/// One schedule while it runs.
struct Schedule<'a> {
    site: &'a Site,
    group: Group,
    random: ChaCha8Rng,
    running: Vec<Instance>,
    ended: Vec<Instance>,
    sent: usize,
    /// How long the feed was at each kill.
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

    /// Sends the next part of the log, and waits until some of it is told.
    fn go_on(&mut self, parts: usize) {
        let before = self.site.told();
        let upto = (self.sent + SAMPLES.div_ceil(parts)).min(SAMPLES);
        self.site.send(&self.site.lines[self.sent..upto]);
        self.sent = upto;
        let more = i64::try_from(self.below(40)).unwrap() + 1;
        until("events", || (self.site.told() >= before + more).then_some(()));
    }

    /// Waits until each instance has a partition, so that whichever is hit is at work.
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
                let mut leaves = self.running.remove(nth);
                leaves.signal("TERM");
                leaves.drains();
                self.ended.push(leaves);
            }
        }
    }

    fn kill(&mut self, nth: usize) {
        let mut killed = self.running.remove(nth);
        let told = self.site.told();
        killed.kill();
        let committed = self.site.committed(&self.site.topic.name);
        self.interrupted(&killed.holds(), &committed);
        self.ended.push(killed);
        if self.kills.is_empty() {
            self.tally.looked_at += nothing_is_ahead(self.site, &committed);
        }
        self.kills.push(told);
        if self.below(2) == 0 {
            self.join();
        }
    }

    /// Stops an instance until the group has given it up and others go on, then lets it wake.
    fn stop(&mut self, nth: usize) {
        let stopped = &self.running[nth];
        stopped.signal("STOP");
        let committed = self.site.committed(&self.site.topic.name);
        let holds = stopped.holds();
        self.interrupted(&holds, &committed);
        let others = self.running.len() - 1;
        until("the group to give an instance up", || {
            (self.group.members().unwrap() == others).then_some(())
        });
        self.go_on(ACTS.len() * 3);
        self.running[nth].signal("CONT");
        self.tally.stops += 1;
    }

    /// Counts what an instance had done beyond what was committed. Nobody else has its partitions
    /// yet.
    fn interrupted(&mut self, holds: &BTreeSet<i32>, committed: &BTreeMap<i32, i64>) {
        let base = self.site.base(&self.site.keyspace.store());
        let events = events(self.site);
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

    /// All that is left runs to the ends of the log and drains.
    fn heal(&mut self) {
        if self.running.is_empty() {
            self.join();
        }
        self.site.until_committed(&self.site.topic.name, &mut self.running);
        for instance in &mut self.running {
            instance.signal("TERM");
        }
        for instance in &mut self.running {
            instance.drains();
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
            self.go_on(ACTS.len() * 3 / 2);
            self.act(act);
        }
        self.go_on(1);
        assert_eq!(self.sent, SAMPLES);
        self.heal();
        let told = self.site.told();
        self.tally.kills = self.kills.iter().filter(|at| (1..told).contains(*at)).count();
        let said: Vec<_> = self.ended.iter().flat_map(Instance::has_said).collect();
        let count = |is: fn(&Said) -> bool| said.iter().filter(|said| is(said)).count();
        self.tally.moves = count(|said| matches!(said, Said::Held(_))) - PARTITIONS as usize;
        self.tally.lost = count(|said| matches!(said, Said::Lost(_)));
        self.tally
    }
}

impl Drop for Schedule<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for instance in self.ended.iter().chain(&self.running) {
                eprintln!("{}", instance.tell());
            }
        }
    }
}

/// Says how to run a schedule again that failed.
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
    let asked = std::env::var(name).ok()?;
    Some(asked.parse().unwrap_or_else(|_| panic!("{name} is {asked}")))
}

/// How often as many schedules are run, where not all had occurred before: what meets what is up
/// to the servers.
const AT_MOST: u64 = 4;

/// Runs the schedules of these seeds, some side by side; adds what they were.
fn run(seeds: Range<u64>, all: &Mutex<Tally>) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            let _replay = Replay(seed);
            let site = Site::new(40, SAMPLES, seed).unwrap();
            let tally = Schedule::new(&site, seed).run();
            is_whole(&site);
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
fn schedules_of_faults_end_as_a_run_that_nobody_disturbs() {
    if servers::kafka().is_none() || servers::cql().is_none() {
        return;
    }
    let all = Mutex::new(Tally::default());
    if let Some(seed) = number("TSTAR_TEST_CHAOS_SEED") {
        return run(seed..seed + 1, &all);
    }
    let schedules = number("TSTAR_TEST_CHAOS").unwrap_or(20);
    for round in 0..AT_MOST {
        run(round * schedules..(round + 1) * schedules, &all);
        let tally = *all.lock().unwrap();
        println!("{} schedules: {tally:?}", (round + 1) * schedules);
        if tally.counts().iter().all(|count| *count > 0) {
            return;
        }
    }
    panic!("not all occurred: {:?}", all.lock().unwrap());
}
