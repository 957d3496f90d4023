//! What the owners of several partitions share: memory, and devices, each of which is one owner's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use metrics::{Gauge, gauge};

use crate::metrics::STATE_BYTES;

/// What a device takes here beside its name, about, bytes.
const CLAIM_BYTES: usize = 96;

/// The partition whose owner has a device in memory, and how often: who held the partition before
/// may not have let go yet.
type Holders = HashMap<Arc<str>, (i32, usize), foldhash::fast::RandomState>;

/// How much memory the trips of all processors take together, and which of them has which device.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    taken: AtomicUsize,
    sharers: AtomicUsize,
    holders: Mutex<Holders>,
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        let (taken, sharers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limit, taken, sharers, holders: Mutex::default() })
    }

    /// What all trips take now, about, bytes.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().expect("no holder of the lock panics")
    }
}

/// A device in the memory of one processor; nobody else's until this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    budget: Arc<Budget>,
    name: Arc<str>,
}

impl Claim {
    /// What it takes in memory, about, bytes.
    pub(super) fn memory(&self) -> usize {
        CLAIM_BYTES + self.name.len()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut holders = self.budget.holders();
        if let Entry::Occupied(mut held) = holders.entry(Arc::clone(&self.name)) {
            held.get_mut().1 -= 1;
            if held.get().1 == 0 {
                held.remove();
            }
        }
    }
}

/// One processor's part of a budget, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    told: usize,
    /// Of all of them together.
    shown: Gauge,
}

impl Share {
    pub(super) fn of(budget: Arc<Budget>) -> Self {
        budget.sharers.fetch_add(1, Ordering::Relaxed);
        Self { budget, told: 0, shown: gauge!(STATE_BYTES) }
    }

    /// Tells what the processor's trips take now.
    pub(super) fn tell(&mut self, resident: usize) {
        self.budget.taken.fetch_add(resident, Ordering::Relaxed);
        self.budget.taken.fetch_sub(self.told, Ordering::Relaxed);
        self.told = resident;
        #[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^53 bytes")]
        self.shown.set(self.budget.taken() as f64);
    }

    /// Makes a device the one of a partition.
    ///
    /// # Errors
    /// The partition whose owner has it in memory. What an owner lets go is in the store by then.
    pub(super) fn claim(&self, name: &str, partition: i32) -> Result<Claim, i32> {
        let mut holders = self.budget.holders();
        let name: Arc<str> = name.into();
        let (held_by, times) = holders.entry(Arc::clone(&name)).or_insert((partition, 0));
        if *held_by != partition {
            return Err(*held_by);
        }
        *times += 1;
        Ok(Claim { budget: Arc::clone(&self.budget), name })
    }

    /// Whether the processor has to let go of trips: memory is short, and it is not one of those
    /// that take little.
    pub(super) fn is_over(&self) -> bool {
        let sharers = self.budget.sharers.load(Ordering::Relaxed).max(1);
        let fair = self.budget.limit / sharers;
        self.budget.taken() > self.budget.limit && self.told > fair / 2
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.tell(0);
        self.budget.sharers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_much_lets_go_and_who_ends_gives_back() {
        let budget = Budget::new(1000);
        let (mut large, mut small) = (Share::of(Arc::clone(&budget)), Share::of(budget.clone()));
        large.tell(700);
        small.tell(200);
        assert!(!large.is_over() && !small.is_over());
        large.tell(850);
        assert!(large.is_over() && !small.is_over());
        drop(large);
        assert_eq!(budget.taken(), 200);
        small.tell(1001);
        assert!(small.is_over());
    }

    #[test]
    fn a_device_is_of_one_partition_as_long_as_anybody_has_it() {
        let budget = Budget::new(1000);
        let (one, other) = (Share::of(Arc::clone(&budget)), Share::of(Arc::clone(&budget)));
        let first = one.claim("truck-1", 4).unwrap();
        assert_eq!(other.claim("truck-1", 7).unwrap_err(), 4);
        other.claim("truck-2", 7).unwrap();
        // The partition is given back and taken again before who held it is gone.
        let again = other.claim("truck-1", 4).unwrap();
        drop(first);
        assert_eq!(one.claim("truck-1", 7).unwrap_err(), 4);
        drop(again);
        assert!(budget.holders().is_empty());
        one.claim("truck-1", 7).unwrap();
    }
}
