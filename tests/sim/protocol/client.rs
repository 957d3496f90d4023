//! The group client of a process, over the simulated broker.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::Instant;
use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::consumer::client::{GroupClient, Polled, RecordClient};
use tstar::internals::kafka::consumer::rebalance::RebalanceContext;
use tstar::internals::kafka::partition_handle::{PartitionHandle, WorkerExit};
use tstar::internals::kafka::topics::OffsetRange;
use tstar::internals::kafka::unreadable::UnreadableBatch;

use super::broker::{Client, Task};
use super::log::log_time;
use super::schedule::Schedule;
use super::world::{World, lock};

pub struct SimClient {
    pub process: usize,
    pub context: RebalanceContext,
    pub schedule: Weak<Schedule>,
    pub is_dead: Rc<Cell<bool>>,
}

fn refused(code: Code) -> ClientError {
    ClientError::ConsumerCommit(code)
}

impl SimClient {
    fn schedule(&self) -> Rc<Schedule> {
        self.schedule.upgrade().expect("the schedule runs")
    }

    /// Does something with the client of the process; fails if it is dead.
    fn with<T>(&self, work: impl FnOnce(&mut World, &mut Client) -> T) -> KafkaResult<T> {
        let schedule = self.schedule();
        let mut world = lock(&schedule.world);
        let Some(mut client) = world.clients[self.process].take() else {
            return Err(ClientError::Canceled);
        };
        let done = work(&mut world, &mut client);
        world.clients[self.process] = Some(client);
        Ok(done)
    }

    fn next_task(&self) -> Option<Task> {
        self.task_of_group().or_else(|| self.statistics())
    }

    fn task_of_group(&self) -> Option<Task> {
        let task = self.with(|world, client| {
            let World { group, lanes, dice, .. } = world;
            client.next_task(self.process, (group, lanes), dice)
        });
        task.ok().flatten()
    }

    fn statistics(&self) -> Option<Task> {
        let task = self.with(|world, client| {
            let World { lanes, dice, scripts, .. } = world;
            let ends = lanes.iter().zip(scripts);
            let ends = ends.map(|(lane, of)| (lane.partition, of.end_after(lane.written)));
            client.statistics(&ends.collect::<Vec<_>>(), dice)
        });
        task.ok().flatten()
    }

    /// Carries out a task. Returns an error that a poll returns.
    fn carry_out(&self, task: Task) -> Option<ClientError> {
        let schedule = self.schedule();
        let log = |world: MutexGuard<'_, World>| {
            world.log(|| format!("{}: {task:?}", self.process));
        };
        log(lock(&schedule.world));
        match task {
            Task::Assign(partitions) => self.context.rebalanced(self, true, &partitions),
            Task::Revoke(partitions) => {
                lock(&schedule.world).see("partitions revoked");
                self.context.rebalanced(self, false, &partitions);
            }
            Task::Lose(partitions) => {
                lock(&schedule.world).see("assignments lost");
                self.with(|_, client| client.is_lost = true).ok();
                self.context.rebalanced(self, false, &partitions);
                self.with(|_, client| client.is_lost = false).ok();
            }
            Task::Fenced => {
                lock(&schedule.world).see("static members fenced");
                return Some(ClientError::MessageConsumptionFatal(Code::FencedInstanceId));
            }
            Task::Observe(statistics) => self.context.observe(statistics),
            Task::Rejoin => unreachable!("the client itself joins again"),
        }
        None
    }

    /// The next record that has been fetched: the index of its partition, and its own.
    fn fetched(&self) -> KafkaResult<Option<(usize, usize)>> {
        self.with(|world, client| {
            if !world.dice.percent(75) {
                return Ok(None);
            }
            let of = world.dice.below(world.lanes.len());
            let World { lanes, scripts, .. } = world;
            let lane = &mut lanes[of];
            let Some(next) = client.fetch.get_mut(&lane.partition) else { return Ok(None) };
            if client.paused.contains(&lane.partition) {
                return Ok(None);
            }
            if *next < lane.first {
                world.see("offsets that expire while they are read");
                return Err(ClientError::MessageConsumption(Code::AutoOffsetReset));
            }
            let nth = scripts[of].before(*next);
            if nth >= lane.written {
                return Ok(None);
            }
            *next = scripts[of].offsets[nth] + 1;
            lane.fetched = lane.fetched.max(nth + 1);
            Ok(Some((of, nth)))
        })?
    }

    fn lane(world: &World, partition: i32) -> usize {
        let found = world.lanes.iter().position(|lane| lane.partition == partition);
        found.expect("there is such a partition")
    }

    /// Notes a commit of a partition that is not held.
    fn check_held(&self, offsets: &[(i32, i64)]) -> KafkaResult<()> {
        let process = self.process;
        self.with(|world, client| {
            let owns = |of: i32| world.group.owner(of).is_none_or(|owner| owner == process);
            if !offsets.iter().all(|(of, _)| client.fetch.contains_key(of) || owns(*of)) {
                world.bad.insert("a commit of a partition that is not held");
            }
        })
    }

    /// Leaves the group, as the client does when it is dropped.
    pub fn close(&self) {
        self.with(|_, client| client.is_closing = true).ok();
        // A rebalance may have ended just before.
        if let Some(task) = self.task_of_group() {
            lock(&self.schedule().world).see("rebalances that end while a client is closed");
            self.carry_out(task);
        }
        let held = self.with(|_, client| client.fetch.keys().copied().collect::<Vec<_>>());
        if let Ok(held) = held
            && !held.is_empty()
        {
            self.context.rebalanced(self, false, &held);
        }
        self.with(|world, client| {
            if client.instance.is_none()
                && let Some(member) = client.member
                && world.group.members.contains_key(&member)
            {
                world.group.remove(member);
            }
        })
        .ok();
    }
}

