//! Reads that also see what the owner of a device has applied and not written yet.
//!
//! Memory alone does not suffice: some days of the device may not be in it, and that of a former
//! owner is old. So the order of the reads is fixed: memory, then the rows of the store, then the
//! forgets of the device. A trip that leaves memory after it was read is in the store by then; a
//! row that was erased before the rows were read has its forget. The overlap rule joins both, and
//! what ends before the floor is erased, unless it has grown past the floor since it was read: then
//! the reads are repeated, as everything before a forget is durable once it is seen.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join;

use super::ends::{TripEnd, latest_end};
use super::{LookupResult, covering, device_of_uuid};
use crate::codec::trip_row::resolve_overlaps;
use crate::identity::AnyId;
use crate::model::scalar::{DeviceTime, Version};
use crate::store::{Forget, Kinds, Order, Result, StoreError, TripRow, TripStore};

/// A question to the owner of a device.
#[derive(Clone, Debug)]
pub struct MemoryQuestion {
    /// Device id.
    pub device_id: String,
    /// Only segments that end at this time or later, ms.
    pub from_ms: DeviceTime,
    /// Only segments that start at this time or earlier, ms.
    pub upto_ms: DeviceTime,
    /// Order of the segments, by start.
    pub order: Order,
    /// Maximum number of segments.
    pub limit: usize,
}

/// What an owner has in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryAnswer {
    /// The segments that may be newer than their rows in the store, each as it was after some whole
    /// record.
    pub rows: Vec<TripRow>,
    /// From the first to the last sample of all such segments of the device, also of those that
    /// were not asked for.
    pub newer_ms: Option<(DeviceTime, DeviceTime)>,
    /// The last of all such segments.
    pub latest: Option<TripEnd>,
    /// Records of the device before this version are in `rows` or durable; `None` if the owner does
    /// not know that the device is its own.
    pub complete_before: Option<Version>,
    /// Whether the device is in memory.
    #[cfg(feature = "internals")]
    pub is_resident: bool,
}

/// The memory of those who may own a device.
pub trait OwnerMemory: Send + Sync {
    /// What the owner of the device has in memory. `None`: there is no owner here, or it does not
    /// answer in time.
    fn answer(&self, question: MemoryQuestion)
    -> impl Future<Output = Option<MemoryAnswer>> + Send;
}

impl<M: OwnerMemory> OwnerMemory for Option<Arc<M>> {
    async fn answer(&self, question: MemoryQuestion) -> Option<MemoryAnswer> {
        self.as_ref()?.answer(question).await
    }
}

/// A trip, and where it comes from.
#[derive(Clone, Debug)]
pub struct FreshRow {
    /// The trip.
    pub row: TripRow,
    /// Whether it comes from memory and is newer than its row in the store.
    pub is_fresh: bool,
}

impl Borrow<TripRow> for FreshRow {
    fn borrow(&self) -> &TripRow {
        &self.row
    }
}

/// The result of a lookup in memory and store.
#[derive(Debug)]
pub struct FreshLookup {
    /// The result.
    pub result: LookupResult,
    /// Whether the trip comes from memory and is newer than its row in the store.
    pub is_fresh: bool,
    /// The result includes every record of the device before this version, if that is known.
    pub complete_before: Option<Version>,
}

impl FreshLookup {
    fn of_store(result: LookupResult) -> Self {
        Self { result, is_fresh: false, complete_before: None }
    }

    /// Whether the result includes the record at a version. What is erased stays erased.
    #[must_use]
    pub fn covers(&self, version: Version) -> bool {
        let is_known = match &self.result {
            LookupResult::Trip(row) | LookupResult::Stop(row) => row.version >= version,
            LookupResult::Gone { .. } => true,
            LookupResult::Unknown => false,
        };
        is_known || self.complete_before.is_some_and(|before| version < before)
    }
}

/// Trips of a device from memory and store.
#[derive(Debug, Default)]
pub struct FreshTrips {
    /// The trips, in the order of the request.
    pub rows: Vec<FreshRow>,
    /// The trips include every record of the device before this version, if that is known.
    pub complete_before: Option<Version>,
}

