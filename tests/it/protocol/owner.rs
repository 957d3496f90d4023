//! An owner of the partition: the real processor in a future that is polled by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tstar::internals::pipeline::processor::{Processor, ProcessorConfig};
use tstar::internals::store::StoreError;

use super::log::Script;
use super::store::{Shared, SimStore, lock};
use super::world::{Command, Dice, OwnerState};
use crate::nodes::{self, Connection};

pub struct Owner {
    pub id: usize,
    future: Pin<Box<dyn Future<Output = Result<(), StoreError>>>>,
    world: Shared,
}

impl Owner {
    /// An owner that starts at an offset and becomes the current one.
    pub fn new(
        world: &Shared,
        (lane, script): (usize, &Arc<Script>),
        start: i64,
        config: ProcessorConfig,
    ) -> Self {
        let id = {
            let mut world = lock(world);
            let id = world.desks.len();
            let (position, acknowledged) = (start, start);
            world.desks.push(OwnerState { lane, position, acknowledged, ..OwnerState::default() });
            world.current[lane] = id;
            let partition = script.log.partition;
            world.log(|| format!("{id} begins at {start} of {partition}, {config:?}"));
            id
        };
        let (of, script) = (Arc::clone(world), Arc::clone(script));
        let connection = Connection::live(&lock(world).nodes, id);
        let future = Box::pin(async move {
            let trips = nodes::store(connection).await;
            work(SimStore { world: of, owner: id, script, start, trips }, config).await
        });
        let mut owner = Self { id, future, world: Arc::clone(world) };
        owner.poll();
        owner
    }

    /// Runs it as far as it can.
    pub fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if self.future.as_mut().poll(&mut context).is_ready() {
            // Its loop has no end, so it failed.
            let mut world = lock(&self.world);
            world.bad.insert("an owner failed");
            world.desks[self.id].idle = true;
            self.future = Box::pin(std::future::pending());
        }
    }

    pub fn is_idle(&self) -> bool {
        lock(&self.world).desks[self.id].idle
    }

    /// Gives it a command, if it is idle.
    pub fn submit(&self, command: Command) {
        let mut world = lock(&self.world);
        if world.desks[self.id].idle {
            world.log(|| format!("{}: {command:?}", self.id));
            world.desks[self.id].command = Some(command);
        }
    }

    pub fn position(&self) -> i64 {
        lock(&self.world).desks[self.id].position
    }

    pub fn acknowledged(&self) -> i64 {
        lock(&self.world).desks[self.id].acknowledged
    }
}

/// A configuration that the dice choose.
pub fn random_config(dice: &mut Dice) -> ProcessorConfig {
    ProcessorConfig {
        flush_interval: Duration::ZERO,
        max_staleness: Duration::from_millis(dice.one_of(&[100, 500])),
        memory: dice.one_of(&[0, 2_000, 3_000, 100_000, 100_000]),
        by_trip: dice.percent(60),
        loads: dice.one_of(&[1, 1, 2, 4]),
    }
}

async fn work(store: SimStore, config: ProcessorConfig) -> Result<(), StoreError> {
    let script = &store.script;
    let stores = (&store, &store);
    let mut processor =
        Processor::of_log(stores, script.log.clone(), &script.rules, config).await?;
    loop {
        report(&store, &processor);
        match store.command().await {
            Command::Absorb(most) => {
                let position = processor.position().delivered;
                let upto = script.upto(store.world().epochs);
                let most = most.min(usize::try_from(upto - position.get()).unwrap_or(0));
                if let Some(batch) = script.batch(position.get(), most) {
                    processor.absorb(&batch).await?;
                }
            }
            Command::Flush => processor.flush().await?,
            Command::FlushWaited(ms) => {
                processor.flush_overdue(Duration::from_millis(ms)).await?;
                if processor.acknowledged().delivered < processor.position().delivered {
                    store.world().see("flushes that pass over a trip");
                }
            }
        }
    }
}

/// Reports the owner's position to the world. I3.
fn report(store: &SimStore, processor: &Processor<'_, SimStore>) {
    let (mut world, counts) = (store.world(), processor.counts());
    let dropped: u64 = counts.dropped.values().sum();
    if counts.delivered != counts.applied + counts.duplicates + dropped + counts.dead() {
        world.bad.insert("I3");
    }
    let desk = &mut world.desks[store.owner];
    desk.position = processor.position().delivered.get();
    desk.acknowledged = processor.acknowledged().delivered.get();
    let before = std::mem::replace(&mut desk.overlaps, counts.overlaps);
    world.see_many("overlaps loaded", counts.overlaps - before);
}
