//! Preflight checks: topic, epoch, start offsets.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{DaemonError, DaemonEvent, OnEvent};
use crate::kafka::KafkaError;
use crate::kafka::consumer::{ConsumerEvent, ResumePoint, check_topic_id, resume_point};
use crate::kafka::partitioning;
use crate::kafka::topic_settings::{Harm, wrong_settings};
use crate::kafka::topics::{OffsetRange, StartFrom, Topics};
use crate::model::control::ControlKeys;
use crate::model::epoch::Epoch;
use crate::model::partitioner::{Finder, Partitioner, Share};
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::model::scalar::Version;
use crate::source::Decoder;
use crate::store::{AnyStore, SideTables as _, StoreError};

/// How far a version may lie ahead of the clock, microseconds: CQL servers refuse later write
/// timestamps.
const MAX_AHEAD: i64 = 3 * 86_400_000_000;

/// How long the brokers may take to learn of a topic that was created.
const CREATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which they are asked for it.
const CREATION_INTERVAL: Duration = Duration::from_millis(100);

/// Layout of a topic that is suitable as a log.
pub struct TopicLayout {
    /// Id of the topic; `None` if the brokers give none.
    pub id: Option<String>,
    /// Number of partitions.
    pub partitions: i32,
    /// Offset range of each partition.
    pub extents: Vec<OffsetRange>,
}

/// Reads the layout of a topic and checks its retention.
///
/// # Errors
/// No broker answers, the topic does not exist, or it is not suitable as a log.
pub async fn inspect(topics: &Arc<Topics>, topic: &str) -> Result<TopicLayout, DaemonError> {
    let partitions = query_brokers(topics, topic, |topics, topic| topics.needed(topic)).await?;
    topics.check_retention(topic).await?;
    let id = query_brokers(topics, topic, |topics, topic| topics.id(topic)).await?;
    let extents =
        query_brokers(topics, topic, move |topics, topic| topics.extents(topic, partitions));
    Ok(TopicLayout { id, partitions, extents: extents.await? })
}

/// Runs a blocking broker request on a blocking thread.
async fn query_brokers<T: Send + 'static>(
    topics: &Arc<Topics>,
    topic: &str,
    request: impl FnOnce(&Topics, &str) -> Result<T, KafkaError> + Send + 'static,
) -> Result<T, KafkaError> {
    let (topics, topic) = (Arc::clone(topics), topic.to_owned());
    let result = tokio::task::spawn_blocking(move || request(&topics, &topic)).await;
    result.unwrap_or(Err(KafkaError::Broken))
}

/// Checks that the output topics exist, or creates them. Returns those that existed.
///
/// # Errors
/// A topic does not exist and `create` is not set, or the brokers refuse to create it.
pub async fn outputs(
    topics: &Arc<Topics>,
    names: &[String],
    partitions: i32,
    create: bool,
) -> Result<Vec<String>, DaemonError> {
    let (mut existing, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let found = query_brokers(topics, name, |topics, name| topics.partitions(name)).await?;
        let same = if found.is_some() { &mut existing } else { &mut missing };
        same.push(name.clone());
    }
    if missing.is_empty() {
        return Ok(existing);
    }
    if !create {
        let brokers = topics.addresses().to_owned();
        return Err(KafkaError::NoOutputs { brokers, topics: missing, partitions }.into());
    }
    topics.create(&missing, partitions).await?;
    Ok(existing)
}

/// Checks the settings of the output topics of an input topic. `notify` gets those that lose
/// records, or may, and what the brokers do not report.
///
/// # Errors
/// A topic cannot be what it is for, or no broker answers.
pub(crate) async fn output_settings(
    topics: &Topics,
    names: &[String],
    input: &str,
    notify: &OnEvent,
) -> Result<(), DaemonError> {
    let input_bytes = topics.max_bytes(input).await?;
    if input_bytes.is_none() {
        notify(DaemonEvent::Warning(topics.no_settings(input)));
    }
    for topic in names {
        let settings = topics.settings(topic).await?;
        if settings.is_empty() {
            notify(DaemonEvent::Warning(topics.no_settings(topic)));
        }
        for wrong in wrong_settings(topic, &settings, input_bytes) {
            let correction = wrong.correction(topics.addresses(), topic);
            let problem = format!("{}; correct it: {correction}", wrong.problem());
            match wrong.harm {
                Harm::Unusable => {
                    let topic = topic.clone();
                    return Err(KafkaError::TopicMismatch { topic, problem }.into());
                }
                Harm::Loss | Harm::Risk => {
                    notify(DaemonEvent::Warning(format!("topic `{topic}` {problem}")));
                }
            }
        }
    }
    Ok(())
}

