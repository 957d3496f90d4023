//! Homes: the partition that a device belongs to. What comes of it in another one does not count.

use super::{Device, Processor};
use crate::model::epoch::Division;
use crate::model::reason::DeadReason;
use crate::source::SampleError;
use crate::store::claims::home;
use crate::store::{Journal, StoreError, TripStore};

/// Where a device belongs.
#[derive(Clone, Copy)]
pub(super) struct Home {
    epoch: i32,
    pub(super) partition: i32,
}

impl Device {
    /// What is wrong with a sample of it in a partition that it does not belong to.
    pub(super) fn is_foreign(&self, name: &str, partition: i32) -> Option<SampleError> {
        let home = self.home.filter(|home| home.partition != partition)?;
        let message = format!(
            "device `{name}` belongs to partition {} in epoch {}, and the record came in partition \
             {partition}: its producers partition differently; make them use one partitioner, and \
             send the record again with tstar dlq replay",
            home.partition, home.epoch
        );
        Some(SampleError::new(DeadReason::OtherPartition, message))
    }
}

impl<S: TripStore + Journal> Processor<'_, S> {
    /// Whether a device belongs to the partition that is read, in the epoch of the record at an
    /// offset. Where it belongs nowhere yet, it belongs here from now on.
    pub(super) async fn is_own(&self, device_id: &str, offset: i64) -> Result<bool, StoreError> {
        let own = self.log.partition;
        let Some(division) = self.log.versions.division_of(offset) else { return Ok(true) };
        let known = self.devices.get(device_id).and_then(|device| device.home);
        let home = match known.filter(|home| home.epoch == division.epoch) {
            Some(home) => home.partition,
            None => home(self.store, device_id, &division, own).await?,
        };
        Ok(home == own)
    }

    /// What has to be asked of the store to know where a device belongs in the epoch of the record
    /// at an offset; `None` where that is known.
    pub(super) fn unknown_home(&mut self, place: usize, offset: i64) -> Option<Division> {
        let division = self.log.versions.division_of(offset)?;
        let (name, device) = self.devices.get_index_mut(place).expect("it was given this place");
        if device.home.is_some_and(|home| home.epoch == division.epoch) {
            return None;
        }
        let computed = division.computed(name);
        device.home = computed.map(|partition| Home { epoch: division.epoch, partition });
        computed.is_none().then_some(division)
    }

    /// Remembers where a device belongs in an epoch.
    pub(super) fn set_home(&mut self, place: usize, epoch: i32, partition: i32) {
        self.devices[place].home = Some(Home { epoch, partition });
    }
}
