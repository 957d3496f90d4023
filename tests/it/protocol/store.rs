//! The store and the journal of one owner, over the world: they do what the contract requires of a
//! cluster, and wait for a quorum where it requires one.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use tstar::internals::model::scalar::{Day, DeviceTime, Offset, Version};
use tstar::internals::store::{
    DeviceScope, Flush, Forget, Journal, Order, Position, StoreError, TripRow, TripStore,
};
use tstar::internals::timeline::day_of;

use super::log::Script;
use super::world::{Command, Delete, Device, Event, Key, Mutation, Partition, Value, What, World};

pub type Shared = Arc<Mutex<World>>;

pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().expect("no holder of the lock panics")
}

pub struct SimStore {
    pub world: Shared,
    pub owner: usize,
    pub script: Arc<Script>,
    /// The offset at which it started.
    pub start: i64,
    /// Days that it has indexed.
    pub listed: Mutex<BTreeSet<(Device, i64)>>,
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

    /// Lets the world continue.
    async fn meanwhile(&self) {
        let mut polls = self.world().dice.one_of(&[0, 0, 1, 2]);
        poll_fn(|context| {
            if polls == 0 {
                return Poll::Ready(());
            }
            polls -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
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
            let done = sent.iter().all(|&operation| world.is_acknowledged(operation));
            world.desks[self.owner].writing = !done;
            context.waker().wake_by_ref();
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Indexes the days that the rows are the first of, as far as this owner knows.
    async fn list_days(&self, rows: &[TripRow]) {
        let mut days = BTreeSet::new();
        let mut writes = Vec::new();
        for row in rows {
            let id = device(&row.device_id);
            for write in row.writes() {
                let is_known = self.listed.lock().unwrap().contains(&(id, write.day.get()));
                if !is_known && days.insert((id, write.day.get())) {
                    writes.extend(entries(id, write.day.get()).map(|(partition, key)| {
                        let row = Some((key, write.insert_at.get(), Value::Listed));
                        What::Mutation(Mutation { partition, deletes: Vec::new(), row })
                    }));
                }
            }
        }
        self.acknowledged(writes).await;
        self.listed.lock().unwrap().append(&mut days);
    }

    /// The days to clear: the indexed ones, and those that an earlier executor named.
    async fn days_to_forget(&self, id: Device, forget: &Forget) -> BTreeSet<i64> {
        self.meanwhile().await;
        let last = day_of(forget.before_ms);
        let mut days: BTreeSet<i64> = {
            let mut world = self.world();
            let listed = world.read(Partition::DaysOfDevice(id)).into_keys().map(|key| key.0);
            listed.filter(|day| *day <= last.get()).collect()
        };
        self.meanwhile().await;
        let mut world = self.world();
        let noted = world.read(Partition::Forgets(id));
        if let Some(Value::Forget { days: named, .. }) = noted.get(&(forget.version.get(), 0)) {
            days.extend(named);
            drop(noted);
            world.see("forgets that were begun before");
        }
        days
    }
}

impl SimStore {
    /// The claim of a device that a forget erased.
    async fn erased_claim(&self, id: Device, epoch: i32) -> Option<i32> {
        self.meanwhile().await;
        let mut world = self.world();
        let found = world.read(Partition::ErasedClaims(id)).remove(&(i64::from(epoch), 0));
        match found? {
            Value::Claim(partition) => Some(*partition),
            other => unreachable!("a partition of claims holds {other:?}"),
        }
    }

    /// Moves the claims of a device to its forgets, where it has no day left.
    async fn erase_claims(&self, id: Device, version: i64) {
        self.meanwhile().await;
        if !self.world().read(Partition::DaysOfDevice(id)).is_empty() {
            return;
        }
        self.meanwhile().await;
        let claims: Vec<(i32, i32)> = {
            let world = self.world();
            let of_device = world.claims.range((id, i32::MIN)..=(id, i32::MAX));
            of_device.map(|((_, epoch), partition)| (*epoch, *partition)).collect()
        };
        for (epoch, partition) in claims {
            // A claim that follows an erased one came too late, and decides nothing.
            let partition = self.erased_claim(id, epoch).await.unwrap_or(partition);
            let row = Some(((i64::from(epoch), 0), version, Value::Claim(partition)));
            let partition = Partition::ErasedClaims(id);
            let keep = Mutation { partition, deletes: Vec::new(), row };
            self.acknowledged([What::Mutation(keep)]).await;
            self.meanwhile().await;
            let mut world = self.world();
            world.claims.remove(&(id, epoch));
            world.see("claims that a forget erases");
        }
    }
}

/// A device's day in both indexes.
fn entries(id: Device, day: i64) -> [(Partition, Key); 2] {
    [(Partition::DaysOfDevice(id), (day, 0)), (Partition::DeviceDays(day), (i64::from(id), 0))]
}

fn deletion(partition: Partition, (from, upto): (i64, i64), at: i64) -> What {
    let deletes = vec![Delete { from, upto, at }];
    What::Mutation(Mutation { partition, deletes, row: None })
}

impl TripStore for SimStore {
    async fn apply(&self, trips: &[TripRow]) -> Result<(), StoreError> {
        self.list_days(trips).await;
        let mut writes = Vec::new();
        for trip in trips {
            let (id, row) = (device(&trip.device_id), Arc::new(trip.clone()));
            for write in trip.writes() {
                let (from, upto, at) =
                    (write.delete_from_ms.ms(), write.delete_upto_ms.ms(), write.delete_at);
                let value = Value::Trip(Arc::clone(&row));
                writes.push(What::Mutation(Mutation {
                    partition: Partition::Trips(id, write.day.get()),
                    deletes: vec![Delete { from, upto, at: at.get() }],
                    row: Some(((row.end_ms.ms(), row.start_ms.ms()), write.insert_at.get(), value)),
                }));
            }
        }
        self.acknowledged(writes).await;
        Ok(())
    }

    async fn covering(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
    ) -> Result<Option<TripRow>, StoreError> {
        let row = self.world().covering(device(device_id), time_ms);
        Ok(row.map(|row| TripRow::clone(&row)))
    }

    async fn rows_of_day(&self, device_id: &str, day: Day) -> Result<Vec<TripRow>, StoreError> {
        self.meanwhile().await;
        let mut world = self.world();
        let rows = world.trips(device(device_id), day.get());
        let reads = self.reads(&world);
        if rows.iter().any(|row| row.version >= reads) {
            world.see("loads of rows that are ahead");
        }
        Ok(rows.iter().map(|row| TripRow::clone(row)).collect())
    }

    async fn range(
        &self,
        _: &str,
        _: DeviceTime,
        _: DeviceTime,
        _: Order,
        _: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        unreachable!("a processor reads days")
    }

    async fn devices(
        &self,
        _: DeviceScope,
        _: Option<&str>,
        _: usize,
    ) -> Result<Vec<String>, StoreError> {
        unreachable!("a processor that sets nothing aside lists no devices")
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>, StoreError> {
        self.meanwhile().await;
        let mut world = self.world();
        let forget = |(key, value): (Key, &Value)| match value {
            Value::Forget { before_ms, .. } => {
                Forget { version: Version(key.0), before_ms: *before_ms }
            }
            other => unreachable!("a partition of forgets holds {other:?}"),
        };
        let found = world.read(Partition::Forgets(device(device_id))).into_iter();
        let found: Vec<_> = found.map(forget).collect();
        let reads = self.reads(&world);
        if found.iter().any(|forget| forget.version >= reads) {
            world.see("loads of forgets that are ahead");
        }
        Ok(found)
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        let (id, version, before_ms) = (device(device_id), forget.version, forget.before_ms);
        let days = self.days_to_forget(id, forget).await;
        let value = Value::Forget { before_ms, days: days.iter().copied().collect() };
        let row = Some(((version.get(), 0), version.get() + 1, value));
        let partition = Partition::Forgets(id);
        self.acknowledged([What::Mutation(Mutation { partition, deletes: Vec::new(), row })]).await;
        let before = (i64::MIN, before_ms.ms() - 1);
        let deletions =
            days.iter().map(|day| deletion(Partition::Trips(id, *day), before, version.get()));
        self.acknowledged(deletions).await;
        let mut empty = Vec::new();
        for &day in days.iter().filter(|day| **day < day_of(before_ms).get()) {
            self.meanwhile().await;
            if self.world().trips(id, day).is_empty() {
                empty.push(day);
            }
        }
        let gone = empty.iter().flat_map(|day| entries(id, *day));
        let gone = gone.map(|(partition, key)| deletion(partition, (key.0, key.0), version.get()));
        self.acknowledged(gone).await;
        self.listed.lock().unwrap().retain(|(of, day)| *of != id || !empty.contains(day));
        self.erase_claims(id, version.get()).await;
        Ok(())
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        let id = device(device_id);
        self.meanwhile().await;
        let standing = {
            let mut world = self.world();
            // The read may miss a concurrent claim.
            let is_missed = world.dice.percent(10);
            world.claims.get(&(id, epoch)).copied().filter(|_| !is_missed)
        };
        let erased = self.erased_claim(id, epoch).await;
        let found = erased.or(standing);
        let mut world = self.world();
        if erased.is_some() {
            world.see("claims that decide though a forget erased them");
        }
        Ok(found.map(|partition| world.decide(id, epoch, partition)))
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32, StoreError> {
        let id = device(device_id);
        self.meanwhile().await;
        let standing = {
            let mut world = self.world();
            world.see("claims inserted");
            *world.claims.entry((id, epoch)).or_insert(own)
        };
        // The owner may die before it receives the result.
        let found = self.erased_claim(id, epoch).await.unwrap_or(standing);
        let mut world = self.world();
        if found != own {
            world.see("claims that come too late");
        }
        Ok(world.decide(id, epoch, found))
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
