//! The epochs of the log that a store belongs to: lists, exports, imports and begins them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BadData, NoResult, PreconditionFailed};
use crate::kafka::client::Brokers;
use crate::kafka::scan::Scan;
use crate::kafka::topic_names::{table_topic, table_transactional_id};
use crate::kafka::topics::{OffsetRange, Topics};
use crate::kafka::transactions::Transactions;
use crate::log::positions::{check_unread, committed_offsets, keeps_own, set_to_start};
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::rules::Rules;
use crate::pipeline::daemon::preflight::{self, TopicLayout};
use crate::settings::Settings;
use crate::store::schemas::{KeptSchema, all_schemas};
use crate::store::{Access, AnyStore, SideTables};

/// What decides about a log besides its records. Others parse it: names and order are fixed.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportedEpochs {
    epochs: Vec<Epoch>,
    control_keys: Vec<NamedKey>,
    /// What the registry first said of the ids of schemas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    schemas: Vec<KeptSchema>,
}

/// Every epoch of a store, oldest first, at least one; `name` is the store in messages.
///
/// # Errors
/// [`NoResult`] if there is none, or the store cannot be read.
pub async fn list(store: &AnyStore, name: &str) -> anyhow::Result<Vec<Epoch>> {
    let epochs = store.epochs().await?;
    if epochs.is_empty() {
        return Err(NoResult(format!("store `{name}` has no epoch: no topic was read")).into());
    }
    Ok(epochs)
}

/// The epochs, control keys and schemas of a store.
///
/// # Errors
/// Those of [`list`].
pub async fn export(store: &AnyStore, name: &str) -> anyhow::Result<ExportedEpochs> {
    let epochs = list(store, name).await?;
    let mut schemas = Vec::new();
    for epoch in &epochs {
        schemas.extend(all_schemas(store, epoch.epoch).await?);
    }
    Ok(ExportedEpochs { epochs, control_keys: store.control_keys().await?, schemas })
}

impl ExportedEpochs {
    /// Parses what [`export`] returned, as JSON; `origin` is its file in messages.
    ///
    /// # Errors
    /// It is something else, or holds no epoch.
    pub fn parse(json: &str, origin: &str) -> Result<Self, BadData> {
        let exported: Self = serde_json::from_str(json).map_err(|error| {
            BadData(format!("`{origin}` is not what `tstar epoch export` prints: {error}"))
        })?;
        if exported.epochs.is_empty() {
            return Err(BadData(format!("`{origin}` has no epoch")));
        }
        Ok(exported)
    }

    /// The rules of the newest epoch: a store that gets these epochs is opened by them.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.epochs.last().expect("there is an epoch").rules
    }

    /// Adds all of it to a store without epochs; returns their number.
    ///
    /// # Errors
    /// The store has epochs, or cannot be written.
    pub async fn import(&self, store: &AnyStore, name: &str) -> anyhow::Result<usize> {
        if !store.epochs().await?.is_empty() {
            let problem =
                format!("store `{name}` has epochs of its own; name a store that does not exist");
            return Err(PreconditionFailed(problem).into());
        }
        // Schemas and keys first: an epoch without them would ask the registry again, and no
        // control record would count.
        for schema in &self.schemas {
            store.add_schema(schema).await?;
        }
        for key in &self.control_keys {
            store.add_control_key(key).await?;
        }
        for epoch in &self.epochs {
            // Rows come by other ways than `run`, which would keep positions with them.
            store.add_epoch(&Epoch { keeps_positions: false, ..epoch.clone() }).await?;
        }
        Ok(self.epochs.len())
    }
}

/// Begins a new epoch of the topic as it is now.
///
/// # Errors
/// The store has no epoch or belongs to another topic, an instance runs, records are unread, or the
/// epoch would equal the newest one.
pub(crate) async fn begin_new(settings: &Settings) -> anyhow::Result<Epoch> {
    let (name, topic) = (&settings.store, &settings.topic);
    let newest = {
        let store = settings.reader().await?;
        list(&store, name).await?.pop().expect("there is one")
    };
    // The trips of the store were built from this topic, by these rules.
    preflight::check_origin(&newest, topic, &settings.rules_request(), name)?;
    let brokers = settings.brokers()?;
    let topics = Topics::new(&brokers)?;
    let partitions = topics.needed(topic)?;
    let (id, extents) = (topics.id(topic)?, topics.extents(topic, partitions)?);
    let layout = TopicLayout { id, partitions, extents };
    let store = settings.open(Access::WriteTopic(&newest.rules)).await?;
    check_unread(&store, settings).await?;
    let next = next_epoch(settings, &newest, &layout, &store).await?;
    if !keeps_own(&store) {
        fence_table_writers(&brokers, &topics, &newest)?;
    }
    if !store.add_epoch(&next).await? {
        let problem = "another instance has just made a new epoch".to_owned();
        return Err(PreconditionFailed(problem).into());
    }
    set_to_start(&store, settings, &next)?;
    Ok(next)
}

/// Keeps instances that are frozen from writing the table topic once they wake up: devices may get
/// owners with other transactional ids.
fn fence_table_writers(brokers: &Brokers, topics: &Topics, newest: &Epoch) -> anyhow::Result<()> {
    let table = table_topic(&newest.topic);
    if topics.partitions(&table)?.is_some() {
        for partition in 0..newest.partitions {
            Transactions::init(brokers, &table_transactional_id(&table, partition), None)?;
        }
    }
    Ok(())
}

