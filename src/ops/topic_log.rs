//! The log of a store, at hand to be read again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::verify::Bounds;
use super::verify::compare::LogEnds;
use super::{InvalidRequest, Notify, PreconditionFailed};
use crate::kafka::client::Brokers;
use crate::kafka::group::Group;
use crate::kafka::journal::OutputTopics;
use crate::kafka::letter_limit::Limit;
use crate::kafka::producer::Producer;
use crate::kafka::topic::{OffsetRange, StartFrom, Topics};
use crate::model::control::ControlKeys;
use crate::model::epoch::Epoch;
use crate::pipeline::daemon::preflight;
use crate::pipeline::daemon::topic_replay::{
    TopicReplay, first_offsets, gone, recreated_in, versions_before,
};
use crate::store::{AnyStore, EpochStore, KeyStore, StoreError};

/// How the log of a store is reached.
#[derive(Clone)]
pub struct LogAccess {
    /// The store as messages name it.
    pub store: String,
    /// The brokers of the topic.
    pub brokers: Brokers,
    /// The consumer group that keeps the offsets of a store on servers.
    pub group: String,
    /// The operator's control keys.
    pub keys: ControlKeys,
    /// Receives what the client waits for.
    pub notify: Notify,
}

/// Why nothing can be done with the log of a store that has none.
pub fn no_epoch(store: &str) -> PreconditionFailed {
    PreconditionFailed(format!(
        "store `{store}` has no epoch, so no topic was read into it: `tstar run` reads one, `tstar \
         epoch import` makes it another store of a topic that was read"
    ))
}

/// What to say where no files are named, and the store has no epoch.
pub fn no_files(store: &AnyStore, name: &str) -> anyhow::Error {
    match store.is_of_topic() {
        Ok(true) => no_epoch(name).into(),
        Ok(false) => {
            let problem =
                format!("store `{name}` was built from files: name all that were imported");
            InvalidRequest(problem).into()
        }
        Err(error) => error.into(),
    }
}

/// A topic that a store was built from, and how far the store has it.
pub struct TopicLog {
    brokers: Brokers,
    topics: Arc<Topics>,
    /// Every epoch, oldest first.
    pub epochs: Vec<Epoch>,
    /// The offsets that each partition has.
    pub extents: Vec<OffsetRange>,
    /// Up to where the store is sure to have each partition.
    pub stored: Vec<i64>,
    /// Whether any of that is known: a group may never have committed.
    pub is_known: bool,
    /// The control keys that count.
    pub keys: ControlKeys,
    notify: Notify,
}

impl TopicLog {
    /// The log of a store; `None` where it has none, or files.
    ///
    /// # Errors
    /// Brokers do not answer, or the topic is not the one that the epochs were made for.
    pub async fn open(store: &AnyStore, access: &LogAccess) -> anyhow::Result<Option<Self>> {
        let epochs = store.epochs().await?;
        let Some(newest) = epochs.last() else { return Ok(None) };
        let brokers = access.brokers.clone();
        let topics = Arc::new(Topics::new(&brokers)?);
        let fit = preflight::inspect(&topics, &newest.topic).await?;
        if fit.partitions != newest.partitions {
            return Err(PreconditionFailed(format!(
                "topic `{}` has {} partitions, and had {} in epoch {}: stop all instances at lag \
                 0, then: tstar epoch new",
                newest.topic, fit.partitions, newest.partitions, newest.epoch
            ))
            .into());
        }
        let kept = committed_offsets(store, access, newest)?;
        let first = first_offsets(&epochs);
        let stored = (0..)
            .zip(&first)
            .map(|(partition, first)| kept.get(&partition).copied().unwrap_or(*first).max(*first));
        let stored = stored.collect::<Vec<_>>();
        let behind = (0..).zip(stored.iter().zip(&fit.extents));
        let mut behind = behind.filter(|(_, (stored, extent))| **stored > extent.next);
        if let Some((partition, (stored, extent))) = behind.next() {
            return Err(PreconditionFailed(format!(
                "partition {partition} of topic `{}` ends at offset {}, and store `{}` has read to \
                 {stored}: the topic lost records, or was made anew; stop all instances, then: \
                 tstar epoch new",
                newest.topic, extent.next, access.store
            ))
            .into());
        }
        let is_known = !kept.is_empty();
        // After the ends: a record before them is signed by a key that is named by now.
        let named = store.control_keys().await?;
        access.keys.agree_with(&named, &access.store).map_err(PreconditionFailed)?;
        let notify = Arc::clone(&access.notify);
        let (keys, extents) = (access.keys.that_count(&named), fit.extents);
        Ok(Some(Self { brokers, topics, epochs, extents, stored, is_known, keys, notify }))
    }

