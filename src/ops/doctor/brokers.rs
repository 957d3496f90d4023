//! The log: brokers, topics, and how far they were read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::CheckResult;
use crate::kafka::topic_names::{dlq_topic, feed_topic, is_table_topic, table_topic};
use crate::kafka::topic_settings::{Harm, SHORT_RETENTION_MS, wrong_settings};
use crate::kafka::topics::{OffsetRange, Topics};
use crate::log::positions::{committed_offsets, keeps_own};
use crate::model::control::ControlKeys;
use crate::model::epoch::Epoch;
use crate::model::visible::shell_word;
use crate::pipeline::daemon::preflight::{self, TopicLayout};
use crate::settings::Settings;
use crate::store::{AnyStore, SideTables};

/// Checks the log of a store.
pub(super) async fn check(
    store: &AnyStore,
    newest: &Epoch,
    settings: &Settings,
) -> Vec<CheckResult> {
    match try_check(store, newest, settings).await {
        Ok(results) => results,
        Err(error) => vec![CheckResult::failed("brokers", &error)],
    }
}

async fn try_check(
    store: &AnyStore,
    newest: &Epoch,
    settings: &Settings,
) -> anyhow::Result<Vec<CheckResult>> {
    let (brokers, keys) = (settings.brokers()?, settings.control_keys()?);
    let topics = Arc::new(Topics::new(&brokers)?);
    let layout = preflight::inspect(&topics, &newest.topic).await?;
    let answers = format!("`{}` answer", brokers.addresses());
    let mut results = vec![CheckResult::ok("brokers", answers)];
    results.push(check_epoch(newest, &layout));
    results.push(partitioner(&topics, newest, &layout).await?);
    if !keeps_own(store) {
        results.extend(outputs(&topics, newest).await?);
    }
    let found = topics.settings(&newest.topic).await?;
    let setting = |name: &str| found.get(name).map(String::as_str);
    let no_settings = topics.no_settings(&newest.topic);
    results.push(retention(setting("retention.ms"), no_settings));
    results.push(timestamps(setting("message.timestamp.type"), newest));
    results.push(compression(setting("compression.type"), newest));
    results.push(control_keys(store, &keys, &settings.store).await?);
    let (result, group) = reader_group(store, &settings.member.group).await?;
    results.push(result);
    // The positions are those of the group that reads.
    let mut settings = settings.clone();
    settings.member.group = group;
    let committed = committed_offsets(store, &settings, newest).await?;
    results.extend(positions(newest, &layout, &committed));
    Ok(results)
}

fn check_epoch(newest: &Epoch, layout: &TopicLayout) -> CheckResult {
    let same_topic = newest.check_topic_id(layout.id.as_deref()).map_err(|it| it.to_string());
    let same_count =
        || newest.check_partition_count(layout.partitions).map_err(|it| it.to_string());
    match same_topic.and_then(|()| same_count()) {
        Ok(()) => CheckResult::ok("epoch", format!("{} of topic `{}`", newest.epoch, newest.topic)),
        Err(mismatch) => CheckResult::fail(
            "epoch",
            format!("topic `{}` {mismatch}", newest.topic),
            "stop all instances at lag 0, then: tstar epoch new",
        ),
    }
}

/// Which group reads the log, and whether it is the one of the settings.
async fn reader_group(store: &AnyStore, named: &str) -> anyhow::Result<(CheckResult, String)> {
    let result = |detail| CheckResult::ok("group", detail);
    Ok(match store.group().await? {
        None => (result("none has read the topic yet".to_owned()), named.to_owned()),
        Some(kept) if kept == named => (result(format!("`{kept}` reads the topic")), kept),
        Some(kept) => {
            let detail = format!("`{kept}` reads the topic, and the settings name `{named}`");
            let word = shell_word(&kept);
            let fix =
                format!("pass --group {word}; tstar run --group-change continues as another group");
            let result = match keeps_own(store) {
                true => CheckResult::warn("group", detail, fix),
                false => CheckResult::fail("group", detail, fix),
            };
            (result, kept)
        }
    })
}

/// How far each partition was read.
fn positions(
    newest: &Epoch,
    layout: &TopicLayout,
    committed: &BTreeMap<i32, i64>,
) -> Vec<CheckResult> {
    let check = |(partition, extent): (i32, &OffsetRange)| {
        let position = committed.get(&partition).copied();
        let position = position.unwrap_or_else(|| newest.start_of(partition));
        let name = format!("partition {partition}");
        if position < extent.first {
            CheckResult::fail(
                "position",
                format!("{name}: records {position} to {} expired unread", extent.first - 1),
                "tstar run --from earliest continues after them; keep records for longer",
            )
        } else if position > extent.next {
            CheckResult::fail(
                "position",
                format!("{name}: read to {position}, and the topic ends at {}", extent.next),
                "the topic lost records or was recreated: stop all instances, tstar epoch new",
            )
        } else {
            let (lag, kept) = (extent.next - position, position - extent.first);
            CheckResult::ok(
                "position",
                format!("{name}: lag {lag}, {kept} records before it are kept"),
            )
        }
    };
    (0..).zip(&layout.extents).map(check).collect()
}