/// A store, and the memory of the owners in front of it, for one request.
pub struct FreshStore<'a, S, M> {
    store: &'a S,
    memory: M,
    /// An owner did not answer: it is not asked again, so that a request waits for it once.
    is_silent: AtomicBool,
}

impl<'a, S: TripStore, M: OwnerMemory> FreshStore<'a, S, M> {
    /// Puts memory in front of a store.
    pub fn new(store: &'a S, memory: M) -> Self {
        Self { store, memory, is_silent: AtomicBool::new(false) }
    }

    /// The store, without the memory.
    pub fn store(&self) -> &'a S {
        self.store
    }

    async fn read_memory(
        &self,
        device_id: &str,
        (from_ms, upto_ms): (DeviceTime, DeviceTime),
        order: Order,
        limit: usize,
    ) -> Option<MemoryAnswer> {
        if self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let device_id = device_id.to_owned();
        let question = MemoryQuestion { device_id, from_ms, upto_ms, order, limit };
        let answer = self.memory.answer(question).await;
        self.is_silent.store(answer.is_none(), Ordering::Relaxed);
        answer
    }

    /// Finds the segment of a device that covers a time (ms since 1970).
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn find_at(&self, device_id: &str, time_ms: DeviceTime) -> Result<FreshLookup> {
        let (mut floor, mut span) = (None, (time_ms, time_ms));
        let (found, complete_before) = loop {
            let Some(answer) = self.read_memory(device_id, span, Order::Asc, usize::MAX).await
            else {
                let found = super::find_at(self.store, device_id, time_ms).await?;
                return Ok(FreshLookup::of_store(found));
            };
            let covers = |row: &TripRow| (row.start_ms..=row.end_ms).contains(&time_ms);
            let stored = covering(self.store, device_id, time_ms).await;
            let stored = match stored {
                // The owner has the segment.
                Err(StoreError::Malformed(_)) if answer.rows.iter().any(covers) => None,
                stored => stored?,
            };
            if let Some(row) = &stored
                && (row.start_ms < span.0 || span.1 < row.end_ms)
                && !answer.rows.iter().any(covers)
                && answer.newer_ms.is_some_and(|it| row.start_ms <= it.1 && it.0 <= row.end_ms)
            {
                // The owner may have parts of it of which none covers the time.
                span = (span.0.min(row.start_ms), span.1.max(row.end_ms));
                continue;
            }
            let mut rows = join(stored.into_iter().collect(), answer.rows);
            rows.retain(|found| covers(&found.row));
            if rows.first().is_some_and(|found| !found.is_fresh)
                || self.remove_erased(device_id, &mut rows, &mut floor).await?
            {
                break (rows.into_iter().next(), answer.complete_before);
            }
        };
        let is_fresh = found.as_ref().is_some_and(|found| found.is_fresh);
        let result = match (found, floor) {
            (Some(found), _) => Box::new(found.row).into(),
            (None, Some(forget)) if time_ms < forget.before_ms => {
                LookupResult::Gone { device_id: device_id.to_owned(), forget }
            }
            (None, _) => LookupResult::Unknown,
        };
        Ok(FreshLookup { result, is_fresh, complete_before })
    }

    /// Reads the floor of a device, and removes trips that end before it. Returns whether that is
    /// certain: a trip may have grown past a floor that was set after the trip was read.
    async fn remove_erased(
        &self,
        device_id: &str,
        rows: &mut Vec<FreshRow>,
        floor: &mut Option<Forget>,
    ) -> Result<bool> {
        let known = floor.take();
        let forgets = self.store.forgets(device_id).await?;
        *floor = forgets.iter().cloned().reduce(Forget::and);
        let Some(forget) = floor else { return Ok(true) };
        let count = rows.len();
        let is_erased =
            |row: &TripRow| forgets.iter().any(|forget| forget.erases(row.end_ms, row.version));
        rows.retain(|found| !is_erased(&found.row));
        Ok(rows.len() == count || known.as_ref() == Some(forget))
    }

    /// Finds the trip that covers the time of an id. A UUID is found once the device has a row of
    /// that day, and is never [`LookupResult::Gone`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn find(&self, id: &AnyId) -> Result<FreshLookup> {
        let uuid = match id {
            AnyId::Trip(id) => return self.find_at(&id.device_id, id.t_star_ms).await,
            AnyId::Uuid(uuid) => uuid,
        };
        let Some(device_id) = device_of_uuid(self.store, uuid).await? else {
            return Ok(FreshLookup::of_store(LookupResult::Unknown));
        };
        let mut found = self.find_at(&device_id, uuid.t_star_ms).await?;
        if matches!(found.result, LookupResult::Gone { .. }) {
            found.result = LookupResult::Unknown;
        }
        Ok(found)
    }

    /// Where a device was last; `None` without a segment in the latest days of its index.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn latest_end(&self, device_id: &str) -> Result<Option<TripEnd>> {
        let nothing = (DeviceTime::MAX, DeviceTime::MIN);
        let answer = self.read_memory(device_id, nothing, Order::Desc, 0).await;
        let in_memory = answer.and_then(|answer| answer.latest);
        let stored = latest_end(self.store, device_id).await?;
        let both = resolve_overlaps(stored.into_iter().chain(in_memory).collect());
        let latest = both.into_iter().next_back();
        if latest.is_none() || latest == stored {
            return Ok(latest);
        }
        let forgets = self.store.forgets(device_id).await?;
        let stays =
            |end: &TripEnd| !forgets.iter().any(|forget| forget.erases(end.end_ms, end.version));
        Ok(latest.filter(stays).or(stored.filter(stays)))
    }

    /// The last trip of a device before a time that none covers, and the first one after it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn neighbours(
        &self,
        device_id: &str,
        time_ms: DeviceTime,
    ) -> Result<(Option<FreshRow>, Option<FreshRow>)> {
        let neighbour = |order| self.neighbour(device_id, Kinds::Trips, time_ms, order);
        try_join(neighbour(Order::Desc), neighbour(Order::Asc)).await
    }

    async fn neighbour(
        &self,
        device_id: &str,
        kinds: Kinds,
        time_ms: DeviceTime,
        order: Order,
    ) -> Result<Option<FreshRow>> {
        let span = match order {
            Order::Asc => (time_ms, DeviceTime::MAX),
            Order::Desc => (DeviceTime::MIN, time_ms),
        };
        let answer = self.read_memory(device_id, span, order, 1).await;
        if answer.is_some_and(|answer| !answer.rows.is_empty()) {
            // It may have a newer version of the stored trip, or one that is erased.
            return Ok(self.range(device_id, kinds, span, order, 1).await?.rows.pop());
        }
        let found = self.store.neighbour(device_id, kinds, time_ms, order).await?;
        Ok(found.map(|row| FreshRow { row, is_fresh: false }))
    }

    /// At most `limit` segments of a device that overlap `from_ms..=upto_ms`, each once, ordered by
    /// `start_time`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn range(
        &self,
        device_id: &str,
        kinds: Kinds,
        span: (DeviceTime, DeviceTime),
        order: Order,
        limit: usize,
    ) -> Result<FreshTrips> {
        let (mut found, mut complete_before) = (FoundTrips::new(span, order), Some(Version::MAX));
        let mut floor = None;
        loop {
            let span = found.next;
            let answer = self.read_memory(device_id, span, order, limit).await;
            let known = answer.as_ref().and_then(|answer| answer.complete_before);
            complete_before = complete_before.min(known);
            let in_memory = answer.map_or_else(Vec::new, |answer| answer.rows);
            let stored = self.store.range(device_id, kinds, span.0, span.1, order, limit).await?;
            let listed = Listed::new([&stored, &in_memory], order, limit);
            let has_floor = !in_memory.is_empty();
            let mut rows = join(stored, in_memory);
            if has_floor && !self.remove_erased(device_id, &mut rows, &mut floor).await? {
                continue;
            }
            // One of the other kind in memory hid what it came from.
            rows.retain(|found| kinds.has(found.row.kind) && listed.has(&found.row, order));
            if found.add(rows, listed) || found.rows.len() >= limit {
                break;
            }
        }
        Ok(FreshTrips { rows: found.finish(limit), complete_before })
    }
}

