//! A store in memory, for tests: the shortest code that fulfils the contract of the traits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use crate::identity;
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::scalar::{Day, DeviceTime, Offset};
use crate::model::schema::{SchemaSubject, SchemaVerdict};
use crate::model::tag::{Revision, Tag, TagKey};
use crate::timeline::day_of;

use super::positions::KeptPositions;
use super::schemas::KeptSchema;
use super::{
    Change, DeadLetter, DeviceScope, Flush, Forget, Forgotten, Order, Position, SideTables,
    StoreError, TripRow, TripStore, WriteGroup,
};
use crate::codec::trip_row::resolve_overlaps;

#[derive(Default)]
struct State {
    /// Rows by device and day.
    rows: BTreeMap<(String, Day), Vec<TripRow>>,
    dead_letters: Vec<DeadLetter>,
    changes: Vec<(Change, TripRow)>,
    position: Position,
    epochs: BTreeMap<i32, Epoch>,
    keys: BTreeMap<String, NamedKey>,
    group: Option<String>,
    /// By epoch and slot.
    schemas: BTreeMap<(i32, i32), KeptSchema>,
    /// Next offsets by epoch, generation and partition.
    positions: BTreeMap<(i32, i32, i32), i64>,
    forgets: BTreeMap<String, Vec<Forget>>,
    forgotten: Vec<Forgotten>,
    /// Partitions by device and epoch.
    claims: BTreeMap<(String, i32), i32>,
    /// Tags by device, id and key.
    tags: BTreeMap<(String, DeviceTime, TagKey), Tag>,
}

/// Keeps all rows in memory, and everything that was ever committed.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Applies a flush or a part of one; the last one has its position.
    pub(crate) fn put(&self, flush: &Flush, is_last: bool) {
        let mut state = self.state();
        state.put(flush);
        if is_last {
            state.position = flush.position;
        }
    }

    /// The position of the last flush.
    pub(crate) fn delivered(&self) -> Position {
        self.state().position
    }

    /// The dead letters, in the order they were committed.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.state().dead_letters.clone()
    }

    /// The forgets that were committed, in order.
    #[must_use]
    pub fn forgotten(&self) -> Vec<Forgotten> {
        self.state().forgotten.clone()
    }

    /// The changes with their rows, in the order they were committed.
    #[must_use]
    pub fn changes(&self) -> Vec<(Change, TripRow)> {
        self.state().changes.clone()
    }
}

