//! A store of a topic: control records in that topic, which the daemon applies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{ForgetEvent, ForgetRecord, ForgetRequest, ForgetState, OnForgetEvent};
use crate::identity::DeviceId;
use crate::kafka::KafkaError;
use crate::kafka::control::{CONTROL_HEADER, SIGNATURE_HEADER};
use crate::kafka::producer::{Producer, ProducerRecord, RecordMetadata};
use crate::kafka::topics::Topics;
use crate::log::device_partition::{LocatedDevice, PartitionFinder};
use crate::log::topic_log::topic_of;
use crate::model::control::{Claim, ControlKey, ControlKeys};
use crate::model::epoch::{Epoch, Versions};
use crate::model::failure::{NoResult, PreconditionFailed};
use crate::model::scalar::{DeviceTime, Offset};
use crate::model::time::{format_duration, format_time};
use crate::settings::notify;
use crate::store::{
    AnyStore, DevicePages, DeviceScope, Kinds, Order, SideTables, StoreError, TripRow, TripStore,
};

/// Maximum concurrent lookups of partitions in the store.
const LOOKUPS: usize = 32;

/// Interval between two checks whether a record was applied.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Control records could not be sent. Those reported before are in the topic.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct SendFailed {
    /// What failed.
    pub error: KafkaError,
    /// Records that may or may not be in the topic.
    pub records: usize,
}

/// A checked request to a store of a topic.
pub struct TopicForget<'a> {
    request: &'a ForgetRequest<'a>,
    store: AnyStore,
    topic: String,
    epochs: Vec<Epoch>,
    key: ControlKey,
    producer: Producer,
    /// The device of the request; `None`: every device.
    device: Option<LocatedDevice>,
}

/// The key to sign with. The store has to name it: then every instance has the key, or stops where
/// it would have to decide without it.
async fn signing_key(
    store: &AnyStore,
    keys: &ControlKeys,
    store_name: &str,
) -> anyhow::Result<ControlKey> {
    let Some(key) = keys.signing() else {
        return Err(PreconditionFailed(
            "a topic takes control records with the operator's signature alone: make a key with \
             `tstar forget --new-key NAME >> FILE`, name the file with --control-key-file here and \
             for every `tstar run`, and restart those"
                .into(),
        )
        .into());
    };
    let (named, own) = (store.control_keys().await?, key.named());
    let same: Vec<_> = named.into_iter().filter(|named| named.name == own.name).collect();
    keys.agree_with(&same, store_name).map_err(PreconditionFailed)?;
    if same.is_empty() {
        let name = key.name();
        return Err(PreconditionFailed(format!(
            "store `{store_name}` does not name control key `{name}` yet, so no instance accepts \
             what it signs: add it to the control_key_file of every `tstar run`, restart those, \
             and try again (an older key signs if it comes first in the file)"
        ))
        .into());
    }
    Ok(key.clone())
}

impl<'a> TopicForget<'a> {
    /// Checks the topic, the control key and the partition of the device.
    pub(super) async fn prepare(
        request: &'a ForgetRequest<'a>,
        store: AnyStore,
        newest: &Epoch,
    ) -> anyhow::Result<Self> {
        let settings = request.settings;
        let (brokers, keys) = (settings.brokers()?, settings.control_keys()?);
        let topics = Arc::new(Topics::new(&brokers)?);
        let (topic, _, epochs) = topic_of(&store, &topics, newest, settings).await?;
        let key = signing_key(&store, &keys, &settings.store).await?;
        let producer = Producer::new(&brokers, notify())?;
        let mut plan = Self { request, store, topic, epochs, key, producer, device: None };
        if let Some(device) = &request.device {
            let finder = plan.finder();
            let located = finder.find(device.clone()).await?;
            if finder.is_unknown(&located) {
                return Err(PreconditionFailed(finder.unknown_reason(&located)).into());
            }
            plan.device = Some(located);
        }
        Ok(plan)
    }

