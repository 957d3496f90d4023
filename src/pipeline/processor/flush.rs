//! Flushes: when, in how many pieces, and what leaves memory behind them.

use std::io;
use std::time::{Duration, Instant};

use super::letters::RefusedElements;
use super::{Devices, EntryClass, Processor, ProcessorConfig};
use crate::source::Batch;
use crate::source::spill::{GROUPS, Spill};
use crate::store::{Change, ChangeKind, Flush, Journal, Position, StoreError, TripRow, TripStore};
use crate::timeline::Trip;

/// Flushing takes a twentieth of the time: the next one waits nineteen times as long as it will
/// take, by the number of devices that changed.
const FLUSH_SHARE: u32 = 19;

/// Dead letters do not wait for a flush when they take this much memory, bytes. A vector that grows
/// has room for twice as many, and each text takes more than its length.
pub(super) const MAX_DEAD_BYTES: usize = 8 << 20;

/// Rows are handed to the store when there are so many, or when their paths take so many bytes.
const STAGED: (usize, usize) = (1024, 4 << 20);

/// Where memory fills up before each device in it has had so many samples, to load devices again
/// and again would cost more than to set samples aside.
const FEW_VISITS: u64 = 64;

/// How much more may be set aside than memory holds: as much is not durable meanwhile.
const SET_ASIDE_SHARE: u64 = 32;

/// How often `max_staleness` samples may be set aside before they come back: as much is read again
/// after a crash.
const SET_ASIDE_STALENESS: u32 = 10;

/// The part of the memory that a group of devices may take when its samples come back, while the
/// groups after it still wait in memory.
const GROUP_SHARE: usize = 4;

