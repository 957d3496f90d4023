//! Source to timeline to store.
//!
//! One loop owns the timelines. It takes a batch from the source, loads what the batch's records
//! need, lets the timelines decide, and from time to time hands every change since to the store, in
//! one flush. Nothing is acknowledged before it is durable (I6).
//!
//! Always: a record is absorbed whole. Its loads come before its first sample, and no flush splits
//! it: every row ever written is a trip as it was after some whole record.

mod config;
mod control;
mod device_partition;
mod flush;
mod letters;
mod load;
mod memory_budget;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::metrics::{Histogram, histogram};
use indexmap::IndexMap;
use tokio::time::timeout_at;

pub use memory_budget::Budget;

pub use config::ProcessorConfig;
use device_partition::Home;
use letters::RefusedElements;
pub use letters::{says_of_array, wrong_clock};
use load::ForgetState;
use memory_budget::Share;

use crate::model::epoch::Log;
use crate::model::input_part::Part;
use crate::model::reason::{DeadReason, DropReason};
use crate::model::rules::{Rules, TimeUnit};
use crate::source::spill::Spill;
use crate::source::{Batch, DecodedSample, Entry, SampleError, Source, SourceError};
use crate::store::{DeadLetter, DeviceScope, Journal, Position, StoreError, TripStore};
pub use crate::telemetry::counts::{ArrivalCounts, KeyChanges, SampleCounts};
use crate::telemetry::{self, SAMPLE_DELAY};
use crate::timeline::{ClockGuard, ClockViolation, Limits, MovementFilter, Outcome, Timeline};

/// What a device takes to write before any was written, as good as any guess.
const FIRST_GUESS: Duration = Duration::from_micros(20);

/// What a device takes in memory beside its name and trips, bytes: itself, its place among others,
/// the days that are known of it.
const DEVICE_BYTES: usize = size_of::<Device>() + 320;

/// Of so many samples that were applied, the delay of one is observed.
const OBSERVED: u64 = 64;

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

/// A device in memory.
#[derive(Default)]
struct Device {
    timeline: Timeline,
    /// It stands in the list of those that changed.
    changed: bool,
    /// A sample of it came since devices were let go last.
    touched: bool,
    /// What the log asked to erase of it.
    erased: Option<Box<ForgetState>>,
    /// Where it belongs, as far as that was asked. A log of files has no partitions.
    home: Option<Home>,
}

impl Device {
    /// What it takes in memory, about, bytes.
    fn memory(&self, name: &str) -> usize {
        DEVICE_BYTES + name.len() + self.timeline.memory()
    }
}

/// Ids are others' to choose, so the hash is seeded anew in each process.
type Devices = IndexMap<Box<str>, Device, foldhash::fast::RandomState>;

/// Builds trips from the entries of one log, and keeps them in a store.
pub struct Processor<'a, S> {
    store: &'a S,
    log: Log,
    limits: Limits,
    guard: ClockGuard,
    movement: MovementFilter,
    time_unit: TimeUnit,
    pace: ProcessorConfig,
    devices: Devices,
    /// The device of the sample before: samples come in bursts.
    latest: usize,
    /// Places of the devices with a trip that changed since the last flush.
    changed: Vec<usize>,
    dead: Vec<DeadLetter>,
    dead_bytes: usize,
    /// What was read of each input since the last flush.
    parts: Vec<Part>,
    /// What the devices in memory take, about, bytes.
    resident: usize,
    /// Samples decided since memory was emptied.
    decided: u64,
    /// Its part of the memory that several processors share.
    share: Option<Share>,
    /// Where samples may be set aside.
    spill: Option<Spill>,
    /// More devices send than fit into memory, so samples are set aside.
    sets_aside: bool,
    /// The store held nothing, and no device has left memory since: nothing is there to load.
    store_was_empty: bool,
    /// Offset after the last record absorbed.
    position: Position,
    /// Offset up to which everything is durable.
    acknowledged: Position,
    flushed_at: Instant,
    /// What it took to write a device, the last time.
    device_took: Duration,
    counts: SampleCounts,
    /// How late samples come.
    delays: Histogram,
}

