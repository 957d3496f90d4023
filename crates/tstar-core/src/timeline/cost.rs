//! Counts elements moved and compared, so that tests can check the complexity of path operations.
//! Outside of tests the calls do nothing.

#[cfg(test)]
thread_local! {
    static SPENT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts `elements` moved or compared.
#[cfg(test)]
pub fn spend(elements: usize) {
    SPENT.with(|spent| spent.set(spent.get() + elements as u64));
}

#[cfg(not(test))]
#[inline]
pub fn spend(_elements: usize) {}

/// Returns the count of this thread and resets it.
#[cfg(test)]
pub fn reset() -> u64 {
    SPENT.with(std::cell::Cell::take)
}
