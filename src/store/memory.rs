//! A store in memory, for tests: the shortest code that fulfils the contract of the traits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use crate::identity;
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::scalar::{Day, DeviceTime, Offset};
use crate::model::tag::{DEVICE_TIME, Tag, TagKey};
use crate::timeline::day_of;

use super::positions::KeptPositions;
use super::schemas::KeptSchema;
use super::{
    Change, DeadLetter, DeviceScope, Flush, Forget, Forgotten, Order, Position, Result, TripRow,
    TripStore, WriteGroup,
};

#[derive(Default)]
pub(super) struct State {
    /// Rows by device and day.
    rows: BTreeMap<(String, Day), Vec<TripRow>>,
    /// Every flush and part of one, with whether it was a whole one.
    flushes: Vec<(Flush, bool)>,
    /// The devices whose rows were read since the last call of `take_reads` of tests.
    reads: Vec<String>,
    pub(super) epochs: BTreeMap<i32, Epoch>,
    pub(super) keys: BTreeMap<String, NamedKey>,
    pub(super) group: Option<String>,
    /// By epoch and slot.
    pub(super) schemas: BTreeMap<(i32, i32), KeptSchema>,
    /// Next offsets by epoch, generation and partition.
    positions: BTreeMap<(i32, i32, i32), i64>,
    forgets: BTreeMap<String, Vec<Forget>>,
    /// Partitions by device and epoch.
    claims: BTreeMap<(String, i32), i32>,
    /// Tags by device, id and key.
    pub(super) tags: BTreeMap<(String, DeviceTime, TagKey), Tag>,
}

/// Keeps all rows in memory, and everything that was ever committed.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl MemoryStore {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Applies a flush or a part of one; only a whole one has a position.
    pub(crate) fn put(&self, flush: &Flush, is_whole: bool) {
        let mut state = self.state();
        state.write(&flush.groups);
        state.flushes.push((flush.clone(), is_whole));
    }

    /// Every flush and part of one, with whether it was a whole one.
    #[must_use]
    pub fn flushes(&self) -> Vec<(Flush, bool)> {
        self.state().flushes.clone()
    }

    /// The position of the last flush.
    pub(crate) fn delivered(&self) -> Position {
        let state = self.state();
        let last = state.flushes.iter().rfind(|(_, is_whole)| *is_whole);
        last.map_or_else(Position::default, |(flush, _)| flush.position)
    }

    /// The devices whose rows were read since the last call, once a day.
    #[cfg(test)]
    pub(crate) fn take_reads(&self) -> Vec<String> {
        std::mem::take(&mut self.state().reads)
    }

    /// The dead letters, in the order they were committed.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        let mut letters: Vec<DeadLetter> = Vec::new();
        for letter in self.state().flushes.iter().flat_map(|(flush, _)| &flush.dead_letters) {
            match letters.last_mut() {
                Some(run) if letter.continues(run) => run.count += letter.count,
                _ => letters.push(letter.clone()),
            }
        }
        letters
    }

    /// The forgets that were committed, in order.
    #[must_use]
    pub fn forgotten(&self) -> Vec<Forgotten> {
        self.flushes().into_iter().flat_map(|(flush, _)| flush.forgotten).collect()
    }

    /// The changes with their rows, in the order they were committed.
    #[must_use]
    pub fn changes(&self) -> Vec<(Change, TripRow)> {
        let state = self.state();
        let changes = state.flushes.iter().flat_map(|(flush, _)| flush.changes());
        changes.map(|(change, row)| (change.clone(), row.clone())).collect()
    }
}

impl State {
    fn forget(&mut self, device_id: &str, forget: &Forget) {
        let known = self.forgets.entry(device_id.to_owned()).or_default();
        if !known.contains(forget) {
            known.push(forget.clone());
        }
        let floor_ms = known.iter().map(|forget| forget.before_ms).max();
        for ((device, _), rows) in &mut self.rows {
            let is_erased =
                |row: &TripRow| row.end_ms < forget.before_ms && row.version < forget.version;
            if device == device_id {
                rows.retain(|row| !is_erased(row));
            }
        }
        let last_day = day_of(floor_ms.expect("there is this one"));
        self.rows.retain(|(_, day), rows| *day >= last_day || !rows.is_empty());
        let rows = &self.rows;
        let is_covered = |device: &str, time_ms: DeviceTime| {
            let of_day = rows.get(&(device.to_owned(), day_of(time_ms))).into_iter().flatten();
            of_day.into_iter().any(|row| (row.start_ms..=row.end_ms).contains(&time_ms))
        };
        let is_left = rows.iter().any(|(key, rows)| key.0 == device_id && !rows.is_empty());
        self.tags.retain(|(device, time_ms, _), _| {
            let is_of_device = *time_ms == DEVICE_TIME;
            let is_covered = || if is_of_device { is_left } else { is_covered(device, *time_ms) };
            device != device_id || *time_ms >= forget.before_ms || is_covered()
        });
    }