/// Checks that the table topic exists and has this number of partitions, or creates it. Returns its
/// name if it existed.
///
/// # Errors
/// It does not exist and `create` is not set, or it is not suitable.
pub async fn table(
    topics: &Arc<Topics>,
    name: &str,
    partitions: i32,
    create: bool,
) -> Result<Vec<String>, DaemonError> {
    let existing = outputs(topics, &[name.to_owned()], partitions, create).await?;
    // A broker may know a topic that another one has just created only some time later.
    let deadline = Instant::now() + CREATION_TIMEOUT;
    let found = loop {
        match query_brokers(topics, name, |topics, name| topics.needed(name)).await {
            Err(KafkaError::NoTopic { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(CREATION_INTERVAL).await;
            }
            found => break found?,
        }
    };
    if found != partitions {
        let (topic, expected) = (name.to_owned(), partitions);
        return Err(KafkaError::TablePartitions { topic, found, expected }.into());
    }
    Ok(existing)
}

/// What the newest epoch of a store must match.
pub struct EpochRequest<'a> {
    /// URL of the store, for messages.
    pub location: &'a str,
    /// Input topic.
    pub topic: &'a str,
    /// Rules that decide trips; those not given are the rules of the newest epoch.
    pub rules: &'a RulesRequest,
    /// Partitioner from the settings; unset: the epoch's, or detected for the first epoch.
    pub partitioner: Option<Partitioner>,
    /// Start offsets of the first run.
    pub from: Option<StartFrom>,
    /// The system clock, microseconds since 1970.
    pub now_us: i64,
}

/// Reads the epochs of the log and checks that the newest one matches the request. The first run
/// creates the first epoch. `notify` gets how its partitioner was found.
///
/// # Errors
/// The store belongs to another topic, or the topic or the rules do not match the newest epoch.
pub async fn epochs(
    store: &AnyStore,
    topics: &Arc<Topics>,
    layout: &TopicLayout,
    request: &EpochRequest<'_>,
    notify: &OnEvent,
) -> Result<Vec<Epoch>, DaemonError> {
    let (mut epochs, mut shares) = (store.epochs().await?, None);
    if epochs.is_empty() {
        let Some(from) = request.from else {
            return Err(DaemonError::Precondition(format!(
                "store `{}` has not read topic `{}` before; pass a start: --from earliest, \
                 --from latest, or --from TIME",
                request.location, request.topic
            )));
        };
        let (first, found) = first_epoch(topics, layout, request, from).await?;
        // If another instance inserted an epoch first, that one applies.
        shares = if store.add_epoch(&first).await? { found } else { None };
        epochs = store.epochs().await?;
    }
    let newest = epochs.last().expect("an epoch was added").clone();
    check_layout(&newest, layout, request)?;
    notify(DaemonEvent::Notice(partitioner_text(newest.division().partitioner(), shares)));
    Ok(epochs)
}

/// Registers the control keys of this process in the store, and checks that it has every registered
/// key.
///
/// # Errors
/// A registered key is missing in this process, or has another secret here.
pub async fn control_keys(
    store: &AnyStore,
    keys: &ControlKeys,
    location: &str,
) -> Result<(), DaemonError> {
    let named = store.control_keys().await?;
    keys.agree_with(&named, location).map_err(DaemonError::Precondition)?;
    let mut is_changed = false;
    for key in keys.named().iter().filter(|key| !named.contains(key)) {
        store.add_control_key(key).await?;
        is_changed = true;
    }
    if is_changed {
        // Another instance may have registered other keys first.
        let named = store.control_keys().await?;
        keys.agree_with(&named, location).map_err(DaemonError::Precondition)?;
    }
    Ok(())
}