impl RecordClient for SimClient {
    type Group = Self;

    fn group(&self) -> &Self {
        self
    }

    fn poll(&self, _: Duration, mut take: impl FnMut(Polled<'_>)) -> usize {
        if let Some(task) = self.next_task() {
            let Some(error) = self.carry_out(task) else { return 0 };
            take(Polled::Failed(error));
            return 1;
        }
        match self.fetched() {
            Ok(Some((lane, nth))) => {
                let script = Arc::clone(&lock(&self.schedule().world).scripts[lane]);
                take(Polled::Record(script.record(nth)));
            }
            Ok(None) | Err(ClientError::Canceled) => return 0,
            Err(error) => take(Polled::Failed(error)),
        }
        1
    }
}

impl GroupClient for SimClient {
    fn context(&self) -> &RebalanceContext {
        &self.context
    }

    fn subscribe(&self) -> KafkaResult<()> {
        self.with(|_, client| client.has_subscribed = true)
    }

    fn is_cooperative(&self) -> bool {
        lock(&self.schedule().world).group.is_cooperative
    }

    fn is_assignment_lost(&self) -> bool {
        self.with(|_, client| client.is_lost).unwrap_or(false)
    }

    fn assign(&self, starts: &[(i32, i64)]) -> KafkaResult<()> {
        self.with(|_, client| client.fetch = starts.iter().copied().collect())
    }

    fn unassign(&self) -> KafkaResult<()> {
        self.with(|_, client| client.fetch.clear())
    }

    fn incremental_assign(&self, starts: &[(i32, i64)]) -> KafkaResult<()> {
        self.with(|world, client| {
            if starts.iter().any(|(of, _)| client.fetch.contains_key(of)) {
                world.bad.insert("a partition is assigned twice");
            }
            client.fetch.extend(starts.iter().copied());
        })
    }

    fn incremental_unassign(&self, partitions: &[i32]) -> KafkaResult<()> {
        self.with(|world, client| {
            if partitions.iter().any(|of| client.fetch.remove(of).is_none()) {
                world.bad.insert("a partition is taken that was not assigned");
            }
        })
    }

    fn pause(&self, partitions: &[i32]) -> KafkaResult<()> {
        self.with(|world, client| {
            world.see("partitions paused");
            client.paused.extend(partitions);
        })
    }

    fn resume(&self, partitions: &[i32]) -> KafkaResult<()> {
        self.with(|_, client| client.paused.retain(|of| !partitions.contains(of)))
    }

    fn seek(&self, partition: i32, offset: i64) -> KafkaResult<()> {
        self.with(|_, client| {
            if let Some(next) = client.fetch.get_mut(&partition) {
                *next = offset;
            }
        })
    }

    fn commit_later(&self, offsets: &[(i32, i64)]) -> KafkaResult<()> {
        self.check_held(offsets)?;
        lock(&self.schedule().world).commit_later(self.process, offsets);
        Ok(())
    }

    fn commit_by(&self, offsets: &[(i32, i64)], _: Instant) -> KafkaResult<()> {
        self.check_held(offsets)?;
        lock(&self.schedule().world).commit_now(self.process, offsets).map_err(refused)
    }

    fn committed(&self, partitions: &[i32]) -> KafkaResult<BTreeMap<i32, i64>> {
        self.with(|world, client| {
            if client.is_closing {
                world.bad.insert("a client that is closed asks for offsets");
            }
            if client.is_closing || world.fails(30) {
                world.see("requests to brokers that fail");
                return Err(ClientError::MetadataFetch(Code::OperationTimedOut));
            }
            let asked = world.lanes.iter().filter(|lane| partitions.contains(&lane.partition));
            Ok(asked.filter_map(|lane| Some((lane.partition, lane.committed?))).collect())
        })?
    }

    fn topic_id(&self) -> KafkaResult<Option<String>> {
        // The topic is not recreated.
        Ok(None)
    }

    fn extent(&self, partition: i32) -> KafkaResult<OffsetRange> {
        self.with(|world, _| {
            if world.fails(30) {
                return Err(ClientError::MetadataFetch(Code::NotLeaderForPartition));
            }
            let of = Self::lane(world, partition);
            let (lane, script) = (&world.lanes[of], &world.scripts[of]);
            Ok(OffsetRange { first: lane.first, next: script.end_after(lane.written) })
        })?
    }

    fn offset_at(&self, partition: i32, extent: OffsetRange, time_ms: i64) -> KafkaResult<i64> {
        self.with(|world, _| {
            let of = Self::lane(world, partition);
            let (lane, script) = (&world.lanes[of], &world.scripts[of]);
            let mut rest = script.before(lane.first)..lane.written;
            let found = rest.find(|nth| log_time(*nth) >= time_ms);
            found.map_or(extent.next, |nth| script.offsets[nth])
        })
    }

    fn unreadable(&self, _: i32, _: i64) -> Result<Option<UnreadableBatch>, KafkaError> {
        unreachable!("every batch can be unpacked")
    }

    fn wait(&self, handle: &PartitionHandle, deadline: Instant) -> Option<WorkerExit> {
        let schedule = self.schedule();
        while !self.is_dead.get() {
            if let Some(exit) = handle.has_ended() {
                return Some(exit);
            }
            if Instant::now() >= deadline {
                lock(&schedule.world).see("revocations that do not wait any longer");
                return None;
            }
            schedule.turn();
        }
        None
    }

    fn sleep(&self, delay: Duration) {
        self.schedule().pass(delay);
    }
}