    fn write(&mut self, groups: &[WriteGroup]) {
        for trip in groups.iter().flat_map(|group| &group.rows) {
            for day in trip.days() {
                let rows = self.rows.entry((trip.device_id.clone(), day)).or_default();
                let newer = |row: &TripRow| row.overlaps(trip) && row.version > trip.version;
                if !rows.iter().any(newer) {
                    rows.retain(|row| !row.overlaps(trip));
                    rows.push(trip.clone());
                }
            }
        }
    }
}

/// Adds a value unless there is one. Returns whether it was added.
pub(super) fn add<K: Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: K, value: &V) -> bool {
    let is_new = !map.contains_key(&key);
    map.entry(key).or_insert_with(|| value.clone());
    is_new
}

impl TripStore for MemoryStore {
    async fn write(&self, groups: &[WriteGroup]) -> Result<()> {
        self.state().write(groups);
        Ok(())
    }

    async fn rows_from(
        &self,
        device_id: &str,
        day: Day,
        from_ms: DeviceTime,
    ) -> Result<Vec<TripRow>> {
        let mut state = self.state();
        state.reads.push(device_id.to_owned());
        let rows = state.rows.get(&(device_id.to_owned(), day)).into_iter().flatten();
        Ok(rows.filter(|row| row.end_ms >= from_ms).cloned().collect())
    }

    async fn days(
        &self,
        device_id: &str,
        (from, upto): (Day, Day),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Day>> {
        let (state, key) = (self.state(), |day| (device_id.to_owned(), day));
        let days = state.rows.range(key(from)..=key(upto)).map(|((_, day), _)| *day);
        Ok(match order {
            Order::Asc => days.take(limit).collect(),
            Order::Desc => days.rev().take(limit).collect(),
        })
    }

    async fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>> {
        let state = self.state();
        let is_in_scope = |device: &str, touched: Day| match scope {
            DeviceScope::All => true,
            DeviceScope::OfDay(day) => touched == day,
            DeviceScope::OfShard(day, shard) => touched == day && identity::shard(device) == shard,
        };
        let keys = state.rows.keys().filter(|(device, day)| is_in_scope(device, *day));
        let devices: BTreeSet<&String> = keys.map(|(device, _)| device).collect();
        let page =
            devices.into_iter().filter(|&device| after.is_none_or(|after| **device > *after));
        Ok(page.take(limit).cloned().collect())
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>> {
        Ok(self.state().forgets.get(device_id).cloned().unwrap_or_default())
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<()> {
        self.state().forget(device_id, forget);
        Ok(())
    }

    async fn positions(&self, epoch: i32) -> Result<KeptPositions> {
        let state = self.state();
        let of_epoch = || state.positions.iter().filter(|((of, ..), _)| *of == epoch);
        let generation = of_epoch().map(|((_, generation, _), _)| *generation).max().unwrap_or(0);
        let newest = of_epoch().filter(|((_, of, _), _)| *of == generation);
        let next_offsets = newest.map(|((.., partition), next)| (*partition, *next)).collect();
        Ok(KeptPositions { generation, next_offsets })
    }

    async fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        (partition, next): (i32, Offset),
    ) -> Result<()> {
        let mut state = self.state();
        let kept = state.positions.entry((epoch.epoch, generation, partition)).or_default();
        *kept = next.get().max(*kept);
        Ok(())
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        Ok(self.state().claims.get(&(device_id.to_owned(), epoch)).copied())
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32> {
        Ok(*self.state().claims.entry((device_id.to_owned(), epoch)).or_insert(own))
    }
}

/// Writes rows, each of which replaces what lies within its own span.
pub trait ApplyRows: TripStore {
    /// Writes the rows.
    fn apply(&self, rows: &[TripRow]) -> impl Future<Output = Result<()>> + Send {
        let groups: Vec<WriteGroup> = rows.iter().cloned().map(Into::into).collect();
        async move { self.write(&groups).await }
    }
}

impl<T: TripStore> ApplyRows for T {}
