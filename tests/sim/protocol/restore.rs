//! Snapshots of the nodes, and what is restored from them after everything is lost.

use std::collections::{BTreeMap, BTreeSet};

use tstar::internals::model::epoch::Epoch;
use tstar::internals::store::TripStore;
use tstar::internals::store::positions::{devices_erased_since, lower_positions, replace};

use super::schedule::Schedule;
use super::world::{World, at_once, lock};
use crate::nodes::Replica;

/// Largest number of turns between a snapshot and the loss of what it is restored from.
const MOST_TURNS: usize = 300;

/// What a backup has.
pub struct Backup {
    /// Number of turns until everything is lost.
    turns: usize,
    /// Copied before the replicas.
    positions: BTreeMap<i32, i64>,
    replicas: [Replica; 3],
}

impl World {
    fn epoch(&self) -> Epoch {
        self.scripts[0].epochs[self.epochs - 1].clone()
    }

    fn positions(&self, epoch: &Epoch) -> BTreeMap<i32, i64> {
        let kept = at_once(self.any_pair.positions(epoch.epoch)).expect("it reads at once");
        let of_lane = |partition: i32| Some((partition, kept.position_of(epoch, partition)?.get()));
        self.lanes.iter().filter_map(|lane| of_lane(lane.partition)).collect()
    }

    /// Whether a device has records in two partitions.
    fn has_contested_device(&self) -> bool {
        let mut seen = BTreeSet::new();
        let mut devices = self.scripts.iter().flat_map(|script| &script.devices);
        devices.any(|device| !seen.insert(device))
    }

    /// Whether rows that were restored lack records that were passed before.
    pub fn is_behind(&mut self) -> bool {
        if !self.behind.is_empty() {
            let (epoch, scripts) = (self.epoch(), &self.scripts);
            let positions = self.positions(&epoch);
            let read = |of: usize| scripts[of].before(positions[&scripts[of].log.partition]);
            self.behind.retain(|of, until| read(*of) < *until);
        }
        !self.behind.is_empty()
    }
}

impl Schedule {
    /// A backup is begun, from which the store will be restored.
    pub fn back_up(&self) {
        let world = &mut *lock(&self.world);
        // A claim that is lost may be decided differently, and no log knows it. What expired unread
        // is not read again.
        let is_left_out = world.has_contested_device() || self.kind.is_lossy;
        if is_left_out || world.backup.is_some() || world.is_behind() {
            return;
        }
        let positions = world.positions(&world.epoch());
        let replicas = world.nodes().replicas.clone();
        let turns = world.dice.below(MOST_TURNS);
        world.log(|| format!("a backup at {positions:?}"));
        world.backup = Some(Backup { turns, positions, replicas });
    }

    /// Time passes for a backup that is under way.
    pub fn age_backup(&self) {
        let backup = {
            let world = &mut *lock(&self.world);
            match &mut world.backup {
                None => return,
                Some(backup) if backup.turns > 0 => {
                    backup.turns -= 1;
                    return;
                }
                Some(_) => world.backup.take().expect("it is there"),
            }
        };
        self.restore(&backup);
    }

    /// All processes end, and the nodes have what the backup has: of each partition and replica
    /// what it was at one moment or another since the positions were copied. If trips were erased
    /// since, that is refused, and the nodes have what they had.
    fn restore(&self, backup: &Backup) {
        let first_of = |world: &World| {
            let lanes = world.lanes.iter();
            lanes.map(|lane| (lane.partition, lane.first)).collect::<BTreeMap<_, _>>()
        };
        let has_expired =
            |(partition, next): (&i32, &i64)| first_of(&lock(&self.world))[partition] > *next;
        if backup.positions.iter().any(has_expired) {
            return;
        }
        let processes = self.processes.borrow().clone();
        processes.iter().for_each(|process| process.die(self));
        self.lookups.abandon();
        let world = &mut *lock(&self.world);
        let members: Vec<u64> = world.group.members.keys().copied().collect();
        members.into_iter().for_each(|member| world.group.remove(member));
        let (is_torn, epoch) = (world.dice.percent(70), world.epoch());
        let lost = world.nodes().restore(&backup.replicas, is_torn);
        let lower = at_once(lower_positions(&world.any_pair, &epoch, &backup.positions));
        let lower = lower.expect("nothing fails");
        let erased = at_once(devices_erased_since(&world.any_pair, &epoch, &lower));
        if is_torn && !erased.expect("nothing fails").is_empty() {
            world.see("backups refused");
            world.nodes().hold(lost);
            return;
        }
        world.see(if is_torn { "torn backups restored" } else { "whole backups restored" });
        // One of a single moment is right by itself.
        if is_torn || world.dice.percent(50) {
            let was_calm = std::mem::replace(&mut world.nodes().is_calm, true);
            let set = at_once(replace(&world.any_pair, &epoch, &lower));
            set.expect("the nodes are calm");
            world.nodes().is_calm = was_calm;
        }
        let positions = world.positions(&epoch);
        // What was written and announced may be ahead of what was committed.
        let until = world.lanes.iter().map(|lane| lane.fetched).enumerate();
        world.behind = until.collect();
        world.is_behind();
        world.log(|| format!("restored at {positions:?}; behind: {:?}", world.behind));
        if !world.behind.is_empty() {
            world.see("rows that are restored behind the group");
        }
    }
}
