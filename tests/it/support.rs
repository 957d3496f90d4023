//! Helpers of several suites.

use std::future::Future;
use std::path::{Path, PathBuf};

/// Runs a future of a store to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// How many kills a command has to survive: `TSTAR_TEST_KILLS`, or the suite's default.
pub fn kills(usual: u64) -> u64 {
    const VARIABLE: &str = "TSTAR_TEST_KILLS";
    std::env::var(VARIABLE).map_or(usual, |text| text.parse().expect(VARIABLE))
}

/// A file of `tests/data`, whose README names the sources.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
