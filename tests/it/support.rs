//! What several suites need.

use std::future::Future;
use std::path::PathBuf;

/// Runs a future of a store to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// How many kills a command is to survive: `TSTAR_TEST_KILLS`, or as many as are usual.
pub fn kills(usual: u64) -> u64 {
    const ASKED: &str = "TSTAR_TEST_KILLS";
    std::env::var(ASKED).map_or(usual, |text| text.parse().expect(ASKED))
}

/// A file of real data, where there is one; without it CI fails and anyone else is told.
pub fn real_data(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TSTAR_TEST_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let file = folder.join(name);
    if file.exists() {
        return Some(file);
    }
    assert!(std::env::var_os("CI").is_none(), "CI needs {}", file.display());
    eprintln!("SKIPPED: {} is not there; set TSTAR_TEST_DATA to its folder", file.display());
    None
}