/// What pages of a list have found.
struct FoundTrips {
    order: Order,
    /// All that is asked for.
    span: (DeviceTime, DeviceTime),
    /// What is to be read next.
    next: (DeviceTime, DeviceTime),
    /// By time.
    rows: Vec<FreshRow>,
    /// The version of the newest segment for which pages were read again.
    again: Version,
}

impl FoundTrips {
    fn new(span: (DeviceTime, DeviceTime), order: Order) -> Self {
        Self { order, span, next: span, rows: Vec::new(), again: Version::MIN }
    }

    /// Adds the rows of a page. Returns whether it was the last one.
    fn add(&mut self, rows: Vec<FreshRow>, listed: Listed) -> bool {
        if let Some((torn, version)) = self.torn(&rows) {
            self.again = version;
            self.read_again(torn);
            return false;
        }
        self.rows.extend(rows);
        // A trip that extends past what was listed is found again, perhaps as a later version.
        self.rows = resolve_overlaps(std::mem::take(&mut self.rows));
        match (listed.0, self.order) {
            (Some(end_ms), Order::Asc) => self.next.0 = end_ms + 1,
            (Some(end_ms), Order::Desc) => self.next.1 = end_ms - 1,
            (None, _) => return true,
        }
        self.next.0 > self.next.1
    }

