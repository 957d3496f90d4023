//! Memory of bodies and answers, bounded over all requests together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of bytes that requests share.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Semaphore>);

/// The budget is used up.
#[derive(Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Budget {
    /// A budget of `max` bytes.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(max)))
    }

    /// A share of no bytes yet.
    pub fn share(&self) -> Share {
        Share { budget: self.clone(), held: None }
    }

    /// A share of so many bytes.
    pub fn reserve(&self, bytes: usize) -> Result<Share, Exhausted> {
        let mut share = self.share();
        share.grow(bytes).map(|()| share)
    }
}

/// A part of a [`Budget`], returned to it on drop.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    held: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Takes so many bytes more, at once or not at all: a request that waited with what it holds
    /// could wait for another one that does the same.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let bytes = u32::try_from(bytes).map_err(|_| Exhausted)?;
        let more = Arc::clone(&self.budget.0).try_acquire_many_owned(bytes);
        let more = more.map_err(|_| Exhausted)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Returns so many bytes, at most all.
    pub fn shrink(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            drop(held.split(bytes.min(held.num_permits())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_whole_or_not_there_and_goes_back() {
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
