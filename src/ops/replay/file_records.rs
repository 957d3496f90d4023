//! Converts lines of files to records of a topic.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::identity::DeviceId;
use crate::kafka::producer::ProducerRecord;
use crate::log::device_partition::PartitionFinder;
use crate::log::target::TargetTopic;
use crate::model::reason::DeadReason;
use crate::model::scalar::{LogTime, Offset};
use crate::ops::Notify;
use crate::pipeline::processor::wrong_clock;
use crate::source::file::FileSource;
use crate::source::{
    Batch, DecodedSample, Decoder, DecoderError, Entry, NoSample, RecordContext, SampleError,
    Source, SourceError,
};
use crate::store::StoreError;
use crate::telemetry::clock_ms;
use crate::timeline::ClockGuard;

/// Maximum number of bad lines that are reported.
const MAX_REPORTED: u64 = 10;

/// Maximum length of a line that is sent unchanged, bytes. A longer one is re-encoded with only the
/// fields of its sample, as brokers reject long records.
const MAX_LINE_BYTES: usize = 256 << 10;

/// Maximum number of devices whose partitions are cached.
const MAX_CACHED_DEVICES: usize = 1 << 20;

/// Maximum number of concurrent lookups in the store.
const MAX_LOOKUPS: usize = 32;

/// Partition by device; `Ok(None)`: the key determines it, `Err`: why it is unknown.
type KnownPartitions = HashMap<DeviceId, Result<Option<i32>, String>>;

/// Reads lines of files and converts them to records. A line that is not a valid sample is counted
/// and reported.
pub(super) struct FileRecords<'a> {
    source: FileSource,
    /// A batch that was read but not returned yet, so that a cancelled call loses nothing.
    pending: Option<Batch>,
    /// Decodes by the rules of the log.
    log_decoder: Decoder,
    guard: ClockGuard,
    /// Unset: keys determine partitions.
    finder: Option<&'a PartitionFinder<'a>>,
    partitions: KnownPartitions,
    notify: Notify,
    /// What is not a sample to send.
    pub left_out: LeftOut,
    /// Offset of the line after the last one read.
    pub next: i64,
    /// The error of the store that ended the source early.
    pub store_error: Option<StoreError>,
}

/// Lines that were read together.
pub(super) struct Chunk {
    /// The samples among them, and the part of the file that was read.
    pub batch: Batch,
    /// A record for each of these samples.
    pub records: Vec<ProducerRecord>,
}

/// What a replay of files does not send. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct LeftOut {
    /// Lines that are not samples, by reason.
    pub bad: BTreeMap<&'static str, u64>,
    /// Samples that the field map skips.
    pub skipped: u64,
    /// Samples that the field map drops, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

impl LeftOut {
    /// Number of lines that are not samples.
    #[must_use]
    pub(crate) fn bad_lines(&self) -> u64 {
        self.bad.values().sum()
    }
}

impl<'a> FileRecords<'a> {
    /// Records for a topic, of the lines that a source reads. `notify` receives the first bad ones.
    ///
    /// # Errors
    /// The field map of the rules is invalid.
    pub(crate) fn new(
        source: FileSource,
        target: &'a TargetTopic<'a>,
        notify: Notify,
    ) -> Result<Self, DecoderError> {
        Ok(Self {
            source,
            pending: None,
            log_decoder: Decoder::new(&target.rules)?,
            guard: target.rules.guard(),
            finder: target.finder.as_ref(),
            partitions: KnownPartitions::new(),
            notify,
            left_out: LeftOut::default(),
            next: 0,
            store_error: None,
        })
    }

