//! In which partition the records of a device come.

use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::store::claims::known_home;
use crate::store::{Order, StoreError, TripRow, TripStore};

/// A device, and the partition that its records are known to come in.
#[derive(Clone, Debug)]
pub struct LocatedDevice {
    /// Device id.
    pub device: String,
    /// Whether the store has a trip of it.
    pub has_trip: bool,
    /// Its partition, if known.
    pub partition: Option<i32>,
}

/// Tells the partition of a device by what a store holds of it.
pub struct PartitionFinder<'a, S> {
    /// The store that knows the device.
    pub store: &'a S,
    /// Name of the topic.
    pub topic: String,
    /// Every epoch, oldest first; at least one.
    pub epochs: Vec<Epoch>,
    /// Records are keyed by the device id.
    pub is_keyed: bool,
}

/// The latest trip of a device.
///
/// # Errors
/// The store cannot be read.
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

impl<S: TripStore> PartitionFinder<'_, S> {
    /// Finds the partition of a device: the one that `run` decides by where that is known, else
    /// that of its latest trip.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn find(&self, device: String) -> Result<LocatedDevice, StoreError> {
        let newest = self.epochs.last().expect("there is one");
        let partition = known_home(self.store, &device, &newest.division()).await?;
        let row = latest_trip(self.store, &device).await?;
        let has_trip = row.is_some();
        let Some(row) = row.filter(|_| partition.is_none()) else {
            return Ok(LocatedDevice { device, has_trip, partition });
        };
        // Keys go to the same partitions while there are as many of them.
        let stays = || {
            let held = epoch_of(&self.epochs, row.version);
            held.is_some_and(|held| held.partitions == newest.partitions)
        };
        let is_known = row.version >= newest.base || (!self.follows_from_key() && stays());
        Ok(LocatedDevice { device, has_trip: true, partition: is_known.then_some(row.partition) })
    }

    /// Whether the partition follows from the key, as far as anybody knows.
    fn follows_from_key(&self) -> bool {
        let newest = self.epochs.last().expect("there is one");
        self.is_keyed && newest.partitioner != Some(Partitioner::None)
    }

    /// Whether nothing tells in which partition its records come.
    #[must_use]
    pub fn is_lost(&self, found: &LocatedDevice) -> bool {
        found.partition.is_none() && !(self.follows_from_key() || self.is_keyed && found.has_trip)
    }

    /// Why that is so, and what helps.
    #[must_use]
    pub fn why_lost(&self, found: &LocatedDevice) -> String {
        let (device, topic) = (&found.device, &self.topic);
        let why = match found.has_trip {
            true => "its latest trip is of an epoch with another number of partitions",
            false => "no trip of it is stored",
        };
        format!(
            "device `{device}`: its partition of topic `{topic}` does not follow from its id (--key, \
             --partitioner), and {why}; try again once a sample of it has come"
        )
    }
}
