//! End offsets and committed offsets from the client's statistics, which reach the polling thread
//! without a request of its own.

use std::collections::HashMap;

use serde::Deserialize;

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    topics: HashMap<String, Topic>,
}

#[derive(Deserialize)]
struct Topic {
    partitions: HashMap<String, Partition>,
}

/// Offsets are negative if unknown.
#[derive(Deserialize)]
struct Partition {
    partition: i32,
    /// Offset after the last polled record, transaction markers included.
    app_offset: i64,
    /// End offset for `read_committed` consumers (last stable offset).
    ls_offset: i64,
    /// Committed offset of the group, from the last response to a commit or an offset fetch.
    committed_offset: i64,
}

/// Statistics of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionStats {
    /// Partition number, from 0.
    pub partition: i32,
    /// End of the partition, if known.
    pub end: Option<End>,
    /// Committed offset of the group, if known.
    pub committed: Option<i64>,
}

/// End of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// No record has this offset or a higher one. The last record may be further ahead: transaction
    /// markers have offsets too.
    pub offset: i64,
    /// Every record before the end was polled.
    pub is_polled: bool,
}

/// Parses the statistics of the partitions of a topic.
pub(super) fn read(statistics: &[u8], topic: &str) -> Vec<PartitionStats> {
    // Invalid statistics change nothing.
    let read: Option<Statistics> = serde_json::from_slice(statistics).ok();
    let topic = read.and_then(|mut read| read.topics.remove(topic));
    let partitions = topic.map(|topic| topic.partitions).unwrap_or_default();
    let is_valid = |offset: &i64| *offset >= 0;
    let stats = |Partition { partition, app_offset, ls_offset, committed_offset }| PartitionStats {
        partition,
        end: Some(ls_offset)
            .filter(is_valid)
            .map(|offset| End { offset, is_polled: app_offset >= offset }),
        committed: Some(committed_offset).filter(is_valid),
    };
    partitions.into_values().map(stats).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(app: i64, stable: i64, committed: i64) -> Vec<PartitionStats> {
        let text = format!(
            r#"{{"name": "x", "topics": {{"other": {{"partitions": {{}}}}, "samples": {{"age": 1,
             "partitions": {{"3": {{"partition": 3, "app_offset": {app}, "ls_offset": {stable},
             "hi_offset": 999, "committed_offset": {committed}}}}}}}}}}}"#
        );
        read(text.as_bytes(), "samples")
    }

    #[test]
    fn statistics_give_the_end_and_the_committed_offset() {
        let stats = |end: Option<(i64, bool)>, committed| {
            let end = end.map(|(offset, is_polled)| End { offset, is_polled });
            [PartitionStats { partition: 3, end, committed }]
        };
        assert_eq!(parsed(90, 100, 80), stats(Some((100, false)), Some(80)));
        assert_eq!(parsed(100, 100, 0), stats(Some((100, true)), Some(0)));
        let unpolled = stats(Some((100, false)), None);
        assert_eq!(parsed(-1001, 100, -1001), unpolled, "nothing was polled yet");
        assert_eq!(parsed(-1001, -1001, -1001), stats(None, None), "not known yet");
        assert_eq!(read(b"{", "samples"), []);
        assert_eq!(read(b"{}", "samples"), []);
    }
}
