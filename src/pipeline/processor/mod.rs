//! Builds trips from a source and writes them to a store.
//!
//! One loop owns the timelines. It takes a batch from the source, loads the trips that the batch's
//! records need, absorbs the samples into the timelines, and writes all changes to the store in one
//! flush when it is due. Nothing is acknowledged before it is durable (I6).
//!
//! Invariant: a record is absorbed whole. Its loads come before its first sample, and no flush
//! splits it, so every row ever written is a trip as it was after some whole record.
//!
//! | module | content |
//! |---|---|
//! | `resident` | the devices in memory: weights, dirty devices, eviction |
//! | `device_name` | device ids as keys of the devices in memory |
//! | `memory_budget` | the memory limit that several processors share |
//! | `spill` | samples on disk while the active devices do not fit into memory |
//! | `classify` | classifies entries without the trips of their devices |
//! | `record` | absorbs a record: classify, load, apply, count |
//! | `ready` | decides records that need no load together, device by device |
//! | `load` | loads the stored trips of devices |
//! | `device_partition` | rejects the samples of another partition's devices |
//! | `letters` | dead letters |
//! | `control` | control records |
//! | `questions` | answers questions about the trips in memory |
//! | `limited` | counts the trips that a limit stopped from growing |
//! | `schedule` | the flush policy: when a flush is due |
//! | `flush` | flushes, and the position that they commit |

mod classify;
mod config;
mod control;
mod device_name;
mod device_partition;
#[cfg(test)]
mod fixture;
mod flush;
mod letters;
mod limited;
mod load;
mod memory_budget;
mod questions;
mod ready;
mod record;
mod resident;
mod schedule;
mod spill;

use std::sync::Arc;

use ::metrics::{Histogram, histogram};
use tokio::sync::mpsc;
use tokio::time::timeout_at;

pub(crate) use classify::wrong_clock;
pub use config::{FlushSettings, ProcessorConfig};
pub(crate) use limited::LimitedTrips;
pub use memory_budget::Budget;
pub use questions::Question;
pub(crate) use record::EntryOutcome;

use classify::Classifier;
use letters::PendingLetters;
use resident::ResidentDevices;
use schedule::FlushSchedule;
use spill::Spiller;

use crate::model::epoch::LogPartition;
use crate::model::input_part::Part;
use crate::model::rules::Rules;
use crate::model::scalar::Offset;
use crate::segment::SegmentRules;
use crate::sink::Sink;
use crate::source::spill::Spill;
use crate::source::{Batch, Source, SourceError};
use crate::store::{DeviceScope, Position, Result, StoreError, TripStore};
use crate::telemetry::SAMPLE_DELAY;
pub(crate) use crate::telemetry::counts::ArrivalCounts;
pub use crate::telemetry::counts::{KeyChanges, SampleCounts};
use crate::timeline::LegFilter;

/// Why a run ended before the end of its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The source failed. Everything that it delivered is stored.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store failed. Changes that were not flushed are not stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Builds trips from the entries of one log and writes them to a store. `S` is the sink, which
/// is the store itself where it reads files.
pub struct Processor<'a, T, S = T> {
    trips: &'a T,
    sink: &'a S,
    log: LogPartition,
    config: ProcessorConfig,
    classifier: Classifier,
    rules: SegmentRules,
    legs: LegFilter,
    devices: ResidentDevices,
    /// Unset: samples are never spilled.
    spiller: Option<Spiller>,
    letters: PendingLetters,
    /// Input parts read since the last flush.
    parts: Vec<Part>,
    /// Offset after the last record absorbed.
    position: Position,
    /// Offset up to which everything is durable.
    acknowledged: Position,
    schedule: FlushSchedule,
    counts: SampleCounts,
    /// What became of the entries of the current batch, if that is traced.
    outcomes: Option<Vec<EntryOutcome>>,
    limited: LimitedTrips,
    /// Log timestamp minus device time of samples.
    delays: Histogram,
    unchanged_lines: control::UnchangedLines,
    /// Questions about the trips in memory; unset: there are none.
    questions: Option<mpsc::Receiver<Question>>,
}

impl<'a, S: TripStore + Sink> Processor<'a, S> {
    /// Creates a processor of files, whose store is its own sink. It resumes at the store's
    /// position.
    ///
    /// # Errors
    /// The position cannot be read from the store.
    pub async fn new(store: &'a S, rules: &Rules, config: ProcessorConfig) -> Result<Self> {
        Self::of_log((store, store), LogPartition::of_files(), rules, config).await
    }
}

