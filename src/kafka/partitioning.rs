//! Infers the partitioner of the producers of a topic from its records.

use super::KafkaError;
use super::client::Brokers;
use super::scan::Scan;
use super::topics::OffsetRange;
use crate::model::partitioner::Finder;

/// Maximum number of records read, over all partitions.
const MAX_RECORDS: usize = 4_000;

/// Maximum size of the records read, bytes.
const MAX_BYTES: usize = 64 << 20;

/// Looks at the oldest records of a topic, whose partitions have these offset ranges. Blocks.
///
/// # Errors
/// The topic may not be read, or no broker responds.
pub(crate) fn observe(
    brokers: &Brokers,
    topic: &str,
    extents: &[OffsetRange],
) -> Result<Finder, KafkaError> {
    let count = i32::try_from(extents.len()).unwrap_or(i32::MAX);
    let per_partition = i64::try_from(MAX_RECORDS / extents.len().max(1)).unwrap_or(1).max(1);
    let head = |extent: &OffsetRange| OffsetRange {
        next: extent.next.min(extent.first.saturating_add(per_partition)),
        ..*extent
    };
    let heads = (0..).zip(extents.iter().map(head)).collect();
    let (mut finder, mut scan) = (Finder::new(count), Scan::new(brokers, topic, heads)?);
    let (mut records, mut bytes) = (0, 0);
    while records < MAX_RECORDS && bytes < MAX_BYTES {
        let Some(record) = scan.next_record()? else { break };
        let key = record.key.as_deref().unwrap_or_default();
        // A producer may send a record without a key to any partition.
        if !key.is_empty() {
            finder.see(key, record.partition);
        }
        records += 1;
        bytes += key.len() + record.value.as_ref().map_or(0, Vec::len);
    }
    Ok(finder)
}
