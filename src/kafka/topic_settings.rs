//! Settings of the topics that tstar writes: what they are created with, which settings lose data,
//! and the commands of Kafka's tools for both.

use std::collections::BTreeMap;

use super::topic_names::{is_dlq_topic, is_table_topic};

/// Settings of a topic, as the brokers report them.
pub(crate) type TopicSettings = BTreeMap<String, String>;

/// A week, ms, as a setting of a topic.
const WEEK_MS: &str = "604800000";

/// Retention of the change feed below this gets a warning, ms: one day.
pub(crate) const SHORT_RETENTION_MS: i64 = 86_400_000;

/// No dead letter is encoded in less, bytes, however much of it is cut.
const MIN_LETTER_BYTES: i64 = 1_000;

/// An event has a trip, which cannot be cut, bytes.
const MIN_EVENT_BYTES: i64 = 6_500;

const POLICY: &str = "cleanup.policy";
const MAX_BYTES: &str = "max.message.bytes";
const RETENTION_MS: &str = "retention.ms";
const RETENTION_BYTES: &str = "retention.bytes";
const TIMESTAMPS: &str = "message.timestamp.type";
const TOMBSTONES_MS: &str = "delete.retention.ms";
const MAX_LAG_MS: &str = "max.compaction.lag.ms";

/// The settings with which a topic is created, by its name. A dead letter has the timestamp of its
/// record: with default retention, the letter of a week-old record would be deleted within minutes.
/// All else has the brokers' time: they refuse records of a machine whose clock is an hour ahead of
/// theirs.
pub(super) fn initial(topic: &str) -> &'static [(&'static str, &'static str)] {
    if is_dlq_topic(topic) {
        &[(RETENTION_MS, "-1")]
    } else if is_table_topic(topic) {
        // Readers that pause for less than a week miss no tombstone, and what was erased leaves the
        // disk within two.
        &[
            (TIMESTAMPS, "LogAppendTime"),
            (POLICY, "compact"),
            (TOMBSTONES_MS, WEEK_MS),
            (MAX_LAG_MS, WEEK_MS),
        ]
    } else {
        &[(TIMESTAMPS, "LogAppendTime")]
    }
}

/// The command that creates a topic as `--create-topics` does.
pub(super) fn create_command(brokers: &str, topic: &str, partitions: i32) -> String {
    let settings = initial(topic).iter().map(|(name, value)| format!(" --config {name}={value}"));
    format!(
        "kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} --partitions \
         {partitions}{}",
        settings.collect::<String>()
    )
}

/// What a wrong setting does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// The topic cannot be what it is for: it is refused.
    Unusable,
    /// Records are deleted that should stay.
    Loss,
    /// It works, with a risk.
    Risk,
}

/// A wrong setting of an output topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongSetting {
    /// What it does.
    pub harm: Harm,
    name: &'static str,
    found: String,
    wanted: String,
    why: &'static str,
}

impl WrongSetting {
    /// What is wrong, after the name of the topic.
    #[must_use]
    pub(crate) fn problem(&self) -> String {
        format!("has {}={}: {}", self.name, self.found, self.why)
    }

    /// The command that corrects it.
    #[must_use]
    pub(crate) fn correction(&self, brokers: &str, topic: &str) -> String {
        format!(
            "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
             --entity-name {topic} --add-config {}={}",
            self.name, self.wanted
        )
    }
}

/// The settings of one topic, with those that were found to be wrong.
struct Checked<'a> {
    settings: &'a TopicSettings,
    wrong: Vec<WrongSetting>,
}

impl Checked<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        self.settings.get(name)?.parse().ok()
    }

    fn has_policy(&self, policy: &str) -> bool {
        self.settings.get(POLICY).is_some_and(|found| found.contains(policy))
    }

    fn add(
        &mut self,
        name: &'static str,
        wanted: impl Into<String>,
        harm: Harm,
        why: &'static str,
    ) {
        let Some(found) = self.settings.get(name).cloned() else { return };
        self.wrong.push(WrongSetting { harm, name, found, wanted: wanted.into(), why });
    }

    /// Limits by which brokers delete the oldest records.
    fn limits_retention(&self) -> impl Iterator<Item = &'static str> + use<> {
        let limited = [RETENTION_MS, RETENTION_BYTES]
            .map(|name| (name, self.number(name).is_some_and(|limit| limit >= 0)));
        limited.into_iter().filter_map(|(name, is_limited)| is_limited.then_some(name))
    }
}

