//! The owner of one partition.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::timed_store::TimedStore;
use crate::kafka::consumer::AssignedPartition;
use crate::kafka::partition_handle::WorkerExit;
use crate::model::epoch::{Epoch, Log, Versions};
use crate::pipeline::processor::{Budget, Processor, ProcessorConfig, RunError, SampleCounts};
use crate::source::{Batch, Entry, Source, SourceError};
use crate::store::{AskKeys, Journal, StoreError, TripStore};
use crate::telemetry;

/// How the owner of a partition ended.
#[derive(Debug)]
pub struct WorkerReport {
    /// What became of the samples that it was handed.
    pub counts: SampleCounts,
    /// Why it could not go on.
    pub error: Option<StoreError>,
}

/// Whether an error is one of the data of a partition: the others can go on.
pub(super) fn is_of_a_partition(error: &StoreError) -> bool {
    matches!(error, StoreError::Malformed { .. })
}

/// The error with its causes, on one line.
fn in_full(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The batches of a partition, until it is given back.
struct Batches {
    from: mpsc::Receiver<Batch>,
    partition: i32,
    ask_keys: Option<AskKeys>,
    /// One that came and was not returned yet.
    ahead: Option<Batch>,
    /// Why there are no more.
    failed: Option<StoreError>,
}

impl Source for Batches {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        if self.ahead.is_none() {
            self.ahead = self.from.recv().await;
        }
        if let Some(batch) = &self.ahead
            && let Err(error) = self.check_keys(batch).await
        {
            self.failed = Some(error);
            return Ok(None);
        }
        Ok(self.ahead.take())
    }
}

impl Batches {
    /// Refuses a control record that somebody who has its key would carry out: a key that was
    /// added since this process began.
    async fn check_keys(&self, batch: &Batch) -> Result<(), StoreError> {
        let unknown = |entry: &Entry| {
            let fault = entry.content.as_ref().err()?;
            Some((entry.offset, fault.unknown_key.clone()?))
        };
        let mut unknown = batch.entries.iter().filter_map(unknown).peekable();
        let Some(ask) = self.ask_keys.as_ref().filter(|_| unknown.peek().is_some()) else {
            return Ok(());
        };
        let named = ask().await?;
        match unknown.find(|(_, name)| named.iter().any(|key| key.name == *name)) {
            None => Ok(()),
            Some((offset, name)) => {
                Err(StoreError::LacksKey { partition: self.partition, offset, name })
            }
        }
    }
}

/// Builds the trips of a partition until it is given back, or taken away.
pub(super) async fn run_worker<S: TripStore + Journal>(
    store: S,
    handed: AssignedPartition,
    (epochs, ask_keys): (Vec<Epoch>, Option<AskKeys>),
    (pace, budget): (ProcessorConfig, Arc<Budget>),
) -> WorkerReport {
    let AssignedPartition { holding, batches } = handed;
    let store = TimedStore { store, holding: Arc::clone(&holding) };
    let partition = holding.partition();
    let mut batches = Batches { from: batches, partition, ask_keys, ahead: None, failed: None };
    let counts = Mutex::new(SampleCounts::default());
    let see = |seen: &SampleCounts| {
        let mut counts = counts.lock().expect("no holder panics");
        telemetry::publish(&counts, seen);
        counts.clone_from(seen);
    };
    let watch = |batch: &Batch, seen: &SampleCounts| {
        see(seen);
        if let Some(next) = batch.next_offset {
            let last = batch.entries.last();
            holding.progress().processed(next, last.map(|entry| entry.log_time_ms));
        }
    };
    let work = async {
        let rules = &epochs.last().expect("there is an epoch").rules;
        let log = Log { partition, versions: Versions::of_partition(&epochs, partition) };
        let processor = Processor::of_log(&store, log, rules, pace).await?;
        let mut processor = processor.sharing(budget);
        let ran = processor.run(&mut batches, watch).await;
        see(processor.counts());
        match ran {
            Ok(()) => batches.failed.map_or(Ok(()), Err),
            Err(RunError::Store(error)) => Err(error),
            Err(RunError::Source(_)) => unreachable!("a channel does not fail"),
        }
    };
    let ran = tokio::select! {
        biased;
        () = holding.cancelled() => None,
        ran = work => Some(ran),
    };
    let ended =
        if matches!(ran, Some(Ok(()))) { WorkerExit::Drained } else { WorkerExit::BrokenOff };
    let error = ran.and_then(Result::err);
    if let Some(error) = error.as_ref().filter(|error| is_of_a_partition(error)) {
        holding.stop(in_full(error));
    }
    holding.end(ended);
    error.iter().map(StoreError::kind).for_each(telemetry::failed);
    WorkerReport { counts: counts.into_inner().expect("no holder panics"), error }
}
