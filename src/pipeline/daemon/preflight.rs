//! What is checked before anything is read: the topic, its epoch, where to begin.

use std::sync::Arc;

use super::{DaemonError, DaemonEvent, OnEvent};
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::consumer::{ConsumerEvent, ResumePoint, resume_point};
use crate::kafka::partitioning;
use crate::kafka::topic::{OffsetRange, StartFrom, Topics};
use crate::model::control::ControlKeys;
use crate::model::epoch::Epoch;
use crate::model::partitioner::Partitioner;
use crate::model::rules::Rules;
use crate::store::{EpochStore, KeyStore, StoreError};

/// A server refuses writes that are stamped further ahead, microseconds.
const MAX_AHEAD: i64 = 3 * 86_400_000_000;

/// A topic that is fit to be read.
pub struct TopicLayout {
    /// How many partitions it has.
    pub partitions: i32,
    /// The offsets that each has.
    pub extents: Vec<OffsetRange>,
}

/// Looks at the topic.
///
/// # Errors
/// No broker answers, there is no such topic, or it is not fit to be a log.
pub async fn inspect(topics: &Arc<Topics>, topic: &str) -> Result<TopicLayout, DaemonError> {
    let partitions = query_brokers(topics, topic, |topics, topic| topics.needed(topic)).await?;
    topics.check_retention(topic).await?;
    let extents =
        query_brokers(topics, topic, move |topics, topic| topics.extents(topic, partitions));
    Ok(TopicLayout { partitions, extents: extents.await? })
}

/// Asks brokers on a thread that may wait.
async fn query_brokers<T: Send + 'static>(
    topics: &Arc<Topics>,
    topic: &str,
    question: impl FnOnce(&Topics, &str) -> Result<T, KafkaError> + Send + 'static,
) -> Result<T, KafkaError> {
    let (topics, topic) = (Arc::clone(topics), topic.to_owned());
    let asked = tokio::task::spawn_blocking(move || question(&topics, &topic)).await;
    asked.unwrap_or(Err(KafkaError::Broken))
}

