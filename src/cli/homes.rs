//! In which partition the records of a device come.

use tstar::epoch::Epoch;
use tstar::store::{Order, StoreError, TripRow, TripStore};

/// A device, and the partition that its records are known to come in.
pub struct Found {
    pub device: String,
    pub has_trip: bool,
    pub partition: Option<i32>,
}

/// Tells the partition of a device by what a store holds of it.
pub struct Homes<'a, S> {
    pub store: &'a S,
    pub topic: String,
    /// Every epoch, oldest first; at least one.
    pub epochs: Vec<Epoch>,
    /// Records are keyed by the device id.
    pub is_keyed: bool,
}

/// The latest trip of a device.
pub async fn latest_trip(
    store: &impl TripStore,
    device: &str,
) -> Result<Option<TripRow>, StoreError> {
    Ok(store.range(device, i64::MIN, i64::MAX, Order::Desc, 1).await?.pop())
}

/// The epoch that a version is of.
fn epoch_of(epochs: &[Epoch], version: i64) -> Option<&Epoch> {
    epochs.iter().rev().find(|epoch| epoch.base <= version)
}

impl<S: TripStore> Homes<'_, S> {
    /// Finds the partition of a device by its latest trip, in case its records are not keyed by the
    /// device id, or partitioned in another way.
    pub async fn find(&self, device: String) -> Result<Found, StoreError> {
        let Some(row) = latest_trip(self.store, &device).await? else {
            return Ok(Found { device, has_trip: false, partition: None });
        };
        let newest = self.epochs.last().expect("there is one");
        // Keys go to the same partitions while there are as many of them.
        let stays = || {
            let held = epoch_of(&self.epochs, row.version);
            held.is_some_and(|held| held.partitions == newest.partitions)
        };
        let is_known = row.version >= newest.base || (!self.is_keyed && stays());
        Ok(Found { device, has_trip: true, partition: is_known.then_some(row.partition) })
    }

    /// Whether nothing tells in which partition its records come.
    pub fn is_lost(&self, found: &Found) -> bool {
        found.partition.is_none() && !self.is_keyed
    }

    /// Why that is so, and what helps.
    pub fn why_lost(&self, found: &Found) -> String {
        let (device, topic) = (&found.device, &self.topic);
        let why = match found.has_trip {
            true => "its latest trip is of an epoch with another number of partitions",
            false => "no trip of it is stored",
        };
        format!(
            "device `{device}`: under --key any its partition of topic `{topic}` is known from its \
             trips alone, and {why}; try again once a sample of it has come"
        )
    }
}