/// The epoch that follows `newest`.
async fn next_epoch(
    settings: &Settings,
    newest: &Epoch,
    layout: &TopicLayout,
    store: &AnyStore,
) -> anyhow::Result<Epoch> {
    let positions = committed_offsets(store, settings, newest).await?;
    let is_same_topic = newest.check_topic_id(layout.id.as_deref()).is_ok();
    let positions = match is_same_topic {
        true => skip_markers(&settings.brokers()?, newest, layout, positions)?,
        false => positions,
    };
    let offsets = start_offsets(newest, layout, &positions)?;
    let partitioner = settings.partitioner.unwrap_or(newest.partitioner);
    let is_same = is_same_topic
        && newest.check_partition_count(layout.partitions).is_ok()
        && offsets == newest.start_offsets
        && newest.partitioner == partitioner;
    if is_same && !has_records(newest, &positions) {
        return Err(PreconditionFailed(format!(
            "epoch {} holds no record yet, and a new one of topic `{}` would begin at the same \
             offsets; continue with tstar run",
            newest.epoch, settings.topic
        ))
        .into());
    }
    let now_us = settings.now_ms.saturating_mul(1000);
    let decide = (&newest.rules, partitioner);
    Ok(preflight::next_epoch(newest, layout, offsets, now_us, decide)?)
}

/// How far a partition was read.
fn position_of(newest: &Epoch, positions: &BTreeMap<i32, i64>, partition: i32) -> i64 {
    positions.get(&partition).copied().unwrap_or_else(|| newest.start_of(partition))
}

/// Whether anything was read under an epoch.
fn has_records(newest: &Epoch, positions: &BTreeMap<i32, i64>) -> bool {
    positions.iter().any(|(partition, position)| *position > newest.start_of(*partition))
}

/// Moves positions past the markers that brokers write after the last record of a transaction: no
/// reader gets them, so that no committed offset gets there.
fn skip_markers(
    brokers: &Brokers,
    newest: &Epoch,
    layout: &TopicLayout,
    mut positions: BTreeMap<i32, i64>,
) -> anyhow::Result<BTreeMap<i32, i64>> {
    for (partition, extent) in (0..newest.partitions).zip(&layout.extents) {
        let first = position_of(newest, &positions, partition);
        let rest = vec![(partition, OffsetRange { first, ..*extent })];
        // Records that expired unread are not checked here.
        let is_behind = (extent.first..extent.next).contains(&first);
        if is_behind && Scan::new(brokers, &newest.topic, rest)?.next_record()?.is_none() {
            positions.insert(partition, extent.next);
        }
    }
    Ok(positions)
}

/// Start offsets of the new epoch: the positions that the old one was read to. A topic that was
/// recreated is read from its beginning.
fn start_offsets(
    newest: &Epoch,
    layout: &TopicLayout,
    positions: &BTreeMap<i32, i64>,
) -> anyhow::Result<BTreeMap<i32, i64>> {
    let position = |partition| position_of(newest, positions, partition);
    let extents = || (0..).zip(&layout.extents);
    let is_recreated = newest.check_topic_id(layout.id.as_deref()).is_err()
        || layout.partitions < newest.partitions
        || extents().any(|(partition, extent)| {
            partition < newest.partitions && position(partition) > extent.next
        });
    if is_recreated {
        return Ok(extents().map(|(partition, extent)| (partition, extent.first)).collect());
    }
    let behind = extents()
        .filter(|(partition, _)| *partition < newest.partitions)
        .map(|(partition, extent)| (partition, extent.next - position(partition)))
        .find(|(_, lag)| *lag > 0);
    if let Some((partition, lag)) = behind {
        return Err(PreconditionFailed(format!(
            "{lag} records of partition {partition} are not read yet; wait until `tstar run` has \
             lag 0, stop it, and try again"
        ))
        .into());
    }
    let start = |(partition, extent): (i32, &OffsetRange)| {
        let is_old = partition < newest.partitions;
        (partition, if is_old { extent.next } else { extent.first })
    };
    Ok(extents().map(start).collect())
}

#[cfg(test)]
mod tests {
    use crate::model::rules::Rules;

    use super::*;
    use crate::model::partitioner::Partitioner;
    use crate::model::scalar::Version;

    fn offsets(partitions: &[(i64, i64)], read: &[(i32, i64)]) -> Result<Vec<i64>, String> {
        let newest = Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: 2,
            start_offsets: BTreeMap::from([(0, 5), (1, 0)]),
            base: Version(1),
            rules: Rules::default(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: false,
        };
        let extents: Vec<_> =
            partitions.iter().map(|&(first, next)| OffsetRange { first, next }).collect();
        let partitions = i32::try_from(extents.len()).unwrap();
        let layout = TopicLayout { id: None, partitions, extents };
        let read = read.iter().copied().collect();
        let offsets = start_offsets(&newest, &layout, &read).map_err(|error| error.to_string())?;
        Ok(offsets.into_values().collect())
    }

    #[test]
    fn a_new_epoch_begins_where_the_old_one_was_read_to() {
        let grown = [(0, 70), (0, 90), (0, 3)];
        assert_eq!(offsets(&grown, &[(0, 70), (1, 90)]), Ok(vec![70, 90, 0]));
        let behind = offsets(&grown, &[(0, 70), (1, 80)]).unwrap_err();
        assert!(behind.contains("10 records of partition 1"), "{behind}");
        let unread = offsets(&grown, &[(1, 90)]).unwrap_err();
        assert!(unread.contains("65 records of partition 0"), "{unread}");
        assert_eq!(offsets(&[(0, 4), (2, 6)], &[(0, 70), (1, 90)]), Ok(vec![0, 2]), "recreated");
        assert_eq!(offsets(&[(0, 4)], &[]), Ok(vec![0]), "recreated with fewer partitions");
    }
}