    /// Reads these offsets again.
    ///
    /// # Errors
    /// Records among them are gone.
    pub fn reread(
        &self,
        spans: Vec<Range<i64>>,
        device_id: Option<String>,
    ) -> anyhow::Result<TopicReplay> {
        if let Some((partition, lost)) = gone(&spans, &self.extents) {
            return Err(PreconditionFailed(format!(
                "records {} to {} of partition {partition} of topic `{}` are gone (its retention); \
                 without them other trips, and ids, would come out: keep the topic for as long as \
                 trips are to be built from it again",
                lost.start,
                lost.end - 1,
                self.topic()
            ))
            .into());
        }
        let (brokers, epochs, keys) =
            (self.brokers.clone(), self.epochs.clone(), self.keys.clone());
        Ok(TopicReplay { brokers, epochs, spans, device_id, keys })
    }

    /// Refuses a log that does not hold all that the store was built from.
    ///
    /// # Errors
    /// The topic was made anew: of the trips before nothing can be read again.
    pub fn is_whole(&self) -> Result<(), PreconditionFailed> {
        match recreated_in(&self.epochs) {
            None => Ok(()),
            Some(epoch) => Err(PreconditionFailed(format!(
                "topic `{}` was made anew before epoch {epoch}: the records of the epochs before \
                 are gone, and what they made cannot be told from what nobody made",
                self.topic()
            ))),
        }
    }

    /// Refuses a log whose devices moved between partitions: under one new epoch their records
    /// would have no order.
    ///
    /// # Errors
    /// Epochs have other numbers of partitions.
    pub fn has_one_partition_count(&self) -> Result<(), PreconditionFailed> {
        let count = self.extents.len();
        let is_other = |epoch: &&Epoch| usize::try_from(epoch.partitions) != Ok(count);
        match self.epochs.iter().find(is_other) {
            None => Ok(()),
            Some(epoch) => Err(PreconditionFailed(format!(
                "epoch {} has {} partitions, and topic `{}` has {count} now: devices moved, and \
                 read under one new epoch their records would have no order; send the records to a \
                 new topic in their order (tstar replay files), and read that",
                epoch.epoch,
                epoch.partitions,
                self.topic()
            ))),
        }
    }

    /// All that the store is sure to have.
    pub fn all_stored(&self) -> Vec<Range<i64>> {
        let pairs = first_offsets(&self.epochs).into_iter().zip(&self.stored);
        pairs.map(|(first, stored)| first..*stored).collect()
    }

    /// All that there is.
    pub fn all_there(&self) -> Vec<Range<i64>> {
        let pairs = first_offsets(&self.epochs).into_iter().zip(&self.extents);
        pairs.map(|(first, extent)| first..extent.next.max(first)).collect()
    }

    /// Where reading of each partition begins.
    ///
    /// # Errors
    /// No broker answers.
    pub fn offsets_from(&self, from: StartFrom) -> anyhow::Result<Vec<i64>> {
        let offsets = self.topics.offsets_from(self.topic(), from, &self.extents)?;
        Ok(offsets.into_values().collect())
    }

