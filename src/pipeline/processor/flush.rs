//! Flushes: what is written and committed, in how many batches rows are staged, and what is evicted
//! afterwards. `schedule` has the policy.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::Processor;
use super::resident::Made;
use super::schedule::FlushCost;
use crate::model::scalar::Version;
use crate::segment::{ChangeEvent, Segment, TakenGroup};
use crate::sink::Sink;
use crate::store::{Change, Flush, Position, Result, TripRow, TripStore, WriteGroup};
use crate::timeline::LegFilter;

/// Maximum number of pending rows, and maximum bytes of their paths, before they are staged.
const STAGED: (usize, usize) = (1024, 4 << 20);

/// Which dirty trips a flush writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Those that are due.
    Due,
    /// All of them.
    All,
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// When the next flush is due if the source delivers nothing until then; `None` if nothing is
    /// pending.
    pub(super) fn next_flush(&self) -> Option<Instant> {
        let waits = self.acknowledged != self.position
            || self.devices.dirty_count() > 0
            || !self.parts.is_empty();
        if !waits {
            return None;
        }
        if self.is_spilling() {
            // Absorbing the spill is expensive: do it early only if the source is silent for long.
            return Instant::now().checked_add(self.config.flush.max_staleness);
        }
        self.schedule.next(self.devices.dirty_count())
    }

    pub(super) fn is_flush_due(&self) -> bool {
        match self.spiller.as_ref().filter(|spiller| spiller.is_active()) {
            Some(spiller) => spiller.is_due(self.schedule.elapsed()),
            None => {
                let devices = &self.devices;
                let is_now = devices.is_full() || devices.has_large_group();
                is_now || self.schedule.is_due(devices.dirty_count())
            }
        }
    }

    /// Flushes, or starts to spill if memory is full of devices with few samples each. While
    /// spilling, the devices in memory stay there until the spill is absorbed.
    pub(super) async fn flush_or_spill(&mut self) -> Result<()> {
        if let Some(spiller) = &mut self.spiller
            && !spiller.is_active()
            && self.devices.is_full()
            && self.devices.had_few_visits()
        {
            spiller.start();
            return Ok(());
        }
        self.flush_due().await
    }

    /// Writes every change since the last flush to the store.
    ///
    /// # Errors
    /// The store fails; then nothing of this flush counts as stored, and the processor must not be
    /// used any more.
    pub async fn flush(&mut self) -> Result<()> {
        self.flush_trips(Extent::All).await
    }

    /// Writes the trips that are due; all dirty ones without
    /// [`ProcessorConfig::by_trip`](super::ProcessorConfig::by_trip), or if memory is full.
    pub(super) async fn flush_due(&mut self) -> Result<()> {
        let is_some = self.config.by_trip && !self.devices.is_full();
        self.flush_trips(if is_some { Extent::Due } else { Extent::All }).await
    }

    async fn flush_trips(&mut self, extent: Extent) -> Result<()> {
        let (began, dirty) = (Instant::now(), self.devices.dirty_count());
        self.schedule.start_round();
        let (last, staged) = metered(self.stage_all(extent)).await;
        let (done, committed) = metered(self.commit(last?)).await;
        done?;
        self.schedule.measure(dirty, FlushCost { staged, committed, wall: began.elapsed() });
        self.schedule.restart();
        Ok(())
    }

    /// Stages the spilled samples, or the changes of trips. Returns the last batch of rows.
    async fn stage_all(&mut self, extent: Extent) -> Result<Flush> {
        match self.spiller.take_if(|spiller| !spiller.is_empty()) {
            Some(mut spiller) => {
                let last = self.absorb_spill(&mut spiller).await;
                self.spiller = Some(spiller);
                last
            }
            None => self.stage_changes(extent).await,
        }
    }

    /// Commits what was staged, with the last batch of rows, and evicts if memory is full.
    async fn commit(&mut self, mut last: Flush) -> Result<()> {
        let is_full = self.devices.is_full();
        last.dead_letters = self.letters.take_all();
        last.parts = std::mem::take(&mut self.parts);
        last.position = self.committable_position();
        if self.acknowledged != last.position || last.has_news() {
            let sink = self.sink;
            self.while_answering(sink.commit(&last)).await?;
            self.counts.flushes += 1;
        }
        self.acknowledged = last.position;
        // Nothing unacknowledged is evicted.
        if is_full && self.devices.dirty_count() == 0 {
            self.evict();
        }
        Ok(())
    }

    /// Evicts the devices that were idle for longest, or all if samples may be spilled.
    fn evict(&mut self) {
        if self.spiller.is_some() {
            self.devices.evict_all();
        } else {
            self.devices.evict_idle();
        }
        self.devices.report_memory();
    }

    /// The position that can be committed once the taken rows are durable: the commit rule.
    fn committable_position(&self) -> Position {
        let lowest = self.devices.lowest_unflushed();
        let bound = lowest.map(|version| self.log.versions.offset_of(version));
        let delivered = bound.map_or(self.position.delivered, |at| at.min(self.position.delivered));
        Position { delivered }
    }

    /// Builds the rows of dirty trips and stages them, except for the last batch, which it returns.
    pub(super) async fn stage_changes(&mut self, extent: Extent) -> Result<Flush> {
        let mut rows = Flush::default();
        let mut bytes = 0;
        let schedule = &self.schedule;
        // Nothing of the past is written, unless memory has no room for it.
        let next = self.log.versions.version_at(self.position.delivered);
        let passed = Some(next).filter(|_| !self.devices.is_full());
        let is_due = |trip: &mut Segment| schedule.takes(trip) || extent == Extent::All;
        for slot in self.devices.take_due(passed, is_due) {
            bytes += self.take_rows(slot, extent, &mut rows);
            if self.devices.device(slot).timeline().unflushed().is_some() {
                self.devices.mark_dirty(slot);
            }
            if rows.groups.len() >= STAGED.0 || bytes >= STAGED.1 {
                let sink = self.sink;
                self.while_answering(sink.stage(&rows)).await?;
                (rows, bytes) = (Flush::default(), 0);
            }
        }
        Ok(rows)
    }

    /// Takes the changes of a device that are due, or all of them. Returns the size of the paths of
    /// their rows, bytes.
    pub(super) fn take_rows(&mut self, slot: usize, extent: Extent, rows: &mut Flush) -> usize {
        let next = self.log.versions.version_at(self.position.delivered);
        let (name, groups) = self.devices.take_groups(slot, next, extent == Extent::All);
        let (mut bytes, mut written) = (0, 0);
        for group in groups {
            let group = write_group(name, &group, self.legs, self.log.partition);
            for row in &group.rows {
                self.limited.observe(row, &self.rules);
                bytes += row.path.len();
            }
            written += group.rows.len();
            rows.groups.push(group);
        }
        if written > 0 {
            self.counts.trips_written += written as u64;
            self.devices.pack(slot);
        }
        bytes
    }
}

