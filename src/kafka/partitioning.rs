//! How the producers of a topic choose partitions, found from what they sent.

use rdkafka::message::Message;

use super::KafkaError;
use super::client::Brokers;
use super::scan::Scan;
use super::topic::OffsetRange;
use crate::model::partitioner::{Finder, Partitioner};

/// So many records are looked at, over all partitions.
const LOOKED_AT: usize = 4_000;

/// No more than this is read for it, bytes.
const LOOKED_AT_BYTES: usize = 64 << 20;

/// The partitioner that the oldest records of a topic agree with; its partitions have these
/// offsets. Blocks.
///
/// # Errors
/// No broker answers.
pub fn found(
    brokers: &Brokers,
    topic: &str,
    extents: &[OffsetRange],
) -> Result<Partitioner, KafkaError> {
    let count = i32::try_from(extents.len()).unwrap_or(i32::MAX);
    let of_each = i64::try_from(LOOKED_AT / extents.len().max(1)).unwrap_or(1).max(1);
    let head = |extent: &OffsetRange| OffsetRange {
        next: extent.next.min(extent.first.saturating_add(of_each)),
        ..*extent
    };
    let heads = (0..).zip(extents.iter().map(head)).collect();
    let (mut finder, mut scan) = (Finder::new(count), Scan::new(brokers, topic, heads)?);
    let (mut records, mut bytes) = (0, 0);
    while records < LOOKED_AT && bytes < LOOKED_AT_BYTES {
        let Some(message) = scan.next_message()? else { break };
        let key = message.key().unwrap_or_default();
        // Without a key a producer chooses any partition.
        if !key.is_empty() && !finder.see(key, message.partition()) {
            break;
        }
        records += 1;
        bytes += key.len() + message.payload().map_or(0, <[u8]>::len);
    }
    Ok(finder.found())
}
