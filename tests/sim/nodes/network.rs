//! The nodes and the network between them and their clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

use super::data::{Change, Component, Mutation, Partition, Place, Replica, locate};
use super::statement::Condition;
use crate::support::Dice;

/// The quorums of three replicas.
pub const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

/// The server's clock at first, microseconds since 1970: later than every version of a test.
const CLOCK: i64 = 1_800_000_000_000_000;

/// Index of the table of trips: the first one of the schema.
const TRIPS: usize = 0;

/// Index of the table of forgets.
const FORGETS: usize = 4;

struct Message {
    /// Index of the replica.
    to: usize,
    mutation: Arc<Mutation>,
    operation: usize,
}

/// A write, and its acknowledgements.
struct Operation {
    owner: usize,
    by: u8,
    /// The coordinator gives up once one replica has it.
    times_out: bool,
    failed: bool,
    waker: Option<Waker>,
}

impl Operation {
    /// How it ended, if it did.
    fn outcome(&self) -> Option<Result<(), &'static str>> {
        if self.failed {
            return Some(Err("the write timed out"));
        }
        (self.by.count_ones() >= 2).then_some(Ok(()))
    }
}

/// Three replicas, and the messages under way to them.
pub struct Nodes {
    pub dice: Dice,
    pub replicas: [Replica; 3],
    /// What conditional writes decided, in their one order.
    pub serial: Replica,
    wire: Vec<Message>,
    operations: Vec<Operation>,
    clock: i64,
    /// Whether nothing is late, lost or repeated.
    pub is_calm: bool,
    /// Whether deletions have no effect: a planted fault, which schedules have to notice.
    pub loses_deletions: bool,
    /// Two values of a trip were written at one timestamp.
    pub differs: bool,
    /// Prints what arrives.
    pub is_verbose: bool,
    pub seen: BTreeMap<&'static str, u64>,
}

impl Nodes {
    pub fn new(dice: Dice, is_calm: bool) -> Self {
        Self {
            dice,
            replicas: Default::default(),
            serial: Replica::default(),
            wire: Vec::new(),
            operations: Vec::new(),
            clock: CLOCK,
            is_calm,
            loses_deletions: false,
            differs: false,
            is_verbose: false,
            seen: BTreeMap::new(),
        }
    }

