//! A log of imported files.

use std::path::PathBuf;
use std::sync::Arc;

use super::PreconditionFailed;
use crate::store::{AnyStore, EmbeddedStore};

/// The imported files that a store was built from.
pub struct FilesLog {
    /// The store.
    pub store: Arc<EmbeddedStore>,
    /// All its files, in any order.
    pub files: Vec<PathBuf>,
}

impl FilesLog {
    /// The log of a store without an epoch.
    ///
    /// # Errors
    /// The store is a keyspace.
    pub fn new(store: &AnyStore, files: &[PathBuf]) -> Result<Self, PreconditionFailed> {
        let problem = || PreconditionFailed("a keyspace is never built from files".to_owned());
        let store = Arc::clone(store.embedded().ok_or_else(problem)?);
        Ok(Self { store, files: files.to_owned() })
    }
}
