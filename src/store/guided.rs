//! A store that is built anew, and decides by another one which partition a device belongs to.

use std::ops::Deref;
use std::sync::Arc;

use super::claims::known_home;
use super::forward::forward_trip_store;
use super::{Flush, Journal, Position, StoreError, TripStore};
use crate::model::epoch::{Division, Epoch, divisions};

/// Where claims stand already: which partition a device claims is chance, and has fallen there.
pub struct Guide<G> {
    store: Arc<G>,
    divisions: Vec<Division>,
    /// All of its epochs have become one, so that each of them tells.
    merged: bool,
}

impl<G> Clone for Guide<G> {
    fn clone(&self) -> Self {
        let (store, divisions) = (Arc::clone(&self.store), self.divisions.clone());
        Self { store, divisions, merged: self.merged }
    }
}

impl<G: TripStore> Guide<G> {
    /// For a store of the same epochs.
    #[must_use]
    pub fn new(store: Arc<G>, epochs: &[Epoch]) -> Self {
        Self { store, divisions: divisions(epochs), merged: false }
    }

    /// For a store that has one epoch in place of all of these; the newest that tells counts.
    #[must_use]
    pub fn merged(self) -> Self {
        Self { merged: true, ..self }
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        let tells = |division: &&Division| self.merged || division.epoch == epoch;
        for division in self.divisions.iter().rev().filter(tells) {
            let known = known_home(&*self.store, device_id, division).await?;
            if known.is_some() {
                return Ok(known);
            }
        }
        Ok(None)
    }
}

/// Reads and writes one store. Claims that it lacks are those of the guide.
pub struct Guided<S, G> {
    /// What is built.
    pub store: S,
    /// Whose claims count.
    pub guide: Guide<G>,
}

macro_rules! store {
    ($self:expr, $operation:literal, $($call:tt)*) => {
        $self.store.$($call)*.await
    };
}

impl<S, G> TripStore for Guided<S, G>
where
    S: Deref<Target: TripStore> + Send + Sync,
    G: TripStore,
{
    forward_trip_store!(
        store: apply, covering, rows_of_day, range, devices, forgets, erased, forget, claim,
    );

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        if let Some(standing) = self.store.claimed(device_id, epoch).await? {
            return Ok(Some(standing));
        }
        match self.guide.claimed(device_id, epoch).await? {
            // Kept, for whoever goes on with what is built.
            Some(partition) => self.store.claim(device_id, epoch, partition).await.map(Some),
            None => Ok(None),
        }
    }
}

impl<S, G> Journal for Guided<S, G>
where
    S: Deref<Target: Journal> + Send + Sync,
    G: TripStore,
{
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        self.store.stage(ahead).await
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.store.commit(flush).await
    }

    async fn position(&self) -> Result<Position, StoreError> {
        self.store.position().await
    }
}
