//! Names of the topics next to the input topic. They are part of the contract: access rules of
//! brokers name them.

/// Suffix of the change feed's topic.
const FEED_SUFFIX: &str = ".trips";

/// Suffix of the table topic.
const TABLE_SUFFIX: &str = ".trips.table";

/// Suffix of the dead letter topic.
const DLQ_SUFFIX: &str = ".dlq";

/// Topic of the change feed of the log `input`.
#[must_use]
pub(crate) fn feed_topic(input: &str) -> String {
    format!("{input}{FEED_SUFFIX}")
}

/// Table topic of the log `input`.
#[must_use]
pub(crate) fn table_topic(input: &str) -> String {
    format!("{input}{TABLE_SUFFIX}")
}

/// Whether `name` is that of a table topic.
#[must_use]
pub(crate) fn is_table_topic(name: &str) -> bool {
    name.ends_with(TABLE_SUFFIX)
}

/// Transactional id of the owner of an input partition for a table topic.
#[must_use]
pub(crate) fn table_transactional_id(table: &str, partition: i32) -> String {
    format!("tstar-table-{table}-{partition}")
}

/// Dead letter topic of the log `input`.
#[must_use]
pub(crate) fn dlq_topic(input: &str) -> String {
    format!("{input}{DLQ_SUFFIX}")
}

/// Whether `name` is that of a dead letter topic.
#[must_use]
pub(crate) fn is_dlq_topic(name: &str) -> bool {
    name.ends_with(DLQ_SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_input_topic() {
        assert_eq!(feed_topic("samples"), "samples.trips");
        assert_eq!(dlq_topic("samples"), "samples.dlq");
        assert_eq!(table_topic("samples"), "samples.trips.table");
        assert_eq!(
            table_transactional_id("samples.trips.table", 3),
            "tstar-table-samples.trips.table-3"
        );
        assert!(is_dlq_topic(&dlq_topic("samples")) && !is_dlq_topic(&feed_topic("samples")));
    }
}
