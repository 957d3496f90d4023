//! Counts elements moved and compared, so that a test can hold the path to its promised growth.
//! Outside of tests the calls are empty.

#[cfg(test)]
thread_local! {
    static SPENT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// `elements` were moved or compared.
#[cfg(test)]
pub fn spend(elements: usize) {
    SPENT.with(|spent| spent.set(spent.get() + elements as u64));
}

#[cfg(not(test))]
#[inline]
pub fn spend(_elements: usize) {}

/// What this thread has spent since it last asked.
#[cfg(test)]
pub fn take() -> u64 {
    SPENT.with(std::cell::Cell::take)
}
