//! The store and the journal of one owner: the real store over simulated nodes, and a journal that
//! writes what follows the trips to the logs of the world.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use tstar::internals::model::scalar::{Day, DeviceTime, Offset, Version};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{
    DeviceScope, Flush, Forget, Journal, Order, Position, StoreError, TripRow, TripStore,
};

use super::log::Script;
use super::world::{Command, Device, Event, What, World};
use crate::nodes::Connection;

pub type Shared = Arc<Mutex<World>>;

pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().expect("no holder of the lock panics")
}

/// The store of an owner, which notes what occurs.
pub struct SimStore {
    pub world: Shared,
    pub owner: usize,
    pub script: Arc<Script>,
    /// The offset at which it started.
    pub start: i64,
    pub trips: ScyllaStore<Connection>,
}

fn device(id: &str) -> Device {
    id.as_bytes()[0]
}

impl SimStore {
    pub fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The version of the first record of the batch that the owner absorbs.
    fn reads(&self, world: &World) -> Version {
        self.script.log.versions.version_at(Offset(world.desks[self.owner].position))
    }

    /// Waits for the scheduler's next command.
    pub async fn command(&self) -> Command {
        poll_fn(|_| {
            let desk = &mut self.world().desks[self.owner];
            desk.idle = desk.command.is_none();
            desk.command.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Sends all at once, and waits until each is acknowledged.
    async fn acknowledged(&self, all: impl IntoIterator<Item = What>) {
        let sent: Vec<_> = {
            let mut world = self.world();
            all.into_iter().map(|what| world.send(self.owner, what)).collect()
        };
        if sent.is_empty() {
            return;
        }
        poll_fn(|context| {
            let mut world = self.world();
            let done = sent.iter().all(|&append| world.is_acknowledged(append));
            world.desks[self.owner].writing = !done;
            context.waker().wake_by_ref();
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl TripStore for SimStore {
    async fn apply(&self, trips: &[TripRow]) -> Result<(), StoreError> {
        self.trips.apply(trips).await
    }

    async fn covering(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
    ) -> Result<Option<TripRow>, StoreError> {
        self.trips.covering(device_id, time_ms).await
    }

    async fn rows_of_day(&self, device_id: &str, day: Day) -> Result<Vec<TripRow>, StoreError> {
        let rows = self.trips.rows_of_day(device_id, day).await?;
        let mut world = self.world();
        let reads = self.reads(&world);
        if rows.iter().any(|row| row.version >= reads) {
            world.see("loads of rows that are ahead");
        }
        Ok(rows)
    }

    async fn range(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
        order: Order,
        limit: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        self.trips.range(device_id, from_ms, upto_ms, order, limit).await
    }

    async fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.trips.devices(scope, after, limit).await
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>, StoreError> {
        self.trips.forgets(device_id).await
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>, StoreError> {
        let found = self.trips.erased(device_id).await?;
        let mut world = self.world();
        let reads = self.reads(&world);
        if found.as_ref().is_some_and(|forget| forget.version >= reads) {
            world.see("loads of forgets that are ahead");
        }
        Ok(found)
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        {
            let mut world = self.world();
            if world.is_begun(device_id, forget) {
                world.see("forgets that were begun before");
            }
        }
        self.trips.forget(device_id, forget).await
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        let Some(found) = self.trips.claimed(device_id, epoch).await? else { return Ok(None) };
        let mut world = self.world();
        if world.is_erased_claim(device_id, epoch) {
            world.see("claims that decide though a forget erased them");
        }
        Ok(Some(world.decide(device(device_id), epoch, found)))
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32, StoreError> {
        self.world().see("claims inserted");
        let found = self.trips.claim(device_id, epoch, own).await?;
        let mut world = self.world();
        if found != own {
            world.see("claims that come too late");
        }
        Ok(world.decide(device(device_id), epoch, found))
    }
}

impl Journal for SimStore {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        self.apply(&ahead.trips).await?;
        let changes = ahead.changes.iter().map(|change| Event::Trip {
            kind: change.kind,
            retired: change.retired.clone(),
            row: Arc::new(ahead.trips[change.row].clone()),
        });
        let forgotten = ahead.forgotten.iter().map(|it| Event::Forgotten {
            device: device(&it.device_id),
            before_ms: it.forget.before_ms,
        });
        let events: Vec<_> = changes.chain(forgotten).map(What::Event).collect();
        self.acknowledged(events).await;
        let dead = ahead.dead_letters.iter();
        let dead = dead.map(|letter| {
            What::Dead((letter.partition, letter.offset.get(), letter.element.unwrap_or(0)))
        });
        self.acknowledged(dead.collect::<Vec<_>>()).await;
        Ok(())
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        self.stage(flush).await?;
        self.world().commit(self.owner, flush.position.delivered.get());
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        Ok(Position { delivered: Offset(self.start) })
    }
}
