//! A topic that samples are sent to.

use std::sync::Arc;

use super::device_partition::PartitionFinder;
use super::topic_log::topic_of;
use crate::kafka::client::Brokers;
use crate::kafka::topics::{OffsetRange, Topics};
use crate::model::failure::{InvalidRequest, PreconditionFailed};
use crate::model::rules::Rules;
use crate::pipeline::daemon::preflight;
use crate::settings::Settings;
use crate::store::{AnyStore, SideTables};

/// The topic as it was when sending began.
pub(crate) struct TargetTopic<'a> {
    /// Its brokers.
    pub brokers: Brokers,
    /// Answers questions about topics.
    pub topics: Arc<Topics>,
    /// Its name.
    pub topic: String,
    /// Offset range of each partition.
    pub offsets: Vec<OffsetRange>,
    /// Rules that the log is read by.
    pub rules: Rules,
    /// Finds the partition of a device; `None`: keys determine partitions.
    pub finder: Option<PartitionFinder<'a>>,
}

impl<'a> TargetTopic<'a> {
    /// The log of a store, with the rules of its newest epoch. The partitions of devices are looked
    /// up in the store.
    ///
    /// # Errors
    /// Brokers do not respond, the topic is not that of the store, or the store has no epoch.
    pub(crate) async fn of_store(store: &'a AnyStore, settings: &Settings) -> anyhow::Result<Self> {
        let brokers = settings.brokers()?;
        let topics = Arc::new(Topics::new(&brokers)?);
        let epochs = store.epochs().await?;
        let newest = epochs.last().ok_or_else(|| {
            PreconditionFailed(format!(
                "store `{}` has no epoch: it was built from files, or is empty; `tstar run` \
                 creates an epoch, and `tstar ingest` imports files into a store of files",
                settings.store
            ))
        })?;
        let rules = newest.rules.clone();
        let (topic, offsets, epochs) = topic_of(store, &topics, newest, settings).await?;
        let finder = Some(PartitionFinder { store, epochs });
        Ok(Self { brokers, topics, topic, offsets, rules, finder })
    }

    /// The topic of the settings without a store: partitions follow from keys, which have to be
    /// device ids.
    ///
    /// # Errors
    /// Keys are not device ids, or brokers do not respond.
    pub(crate) async fn without_store(settings: &Settings) -> anyhow::Result<Self> {
        let rules = settings.rules_request().over(&Rules::default());
        let (brokers, topic) = (settings.brokers()?, settings.topic.clone());
        let topics = Arc::new(Topics::new(&brokers)?);
        if !rules.is_keyed_by_device() {
            let problem = "with --key any, only a store knows the partition of a device; name it \
                           with --store";
            return Err(InvalidRequest(problem.into()).into());
        }
        let offsets = preflight::inspect(&topics, &topic).await?.extents;
        Ok(Self { brokers, topics, topic, offsets, rules, finder: None })
    }
}
