//! Replays spans of a topic, each record under the epoch that it was first read in.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Cancel, PartialResult};
use crate::identity::DeviceId;
use crate::kafka::client::Brokers;
use crate::kafka::consumer::{Assignment, ConsumerConfig, DrainResult, MemberSettings};
use crate::kafka::record::RecordReader;
use crate::model::control::ControlKeys;
use crate::model::epoch::{Epoch, by_epoch, versions_before};
use crate::model::scalar::Version;
use crate::pipeline::daemon::{DaemonError, OnEvent, Options, reader, run};
use crate::pipeline::processor::{ProcessorConfig, SampleCounts};
use crate::pipeline::schemas::{FindSchemas, KnownSchemas};
use crate::sink::{Outputs, RowTally, open_workers};
use crate::store::AnyStore;

/// Consumer group of replays. It has no members and no committed offsets.
const GROUP: &str = "tstar-reread";

/// A replay has no deadline to flush.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(86_400);

/// A topic, its epochs, and which of its records to read.
#[derive(Clone)]
pub struct TopicReplay {
    /// Broker addresses and options.
    pub brokers: Brokers,
    /// Every epoch of the log, oldest first.
    pub epochs: Vec<Epoch>,
    /// Offsets to read, by partition.
    pub spans: Vec<Range<i64>>,
    /// Reads only the records of this device; unset: all.
    pub device_id: Option<DeviceId>,
    /// The control keys whose signatures are accepted.
    pub keys: ControlKeys,
    /// The schemas that the store has.
    pub schemas: Arc<KnownSchemas>,
    /// Finds schemas.
    pub find_schemas: FindSchemas,
}

impl TopicReplay {
    /// The version of the last record of each span, by partition; of an empty span, the version
    /// before its start.
    #[must_use]
    pub(crate) fn last_versions(&self) -> BTreeMap<i32, Version> {
        let ends: Vec<i64> = self.spans.iter().map(|span| span.end).collect();
        versions_before(&self.epochs, &ends)
    }

    /// Writes the spans to `trips` and `outputs` epoch by epoch, each with its own rules: devices
    /// may move between partitions from one epoch to the next. `tally` counts the rows. A signal
    /// ends it with this state of the work.
    ///
    /// # Errors
    /// Records expired, the brokers or the store fail, a partition stopped, or a signal ended it.
    pub async fn run(
        &self,
        trips: AnyStore,
        (outputs, tally): (Outputs, Option<RowTally>),
        (pace, notify): (ProcessorConfig, OnEvent),
        (cancel, partial): (&Cancel, PartialResult),
    ) -> anyhow::Result<SampleCounts> {
        let open = open_workers(move || Arc::new(trips.for_worker()), outputs, tally);
        let mut signal = cancel.clone();
        let (mut stop, mut is_stopped) = (pin!(signal.wait()), false);
        let mut counts = SampleCounts::default();
        for (nth, spans) in by_epoch(&self.epochs, &self.spans) {
            let epoch = &self.epochs[nth];
            let plan = ConsumerConfig {
                brokers: self.brokers.clone(),
                topic: epoch.topic.clone(),
                member: MemberSettings {
                    revoke_timeout: FLUSH_TIMEOUT,
                    drain_timeout: FLUSH_TIMEOUT,
                    ..MemberSettings::new(GROUP)
                },
                assignment: Assignment::Spans(spans),
                epoch: epoch.clone(),
                memory: pace.memory / 4,
            };
            let epochs = self.epochs[..=nth].to_vec();
            let notify = notify.clone();
            // The keys were read after the ends of the spans, so they are complete.
            let find_schemas = Arc::clone(&self.find_schemas);
            let (ask_keys, live) = (None, Arc::default());
            let options = Options { plan, epochs, pace, notify, ask_keys, find_schemas, live };
            let reader = self.reader(epoch)?;
            let report = run(Arc::clone(&open), options, reader, &mut stop).await;
            let report = report.map_err(|error| add_delivered(counts.delivered, error))?;
            counts.add(&report.counts);
            // A daemon continues with the other partitions; a replay has to be complete.
            if let Some(error) = report.partition_error {
                return Err(DaemonError::from(error).into());
            }
            is_stopped = report.stopped;
            if report.drained != DrainResult::All || is_stopped {
                break;
            }
        }
        match cancel.stopped(partial) {
            Some(stopped) if is_stopped => Err(stopped.into()),
            _ => Ok(counts),
        }
    }

    /// A reader of an epoch's records with all schemas of the store, filtered by device.
    pub(crate) fn reader_with_schemas(&self, epoch: &Epoch) -> Result<RecordReader, DaemonError> {
        let reader = self.reader(epoch)?;
        self.schemas.add_to(&reader.decoder(), epoch.epoch);
        Ok(reader)
    }

    /// A reader of an epoch's records, filtered by device.
    fn reader(&self, epoch: &Epoch) -> Result<RecordReader, DaemonError> {
        let reader = reader(epoch, &self.keys)?;
        Ok(match &self.device_id {
            Some(device_id) => reader.of_device(device_id.clone()),
            None => reader,
        })
    }
}

/// Adds the samples of the epochs before to an error of the current one.
fn add_delivered(before: u64, error: DaemonError) -> DaemonError {
    match error {
        DaemonError::BrokeOff { delivered, away } => {
            DaemonError::BrokeOff { delivered: before + delivered, away }
        }
        error => error,
    }
}
