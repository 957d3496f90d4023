//! Where partitions end, and which offsets the brokers keep, by the statistics of the client: they
//! come to the polling thread, which asks nobody.

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

/// Offsets are negative where they are not known.
#[derive(Deserialize)]
struct Partition {
    partition: i32,
    /// Offset after what was polled last, ends of transactions included.
    app_offset: i64,
    /// The end, for those who do not read what transactions may take back.
    ls_offset: i64,
    /// What the brokers keep for the group, by the last answer to a commit, or to a question.
    committed_offset: i64,
}

/// What is known of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionStats {
    pub(super) partition: i32,
    /// Where it ends.
    pub(super) end: Option<End>,
    /// The offset that the brokers keep for the group.
    pub(super) committed: Option<i64>,
}

/// Where a partition ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// No record stands at or past it. The end of a transaction has an offset, and is no record:
    /// the last record may stand further ahead.
    pub(super) offset: i64,
    /// All before it was polled.
    pub(super) is_polled: bool,
}

/// What is known of the partitions of a topic.
pub(super) fn read(statistics: &[u8], topic: &str) -> Vec<PartitionStats> {
    // What cannot be read is left as it is known.
    let read: Option<Statistics> = serde_json::from_slice(statistics).ok();
    let topic = read.and_then(|mut read| read.topics.remove(topic));
    let partitions = topic.map(|topic| topic.partitions).unwrap_or_default();
    let is_known = |offset: &i64| *offset >= 0;
    let known = |Partition { partition, app_offset, ls_offset, committed_offset }| PartitionStats {
        partition,
        end: Some(ls_offset)
            .filter(is_known)
            .map(|offset| End { offset, is_polled: app_offset >= offset }),
        committed: Some(committed_offset).filter(is_known),
    };
    partitions.into_values().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(app: i64, stable: i64, committed: i64) -> Vec<PartitionStats> {
        let text = format!(
            r#"{{"name": "x", "topics": {{"other": {{"partitions": {{}}}}, "samples": {{"age": 1,
             "partitions": {{"3": {{"partition": 3, "app_offset": {app}, "ls_offset": {stable},
             "hi_offset": 999, "committed_offset": {committed}}}}}}}}}}}"#
        );
        read(text.as_bytes(), "samples")
    }

    #[test]
    fn the_end_is_known_and_whether_all_before_it_was_polled_and_what_is_kept() {
        let known = |end: Option<(i64, bool)>, committed| {
            let end = end.map(|(offset, is_polled)| End { offset, is_polled });
            [PartitionStats { partition: 3, end, committed }]
        };
        assert_eq!(found(90, 100, 80), known(Some((100, false)), Some(80)));
        assert_eq!(found(100, 100, 0), known(Some((100, true)), Some(0)));
        let unpolled = known(Some((100, false)), None);
        assert_eq!(found(-1001, 100, -1001), unpolled, "nothing was polled yet");
        assert_eq!(found(-1001, -1001, -1001), known(None, None), "not known yet");
        assert_eq!(read(b"{", "samples"), []);
        assert_eq!(read(b"{}", "samples"), []);
    }
}
