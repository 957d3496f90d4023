//! The sink of files: an embedded store, which also has the position, dead letters, changes and
//! input parts.

use super::Sink;
use crate::store::{EmbeddedStore, Flush, Position, Result};

impl Sink for EmbeddedStore {
    async fn stage(&self, ahead: &Flush) -> Result<()> {
        self.stage_flush(ahead)
    }

    async fn commit(&self, flush: &Flush) -> Result<()> {
        self.commit_flush(flush, None)
    }

    async fn position(&self) -> Result<Position> {
        self.delivered()
    }
}
