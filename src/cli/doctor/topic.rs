//! The log: brokers, topics, and how far they were read.

use std::sync::Arc;

use tstar::kafka::topic::Topics;
use tstar::model::epoch::Epoch;
use tstar::pipeline::daemon::preflight;
use tstar::settings::Settings;
use tstar::store::{AnyStore, KeyStore};

use super::CheckResult;
use crate::cli::epoch::earlier;
use crate::cli::keys;
use crate::cli::open;
use tstar::ops::topic_log;

/// A day, ms: what is kept for less is told of.
const SHORT_RETENTION_MS: i64 = 86_400_000;

/// Looks at the log of a store.
pub(super) async fn inspect(
    reader: &AnyStore,
    settings: &Settings,
    newest: &Epoch,
) -> Vec<CheckResult> {
    match try_to_look(reader, settings, newest).await {
        Ok(findings) => findings,
        Err(error) => vec![CheckResult::failed("brokers", &error)],
    }
}

async fn try_to_look(
    reader: &AnyStore,
    settings: &Settings,
    newest: &Epoch,
) -> anyhow::Result<Vec<CheckResult>> {
    let brokers = open::brokers(settings)?;
    let topics = Arc::new(Topics::new(&brokers)?);
    let fit = preflight::inspect(&topics, &newest.topic).await?;
    let mut findings = vec![CheckResult::ok("brokers", format!("`{}` answer", settings.brokers))];
    findings.push(if fit.partitions == newest.partitions {
        CheckResult::ok("epoch", format!("{} of topic `{}`", newest.epoch, newest.topic))
    } else {
        CheckResult::fail(
            "epoch",
            format!(
                "topic `{}` has {} partitions, and had {} in epoch {}",
                newest.topic, fit.partitions, newest.partitions, newest.epoch
            ),
            "stop all instances at lag 0, then: tstar epoch new",
        )
    });
    findings.push(match (earlier(newest), newest.partitioner) {
        (Some(note), _) => CheckResult::warn(
            "partitioner",
            note,
            "stop all instances at lag 0, then: tstar epoch new",
        ),
        (None, None) => CheckResult::ok("partitioner", "one partition needs none"),
        (None, Some(partitioner)) => CheckResult::ok("partitioner", partitioner.name()),
    });
    if reader.embedded().is_none() {
        // Those of a file are tables of it.
        findings.extend(outputs(&topics, newest)?);
    }
    findings.push(retention(&topics, newest).await?);
    findings.push(timestamps(&topics, newest).await?);
    findings.push(compression(&topics, newest).await?);
    findings.push(control_keys(reader, settings).await?);
    let kept = topic_log::committed_offsets(reader, &open::log_access(settings)?, newest)?;
    for (partition, extent) in (0..).zip(&fit.extents) {
        let first = newest.start_offsets.get(&partition).copied().unwrap_or(0);
        let at = kept.get(&partition).copied().unwrap_or(first);
        let of = format!("partition {partition}");
        findings.push(if at < extent.first {
            CheckResult::fail(
                "position",
                format!("{of}: records {at} to {} are gone unread", extent.first - 1),
                "tstar run --from earliest goes on behind them; keep records for longer",
            )
        } else if at > extent.next {
            CheckResult::fail(
                "position",
                format!("{of}: read to {at}, and the topic ends at {}", extent.next),
                "the topic lost records or was made anew: stop all instances, tstar epoch new",
            )
        } else {
            let (lag, left) = (extent.next - at, at - extent.first);
            CheckResult::ok(
                "position",
                format!("{of}: lag {lag}, {left} records before it are kept"),
            )
        });
    }
    Ok(findings)
}

/// Whose signatures count, and whether this machine could read the log.
async fn control_keys(reader: &AnyStore, settings: &Settings) -> anyhow::Result<CheckResult> {
    let named = reader.control_keys().await?;
    let list: Vec<_> =
        named.iter().map(|key| format!("`{}` ({})", key.name, key.fingerprint)).collect();
    let detail = match list.as_slice() {
        [] => "none: every control record of the log is a dead letter".to_owned(),
        list => list.join(", "),
    };
    Ok(match keys::read(settings)?.agree_with(&named, &settings.store) {
        Ok(()) => CheckResult::ok("control keys", detail),
        Err(problem) => CheckResult::warn("control keys", detail, problem),
    })
}

/// The topics that `run` writes to.
fn outputs(topics: &Topics, newest: &Epoch) -> anyhow::Result<Vec<CheckResult>> {
    let mut findings = Vec::new();
    for name in [format!("{}.trips", newest.topic), format!("{}.dlq", newest.topic)] {
        findings.push(match topics.partitions(&name)? {
            Some(count) => CheckResult::ok("outputs", format!("`{name}` has {count} partitions")),
            None => CheckResult::warn(
                "outputs",
                format!("there is no topic `{name}`"),
                "tstar run --create-topics makes it",
            ),
        });
    }
    Ok(findings)
}

async fn retention(topics: &Topics, newest: &Epoch) -> anyhow::Result<CheckResult> {
    let found = topics.setting(&newest.topic, "retention.ms").await?;
    let ms = found.as_deref().and_then(|text| text.parse::<i64>().ok());
    let fix = "retention.ms is how late a stopped `tstar run` may come back, and how far back \
               `tstar verify` and `rebuild` can go";
    Ok(match ms {
        Some(-1) => CheckResult::ok("retention", "records are kept for ever"),
        Some(ms) if ms < SHORT_RETENTION_MS => {
            CheckResult::warn("retention", format!("records are kept for {} s", ms / 1000), fix)
        }
        Some(ms) => {
            CheckResult::ok("retention", format!("records are kept for {} h", ms / 3_600_000))
        }
        None => CheckResult::warn("retention", "the brokers do not tell", fix),
    })
}

/// Whether a record may be larger than the topic takes: brokers count a batch as it came, packed.
async fn compression(topics: &Topics, newest: &Epoch) -> anyhow::Result<CheckResult> {
    let kind = topics.setting(&newest.topic, "compression.type").await?;
    if kind.as_deref() == Some("uncompressed") {
        return Ok(CheckResult::ok("compression", "brokers unpack each batch, and see its size"));
    }
    let topic = &newest.topic;
    let fix = format!(
        "a batch of some kilobytes may unpack to gigabytes of memory; where producers are not \
         trusted, let brokers unpack it: kafka-configs.sh --alter --entity-type topics \
         --entity-name {topic} --add-config compression.type=uncompressed"
    );
    Ok(CheckResult::warn("compression", "brokers count batches as producers pack them", fix))
}

/// Whose word `--max-future` rests on: that of the producer, or that of the brokers.
async fn timestamps(topics: &Topics, newest: &Epoch) -> anyhow::Result<CheckResult> {
    let kind = topics.setting(&newest.topic, "message.timestamp.type").await?;
    let topic = &newest.topic;
    let fix = format!(
        "--max-future trusts the timestamp of a record; let brokers set it: kafka-configs.sh \
         --alter --entity-type topics --entity-name {topic} \
         --add-config message.timestamp.type=LogAppendTime"
    );
    Ok(match kind.as_deref() {
        Some("LogAppendTime") => {
            CheckResult::ok("timestamps", "brokers set the time of each record")
        }
        Some("CreateTime") => {
            CheckResult::warn("timestamps", "producers set the time of each record", fix)
        }
        _ => CheckResult::warn("timestamps", "the brokers do not tell who sets them", fix),
    })
}