/// Whose signatures count, and whether this machine could read the log.
async fn control_keys(
    store: &AnyStore,
    keys: &ControlKeys,
    store_name: &str,
) -> anyhow::Result<CheckResult> {
    let named = store.control_keys().await?;
    let list: Vec<_> =
        named.iter().map(|key| format!("`{}` ({})", key.name, key.fingerprint)).collect();
    let detail = match list.as_slice() {
        [] => "none: every control record of the log is a dead letter".to_owned(),
        list => list.join(", "),
    };
    Ok(match keys.agree_with(&named, store_name) {
        Ok(()) => CheckResult::ok("control keys", detail),
        Err(problem) => CheckResult::warn("control keys", detail, problem),
    })
}

/// Whether the producers still partition as the epoch says.
async fn partitioner(
    topics: &Arc<Topics>,
    newest: &Epoch,
    layout: &TopicLayout,
) -> anyhow::Result<CheckResult> {
    let used = newest.partitioner;
    if !newest.rules.is_keyed_by_device() {
        return Ok(CheckResult::ok("partitioner", preflight::partitioner_text(used, None)));
    }
    let of_epoch = |(partition, extent): (i32, &OffsetRange)| {
        let first = extent.first.max(newest.start_of(partition)).min(extent.next);
        OffsetRange { first, ..*extent }
    };
    let extents = (0..).zip(&layout.extents).map(of_epoch).collect();
    let shares = preflight::observe_keys(topics, &newest.topic, extents).await?.shares();
    let detail = preflight::partitioner_text(used, Some(shares));
    let is_followed = shares.iter().all(|share| share.partitioner != used || share.is_high());
    Ok(match is_followed {
        true => CheckResult::ok("partitioner", detail),
        false => CheckResult::warn(
            "partitioner",
            detail,
            "make all producers use this partitioner; tstar dlq replay sends what lies elsewhere \
             to its partition",
        ),
    })
}

/// The topics that `run` writes to.
async fn outputs(topics: &Topics, newest: &Epoch) -> anyhow::Result<Vec<CheckResult>> {
    let mut results = Vec::new();
    let input_bytes = topics.max_bytes(&newest.topic).await?;
    let input = &newest.topic;
    for name in [feed_topic(input), dlq_topic(input), table_topic(input)] {
        let Some(count) = topics.partitions(&name)? else {
            // A table topic need not exist.
            if !is_table_topic(&name) {
                results.push(CheckResult::warn(
                    "outputs",
                    format!("there is no topic `{name}`"),
                    "tstar run --create-topics creates it",
                ));
            }
            continue;
        };
        let settings = topics.settings(&name).await?;
        if settings.is_empty() {
            let detail = format!("the settings of `{name}` are not checked");
            results.push(CheckResult::warn("outputs", detail, topics.no_settings(&name)));
            continue;
        }
        let wrong = wrong_settings(&name, &settings, input_bytes);
        if wrong.is_empty() {
            let detail = format!("`{name}` has {count} partitions");
            results.push(CheckResult::ok("outputs", detail));
        }
        results.extend(wrong.into_iter().map(|wrong| {
            let detail = format!("`{name}` {}", wrong.problem());
            let fix = wrong.correction(topics.addresses(), &name);
            match wrong.harm {
                Harm::Unusable | Harm::Loss => CheckResult::fail("outputs", detail, fix),
                Harm::Risk => CheckResult::warn("outputs", detail, fix),
            }
        }));
    }
    Ok(results)
}

/// How long the topic keeps records.
fn retention(ms: Option<&str>, no_settings: String) -> CheckResult {
    let ms = ms.and_then(|text| text.parse::<i64>().ok());
    let fix = "retention.ms is how late a stopped `tstar run` may come back, and how far back \
               `tstar verify` and `rebuild` can go";
    match ms {
        Some(-1) => CheckResult::ok("retention", "records are kept forever"),
        Some(ms) if ms < SHORT_RETENTION_MS => {
            CheckResult::warn("retention", format!("records are kept for {} s", ms / 1000), fix)
        }
        Some(ms) => {
            CheckResult::ok("retention", format!("records are kept for {} h", ms / 3_600_000))
        }
        None => CheckResult::warn("retention", "unknown: the brokers do not say", no_settings),
    }
}

/// Whether a record may exceed the limit of the topic: brokers measure batches compressed.
fn compression(kind: Option<&str>, newest: &Epoch) -> CheckResult {
    if kind == Some("uncompressed") {
        return CheckResult::ok("compression", "brokers unpack each batch, and see its size");
    }
    let topic = &newest.topic;
    let fix = format!(
        "a batch of some kilobytes may unpack to gigabytes of memory; where producers are not \
         trusted, let brokers unpack it: kafka-configs.sh --alter --entity-type topics \
         --entity-name {topic} --add-config compression.type=uncompressed"
    );
    CheckResult::warn("compression", "brokers count batches as producers pack them", fix)
}

/// Who sets the timestamps that `--max-future` relies on: producers or brokers.
fn timestamps(kind: Option<&str>, newest: &Epoch) -> CheckResult {
    let topic = &newest.topic;
    let fix = format!(
        "--max-future trusts the timestamp of a record; let brokers set it: kafka-configs.sh \
         --alter --entity-type topics --entity-name {topic} \
         --add-config message.timestamp.type=LogAppendTime"
    );
    match kind {
        Some("LogAppendTime") => {
            CheckResult::ok("timestamps", "brokers set the time of each record")
        }
        Some("CreateTime") => {
            CheckResult::warn("timestamps", "producers set the time of each record", fix)
        }
        _ => CheckResult::warn("timestamps", "the brokers do not say who sets them", fix),
    }
}