/// Checks rules that an epoch is to be made with.
///
/// # Errors
/// Their field map cannot be used for a topic.
pub(crate) fn check_rules(rules: &Rules) -> Result<(), DaemonError> {
    let checked = Decoder::check_topic_rules(rules);
    checked.map_err(|error| DaemonError::Precondition(error.to_string()))
}

async fn first_epoch(
    topics: &Arc<Topics>,
    layout: &TopicLayout,
    request: &EpochRequest<'_>,
    from: StartFrom,
) -> Result<(Epoch, Option<[Share; 2]>), DaemonError> {
    let rules = request.rules.over(&Rules::default());
    check_rules(&rules)?;
    let extents = layout.extents.clone();
    let offsets = query_brokers(topics, request.topic, move |topics, topic| {
        topics.offsets_from(topic, from, &extents)
    });
    let extents = layout.extents.clone();
    let (partitioner, shares) = match request.partitioner {
        Some(partitioner) => (partitioner, None),
        None if !rules.is_keyed_by_device() => (Partitioner::None, None),
        None => {
            let finder = observe_keys(topics, request.topic, extents).await?;
            (finder.found(), Some(finder.shares()))
        }
    };
    let epoch = Epoch {
        epoch: 1,
        topic: request.topic.to_owned(),
        partitions: layout.partitions,
        start_offsets: offsets.await?,
        base: Version(request.now_us),
        rules,
        partitioner,
        topic_id: layout.id.clone(),
        keeps_positions: true,
    };
    Ok((epoch, shares))
}

/// Looks at the keys of the oldest records within these offset ranges.
///
/// # Errors
/// The topic may not be read, or no broker answers.
pub(crate) async fn observe_keys(
    topics: &Arc<Topics>,
    topic: &str,
    extents: Vec<OffsetRange>,
) -> Result<Finder, KafkaError> {
    let observe = move |topics: &Topics, topic: &str| {
        partitioning::observe(topics.brokers(), topic, &extents)
    };
    query_brokers(topics, topic, observe).await
}

/// The partitioner of an epoch, and what the oldest records show of it, if they were looked at.
#[must_use]
pub(crate) fn partitioner_text(used: Partitioner, shares: Option<[Share; 2]>) -> String {
    let how = match used {
        Partitioner::None => "the first record of a device claims its partition",
        _ => "a device has the partition of its id, and its records elsewhere are dead letters",
    };
    // Of the one that is used or, without one, of the closest.
    let rank = |share: &Share| (share.partitioner == used, share.following);
    let shown = shares.into_iter().flatten().max_by_key(rank).filter(|share| share.devices > 0);
    let share = shown.map_or_else(String::new, |share| format!("; {share}"));
    format!("partitioner {}: {how}{share}", used.name())
}

/// Start offset of each partition when no consumer group stores the committed offsets.
///
/// # Errors
/// The topic does not match the epoch, records expired, or no broker answers.
pub async fn positions(
    topics: &Arc<Topics>,
    layout: &TopicLayout,
    epoch: &Epoch,
    from: Option<StartFrom>,
    committed: impl Fn(i32) -> Result<Option<i64>, StoreError>,
    notify: &OnEvent,
) -> Result<Vec<i64>, DaemonError> {
    let mut positions = Vec::with_capacity(layout.extents.len());
    for (&extent, partition) in layout.extents.iter().zip(0..) {
        let position = match resume_point(epoch, from, partition, committed(partition)?, extent)? {
            ResumePoint::At(offset) => offset,
            ResumePoint::Gone { first, from } => {
                let extents = layout.extents.clone();
                let offsets = query_brokers(topics, &epoch.topic, move |topics, topic| {
                    topics.offsets_from(topic, from, &extents)
                });
                let next = offsets.await?[&partition];
                notify(DaemonEvent::Consumer(ConsumerEvent::Expired { partition, first, next }));
                next
            }
        };
        positions.push(position);
    }
    Ok(positions)
}

