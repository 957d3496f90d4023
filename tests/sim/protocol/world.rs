//! The environment of the processes: the nodes of their store, the brokers, and the network between
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt;
use rdkafka::types::RDKafkaErrorCode as Code;
use scylla::serialize::row::SerializeRow;
use tstar::internals::kafka::producer::ProducerRecord;
use tstar::internals::kafka::transactions::TransactionRecord;
use tstar::internals::model::scalar::{Day, DeviceTime};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{Forget, Kinds, Order, TripRow, TripStore};

use super::broker::{Client, Group, Lane};
use super::log::{Script, name};
use super::outputs::{self, Event, Letter};
use super::restore::Backup;
use super::table::Table;
use crate::nodes::{self, Connection, Nodes, PAIRS, Partition, Replica, SharedNodes};
pub use crate::support::Dice;

/// The first byte of a device's name, which is all of it.
pub type Device = u8;

/// Partition, offset and element.
pub type Place = (i32, i64, u32);

/// The partition of each device in an epoch.
pub type Homes = BTreeMap<(Device, i32), i32>;

pub type Shared = Arc<Mutex<World>>;

pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().expect("no holder of the lock panics")
}

/// A message under way to a broker.
enum Message {
    Append { owner: usize, append: usize, is_letter: bool, record: Arc<ProducerRecord> },
    Transaction(Transaction),
    Commit(Commit),
}

/// The end of a transaction, with its records.
struct Transaction {
    owner: usize,
    append: usize,
    producer: (String, u64),
    records: Arc<[TransactionRecord]>,
}

impl Message {
    /// The process that sent it, and the append whose outcome it decides, if any.
    fn sender(&self) -> (usize, Option<usize>) {
        match self {
            Self::Append { owner, append, .. }
            | Self::Transaction(Transaction { owner, append, .. }) => (*owner, Some(*append)),
            Self::Commit(commit) => (commit.owner, None),
        }
    }
}

/// An asynchronous commit.
pub struct Commit {
    owner: usize,
    member: Option<u64>,
    generation: u64,
    offsets: Vec<(i32, i64)>,
}

/// What becomes of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    Waits,
    Acknowledged,
    TimedOut,
    /// Another producer has the transactional id.
    Fenced,
}

/// Number of occurrences of each kind of event.
pub type EventCounts = BTreeMap<&'static str, u64>;

/// What each replica of a pair held of a day of a device, and the trips that they answered.
type Answer = ([Arc<Partition>; 2], Arc<[TripRow]>);

/// The owner whose requests are checks: it reads at once, and writes nothing.
const OBSERVER: usize = usize::MAX;

pub struct World {
    pub dice: Dice,
    pub nodes: SharedNodes,
    wire: Vec<Message>,
    appends: Vec<Append>,
    /// The store on any two replicas, and on each pair of [`PAIRS`].
    pub any_pair: ScyllaStore<Connection>,
    by_pair: [ScyllaStore<Connection>; 3],
    answers: BTreeMap<(Device, Day, usize), Answer>,
    pub feed: Vec<Event>,
    pub letters: Vec<Letter>,
    pub table: Table,
    pub scripts: Vec<Arc<Script>>,
    pub lanes: Vec<Lane>,
    pub group: Group,
    /// The client of each process; `None` once it is dead.
    pub clients: Vec<Option<Client>>,
    /// The number of reads that each process waits for.
    pub loads: BTreeMap<usize, usize>,
    /// Epochs that have begun: one does once everything before it is committed, in each partition.
    pub epochs: usize,
    /// What claims decided, even if they were erased since.
    pub homes: Homes,
    /// Per partition, the records that expired unread, and where reading continued.
    pub expired: Vec<Option<(usize, Option<usize>)>>,
    /// The topics of feed and dead letters accept nothing.
    pub is_down: [bool; 2],
    /// Brokers make no faults any more.
    pub is_calm: bool,
    /// A commit was applied since the last check.
    pub has_news: bool,
    /// How often an operator has reset the offsets of the group.
    pub resets: u64,
    /// A backup that is under way.
    pub backup: Option<Backup>,
    /// The partitions whose rows were restored, and lack some of this number of records.
    pub behind: BTreeMap<usize, usize>,
    pub seen: EventCounts,
    pub bad: BTreeSet<&'static str>,
    pub is_verbose: bool,
}

