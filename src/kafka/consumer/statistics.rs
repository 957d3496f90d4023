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
    /// Records that were fetched and not polled yet.
    fetchq_cnt: i64,
    /// Where fetching goes on.
    next_offset: i64,
    /// Offset after the last record that was polled.
    app_offset: i64,
    /// The end, for those who do not read what transactions may take back.
    ls_offset: i64,
}

impl Partition {
    /// The offset after the last record, as far as known.
    fn end(&self) -> Option<i64> {
        if self.ls_offset < 0 {
            return None;
        }
        // The end of a transaction has an offset and is no record: where all was fetched and polled
        // there is none past the last one that was polled.
        let is_through = self.fetchq_cnt == 0 && self.next_offset >= self.ls_offset;
        Some(if is_through { self.app_offset.clamp(0, self.ls_offset) } else { self.ls_offset })
    }
}

/// The ends of the partitions of a topic, as (partition, offset after the last record).
pub(super) fn ends(statistics: &[u8], topic: &str) -> Vec<(i32, i64)> {
    // What cannot be read is left as it is known.
    let read: Option<Statistics> = serde_json::from_slice(statistics).ok();
    let topic = read.and_then(|mut read| read.topics.remove(topic));
    let partitions = topic.map(|topic| topic.partitions).unwrap_or_default();
    let ends = partitions.values().map(|it| it.end().map(|end| (it.partition, end)));
    ends.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(fetchq: i64, next: i64, app: i64, stable: i64) -> Vec<(i32, i64)> {
        let text = format!(
            r#"{{"name": "x", "topics": {{"other": {{"partitions": {{}}}}, "samples": {{"age": 1,
             "partitions": {{"3": {{"partition": 3, "fetchq_cnt": {fetchq}, "next_offset": {next},
             "app_offset": {app}, "ls_offset": {stable}, "hi_offset": 999}}}}}}}}}}"#
        );
        ends(text.as_bytes(), "samples")
    }

    #[test]
    fn the_end_is_that_of_the_records() {
        assert_eq!(end(10, 40, 30, 100), [(3, 100)], "behind");
        assert_eq!(end(10, 100, 90, 100), [(3, 100)], "fetched and not polled");
        assert_eq!(end(0, 100, 100, 100), [(3, 100)], "through");
        assert_eq!(end(0, 100, 98, 100), [(3, 98)], "the end of a transaction is no record");
        assert_eq!(end(0, 100, -1001, 100), [(3, 0)], "nothing was there to be polled");
        assert_eq!(end(0, 0, -1001, -1001), [], "not known yet");
        assert_eq!(ends(b"{", "samples"), []);
        assert_eq!(ends(b"{}", "samples"), []);
    }
}
