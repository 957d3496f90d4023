//! Records that need no load are decided together.
//!
//! In a large fleet, the next sample belongs to a device that is not in the CPU's caches. To look
//! up the devices of many records first lets the CPU wait for several of them at a time; to decide
//! them in the order of their slots then visits memory in order. Only the order within a device
//! decides trips, and that is kept. Dead letters keep the order of offsets.

use super::Processor;
use super::classify::EntryClass;
use crate::sink::Sink;
use crate::source::{Batch, Entry};
use crate::store::TripStore;

/// A record that needs no load.
struct ReadyRecord<'b> {
    /// Slot of its device; 0 if it is not a sample.
    slot: usize,
    /// Index of its entry.
    nth: usize,
    class: EntryClass<'b>,
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// Absorbs the first records of `ahead`, up to the first that has several entries or whose
    /// device has to be loaded. Returns their number.
    pub(super) fn absorb_ready(&mut self, batch: &Batch, ahead: &[Entry]) -> usize {
        if self.outcomes.is_some() {
            // Outcomes are recorded in the order of the entries.
            return 0;
        }
        let mut ready = self.find_ready(batch, ahead);
        let count = ready.len();
        ready.sort_by_key(|record| record.slot);
        let mut faults = Vec::new();
        for ReadyRecord { slot, nth, class } in ready {
            if let Err(fault) = self.apply_entry(batch, &ahead[nth], class, slot) {
                faults.push((nth, fault));
            }
        }
        faults.sort_by_key(|&(nth, _)| nth);
        for (nth, fault) in faults {
            self.dead_letter(batch, &ahead[nth], fault);
        }
        count
    }

    fn find_ready<'b>(&mut self, batch: &Batch, ahead: &'b [Entry]) -> Vec<ReadyRecord<'b>> {
        let mut ready = Vec::new();
        for (nth, entry) in ahead.iter().enumerate() {
            let has_several = ahead.get(nth + 1).is_some_and(|next| next.offset == entry.offset);
            let class = self.classifier.classify(entry);
            let Some(slot) = self.ready_slot(batch, entry, &class).filter(|_| !has_several) else {
                break;
            };
            ready.push(ReadyRecord { slot, nth, class });
        }
        ready
    }

    /// Slot of the device of an entry, or 0; `None` if the device has to be loaded first.
    fn ready_slot(
        &mut self,
        batch: &Batch,
        entry: &Entry,
        class: &EntryClass<'_>,
    ) -> Option<usize> {
        let EntryClass::Sample(decoded) = class else { return Some(0) };
        let slot = self.devices.find_latest(batch.text(&decoded.device))?;
        let home = self.devices.device(slot).home;
        let is_home_known = match self.log.versions.division_of(entry.offset) {
            Some(division) => home.is_some_and(|home| home.epoch == division.epoch),
            None => true,
        };
        (is_home_known && !self.lacks(class, slot, entry.offset)).then_some(slot)
    }
}
