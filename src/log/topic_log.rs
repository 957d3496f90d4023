//! A log that is a topic.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::positions::committed_offsets;
use super::topic_replay::TopicReplay;
use super::{Bounds, Notify};
use crate::identity::DeviceId;
use crate::kafka::client::Brokers;
use crate::kafka::consumer::check_topic_id;
use crate::kafka::letter_record::Limit;
use crate::kafka::producer::Producer;
use crate::kafka::topic_names::feed_topic;
use crate::kafka::topics::{OffsetRange, StartFrom, Topics};
use crate::model::control::ControlKeys;
use crate::model::epoch::{
    Epoch, first_offsets, gone, recreated_in, versions_before, with_other_partition_count,
};
use crate::model::failure::PreconditionFailed;
use crate::model::rules_request::RulesRequest;
use crate::model::scalar::Version;
use crate::pipeline::daemon::{OnEvent, preflight};
use crate::pipeline::schemas::{KnownSchemas, find_known, known_schemas};
use crate::settings::{Settings, notify};
use crate::sink::{OutputTopics, Outputs};
use crate::store::{AnyStore, SideTables, StoreError};

/// The error of a store without an epoch, which has no log to read.
pub(crate) fn no_epoch(store: &str) -> PreconditionFailed {
    PreconditionFailed(format!(
        "store `{store}` has no epoch, so no topic was read into it: `tstar run` reads one, and \
         `tstar epoch import` copies the epochs of another store"
    ))
}

/// A topic that a store was built from, and the offsets that the store has.
pub struct TopicLog {
    brokers: Brokers,
    topics: Arc<Topics>,
    /// Every epoch, oldest first.
    pub epochs: Vec<Epoch>,
    /// Offset range of each partition.
    pub extents: Vec<OffsetRange>,
    /// Offset of each partition before which the store has every record.
    pub stored: Vec<i64>,
    /// Whether `stored` comes from committed offsets; a group may never have committed.
    is_known: bool,
    group: String,
    /// The control keys that count.
    pub keys: ControlKeys,
    /// The schemas that the store has.
    pub schemas: Arc<KnownSchemas>,
    notify: Notify,
}

impl TopicLog {
    /// Opens the log of a store.
    ///
    /// # Errors
    /// The store has no epoch, brokers do not respond, or the topic is not that of the epochs.
    pub async fn open(store: &AnyStore, settings: &Settings) -> anyhow::Result<Self> {
        let (brokers, keys) = (settings.brokers()?, settings.control_keys()?);
        let epochs = store.epochs().await?;
        let newest = epochs.last().ok_or_else(|| match store.embedded() {
            None => no_epoch(&settings.store),
            Some(_) => PreconditionFailed(format!(
                "store `{}` has no epoch: it was built from files, which `tstar ingest` reads \
                 again, or it is empty: tstar epoch import",
                settings.store
            )),
        })?;
        let topics = Arc::new(Topics::new(&brokers)?);
        let layout = preflight::inspect(&topics, &newest.topic).await?;
        check_topic_id(newest, layout.id.as_deref())?;
        newest.check_partition_count(layout.partitions).map_err(|mismatch| {
            PreconditionFailed(format!(
                "topic `{}` {mismatch}: stop all instances at lag 0, then: tstar epoch new",
                newest.topic
            ))
        })?;
        let committed = committed_offsets(store, settings, newest).await?;
        let first = first_offsets(&epochs);
        let stored: Vec<i64> = (0..)
            .zip(&first)
            .map(|(partition, &first)| committed.get(&partition).map_or(first, |&at| at.max(first)))
            .collect();
        let pairs = (0..).zip(stored.iter().zip(&layout.extents));
        let mut beyond = pairs.filter(|(_, (stored, range))| **stored > range.next);
        if let Some((partition, (stored, range))) = beyond.next() {
            return Err(PreconditionFailed(format!(
                "partition {partition} of topic `{}` ends at offset {}, and store `{}` has read to \
                 {stored}: the topic lost records, or was recreated; stop all instances, then: \
                 tstar epoch new",
                newest.topic, range.next, settings.store
            ))
            .into());
        }
        let is_known = !committed.is_empty();
        // Read after the end offsets, so that the keys and schemas of all records before them are
        // included.
        let schemas = Arc::new(known_schemas(store, &epochs).await?);
        let named = store.control_keys().await?;
        keys.agree_with(&named, &settings.store).map_err(PreconditionFailed)?;
        let (keys, extents) = (keys.that_count(&named), layout.extents);
        Ok(Self {
            brokers,
            topics,
            epochs,
            extents,
            stored,
            is_known,
            group: settings.member.group.clone(),
            keys,
            schemas,
            notify: notify(),
        })
    }