/// Runs a future. Returns its result and the time spent in its polls, which leaves out the time
/// that it waited for a server.
async fn metered<F: Future>(future: F) -> (F::Output, Duration) {
    let (mut future, mut spent) = (pin!(future), Duration::ZERO);
    let output = poll_fn(|context| {
        let began = Instant::now();
        let polled = future.as_mut().poll(context);
        spent += began.elapsed();
        polled
    });
    let output = output.await;
    (output, spent)
}

/// What is written of changes of a device, with their events.
fn write_group(
    name: &str,
    (group, made): &(TakenGroup<'_>, Vec<Made>),
    legs: LegFilter,
    own: i32,
) -> WriteGroup {
    let rows = group.segments.iter().map(|segment| row_of(name, segment, legs, own));
    let changes = group.segments.iter().zip(made).enumerate();
    let changes =
        changes.map(|(row, (segment, made))| change(row, segment, *made, group.lowest)).collect();
    WriteGroup { taken: group.taken.clone(), rows: rows.collect(), changes }
}

/// The row of a segment of a partition.
pub(super) fn row_of(device_id: &str, segment: &Segment, legs: LegFilter, own: i32) -> TripRow {
    let mut row = TripRow::from_segment(device_id, segment, legs);
    // A row keeps its partition from an earlier epoch: same version, same bytes.
    row.partition = segment.partition.unwrap_or(own);
    row
}

/// The change event of a segment's changes, of which `lowest` is the first version; depends on the
/// row, that version and when they were made only.
fn change(row: usize, segment: &Segment, made: Made, lowest: Version) -> Change {
    // Of the past, the table topic got nothing: it gets every id that was retired meanwhile.
    let since = if made == Made::AfterThePast { Version::MIN } else { lowest };
    let ChangeEvent { kind, retired } = segment.event_since(since);
    Change { kind, retired, row, in_past: made == Made::InThePast }
}

#[cfg(test)]
#[path = "flush_tests.rs"]
mod tests;
