//! A store that is being rebuilt and takes device partitions from an existing one.

use std::sync::Arc;

use super::claims::known_home;
use super::forward::forward_trip_store;
use super::{StoreError, TripStore};
use crate::model::epoch::{Division, Epoch, divisions};

/// A store whose claims already exist. A claim depends on which record came first, so a rebuild
/// cannot repeat it and has to copy it.
pub struct Guide<G> {
    store: Arc<G>,
    divisions: Vec<Division>,
    /// The store that is built has one epoch for all of these, so a claim of any epoch counts.
    merged: bool,
}

impl<G> Clone for Guide<G> {
    fn clone(&self) -> Self {
        let (store, divisions) = (Arc::clone(&self.store), self.divisions.clone());
        Self { store, divisions, merged: self.merged }
    }
}

impl<G: TripStore> Guide<G> {
    /// A guide for a store with the same epochs.
    #[must_use]
    pub fn new(store: Arc<G>, epochs: &[Epoch]) -> Self {
        Self { store, divisions: divisions(epochs), merged: false }
    }

    /// A guide for a store with one epoch in place of all of these; the newest claim counts.
    #[must_use]
    pub fn merged(self) -> Self {
        Self { merged: true, ..self }
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        let counts = |division: &&Division| self.merged || division.epoch == epoch;
        for division in self.divisions.iter().rev().filter(counts) {
            let known = known_home(&*self.store, device_id, division).await?;
            if known.is_some() {
                return Ok(known);
            }
        }
        Ok(None)
    }
}

/// Reads and writes one store, and copies missing claims from the guide, if there is one.
pub struct Guided<S, G> {
    /// The store that is built.
    pub store: S,
    /// The store to copy claims from.
    pub guide: Option<Guide<G>>,
}

macro_rules! store {
    ($self:expr, $operation:literal, $($call:tt)*) => {
        $self.store.$($call)*.await
    };
}

impl<S, G> TripStore for Guided<S, G>
where
    S: TripStore,
    G: TripStore,
{
    forward_trip_store!(
        store: apply, covering, rows_of_day, range, neighbour, devices, forgets, erased, forget,
        begin_forget, claim,
    );

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        if let Some(partition) = self.store.claimed(device_id, epoch).await? {
            return Ok(Some(partition));
        }
        let Some(guide) = &self.guide else { return Ok(None) };
        match guide.claimed(device_id, epoch).await? {
            // Stored, because the store may be used without the guide later.
            Some(partition) => self.store.claim(device_id, epoch, partition).await.map(Some),
            None => Ok(None),
        }
    }
}
