//! Writes what a processor has decided: rows, table topic, change feed, dead letters and position,
//! each acknowledged before the next; an embedded store takes all of it in one transaction.
//!
//! | module | contents |
//! |---|---|
//! | `files` | the sink of files: an embedded store |
//! | [`feed`] | the records of the change feed |
//! | `letters` | sends dead letters |
//! | `position` | the position of a partition, kept with the rows |
//! | [`table`] | writes the trips of a partition to the table topic |
//! | [`topic`] | the topics next to the input topic, and in which order they are written |
//! | `workers` | the store and the sink of each partition worker |

pub mod feed;
mod files;
mod letters;
#[cfg(feature = "internals")]
mod memory;
mod position;
pub mod table;
pub mod topic;
mod workers;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use topic::OutputTopics;
pub use workers::{OpenWorker, open_workers};

use crate::kafka::partition_handle::PartitionHandle;
use crate::kafka::producer::{ConfiguredProducer, ProducerClient};
use crate::model::epoch::Epoch;
use crate::store::raw::RawRow;
use crate::store::{AnyStore, EmbeddedStore, Flush, Forget, Position, Result, TripStore};
use crate::telemetry::operation;
use topic::TopicSink;

/// Makes the decisions of a processor durable. Tests replace it.
pub trait Sink: Send + Sync {
    /// Writes a part of the next flush ahead of it, so that a large flush need not be in memory at
    /// once. Reads see the staged trips. They become durable with the flush and are lost without it
    /// (where the log is a topic they may remain: it delivers their records again).
    fn stage(&self, ahead: &Flush) -> impl Future<Output = Result<()>> + Send;

    /// Makes a flush durable: all of it or nothing, or (for a store on servers) in the order trips,
    /// changes, dead letters, position, each durable before the next.
    fn commit(&self, flush: &Flush) -> impl Future<Output = Result<()>> + Send;

    /// The position up to which the log was read. Read before any trip: where several instances
    /// share the log, this also ends what an earlier owner of the partition may still write.
    fn position(&self) -> impl Future<Output = Result<Position>> + Send;

    /// Announces that a forget is about to erase trips of a device. Everything before it is staged.
    fn announce_erasure(
        &self,
        _device_id: &str,
        _forget: &Forget,
    ) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// Where the partition workers of a process write.
#[derive(Clone)]
pub enum Outputs<C = ConfiguredProducer> {
    /// All to one embedded store, in one transaction. What another worker has staged may become
    /// durable with it. That is harmless, because the topic delivers those records again, and dead
    /// letters that are in the store already are skipped then.
    File(Arc<EmbeddedStore>),
    /// Rows to the store of the worker, everything else to topics. The epoch is that whose
    /// positions are kept with the rows; `None` if some records are read again into rows that have
    /// others.
    Topics(Arc<OutputTopics<C>>, Option<Arc<Epoch>>),
}

/// The sink of a partition worker. It times its operations, reports what is durable as the progress
/// of the partition, and may count the rows.
pub struct PartitionSink<T, C: ProducerClient = ConfiguredProducer> {
    target: Target<T, C>,
    handle: Arc<PartitionHandle>,
    tally: Option<RowTally>,
}

enum Target<T, C: ProducerClient> {
    File(Arc<EmbeddedStore>),
    Topics(TopicSink<T, C>),
}

impl<T, C: ProducerClient> PartitionSink<T, C> {
    /// The sink of an assigned partition. `trips` is the store of its worker.
    #[must_use]
    pub fn new(
        trips: Arc<T>,
        outputs: Outputs<C>,
        handle: Arc<PartitionHandle>,
        tally: Option<RowTally>,
    ) -> Self {
        let target = match outputs {
            Outputs::File(store) => Target::File(store),
            Outputs::Topics(topics, epoch) => {
                Target::Topics(TopicSink::new(trips, topics, Arc::clone(&handle), epoch))
            }
        };
        Self { target, handle, tally }
    }

    async fn count(&self, flush: &Flush) -> Result<()> {
        match &self.tally {
            Some(tally) => tally.count(flush).await,
            None => Ok(()),
        }
    }
}

impl<T: TripStore, C: ProducerClient> Sink for PartitionSink<T, C> {
    async fn stage(&self, ahead: &Flush) -> Result<()> {
        let staged = async {
            self.count(ahead).await?;
            match &self.target {
                Target::File(store) => store.stage(ahead).await,
                Target::Topics(sink) => sink.stage(ahead).await,
            }
        };
        operation("stage", staged).await
    }

    async fn commit(&self, flush: &Flush) -> Result<()> {
        let committed = async {
            self.count(flush).await?;
            match &self.target {
                Target::File(store) => store.commit_flush(flush, Some(self.handle.partition())),
                Target::Topics(sink) => sink.commit(flush).await,
            }
        };
        operation("commit", committed).await?;
        self.handle.progress().acknowledged(flush.position.delivered);
        Ok(())
    }

    async fn position(&self) -> Result<Position> {
        let begun = async {
            match &self.target {
                Target::File(_) => Ok(()),
                Target::Topics(sink) => sink.begin().await,
            }
        };
        operation("position", begun).await?;
        Ok(Position { delivered: self.handle.acknowledged() })
    }

    async fn announce_erasure(&self, device_id: &str, forget: &Forget) -> Result<()> {
        let announced = async {
            match &self.target {
                Target::File(_) => Ok(()),
                Target::Topics(sink) => sink.announce_erasure(device_id, forget).await,
            }
        };
        operation("announce_erasure", announced).await
    }
}

/// Number of written trip rows.
#[derive(Debug, Default)]
pub struct RowCounts {
    same: AtomicU64,
    other: AtomicU64,
}

impl RowCounts {
    /// Rows that the store already contained, byte for byte; a trip has one row for each day.
    #[must_use]
    pub fn same(&self) -> u64 {
        self.same.load(Ordering::Relaxed)
    }

    /// Rows that the store did not contain, or contained with other bytes.
    #[must_use]
    pub fn other(&self) -> u64 {
        self.other.load(Ordering::Relaxed)
    }
}

/// Counts written rows by whether the store contained them before.
#[derive(Clone)]
pub struct RowTally {
    /// The store.
    pub rows: Arc<AnyStore>,
    /// The counters.
    pub counts: Arc<RowCounts>,
}

impl RowTally {
    async fn count(&self, flush: &Flush) -> Result<()> {
        for trip in flush.groups.iter().flat_map(|group| &group.rows) {
            for day in trip.days() {
                let stored = self.rows.raw_day(&trip.device_id, day).await?;
                let is_same = stored.contains(&RawRow::from_trip_row(trip, day));
                let count = if is_same { &self.counts.same } else { &self.counts.other };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