    /// The first segment of earlier pages whose place a newer one takes in part, and the version
    /// of that: it was split meanwhile, and the other part of it lies within what was read.
    fn torn(&self, rows: &[FreshRow]) -> Option<((DeviceTime, DeviceTime), Version)> {
        let splits = |old: &TripRow, new: &TripRow| {
            let is_part = old.start_ms < new.start_ms || new.end_ms < old.end_ms;
            new.version > old.version && new.version > self.again && new.overlaps(old) && is_part
        };
        let torn = |old: &FreshRow| {
            let new = rows.iter().find(|new| splits(&old.row, &new.row))?;
            Some(((old.row.start_ms, old.row.end_ms), new.row.version))
        };
        match self.order {
            Order::Asc => self.rows.iter().find_map(torn),
            Order::Desc => self.rows.iter().rev().find_map(torn),
        }
    }

    /// Drops what lies at or past a span in the order of the list, to be read again.
    fn read_again(&mut self, (start_ms, end_ms): (DeviceTime, DeviceTime)) {
        let (from_ms, upto_ms) = self.span;
        match self.order {
            Order::Asc => self.next.0 = start_ms.max(from_ms),
            Order::Desc => self.next.1 = end_ms.min(upto_ms),
        }
        let (from_ms, upto_ms) = self.next;
        let is_passed = |row: &TripRow| match self.order {
            Order::Asc => row.end_ms < from_ms,
            Order::Desc => row.start_ms > upto_ms,
        };
        self.rows.retain(|found| is_passed(&found.row));
    }

    /// At most `limit` of them, in the order of the list.
    fn finish(mut self, limit: usize) -> Vec<FreshRow> {
        if self.order == Order::Desc {
            self.rows.reverse();
        }
        self.rows.truncate(limit);
        self.rows
    }
}

/// How far lists that end at their limit have every trip; `None`: none of them does.
#[derive(Clone, Copy)]
struct Listed(Option<DeviceTime>);

impl Listed {
    fn new(lists: [&[TripRow]; 2], order: Order, limit: usize) -> Self {
        let full = lists.into_iter().filter(|rows| rows.len() == limit);
        let last = full.filter_map(<[TripRow]>::last);
        Self(match order {
            Order::Asc => last.map(|row| row.end_ms).min(),
            Order::Desc => last.map(|row| row.start_ms).max(),
        })
    }

    fn has(self, row: &TripRow, order: Order) -> bool {
        self.0.is_none_or(|end_ms| match order {
            Order::Asc => row.start_ms <= end_ms,
            Order::Desc => row.end_ms >= end_ms,
        })
    }
}

/// Joins rows by the overlap rule. Of a trip in both at the same version, the stored row stays.
fn join(stored: Vec<TripRow>, in_memory: Vec<TripRow>) -> Vec<FreshRow> {
    let row = |is_fresh| move |row| FreshRow { row, is_fresh };
    let stored = stored.into_iter().map(row(false));
    resolve_overlaps(stored.chain(in_memory.into_iter().map(row(true))).collect())
}
