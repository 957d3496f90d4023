//! Control records: commands in the log about a device.

use std::time::Duration;

use tokio::time::Instant;

use super::Processor;
use super::flush::Extent;
use crate::identity::DeviceId;
use crate::model::reason::DeadReason;
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::sink::Sink;
use crate::source::{Batch, Control, SampleError};
use crate::store::{Flush, Forget, Forgotten, Kinds, Order, Result, TripRow, TripStore};
use crate::telemetry::AUDIT;

/// Minimum interval of lines about control records that change nothing.
const UNCHANGED_INTERVAL: Duration = Duration::from_secs(1);

/// Rows that are looked at for what a forget erases.
const MAX_FOUND: usize = 16;

/// What became of a control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was carried out.
    Done,
    /// An earlier forget has erased as much.
    Repeated,
    /// Its device belongs to another partition.
    Refused,
}

/// Bounds the lines of the audit about control records that change nothing: who may read the topic
/// and produce to it can send copies of a signed record without end.
#[derive(Debug, Default)]
pub(super) struct UnchangedLines {
    /// Device and time of the last line, and when it was logged.
    last: Option<(DeviceId, DeviceTime, Instant)>,
    /// Records since then without a line.
    suppressed: u64,
}

impl UnchangedLines {
    /// Whether a record gets a line: not if the last line was about the same, or was just logged.
    /// Returns how many got none since the last one.
    fn due(&mut self, device_id: &DeviceId, before_ms: DeviceTime) -> Option<u64> {
        let is_due = self.last.as_ref().is_none_or(|(device, before, at)| {
            (device, *before) != (device_id, before_ms) && at.elapsed() >= UNCHANGED_INTERVAL
        });
        if !is_due {
            self.suppressed += 1;
            return None;
        }
        self.last = Some((device_id.clone(), before_ms, Instant::now()));
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// Why a control record with a valid signature is rejected: its device belongs to another
    /// partition. A device without a partition is claimed for this one, so that a record in another
    /// partition finds the claim or, once that is erased, the forget.
    async fn refusal(&self, control: &Control) -> Result<Option<SampleError>> {
        let Control::Forget { offset, device_id, .. } = control;
        if self.claimed_home(device_id, *offset).await? == self.log.partition {
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
    pub(super) async fn control(&mut self, batch: &Batch, control: &Control) -> Result<()> {
        let Some(fault) = self.refusal(control).await? else {
            let outcome = self.carry_out(control).await?;
            self.audit(control, outcome);
            return Ok(());
        };
        self.audit(control, Outcome::Refused);
        for entry in &batch.entries {
            self.dead_letter(batch, entry, fault.clone());
        }
        Ok(())
    }

    /// Logs a control record of a topic, which an operator signed. One that is read again is
    /// carried out again, and logged again.
    fn audit(&mut self, control: &Control, outcome: Outcome) {
        let Control::Forget { offset, device_id, before_ms, key } = control;
        let Some(key) = key else { return };
        let suppressed = match outcome {
            Outcome::Done => 0,
            Outcome::Repeated | Outcome::Refused => {
                let Some(count) = self.unchanged_lines.due(device_id, *before_ms) else { return };
                count
            }
        };
        let (partition, offset) = (self.log.partition, offset.0);
        let (device, before) = (device_id.as_str(), format_time(before_ms.ms()));
        let (outcome, done) = match outcome {
            Outcome::Done => ("ok", "erased"),
            Outcome::Repeated => ("repeated", "erased before, nothing was left to do"),
            Outcome::Refused => ("refused", "not erased: it is of another partition"),
        };
        tracing::info!(
            target: AUDIT, audit = "forget", key, device, before, partition, offset, outcome,
            suppressed,
            "audit: trips of device `{device}` before {before}: {done}, by the control record at \
             offset {offset} of partition {partition}, signed by key `{key}`"
        );
    }

    /// Whether an earlier forget covers this one, which raises no floor, and it was not begun.
    /// Depends on the log only, also if instances ahead of this one have carried out later ones.
    async fn is_covered(&mut self, device_id: &str, forget: &Forget) -> Result<bool> {
        let trips = self.trips;
        let known = self.while_answering(trips.forgets(device_id)).await?;
        let covers = |earlier: &Forget| {
            earlier.version < forget.version && earlier.before_ms >= forget.before_ms
        };
        let is_begun = known.iter().any(|other| other.version == forget.version);
        Ok(!is_begun && known.iter().any(covers))
    }

    /// Whether the store has something that a forget erases: a split leaves parts of a trip that
    /// stayed whole before the floor. Rows past the forget do not count.
    async fn erases_some(&mut self, device_id: &str, forget: &Forget) -> Result<bool> {
        let (trips, upto_ms) = (self.trips, forget.before_ms - 1);
        let (from_ms, order) = (DeviceTime::MIN, Order::Desc);
        let found = trips.range(device_id, Kinds::All, from_ms, upto_ms, order, MAX_FOUND);
        let found = self.while_answering(found).await?;
        let erases = |row: &TripRow| forget.erases(row.end_ms, row.version);
        Ok(found.len() == MAX_FOUND || found.iter().any(erases))
    }

    /// Executes a forget. Each step is acknowledged before the next: earlier changes of the device,
    /// its announcement, the erasure, the event. One of a topic that raises no floor and erases
    /// nothing is counted only; in a store of files each is a record that a rebuild needs, and no
    /// stranger writes it.
    async fn carry_out(&mut self, control: &Control) -> Result<Outcome> {
        let Control::Forget { offset, device_id, before_ms, key } = control;
        let forget =
            Forget { version: self.log.versions.version_at(*offset), before_ms: *before_ms };
        self.counts.controls += 1;
        let is_covered = key.is_some() && self.is_covered(device_id, &forget).await?;
        let slot = self.devices.find_slot(device_id);
        let mut before = Flush { dead_letters: self.letters.take_all(), ..Flush::default() };
        if let Some(slot) = slot {
            self.take_rows(slot, Extent::All, &mut before);
        }
        let (trips, sink) = (self.trips, self.sink);
        self.while_answering(sink.stage(&before)).await?;
        if is_covered && !self.erases_some(device_id, &forget).await? {
            self.counts.forgets_repeated += 1;
            self.position.delivered = self.position.delivered.max(*offset + 1);
            return Ok(Outcome::Repeated);
        }
        self.while_answering(sink.announce_erasure(device_id, &forget)).await?;
        self.while_answering(trips.forget(device_id, &forget)).await?;
        // The store now contains the forget, even of a device that is not in memory.
        self.devices.set_complete(false);
        if let Some(slot) = slot {
            self.devices.forget(slot, *before_ms);
            self.devices.at_mut(slot).1.erase(&forget);
        }
        let forgotten = vec![Forgotten { device_id: device_id.clone(), forget }];
        let event = Flush { forgotten, ..Flush::default() };
        self.while_answering(sink.stage(&event)).await?;
        self.position.delivered = self.position.delivered.max(*offset + 1);
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn copies_of_a_record_get_one_line() {
        let mut lines = UnchangedLines::default();
        let [one, other] = ["truck-1", "truck-2"].map(DeviceId::from_store);
        assert_eq!(lines.due(&one, DeviceTime(7)), Some(0));
        for _ in 0..1000 {
            assert_eq!(lines.due(&one, DeviceTime(7)), None);
            assert_eq!(lines.due(&other, DeviceTime(7)), None, "within a second");
        }
        tokio::time::advance(UNCHANGED_INTERVAL).await;
        assert_eq!(lines.due(&one, DeviceTime(7)), None, "the same as the last one");
        assert_eq!(lines.due(&other, DeviceTime(7)), Some(2001));
        tokio::time::advance(UNCHANGED_INTERVAL).await;
        assert_eq!(lines.due(&other, DeviceTime(8)), Some(0));
    }
}
