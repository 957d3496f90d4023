//! The worker of one partition.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;

use super::{DaemonEvent, Options};
use crate::kafka::consumer::{AssignedPartition, Assignment};
use crate::kafka::partition_handle::WorkerExit;
use crate::kafka::raw_batch::RawBatch;
use crate::kafka::record::RecordReader;
use crate::model::epoch::{LogPartition, Versions};
use crate::model::visible::with_causes;
use crate::pipeline::processor::{Budget, Processor, RunError, SampleCounts};
use crate::pipeline::rules_watch::{RulesWarning, SharedWatch};
use crate::pipeline::schemas::{FindSchemas, WantedSchemas};
use crate::sink::Sink;
use crate::source::{Batch, Entry, Source, SourceError};
use crate::store::{AskKeys, StoreError, TripStore};
use crate::telemetry;

/// Interval at which a worker that waits for a schema looks whether its partition is revoked.
const CLOSED_INTERVAL: Duration = Duration::from_millis(100);

/// How much longer a worker waits for a schema then: enough for a registry that answers.
const SCHEMA_GRACE: Duration = Duration::from_secs(2);

/// What the workers of a process share.
#[derive(Clone)]
pub struct WorkerShares {
    budget: Arc<Budget>,
    rules_watch: SharedWatch,
}

impl WorkerShares {
    /// For workers that use `memory` bytes together.
    #[must_use]
    pub fn new(memory: usize) -> Self {
        Self { budget: Budget::new(memory), rules_watch: SharedWatch::default() }
    }
}

/// Result of a partition worker.
#[derive(Debug)]
pub struct WorkerReport {
    /// Counters of the samples that it received.
    pub counts: SampleCounts,
    /// The error that stopped it.
    pub error: Option<StoreError>,
}

/// Whether an error is caused by the data of one partition, so that the other workers can continue.
pub(super) fn is_partition_error(error: &StoreError) -> bool {
    matches!(error, StoreError::Malformed(_))
}

/// The batches of a partition, until it is revoked.
struct Batches {
    receiver: mpsc::Receiver<RawBatch>,
    /// Its records that are not decoded yet, if any.
    raw: RawBatch,
    topic: Arc<str>,
    partition: i32,
    ask_keys: Option<AskKeys>,
    /// Whether the channel closes at the end of what is to be read.
    is_bounded: bool,
    /// Decodes the records, and those again whose schemas were not known.
    reader: RecordReader,
    /// Finds schemas; their epoch.
    find_schemas: (FindSchemas, i32),
    /// Decoded, but not returned yet: a dropped call of `next` must not lose a batch.
    pending: Option<Batch>,
    /// The error that ended the batches.
    failed: Option<StoreError>,
}

impl Source for Batches {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        while self.pending.is_none() {
            self.pending = self.raw.decode(&mut self.reader, &self.topic);
            if self.pending.is_none() {
                let Some(raw) = self.receiver.recv().await else { break };
                self.raw = raw;
            }
        }
        if let Some(batch) = &self.pending {
            let prepared = tokio::select! {
                biased;
                prepared = self.prepare(batch) => prepared,
                () = self.wait_until_revoked() => return Ok(None),
            };
            if let Err(error) = prepared {
                self.failed = Some(error);
                return Ok(None);
            }
        }
        let mut batch = self.pending.take();
        if let Some(batch) = batch.as_mut().filter(|batch| batch.needs_schema().is_some()) {
            self.reader.read_again(batch, self.partition);
        }
        Ok(batch)
    }
}

impl Batches {
    async fn prepare(&self, batch: &Batch) -> Result<(), StoreError> {
        self.check_keys(batch).await?;
        self.find_schemas(batch).await
    }

    /// Completes some time after the partition was revoked, or the daemon is to stop: records
    /// that wait for a registry are left to the next owner, which reads them again. A bounded read
    /// has no next owner.
    async fn wait_until_revoked(&self) {
        while self.is_bounded || !self.receiver.is_closed() {
            tokio::time::sleep(CLOSED_INTERVAL).await;
        }
        tokio::time::sleep(SCHEMA_GRACE).await;
    }

