//! Control records: commands in the log about a device.

use super::Processor;
use super::flush::Extent;
use crate::model::reason::DeadReason;
use crate::model::time::format_time;
use crate::source::{Batch, Control, SampleError};
use crate::store::{Flush, Forget, Forgotten, Journal, StoreError, TripStore};
use crate::telemetry::AUDIT;

impl<T: TripStore, J: Journal> Processor<'_, T, J> {
    /// Why a control record with a valid signature is rejected: its device belongs to another
    /// partition. A device without a partition is claimed for this one, so that a record in another
    /// partition finds the claim or, once that is erased, the forget.
    async fn refusal(&self, control: &Control) -> Result<Option<SampleError>, StoreError> {
        let Control::Forget { offset, device_id, .. } = control;
        if self.is_own(device_id, *offset).await? {
            return Ok(None);
        }
        let message = format!(
            "the control record came in partition {}, and device `{device_id}` belongs to another \
             one; tstar forget sends it where it counts",
            self.log.partition
        );
        Ok(Some(SampleError::new(DeadReason::NotAuthorised, message)))
    }

    /// Executes the control record of a batch, or dead-letters it.
    pub(super) async fn control(
        &mut self,
        batch: &Batch,
        control: &Control,
    ) -> Result<(), StoreError> {
        let Some(fault) = self.refusal(control).await? else {
            self.carry_out(control).await?;
            self.audit(control, "ok");
            return Ok(());
        };
        self.audit(control, "refused");
        for entry in &batch.entries {
            self.dead_letter(batch, entry, fault.clone());
        }
        Ok(())
    }

    /// Logs a control record of a topic, which an operator signed. One that is read again is
    /// carried out again, and logged again.
    fn audit(&self, control: &Control, outcome: &str) {
        let Control::Forget { offset, device_id, before_ms, key } = control;
        let Some(key) = key else { return };
        let (partition, offset) = (self.log.partition, offset.0);
        let (device, before) = (device_id.as_str(), format_time(before_ms.ms()));
        let done =
            if outcome == "ok" { "erased" } else { "not erased: it is of another partition" };
        tracing::info!(
            target: AUDIT, audit = "forget", key, device, before, partition, offset, outcome,
            "audit: trips of device `{device}` before {before}: {done}, by the control record at \
             offset {offset} of partition {partition}, signed by key `{key}`"
        );
    }

    /// Executes a forget. Each step is acknowledged before the next: earlier changes of the device,
    /// its announcement, the erasure, the event.
    async fn carry_out(&mut self, control: &Control) -> Result<(), StoreError> {
        let Control::Forget { offset, device_id, before_ms, .. } = control;
        let forget =
            Forget { version: self.log.versions.version_at(*offset), before_ms: *before_ms };
        let slot = self.devices.find_slot(device_id);
        let mut before = Flush { dead_letters: self.letters.take_all(), ..Flush::default() };
        if let Some(slot) = slot {
            self.take_rows(slot, Extent::All, &mut before);
        }
        let (trips, journal) = (self.trips, self.journal);
        self.while_answering(journal.stage(&before)).await?;
        self.while_answering(journal.announce_erasure(device_id, &forget)).await?;
        self.while_answering(trips.forget(device_id, &forget)).await?;
        // The store now contains the forget, even of a device that is not in memory.
        self.devices.set_complete(false);
        if let Some(slot) = slot {
            self.devices.forget(slot, *before_ms);
            self.devices.at_mut(slot).1.erase(&forget);
        }
        let forgotten = vec![Forgotten { device_id: device_id.clone(), forget }];
        let event = Flush { forgotten, ..Flush::default() };
        self.while_answering(journal.stage(&event)).await?;
        self.counts.controls += 1;
        self.position.delivered = self.position.delivered.max(*offset + 1);
        Ok(())
    }
}