/// Checks that an epoch of the store at `location` belongs to this topic and has the rules given.
/// Returns its rules.
///
/// # Errors
/// [`StoreError::LogMismatch`], [`StoreError::RulesMismatch`].
pub(crate) fn check_origin(
    epoch: &Epoch,
    topic: &str,
    rules: &RulesRequest,
    location: &str,
) -> Result<Rules, StoreError> {
    let location = location.to_owned();
    if epoch.topic != topic {
        let found = format!("was built from topic `{}`", epoch.topic);
        return Err(StoreError::LogMismatch { location, found, asked: format!("topic `{topic}`") });
    }
    rules.resolve(Some(&epoch.rules)).map_err(|differences| StoreError::RulesMismatch {
        location,
        differences: differences.join("; "),
    })
}

/// Checks that an epoch matches the request and the layout of the topic.
fn check_layout(
    epoch: &Epoch,
    layout: &TopicLayout,
    request: &EpochRequest<'_>,
) -> Result<(), DaemonError> {
    check_origin(epoch, request.topic, request.rules, request.location)?;
    check_topic_id(epoch, layout.id.as_deref())?;
    if let Err(mismatch) = epoch.check_partition_count(layout.partitions) {
        let problem = format!(
            "{mismatch}: devices moved between partitions; stop all instances at lag 0, then: \
             tstar epoch new"
        );
        return Err(KafkaError::TopicMismatch { topic: request.topic.to_owned(), problem }.into());
    }
    if request.partitioner.is_some_and(|expected| epoch.partitioner != expected) {
        let found = epoch.partitioner.name();
        return Err(DaemonError::Precondition(format!(
            "epoch {} of store `{}` has the partitioner {found}: omit --partitioner, or start an \
             epoch with another one: stop all instances at lag 0, then: tstar epoch new",
            epoch.epoch, request.location
        )));
    }
    let newest = layout.extents.iter().map(|extent| extent.next).max().unwrap_or(0);
    if epoch.base + 2 * newest > Version(request.now_us + MAX_AHEAD) {
        return Err(DaemonError::Precondition(format!(
            "epoch {} of store `{}` begins at {} us, ahead of this machine's clock; correct the \
             clock",
            epoch.epoch, request.location, epoch.base
        )));
    }
    Ok(())
}

/// Builds the epoch that follows the newest one.
///
/// # Errors
/// The clock is behind: versions of the new epoch would not be above those of the newest one.
pub(crate) fn next_epoch(
    newest: &Epoch,
    layout: &TopicLayout,
    start_offsets: std::collections::BTreeMap<i32, i64>,
    now_us: i64,
    (rules, partitioner): (&Rules, Partitioner),
) -> Result<Epoch, DaemonError> {
    // The versions of the newest epoch end below its base plus twice its highest possible offset.
    let ends = newest.start_offsets.values().chain(start_offsets.values()).copied();
    let highest = ends.chain(layout.extents.iter().map(|extent| extent.next)).max().unwrap_or(0);
    let min = newest.base + 2 * highest + 1;
    if now_us <= min.get() {
        return Err(DaemonError::Precondition(format!(
            "the clock is at {now_us} us, and the versions of epoch {} reach {min}; correct the clock",
            newest.epoch
        )));
    }
    Ok(Epoch {
        epoch: newest.epoch + 1,
        topic: newest.topic.clone(),
        partitions: layout.partitions,
        start_offsets,
        base: Version(now_us),
        rules: rules.clone(),
        partitioner,
        topic_id: layout.id.clone(),
        keeps_positions: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_keeps_its_rules() {
        let epoch = Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: 2,
            start_offsets: [(0, 5)].into(),
            base: Version(1000),
            rules: Rules { max_gap_ms: 600_000, ..Rules::default() },
            partitioner: Partitioner::Murmur2,
            topic_id: None,
            keeps_positions: true,
        };
        let check = |request| check_origin(&epoch, "samples", &request, "t.db");
        assert_eq!(check(RulesRequest::default()).unwrap(), epoch.rules);
        let refused = check(Rules::default().into()).unwrap_err().to_string();
        assert!(refused.contains("max_gap: the store has 10m, requested 5m"), "{refused}");
    }
}
