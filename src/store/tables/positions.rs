//! How far partitions were read, kept with the rows.

use std::collections::BTreeMap;

use crate::model::epoch::Epoch;
use crate::model::scalar::{Offset, Version};
use crate::store::{Result, TripStore, known_home};

/// How far the partitions of an epoch were read, as a store keeps it with the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPositions {
    /// Number of times that positions of the epoch were restored.
    pub generation: i32,
    /// The next offset of each partition that has one.
    pub next_offsets: BTreeMap<i32, i64>,
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
    store: &impl TripStore,
    epoch: &Epoch,
    next_offsets: &BTreeMap<i32, i64>,
) -> Result<()> {
    let generation = store.positions(epoch.epoch).await?.generation;
    write(store, epoch, generation, next_offsets).await
}

/// How far rows were read that were restored from a snapshot, if positions were copied before it:
/// rows may have been copied before the positions of the snapshot, so that of each partition the
/// lower one counts.
///
/// # Errors
/// The store fails.
pub async fn lower_positions(
    store: &impl TripStore,
    epoch: &Epoch,
    copied: &BTreeMap<i32, i64>,
) -> Result<BTreeMap<i32, i64>> {
    let kept = store.positions(epoch.epoch).await?;
    let lower = |partition: i32| {
        let copied = copied.get(&partition).copied();
        let restored = kept.position_of(epoch, partition).map(Offset::get);
        let next = copied.into_iter().chain(restored).min();
        next.map(|next| (partition, next))
    };
    Ok((0..epoch.partitions).filter_map(lower).collect())
}

/// The devices that were erased at or after the positions of their partitions. What a snapshot has
/// of such a device may be of before and after: a tombstone hides rows that are written again at
/// the version of their record, so that reading again does not make it right.
///
/// # Errors
/// The store fails.
pub async fn devices_erased_since(
    store: &impl TripStore,
    epoch: &Epoch,
    next_offsets: &BTreeMap<i32, i64>,
) -> Result<Vec<String>> {
    let version = |next: &i64| epoch.version_at(Offset(*next));
    let lowest = next_offsets.values().min().map_or(Version::MAX, version);
    let mut devices = Vec::new();
    for (device, forget) in store.erased_since(lowest).await? {
        let home = known_home(store, &device, &epoch.division()).await?;
        let next = home.and_then(|partition| next_offsets.get(&partition));
        // It may be of any partition, if that is unknown.
        if forget >= next.map_or(lowest, version) {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// Replaces the positions of an epoch, also by lower ones.
///
/// # Errors
/// The store fails.
pub async fn replace(
    store: &impl TripStore,
    epoch: &Epoch,
    next_offsets: &BTreeMap<i32, i64>,
) -> Result<()> {
    // Those of the former generation cannot be set back: each was written at its own version.
    let generation = store.positions(epoch.epoch).await?.generation + 1;
    write(store, epoch, generation, next_offsets).await
}

async fn write(
    store: &impl TripStore,
    epoch: &Epoch,
    generation: i32,
    next_offsets: &BTreeMap<i32, i64>,
) -> Result<()> {
    for (&partition, &next) in next_offsets {
        store.keep_position(epoch, generation, (partition, Offset(next))).await?;
    }
    Ok(())
}
