//! Reads the first records of a topic, without a consumer group.

use super::KafkaError;
use super::client::Brokers;
use super::record::RecordReader;
use super::scan::{Scan, ScannedRecord};
use super::topics::OffsetRange;
use crate::source::{Batch, SCHEMA_ID_HEADER};

/// Minimum number of records that are read of a partition, so that its devices have several.
const MIN_OF_PARTITION: u64 = 50;

/// Maximum number of records that are decoded together.
const MAX_RUN: usize = 1000;

/// The first records of a topic, by partition, oldest first.
pub(crate) struct FirstRecords {
    topic: String,
    records: Vec<ScannedRecord>,
}

impl FirstRecords {
    /// Reads the first records that each partition has, of each partition alike: at most
    /// `max_records`, until keys and values have `max_bytes`. Blocks.
    ///
    /// # Errors
    /// No broker responds, or the client failed.
    pub(crate) fn read(
        brokers: &Brokers,
        topic: &str,
        extents: &[OffsetRange],
        (max_records, max_bytes): (u64, usize),
    ) -> Result<Self, KafkaError> {
        let mut left = quotas(extents, max_records);
        let wanted = (0..).zip(extents.iter().copied());
        let wanted = wanted.zip(&left).filter(|(_, left)| **left > 0).map(|(range, _)| range);
        let mut scan = Scan::new(brokers, topic, wanted.collect())?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(record) = scan.next_record()? {
            bytes += record.value.as_ref().map_or(0, Vec::len);
            bytes += record.key.as_ref().map_or(0, Vec::len);
            let partition = usize::try_from(record.partition).unwrap_or(usize::MAX);
            records.push(record);
            if bytes >= max_bytes {
                break;
            }
            let Some(left) = left.get_mut(partition) else { continue };
            *left = left.saturating_sub(1);
            if *left == 0 {
                scan.end_partition();
            }
        }
        Ok(Self { topic: topic.to_owned(), records })
    }

    /// Number of records.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.records.len()
    }

    /// Number of partitions that have records.
    #[must_use]
    pub(crate) fn partitions(&self) -> usize {
        self.records.chunk_by(|one, other| one.partition == other.partition).count()
    }

    /// Decodes the records, in batches of one partition. Control records are left out.
    pub(crate) fn batches(&self, reader: &mut RecordReader) -> impl Iterator<Item = (i32, Batch)> {
        let of_partition = self.records.chunk_by(|one, other| one.partition == other.partition);
        of_partition.flat_map(|records| records.chunks(MAX_RUN)).map(|records| {
            let mut batch = Batch { origin: self.topic.as_str().into(), ..Batch::default() };
            for record in records {
                // Nothing is read of a control record.
                let _control = reader.read(&record.record(), &mut batch);
            }
            (records.first().map_or(0, |record| record.partition), batch)
        })
    }

    /// Whether most records name the schema of a registry, as its serializers write it.
    #[must_use]
    pub(crate) fn name_schemas(&self) -> bool {
        let names_schema = |record: &&ScannedRecord| {
            let is_framed = matches!(record.value.as_deref(), Some([0, _, _, _, _, _, ..]));
            is_framed || record.headers.iter().any(|(name, _)| name == SCHEMA_ID_HEADER)
        };
        self.records.iter().filter(names_schema).count() * 2 > self.records.len()
    }
}

/// Number of records to read of each partition: alike, and what some do not have is added to
/// others.
fn quotas(extents: &[OffsetRange], max_records: u64) -> Vec<u64> {
    let size = |extent: &OffsetRange| (extent.next - extent.first).max(0).unsigned_abs();
    let sizes: Vec<u64> = extents.iter().map(size).collect();
    let (mut quotas, mut left) = (vec![0; extents.len()], max_records);
    loop {
        let open: Vec<usize> = (0..sizes.len()).filter(|&nth| quotas[nth] < sizes[nth]).collect();
        if open.is_empty() || left == 0 {
            return quotas;
        }
        let share = (left / open.len() as u64).max(MIN_OF_PARTITION);
        for nth in open {
            let more = share.min(sizes[nth] - quotas[nth]).min(left);
            quotas[nth] += more;
            left -= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas_of(sizes: &[i64]) -> Vec<u64> {
        let extents: Vec<_> =
            sizes.iter().map(|size| OffsetRange { first: 7, next: 7 + size }).collect();
        quotas(&extents, 10_000)
    }

    #[test]
    fn records_are_read_of_each_partition_alike() {
        assert_eq!(quotas_of(&[5000, 5000, 50_000, 50_000]), [2500; 4]);
        // What some do not have is added to others.
        assert_eq!(quotas_of(&[10, 0, 50_000]), [10, 0, 9990]);
        assert_eq!(quotas_of(&[10, 20]), [10, 20]);
        assert_eq!(quotas_of(&[]), <[u64; 0]>::default());
        let many = quotas_of(&vec![1000; 1000]);
        assert_eq!((many.iter().sum::<u64>(), many[0]), (10_000, MIN_OF_PARTITION));
    }
}
