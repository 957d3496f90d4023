//! Join: source to timeline to store.
//!
//! One loop owns the timelines. It takes a batch from the source, loads what the batch's records
//! need, lets the timelines decide, and from time to time hands every change since to the store, in
//! one flush. Nothing is acknowledged before it is durable (I6).
//!
//! Always: a record is absorbed whole. Its loads come before its first sample, and no flush splits
//! it: every row ever written is a trip as it was after some whole record.

mod counts;

use std::time::{Duration, Instant};

use indexmap::IndexMap;

pub use counts::{Arrivals, Counts, KeyChanges};

use crate::part::Part;
use crate::reason::{DeadReason, DropReason};
use crate::rules::{Rules, TimeUnit};
use crate::source::{Batch, Decoded, Entry, Fault, Source, SourceError};
use crate::store::{
    Change, ChangeKind, DeadLetter, Flush, Journal, Position, StoreError, TripRow, TripStore,
};
use crate::timeline::{ClockGuard, Limits, Movement, Outcome, Timeline, Trip, WrongClock};

/// A flush does not wait for its time when the dead letters it holds take this much memory, bytes.
const MAX_DEAD_BYTES: usize = 16 << 20;

/// Flushing takes at most a fifth of the time: the next one waits four times as long as one took.
const FLUSH_SHARE: u32 = 4;

/// Why a run ended before the end of its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The source cannot go on. What it gave is stored.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store failed. What was not flushed is not stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a processor works; none of it decides trips.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long changes may wait before they are flushed, at least.
    pub flush_interval: Duration,
    /// How long changes may wait before they are flushed, at most.
    pub max_staleness: Duration,
    /// Kept samples in memory, at most, 32 bytes each; above it trips leave memory once they are
    /// stored, and come back when a sample needs them.
    pub max_resident: usize,
}

impl Default for Pace {
    /// 1 s, 30 s, and 8 million samples (256 MB).
    fn default() -> Self {
        Self {
            flush_interval: Duration::from_secs(1),
            max_staleness: Duration::from_secs(30),
            max_resident: 8_000_000,
        }
    }
}

/// A device in memory.
#[derive(Default)]
struct Device {
    timeline: Timeline,
    /// It stands in the list of those that changed.
    changed: bool,
}

/// Ids are others' to choose, so the hash is seeded anew in each process.
type Devices = IndexMap<Box<str>, Device, foldhash::fast::RandomState>;

/// Builds trips from the entries of one log, and keeps them in a store.
pub struct Processor<'a, S> {
    store: &'a S,
    limits: Limits,
    guard: ClockGuard,
    movement: Movement,
    time_unit: TimeUnit,
    pace: Pace,
    devices: Devices,
    /// The device of the sample before: samples come in bursts.
    latest: usize,
    /// Places of the devices with a trip that changed since the last flush.
    changed: Vec<usize>,
    dead: Vec<DeadLetter>,
    dead_bytes: usize,
    /// What was read of each input since the last flush.
    parts: Vec<Part>,
    /// Kept samples in memory.
    resident: usize,
    /// Offset after the last record absorbed.
    position: Position,
    /// Offset up to which everything is durable.
    acknowledged: Position,
    flushed_at: Instant,
    flush_took: Duration,
    counts: Counts,
}

/// What is decided of an entry before its device's trips are looked at.
enum Admission<'b> {
    /// With the place of its device.
    Sample(&'b Decoded, usize),
    Dropped(DropReason),
    Dead(Fault),
}

/// The version of the record at an offset, in a log of files, whose base is 0.
fn version(offset: i64) -> i64 {
    2 * offset
}

impl<'a, S: TripStore + Journal> Processor<'a, S> {
    /// A processor that goes on where the store's log ended.
    ///
    /// # Errors
    /// The store cannot tell its position.
    pub async fn new(store: &'a S, rules: &Rules, pace: Pace) -> Result<Self, StoreError> {
        let position = store.position().await?;
        Ok(Self {
            store,
            limits: rules.limits(),
            guard: rules.guard(),
            movement: rules.movement(),
            time_unit: rules.time_unit,
            pace,
            devices: Devices::default(),
            latest: 0,
            changed: Vec::new(),
            dead: Vec::new(),
            dead_bytes: 0,
            parts: Vec::new(),
            resident: 0,
            position,
            acknowledged: position,
            flushed_at: Instant::now(),
            flush_took: Duration::ZERO,
            counts: Counts::default(),
        })
    }

