//! Reads the records of one device.

use std::ops::Range;
use std::sync::Arc;

use super::Log;
use super::files::FilesLog;
use super::topic_log::TopicLog;
use crate::identity::DeviceId;
use crate::kafka::scan::Scan;
use crate::kafka::topics::OffsetRange;
use crate::model::epoch::{Versions, by_epoch, with_other_partition_count};
use crate::model::rules::Rules;
use crate::source::{Batch, Source as _};
use crate::store::TripRow;

/// Where records were read.
pub(crate) struct RecordsRead<'a> {
    /// The rules of their epoch.
    pub rules: &'a Rules,
    /// Their partition; 0 for files.
    pub partition: i32,
    /// The versions of that partition.
    pub versions: &'a Versions,
    /// The records.
    pub batch: &'a Batch,
}

impl Log {
    /// Reads the records that may hold samples of the device of a row, in order, and maybe others.
    ///
    /// # Errors
    /// The log cannot be read, or lacks records that the store was built from; or `each` fails.
    pub(crate) async fn read_device(
        &self,
        row: &TripRow,
        each: impl FnMut(RecordsRead<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Files(log) => log.read_all(each).await,
            Self::Topic(log) => log.read_device(row, each),
        }
    }
}

impl FilesLog {
    async fn read_all(
        &self,
        mut each: impl FnMut(RecordsRead<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut source, rules) = self.records().await?;
        let versions = Versions::of_files();
        while let Some(batch) = source.next().await? {
            each(RecordsRead { rules: &rules, partition: 0, versions: &versions, batch: &batch })?;
        }
        Ok(source.check()?)
    }
}

impl TopicLog {
    /// Blocks the thread.
    fn read_device(
        &self,
        row: &TripRow,
        mut each: impl FnMut(RecordsRead<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let device = DeviceId::from_store(row.device_id.as_str());
        let replay = self.reread(self.device_spans(row), Some(device.clone()))?;
        for (nth, spans) in by_epoch(&replay.epochs, &replay.spans) {
            let epoch = &replay.epochs[nth];
            let mut reader = replay.reader_with_schemas(epoch)?.of_device(device.clone());
            let is_keyed = epoch.rules.is_keyed_by_device();
            let range = |span: Range<i64>| OffsetRange { first: span.start, next: span.end };
            let spans = (0..).zip(spans).map(|(partition, span)| (partition, range(span)));
            let mut scan = Scan::new(&replay.brokers, &epoch.topic, spans.collect())?;
            let origin: Arc<str> = epoch.topic.as_str().into();
            while let Some(scanned) = scan.next_record()? {
                let record = scanned.record();
                if is_keyed && record.key != Some(device.as_bytes()) {
                    continue;
                }
                let mut batch = Batch { origin: Arc::clone(&origin), ..Batch::default() };
                batch.control = reader.read(&record, &mut batch);
                let partition = record.partition;
                let versions = &Versions::of_partition(&replay.epochs[..=nth], partition);
                let (rules, batch) = (&epoch.rules, &batch);
                each(RecordsRead { rules, partition, versions, batch })?;
            }
        }
        Ok(())
    }

    /// The offsets, by partition, that may hold samples of the device of a row.
    fn device_spans(&self, row: &TripRow) -> Vec<Range<i64>> {
        let newest = self.newest();
        let has_one_count = with_other_partition_count(&self.epochs, newest.partitions).is_none();
        let last = Versions::of_partition(&self.epochs, row.partition).offset_of(row.version);
        let mut spans = self.all_stored();
        for ((partition, span), range) in (0..).zip(&mut spans).zip(&self.extents) {
            // A row may be ahead of the committed offset.
            if partition == row.partition && row.version >= newest.base {
                span.end = span.end.max((last + 1).get()).min(range.next);
            }
            // Expired records may belong to other trips; whether they do not shows in the trip.
            span.start = span.start.max(range.first);
            // A device stays in its partition as long as the partition count does not change.
            if (has_one_count && partition != row.partition) || span.end < span.start {
                span.end = span.start;
            }
        }
        spans
    }
}
