//! The memory limit that the processors of several partitions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{Gauge, gauge};

use crate::telemetry::STATE_BYTES;

/// Memory used by the trips of all processors together, and its limit.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    taken: AtomicUsize,
    shares: AtomicUsize,
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        let (taken, shares) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limit, taken, shares })
    }

    /// Approximate memory used by all trips, bytes.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Memory that one processor uses of a budget; released on drop.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    reported: usize,
    /// Metric of the whole budget.
    gauge: Gauge,
}

impl Share {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        budget.shares.fetch_add(1, Ordering::Relaxed);
        Self { budget, reported: 0, gauge: gauge!(STATE_BYTES) }
    }

    /// Sets the memory that the trips of the processor use, bytes.
    pub(super) fn set_resident(&mut self, resident: usize) {
        self.budget.taken.fetch_add(resident, Ordering::Relaxed);
        self.budget.taken.fetch_sub(self.reported, Ordering::Relaxed);
        self.reported = resident;
        #[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^53 bytes")]
        self.gauge.set(self.budget.taken() as f64);
    }

    /// The limit, divided by the number of shares, bytes.
    fn equal_share(&self) -> usize {
        self.budget.limit / self.budget.shares.load(Ordering::Relaxed).max(1)
    }

    /// Whether the processor has to evict trips: the budget is exceeded, and the processor uses
    /// more than half of an equal share.
    pub(super) fn is_over(&self) -> bool {
        self.budget.taken() > self.budget.limit && self.reported > self.equal_share() / 2
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set_resident(0);
        self.budget.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_shares_evict_and_a_dropped_share_is_released() {
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
