//! Absorbs records: each entry is classified, its device loaded, its sample applied and counted.

use super::Processor;
use super::classify::EntryClass;
use super::letters::RefusedElements;
use crate::model::reason::{DeadReason, DropReason};
use crate::segment::Outcome;
use crate::sink::Sink;
use crate::source::{Batch, DecodedSample, Entry, SampleError};
use crate::store::{Result, TripStore};
use crate::telemetry;
use crate::telemetry::counts::{DUPLICATE, SKIPPED};
use crate::timeline::Sample;

/// One in this many applied samples is observed for the metric of delays.
const OBSERVED: u64 = 64;

/// What became of an entry, as a trace has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryOutcome {
    /// By the name of its result, with the number of samples.
    Counted(&'static str, u64),
    /// Dropped, with the number of samples.
    Dropped(DropReason, u64),
    /// Dead-lettered, with the message.
    Dead(DeadReason, String),
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    pub(super) async fn absorb_records(&mut self, batch: &Batch) -> Result<()> {
        let mut rest = &batch.entries[..];
        while let Some(first) = rest.first() {
            let ready = self.absorb_ready(batch, rest);
            if ready > 0 {
                self.stage_dead().await?;
                rest = &rest[ready..];
                continue;
            }
            let length = rest.iter().take_while(|entry| entry.offset == first.offset).count();
            self.absorb_record(batch, rest, length).await?;
            self.stage_dead().await?;
            rest = &rest[length..];
        }
        Ok(())
    }

    /// Absorbs the record that consists of the first `length` entries of `ahead`.
    async fn absorb_record(&mut self, batch: &Batch, ahead: &[Entry], length: usize) -> Result<()> {
        let record = &ahead[..length];
        // Most records have one sample and need no list of slots.
        if let [entry] = record {
            let class = self.classifier.classify(entry);
            let slot = self.load(batch, ahead, &class).await?;
            if let Some(fault) = self.apply_traced(batch, entry, class, slot) {
                self.dead_letter(batch, entry, fault);
            }
            return Ok(());
        }
        let mut loaded = Vec::with_capacity(record.len());
        for entry in record {
            let class = self.classifier.classify(entry);
            let slot = self.load(batch, ahead, &class).await?;
            loaded.push((class, slot));
        }
        // A load that finds a new forget discards what earlier loads inserted.
        let offset = ahead[0].offset;
        let lacks =
            |it: &Self, (class, slot): &(EntryClass<'_>, usize)| it.lacks(class, *slot, offset);
        while let Some(nth) = loaded.iter().position(|loaded| lacks(self, loaded)) {
            self.load(batch, ahead, &loaded[nth].0).await?;
        }
        let mut refused = RefusedElements::default();
        for ((nth, entry), (class, slot)) in record.iter().enumerate().zip(loaded) {
            if let Some(fault) = self.apply_traced(batch, entry, class, slot) {
                self.refuse(batch, (nth, entry), fault, &mut refused);
            }
        }
        self.dead_letter_array(batch, record, refused);
        Ok(())
    }

    /// Absorbs a batch, and returns the outcome of each entry.
    ///
    /// # Errors
    /// As for [`Processor::absorb`].
    pub(crate) async fn absorb_traced(&mut self, batch: &Batch) -> Result<Vec<EntryOutcome>> {
        self.outcomes = Some(Vec::with_capacity(batch.entries.len()));
        let absorbed = self.absorb(batch).await;
        let outcomes = self.outcomes.take().unwrap_or_default();
        absorbed.map(|()| outcomes)
    }

    /// As [`Processor::apply_entry`], without what became of it; records that if it is traced.
    fn apply_traced(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        class: EntryClass<'_>,
        slot: usize,
    ) -> Option<SampleError> {
        let applied = self.apply_entry(batch, entry, class, slot);
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push(match &applied {
                Ok(outcome) => outcome.clone(),
                Err(fault) => EntryOutcome::Dead(fault.reason, fault.message.clone()),
            });
        }
        applied.err()
    }

    /// Counts an entry, and absorbs its sample into the timeline of its device.
    ///
    /// # Errors
    /// The entry is bad, and not counted yet.
    pub(super) fn apply_entry(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        class: EntryClass<'_>,
        slot: usize,
    ) -> Result<EntryOutcome, SampleError> {
        if let Ok(decoded) = &entry.content {
            self.count_unknown(decoded);
        }
        match class {
            EntryClass::Dropped(reason, count) => Ok(self.drop_samples(reason, count)),
            EntryClass::Skipped(count) => {
                self.counts.delivered += u64::from(count);
                self.counts.skipped += u64::from(count);
                Ok(EntryOutcome::Counted(SKIPPED, u64::from(count)))
            }
            EntryClass::Dead(fault) => Err(fault.clone()),
            EntryClass::Untimely(it, wrong) => {
                Err(self.classifier.wrong_clock(wrong, it.sample.time_ms, entry.log_time_ms))
            }
            EntryClass::Sample(decoded) => self.decide(batch, entry, decoded, slot),
        }
    }

    fn decide(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        decoded: &DecodedSample,
        slot: usize,
    ) -> Result<EntryOutcome, SampleError> {
        if self.devices.device(slot).is_foreign(self.log.partition) {
            return Err(self.devices.foreign_error(slot, self.log.partition));
        }
        if self.devices.device(slot).has_erased(decoded.sample.time_ms) {
            return Ok(self.drop_samples(DropReason::Forgotten, 1));
        }
        let version = self.log.versions.version_at(entry.offset);
        let driver = decoded.driver.as_ref().map(|driver| batch.text(driver));
        let sample = Sample { version, ..decoded.sample };
        let outcome = if self.devices.device(slot).is_before_forget(version) {
            Outcome::Duplicate { conflict: None }
        } else {
            self.devices.absorb(slot, &self.rules, sample, driver)
        };
        match outcome {
            Outcome::Applied(arrival) => {
                if self.counts.applied.is_multiple_of(OBSERVED) {
                    let delay_ms =
                        entry.log_time_ms.ms().saturating_sub(decoded.sample.time_ms.ms());
                    self.delays.record(telemetry::seconds(delay_ms));
                }
                self.counts.delivered += 1;
                self.counts.applied += 1;
                self.counts.arrivals.count(arrival);
                Ok(EntryOutcome::Counted(arrival.name(), 1))
            }
            Outcome::Duplicate { conflict } => {
                self.counts.delivered += 1;
                self.counts.duplicates += 1;
                if let Some(kept) = conflict {
                    self.counts.conflicts.add(&kept, &decoded.sample);
                }
                Ok(EntryOutcome::Counted(DUPLICATE, 1))
            }
            Outcome::Full => {
                let message = format!(
                    "it lies inside a trip of {} that holds --max-samples, {}",
                    self.devices.at(slot).0,
                    self.rules.max_samples
                );
                Err(SampleError::new(DeadReason::TripFull, message))
            }
        }
    }

    /// Counts the readings that a device does not know.
    pub(super) fn count_unknown(&mut self, decoded: &DecodedSample) {
        for kind in decoded.unknown.iter() {
            *self.counts.unknown_readings.entry(kind.name()).or_default() += 1;
        }
    }

    /// Counts dropped samples.
    fn drop_samples(&mut self, reason: DropReason, count: u32) -> EntryOutcome {
        let count = u64::from(count);
        self.counts.delivered += count;
        *self.counts.dropped.entry(reason).or_default() += count;
        EntryOutcome::Dropped(reason, count)
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
