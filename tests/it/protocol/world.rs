//! The environment of an owner: three replicas, the claims that they agree on, the feed and the
//! dead letters, the group's offsets, and the network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::store::{ChangeKind, TripRow};

/// The first byte of a device's name, which is all of it.
pub type Device = u8;

pub struct Dice(ChaCha8Rng);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    /// A number in `least..=most`.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.below((most - least) as usize + 1) as i64
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }
}

/// A partition of a table: a mutation has one, and is applied to a replica atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partition {
    Trips(Device, i64),
    DaysOfDevice(Device),
    DeviceDays(i64),
    Forgets(Device),
    /// The static columns of [`Partition::Forgets`]: claims that a forget erased, by epoch.
    ErasedClaims(Device),
}

/// Clustering columns: (`end_time`, `start_time`) of a trip; otherwise only the first.
pub type Key = (i64, i64);

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Trip(Arc<TripRow>),
    Forget { before_ms: DeviceTime, days: Vec<i64> },
    Listed,
    Claim(i32),
}

/// Deletes every row whose key begins with a number in `from..=upto`, up to a timestamp.
#[derive(Clone, Copy, Debug)]
pub struct Delete {
    pub from: i64,
    pub upto: i64,
    pub at: i64,
}

#[derive(Clone, Debug)]
pub struct Mutation {
    pub partition: Partition,
    pub deletes: Vec<Delete>,
    /// Key, timestamp, value.
    pub row: Option<(Key, i64, Value)>,
}

#[derive(Clone, Debug)]
pub enum Event {
    Trip { kind: ChangeKind, retired: Vec<DeviceTime>, row: Arc<TripRow> },
    Forgotten { device: Device, before_ms: DeviceTime },
}

/// Partition, offset and element.
pub type Place = (i32, i64, u32);

/// The partition of each device in an epoch.
pub type Homes = BTreeMap<(Device, i32), i32>;

#[derive(Debug)]
pub enum What {
    Mutation(Mutation),
    Event(Event),
    Dead(Place),
}

#[derive(Default)]
struct Rows {
    deletes: Vec<Delete>,
    rows: BTreeMap<Key, (i64, Value)>,
}

struct Message {
    /// Index of the replica; 0 for an append to a log.
    to: u8,
    what: Arc<What>,
    operation: usize,
}

/// A mutation or an append, and its acknowledgements.
struct Operation {
    owner: usize,
    by: u8,
    needs: u32,
}

impl Operation {
    fn is_acknowledged(&self) -> bool {
        self.by.count_ones() >= self.needs
    }
}

/// The scheduler's next command for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A batch of at most this number of records.
    Absorb(usize),
    Flush,
    /// This number of ms has passed since the previous flush.
    FlushWaited(u64),
}

/// The world's knowledge of an owner.
#[derive(Default)]
pub struct OwnerState {
    /// Index of the log that it reads.
    pub lane: usize,
    pub command: Option<Command>,
    /// It waits for a command.
    pub idle: bool,
    pub position: i64,
    pub acknowledged: i64,
    /// It waits for acknowledgements.
    pub writing: bool,
    pub overlaps: u64,
}

/// Number of occurrences of each kind of event.
pub type EventCounts = BTreeMap<&'static str, u64>;

pub const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

pub struct World {
    pub dice: Dice,
    replicas: [BTreeMap<Partition, Rows>; 3],
    wire: Vec<Message>,
    operations: Vec<Operation>,
    pub feed: Vec<Event>,
    pub dead: Vec<Place>,
    pub desks: Vec<OwnerState>,
    /// The owner of each partition.
    pub current: [usize; 2],
    /// The group's offsets.
    pub committed: [i64; 2],
    /// Epochs that have begun: one does once everything before it is read, in each partition.
    pub epochs: usize,
    /// The current claims: conditional statements have one order.
    pub claims: Homes,
    /// What claims decided, even if they were erased since.
    pub homes: Homes,
    pub seen: EventCounts,
    pub bad: BTreeSet<&'static str>,
    pub is_verbose: bool,
}

impl World {
    pub fn new(dice: Dice, is_verbose: bool) -> Self {
        Self {
            dice,
            replicas: Default::default(),
            wire: Vec::new(),
            operations: Vec::new(),
            feed: Vec::new(),
            dead: Vec::new(),
            desks: Vec::new(),
            current: [0; 2],
            committed: [0; 2],
            epochs: 1,
            claims: Homes::new(),
            homes: Homes::new(),
            seen: EventCounts::new(),
            bad: BTreeSet::new(),
            is_verbose,
        }
    }

