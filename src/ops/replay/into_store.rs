//! Writes the records of a topic to a store again, or compares the store with them.

use std::sync::Arc;

use serde::Serialize;

use crate::identity::DeviceId;
use crate::kafka::topics::StartFrom;
use crate::log::reference::{Build, Workspace};
use crate::log::topic_log::TopicLog;
use crate::log::topic_replay::TopicReplay;
use crate::model::epoch::{first_offsets, versions_before};
use crate::model::scalar::Version;
use crate::ops::verify::Difference;
use crate::ops::verify::compare::compare;
use crate::ops::{Cancel, InvalidRequest, NoResult, PartialResult, PreconditionFailed};
use crate::pipeline::daemon::OnEvent;
use crate::pipeline::processor::ProcessorConfig;
use crate::settings::Settings;
use crate::sink::{RowCounts, RowTally};
use crate::store::{Access, AnyStore, DeviceScope, TripStore};

/// The first record to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayStart {
    /// This offset in each partition.
    Offset(i64),
    /// A position of the log.
    Log(StartFrom),
}

/// Counts of a replay. Scripts parse its JSON: names and order are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TopicReplayOutcome {
    /// Whether rows were written.
    pub applied: bool,
    /// Records that were read.
    pub records: u64,
    /// Rows that the records give.
    pub rows: u64,
    /// Rows that were missing in the store, or had other values there.
    pub rows_that_differ: u64,
}

/// A replay whose log and offsets passed their checks. Nothing is written yet.
pub(crate) struct TopicReplayJob {
    log: TopicLog,
    /// Only records of this device; `None`: all.
    device: Option<DeviceId>,
    /// Start offsets by partition.
    start_offsets: Vec<i64>,
}

impl TopicReplayJob {
    /// Opens the log of a store and finds the start offsets. The replay ends at the newest record
    /// of the topic.
    ///
    /// # Errors
    /// The store has no epoch, brokers do not respond, the topic is not that of the epochs, or it
    /// ends before the first record to replay.
    pub(crate) async fn open(
        store: &AnyStore,
        settings: &Settings,
        (from, device): (ReplayStart, Option<DeviceId>),
    ) -> anyhow::Result<Self> {
        let mut log = TopicLog::open(store, settings).await?;
        if store.devices(DeviceScope::All, None, 1).await?.is_empty() {
            // The committed offsets of a group do not apply to an empty store.
            log.stored = first_offsets(&log.epochs);
        }
        let start_offsets = start_offsets(&log, from)?;
        Ok(Self { log, device, start_offsets })
    }

    /// Counts the rows that [`TopicReplayJob::apply`] would write: builds a reference store from
    /// the whole log and compares the store with it.
    ///
    /// # Errors
    /// `Stopped`, [`NoResult`] for a device without records, records have expired, brokers do
    /// not respond, the store cannot be read, or the workspace cannot be written.
    pub(crate) async fn preview(
        &self,
        store: &Arc<AnyStore>,
        workspace: Workspace<'_>,
        on_event: OnEvent,
        cancel: &mut Cancel,
    ) -> anyhow::Result<TopicReplayOutcome> {
        self.log.check_whole()?;
        let partial = PartialResult::Nothing;
        let build = Build {
            found: store,
            device_id: self.device.as_ref(),
            workspace,
            progress: &mut (),
            on_event,
            cancel: (cancel, partial),
        };
        let reference = self
            .log
            .reference(self.log.spans_from(&first_offsets(&self.log.epochs)), build)
            .await?;
        let before = versions_before(&self.log.epochs, &self.start_offsets);
        let oldest = before.values().copied().min().unwrap_or(Version::MIN);
        let mut differing = 0;
        let count = |difference: &Difference, _: bool| {
            let is_written = difference.version.is_some_and(|version| version > oldest);
            differing += u64::from(is_written);
        };
        let records = reference.records;
        let compared = compare(reference, store, (self.device.as_deref(), false), count);
        let compared = cancel.unless_stopped(partial, compared).await??;
        self.checked(TopicReplayOutcome {
            applied: false,
            records,
            rows: compared.same + differing,
            rows_that_differ: differing,
        })
    }