/// What is decided of an entry before its device's trips are looked at.
enum EntryClass<'b> {
    Sample(&'b DecodedSample),
    Dropped(DropReason),
    Dead(&'b SampleError),
    /// Its device time cannot be true.
    Untimely(&'b DecodedSample, ClockViolation),
}

impl<'a, S: TripStore + Journal> Processor<'a, S> {
    /// A processor of files that goes on where the store's log ended.
    ///
    /// # Errors
    /// The store cannot tell its position.
    pub async fn new(
        store: &'a S,
        rules: &Rules,
        pace: ProcessorConfig,
    ) -> Result<Self, StoreError> {
        Self::of_log(store, Log::of_files(), rules, pace).await
    }

    /// A processor of a log that goes on at the journal's position.
    ///
    /// # Errors
    /// The journal cannot tell its position.
    pub async fn of_log(
        store: &'a S,
        log: Log,
        rules: &Rules,
        pace: ProcessorConfig,
    ) -> Result<Self, StoreError> {
        let position = store.position().await?;
        Ok(Self {
            store,
            log,
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
            decided: 0,
            share: None,
            spill: None,
            sets_aside: false,
            store_was_empty: false,
            position,
            acknowledged: position,
            flushed_at: Instant::now(),
            device_took: FIRST_GUESS,
            counts: SampleCounts::default(),
            delays: histogram!(SAMPLE_DELAY),
        })
    }

    /// Lets samples be set aside on the disk where more devices send than fit into memory. For a
    /// store that is this processor's alone: trips may reach it as late as at the end, and where it
    /// is empty nothing is looked up in it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn enable_spill(&mut self, spill: Spill) -> Result<(), StoreError> {
        // One whose trips were erased holds what says so.
        self.store_was_empty = self.position.delivered == 0
            && self.store.devices(DeviceScope::All, None, 1).await?.is_empty();
        self.spill = Some(spill);
        Ok(())
    }

    /// Takes part in a budget, in place of [`Pace::memory`].
    #[must_use]
    pub fn sharing(mut self, budget: Arc<Budget>) -> Self {
        self.share = Some(Share::new(budget));
        self
    }

    /// Offset of the next record.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Up to where everything is durable.
    #[must_use]
    pub fn acknowledged(&self) -> Position {
        self.acknowledged
    }

    /// What became of the samples so far.
    #[must_use]
    pub fn counts(&self) -> &SampleCounts {
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
        mut watch: impl FnMut(&Batch, &SampleCounts),
    ) -> Result<(), RunError> {
        let ended = loop {
            let next = match self.next_flush() {
                None => source.next().await,
                Some(due) => match timeout_at(due.into(), source.next()).await {
                    Ok(next) => next,
                    // Nothing comes just now, and what came has waited long enough.
                    Err(_) => {
                        self.flush_some().await?;
                        continue;
                    }
                },
            };
            match next {
                Ok(Some(batch)) => {
                    self.absorb(&batch).await?;
                    watch(&batch, &self.counts);
                    self.stage_dead().await?;
                    if self.is_flush_due() {
                        self.flush_or_spill().await?;
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
    /// The store cannot be read, or nothing can be set aside.
    pub async fn absorb(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.sets_aside && batch.control.is_some() {
            // What came before it is decided before it.
            self.flush().await?;
        }
        if batch.control.is_some() {
            // Its entry stands for it, and is no sample.
        } else if self.sets_aside {
            self.set_aside(batch)?;
        } else {
            self.absorb_records(batch).await?;
        }
        if let Some(last) = batch.entries.last() {
            // A file that is read again comes as the records it was.
            self.position.delivered = self.position.delivered.max(last.offset + 1);
        }
        if let Some(next) = batch.next_offset {
            self.position.delivered = self.position.delivered.max(next);
        }
        if let Some(part) = &batch.part {
            self.record_part(part);
        }
        if let Some(control) = &batch.control {
            self.control(batch, control).await?;
        }
        if let Some(share) = &mut self.share {
            share.set_resident(self.resident);
        }
        Ok(())
    }

    async fn absorb_records(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut rest = &batch.entries[..];
        while let Some(first) = rest.first() {
            let length = rest.iter().take_while(|entry| entry.offset == first.offset).count();
            self.absorb_record(batch, rest, length).await?;
            self.stage_dead().await?;
            rest = &rest[length..];
        }
        Ok(())
    }

    /// Of each part the latest state counts.
    fn record_part(&mut self, part: &Part) {
        match self.parts.last_mut() {
            Some(last) if last.key() == part.key() => last.clone_from(part),
            _ => self.parts.push(part.clone()),
        }
    }

    /// Absorbs the record of so many entries that `ahead` begins with.
    async fn absorb_record(
        &mut self,
        batch: &Batch,
        ahead: &[Entry],
        length: usize,
    ) -> Result<(), StoreError> {
        let record = &ahead[..length];
        // One sample is the common record: it needs no list of places.
        if let [entry] = record {
            let judged = self.classify(entry);
            let place = self.load(batch, ahead, &judged).await?;
            if let Some(fault) = self.apply_entry(batch, entry, judged, place) {
                self.dead_letter(batch, entry, fault);
            }
            return Ok(());
        }
        let mut loaded = Vec::with_capacity(record.len());
        for entry in record {
            let judged = self.classify(entry);
            let place = self.load(batch, ahead, &judged).await?;
            loaded.push((judged, place));
        }
        // A load that shows that something was erased empties what one before it brought.
        while let Some(nth) = loaded.iter().position(|(it, place)| self.lacks(it, *place)) {
            self.load(batch, ahead, &loaded[nth].0).await?;
        }
        let mut refused = RefusedElements::default();
        for ((nth, entry), (judged, place)) in record.iter().enumerate().zip(loaded) {
            if let Some(fault) = self.apply_entry(batch, entry, judged, place) {
                self.refuse(batch, (nth, entry), fault, &mut refused);
            }
        }
        self.bury_array(batch, record, refused);
        Ok(())
    }

    fn classify<'b>(&self, entry: &'b Entry) -> EntryClass<'b> {
        let decoded = match &entry.content {
            Ok(decoded) => decoded,
            Err(fault) => return EntryClass::Dead(fault),
        };
        let time_ms = decoded.sample.time_ms;
        if let Err(wrong) = self.guard.judge(time_ms, entry.log_time_ms) {
            return EntryClass::Untimely(decoded, wrong);
        }
        match self.movement.judge(&decoded.sample, decoded.ignition) {
            Ok(()) => EntryClass::Sample(decoded),
            Err(none) => EntryClass::Dropped(none.into()),
        }
    }

    /// Where a device stands in memory.
    #[inline]
    fn slot_of(&mut self, name: &str) -> usize {
        let is_latest = self.devices.get_index(self.latest).is_some_and(|(id, _)| **id == *name);
        if !is_latest {
            self.latest = match self.devices.get_index_of(name) {
                Some(place) => place,
                None => {
                    let device = Device::default();
                    self.resident += device.memory(name);
                    self.devices.insert_full(name.into(), device).0
                }
            };
        }
        self.latest
    }

    /// Counts an entry, and lets its device's timeline decide where there is a sample to decide on.
    /// One that cannot be used is not counted yet: returns why.
    fn apply_entry(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        judged: EntryClass<'_>,
        place: usize,
    ) -> Option<SampleError> {
        match judged {
            EntryClass::Dropped(reason) => {
                self.drop_one(reason);
                None
            }
            EntryClass::Dead(fault) => Some(fault.clone()),
            EntryClass::Untimely(it, wrong) => {
                Some(self.wrong_clock(wrong, it.sample.time_ms, entry.log_time_ms))
            }
            EntryClass::Sample(decoded) => self.decide(batch, entry, decoded, place),
        }
    }

    fn decide(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        decoded: &DecodedSample,
        place: usize,
    ) -> Option<SampleError> {
        let driver = decoded.driver.as_ref().map(|driver| batch.text(driver));
        let (name, device) = self.devices.get_index_mut(place).expect("it was given this place");
        if let Some(fault) = device.is_foreign(name, self.log.partition) {
            return Some(fault);
        }
        if device.has_erased(decoded.sample.time_ms) {
            self.drop_one(DropReason::Forgotten);
            return None;
        }
        let at = self.log.versions.version_at(entry.offset);
        self.decided += 1;
        device.touched = true;
        let before = device.timeline.memory();
        let outcome = device.timeline.absorb(&self.limits, at, decoded.sample, driver);
        self.resident = self.resident + device.timeline.memory() - before;
        match outcome {
            Outcome::Applied(arrival) => {
                if self.counts.applied.is_multiple_of(OBSERVED) {
                    let delay_ms = entry.log_time_ms.saturating_sub(decoded.sample.time_ms);
                    self.delays.record(telemetry::seconds(delay_ms));
                }
                self.counts.delivered += 1;
                self.counts.applied += 1;
                self.counts.arrivals.count(arrival);
                if !device.changed {
                    device.changed = true;
                    self.changed.push(place);
                }
            }
            Outcome::Duplicate { conflicting } => {
                self.counts.delivered += 1;
                self.counts.duplicates += 1;
                self.counts.conflicting += u64::from(conflicting);
            }
            Outcome::TripFull => {
                let message = format!(
                    "it lies inside a trip of {name} that holds --max-samples, {}",
                    self.limits.max_samples
                );
                return Some(SampleError::new(DeadReason::TripFull, message));
            }
        }
        None
    }
}