impl World {
    pub fn new(mut dice: Dice, scripts: &[Arc<Script>], is_verbose: bool) -> Self {
        let of_nodes = Dice::new(dice.below(usize::MAX) as u64);
        let mut nodes = Nodes::new(of_nodes, false);
        nodes.is_verbose = is_verbose;
        let nodes = Arc::new(Mutex::new(nodes));
        let connection = |pair| Connection::at_once(&nodes, OBSERVER, pair);
        let store = |pair| at_once(nodes::store(connection(pair)));
        let lane =
            |script: &Arc<Script>| Lane { partition: script.log.partition, ..Lane::default() };
        Self {
            any_pair: store(None),
            by_pair: PAIRS.map(|pair| store(Some(pair))),
            answers: BTreeMap::new(),
            nodes,
            wire: Vec::new(),
            appends: Vec::new(),
            feed: Vec::new(),
            letters: Vec::new(),
            table: Table::default(),
            lanes: scripts.iter().map(lane).collect(),
            scripts: scripts.to_vec(),
            group: Group { is_cooperative: dice.percent(70), ..Group::default() },
            dice,
            clients: Vec::new(),
            loads: BTreeMap::new(),
            epochs: 1,
            homes: Homes::new(),
            expired: vec![None; scripts.len()],
            is_down: [false; 2],
            is_calm: false,
            has_news: false,
            resets: 0,
            backup: None,
            behind: BTreeMap::new(),
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

    /// Whether a fault of this probability, per thousand, happens.
    pub fn fails(&mut self, of_thousand: usize) -> bool {
        !self.is_calm && self.dice.below(1_000) < of_thousand
    }

    /// Sends a record to the feed or the dead letters. Some requests time out, whether or not the
    /// record is appended.
    pub fn append(&mut self, owner: usize, is_letter: bool, record: &ProducerRecord) -> usize {
        let append = self.appends.len();
        self.log(|| format!("  {owner} appends {append}: {}", outputs::shown(record)));
        if self.is_down[usize::from(is_letter)] {
            self.appends.push(Append::TimedOut);
            self.see(if is_letter { "letters that are down" } else { "feeds that are down" });
            return append;
        }
        if self.fails(30) {
            self.appends.push(Append::TimedOut);
            self.see("appends that time out");
            return append;
        }
        let times_out = self.fails(30);
        self.appends.push(if times_out { Append::TimedOut } else { Append::Waits });
        if times_out {
            self.see("appends that time out and take effect");
        }
        let record = Arc::new(record.clone());
        self.wire.push(Message::Append { owner, append, is_letter, record });
        append
    }

    pub fn outcome(&self, append: usize) -> Append {
        self.appends[append]
    }

    /// Whether an owner waits for an append.
    fn is_appending(&self, owner: usize) -> bool {
        let waits = |append: usize| self.appends[append] == Append::Waits;
        let mut sent = self.wire.iter().map(Message::sender);
        sent.any(|(of, append)| of == owner && append.is_some_and(waits))
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
            // Commits may be late, and overtake one another.
            if matches!(self.wire[nth], Message::Commit(_)) && self.fails(850) {
                continue;
            }
            match self.wire.swap_remove(nth) {
                Message::Append { append, is_letter, record, .. } => {
                    if self.appends[append] == Append::Waits {
                        self.appends[append] = Append::Acknowledged;
                    }
                    self.log(|| format!("  {append} is appended"));
                    if is_letter {
                        self.letters.push(Letter::parse(&record));
                    } else {
                        self.feed.push(Event::parse(&record));
                    }
                }
                Message::Transaction(transaction) => self.transaction_arrives(&transaction),
                Message::Commit(commit) => self.commit_arrives(&commit),
            }
        }
    }

    /// Sends the end of a transaction. `None`: the brokers do not answer, or abort it.
    pub fn send_transaction(
        &mut self,
        owner: usize,
        producer: &(String, u64),
        records: &Arc<[TransactionRecord]>,
    ) -> Option<usize> {
        if self.is_down[0] || self.fails(30) {
            self.see("transactions that are aborted");
            return None;
        }
        let append = self.appends.len();
        let times_out = self.fails(30);
        self.appends.push(if times_out { Append::TimedOut } else { Append::Waits });
        self.log(|| format!("  {owner} sends transaction {append} of {producer:?}"));
        let (producer, records) = (producer.clone(), Arc::clone(records));
        self.wire.push(Message::Transaction(Transaction { owner, append, producer, records }));
        Some(append)
    }

    /// A transaction takes effect, unless its producer is fenced.
    fn transaction_arrives(&mut self, transaction: &Transaction) {
        let Transaction { append, producer, records, .. } = transaction;
        let is_current = self.table.is_current(producer);
        self.log(|| format!("  transaction {append} is committed: {is_current}"));
        if is_current {
            let tombstones = self.table.commit(records);
            self.see_many("tombstones", tombstones);
        } else {
            self.see("transactions that are fenced");
        }
        if self.appends[*append] == Append::Waits {
            let outcome = if is_current { Append::Acknowledged } else { Append::Fenced };
            self.appends[*append] = outcome;
        }
    }

    /// An asynchronous commit arrives. Its response may be lost, as may the commit.
    fn commit_arrives(&mut self, commit: &Commit) {
        if self.fails(50) {
            return self.see("asynchronous commits that are lost");
        }
        let offsets = &commit.offsets;
        let is_accepted = self.commit(commit.owner, commit.member, commit.generation, offsets);
        if is_accepted.is_err() {
            return self.see("asynchronous commits that are refused");
        }
        if self.fails(50) {
            return self.see("responses to commits that are lost");
        }
        if let Some(client) = &mut self.clients[commit.owner] {
            client.known.extend(offsets.iter().copied());
        }
    }

    /// Commits offsets, if the member and its generation are current.
    fn commit(
        &mut self,
        owner: usize,
        member: Option<u64>,
        generation: u64,
        offsets: &[(i32, i64)],
    ) -> Result<(), Code> {
        if !self.group.accepts(member, generation) {
            self.log(|| format!("{owner}: commit of {offsets:?} refused"));
            if offsets.iter().any(|(of, _)| self.group.owner(*of).is_some_and(|it| it != owner)) {
                self.see("commits of a former owner");
            }
            return Err(Code::IllegalGeneration);
        }
        self.log(|| format!("{owner} commits {offsets:?}"));
        for &(partition, offset) in offsets {
            let lane = self.lanes.iter_mut().find(|lane| lane.partition == partition);
            let lane = lane.expect("there is such a partition");
            let falls_back = lane.committed.is_some_and(|committed| committed > offset);
            lane.committed = Some(offset);
            lane.passed = lane.passed.max(script_of(&self.scripts, partition).before(offset));
            if falls_back {
                self.see("commits that fall back");
            }
        }
        self.has_news = true;
        Ok(())
    }

    /// Sends an asynchronous commit.
    pub fn commit_later(&mut self, owner: usize, offsets: &[(i32, i64)]) {
        let Some(client) = &self.clients[owner] else { return };
        let (member, generation) = (client.member, client.generation);
        let offsets = offsets.to_vec();
        self.wire.push(Message::Commit(Commit { owner, member, generation, offsets }));
    }

    /// Commits synchronously. Earlier commits of the process arrive before it, or never.
    pub fn commit_now(&mut self, owner: usize, offsets: &[(i32, i64)]) -> Result<(), Code> {
        let is_its = |sent: &mut Message| matches!(sent, Message::Commit(it) if it.owner == owner);
        let earlier: Vec<_> = self.wire.extract_if(.., is_its).collect();
        for message in earlier {
            if let Message::Commit(commit) = message
                && self.dice.percent(50)
            {
                self.commit_arrives(&commit);
            }
        }
        if self.fails(60) {
            self.see("synchronous commits that fail");
            return Err(Code::OperationTimedOut);
        }
        let Some(client) = &self.clients[owner] else { return Err(Code::OperationTimedOut) };
        self.commit(owner, client.member, client.generation, offsets)?;
        if self.fails(40) {
            self.see("synchronous commits whose answer is lost");
            return Err(Code::OperationTimedOut);
        }
        let client = self.clients[owner].as_mut().expect("it lives");
        client.known.extend(offsets.iter().copied());
        Ok(())
    }

    /// The offset at which the group continues, as it would be read now.
    pub fn committed(&self, lane: usize) -> i64 {
        self.lanes[lane].committed.unwrap_or(0)
    }

    /// Number of records of a partition that the group does not read again.
    pub fn passed(&self, lane: usize) -> usize {
        self.scripts[lane].before(self.committed(lane))
    }

    /// A process dies: its messages in flight arrive whole, in part or not at all.
    pub fn die(&mut self, owner: usize) {
        let keep = self.dice.one_of(&[0, 50, 100]);
        self.log(|| format!("{owner} dies, {keep} % of its messages arrive"));
        if self.is_appending(owner) || self.nodes().is_writing(owner) {
            self.see("crashes in the middle of a write");
        } else if self.loads.get(&owner).is_some_and(|loads| *loads > 0) {
            self.see("crashes in the middle of a load");
        }
        self.clients[owner] = None;
        let dice = &mut self.dice;
        self.wire.retain(|sent| sent.sender().0 != owner || dice.percent(keep));
        self.nodes().die(owner, keep);
    }

    /// The trips of a device and a day, as a pair of replicas answers. It is asked again only if
    /// either replica holds something else than when it was asked last.
    pub fn trips_from(&mut self, device: Device, day: Day, pair: usize) -> Arc<[TripRow]> {
        let (place, name) = ((device, day, pair), name(device));
        let start_ms = day.start_ms().ms();
        let held = PAIRS[pair].map(|of| self.nodes().trips_of_day(of, &name, start_ms));
        if let Some((before, trips)) = self.answers.get(&place)
            && *before == held
        {
            return Arc::clone(trips);
        }
        let trips = at_once(self.by_pair[pair].rows_of_day(&name, day)).expect("nothing fails");
        let trips: Arc<[TripRow]> = trips.into();
        self.answers.insert(place, (held, Arc::clone(&trips)));
        trips
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
        let all = self.any_pair.range(&name, Kinds::All, from, upto, Order::Asc, usize::MAX);
        at_once(all).expect("nothing fails")
    }

    /// All trips of a device, as each replica of a pair holds them.
    pub fn stored(&self, device: Device) -> [Replica; 2] {
        PAIRS[0].map(|replica| self.nodes().trips_of(replica, &name(device)))
    }

    /// The floor of a device that every reader sees.
    pub fn known_floor(&self, device: Device) -> DeviceTime {
        let floor = |store: &ScyllaStore<Connection>| {
            let forget = at_once(store.erased(&name(device))).expect("nothing fails");
            forget.map_or(DeviceTime::MIN, |forget| forget.before_ms)
        };
        self.by_pair.iter().map(floor).min().expect("there are pairs")
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
}

fn script_of(scripts: &[Arc<Script>], partition: i32) -> &Script {
    let mut found = scripts.iter().filter(|script| script.log.partition == partition);
    found.next().expect("there is such a partition")
}

/// The result of a future that waits for nothing.
pub fn at_once<F: Future>(future: F) -> F::Output {
    future.now_or_never().expect("it waits for nothing")
}