    /// Writes the rows that the records give; `announce`: and sends the changes to the change feed
    /// again. A file must have no other writer.
    ///
    /// # Errors
    /// `Stopped`, [`NoResult`] for a device without records, records have expired or would be
    /// skipped, brokers do not respond, or the store cannot be written.
    pub(crate) async fn apply(
        &self,
        (settings, announce): (&Settings, bool),
        on_event: OnEvent,
        cancel: &Cancel,
    ) -> anyhow::Result<TopicReplayOutcome> {
        let replay = self.replay()?;
        let url = settings.url()?;
        if url.path().is_some() && self.device.is_some() {
            let problem = "--device with --apply needs a keyspace: a file has one position for all \
                 devices of a partition";
            return Err(InvalidRequest(problem.into()).into());
        }
        let rules = &self.log.epochs.last().expect("there is an epoch").rules;
        let mut options = settings.store_options()?;
        if !announce {
            options.keep_changes = 0;
        }
        let store = AnyStore::open(&url, Access::WriteTopic(rules), options).await?;
        let store = Arc::new(store);
        let outputs = self.log.outputs(&store, announce, None)?;
        let counts = Arc::<RowCounts>::default();
        let tally = RowTally { rows: Arc::clone(&store), counts: Arc::clone(&counts) };
        let config = (ProcessorConfig::daemon(settings), on_event);
        let (outputs, cancel) = ((outputs, Some(tally)), (cancel, PartialResult::Read));
        let read = replay.run(store.for_worker(), outputs, config, cancel).await?;
        self.checked(TopicReplayOutcome {
            applied: true,
            records: read.delivered,
            rows: counts.same() + counts.other(),
            rows_that_differ: counts.other(),
        })
    }

    /// The records to write. Fails if the store would miss records before them.
    fn replay(&self) -> anyhow::Result<TopicReplay> {
        let pairs = (0..).zip(self.start_offsets.iter().zip(&self.log.stored));
        let mut skipping = pairs.filter(|(_, (start, stored))| start > stored);
        if let Some((partition, (start, stored))) = skipping.next() {
            return Err(PreconditionFailed(format!(
                "the store has partition {partition} up to offset {stored}, and the replay would \
                 start at {start}: the records in between would be missing, and ids would differ; \
                 use --from earliest, or offset:{stored} or less"
            ))
            .into());
        }
        let spans = self.log.spans_from(&self.start_offsets);
        self.log.reread(spans, self.device.clone())
    }

    /// The outcome, unless the log has no record of the device.
    fn checked(&self, outcome: TopicReplayOutcome) -> anyhow::Result<TopicReplayOutcome> {
        match (&self.device, outcome.records) {
            (Some(device), 0) => {
                let reason = format!("the log has no sample of device `{device}` there");
                Err(NoResult(reason).into())
            }
            _ => Ok(outcome),
        }
    }
}

/// The first offset of each partition to replay.
fn start_offsets(log: &TopicLog, from: ReplayStart) -> anyhow::Result<Vec<i64>> {
    let first = first_offsets(&log.epochs);
    let requested: Vec<i64> = match from {
        ReplayStart::Log(StartFrom::Earliest) => first.clone(),
        ReplayStart::Offset(offset) => vec![offset; first.len()],
        ReplayStart::Log(from) => log.offsets_from(from)?,
    };
    let pairs = (0..).zip(requested.iter().zip(&log.extents));
    let mut beyond = pairs.filter(|(_, (requested, range))| **requested > range.next);
    if let (ReplayStart::Offset(offset), Some((partition, (_, range)))) = (from, beyond.next()) {
        return Err(PreconditionFailed(format!(
            "partition {partition} of topic `{}` ends at offset {}, before {offset}",
            log.topic(),
            range.next
        ))
        .into());
    }
    Ok(requested.into_iter().zip(first).map(|(requested, first)| requested.max(first)).collect())
}
