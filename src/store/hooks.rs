//! Hooks of tests. Without the feature `internals` they do nothing, and the compiler removes them.

#[cfg(feature = "internals")]
use std::sync::OnceLock;
#[cfg(feature = "internals")]
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only tests read.
#[derive(Default)]
pub struct TestCounter {
    #[cfg(feature = "internals")]
    count: AtomicU64,
}

impl TestCounter {
    /// Adds to the count.
    #[cfg_attr(not(feature = "internals"), expect(unused_variables))]
    pub fn add(&self, count: u64) {
        #[cfg(feature = "internals")]
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// The count since the store was opened.
    #[cfg(feature = "internals")]
    pub fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A point of a flush to a file at which tests abort the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing of the flush is in the store yet.
    Before,
    /// The trips are in the transaction, the position is not.
    Within,
    /// The flush is durable, but the run does not know that yet.
    After,
}

/// Where the process aborts: a step, and how many more times a flush passes it.
#[cfg(feature = "internals")]
static ABORT: OnceLock<(Step, AtomicU64)> = OnceLock::new();

/// Aborts the process, as a crash would, at a point such as `within:2`: the second time that a
/// flush reaches the step `within`. Ignores a point that it cannot parse.
#[cfg(feature = "internals")]
pub fn abort_at(point: &str) {
    let Some((name, Ok(count))) =
        point.split_once(':').map(|(name, count)| (name, count.parse::<u64>()))
    else {
        return;
    };
    let step = match name {
        "before" => Step::Before,
        "within" => Step::Within,
        "after" => Step::After,
        _ => return,
    };
    // The first call counts: a process runs one command.
    ABORT.get_or_init(|| (step, AtomicU64::new(count)));
}

/// Called by each flush at each of its steps.
#[cfg_attr(not(feature = "internals"), expect(unused_variables))]
pub(super) fn reached(step: Step) {
    #[cfg(feature = "internals")]
    if let Some((abort_at, left)) = ABORT.get()
        && *abort_at == step
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        std::process::abort();
    }
}