/// Finds the topics that are written to, or makes them.
///
/// # Errors
/// They are not there and may not be made, or brokers refuse to.
pub async fn outputs(
    topics: &Arc<Topics>,
    names: &[String],
    partitions: i32,
    create: bool,
) -> Result<(), DaemonError> {
    let mut missing = Vec::new();
    for name in names {
        if query_brokers(topics, name, |topics, name| topics.partitions(name)).await?.is_none() {
            missing.push(name.clone());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !create {
        let brokers = topics.addresses().to_owned();
        return Err(KafkaError::NoOutputs { brokers, topics: missing, partitions }.into());
    }
    Ok(topics.create(&missing, partitions).await?)
}

/// What a store is asked to be the store of.
pub struct EpochRequest<'a> {
    /// Where the store is, for messages.
    pub place: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The rules.
    pub rules: &'a Rules,
    /// How the partition of a device is decided, where that is asked for.
    pub partitioner: Option<Partitioner>,
    /// Where a first start begins.
    pub from: Option<StartFrom>,
    /// The clock, microseconds since 1970.
    pub now_us: i64,
}

/// The epochs of the log, the newest of which fits what is asked for. The first start makes the
/// first one.
///
/// # Errors
/// The store belongs to another topic, or the topic or the rules are not the epoch's.
pub async fn epochs(
    store: &impl EpochStore,
    topics: &Arc<Topics>,
    fit: &TopicLayout,
    asked: &EpochRequest<'_>,
) -> Result<Vec<Epoch>, DaemonError> {
    let mut epochs = store.epochs().await?;
    if epochs.is_empty() {
        let Some(from) = asked.from else {
            return Err(DaemonError::Precondition(format!(
                "store `{}` has not read topic `{}` before; say where to begin: --from earliest, \
                 --from latest, or --from TIME",
                asked.place, asked.topic
            )));
        };
        let first = first_epoch(topics, fit, asked, from).await?;
        // Another instance may be sooner: then its epoch is the one.
        store.add_epoch(&first).await?;
        epochs = store.epochs().await?;
    }
    let newest = epochs.last().expect("one was made").clone();
    check_layout(&newest, fit, asked)?;
    Ok(epochs)
}

/// Makes the control keys of a process count, and checks that it lacks none that does.
///
/// # Errors
/// The store names a key that the process lacks, or one of that name with another secret.
pub async fn control_keys(
    store: &impl KeyStore,
    keys: &ControlKeys,
    place: &str,
) -> Result<(), DaemonError> {
    let named = store.control_keys().await?;
    keys.agree_with(&named, place).map_err(DaemonError::Precondition)?;
    let mut is_changed = false;
    for key in keys.named().iter().filter(|key| !named.contains(key)) {
        store.add_control_key(key).await?;
        is_changed = true;
    }
    if is_changed {
        // Another instance may have been sooner, with other keys.
        let named = store.control_keys().await?;
        keys.agree_with(&named, place).map_err(DaemonError::Precondition)?;
    }
    Ok(())
}

async fn first_epoch(
    topics: &Arc<Topics>,
    fit: &TopicLayout,
    asked: &EpochRequest<'_>,
    from: StartFrom,
) -> Result<Epoch, DaemonError> {
    let extents = fit.extents.clone();
    let offsets = query_brokers(topics, asked.topic, move |topics, topic| {
        topics.offsets_from(topic, from, &extents)
    });
    let extents = fit.extents.clone();
    let partitioner = match asked.partitioner {
        Some(partitioner) => partitioner,
        None if asked.rules.key != "device_id" => Partitioner::None,
        None => {
            let find = move |topics: &Topics, topic: &str| {
                partitioning::found(topics.brokers(), topic, &extents)
            };
            query_brokers(topics, asked.topic, find).await?
        }
    };
    Ok(Epoch {
        epoch: 1,
        topic: asked.topic.to_owned(),
        partitions: fit.partitions,
        start_offsets: offsets.await?,
        base: asked.now_us,
        rules: asked.rules.clone(),
        partitioner: Some(partitioner),
    })
}

/// Where reading of each partition goes on, where no group keeps that.
///
/// # Errors
/// The topic is not the epoch's, records are gone, or no broker answers.
pub async fn positions(
    topics: &Arc<Topics>,
    fit: &TopicLayout,
    epoch: &Epoch,
    from: Option<StartFrom>,
    kept: impl Fn(i32) -> Result<Option<i64>, StoreError>,
    notify: &OnEvent,
) -> Result<Vec<i64>, DaemonError> {
    let mut positions = Vec::with_capacity(fit.extents.len());
    for (&extent, partition) in fit.extents.iter().zip(0..) {
        let position = match resume_point(epoch, from, partition, kept(partition)?, extent)? {
            ResumePoint::At(offset) => offset,
            ResumePoint::Gone { first, from } => {
                let extents = fit.extents.clone();
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

/// Whether an epoch of the store at `place` is of a topic read by these rules.
///
/// # Errors
/// [`StoreError::OtherLog`], [`StoreError::OtherRules`].
pub fn check_origin(
    epoch: &Epoch,
    topic: &str,
    rules: &Rules,
    place: &str,
) -> Result<(), StoreError> {
    let place = place.to_owned();
    if epoch.topic != topic {
        let found = format!("was built from topic `{}`", epoch.topic);
        return Err(StoreError::LogMismatch { place, found, asked: format!("topic `{topic}`") });
    }
    let differences = epoch.rules.differences(rules);
    if differences.is_empty() {
        return Ok(());
    }
    Err(StoreError::RulesMismatch { place, differences: differences.join("; ") })
}

/// Whether an epoch is that of a topic as it is now, read by these rules.
fn check_layout(
    epoch: &Epoch,
    fit: &TopicLayout,
    asked: &EpochRequest<'_>,
) -> Result<(), DaemonError> {
    check_origin(epoch, asked.topic, asked.rules, asked.place)?;
    if epoch.partitions != fit.partitions {
        let problem = format!(
            "has {} partitions, and had {} in epoch {}: devices moved between partitions; stop all \
             instances at lag 0, then: tstar epoch new",
            fit.partitions, epoch.partitions, epoch.epoch
        );
        return Err(KafkaError::TopicMismatch { topic: asked.topic.to_owned(), problem }.into());
    }
    if asked.partitioner.is_some_and(|asked| epoch.partitioner != Some(asked)) {
        let found = epoch.partitioner.map_or("none, from an earlier version", Partitioner::name);
        return Err(DaemonError::Precondition(format!(
            "epoch {} of store `{}` has the partitioner {found}: leave --partitioner out, or begin \
             an epoch that has another one: stop all instances at lag 0, then: tstar epoch new",
            epoch.epoch, asked.place
        )));
    }
    let newest = fit.extents.iter().map(|extent| extent.next).max().unwrap_or(0);
    if epoch.base + 2 * newest > asked.now_us + MAX_AHEAD {
        return Err(DaemonError::Precondition(format!(
            "epoch {} of store `{}` begins at {} us, ahead of this machine's clock: set the clock \
             right",
            epoch.epoch, asked.place, epoch.base
        )));
    }
    Ok(())
}

/// The epoch that follows the newest one.
///
/// # Errors
/// Its versions would not be above those before: the clock is behind.
pub fn next_epoch(
    newest: &Epoch,
    fit: &TopicLayout,
    start_offsets: std::collections::BTreeMap<i32, i64>,
    now_us: i64,
    (rules, partitioner): (&Rules, Partitioner),
) -> Result<Epoch, DaemonError> {
    // The versions of the epoch before end below twice the highest offset it may have had.
    let ends = newest.start_offsets.values().chain(start_offsets.values()).copied();
    let highest = ends.chain(fit.extents.iter().map(|extent| extent.next)).max().unwrap_or(0);
    let least = newest.base + 2 * highest + 1;
    if now_us <= least {
        return Err(DaemonError::Precondition(format!(
            "the clock says {now_us} us, the versions of epoch {} reach {least}: set the clock right",
            newest.epoch
        )));
    }
    Ok(Epoch {
        epoch: newest.epoch + 1,
        topic: newest.topic.clone(),
        partitions: fit.partitions,
        start_offsets,
        base: now_us,
        rules: rules.clone(),
        partitioner: Some(partitioner),
    })
}

/// The partitioner of the epoch that follows: the one that is asked for, else that of the one
/// before, else what the records of that one tell. Blocks.
///
/// # Errors
/// No broker answers.
pub fn next_partitioner(
    brokers: &Brokers,
    newest: &Epoch,
    fit: &TopicLayout,
    asked: Option<Partitioner>,
) -> Result<Partitioner, KafkaError> {
    match asked.or(newest.partitioner) {
        Some(partitioner) => Ok(partitioner),
        None if newest.rules.key != "device_id" => Ok(Partitioner::None),
        None => {
            // The oldest of them were sent when there were so many partitions.
            let before = usize::try_from(newest.partitions).unwrap_or(0).min(fit.extents.len());
            partitioning::found(brokers, &newest.topic, &fit.extents[..before])
        }
    }
}
