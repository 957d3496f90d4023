//! Flushes: when they are due, in how many batches rows are staged, and what is evicted afterwards.

use std::io;
use std::time::{Duration, Instant};

use super::classify::EntryClass;
use super::letters::RefusedElements;
use super::{Devices, Processor, ProcessorConfig};
use crate::source::Batch;
use crate::source::spill::{GROUPS, Spill};
use crate::store::{Change, ChangeKind, Flush, Journal, Position, StoreError, TripRow, TripStore};
use crate::timeline::Trip;

/// The delay before a flush, as a multiple of its expected duration, which is estimated from the
/// number of dirty devices: flushing takes a twentieth of the time.
const FLUSH_SHARE: u32 = 19;

/// Maximum number of pending rows, and maximum bytes of their paths, before they are staged.
const STAGED: (usize, usize) = (1024, 4 << 20);

/// Minimum average number of samples for each device in memory when memory is full. Below it,
/// repeated loads would cost more than spilling.
const FEW_VISITS: u64 = 64;

/// Maximum size of the spill, as a multiple of the memory limit: spilled samples are not durable
/// yet.
const MAX_SPILL_SHARE: u64 = 32;

/// Maximum age of the spill, as a multiple of `max_staleness`: after a crash, everything in it is
/// replayed.
const SPILL_STALENESS: u32 = 10;

/// While it is absorbed, a spill group may use the memory limit divided by this number: devices of
/// the groups after it are still in memory.
const GROUP_SHARE: usize = 4;

