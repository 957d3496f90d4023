//! Finds the partition of a device's records.

use crate::identity::DeviceId;
use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::scalar::{DeviceTime, Version};
use crate::store::{AnyStore, Kinds, Order, StoreError, TripRow, TripStore, known_home};

/// A device and the partition of its records.
#[derive(Clone, Debug)]
pub(crate) struct LocatedDevice {
    /// Device id.
    pub device: DeviceId,
    /// Whether the store has a trip of the device.
    pub has_trip: bool,
    /// Partition number, from 0; `None` if unknown.
    pub partition: Option<i32>,
}

/// Finds the partitions of devices from their claims and trips in a store.
pub(crate) struct PartitionFinder<'a> {
    /// The store with the claims and trips.
    pub store: &'a AnyStore,
    /// Every epoch, oldest first; at least one.
    pub epochs: Vec<Epoch>,
}

/// The latest trip of a device.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn latest_trip(
    store: &impl TripStore,
    device: &str,
) -> Result<Option<TripRow>, StoreError> {
    Ok(store
        .range(device, Kinds::All, DeviceTime::MIN, DeviceTime::MAX, Order::Desc, 1)
        .await?
        .pop())
}

/// The epoch that a version belongs to.
fn epoch_of(epochs: &[Epoch], version: Version) -> Option<&Epoch> {
    epochs.iter().rev().find(|epoch| epoch.base <= version)
}

impl PartitionFinder<'_> {
    /// Finds the partition of a device: the one that `run` uses if it is known, else that of the
    /// latest trip.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn find(&self, device: DeviceId) -> Result<LocatedDevice, StoreError> {
        let newest = self.newest();
        let partition = known_home(self.store, &device, &newest.division()).await?;
        let row = latest_trip(self.store, &device).await?;
        let has_trip = row.is_some();
        let Some(row) = row.filter(|_| partition.is_none()) else {
            return Ok(LocatedDevice { device, has_trip, partition });
        };
        // A key maps to the same partition as long as the partition count stays the same.
        let has_same_count = || {
            let epoch = epoch_of(&self.epochs, row.version);
            epoch.is_some_and(|epoch| epoch.check_partition_count(newest.partitions).is_ok())
        };
        let is_known = row.version >= newest.base || (!self.follows_from_key() && has_same_count());
        Ok(LocatedDevice { device, has_trip: true, partition: is_known.then_some(row.partition) })
    }

    fn newest(&self) -> &Epoch {
        self.epochs.last().expect("there is one")
    }

    /// Whether records are keyed by the device id.
    #[must_use]
    pub(crate) fn is_keyed(&self) -> bool {
        self.newest().rules.is_keyed_by_device()
    }

    /// Whether the key determines the partition.
    fn follows_from_key(&self) -> bool {
        self.is_keyed() && self.newest().partitioner != Partitioner::None
    }

    /// Whether the partition of the device's records cannot be determined.
    #[must_use]
    pub(crate) fn is_unknown(&self, found: &LocatedDevice) -> bool {
        found.partition.is_none() && !(self.follows_from_key() || self.is_keyed() && found.has_trip)
    }

    /// Why the partition cannot be determined, and what to do.
    #[must_use]
    pub(crate) fn unknown_reason(&self, found: &LocatedDevice) -> String {
        let (device, topic) = (&found.device, &self.newest().topic);
        let reason = match found.has_trip {
            true => "its latest trip is from an epoch with another partition count",
            false => "no trip of it is stored",
        };
        format!(
            "device `{device}`: its partition of topic `{topic}` does not follow from its id \
             (--key, --partitioner), and {reason}; retry once a sample of it has arrived"
        )
    }
}