    /// Name of the topic.
    pub fn topic(&self) -> &str {
        &self.epochs.last().expect("there is an epoch").topic
    }

    /// Where changes go: nowhere, unless they are to be told once more. Dead letters were sent
    /// before.
    ///
    /// # Errors
    /// An option is unknown to the client.
    pub fn outputs(&self, announce: bool) -> anyhow::Result<Arc<OutputTopics>> {
        let producer = Producer::new(&self.brokers, Arc::clone(&self.notify))?;
        let input = self.topic().to_owned();
        let feed = announce.then(|| format!("{input}.trips"));
        let event_bytes = producer.max_bytes();
        let letter_limit = Limit { record: usize::MAX, content: event_bytes };
        Ok(Arc::new(OutputTopics {
            producer,
            input,
            feed,
            letters: None,
            event_bytes,
            letter_limit,
        }))
    }

    /// How brokers are reached.
    pub fn brokers(&self) -> &Brokers {
        &self.brokers
    }

    /// What may be newer than these spans: what somebody has stored meanwhile.
    pub fn bounds(&self, reread: &TopicReplay) -> Bounds {
        let ends: Vec<i64> = self.extents.iter().map(|extent| extent.next).collect();
        let limit = versions_before(&self.epochs, &ends);
        Bounds { last: reread.last_versions(), limit }
    }
}

impl LogEnds for TopicLog {
    async fn limit(&self) -> Result<Option<BTreeMap<i32, i64>>, StoreError> {
        let fit = preflight::inspect(&self.topics, self.topic()).await;
        let fit = fit.map_err(|error| StoreError::Failed {
            place: self.topic().to_owned(),
            doing: "asking how far the log goes",
            source: error.into(),
        })?;
        let ends: Vec<i64> = fit.extents.iter().map(|extent| extent.next).collect();
        Ok(Some(versions_before(&self.epochs, &ends)))
    }
}

/// Which topic a request is about.
#[derive(Clone, Copy, Debug)]
pub struct TopicRequest<'a> {
    /// The store as messages name it.
    pub store: &'a str,
    /// The topic; `None`: that of the newest epoch.
    pub topic: Option<&'a str>,
    /// The clock, ms since 1970.
    pub now_ms: i64,
}

/// The topic that a request is about, checked against the epochs of a store: one that nobody names
/// is that of the newest epoch.
///
/// # Errors
/// Brokers do not answer, or the topic is another one, or not as the epoch says.
pub async fn topic_of(
    store: &impl EpochStore,
    topics: &Arc<Topics>,
    newest: &Epoch,
    request: &TopicRequest<'_>,
) -> anyhow::Result<(String, Vec<OffsetRange>, Vec<Epoch>)> {
    let topic = request.topic.unwrap_or(&newest.topic).to_owned();
    let fit = preflight::inspect(topics, &topic).await?;
    let asked = preflight::EpochRequest {
        place: request.store,
        topic: &topic,
        rules: &newest.rules,
        partitioner: None,
        from: None,
        now_us: request.now_ms.saturating_mul(1000),
    };
    let epochs = preflight::epochs(store, topics, &fit, &asked).await?;
    Ok((topic, fit.extents, epochs))
}

/// The committed offset of each partition that has one.
///
/// # Errors
/// The store or the group cannot be read.
pub fn committed_offsets(
    store: &AnyStore,
    access: &LogAccess,
    newest: &Epoch,
) -> anyhow::Result<BTreeMap<i32, i64>> {
    match store.embedded() {
        Some(store) => {
            let of =
                |partition| anyhow::Ok(store.position_of(partition)?.map(|at| (partition, at)));
            (0..newest.partitions).filter_map(|at| of(at).transpose()).collect()
        }
        None => {
            let group = Group::new(&access.brokers, &access.group)?;
            Ok(group.committed(&newest.topic, newest.partitions)?)
        }
    }
}
