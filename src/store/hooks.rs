//! Hooks of tests. Without the feature `internals` they do nothing, and the compiler removes them.

#[cfg(feature = "internals")]
use std::sync::LazyLock;
#[cfg(feature = "internals")]
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only tests read.
#[derive(Default)]
pub(crate) struct TestCounter {
    #[cfg(feature = "internals")]
    count: AtomicU64,
}

impl TestCounter {
    /// Adds to the count.
    #[cfg_attr(not(feature = "internals"), expect(unused_variables))]
    pub(crate) fn add(&self, count: u64) {
        #[cfg(feature = "internals")]
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// The count since the store was opened.
    #[cfg(feature = "internals")]
    pub(crate) fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A point of a flush to a file at which tests abort the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing of the flush is in the store yet.
    Before,
    /// The trips are in the transaction, the position is not.
    Within,
    /// The flush is durable, but the run does not know that yet.
    After,
}

/// Where the process aborts, as a crash would: `TSTAR_TEST_ABORT=within:2` is the second time that
/// a flush reaches the step `within`.
#[cfg(feature = "internals")]
static ABORT: LazyLock<Option<(Step, AtomicU64)>> = LazyLock::new(|| {
    let point = std::env::var("TSTAR_TEST_ABORT").ok()?;
    let (name, count) = point.split_once(':')?;
    let step = match name {
        "before" => Step::Before,
        "within" => Step::Within,
        "after" => Step::After,
        _ => return None,
    };
    Some((step, AtomicU64::new(count.parse().ok()?)))
});

/// Called by each flush at each of its steps.
#[cfg_attr(not(feature = "internals"), expect(unused_variables))]
pub(super) fn reached(step: Step) {
    #[cfg(feature = "internals")]
    if let Some((abort_at, left)) = &*ABORT
        && *abort_at == step
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        std::process::abort();
    }
}
