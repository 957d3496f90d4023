//! The store of a partition worker: the real store over simulated nodes; it notes what occurs.

use std::sync::{Arc, MutexGuard};

use tstar::internals::kafka::partition_handle::PartitionHandle;
use tstar::internals::model::scalar::{Day, Offset, Version};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{Forget, Result, TripRow, TripStore as _, TripStoreOver, WriteGroup};

use super::log::Script;
use super::world::{Device, Shared, World, lock};
use crate::nodes::Connection;

pub struct SimStore {
    pub world: Shared,
    /// The process.
    pub owner: usize,
    pub script: Arc<Script>,
    pub handle: Arc<PartitionHandle>,
    pub trips: ScyllaStore<Connection>,
}

/// Notes that a process waits for a read, until it is dropped.
struct Load<'a>(&'a SimStore);

impl<'a> Load<'a> {
    fn new(store: &'a SimStore) -> Self {
        *store.world().loads.entry(store.owner).or_default() += 1;
        Self(store)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if let Some(loads) = self.0.world().loads.get_mut(&self.0.owner) {
            *loads -= 1;
        }
    }
}

fn device(id: &str) -> Device {
    id.as_bytes()[0]
}

impl SimStore {
    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The version of the first record of the batch that the worker absorbs.
    fn reads(&self) -> Version {
        self.script.log.versions.version_at(Offset(self.handle.progress().next()))
    }
}

impl TripStoreOver for SimStore {
    type Under = ScyllaStore<Connection>;

    fn under(&self) -> &Self::Under {
        &self.trips
    }

    async fn write(&self, groups: &[WriteGroup]) -> Result<()> {
        {
            let mut world = self.world();
            if world.group.owner(self.script.log.partition) != Some(self.owner) {
                world.see("flushes of a former owner");
            }
        }
        self.trips.write(groups).await
    }

    async fn rows_of_day(&self, device_id: &str, day: Day) -> Result<Vec<TripRow>> {
        let load = Load::new(self);
        let rows = self.trips.rows_of_day(device_id, day).await?;
        drop(load);
        let mut world = self.world();
        let reads = self.reads();
        if rows.iter().any(|row| row.version >= reads) {
            world.see("loads of rows that are ahead");
        }
        Ok(rows)
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>> {
        let found = self.trips.forgets(device_id).await?;
        let mut world = self.world();
        let reads = self.reads();
        if found.iter().any(|forget| forget.version >= reads) {
            world.see("loads of forgets that are ahead");
        }
        Ok(found)
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<()> {
        {
            let mut world = self.world();
            if world.is_begun(device_id, forget) {
                world.see("forgets that were begun before");
            }
        }
        self.trips.forget(device_id, forget).await
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        let Some(found) = self.trips.claimed(device_id, epoch).await? else { return Ok(None) };
        let mut world = self.world();
        if world.is_erased_claim(device_id, epoch) {
            world.see("claims that decide though a forget erased them");
        }
        Ok(Some(world.decide(device(device_id), epoch, found)))
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32> {
        self.world().see("claims inserted");
        let found = self.trips.claim(device_id, epoch, own).await?;
        let mut world = self.world();
        if found != own {
            world.see("claims that come too late");
        }
        Ok(world.decide(device(device_id), epoch, found))
    }
}
