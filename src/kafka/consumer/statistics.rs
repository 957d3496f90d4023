//! Where partitions end, by the statistics of the client: they come to the polling thread, which
//! asks nobody.

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
}

/// Where a partition ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) partition: i32,
    /// No record stands at or past it. The end of a transaction has an offset, and is no record:
    /// the last record may stand further ahead.
    pub(super) offset: i64,
    /// All before it was polled.
    pub(super) is_polled: bool,
}

/// The ends of the partitions of a topic that are known.
pub(super) fn ends(statistics: &[u8], topic: &str) -> Vec<End> {
    // What cannot be read is left as it is known.
    let read: Option<Statistics> = serde_json::from_slice(statistics).ok();
    let topic = read.and_then(|mut read| read.topics.remove(topic));
    let partitions = topic.map(|topic| topic.partitions).unwrap_or_default();
    let known = partitions.into_values().filter(|partition| partition.ls_offset >= 0);
    let end = |Partition { partition, app_offset, ls_offset: offset }| End {
        partition,
        offset,
        is_polled: app_offset >= offset,
    };
    known.map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(app: i64, stable: i64) -> Vec<End> {
        let text = format!(
            r#"{{"name": "x", "topics": {{"other": {{"partitions": {{}}}}, "samples": {{"age": 1,
             "partitions": {{"3": {{"partition": 3, "app_offset": {app}, "ls_offset": {stable},
             "hi_offset": 999}}}}}}}}}}"#
        );
        ends(text.as_bytes(), "samples")
    }

    #[test]
    fn the_end_is_known_and_whether_all_before_it_was_polled() {
        let end = |offset, is_polled| [End { partition: 3, offset, is_polled }];
        assert_eq!(found(90, 100), end(100, false));
        assert_eq!(found(100, 100), end(100, true));
        assert_eq!(found(-1001, 100), end(100, false), "nothing was polled yet");
        assert_eq!(found(-1001, -1001), [], "not known yet");
        assert_eq!(ends(b"{", "samples"), []);
        assert_eq!(ends(b"{}", "samples"), []);
    }
}