/// The wrong settings of an output topic, those that make it unusable first. A setting that the
/// brokers do not report is not wrong. `input_bytes` is the limit of the input topic.
#[must_use]
pub(crate) fn wrong_settings(
    topic: &str,
    settings: &TopicSettings,
    input_bytes: Option<usize>,
) -> Vec<WrongSetting> {
    let mut checked = Checked { settings, wrong: Vec::new() };
    if is_dlq_topic(topic) {
        check_letters(&mut checked, input_bytes);
    } else if is_table_topic(topic) {
        check_table(&mut checked);
    } else {
        check_feed(&mut checked);
    }
    checked.wrong
}

fn check_letters(topic: &mut Checked<'_>, input_bytes: Option<usize>) {
    if topic.has_policy("compact") {
        let why = "of several letters with one key it keeps the last, and none without a key";
        topic.add(POLICY, "delete", Harm::Unusable, why);
    }
    let limit = topic.number(MAX_BYTES);
    let input_bytes = input_bytes.and_then(|bytes| i64::try_from(bytes).ok());
    if limit.is_some_and(|limit| limit < MIN_LETTER_BYTES) {
        topic.add(MAX_BYTES, "1048588", Harm::Unusable, "no dead letter fits");
    } else if let (Some(limit), Some(input)) = (limit, input_bytes)
        && limit < input
    {
        let why = "the letter of a larger record is cut, and cannot be replayed";
        topic.add(MAX_BYTES, input.to_string(), Harm::Risk, why);
    }
    for name in topic.limits_retention() {
        let why = "dead letters are deleted, by the age of their records or the size of the topic";
        topic.add(name, "-1", Harm::Loss, why);
    }
}

fn check_feed(topic: &mut Checked<'_>) {
    if topic.has_policy("compact") {
        topic.add(POLICY, "delete", Harm::Unusable, "of the events of a device it keeps the last");
    }
    if topic.number(MAX_BYTES).is_some_and(|limit| limit < MIN_EVENT_BYTES) {
        topic.add(MAX_BYTES, "1048588", Harm::Unusable, "no event fits");
    }
    if topic.settings.get(TIMESTAMPS).is_some_and(|kind| kind != "LogAppendTime") {
        let why = "brokers refuse the events of a machine whose clock is an hour ahead of theirs";
        topic.add(TIMESTAMPS, "LogAppendTime", Harm::Risk, why);
    }
    if topic.number(RETENTION_MS).is_some_and(|ms| (0..SHORT_RETENTION_MS).contains(&ms)) {
        let why = "a consumer that pauses for longer misses events";
        topic.add(RETENTION_MS, WEEK_MS, Harm::Risk, why);
    }
}