    fn finder(&self) -> PartitionFinder<'_> {
        PartitionFinder { store: &self.store, epochs: self.epochs.clone() }
    }

    /// Name of the topic that gets the records.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Sends the control records. They are reported as soon as they are in the topic.
    ///
    /// # Errors
    /// [`SendFailed`], or the store cannot be read.
    pub async fn send(&self, on_event: OnForgetEvent<'_>) -> anyhow::Result<Vec<ForgetRecord>> {
        on_event(ForgetEvent::Begin)?;
        let Some(located) = &self.device else { return self.send_all(on_event).await };
        if !located.has_trip {
            on_event(ForgetEvent::Notice(&format!(
                "no trip of device `{}` is stored; the record is sent anyway, as samples may be on \
                 the way",
                located.device
            )))?;
        }
        self.send_records(vec![located.clone()], on_event).await
    }

    async fn send_all(&self, on_event: OnForgetEvent<'_>) -> anyhow::Result<Vec<ForgetRecord>> {
        let finder = self.finder();
        let (mut pages, mut sent) = (DevicePages::new(&self.store, DeviceScope::All), Vec::new());
        while let Some(devices) = pages.next().await? {
            let devices = stream::iter(devices).map(DeviceId::from_store);
            let located = devices.map(|device| finder.find(device));
            let located: Vec<LocatedDevice> = located.buffered(LOOKUPS).try_collect().await?;
            let (unknown, known): (Vec<_>, Vec<_>) =
                located.into_iter().partition(|located| finder.is_unknown(located));
            for located in unknown {
                let line = format!("skipped: {}", finder.unknown_reason(&located));
                on_event(ForgetEvent::Notice(&line))?;
            }
            sent.extend(self.send_records(known, on_event).await?);
            on_event(ForgetEvent::Devices(sent.len()))?;
        }
        Ok(sent)
    }

    async fn send_records(
        &self,
        devices: Vec<LocatedDevice>,
        on_event: OnForgetEvent<'_>,
    ) -> anyhow::Result<Vec<ForgetRecord>> {
        let records: Vec<_> = devices.iter().map(|it| self.control_record(it)).collect();
        let sent = self.producer.send(&self.topic, &records).await;
        let sent = sent.map_err(|error| SendFailed {
            error: self.producer.failed("sending control records", &self.topic)(error),
            records: records.len(),
        })?;
        let to_record = |(located, at): (LocatedDevice, RecordMetadata)| {
            let versions = Versions::of_partition(&self.epochs, at.partition);
            let version = at.offset.map(|offset| versions.version_at(Offset(offset)));
            let (partition, offset) = (at.partition, at.offset);
            ForgetRecord { device: located.device, partition, offset: offset.map(Offset), version }
        };
        let sent: Vec<_> = devices.into_iter().zip(sent).map(to_record).collect();
        on_event(ForgetEvent::Records { state: ForgetState::Requested, records: &sent })?;
        Ok(sent)
    }

    /// The signed record that erases the trips of a device.
    fn control_record(&self, located: &LocatedDevice) -> ProducerRecord {
        let (device, kind) = (located.device.as_bytes(), b"forget");
        let (topic, before_ms) = (&self.topic[..], self.request.before_ms);
        let signature = self.key.sign(&Claim { topic, device, kind, before_ms });
        let before = format_time(before_ms.ms());
        ProducerRecord {
            key: Some(device.to_vec()),
            value: serde_json::json!({ "before": before }).to_string().into_bytes(),
            headers: vec![
                (CONTROL_HEADER.to_owned(), Some(kind.to_vec())),
                (SIGNATURE_HEADER.to_owned(), Some(signature.into_bytes())),
            ],
            partition: located.partition,
            timestamp_ms: None,
        }
    }

    /// Waits until the daemon has applied all records, and reports each.
    ///
    /// # Errors
    /// [`NoResult`] after `timeout`, or the store cannot be read.
    pub async fn wait(
        &self,
        records: &[ForgetRecord],
        timeout: Duration,
        on_event: OnForgetEvent<'_>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        for (erased, record) in records.iter().enumerate() {
            while !self.is_applied(record).await? {
                if began.elapsed() >= timeout {
                    let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
                    return Err(NoResult(format!(
                        "{erased} of {} devices were erased within --wait-timeout, {}; the records \
                         are in topic `{}`, and `tstar run` carries out the others",
                        records.len(),
                        format_duration(timeout_ms),
                        self.topic
                    ))
                    .into());
                }
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
            let records = std::slice::from_ref(record);
            on_event(ForgetEvent::Records { state: ForgetState::Erased, records })?;
        }
        Ok(())
    }

    /// Whether the store lists the forget, or an earlier one that covers it, and its trips are
    /// erased; the daemon lists it first.
    async fn is_applied(&self, record: &ForgetRecord) -> Result<bool, StoreError> {
        let (device, before_ms) = (&record.device, self.request.before_ms);
        let forgets = self.store.forgets(device).await?;
        let is_listed = forgets.iter().any(|forget| match record.version {
            Some(version) if forget.version == version => true,
            Some(version) => forget.version < version && forget.before_ms >= before_ms,
            None => forget.before_ms >= before_ms,
        });
        if !is_listed {
            return Ok(false);
        }
        // Segments are disjoint: if the first one reaches past the time, none ended before it. What
        // later records left before it stays.
        let span = (DeviceTime::MIN, before_ms.saturating_sub(1));
        let first = self.store.range(device, Kinds::All, span.0, span.1, Order::Asc, 1).await?;
        let is_later = |row: &TripRow| record.version.is_some_and(|it| row.version > it);
        Ok(first.first().is_none_or(|row| row.end_ms >= before_ms || is_later(row)))
    }
}
