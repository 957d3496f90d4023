//! The sink of files: an embedded store, which also has the position, dead letters, changes and
//! input parts.

use super::Sink;
use crate::store::{EmbeddedStore, Flush, Position, StoreError};

impl Sink for EmbeddedStore {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        self.stage_flush(ahead)
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.commit_flush(flush, None)
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.delivered()
    }
}