fn check_table(topic: &mut Checked<'_>) {
    let expires = topic.has_policy("delete") && topic.limits_retention().next().is_some();
    if expires || !topic.has_policy("compact") {
        topic.add(POLICY, "compact", Harm::Unusable, "trips that no longer change would expire");
    }
    if topic.number(MAX_BYTES).is_some_and(|limit| limit < MIN_EVENT_BYTES) {
        topic.add(MAX_BYTES, "1048588", Harm::Unusable, "no trip fits");
    }
    let week_ms: i64 = WEEK_MS.parse().expect("it is a number");
    if topic.number(TOMBSTONES_MS).is_some_and(|ms| ms < week_ms) {
        let why = "a reader that pauses for longer keeps trips that are gone";
        topic.add(TOMBSTONES_MS, WEEK_MS, Harm::Risk, why);
    }
    if topic.number(MAX_LAG_MS).is_some_and(|ms| ms > week_ms) {
        topic.add(MAX_LAG_MS, WEEK_MS, Harm::Risk, "erased trips may stay in it for as long");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> TopicSettings {
        let defaults = [
            (POLICY, "delete"),
            (RETENTION_MS, WEEK_MS),
            (RETENTION_BYTES, "-1"),
            (MAX_BYTES, "1048588"),
            (TIMESTAMPS, "CreateTime"),
            (TOMBSTONES_MS, "86400000"),
            (MAX_LAG_MS, "9223372036854775807"),
        ];
        let all = defaults.iter().chain(pairs);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn wrong(topic: &str, pairs: &[(&str, &str)]) -> Vec<(&'static str, Harm)> {
        let wrong = wrong_settings(topic, &settings(pairs), Some(1_048_588));
        wrong.into_iter().map(|wrong| (wrong.name, wrong.harm)).collect()
    }

    #[test]
    fn what_is_created_is_not_wrong() {
        for topic in ["s.dlq", "s.trips", "s.trips.table"] {
            assert_eq!(wrong(topic, initial(topic)), [], "{topic}");
            assert_eq!(wrong_settings(topic, &TopicSettings::new(), None), [], "{topic}");
            assert_ne!(wrong(topic, &[]), [], "{topic} with the defaults of brokers");
        }
    }

    #[test]
    fn dead_letters_are_not_to_be_deleted() {
        let forever = (RETENTION_MS, "-1");
        assert_eq!(wrong("s.dlq", &[]), [(RETENTION_MS, Harm::Loss)]);
        let sized = wrong("s.dlq", &[forever, (RETENTION_BYTES, "1000000")]);
        assert_eq!(sized, [(RETENTION_BYTES, Harm::Loss)]);
        for policy in ["compact", "compact,delete"] {
            let compacted = wrong("s.dlq", &[forever, (POLICY, policy)]);
            assert_eq!(compacted, [(POLICY, Harm::Unusable)], "{policy}");
        }
        let cut = wrong("s.dlq", &[forever, (MAX_BYTES, "20000")]);
        assert_eq!(cut, [(MAX_BYTES, Harm::Risk)]);
        let none = wrong("s.dlq", &[forever, (MAX_BYTES, "999")]);
        assert_eq!(none, [(MAX_BYTES, Harm::Unusable)]);
    }

    #[test]
    fn events_and_trips_have_other_policies() {
        let ours = (TIMESTAMPS, "LogAppendTime");
        assert_eq!(wrong("s.trips", &[]), [(TIMESTAMPS, Harm::Risk)]);
        assert_eq!(wrong("s.trips", &[ours, (POLICY, "compact")]), [(POLICY, Harm::Unusable)]);
        assert_eq!(
            wrong("s.trips", &[ours, (RETENTION_MS, "60000")]),
            [(RETENTION_MS, Harm::Risk)]
        );
        let table = "s.trips.table";
        let both = (POLICY, "compact,delete");
        let lags = [(TOMBSTONES_MS, WEEK_MS), (MAX_LAG_MS, WEEK_MS)];
        assert_eq!(wrong(table, &[both, lags[0], lags[1]]), [(POLICY, Harm::Unusable)]);
        assert_eq!(wrong(table, &[both, (RETENTION_MS, "-1"), lags[0], lags[1]]), []);
        let risks = [(TOMBSTONES_MS, Harm::Risk), (MAX_LAG_MS, Harm::Risk)];
        assert_eq!(wrong(table, &[(POLICY, "compact")]), risks);
    }

    #[test]
    fn the_commands_are_those_of_kafkas_tools() {
        assert_eq!(
            create_command("b:1", "s.dlq", 16),
            "kafka-topics.sh --bootstrap-server b:1 --create --topic s.dlq --partitions 16 \
             --config retention.ms=-1"
        );
        let wrong = wrong_settings("s.dlq", &settings(&[]), None);
        assert_eq!(
            wrong[0].correction("b:1", "s.dlq"),
            "kafka-configs.sh --bootstrap-server b:1 --alter --entity-type topics --entity-name \
             s.dlq --add-config retention.ms=-1"
        );
        assert!(wrong[0].problem().starts_with("has retention.ms=604800000: dead letters"));
    }
}
