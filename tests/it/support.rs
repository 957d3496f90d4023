//! What several suites need.

use std::future::Future;

/// Runs a future of a store to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}