    /// A replay of these offsets.
    ///
    /// # Errors
    /// Records among them have expired.
    pub(crate) fn reread(
        &self,
        spans: Vec<Range<i64>>,
        device_id: Option<DeviceId>,
    ) -> anyhow::Result<TopicReplay> {
        if let Some((partition, lost)) =
            gone(&spans, self.extents.iter().map(|extent| extent.first))
        {
            return Err(PreconditionFailed(format!(
                "records {} to {} of partition {partition} of topic `{}` have expired (retention); \
                 without them, trips and ids would differ: keep the topic for as long as trips \
                 have to be rebuilt from it",
                lost.start,
                lost.end - 1,
                self.topic()
            ))
            .into());
        }
        let (brokers, epochs, keys) =
            (self.brokers.clone(), self.epochs.clone(), self.keys.clone());
        let schemas = Arc::clone(&self.schemas);
        let find_schemas = find_known(Arc::clone(&schemas));
        Ok(TopicReplay { brokers, epochs, spans, device_id, keys, schemas, find_schemas })
    }

    /// Checks that the topic may hold everything that the store was built from.
    ///
    /// # Errors
    /// The topic was recreated: the records of earlier epochs are lost.
    pub(crate) fn check_whole(&self) -> Result<(), PreconditionFailed> {
        match recreated_in(&self.epochs) {
            None => Ok(()),
            Some(epoch) => Err(PreconditionFailed(format!(
                "topic `{}` was recreated before epoch {epoch}: the records of earlier epochs are \
                 lost, so their trips cannot be rebuilt",
                self.topic()
            ))),
        }
    }

    /// Checks that it is known how far the store has read the topic.
    ///
    /// # Errors
    /// The group has committed no offset.
    pub(crate) fn check_committed(&self) -> Result<(), PreconditionFailed> {
        if self.is_known {
            return Ok(());
        }
        Err(PreconditionFailed(format!(
            "group `{}` has committed no offset of topic `{}`: pass with --group the group of \
             `tstar run`",
            self.group,
            self.topic()
        )))
    }

    /// Checks that no device moved between partitions: under one new epoch its records would have
    /// no order.
    ///
    /// # Errors
    /// The partition count differs between epochs.
    pub(crate) fn check_partition_count(&self) -> Result<(), PreconditionFailed> {
        let count = self.newest().partitions;
        match with_other_partition_count(&self.epochs, count) {
            None => Ok(()),
            Some(epoch) => Err(PreconditionFailed(format!(
                "epoch {} has {} partitions, and topic `{}` has {count} now: devices moved, so \
                 under one new epoch their records would have no order; send the records to a new \
                 topic in order (tstar replay files), and read that",
                epoch.epoch,
                epoch.partitions,
                self.topic()
            ))),
        }
    }

    /// The offsets of each partition that the store has.
    pub(crate) fn all_stored(&self) -> Vec<Range<i64>> {
        let pairs = first_offsets(&self.epochs).into_iter().zip(&self.stored);
        pairs.map(|(first, stored)| first..*stored).collect()
    }

