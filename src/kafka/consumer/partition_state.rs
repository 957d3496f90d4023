//! An assigned partition: its batches on their way to the worker, pauses, and what is committed.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc::{self, error::TrySendError};

use super::RESUME_CAPACITY;
use super::client::GroupClient;
use super::commits::Commits;
use crate::kafka::partition_handle::{PartitionHandle, WorkerExit};
use crate::kafka::raw_batch::RawBatch;
use crate::telemetry::PartitionGauge;

/// State of an assigned partition.
pub(super) struct PartitionState {
    pub(super) partition: i32,
    pub(super) handle: Arc<PartitionHandle>,
    /// `None` once no more batches are sent.
    pub(super) sender: Option<mpsc::Sender<RawBatch>>,
    /// Incomplete batch of polled records.
    pub(super) batch: RawBatch,
    /// Offset after the last record of all earlier batches.
    pub(super) finished: i64,
    /// Complete batches that are not sent yet.
    pub(super) ready: VecDeque<RawBatch>,
    pub(super) paused: bool,
    /// End of the range to read: no record at or past it is read.
    pub(super) end_offset: i64,
    /// Every record before `end_offset` was polled.
    pub(super) at_end: bool,
    pub(super) commits: Commits,
    /// The group's offset if the rows are behind it, until they have caught up.
    pub(super) catches_up: Option<i64>,
    /// Metrics of the partition, removed on drop.
    pub(super) _gauge: Option<PartitionGauge>,
}

impl PartitionState {
    /// Records that the brokers confirmed a commit.
    pub(super) fn mark_committed(&mut self, offset: i64) {
        self.commits.mark_committed(offset);
        self.handle.progress().committed(offset);
    }

    /// The offset to commit: that of the group is not set back while the rows catch up, so that
    /// whoever reads on knows how far that has to be.
    pub(super) fn to_commit(&self) -> i64 {
        self.handle.acknowledged().get().max(self.catches_up.unwrap_or(i64::MIN))
    }

    /// Notes that the rows have caught up with the group's offset; returns whether they have since
    /// the last call.
    pub(super) fn note_caught_up(&mut self) -> bool {
        let acknowledged = self.handle.acknowledged().get();
        self.catches_up.take_if(|until| acknowledged >= *until).is_some()
    }

    /// Whether everything that was sent to the worker is durable and committed.
    pub(super) fn is_complete(&self) -> bool {
        self.handle.has_ended() == Some(WorkerExit::Drained)
            && self.commits.is_committed(self.to_commit())
    }

    /// Offset after the last polled record.
    pub(super) fn next_offset(&self) -> i64 {
        self.batch.next_offset().map_or(self.finished, |next| next.get())
    }

    /// Completes the current batch, if it is not empty.
    pub(super) fn finish_batch(&mut self) {
        let Some(next_offset) = self.batch.next_offset() else { return };
        self.finished = next_offset.get();
        self.ready.push_back(self.batch.finish());
    }

    /// Notes when the range to read ends with the record at an offset; returns whether that lies in
    /// it.
    pub(super) fn note_polled(&mut self, offset: i64) -> bool {
        self.at_end |= offset + 1 >= self.end_offset;
        offset < self.end_offset
    }

    /// Whether the partition waits for a record from the brokers.
    pub(super) fn is_fetching(&self) -> bool {
        self.sender.is_some() && !self.paused && !self.at_end
    }

    /// Closes the channel to the worker once it has received every batch.
    pub(super) fn close_at_end(&mut self, client: &impl GroupClient) {
        if self.at_end && self.ready.is_empty() && self.sender.take().is_some() {
            self.pause(client);
        }
    }

    /// Sends complete batches; pauses the partition if its channel is full.
    pub(super) fn send_ready(&mut self, client: &impl GroupClient) {
        let Some(sender) = &self.sender else { return };
        while let Some(batch) = self.ready.pop_front() {
            match sender.try_send(batch) {
                Ok(()) => (),
                Err(TrySendError::Full(batch)) => {
                    self.ready.push_front(batch);
                    break;
                }
                // The worker failed, and has reported why: the partition stops.
                Err(TrySendError::Closed(_)) => {
                    self.ready.clear();
                    self.sender = None;
                    self.pause(client);
                    return;
                }
            }
        }
        if !self.ready.is_empty() {
            self.pause(client);
        }
    }

    pub(super) fn pause(&mut self, client: &impl GroupClient) {
        // If this fails, the next batch pauses it.
        self.paused = self.paused || client.pause(&[self.partition]).is_ok();
    }

    pub(super) fn resume(&mut self, client: &impl GroupClient) {
        let Some(sender) = &self.sender else { return };
        if self.paused && self.ready.is_empty() && sender.capacity() >= RESUME_CAPACITY {
            self.unpause(client);
        }
    }

    pub(super) fn unpause(&mut self, client: &impl GroupClient) {
        if self.paused {
            self.paused = client.resume(&[self.partition]).is_err();
        }
    }
}