    /// Checks a decision on the partition of a device. S7: it is the same for every reader at any
    /// time.
    pub fn decide(&mut self, device: Device, epoch: i32, partition: i32) -> i32 {
        let decided = *self.homes.entry((device, epoch)).or_insert(partition);
        if decided != partition {
            self.log(|| format!("{device} was of {decided} in epoch {epoch}, now of {partition}"));
            self.bad.insert("S7 a device belongs to two partitions");
        }
        partition
    }

    pub fn see(&mut self, what: &'static str) {
        self.see_many(what, 1);
    }

    pub fn see_many(&mut self, what: &'static str, times: u64) {
        *self.seen.entry(what).or_insert(0) += times;
    }

    /// Prints an event when a single seed is replayed.
    pub fn log(&self, line: impl FnOnce() -> String) {
        if self.is_verbose {
            println!("{}", line());
        }
    }

    /// Sends a message to the network; some are duplicated.
    pub fn send(&mut self, owner: usize, what: What) -> usize {
        let is_mutation = matches!(what, What::Mutation(_));
        let (targets, needs) = if is_mutation { (3, 2) } else { (1, 1) };
        let operation = self.operations.len();
        self.log(|| format!("  {owner} sends {operation}: {}", describe(&what)));
        self.operations.push(Operation { owner, by: 0, needs });
        let what = Arc::new(what);
        for to in 0..targets {
            for _ in 0..1 + usize::from(self.dice.percent(10)) {
                self.wire.push(Message { to, what: Arc::clone(&what), operation });
            }
        }
        operation
    }

    pub fn is_acknowledged(&self, operation: usize) -> bool {
        self.operations[operation].is_acknowledged()
    }

    pub fn is_silent(&self) -> bool {
        self.wire.is_empty()
    }

    /// Delivers this number of random messages.
    pub fn deliver(&mut self, messages: usize) {
        for _ in 0..messages.min(self.wire.len()) {
            let nth = self.dice.below(self.wire.len());
            let message = self.wire.swap_remove(nth);
            self.operations[message.operation].by |= 1 << message.to;
            self.log(|| format!("  {} reaches {}", message.operation, message.to));
            match &*message.what {
                What::Event(event) => self.feed.push(event.clone()),
                What::Dead(place) => self.dead.push(*place),
                What::Mutation(mutation) => {
                    let replica = &mut self.replicas[usize::from(message.to)];
                    let same = replica.entry(mutation.partition).or_default().apply(mutation);
                    if !same {
                        self.bad.insert("one timestamp, two rows");
                    }
                }
            }
        }
    }

    /// An owner dies: its messages in flight arrive whole, in part or not at all.
    pub fn die(&mut self, owner: usize) {
        let keep = self.dice.one_of(&[0, 50, 100]);
        self.log(|| format!("{owner} dies, {keep} % of its messages arrive"));
        if self.desks[owner].writing {
            self.see("crashes in the middle of a write");
        } else if !self.desks[owner].idle {
            self.see("crashes in the middle of a load");
        }
        let (dice, operations) = (&mut self.dice, &self.operations);
        let is_its = |operation: usize| operations[operation].owner == owner;
        self.wire.retain(|sent| !is_its(sent.operation) || dice.percent(keep));
        let on_wire: BTreeSet<_> = self.wire.iter().map(|sent| sent.operation).collect();
        let mine = operations.iter().zip(0..).filter(|(of, _)| of.owner == owner && of.needs == 2);
        let halves = mine.filter(|(of, nth)| of.by.count_ones() == 1 && !on_wire.contains(nth));
        let halves = halves.count() as u64;
        self.see_many("half-written quorums", halves);
    }