impl<'a, T: TripStore, S: Sink> Processor<'a, T, S> {
    /// Creates a processor of a log that resumes at the sink's position. The sink writes to
    /// the store that the trips are read from.
    ///
    /// # Errors
    /// The position cannot be read from the sink.
    pub async fn of_log(
        (trips, sink): (&'a T, &'a S),
        log: LogPartition,
        rules: &Rules,
        config: ProcessorConfig,
    ) -> Result<Self> {
        let position = sink.position().await?;
        Ok(Self {
            trips,
            sink,
            log,
            config,
            classifier: Classifier::new(rules),
            rules: rules.segments(),
            legs: rules.legs(),
            devices: ResidentDevices::new(config.memory),
            spiller: None,
            letters: PendingLetters::default(),
            parts: Vec::new(),
            position,
            acknowledged: position,
            schedule: FlushSchedule::new(&config),
            counts: SampleCounts::default(),
            outcomes: None,
            limited: LimitedTrips::default(),
            delays: histogram!(SAMPLE_DELAY),
            unchanged_lines: control::UnchangedLines::default(),
            questions: None,
        })
    }

    /// Allows the processor to spill samples to disk if the active devices do not fit into memory.
    /// Only for a store without other writers: trips may be written as late as at the end, and an
    /// empty store is not read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn enable_spill(&mut self, spill: Spill) -> Result<()> {
        // A store whose trips were erased has a position above 0, so its forgets are still read.
        let is_empty = self.position.delivered == Offset(0)
            && self.trips.devices(DeviceScope::All, None, 1).await?.is_empty();
        self.devices.set_complete(is_empty);
        self.spiller = Some(Spiller::new(spill, &self.config));
        Ok(())
    }

    /// Uses a shared memory budget instead of [`ProcessorConfig::memory`].
    #[must_use]
    pub fn sharing(mut self, budget: Arc<Budget>) -> Self {
        self.devices.share_budget(budget);
        self
    }

    /// Offset of the next record.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// Position up to which everything is durable.
    #[must_use]
    #[cfg(feature = "internals")]
    pub fn acknowledged(&self) -> Position {
        self.acknowledged
    }

    /// Counters of the samples so far.
    #[must_use]
    pub fn counts(&self) -> &SampleCounts {
        &self.counts
    }

    /// The trips written so far that reached a limit.
    #[must_use]
    pub(crate) fn limited_trips(&self) -> &LimitedTrips {
        &self.limited
    }

    /// Absorbs the source to its end and flushes. Calls `watch` after each absorbed batch.
    ///
    /// # Errors
    /// The source or the store fails. What a failing source delivered before is still flushed.
    pub async fn run<Input: Source>(
        &mut self,
        source: &mut Input,
        mut watch: impl FnMut(&Batch, &SampleCounts),
    ) -> Result<(), RunError> {
        let ended = loop {
            self.answer_waiting();
            let next = match self.next_flush() {
                None => self.while_answering(source.next()).await,
                Some(due) => match self.while_answering(timeout_at(due, source.next())).await {
                    Ok(next) => next,
                    // The source is silent, and the delay of pending changes has passed.
                    Err(_) => {
                        self.flush_due().await?;
                        continue;
                    }
                },
            };
            match next {
                Ok(Some(batch)) => {
                    self.absorb(&batch).await?;
                    watch(&batch, &self.counts);
                    self.stage_dead().await?;
                    if self.is_flush_due() {
                        self.flush_or_spill().await?;
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.flush().await?;
        Ok(ended?)
    }

    /// Absorbs a batch, record by record.
    ///
    /// # Errors
    /// The store cannot be read, or samples cannot be spilled.
    pub async fn absorb(&mut self, batch: &Batch) -> Result<()> {
        if self.is_spilling() && batch.control.is_some() {
            // Samples before the control record are absorbed before it is executed.
            self.flush().await?;
        }
        if batch.control.is_some() {
            // The entry of the batch is the control record itself, not a sample.
        } else if self.is_spilling() {
            self.spill_batch(batch)?;
        } else {
            self.absorb_records(batch).await?;
        }
        if let Some(last) = batch.entries.last() {
            // A file that is read again keeps the offsets of its first import.
            self.position.delivered = self.position.delivered.max(last.offset + 1);
        }
        if let Some(next) = batch.next_offset {
            self.position.delivered = self.position.delivered.max(next);
        }
        if let Some(part) = &batch.part {
            self.record_part(part);
        }
        if let Some(control) = &batch.control {
            self.control(batch, control).await?;
        }
        self.devices.report_memory();
        Ok(())
    }

    /// Records the latest state of an input part.
    fn record_part(&mut self, part: &Part) {
        match self.parts.last_mut() {
            Some(last) if last.key() == part.key() => last.clone_from(part),
            _ => self.parts.push(part.clone()),
        }
    }
}