    /// Offset of the next record.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// What became of the samples so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Absorbs everything the source has and flushes it. `watch` sees each batch once it is
    /// absorbed.
    ///
    /// # Errors
    /// The source or the store fails. What a failing source gave before is flushed all the same.
    pub async fn run<Input: Source>(
        &mut self,
        source: &mut Input,
        mut watch: impl FnMut(&Batch, &Counts),
    ) -> Result<(), RunError> {
        let ended = loop {
            match source.next().await {
                Ok(Some(batch)) => {
                    self.absorb(&batch).await?;
                    watch(&batch, &self.counts);
                    if self.must_flush() {
                        self.flush().await?;
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.flush().await?;
        Ok(ended?)
    }

    /// Absorbs a batch, record by record.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn absorb(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut rest = &batch.entries[..];
        while let Some(first) = rest.first() {
            let length = rest.iter().take_while(|entry| entry.offset == first.offset).count();
            let (record, others) = rest.split_at(length);
            self.absorb_record(batch, record).await?;
            // A file that is read again comes as the records it was.
            self.position.delivered = self.position.delivered.max(first.offset + 1);
            rest = others;
        }
        if let Some(part) = &batch.part {
            self.note(part);
        }
        Ok(())
    }

    /// Of each part the latest state counts.
    fn note(&mut self, part: &Part) {
        let key = |part: &Part| (part.first_offset, part.from_bytes);
        match self.parts.last_mut() {
            Some(last) if key(last) == key(part) => last.clone_from(part),
            _ => self.parts.push(part.clone()),
        }
    }

    async fn absorb_record(&mut self, batch: &Batch, record: &[Entry]) -> Result<(), StoreError> {
        // One sample is the common record: it needs no list of what was decided.
        if let [entry] = record {
            let admission = self.admit(batch, entry);
            self.load(&admission).await?;
            self.settle(batch, entry, admission);
            return Ok(());
        }
        let admitted: Vec<_> = record.iter().map(|entry| self.admit(batch, entry)).collect();
        for admission in &admitted {
            self.load(admission).await?;
        }
        for (entry, admission) in record.iter().zip(admitted) {
            self.settle(batch, entry, admission);
        }
        Ok(())
    }

    fn admit<'b>(&mut self, batch: &Batch, entry: &'b Entry) -> Admission<'b> {
        let decoded = match &entry.content {
            Ok(decoded) => decoded,
            Err(fault) => return Admission::Dead(Fault::clone(fault)),
        };
        let time_ms = decoded.sample.time_ms;
        if let Err(wrong) = self.guard.judge(time_ms, entry.log_time_ms) {
            return Admission::Dead(self.wrong_clock(wrong, time_ms, entry.log_time_ms));
        }
        match self.movement.judge(&decoded.sample, decoded.ignition) {
            Ok(()) => Admission::Sample(decoded, self.place_of(batch.text(&decoded.device))),
            Err(none) => Admission::Dropped(none.into()),
        }
    }

    /// Where a device stands in memory.
    #[inline]
    fn place_of(&mut self, name: &str) -> usize {
        let is_latest = self.devices.get_index(self.latest).is_some_and(|(id, _)| **id == *name);
        if !is_latest {
            self.latest = match self.devices.get_index_of(name) {
                Some(place) => place,
                None => self.devices.insert_full(name.into(), Device::default()).0,
            };
        }
        self.latest
    }

    fn wrong_clock(&self, wrong: WrongClock, time_ms: i64, log_time_ms: i64) -> Fault {
        let message = match wrong {
            WrongClock::BeforeMin => {
                format!(
                    "device time {time_ms} ms is before --min-time, {} ms",
                    self.guard.min_time_ms
                )
            }
            WrongClock::InFuture => format!(
                "device time {time_ms} ms is more than --max-future, {} ms, past the log's {log_time_ms} ms",
                self.guard.max_future_ms
            ),
        };
        let mut fault = Fault::new(wrong.into(), message);
        let in_seconds = time_ms.checked_mul(1000);
        fault.looks_like_seconds = self.time_unit == TimeUnit::Millis
            && wrong == WrongClock::BeforeMin
            && in_seconds.is_some_and(|ms| self.guard.judge(ms, log_time_ms).is_ok());
        fault
    }

    /// Loads the trips that an admitted sample may meet.
    async fn load(&mut self, admission: &Admission<'_>) -> Result<(), StoreError> {
        let &Admission::Sample(decoded, place) = admission else { return Ok(()) };
        let (_, device) = self.devices.get_index(place).expect("it was given this place");
        let days = device.timeline.unknown_days(&self.limits, decoded.sample.time_ms);
        if days.is_empty() { Ok(()) } else { self.load_days(place, &days).await }
    }

    async fn load_days(&mut self, place: usize, days: &[i64]) -> Result<(), StoreError> {
        let (name, device) = self.devices.get_index_mut(place).expect("it was given this place");
        let mut trips: Vec<Trip> = Vec::new();
        for &day in days {
            for row in self.store.near(name, day).await? {
                let trip = row.to_trip()?;
                self.resident += trip.samples();
                trips.push(trip);
            }
        }
        let acknowledged = version(self.acknowledged.delivered);
        let overlaps = device.timeline.know(days, trips, acknowledged);
        self.counts.overlaps += overlaps as u64;
        if device.timeline.trips().any(|trip| trip.unflushed().is_some()) && !device.changed {
            device.changed = true;
            self.changed.push(place);
        }
        Ok(())
    }

    /// Counts an entry, and lets its device's timeline decide where there is a sample to decide on.
    fn settle(&mut self, batch: &Batch, entry: &Entry, admission: Admission<'_>) {
        self.counts.delivered += 1;
        match admission {
            Admission::Dropped(reason) => *self.counts.dropped.entry(reason).or_default() += 1,
            Admission::Dead(fault) => self.bury(batch, entry, fault),
            Admission::Sample(decoded, place) => self.decide(batch, entry, decoded, place),
        }
    }

    fn decide(&mut self, batch: &Batch, entry: &Entry, decoded: &Decoded, place: usize) {
        let driver = decoded.driver.as_ref().map(|driver| batch.text(driver));
        let (name, device) = self.devices.get_index_mut(place).expect("it was given this place");
        let at = version(entry.offset);
        match device.timeline.absorb(&self.limits, at, decoded.sample, driver) {
            Outcome::Applied(arrival) => {
                self.counts.applied += 1;
                self.counts.arrivals.count(arrival);
                self.resident += 1;
                if !device.changed {
                    device.changed = true;
                    self.changed.push(place);
                }
            }
            Outcome::Duplicate { conflicting } => {
                self.counts.duplicates += 1;
                self.counts.conflicting += u64::from(conflicting);
            }
            Outcome::TripFull => {
                let message = format!(
                    "it lies inside a trip of {name} that holds --max-samples, {}",
                    self.limits.max_samples
                );
                self.bury(batch, entry, Fault::new(DeadReason::TripFull, message));
            }
        }
    }

    fn bury(&mut self, batch: &Batch, entry: &Entry, fault: Fault) {
        *self.counts.dead_letters.entry(fault.reason).or_default() += 1;
        self.counts.looks_like_seconds += u64::from(fault.looks_like_seconds);
        if entry.offset < self.position.delivered {
            // A record that was delivered before: its dead letter is kept already.
            return;
        }
        let value = batch.raw(entry).to_vec();
        // Of a short line the letter itself is the larger part.
        let texts = value.len() + fault.message.len() + batch.origin.len();
        self.dead_bytes += size_of::<DeadLetter>() + texts;
        let (value_bytes, sha256) = match fault.cut {
            Some(cut) => (cut.bytes, Some(cut.sha256)),
            None => (value.len() as u64, None),
        };
        self.dead.push(DeadLetter {
            offset: entry.offset,
            element: entry.element,
            reason: fault.reason,
            message: fault.message,
            origin: batch.origin.to_string(),
            line: entry.line,
            log_time_ms: entry.log_time_ms,
            value,
            value_bytes,
            sha256,
        });
    }

    fn must_flush(&self) -> bool {
        let wait = (self.flush_took * FLUSH_SHARE).max(self.pace.flush_interval);
        self.flushed_at.elapsed() >= wait.min(self.pace.max_staleness)
            || self.resident > self.pace.max_resident
            || self.dead_bytes > MAX_DEAD_BYTES
    }

    /// Hands every change since the last flush to the store.
    ///
    /// # Errors
    /// The store fails; then nothing of this flush counts as stored, and the processor is spent.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        let began = Instant::now();
        let mut flush = Flush { position: self.position, ..Flush::default() };
        flush.dead_letters = std::mem::take(&mut self.dead);
        flush.parts = std::mem::take(&mut self.parts);
        self.dead_bytes = 0;
        for place in std::mem::take(&mut self.changed) {
            let (name, device) = self.devices.get_index_mut(place).expect("it is in memory");
            device.changed = false;
            for trip in device.timeline.trips_mut() {
                if let Some(since) = trip.take_unflushed() {
                    flush.changes.push(change(trip, since, flush.trips.len()));
                    flush.trips.push(TripRow::of(name, trip));
                }
            }
        }
        if !flush.trips.is_empty()
            || !flush.dead_letters.is_empty()
            || !flush.parts.is_empty()
            || self.acknowledged != self.position
        {
            self.store.commit(&flush).await?;
            self.counts.flushes += 1;
            self.counts.trips_written += flush.trips.len() as u64;
        }
        self.acknowledged = self.position;
        if self.resident > self.pace.max_resident {
            // Everything is stored, so anything may leave; what is needed again is loaded again.
            self.devices.clear();
            self.resident = 0;
        }
        self.flushed_at = Instant::now();
        self.flush_took = began.elapsed();
        Ok(())
    }
}

/// The event of a trip's changes at and past version `since`: a function of the row and of `since`.
fn change(trip: &Trip, since: i64, row: usize) -> Change {
    let retired = trip.absorbed.iter().filter(|&(_, &merged)| merged >= since);
    let retired: Vec<i64> = retired.map(|(&t_star_ms, _)| t_star_ms).collect();
    let kind = match (retired.is_empty(), trip.minted >= since) {
        (false, _) => ChangeKind::Merged,
        (true, true) => ChangeKind::Started,
        (true, false) => ChangeKind::Grown,
    };
    Change { kind, retired, row }
}
