//! Limits the memory of bodies and answers over all requests.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// Maximum memory of all request bodies, in bytes: four of the largest.
pub(crate) const MAX_BODIES: usize = 64 << 20;

/// Maximum size of an answer, in bytes.
pub(crate) const MAX_ANSWER: usize = 32 << 20;

/// Maximum memory of all answers being sent, in bytes.
pub(crate) const MAX_ANSWERS: usize = 64 << 20;

/// A memory limit that requests share.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// The budget has too few bytes left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl From<Exhausted> for Problem {
    fn from(_: Exhausted) -> Self {
        Self::busy("memory", "other requests and answers use all the memory allowed for them")
    }
}

impl Budget {
    /// A budget of `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(max)))
    }

    /// An empty share.
    pub(crate) fn share(&self) -> Share {
        Share { budget: self.clone(), held: None }
    }

    /// Reserves `bytes`.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Share, Exhausted> {
        let mut share = self.share();
        share.grow(bytes).map(|()| share)
    }
}

/// A part of a [`Budget`], returned to it on drop.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    held: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Reserves `bytes` more, or fails at once. It never waits: two requests that hold a share and
    /// wait for more would deadlock.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let bytes = u32::try_from(bytes).map_err(|_| Exhausted)?;
        let more = Arc::clone(&self.budget.0).try_acquire_many_owned(bytes);
        let more = more.map_err(|_| Exhausted)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Returns up to `bytes` to the budget.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            drop(held.split(bytes.min(held.num_permits())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_reserved_in_full_and_returned() {
        let budget = Budget::new(100);
        let mut first = budget.reserve(60).unwrap();
        assert_eq!(budget.reserve(41).unwrap_err(), Exhausted);
        let second = budget.reserve(40).unwrap();
        assert_eq!(first.grow(1), Err(Exhausted));
        first.shrink(10);
        first.grow(10).unwrap();
        drop(second);
        first.grow(40).unwrap();
        assert_eq!(budget.reserve(1).unwrap_err(), Exhausted);
        first.shrink(1000);
        budget.reserve(100).unwrap();
        assert_eq!(budget.reserve(usize::MAX).unwrap_err(), Exhausted);
    }
}
