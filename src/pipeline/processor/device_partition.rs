//! Device partitions: the partition that a device belongs to. Its records in others are dead
//! letters.

use super::Processor;
use super::resident::{Device, ResidentDevices};
use crate::model::epoch::Division;
use crate::model::reason::DeadReason;
use crate::model::scalar::Offset;
use crate::sink::Sink;
use crate::source::SampleError;
use crate::store::home;
use crate::store::{Result, TripStore};

/// Partition of a device in an epoch.
#[derive(Clone, Copy)]
pub(super) struct Home {
    pub(super) epoch: i32,
    pub(super) partition: i32,
}

impl Device {
    /// Whether the device belongs to another partition.
    pub(super) fn is_foreign(&self, partition: i32) -> bool {
        self.home.is_some_and(|home| home.partition != partition)
    }
}

impl ResidentDevices {
    /// The error of a sample in `partition`, of a device that belongs to another one.
    pub(super) fn foreign_error(&self, slot: usize, partition: i32) -> SampleError {
        let (name, device) = self.at(slot);
        let home = device.home.expect("a device is foreign by its partition");
        let message = format!(
            "device `{name}` belongs to partition {} in epoch {}, and the record came in partition \
             {partition}: its producers partition differently; make them use one partitioner, and \
             send the record again with tstar dlq replay",
            home.partition, home.epoch
        );
        SampleError::new(DeadReason::OtherPartition, message)
    }
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// The partition of a device in the epoch of the record at `offset`. Claims a device without
    /// one for this partition.
    pub(super) async fn claimed_home(&self, device_id: &str, offset: Offset) -> Result<i32> {
        let own = self.log.partition;
        let Some(division) = self.log.versions.division_of(offset) else { return Ok(own) };
        let slot = self.devices.find_slot(device_id);
        let known = slot.and_then(|slot| self.devices.at(slot).1.home);
        match known.filter(|home| home.epoch == division.epoch) {
            Some(home) => Ok(home.partition),
            None => home(self.trips, device_id, &division, own).await,
        }
    }

    /// What the store needs to look up the partition of a device, in the epoch of the record at
    /// `offset`; `None` if the partition is known or computed.
    pub(super) fn unknown_home(&mut self, slot: usize, offset: Offset) -> Option<Division> {
        let division = self.log.versions.division_of(offset)?;
        let (name, device) = self.devices.at_mut(slot);
        if device.home.is_some_and(|home| home.epoch == division.epoch) {
            return None;
        }
        let computed = division.computed(name);
        device.home = computed.map(|partition| Home { epoch: division.epoch, partition });
        computed.is_none().then_some(division)
    }

    /// Stores the partition of a device in an epoch.
    pub(super) fn set_home(&mut self, slot: usize, epoch: i32, partition: i32) {
        self.devices.at_mut(slot).1.home = Some(Home { epoch, partition });
    }
}
