//! How far partitions were read, kept with the rows.

use std::collections::BTreeMap;
use std::future::Future;

use super::StoreError;
use crate::model::epoch::Epoch;
use crate::model::scalar::Offset;

/// How far the partitions of an epoch were read, as a store keeps it with the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPositions {
    /// Number of times that positions of the epoch were restored.
    pub generation: i32,
    /// The next offset of each partition that has one.
    pub next_offsets: BTreeMap<i32, i64>,
}

/// Keeps how far each partition of a topic was read, with the rows: the consumer group does not
/// know of rows that were restored from a backup.
pub trait PositionStore: Send + Sync {
    /// The positions of an epoch, of the last generation.
    fn positions(
        &self,
        epoch: i32,
    ) -> impl Future<Output = Result<KeptPositions, StoreError>> + Send;

    /// Keeps the next offset of a partition in a generation, unless a higher one is kept.
    /// Everything before it is acknowledged.
    fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        next: (i32, Offset),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl KeptPositions {
    /// How far a partition was read; `None` if that is unknown.
    #[must_use]
    pub fn position_of(&self, epoch: &Epoch, partition: i32) -> Option<Offset> {
        epoch.position(partition, self.next_offsets.get(&partition).copied())
    }
}

/// Keeps the position of each partition, unless a higher one is kept.
///
/// # Errors
/// The store fails.
pub async fn raise(
    store: &impl PositionStore,
    epoch: &Epoch,
    next_offsets: &BTreeMap<i32, i64>,
) -> Result<(), StoreError> {
    let generation = store.positions(epoch.epoch).await?.generation;
    for (&partition, &next) in next_offsets {
        store.keep_position(epoch, generation, (partition, Offset(next))).await?;
    }
    Ok(())
}

/// Replaces the positions of an epoch by those that were copied before a snapshot, after rows and
/// positions were restored from it: rows may have been copied before the positions, so that of each
/// partition the lower one counts. Returns the new ones.
///
/// # Errors
/// The store fails.
pub async fn set_back(
    store: &impl PositionStore,
    epoch: &Epoch,
    copied: &BTreeMap<i32, i64>,
) -> Result<BTreeMap<i32, i64>, StoreError> {
    let kept = store.positions(epoch.epoch).await?;
    let lower = |partition: i32| {
        let copied = copied.get(&partition).copied();
        let restored = kept.position_of(epoch, partition).map(Offset::get);
        let next = copied.into_iter().chain(restored).min();
        next.map(|next| (partition, next))
    };
    let next_offsets: BTreeMap<i32, i64> = (0..epoch.partitions).filter_map(lower).collect();
    for (&partition, &next) in &next_offsets {
        // Those of the former generation cannot be set back: each was written at its own version.
        store.keep_position(epoch, kept.generation + 1, (partition, Offset(next))).await?;
    }
    Ok(next_offsets)
}