impl State {
    fn forget(&mut self, device_id: &str, forget: &Forget) {
        let known = self.forgets.entry(device_id.to_owned()).or_default();
        if !known.contains(forget) {
            known.push(forget.clone());
        }
        for ((device, _), rows) in &mut self.rows {
            let is_erased =
                |row: &TripRow| row.end_ms < forget.before_ms && row.version < forget.version;
            if device == device_id {
                rows.retain(|row| !is_erased(row));
            }
        }
        let last_day = day_of(forget.before_ms);
        self.rows.retain(|(_, day), rows| *day >= last_day || !rows.is_empty());
        let rows = &self.rows;
        let is_covered = |device: &str, time_ms: DeviceTime| {
            let of_day = rows.get(&(device.to_owned(), day_of(time_ms))).into_iter().flatten();
            of_day.into_iter().any(|row| (row.start_ms..=row.end_ms).contains(&time_ms))
        };
        self.tags.retain(|(device, time_ms, _), _| {
            device != device_id || *time_ms >= forget.before_ms || is_covered(device, *time_ms)
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

    fn put(&mut self, flush: &Flush) {
        self.write(&flush.groups);
        for letter in &flush.dead_letters {
            match self.dead_letters.last_mut() {
                Some(run) if letter.continues(run) => run.count += letter.count,
                _ => self.dead_letters.push(letter.clone()),
            }
        }
        self.changes.extend(flush.changes().map(|(change, row)| (change.clone(), row.clone())));
        self.forgotten.extend(flush.forgotten.iter().cloned());
    }

    fn rows(&self, device_id: &str) -> Vec<TripRow> {
        let of_device = self.rows.iter().filter(|((device, _), _)| device == device_id);
        resolve_overlaps(of_device.flat_map(|(_, rows)| rows.clone()).collect())
    }

    fn day(&self, device_id: &str, day: Day) -> Vec<TripRow> {
        self.rows.get(&(device_id.to_owned(), day)).cloned().unwrap_or_default()
    }
}

/// Adds a value unless there is one. Returns whether it was added.
fn add<K: Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: K, value: &V) -> bool {
    let is_new = !map.contains_key(&key);
    map.entry(key).or_insert_with(|| value.clone());
    is_new
}

impl TripStore for MemoryStore {
    async fn write(&self, groups: &[WriteGroup]) -> Result<(), StoreError> {
        self.state().write(groups);
        Ok(())
    }

    async fn covering(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
    ) -> Result<Option<TripRow>, StoreError> {
        let rows = self.state().day(device_id, day_of(time_ms));
        let covers = |row: &TripRow| (row.start_ms..=row.end_ms).contains(&time_ms);
        Ok(rows.into_iter().filter(covers).max_by_key(|row| row.version))
    }

    async fn rows_of_day(&self, device_id: &str, day: Day) -> Result<Vec<TripRow>, StoreError> {
        Ok(self.state().day(device_id, day))
    }

    async fn range(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
        order: Order,
        limit: usize,
    ) -> Result<Vec<TripRow>, StoreError> {
        let mut rows = self.state().rows(device_id);
        rows.retain(|row| row.start_ms <= upto_ms && row.end_ms >= from_ms);
        if order == Order::Desc {
            rows.reverse();
        }
        rows.truncate(limit);
        Ok(rows)
    }

    async fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
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

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>, StoreError> {
        Ok(self.state().forgets.get(device_id).cloned().unwrap_or_default())
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<(), StoreError> {
        self.state().forget(device_id, forget);
        Ok(())
    }

    async fn positions(&self, epoch: i32) -> Result<KeptPositions, StoreError> {
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
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let kept = state.positions.entry((epoch.epoch, generation, partition)).or_default();
        *kept = next.get().max(*kept);
        Ok(())
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>, StoreError> {
        Ok(self.state().claims.get(&(device_id.to_owned(), epoch)).copied())
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32, StoreError> {
        Ok(*self.state().claims.entry((device_id.to_owned(), epoch)).or_insert(own))
    }
}

impl SideTables for MemoryStore {
    async fn epochs(&self) -> Result<Vec<Epoch>, StoreError> {
        Ok(self.state().epochs.values().cloned().collect())
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool, StoreError> {
        Ok(add(&mut self.state().epochs, epoch.epoch, epoch))
    }

    async fn control_keys(&self) -> Result<Vec<NamedKey>, StoreError> {
        Ok(self.state().keys.values().cloned().collect())
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool, StoreError> {
        Ok(add(&mut self.state().keys, key.name.clone(), key))
    }

    async fn group(&self) -> Result<Option<String>, StoreError> {
        Ok(self.state().group.clone())
    }

    async fn keep_group(
        &self,
        former: Option<&str>,
        group: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut state = self.state();
        if state.group.as_deref() == former {
            state.group = Some(group.to_owned());
        }
        Ok(state.group.clone())
    }

    async fn schema_subjects(
        &self,
        epoch: i32,
        from: i32,
    ) -> Result<Vec<SchemaSubject>, StoreError> {
        let state = self.state();
        let slots = state.schemas.range((epoch, from)..=(epoch, i32::MAX));
        Ok(slots.map(|(_, schema)| schema.id).collect())
    }

    async fn schema_in(&self, epoch: i32, slot: i32) -> Result<Option<SchemaVerdict>, StoreError> {
        Ok(self.state().schemas.get(&(epoch, slot)).map(|schema| schema.verdict.clone()))
    }

    async fn add_schema(&self, schema: &KeptSchema) -> Result<(), StoreError> {
        add(&mut self.state().schemas, (schema.epoch, schema.slot), schema);
        Ok(())
    }

    async fn tags(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> Result<Vec<Tag>, StoreError> {
        let state = self.state();
        let is_wanted = |(device, time_ms, _): &(String, DeviceTime, TagKey)| {
            device == device_id && (from_ms..=upto_ms).contains(time_ms)
        };
        let found = state.tags.iter().filter(|(key, _)| is_wanted(key));
        Ok(found.map(|(_, tag)| tag.clone()).collect())
    }

    async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool, StoreError> {
        let key = (device_id.to_owned(), tag.t_star_ms, tag.key.clone());
        let mut state = self.state();
        let is_same = state.tags.get(&key).map(|tag| tag.revision) == replaced;
        if is_same {
            state.tags.insert(key, tag.clone());
        }
        Ok(is_same)
    }

    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool, StoreError> {
        let key = (device_id.to_owned(), tag.t_star_ms, tag.key.clone());
        let mut state = self.state();
        if state.tags.get(&key).is_some_and(|found| found.revision == tag.revision) {
            state.tags.remove(&key);
        }
        Ok(!state.tags.contains_key(&key))
    }

    async fn has_tags(&self) -> Result<bool, StoreError> {
        Ok(!self.state().tags.is_empty())
    }

    async fn tagged_devices(&self) -> Result<Vec<String>, StoreError> {
        let mut devices: Vec<String> =
            self.state().tags.keys().map(|(device, ..)| device.clone()).collect();
        devices.dedup();
        Ok(devices)
    }
}