    /// Size of all files, bytes; `None` if one has no length, such as stdin.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.source.total_bytes()
    }

    /// The next lines; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The files or the store cannot be read.
    pub(crate) async fn next_chunk(&mut self) -> anyhow::Result<Option<Chunk>> {
        if self.pending.is_none() {
            self.pending = self.source.next().await?;
        }
        self.find_partitions().await?;
        let Some(mut batch) = self.pending.take() else { return Ok(None) };
        let (mut records, now_ms) = (Vec::with_capacity(batch.entries.len()), clock_ms());
        let entries = std::mem::take(&mut batch.entries);
        self.next = self.next.max(batch.next_offset.map_or(0, Offset::get));
        // Each of these is a sample or a bad line from here on.
        for (reason, count) in
            std::mem::take(&mut batch.arrays).into_values().flat_map(|it| it.more)
        {
            *self.left_out.bad.entry(reason.name()).or_default() += count;
        }
        for entry in entries {
            // The entry is from a copy of a file that was read before.
            if entry.again {
                continue;
            }
            self.next = self.next.max((entry.offset + 1).get());
            let record = match &entry.content {
                Ok(decoded) => self.record(&batch, (&entry, decoded), now_ms),
                Err(NoSample::Dead(error)) => Err(SampleError::clone(error)),
                Err(NoSample::Skipped(count)) => {
                    self.left_out.skipped += u64::from(*count);
                    continue;
                }
                Err(NoSample::Dropped(reason, count)) => {
                    *self.left_out.dropped.entry(reason.name()).or_default() += u64::from(*count);
                    continue;
                }
            };
            match record {
                Ok(record) => {
                    records.push(record);
                    batch.entries.push(entry);
                }
                Err(error) => self.count_bad(&batch, &entry, &error),
            }
        }
        Ok(Some(Chunk { batch, records }))
    }

    /// The record of a sample, or why the log would not accept it.
    fn record(
        &mut self,
        batch: &Batch,
        (entry, decoded): (&Entry, &DecodedSample),
        now_ms: i64,
    ) -> Result<ProducerRecord, SampleError> {
        let time_ms = decoded.sample.time_ms;
        if let Err(violation) = self.guard.judge(time_ms, LogTime(now_ms)) {
            return Err(wrong_clock(&self.guard, violation, time_ms, LogTime(now_ms)));
        }
        let device = batch.text(&decoded.device);
        let partition = match self.partitions.get(device) {
            None => None,
            Some(Ok(partition)) => *partition,
            Some(Err(reason)) => return Err(SampleError::new(DeadReason::NoKey, reason.clone())),
        };
        let value = self.value(batch, batch.raw(entry), decoded)?;
        let key = Some(device.as_bytes().to_vec());
        Ok(ProducerRecord { key, value, partition, ..ProducerRecord::default() })
    }

    /// The line itself if the log's decoder finds the same sample in it, else the sample
    /// re-encoded.
    fn value(
        &mut self,
        batch: &Batch,
        line: &[u8],
        decoded: &DecodedSample,
    ) -> Result<Vec<u8>, SampleError> {
        let sample = (decoded, batch.text.as_str());
        let key = Some(batch.text(&decoded.device).as_bytes());
        let context = RecordContext { key, ..RecordContext::default() };
        let record = (line, &context);
        if line.len() <= MAX_LINE_BYTES && self.log_decoder.finds(record, sample) {
            return Ok(line.to_vec());
        }
        let encoded = self.log_decoder.restate(sample, &context);
        encoded.map(String::into_bytes).map_err(|reason| {
            let problem = format!("the rules of the log cannot express this sample: {reason}");
            SampleError::new(DeadReason::AmbiguousField, problem)
        })
    }

    /// Looks up the partitions of the devices in the pending batch.
    async fn find_partitions(&mut self) -> Result<(), StoreError> {
        let (Some(finder), Some(batch)) = (self.finder, &self.pending) else { return Ok(()) };
        if self.partitions.len() >= MAX_CACHED_DEVICES {
            self.partitions.clear();
        }
        let samples = batch.entries.iter().filter_map(|entry| entry.content.as_ref().ok());
        let devices: BTreeSet<&str> = samples.map(|decoded| batch.text(&decoded.device)).collect();
        let unknown = devices.into_iter().filter(|device| !self.partitions.contains_key(*device));
        let unknown: Vec<_> = unknown.filter_map(|device| DeviceId::new(device).ok()).collect();
        let mut lookups =
            stream::iter(unknown).map(|device| finder.find(device)).buffered(MAX_LOOKUPS);
        while let Some(located) = lookups.try_next().await? {
            // In a log that is keyed by device id, a new device is partitioned by its key, as
            // Java's producers do, and claims that partition.
            let partition = match !finder.is_keyed() && finder.is_unknown(&located) {
                true => Err(finder.unknown_reason(&located)),
                false => Ok(located.partition),
            };
            self.partitions.insert(located.device, partition);
        }
        Ok(())
    }

    fn count_bad(&mut self, batch: &Batch, entry: &Entry, error: &SampleError) {
        let reported = self.left_out.bad_lines();
        let reason = error.reason.name();
        *self.left_out.bad.entry(reason).or_default() += 1;
        if reported < MAX_REPORTED {
            let (file, line, message) = (&batch.origin, entry.line, &error.message);
            (self.notify)(&format!("{file}:{line}: {reason}: {message}; not sent"));
        }
    }
}

impl Source for FileRecords<'_> {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        match self.next_chunk().await {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.batch)),
            Err(error) => match error.downcast::<SourceError>() {
                Ok(error) => Err(error),
                Err(error) => {
                    // `next_chunk` has no other errors.
                    self.store_error = error.downcast::<StoreError>().ok();
                    Ok(None)
                }
            },
        }
    }
}