    /// The start offset of each partition.
    ///
    /// # Errors
    /// No broker responds.
    pub(crate) fn offsets_from(&self, from: StartFrom) -> anyhow::Result<Vec<i64>> {
        let offsets = self.topics.offsets_from(self.topic(), from, &self.extents)?;
        Ok(offsets.into_values().collect())
    }

    /// The newest epoch.
    pub fn newest(&self) -> &Epoch {
        self.epochs.last().expect("there is an epoch")
    }

    /// Name of the topic.
    pub fn topic(&self) -> &str {
        &self.newest().topic
    }

    /// All offsets from these on, by partition.
    pub(crate) fn spans_from(&self, starts: &[i64]) -> Vec<Range<i64>> {
        let pairs = starts.iter().zip(&self.extents);
        pairs.map(|(&start, extent)| start..extent.next.max(start)).collect()
    }

    /// The outputs of a replay into a store, which keeps positions of the epoch given. Of a store
    /// on servers, change events are sent only with `announce`; dead letters never, as they were
    /// sent before.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn outputs(
        &self,
        store: &AnyStore,
        announce: bool,
        epoch: Option<Arc<Epoch>>,
    ) -> anyhow::Result<Outputs> {
        if let Some(file) = store.embedded() {
            return Ok(Outputs::File(Arc::clone(file)));
        }
        let producer = Producer::new(&self.brokers, Arc::clone(&self.notify))?;
        let (input, event_bytes) = (self.topic().to_owned(), producer.max_bytes());
        let topics = OutputTopics {
            feed: announce.then(|| feed_topic(&input)),
            letters: None,
            table: None,
            event_bytes,
            letter_limit: Limit { record: usize::MAX, content: event_bytes },
            producer,
            input,
        };
        Ok(Outputs::Topics(Arc::new(topics), epoch))
    }

    /// How to reach the brokers.
    pub fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    /// Bounds of the versions that a replay reads. Rows may be newer if a daemon runs meanwhile.
    pub fn bounds(&self, reread: &TopicReplay) -> Bounds<'_> {
        let ends: Vec<i64> = self.extents.iter().map(|extent| extent.next).collect();
        let limit = versions_before(&self.epochs, &ends);
        Bounds { last: reread.last_versions(), limit, log: Some(self) }
    }

    /// The version of the last record that each partition has now.
    pub(super) async fn last_versions(&self) -> Result<BTreeMap<i32, Version>, StoreError> {
        let layout = preflight::inspect(&self.topics, self.topic()).await;
        let layout = layout.map_err(|error| StoreError::Failed {
            location: self.topic().to_owned(),
            doing: "reading the end offsets of the log",
            source: error.into(),
        })?;
        let ends: Vec<i64> = layout.extents.iter().map(|extent| extent.next).collect();
        Ok(versions_before(&self.epochs, &ends))
    }
}

/// Finds the topic of the settings, else that of the newest epoch, and checks it against the epochs
/// of a store. Returns its name,
/// the offset range of each partition, and the epochs.
///
/// # Errors
/// Brokers do not respond, or the topic does not match the newest epoch.
pub(crate) async fn topic_of(
    store: &AnyStore,
    topics: &Arc<Topics>,
    newest: &Epoch,
    settings: &Settings,
) -> anyhow::Result<(String, Vec<OffsetRange>, Vec<Epoch>)> {
    let topic = settings.given_topic().unwrap_or(&newest.topic).to_owned();
    let layout = preflight::inspect(topics, &topic).await?;
    let epoch_request = preflight::EpochRequest {
        location: &settings.store,
        topic: &topic,
        rules: &RulesRequest::default(),
        partitioner: None,
        from: None,
        now_us: settings.now_ms.saturating_mul(1000),
    };
    // It has an epoch, so that none is made.
    let notify: OnEvent = Arc::new(drop);
    let epochs = preflight::epochs(store, topics, &layout, &epoch_request, &notify).await?;
    Ok((topic, layout.extents, epochs))
}