    /// Finds the schemas that the records of a batch need. Until then the partition waits.
    async fn find_schemas(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut ids = BTreeMap::new();
        for entry in &batch.entries {
            if let Some(id) = entry.needs_schema() {
                // In the order of their offsets.
                ids.insert(id, entry.offset);
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let (find, epoch) = (&self.find_schemas.0, self.find_schemas.1);
        find(WantedSchemas {
            epoch,
            partition: self.partition,
            ids,
            decoder: self.reader.decoder(),
        })
        .await
    }

    /// Fails on a control record signed with a key that this process lacks and that was registered
    /// since it started: other instances would execute the record.
    async fn check_keys(&self, batch: &Batch) -> Result<(), StoreError> {
        let unknown = |entry: &Entry| {
            let fault = entry.content.as_ref().err()?.error()?;
            Some((entry.offset, fault.unknown_key.clone()?))
        };
        let mut unknown = batch.entries.iter().filter_map(unknown).peekable();
        let Some(ask_keys) = self.ask_keys.as_ref().filter(|_| unknown.peek().is_some()) else {
            return Ok(());
        };
        let registered = ask_keys().await?;
        match unknown.find(|(_, name)| registered.iter().any(|key| key.name == *name)) {
            None => Ok(()),
            Some((offset, name)) => {
                Err(StoreError::LacksKey { partition: self.partition, offset, name })
            }
        }
    }
}

/// Builds the trips of a partition until it is revoked or lost.
pub async fn run_worker<T: TripStore, S: Sink>(
    (trips, sink): (Arc<T>, S),
    assigned: AssignedPartition,
    (reader, options): (RecordReader, Options),
    shared: WorkerShares,
) -> WorkerReport {
    let AssignedPartition { holding: handle, batches } = assigned;
    let Options { plan, epochs, notify, ask_keys, find_schemas, pace, live } = options;
    let is_bounded = matches!(plan.assignment, Assignment::Spans(_));
    let newest = epochs.last().expect("there is an epoch");
    let find_schemas = (find_schemas, newest.epoch);
    let partition = handle.partition();
    let mut batches = Batches {
        receiver: batches,
        raw: RawBatch::of_partition(partition),
        topic: plan.topic.as_str().into(),
        partition,
        ask_keys,
        is_bounded,
        reader,
        find_schemas,
        pending: None,
        failed: None,
    };
    let (_listed, questions) = live.list(partition, newest.division());
    let counts = Mutex::new(SampleCounts::default());
    let publish = |current: &SampleCounts| {
        let mut counts = counts.lock().expect("no holder panics");
        telemetry::publish(&counts, current);
        counts.clone_from(current);
    };
    let on_batch = |batch: &Batch, current: &SampleCounts| {
        publish(current);
        // Whoever reads a log again has chosen the rules.
        if !is_bounded {
            let notify = Arc::clone(&notify);
            let warn = move |unlike: RulesWarning| notify(DaemonEvent::Rules(unlike.message));
            shared.rules_watch.observe(&newest.rules, batch, warn);
        }
        if let Some(next) = batch.next_offset {
            let last = batch.entries.last();
            handle.progress().processed(next, last.map(|entry| entry.log_time_ms));
        }
    };
    let work = async {
        let rules = &newest.rules;
        let log = LogPartition { partition, versions: Versions::of_partition(&epochs, partition) };
        let processor = Processor::of_log((&*trips, &sink), log, rules, pace).await?;
        let mut processor = processor.sharing(shared.budget).answering(questions);
        let result = processor.run(&mut batches, on_batch).await;
        publish(processor.counts());
        match result {
            Ok(()) => batches.failed.map_or(Ok(()), Err),
            Err(RunError::Store(error)) => Err(error),
            Err(RunError::Source(_)) => unreachable!("a channel does not fail"),
        }
    };
    let result = tokio::select! {
        biased;
        () = handle.cancelled() => None,
        result = work => Some(result),
    };
    let exit =
        if matches!(result, Some(Ok(()))) { WorkerExit::Drained } else { WorkerExit::BrokenOff };
    let error = result.and_then(Result::err);
    if let Some(error) = error.as_ref().filter(|error| is_partition_error(error)) {
        handle.stop(with_causes(error));
    }
    handle.end(exit);
    error.iter().map(StoreError::kind).for_each(telemetry::failed);
    WorkerReport { counts: counts.into_inner().expect("no holder panics"), error }
}
