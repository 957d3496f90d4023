//! What the owners of several partitions share: memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{Gauge, gauge};

use crate::telemetry::STATE_BYTES;

/// How much memory the trips of all processors take together.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    taken: AtomicUsize,
    sharers: AtomicUsize,
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        let (taken, sharers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limit, taken, sharers })
    }

    /// What all trips take now, about, bytes.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
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
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        budget.sharers.fetch_add(1, Ordering::Relaxed);
        Self { budget, told: 0, shown: gauge!(STATE_BYTES) }
    }

    /// Tells what the processor's trips take now.
    pub(super) fn set_resident(&mut self, resident: usize) {
        self.budget.taken.fetch_add(resident, Ordering::Relaxed);
        self.budget.taken.fetch_sub(self.told, Ordering::Relaxed);
        self.told = resident;
        #[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^53 bytes")]
        self.shown.set(self.budget.taken() as f64);
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
        self.set_resident(0);
        self.budget.sharers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_much_lets_go_and_who_ends_gives_back() {
        let budget = Budget::new(1000);
        let (mut large, mut small) = (Share::new(Arc::clone(&budget)), Share::new(budget.clone()));
        large.set_resident(700);
        small.set_resident(200);
        assert!(!large.is_over() && !small.is_over());
        large.set_resident(850);
        assert!(large.is_over() && !small.is_over());
        drop(large);
        assert_eq!(budget.taken(), 200);
        small.set_resident(1001);
        assert!(small.is_over());
    }
}
