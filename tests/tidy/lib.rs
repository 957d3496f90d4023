//! Rules of the repository: what needs no build of tstar to be checked, so that a wrong word costs
//! seconds and not a landing. Each rule has a planted violation that it has to find.
//!
//! `page` reads the documents, for the suite that runs their commands as well.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

pub mod page;

#[cfg(test)]
mod breaks;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod circles;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod links;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod wasm;
#[cfg(test)]
mod words;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The top of the repository.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        root.expect("this package is in tests/tidy").to_owned()
    });
    &ROOT
}