impl<S: TripStore + Journal> Processor<'_, S> {
    /// How long changes may wait now.
    fn patience(&self) -> Duration {
        let devices = u32::try_from(self.changed.len()).unwrap_or(u32::MAX);
        let will_take = self.device_took.saturating_mul(devices);
        let wait = will_take.saturating_mul(FLUSH_SHARE).max(self.pace.flush_interval);
        wait.min(self.pace.max_staleness)
    }

    /// When what waits for a flush has waited long enough, if the source stays silent until then;
    /// `None` where nothing waits.
    pub(super) fn next_flush(&self) -> Option<Instant> {
        let waits = self.acknowledged != self.position
            || !self.changed.is_empty()
            || !self.parts.is_empty();
        if !waits {
            return None;
        }
        if self.sets_aside {
            // Only a source that is silent for long is worth what it costs.
            return Instant::now().checked_add(self.pace.max_staleness);
        }
        self.flushed_at.checked_add(self.patience())
    }

    pub(super) fn is_flush_due(&self) -> bool {
        if let (true, Some(spill)) = (self.sets_aside, &self.spill) {
            let patience = self.pace.max_staleness.saturating_mul(SET_ASIDE_STALENESS);
            return spill.bytes() > SET_ASIDE_SHARE.saturating_mul(self.pace.memory as u64)
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

    /// Flushes, or begins to set samples aside where memory is full of devices that sent little:
    /// what is in memory stays there until their samples come back.
    pub(super) async fn flush_or_spill(&mut self) -> Result<(), StoreError> {
        let visits = FEW_VISITS * self.devices.len() as u64;
        if self.is_full() && !self.sets_aside && self.spill.is_some() && self.decided < visits {
            self.sets_aside = true;
            return Ok(());
        }
        self.flush_some().await
    }

    /// Hands every change since the last flush to the store.
    ///
    /// # Errors
    /// The store fails; then nothing of this flush counts as stored, and the processor is spent.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        self.flush_those(None).await
    }

    /// Hands the changes to the store that have waited long enough by the clock.
    pub(super) async fn flush_some(&mut self) -> Result<(), StoreError> {
        self.flush_waited(self.flushed_at.elapsed()).await
    }

    /// Hands the changes to the store that have waited long enough, once they have waited `round`
    /// longer; all of them where [`Pace::by_trip`] is not asked for, or where memory is full.
    ///
    /// # Errors
    /// As for [`Processor::flush`].
    pub async fn flush_waited(&mut self, round: Duration) -> Result<(), StoreError> {
        let some = self.pace.by_trip && !self.is_full();
        self.flush_those(some.then_some(round)).await
    }

    /// With the time since the last round, only changes that have waited long enough.
    async fn flush_those(&mut self, round: Option<Duration>) -> Result<(), StoreError> {
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
        if last.dead_letters.is_empty() {
            // Appended they would be in memory twice: an empty vector keeps its room.
            last.dead_letters = std::mem::take(&mut self.dead);
        } else {
            last.dead_letters.append(&mut self.dead);
        }
        self.dead_bytes = 0;
        last.parts = std::mem::take(&mut self.parts);
        last.position = self.committable_position();
        if self.acknowledged != last.position || last.has_news() {
            self.store.commit(&last).await?;
            self.counts.flushes += 1;
        }
        self.acknowledged = last.position;
        self.flushed_at = Instant::now();
        // Not before it is acknowledged.
        if is_full && self.changed.is_empty() {
            self.evict_idle();
        }
        Ok(())
    }

    /// Lets devices go: where that helps, those alone that sent nothing since the last time.
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

    /// Up to where everything is durable once what was taken is: the commit rule.
    fn committable_position(&self) -> Position {
        let waiting = self.changed.iter().flat_map(|&place| self.devices[place].timeline.trips());
        let lowest = waiting.filter_map(Trip::unflushed).min();
        let bound = lowest.map(|version| self.log.versions.offset_of(version));
        let delivered = bound.map_or(self.position.delivered, |at| at.min(self.position.delivered));
        Position { delivered }
    }

    /// Makes rows of what changed, and hands them over but for the last ones.
    async fn stage_changes(&mut self, round: Option<Duration>) -> Result<Flush, StoreError> {
        let mut rows = Flush::default();
        let mut bytes = 0;
        let mut changed = std::mem::take(&mut self.changed);
        // In the order of the store's index: rows side by side there are written side by side.
        changed.sort_unstable_by_key(|&place| self.devices.get_index(place).map(|(name, _)| name));
        for place in changed {
            bytes += self.take_rows(place, round, &mut rows);
            if self.devices[place].changed {
                self.changed.push(place);
            }
            if rows.trips.len() >= STAGED.0 || bytes >= STAGED.1 {
                self.store.stage(&rows).await?;
                (rows, bytes) = (Flush::default(), 0);
            }
        }
        Ok(rows)
    }

    /// Takes the changes of a device that have waited long enough, all of them without a round.
    /// Returns what their paths take, bytes.
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
            // A row of another partition, of another epoch, stays one: same version, same bytes.
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

    /// Absorbs what was set aside, group by group, and lets each group go. Returns the last rows.
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
                spill.take_group(group).map_err(|error| not_set_aside(spill, error))?;
            while let Some(batch) =
                samples.next_batch().map_err(|error| not_set_aside(spill, error))?
            {
                self.absorb_records(&batch).await?;
                if self.resident > limit {
                    let rows = self.stage_changes(None).await?;
                    self.store.stage(&rows).await?;
                    self.empty_memory();
                }
            }
            self.store
                .stage(&std::mem::replace(&mut last, self.stage_changes(None).await?))
                .await?;
            self.empty_memory();
        }
        spill.clear();
        Ok(last)
    }

    /// Sets the samples of a batch aside; what is none is counted at once.
    pub(super) fn set_aside(&mut self, batch: &Batch) -> Result<(), StoreError> {
        for record in batch.entries.chunk_by(|one, next| one.offset == next.offset) {
            let mut refused = RefusedElements::default();
            for (nth, entry) in record.iter().enumerate() {
                match self.classify(entry) {
                    EntryClass::Sample(decoded) => {
                        let spill = self.spill.as_mut().expect("samples are set aside in it");
                        let pushed = spill.push(batch, entry, decoded);
                        pushed.map_err(|error| not_set_aside(spill, error))?;
                    }
                    judged => {
                        if let Some(fault) = self.apply_entry(batch, entry, judged, 0) {
                            self.refuse(batch, (nth, entry), fault, &mut refused);
                        }
                    }
                }
            }
            self.bury_array(batch, record, refused);
        }
        Ok(())
    }

    /// Lets the devices go. Everything is with the store, so what is needed again can be loaded.
    fn empty_memory(&mut self) {
        debug_assert!(self.changed.is_empty());
        let weights = self.devices.iter().map(|(name, device)| device.memory(name));
        self.resident -= weights.sum::<usize>();
        self.devices = Devices::default();
        self.decided = 0;
        self.store_was_empty = false;
    }
}

pub(super) fn not_set_aside(spill: &Spill, error: io::Error) -> StoreError {
    let (place, doing) = (spill.folder().display().to_string(), "setting samples aside");
    StoreError::of_io(place, doing, error)
}

/// Whether the changes of a trip have waited long enough, once another round has passed.
fn has_waited(trip: &mut Trip, round: Duration, pace: &ProcessorConfig) -> bool {
    let waited = trip.wait(u32::try_from(round.as_millis()).unwrap_or(u32::MAX));
    let samples = u32::try_from(trip.samples()).unwrap_or(u32::MAX);
    let due = ProcessorConfig::WAIT_PER_SAMPLE.saturating_mul(samples);
    let due = due.max(pace.flush_interval).min(pace.max_staleness);
    Duration::from_millis(waited.into()) >= due
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
