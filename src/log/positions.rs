//! How far a log was read: a store in a file keeps that itself, as it keeps its change events and
//! dead letters; for a keyspace, a consumer group and the rows do.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::kafka::KafkaError;
use crate::kafka::group::Group;
use crate::model::epoch::Epoch;
use crate::model::failure::PreconditionFailed;
use crate::model::scalar::Offset;
use crate::model::visible::shell_word;
use crate::settings::Settings;
use crate::store::{AnyStore, EmbeddedStore, SideTables as _, TripStore as _};

/// How far a store in a file has read its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ReadPosition {
    /// A topic.
    Topic {
        /// Name of the topic.
        topic: String,
        /// The newest epoch.
        epoch: i32,
        /// The next offset of each partition.
        next_offsets: BTreeMap<i32, i64>,
    },
    /// Files.
    Files {
        /// Number of records.
        records: i64,
    },
}

impl ReadPosition {
    /// The position of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn of_store(store: &EmbeddedStore) -> anyhow::Result<Self> {
        if let Some(newest) = store.epochs().await?.pop() {
            let (topic, epoch) = (newest.topic, newest.epoch);
            return Ok(Self::Topic { topic, epoch, next_offsets: store.all_positions()? });
        }
        Ok(Self::Files { records: store.delivered()?.delivered.get() })
    }
}

/// Whether a store keeps its positions, change events and dead letters itself.
#[must_use]
pub(crate) fn keeps_own(store: &AnyStore) -> bool {
    store.embedded().is_some()
}

fn reader_group(settings: &Settings) -> Result<Group, KafkaError> {
    Group::new(&settings.brokers()?, &settings.member.group)
}

/// Checks that the group whose offsets count is the one that reads the log of a store.
///
/// # Errors
/// It is another one, or the store cannot be read.
pub(crate) async fn check_group(store: &AnyStore, settings: &Settings) -> anyhow::Result<()> {
    match store.group().await? {
        Some(kept) if kept != settings.member.group => Err(PreconditionFailed(format!(
            "store `{}` is read by consumer group `{kept}`, and the offsets of `{}` say nothing of \
             it: pass --group {}",
            settings.store,
            settings.member.group,
            shell_word(&kept)
        ))
        .into()),
        _ => Ok(()),
    }
}

/// The committed offset of each partition that has one.
///
/// # Errors
/// The store or the group cannot be read, or another group reads the log.
pub async fn committed_offsets(
    store: &AnyStore,
    settings: &Settings,
    newest: &Epoch,
) -> anyhow::Result<BTreeMap<i32, i64>> {
    let mut kept = store.positions(newest.epoch).await?.next_offsets;
    kept.retain(|partition, _| *partition < newest.partitions);
    if keeps_own(store) {
        return Ok(kept);
    }
    check_group(store, settings).await?;
    let group = reader_group(settings)?;
    let mut offsets = group.committed(&newest.topic, newest.partitions)?;
    for (partition, offset) in &mut offsets {
        // Rows that were restored may be behind what the group has committed.
        let position = newest.position(*partition, kept.get(partition).copied());
        *offset = position.map_or(*offset, |Offset(position)| position.min(*offset));
    }
    Ok(offsets)
}

/// Checks that no instance reads the log of a store that is open for writing. The lock of a file
/// shows that; those that write a keyspace are the members of its group.
///
/// # Errors
/// There are members, the group cannot be read, or another group reads the log.
pub(crate) async fn check_unread(store: &AnyStore, settings: &Settings) -> anyhow::Result<()> {
    if keeps_own(store) {
        return Ok(());
    }
    check_group(store, settings).await?;
    match reader_group(settings)?.members()? {
        0 => Ok(()),
        members => {
            let name = &settings.member.group;
            let problem = format!("group `{name}` has {members} members; stop all instances first");
            Err(PreconditionFailed(problem).into())
        }
    }
}

/// Sets the position of each partition to the start of an epoch.
///
/// # Errors
/// The store or the group cannot be written.
pub(crate) fn set_to_start(
    store: &AnyStore,
    settings: &Settings,
    epoch: &Epoch,
) -> anyhow::Result<()> {
    match store.embedded() {
        Some(store) => {
            let mut offsets = epoch.start_offsets.iter();
            offsets.try_for_each(|(&partition, &offset)| store.set_position(partition, offset))?;
        }
        None => reader_group(settings)?.set(&epoch.topic, &epoch.start_offsets)?,
    }
    Ok(())
}
