//! The offsets of a topic that each of its epochs covers; epochs are oldest first, at least one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Epoch, Versions};
use crate::model::scalar::{Offset, Version};

/// The version of the record before each of these offsets, by partition.
pub(crate) fn versions_before(epochs: &[Epoch], offsets: &[i64]) -> BTreeMap<i32, Version> {
    let version = |(partition, &offset): (i32, &i64)| {
        (partition, Versions::of_partition(epochs, partition).version_at(Offset(offset)) - 2)
    };
    (0..).zip(offsets).map(version).collect()
}

/// First offset of each partition of the log: the start of the oldest epoch of the current topic.
pub(crate) fn first_offsets(epochs: &[Epoch]) -> Vec<i64> {
    let newest = epochs.last().expect("there is an epoch");
    let current = of_current_topic(epochs);
    let start = |partition: i32| {
        let mut starts = current.iter().filter_map(|epoch| epoch.start_offsets.get(&partition));
        starts.next().copied().unwrap_or(0)
    };
    (0..newest.partitions).map(start).collect()
}

/// The epochs of the current topic.
pub(crate) fn of_current_topic(epochs: &[Epoch]) -> &[Epoch] {
    &epochs[first_of_topic(epochs)..]
}

/// Index of the first epoch of the current topic. An epoch with another topic id than the previous
/// one was created for a recreated topic; where the ids are unknown, one with fewer partitions, or
/// with a lower start offset.
fn first_of_topic(epochs: &[Epoch]) -> usize {
    let is_recreated = |pair: &[Epoch]| {
        if pair[0].topic_id.is_some() && pair[1].topic_id.is_some() {
            return pair[0].topic_id != pair[1].topic_id;
        }
        pair[1].partitions < pair[0].partitions
            || pair[0].start_offsets.iter().any(|(partition, start)| {
                pair[1].start_offsets.get(partition).is_some_and(|next| next < start)
            })
    };
    epochs.windows(2).rposition(is_recreated).map_or(0, |nth| nth + 1)
}

/// Number of the last epoch that was, or may have been, created for a recreated topic: no record of
/// the epoch before it can be read. `None` if there is no such epoch.
pub(crate) fn recreated_in(epochs: &[Epoch]) -> Option<i32> {
    let first = first_of_topic(epochs);
    let has_empty_predecessor = |pair: &&[Epoch]| {
        let is_empty = |(partition, start): (&i32, &i64)| {
            pair[1].start_offsets.get(partition).is_none_or(|next| next <= start)
        };
        let is_same = pair[0].topic_id.is_some() && pair[0].topic_id == pair[1].topic_id;
        !is_same && pair[0].start_offsets.iter().all(is_empty)
    };
    let found = epochs.windows(2).rfind(has_empty_predecessor).map(|pair| pair[1].epoch);
    found.or_else(|| (first > 0).then(|| epochs[first].epoch))
}

/// Splits spans by epoch, oldest first: the index of each epoch and its part of each span.
pub(crate) fn by_epoch(epochs: &[Epoch], spans: &[Range<i64>]) -> Vec<(usize, Vec<Range<i64>>)> {
    let first = first_of_topic(epochs);
    let start = |nth: usize, partition: i32| epochs.get(nth).map(|epoch| epoch.start_of(partition));
    let spans_of = |nth: usize| {
        let part = |(partition, span): (i32, &Range<i64>)| {
            let begins = start(nth, partition).unwrap_or(0);
            // No epoch covers records before the first start offset.
            let ends = start(nth + 1, partition).unwrap_or(i64::MAX);
            let from = span.start.max(begins);
            from..span.end.min(ends).max(from)
        };
        (nth, (0..).zip(spans).map(part).collect::<Vec<_>>())
    };
    let parts = (first..epochs.len()).map(spans_of);
    parts.filter(|(_, spans)| spans.iter().any(|span| !span.is_empty())).collect()
}

/// The first span whose start expired: its partition, and the offsets from the start of the span to
/// the first one that the topic still has, which is that of `firsts`.
pub fn gone(
    spans: &[Range<i64>],
    firsts: impl IntoIterator<Item = i64>,
) -> Option<(i32, Range<i64>)> {
    let mut pairs = (0..).zip(spans.iter().zip(firsts));
    let expired = pairs.find(|(_, (span, first))| !span.is_empty() && span.start < *first);
    expired.map(|(partition, (span, first))| (partition, span.start..first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::partitioner::Partitioner;
    use crate::model::rules::Rules;

    fn epoch(epoch: i32, partitions: i32, starts: &[(i32, i64)]) -> Epoch {
        let start_offsets = starts.iter().copied().collect();
        let (topic, rules, base) = ("samples".into(), Rules::default(), i64::from(epoch) * 1000);
        Epoch {
            epoch,
            topic,
            partitions,
            start_offsets,
            base: Version(base),
            rules,
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        }
    }

    #[test]
    fn each_record_is_read_under_its_first_epoch() {
        let epochs = [epoch(1, 1, &[(0, 5)]), epoch(2, 2, &[(0, 100), (1, 0)])];
        assert_eq!((first_offsets(&epochs), recreated_in(&epochs)), (vec![5, 0], None));
        let parts = by_epoch(&epochs, &[5..120, 0..7]);
        assert_eq!(parts, [(0, vec![5..100, 0..0]), (1, vec![100..120, 0..7])]);
        assert_eq!(by_epoch(&epochs, &[100..100, 3..7]), [(1, vec![100..100, 3..7])]);
    }

    #[test]
    fn a_recreated_topic_begins_with_its_own_epoch() {
        let epochs = [epoch(1, 2, &[(0, 50), (1, 9)]), epoch(2, 2, &[(0, 0), (1, 0)])];
        assert_eq!((first_offsets(&epochs), recreated_in(&epochs)), (vec![0, 0], Some(2)));
        assert_eq!(by_epoch(&epochs, &[0..60, 0..3]), [(1, vec![0..60, 0..3])]);
    }

    #[test]
    fn the_id_of_a_topic_decides_whether_it_was_recreated() {
        let with_id = |id: &str, epoch: Epoch| Epoch { topic_id: Some(id.into()), ..epoch };
        // Read before anything was in it, with more records than the former one by now.
        let (first, second) = (epoch(1, 1, &[(0, 5)]), epoch(2, 1, &[(0, 7)]));
        let recreated = [with_id("a", first.clone()), with_id("b", second.clone())];
        assert_eq!((first_offsets(&recreated), recreated_in(&recreated)), (vec![7], Some(2)));
        let second = epoch(2, 1, &[(0, 5)]);
        let same = [with_id("a", first.clone()), with_id("a", second.clone())];
        assert_eq!((first_offsets(&same), recreated_in(&same)), (vec![5], None));
        let unknown = [first, with_id("a", second)];
        assert_eq!(recreated_in(&unknown), Some(2), "it may have been");
    }

    #[test]
    fn expired_records_are_found() {
        assert_eq!(gone(&[0..9, 0..2], [3, 0]), Some((0, 0..3)));
        assert_eq!(gone(&[3..9, 0..2], [3, 0]), None);
        assert_eq!(gone(&[0..0, 0..2], [3, 0]), None);
    }
}
