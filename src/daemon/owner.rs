//! The owner of one partition.

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;

use super::measured::Measured;
use crate::epoch::{Epoch, Log, Versions};
use crate::kafka::consumer::Handed;
use crate::kafka::holding::Ended;
use crate::metrics;
use crate::processor::{Budget, Counts, Pace, Processor, RunError};
use crate::source::{Batch, Source, SourceError};
use crate::store::{Journal, StoreError, TripStore};

/// How the owner of a partition ended.
#[derive(Debug)]
pub struct Owned {
    /// What became of the samples that it was handed.
    pub counts: Counts,
    /// Why it could not go on.
    pub error: Option<StoreError>,
}

/// Whether an error is one of the data of a partition: the others can go on.
pub(super) fn is_of_a_partition(error: &StoreError) -> bool {
    matches!(error, StoreError::Malformed { .. } | StoreError::OtherPartition { .. })
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
struct Batches(mpsc::Receiver<Batch>);

impl Source for Batches {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        Ok(self.0.recv().await)
    }
}

/// Builds the trips of a partition until it is given back, or taken away.
pub(super) async fn own<S: TripStore + Journal>(
    store: S,
    handed: Handed,
    epochs: Vec<Epoch>,
    (pace, budget): (Pace, Arc<Budget>),
) -> Owned {
    let Handed { holding, batches } = handed;
    let store = Measured { store, holding: Arc::clone(&holding) };
    let partition = holding.partition();
    let counts = Mutex::new(Counts::default());
    let see = |seen: &Counts| {
        let mut counts = counts.lock().expect("no holder panics");
        metrics::publish(&counts, seen);
        counts.clone_from(seen);
    };
    let watch = |batch: &Batch, seen: &Counts| {
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
        let ran = processor.run(&mut Batches(batches), watch).await;
        see(processor.counts());
        match ran {
            Ok(()) => Ok(()),
            Err(RunError::Store(error)) => Err(error),
            Err(RunError::Source(_)) => unreachable!("a channel does not fail"),
        }
    };
    let ran = tokio::select! {
        biased;
        () = holding.called_off() => None,
        ran = work => Some(ran),
    };
    let ended = if matches!(ran, Some(Ok(()))) { Ended::Drained } else { Ended::BrokenOff };
    let error = ran.and_then(Result::err);
    if let Some(error) = error.as_ref().filter(|error| is_of_a_partition(error)) {
        holding.stop(in_full(error));
    }
    holding.end(ended);
    error.iter().for_each(metrics::failed);
    Owned { counts: counts.into_inner().expect("no holder panics"), error }
}