    /// The content of a partition on two replicas, merged.
    pub fn read_from(&self, partition: Partition, pair: [usize; 2]) -> BTreeMap<Key, &Value> {
        let both = pair.map(|replica| self.replicas[replica].get(&partition));
        let mut newest: BTreeMap<Key, (i64, &Value)> = BTreeMap::new();
        for (key, (at, value)) in both.iter().flatten().flat_map(|rows| &rows.rows) {
            let kept = newest.entry(*key).or_insert((*at, value));
            if wins(*at, value, kept.0, kept.1) {
                *kept = (*at, value);
            }
        }
        let deletes: Vec<_> = both.iter().flatten().flat_map(|rows| &rows.deletes).collect();
        let is_deleted = |key: Key, at: i64| {
            deletes.iter().any(|it| (it.from..=it.upto).contains(&key.0) && at <= it.at)
        };
        newest.retain(|key, (at, _)| !is_deleted(*key, *at));
        newest.into_iter().map(|(key, (_, value))| (key, value)).collect()
    }

    /// The content of a partition on a quorum.
    pub fn read(&mut self, partition: Partition) -> BTreeMap<Key, &Value> {
        let pair = self.dice.one_of(&PAIRS);
        self.read_from(partition, pair)
    }

    pub fn trips_from(&self, device: Device, day: i64, pair: [usize; 2]) -> Vec<Arc<TripRow>> {
        trips(self.read_from(Partition::Trips(device, day), pair))
    }

    pub fn trips(&mut self, device: Device, day: i64) -> Vec<Arc<TripRow>> {
        trips(self.read(Partition::Trips(device, day)))
    }

    /// The lookup of the contract: the first page of 4, in the order of end and start.
    pub fn covering(&mut self, device: Device, time_ms: DeviceTime) -> Option<Arc<TripRow>> {
        let rows =
            self.trips(device, tstar::internals::timeline::day_of(time_ms).get()).into_iter();
        let page = rows.filter(|row| row.end_ms >= time_ms).take(4);
        page.filter(|row| row.start_ms <= time_ms).max_by_key(|row| row.version)
    }

    /// An owner commits an offset. The commit of a former owner usually comes too late.
    pub fn commit(&mut self, owner: usize, offset: i64) {
        let lane = self.desks[owner].lane;
        let is_current = owner == self.current[lane];
        if !is_current && !self.dice.percent(10) {
            return;
        }
        if !is_current && offset != self.committed[lane] {
            self.see("commits of a former owner");
        }
        if offset < self.committed[lane] {
            self.see("commits that fall back");
        }
        self.log(|| format!("{owner} commits {offset}"));
        self.committed[lane] = offset;
    }
}

fn trips(rows: BTreeMap<Key, &Value>) -> Vec<Arc<TripRow>> {
    let trip = |value: &Value| match value {
        Value::Trip(row) => Arc::clone(row),
        other => unreachable!("a partition of trips holds {other:?}"),
    };
    rows.into_values().map(trip).collect()
}

impl Rows {
    /// Returns whether a row of the same timestamp was the same row.
    fn apply(&mut self, mutation: &Mutation) -> bool {
        self.deletes.extend(&mutation.deletes);
        let Some((key, at, value)) = &mutation.row else { return true };
        let kept = self.rows.entry(*key).or_insert_with(|| (*at, value.clone()));
        let same = kept.0 != *at || kept.1 == *value || !matches!(value, Value::Trip(_));
        if wins(*at, value, kept.0, &kept.1) {
            *kept = (*at, value.clone());
        }
        same
    }
}

/// Of two values of one key the later one wins; with equal timestamps, the greater.
fn wins(at: i64, value: &Value, kept_at: i64, kept: &Value) -> bool {
    let is_greater = match (value, kept) {
        (Value::Forget { days, .. }, Value::Forget { days: kept, .. }) => days > kept,
        (Value::Claim(partition), Value::Claim(kept)) => partition > kept,
        _ => false,
    };
    at > kept_at || at == kept_at && is_greater
}

fn describe(what: &What) -> String {
    let row = |row: &TripRow| {
        let hours = |time: DeviceTime| (time.ms() - super::log::ORIGIN) / super::log::HOUR;
        let (device, version) = (&row.device_id, row.version);
        let (start, end, t_star) = (hours(row.start_ms), hours(row.end_ms), hours(row.t_star_ms));
        format!("trip {device} {start}..{end} t_star {t_star} version {version}")
    };
    match what {
        What::Event(Event::Trip { kind, retired, row: of }) => {
            format!("event {kind:?}, retires {retired:?}: {}", row(of))
        }
        What::Mutation(Mutation { partition, row: Some((_, _, Value::Trip(of))), .. }) => {
            format!("{} into {partition:?}", row(of))
        }
        other => format!("{other:?}"),
    }
}
