//! A store in memory as a sink, for tests.

use super::Sink;
use crate::store::memory::MemoryStore;
use crate::store::{Flush, Position, Result};

impl Sink for MemoryStore {
    async fn stage(&self, ahead: &Flush) -> Result<()> {
        self.put(ahead, false);
        Ok(())
    }

    async fn commit(&self, flush: &Flush) -> Result<()> {
        self.put(flush, true);
        Ok(())
    }

    async fn position(&self) -> Result<Position> {
        Ok(self.delivered())
    }
}
