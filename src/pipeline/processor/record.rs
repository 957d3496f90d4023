//! Absorbs records: each entry is classified, its device loaded, its sample applied and counted.

use super::Processor;
use super::classify::EntryClass;
use super::letters::RefusedElements;
use crate::model::reason::{DeadReason, DropReason};
use crate::source::{Batch, DecodedSample, Entry, SampleError};
use crate::store::{Journal, StoreError, TripStore};
use crate::telemetry;
use crate::timeline::Outcome;

/// One in this many applied samples is observed for the metric of delays.
const OBSERVED: u64 = 64;

impl<T: TripStore, J: Journal> Processor<'_, T, J> {
    pub(super) async fn absorb_records(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut rest = &batch.entries[..];
        while let Some(first) = rest.first() {
            let length = rest.iter().take_while(|entry| entry.offset == first.offset).count();
            self.absorb_record(batch, rest, length).await?;
            self.stage_dead().await?;
            rest = &rest[length..];
        }
        Ok(())
    }

    /// Absorbs the record that consists of the first `length` entries of `ahead`.
    async fn absorb_record(
        &mut self,
        batch: &Batch,
        ahead: &[Entry],
        length: usize,
    ) -> Result<(), StoreError> {
        let record = &ahead[..length];
        // Most records have one sample and need no list of slots.
        if let [entry] = record {
            let class = self.classifier.classify(entry);
            let slot = self.load(batch, ahead, &class).await?;
            if let Some(fault) = self.apply_entry(batch, entry, class, slot) {
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
        while let Some(nth) = loaded.iter().position(|(class, slot)| self.lacks(class, *slot)) {
            self.load(batch, ahead, &loaded[nth].0).await?;
        }
        let mut refused = RefusedElements::default();
        for ((nth, entry), (class, slot)) in record.iter().enumerate().zip(loaded) {
            if let Some(fault) = self.apply_entry(batch, entry, class, slot) {
                self.refuse(batch, (nth, entry), fault, &mut refused);
            }
        }
        self.dead_letter_array(batch, record, refused);
        Ok(())
    }

    /// Counts an entry, and absorbs its sample into the timeline of its device. A bad entry is not
    /// counted yet: returns its error.
    pub(super) fn apply_entry(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        class: EntryClass<'_>,
        slot: usize,
    ) -> Option<SampleError> {
        if let Ok(decoded) = &entry.content {
            self.count_unknown(decoded);
        }
        match class {
            EntryClass::Dropped(reason) => {
                self.drop_one(reason);
                None
            }
            EntryClass::Dead(fault) => Some(fault.clone()),
            EntryClass::Untimely(it, wrong) => {
                Some(self.classifier.wrong_clock(wrong, it.sample.time_ms, entry.log_time_ms))
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
    ) -> Option<SampleError> {
        let (name, device) = self.devices.at(slot);
        if let Some(fault) = device.is_foreign(name, self.log.partition) {
            return Some(fault);
        }
        if device.has_erased(decoded.sample.time_ms) {
            self.drop_one(DropReason::Forgotten);
            return None;
        }
        let version = self.log.versions.version_at(entry.offset);
        let driver = decoded.driver.as_ref().map(|driver| batch.text(driver));
        match self.devices.absorb(slot, &self.limits, version, decoded.sample, driver) {
            Outcome::Applied(arrival) => {
                if self.counts.applied.is_multiple_of(OBSERVED) {
                    let delay_ms =
                        entry.log_time_ms.ms().saturating_sub(decoded.sample.time_ms.ms());
                    self.delays.record(telemetry::seconds(delay_ms));
                }
                self.counts.delivered += 1;
                self.counts.applied += 1;
                self.counts.arrivals.count(arrival);
            }
            Outcome::Duplicate { conflicting } => {
                self.counts.delivered += 1;
                self.counts.duplicates += 1;
                self.counts.conflicting += u64::from(conflicting);
            }
            Outcome::TripFull => {
                let message = format!(
                    "it lies inside a trip of {} that holds --max-samples, {}",
                    self.devices.at(slot).0,
                    self.limits.max_samples
                );
                return Some(SampleError::new(DeadReason::TripFull, message));
            }
        }
        None
    }

    /// Counts the readings that a device does not know.
    pub(super) fn count_unknown(&mut self, decoded: &DecodedSample) {
        for kind in decoded.unknown.iter() {
            *self.counts.unknown_readings.entry(kind.name()).or_default() += 1;
        }
    }

    /// Counts a dropped entry.
    fn drop_one(&mut self, reason: DropReason) {
        self.counts.delivered += 1;
        *self.counts.dropped.entry(reason).or_default() += 1;
    }
}
