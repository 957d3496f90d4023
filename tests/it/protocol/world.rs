//! The environment of an owner: the nodes of its store, the feed and the dead letters, the group's
//! offsets, and the network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt;
use scylla::serialize::row::SerializeRow;
use tstar::internals::model::scalar::{Day, DeviceTime};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{ChangeKind, Forget, Order, TripRow, TripStore};

use super::log::name;
use crate::nodes::{self, Connection, Nodes, PAIRS, SharedNodes};
pub use crate::support::Dice;

/// The first byte of a device's name, which is all of it.
pub type Device = u8;

#[derive(Clone, Debug)]
pub enum Event {
    Trip { kind: ChangeKind, retired: Vec<DeviceTime>, row: Arc<TripRow> },
    Forgotten { device: Device, before_ms: DeviceTime },
}

/// Partition, offset and element.
pub type Place = (i32, i64, u32);

/// The partition of each device in an epoch.
pub type Homes = BTreeMap<(Device, i32), i32>;

#[derive(Clone, Debug)]
pub enum What {
    Event(Event),
    Dead(Place),
}

struct Message {
    what: What,
    append: usize,
}

/// An append to a log.
struct Append {
    owner: usize,
    is_acknowledged: bool,
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

/// The owner whose requests are checks: it reads at once, and writes nothing.
const OBSERVER: usize = usize::MAX;

pub struct World {
    pub dice: Dice,
    pub nodes: SharedNodes,
    wire: Vec<Message>,
    appends: Vec<Append>,
    /// The store on any two replicas, and on each pair of [`PAIRS`].
    any_pair: ScyllaStore<Connection>,
    by_pair: [ScyllaStore<Connection>; 3],
    pub feed: Vec<Event>,
    pub dead: Vec<Place>,
    pub desks: Vec<OwnerState>,
    /// The owner of each partition.
    pub current: [usize; 2],
    /// The group's offsets.
    pub committed: [i64; 2],
    /// Epochs that have begun: one does once everything before it is read, in each partition.
    pub epochs: usize,
    /// What claims decided, even if they were erased since.
    pub homes: Homes,
    pub seen: EventCounts,
    pub bad: BTreeSet<&'static str>,
    pub is_verbose: bool,
}

impl World {
    pub fn new(mut dice: Dice, is_verbose: bool) -> Self {
        let of_nodes = Dice::new(dice.below(usize::MAX) as u64);
        let mut nodes = Nodes::new(of_nodes, false);
        nodes.is_verbose = is_verbose;
        let nodes = Arc::new(Mutex::new(nodes));
        let connection = |pair| Connection::at_once(&nodes, OBSERVER, pair);
        let store = |pair| at_once(nodes::store(connection(pair)));
        Self {
            dice,
            any_pair: store(None),
            by_pair: PAIRS.map(|pair| store(Some(pair))),
            nodes,
            wire: Vec::new(),
            appends: Vec::new(),
            feed: Vec::new(),
            dead: Vec::new(),
            desks: Vec::new(),
            current: [0; 2],
            committed: [0; 2],
            epochs: 1,
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

    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().expect("no holder of the lock panics")
    }

    /// Appends to a log; some messages are duplicated.
    pub fn send(&mut self, owner: usize, what: What) -> usize {
        let append = self.appends.len();
        self.log(|| format!("  {owner} appends {append}: {}", describe(&what)));
        self.appends.push(Append { owner, is_acknowledged: false });
        for _ in 0..1 + usize::from(self.dice.percent(10)) {
            self.wire.push(Message { what: what.clone(), append });
        }
        append
    }

    pub fn is_acknowledged(&self, append: usize) -> bool {
        self.appends[append].is_acknowledged
    }

    pub fn is_silent(&self) -> bool {
        self.wire.is_empty() && self.nodes().waiting() == 0
    }

    /// Delivers this number of random messages.
    pub fn deliver(&mut self, messages: usize) {
        let to_nodes = self.nodes().waiting();
        for _ in 0..messages.min(self.wire.len() + to_nodes) {
            let to_nodes = self.nodes().waiting();
            let nth = self.dice.below(self.wire.len() + to_nodes);
            if nth >= self.wire.len() {
                self.nodes().deliver(1);
                continue;
            }
            let message = self.wire.swap_remove(nth);
            self.appends[message.append].is_acknowledged = true;
            self.log(|| format!("  {} is appended", message.append));
            match message.what {
                What::Event(event) => self.feed.push(event),
                What::Dead(place) => self.dead.push(place),
            }
        }
    }

    /// An owner dies: its messages in flight arrive whole, in part or not at all.
    pub fn die(&mut self, owner: usize) {
        let keep = self.dice.one_of(&[0, 50, 100]);
        self.log(|| format!("{owner} dies, {keep} % of its messages arrive"));
        if self.desks[owner].writing || self.nodes().is_writing(owner) {
            self.see("crashes in the middle of a write");
        } else if !self.desks[owner].idle {
            self.see("crashes in the middle of a load");
        }
        let (dice, appends) = (&mut self.dice, &self.appends);
        self.wire.retain(|sent| appends[sent.append].owner != owner || dice.percent(keep));
        self.nodes().die(owner, keep);
    }

    pub fn trips_from(&self, device: Device, day: i64, pair: usize) -> Vec<TripRow> {
        at_once(self.by_pair[pair].rows_of_day(&name(device), Day(day))).expect("nothing fails")
    }

    /// The answer of two replicas to a statement of a check.
    pub fn holds(&self, pair: usize, select: &str, values: impl SerializeRow + Sync) -> bool {
        let connection = Connection::at_once(&self.nodes, OBSERVER, Some(PAIRS[pair]));
        !at_once(connection.query(select, values)).expect("nothing fails").is_empty()
    }

    /// A lookup, as a reader makes it.
    pub fn covering(&self, device: Device, time_ms: DeviceTime) -> Option<TripRow> {
        at_once(self.any_pair.covering(&name(device), time_ms)).expect("nothing fails")
    }

    /// A list of all trips of a device, as a reader makes it.
    pub fn list(&self, device: Device) -> Vec<TripRow> {
        let (from, upto) = (DeviceTime::MIN, DeviceTime::MAX);
        let name = name(device);
        let all = self.any_pair.range(&name, from, upto, Order::Asc, usize::MAX);
        at_once(all).expect("nothing fails")
    }

    /// Whether a forget of a device was begun.
    pub fn is_begun(&self, device_id: &str, forget: &Forget) -> bool {
        let begun = |store: &ScyllaStore<Connection>| {
            at_once(store.forgets(device_id)).expect("nothing fails").contains(forget)
        };
        self.by_pair.iter().any(begun)
    }

    /// Whether the claim of a device in an epoch was erased, and decides nevertheless.
    pub fn is_erased_claim(&self, device_id: &str, epoch: i32) -> bool {
        let claim = "SELECT partition FROM claims WHERE device_id = ? AND epoch = ?";
        (0..PAIRS.len()).all(|pair| !self.holds(pair, claim, (device_id, epoch)))
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

/// The result of a future that waits for nothing.
fn at_once<F: Future>(future: F) -> F::Output {
    future.now_or_never().expect("it waits for nothing")
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
        other => format!("{other:?}"),
    }
}