impl<T: TripStore, J: Journal> Processor<'_, T, J> {
    /// Delay before the next flush.
    fn patience(&self) -> Duration {
        let devices = u32::try_from(self.changed.len()).unwrap_or(u32::MAX);
        let will_take = self.device_took.saturating_mul(devices);
        let wait = will_take.saturating_mul(FLUSH_SHARE).max(self.pace.flush_interval);
        wait.min(self.pace.max_staleness)
    }

    /// When the next flush is due if the source delivers nothing until then; `None` if nothing is
    /// pending.
    pub(super) fn next_flush(&self) -> Option<Instant> {
        let waits = self.acknowledged != self.position
            || !self.changed.is_empty()
            || !self.parts.is_empty();
        if !waits {
            return None;
        }
        if self.sets_aside {
            // Absorbing the spill is expensive: do it early only if the source is silent for long.
            return Instant::now().checked_add(self.pace.max_staleness);
        }
        self.flushed_at.checked_add(self.patience())
    }

    pub(super) fn is_flush_due(&self) -> bool {
        if let (true, Some(spill)) = (self.sets_aside, &self.spill) {
            let patience = self.pace.max_staleness.saturating_mul(SPILL_STALENESS);
            return spill.bytes() > MAX_SPILL_SHARE.saturating_mul(self.pace.memory as u64)
                || self.flushed_at.elapsed() >= patience;
        }
        self.flushed_at.elapsed() >= self.patience() || self.is_full()
    }

    fn is_full(&self) -> bool {
        match &self.share {
            Some(share) => share.is_over(),
            None => self.resident > self.pace.memory,
        }
    }

    /// Flushes, or starts to spill if memory is full of devices with few samples each. While
    /// spilling, the devices in memory stay there until the spill is absorbed.
    pub(super) async fn flush_or_spill(&mut self) -> Result<(), StoreError> {
        let visits = FEW_VISITS * self.devices.len() as u64;
        if self.is_full() && !self.sets_aside && self.spill.is_some() && self.decided < visits {
            self.sets_aside = true;
            return Ok(());
        }
        self.flush_due().await
    }

    /// Writes every change since the last flush to the store.
    ///
    /// # Errors
    /// The store fails; then nothing of this flush counts as stored, and the processor must not be
    /// used any more.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        self.flush_trips(None).await
    }

    /// Writes the trips whose delay has passed by the clock.
    pub(super) async fn flush_due(&mut self) -> Result<(), StoreError> {
        self.flush_overdue(self.flushed_at.elapsed()).await
    }

    /// Adds `round` to the age of all dirty trips and writes those whose delay has passed; writes
    /// all of them without [`ProcessorConfig::by_trip`], or if memory is full.
    ///
    /// # Errors
    /// As for [`Processor::flush`].
    pub async fn flush_overdue(&mut self, round: Duration) -> Result<(), StoreError> {
        let some = self.pace.by_trip && !self.is_full();
        self.flush_trips(some.then_some(round)).await
    }

    /// Flushes all dirty trips or, with the time since the last round, those whose delay has
    /// passed.
    async fn flush_trips(&mut self, round: Option<Duration>) -> Result<(), StoreError> {
        let began = Instant::now();
        let devices = u32::try_from(self.changed.len()).unwrap_or(u32::MAX);
        let mut last = match self.spill.take_if(|spill| spill.bytes() > 0) {
            Some(mut spill) => {
                let last = self.absorb_groups(&mut spill).await;
                self.spill = Some(spill);
                last?
            }
            None => self.stage_changes(round).await?,
        };
        if devices > 0 {
            self.device_took = began.elapsed() / devices;
        }
        let is_full = self.is_full();
        last.dead_letters = self.letters.take_all();
        last.parts = std::mem::take(&mut self.parts);
        last.position = self.committable_position();
        if self.acknowledged != last.position || last.has_news() {
            self.journal.commit(&last).await?;
            self.counts.flushes += 1;
        }
        self.acknowledged = last.position;
        self.flushed_at = Instant::now();
        // Nothing unacknowledged is evicted.
        if is_full && self.changed.is_empty() {
            self.evict_idle();
        }
        Ok(())
    }

    /// Evicts devices: those without a sample since the last eviction, or all if that frees too
    /// little.
    fn evict_idle(&mut self) {
        let before = self.resident;
        if self.spill.is_none() {
            self.devices.retain(|_, device| std::mem::take(&mut device.touched));
            let weights = self.devices.iter().map(|(name, device)| device.memory(name));
            self.resident = weights.sum();
            self.latest = 0;
            self.store_was_empty = false;
        }
        if self.resident > before / 2 {
            self.empty_memory();
        }
        if let Some(share) = &mut self.share {
            share.set_resident(self.resident);
        }
    }

    /// The position that can be committed once the taken rows are durable: the commit rule.
    fn committable_position(&self) -> Position {
        let waiting = self.changed.iter().flat_map(|&place| self.devices[place].timeline.trips());
        let lowest = waiting.filter_map(Trip::unflushed).min();
        let bound = lowest.map(|version| self.log.versions.offset_of(version));
        let delivered = bound.map_or(self.position.delivered, |at| at.min(self.position.delivered));
        Position { delivered }
    }

    /// Builds the rows of dirty trips and stages them, except for the last batch, which it returns.
    async fn stage_changes(&mut self, round: Option<Duration>) -> Result<Flush, StoreError> {
        let mut rows = Flush::default();
        let mut bytes = 0;
        let mut changed = std::mem::take(&mut self.changed);
        // Sorted as in the store's index: rows that are adjacent there are written together.
        changed.sort_unstable_by_key(|&place| self.devices.get_index(place).map(|(name, _)| name));
        for place in changed {
            bytes += self.take_rows(place, round, &mut rows);
            if self.devices[place].changed {
                self.changed.push(place);
            }
            if rows.trips.len() >= STAGED.0 || bytes >= STAGED.1 {
                self.journal.stage(&rows).await?;
                (rows, bytes) = (Flush::default(), 0);
            }
        }
        Ok(rows)
    }

    /// Takes the dirty trips of a device whose delay has passed; without a round, all of them.
    /// Returns the size of their paths, bytes.
    pub(super) fn take_rows(
        &mut self,
        place: usize,
        round: Option<Duration>,
        rows: &mut Flush,
    ) -> usize {
        let (name, device) = self.devices.get_index_mut(place).expect("it is in memory");
        let (mut bytes, before) = (0, rows.trips.len());
        device.changed = false;
        for trip in device.timeline.trips_mut().filter(|trip| trip.unflushed().is_some()) {
            if round.is_some_and(|round| !has_waited(trip, round, &self.pace)) {
                device.changed = true;
                continue;
            }
            let since = trip.take_unflushed().expect("there is a change");
            rows.changes.push(change(trip, since, rows.trips.len()));
            let mut row = TripRow::from_trip(name, trip);
            // A row keeps its partition from an earlier epoch: same version, same bytes.
            row.partition = trip.partition.unwrap_or(self.log.partition);
            bytes += row.path.len();
            rows.trips.push(row);
        }
        let taken = rows.trips.len() - before;
        if taken > 0 {
            self.counts.trips_written += taken as u64;
            self.resident -= device.timeline.memory();
            device.timeline.pack();
            self.resident += device.timeline.memory();
        }
        bytes
    }

    /// Absorbs the spilled samples group by group and evicts each group. Returns the last rows.
    async fn absorb_groups(&mut self, spill: &mut Spill) -> Result<Flush, StoreError> {
        let mut groups: Vec<Devices> = (0..GROUPS).map(|_| Devices::default()).collect();
        self.changed.clear();
        for (name, device) in std::mem::take(&mut self.devices) {
            groups[spill.group_of(&name)].insert(name, device);
        }
        let mut last = Flush::default();
        for (group, devices) in groups.into_iter().enumerate() {
            self.devices = devices;
            let places = self.devices.values().enumerate();
            self.changed = places.filter(|(_, it)| it.changed).map(|(place, _)| place).collect();
            let limit = self.resident + self.pace.memory / GROUP_SHARE;
            let mut samples =
                spill.take_group(group).map_err(|error| spill_failed(spill, error))?;
            while let Some(batch) =
                samples.next_batch().map_err(|error| spill_failed(spill, error))?
            {
                self.absorb_records(&batch).await?;
                if self.resident > limit {
                    let rows = self.stage_changes(None).await?;
                    self.journal.stage(&rows).await?;
                    self.empty_memory();
                }
            }
            self.journal
                .stage(&std::mem::replace(&mut last, self.stage_changes(None).await?))
                .await?;
            self.empty_memory();
        }
        spill.clear();
        Ok(last)
    }

    /// Spills the samples of a batch. Entries that are not samples are counted now.
    pub(super) fn spill_batch(&mut self, batch: &Batch) -> Result<(), StoreError> {
        for record in batch.entries.chunk_by(|one, next| one.offset == next.offset) {
            let mut refused = RefusedElements::default();
            for (nth, entry) in record.iter().enumerate() {
                match self.classifier.classify(entry) {
                    EntryClass::Sample(decoded) => {
                        let spill = self.spill.as_mut().expect("spilling needs a spill");
                        let pushed = spill.push(batch, entry, decoded);
                        pushed.map_err(|error| spill_failed(spill, error))?;
                    }
                    judged => {
                        if let Some(fault) = self.apply_entry(batch, entry, judged, 0) {
                            self.refuse(batch, (nth, entry), fault, &mut refused);
                        }
                    }
                }
            }
            self.dead_letter_array(batch, record, refused);
        }
        Ok(())
    }

    /// Evicts all devices. All their changes are staged, so they can be loaded again.
    fn empty_memory(&mut self) {
        debug_assert!(self.changed.is_empty());
        let weights = self.devices.iter().map(|(name, device)| device.memory(name));
        self.resident -= weights.sum::<usize>();
        self.devices = Devices::default();
        self.decided = 0;
        self.store_was_empty = false;
    }
}

pub(super) fn spill_failed(spill: &Spill, error: io::Error) -> StoreError {
    let (place, doing) = (spill.folder().display().to_string(), "spilling samples");
    StoreError::of_io(place, doing, error)
}

/// Adds `round` to the age of a dirty trip. Returns whether its delay has passed.
fn has_waited(trip: &mut Trip, round: Duration, pace: &ProcessorConfig) -> bool {
    let waited = trip.wait(u32::try_from(round.as_millis()).unwrap_or(u32::MAX));
    let samples = u32::try_from(trip.samples()).unwrap_or(u32::MAX);
    let due = ProcessorConfig::WAIT_PER_SAMPLE.saturating_mul(samples);
    let due = due.max(pace.flush_interval).min(pace.max_staleness);
    Duration::from_millis(waited.into()) >= due
}

/// The change event of a trip's changes at and past version `since`; depends on the row and `since`
/// only.
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
