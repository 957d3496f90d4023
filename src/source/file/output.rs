//! Collects entries into batches.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc::Sender;

use super::input::Progress;
use super::log::Log;
use super::reader::{BatchResult, Stop};
use super::splitter::Sizes;
use crate::model::reason::DeadReason;
use crate::source::{Batch, Cut, NoSample, SampleError, span};

/// Cuts the records of dead letters, from entry `from` on, that are larger than a line may be: a
/// document may be larger.
pub(super) fn cut_large(batch: &mut Batch, from: usize, sizes: &Sizes) {
    for entry in &mut batch.entries[from..] {
        let range = entry.raw.start as usize..entry.raw.end as usize;
        let record = &batch.raw[range.clone()];
        if let (Err(NoSample::Dead(error)), true) = (&mut entry.content, range.len() > sizes.record)
        {
            let (bytes, sha256) = (record.len() as u64, Sha256::digest(record).into());
            error.cut.get_or_insert(Cut { bytes, sha256 });
            entry.raw = span(range.start, range.start + sizes.head);
        }
    }
}

/// Collects entries into batches and sends them.
pub(super) struct Output<'a> {
    pub(super) sender: &'a Sender<BatchResult>,
    pub(super) origin: Arc<str>,
    pub(super) batch: Batch,
    pub(super) log: Log<'a>,
    pub(super) sizes: Sizes,
}

impl Output<'_> {
    pub(super) fn push_error(&mut self, record: &[u8], line: u64, fault: SampleError) {
        let position = self.log.next_record(line);
        let entries = self.batch.entries.len();
        position.push_record(&mut self.batch, record, Err(NoSample::Dead(Box::new(fault))));
        cut_large(&mut self.batch, entries, &self.sizes);
    }

    pub(super) fn push_cut(
        &mut self,
        head: &[u8],
        line: u64,
        reason: DeadReason,
        message: String,
        cut: Cut,
    ) {
        let fault = SampleError { cut: Some(cut), ..SampleError::new(reason, message) };
        self.push_error(head, line, fault);
    }

    pub(super) fn is_full(&self) -> bool {
        self.batch.entries.len() >= self.sizes.batch_entries
            || self.batch.raw.len() >= self.sizes.batch_bytes
    }

    /// Sends the batch, unless it is empty.
    pub(super) fn flush(&mut self, progress: &Progress) -> Result<(), Stop> {
        let Batch { entries, part, lines_known, next_offset, outgrown, .. } = &self.batch;
        let has_news = next_offset.is_some() || part.is_some() || *lines_known > 0 || *outgrown;
        if entries.is_empty() && !has_news {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.origin = Arc::clone(&self.origin);
        batch.bytes_read = progress.bytes();
        self.batch.raw.reserve(batch.raw.len());
        self.batch.text.reserve(batch.text.len());
        self.batch.entries.reserve(batch.entries.len());
        self.sender.blocking_send(Ok(batch)).map_err(|_| Stop::Closed)
    }
}