    pub fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_insert(0) += 1;
    }

    /// Whether a fault of this probability, per thousand, happens.
    pub fn fails(&mut self, of_thousand: usize) -> bool {
        !self.is_calm && self.dice.below(1_000) < of_thousand
    }

    /// The server's time.
    pub fn now(&mut self) -> i64 {
        self.clock += 1;
        self.clock
    }

    /// Sends a mutation to all replicas. Some messages are repeated, and some writes time out:
    /// before any message is sent, or while the others are under way.
    pub fn send(&mut self, owner: usize, mut mutation: Mutation) -> usize {
        if self.loses_deletions {
            mutation.changes.retain(|change| !matches!(change, Change::Deletion(_)));
        }
        let (failed, times_out) = (self.fails(10), self.fails(20));
        let waker = None;
        self.operations.push(Operation { owner, by: 0, times_out, failed, waker });
        let operation = self.operations.len() - 1;
        if failed {
            self.see("requests that no server receives");
            return operation;
        }
        if self.is_verbose {
            println!("  {owner} sends {operation}: {mutation:?}");
        }
        let mutation = Arc::new(mutation);
        for to in 0..3 {
            for _ in 0..1 + usize::from(self.fails(100)) {
                self.wire.push(Message { to, mutation: Arc::clone(&mutation), operation });
            }
        }
        if self.is_calm {
            self.deliver(usize::MAX);
        }
        operation
    }

    /// How a write ended; otherwise wakes its client when it does.
    pub fn outcome(&mut self, operation: usize, waker: &Waker) -> Option<Result<(), &'static str>> {
        let operation = &mut self.operations[operation];
        let outcome = operation.outcome();
        if outcome.is_none() {
            operation.waker = Some(waker.clone());
        }
        outcome
    }

    /// Number of messages under way.
    pub fn waiting(&self) -> usize {
        self.wire.len()
    }

    /// Whether an owner waits for a write.
    pub fn is_writing(&self, owner: usize) -> bool {
        let mut of_owner = self.operations.iter().filter(|of| of.owner == owner);
        of_owner.any(|of| of.waker.is_some())
    }

    /// Delivers this number of random messages.
    pub fn deliver(&mut self, messages: usize) {
        for _ in 0..messages.min(self.wire.len()) {
            let nth = self.dice.below(self.wire.len());
            let message = self.wire.swap_remove(nth);
            if self.is_verbose {
                println!("  {} reaches {}", message.operation, message.to);
            }
            let differs = self.replicas[message.to].apply(&message.mutation);
            // Attempts at a forget may write different days, of which the greater value counts.
            self.differs |= differs && message.mutation.place.0 == TRIPS;
            let operation = &mut self.operations[message.operation];
            operation.by |= 1 << message.to;
            if operation.times_out && operation.outcome().is_none() {
                operation.failed = true;
                self.see("writes that time out and take effect");
            }
            let operation = &mut self.operations[message.operation];
            if operation.outcome().is_some() {
                operation.waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    /// An owner dies: this share of its messages arrives.
    pub fn die(&mut self, owner: usize, percent: usize) {
        let (dice, operations) = (&mut self.dice, &self.operations);
        let is_its = |operation: usize| operations[operation].owner == owner;
        self.wire.retain(|sent| !is_its(sent.operation) || dice.percent(percent));
        let on_wire: BTreeSet<_> = self.wire.iter().map(|sent| sent.operation).collect();
        let its = operations.iter().enumerate().filter(|(_, of)| of.owner == owner);
        let halves = its.filter(|(nth, of)| of.by.count_ones() == 1 && !on_wire.contains(nth));
        let halves = halves.count() as u64;
        *self.seen.entry("half-written quorums").or_insert(0) += halves;
    }

    /// Replaces what the replicas hold by what they held; if `is_torn`, only some partitions of
    /// each, and none of the table of forgets, which is copied last. Nothing is under way any more.
    /// Returns what the replicas held before, and what was decided.
    pub fn restore(&mut self, held: &[Replica; 3], is_torn: bool) -> ([Replica; 3], Replica) {
        let before = (self.replicas.clone(), self.serial.clone());
        self.wire.clear();
        let dice = &mut self.dice;
        for (replica, held) in self.replicas.iter_mut().zip(held) {
            replica.restore(held, |place| !is_torn || place.0 != FORGETS && dice.percent(50));
        }
        let mut decided = Replica::default();
        for replica in &self.replicas {
            decided.merge(replica);
        }
        self.serial = decided;
        before
    }

    /// Sets what [`Nodes::restore`] has replaced.
    pub fn hold(&mut self, before: ([Replica; 3], Replica)) {
        (self.replicas, self.serial) = before;
    }

    /// What a replica holds, for reading a partition (`None`: all of a table).
    pub fn snapshot(&self, replica: usize, table: usize, place: Option<&Place>) -> Replica {
        self.replicas[replica].snapshot(table, place)
    }

    /// What a replica holds of the trips of a device in the day that begins at this time.
    pub fn trips_of_day(&self, replica: usize, device_id: &str, start_ms: i64) -> Arc<Partition> {
        let key = vec![Component::Text(device_id.to_owned()), Component::Number(start_ms)];
        self.replicas[replica].partition(&locate(TRIPS, key))
    }

    /// What a replica holds of the trips of a device.
    pub fn trips_of(&self, replica: usize, device_id: &str) -> Replica {
        let is_its = |place: &Place| match &place.2[..] {
            [Component::Text(of), ..] => of == device_id,
            _ => false,
        };
        self.replicas[replica].snapshot_of(TRIPS, is_its)
    }

    /// Applies a conditional write in the one order of all. Returns whether it was applied, and the
    /// mutation that replicas have to have before the answer: its own, or what decided against it.
    pub fn decide(
        &mut self,
        mutation: Mutation,
        condition: Condition,
        key: &[Component],
    ) -> (bool, Mutation) {
        let standing = self.serial.partition(&mutation.place);
        let row = standing.rows.get(key).filter(|row| row.is_live()).cloned();
        let holds = match &condition {
            Condition::NotExists | Condition::None => row.is_none(),
            Condition::Exists => row.is_some(),
            Condition::Equals(column, bytes) => row.as_ref().is_some_and(|row| {
                let cell = row.cells.get(&(*column, Vec::new()));
                cell.and_then(|cell| cell.value.as_ref()) == Some(bytes)
            }),
        };
        if holds {
            self.see(match condition {
                Condition::Exists => "rows that conditional statements delete",
                Condition::Equals(..) => "rows that conditional statements change",
                _ => "rows that conditional statements insert",
            });
            self.serial.apply(&mutation);
            return (true, mutation);
        }
        let deletions = standing.deletions.iter().cloned().map(Change::Deletion);
        let row = row.map(|row| Change::Row(key.to_vec(), row));
        (false, Mutation { place: mutation.place, changes: deletions.chain(row).collect() })
    }
}
