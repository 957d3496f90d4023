//! The partitions of a topic, each with an owner that builds its trips.
//!
//! | file | what happens there |
//! |---|---|
//! | [`start`] | what is checked before anything is read: the topic, its epoch, where to begin |
//! | `measured` | what owners ask of their stores, timed |
//! | `owner` | one partition: batches in, [`crate::pipeline::processor`], flushes out |
//! | `owners` | where owners keep what they build |
//! | `watched` | how much of what owners write is there already |
//! | [`reread`] | spans of the topic once more, to their ends |
//!
//! The thread that polls ([`crate::kafka::consumer`]) hands partitions over as the group gives
//! them; each gets a task of its own. A partition is taken back by closing its channel (its owner
//! stores what it has and ends), or by calling the owner off (somebody else has it already).

mod counting_store;
pub mod preflight;
mod stores;
mod timed_store;
pub mod topic_replay;
mod worker;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

pub use counting_store::{CountingStores, RowCounts};
pub use stores::{GuidedOwners, ScyllaStores, SqliteStores};
pub use worker::WorkerReport;

use crate::kafka::KafkaError;
use crate::kafka::consumer::{self, AssignedPartition, ConsumerConfig, ConsumerEvent, DrainResult};
use crate::kafka::partition_handle::PartitionHandle;
use crate::kafka::record::RecordReader;
use crate::model::epoch::Epoch;
use crate::pipeline::processor::{Budget, ProcessorConfig, SampleCounts};
use crate::store::{AskKeys, Journal, StoreError, TripStore};
use crate::telemetry;

/// Why the daemon ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The log cannot be read or written.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// Brokers went away midway. What was read before is where it was to go.
    #[error("{away}; {delivered} samples were read before")]
    BrokeOff {
        /// How many samples were read.
        delivered: u64,
        /// What is said of the brokers.
        away: KafkaError,
    },
    /// The store failed in a way that trying again cannot help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something is not as it has to be before a start.
    #[error("{0}")]
    Precondition(String),
    /// The system gave no thread.
    #[error("cannot start the thread that polls Kafka")]
    Thread(#[source] std::io::Error),
}

/// What the daemon tells while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DaemonEvent {
    /// A server does not answer; it is asked again.
    Waiting(String),
    /// A partition was given, taken or lost, or has stopped, or the client met something.
    Consumer(ConsumerEvent),
}

impl std::fmt::Display for DaemonEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Waiting(what) => write!(f, "waiting: {what}"),
            Self::Consumer(told) => match told {
                ConsumerEvent::Assigned { partition, from } => {
                    write!(f, "partition {partition}: reading from offset {from}")
                }
                ConsumerEvent::Revoked { partition, committed, late: false } => {
                    write!(f, "partition {partition}: given back, committed {committed}")
                }
                ConsumerEvent::Revoked { partition, committed, late: true } => write!(
                    f,
                    "partition {partition}: given back before all was stored, committed {committed}"
                ),
                ConsumerEvent::Stopped { partition, problem } => write!(
                    f,
                    "partition {partition} stopped until a restart, the others go on: {problem}; \
                     stop the instances that write to the store, run `tstar verify --repair`, and \
                     start them again"
                ),
                ConsumerEvent::Lost { partition } => {
                    write!(f, "partition {partition}: lost, another member has it")
                }
                ConsumerEvent::Expired { partition, first, next } => write!(
                    f,
                    "partition {partition}: records {first} to {} are gone unread, going on there",
                    next - 1
                ),
                ConsumerEvent::Warning(what) => write!(f, "kafka: {what}"),
            },
        }
    }
}

/// What hears it.
pub type OnEvent = Arc<dyn Fn(DaemonEvent) + Send + Sync>;

/// Where the owners of partitions keep what they build.
pub trait PartitionStores: Send + Sync + 'static {
    /// A store and a journal for one owner.
    type Store: TripStore + Journal + 'static;

    /// Those of the owner of a partition.
    fn store(&self, holding: &Arc<PartitionHandle>) -> Self::Store;
}

/// How the daemon works.
#[derive(Clone)]
pub struct Options {
    /// What is read, and how.
    pub plan: ConsumerConfig,
    /// Every epoch of the log, oldest first.
    pub epochs: Vec<Epoch>,
    /// How each owner works; the memory is that of all of them together.
    pub pace: ProcessorConfig,
    /// Is told what happens.
    pub notify: OnEvent,
    /// Asks which control keys count by now, where other instances may add some.
    pub ask_keys: Option<AskKeys>,
}

/// What the daemon did.
#[derive(Debug)]
pub struct Report {
    /// What became of the samples.
    pub counts: SampleCounts,
    /// Whether all that was read is stored.
    pub drained: DrainResult,
    /// It was asked to stop.
    pub stopped: bool,
    /// What stopped a partition, the first of them, while the others went on.
    pub stood_still: Option<StoreError>,
}

/// Builds trips until `stop` comes, and stores what was read then.
///
/// # Errors
/// [`DaemonError`]; what was acknowledged before is committed.
pub async fn run<O: PartitionStores>(
    owners: O,
    options: Options,
    reader: RecordReader,
    stop: impl Future<Output = ()>,
) -> Result<Report, DaemonError> {
    telemetry::register_counters();
    let (to, mut handed) = mpsc::unbounded_channel();
    let halt = Arc::new(AtomicBool::new(false));
    let mut polling = poll(&options, reader, to, Arc::clone(&halt))?;
    let budget = Budget::new(options.pace.memory);
    let (mut tasks, mut counts) = (JoinSet::new(), SampleCounts::default());
    let (mut failed, mut stood_still): (Option<StoreError>, _) = (None, None);
    tokio::pin!(stop);
    let mut stopping = false;
    let drained = loop {
        tokio::select! {
            () = &mut stop, if !stopping => {
                stopping = true;
                halt.store(true, Ordering::Release);
            }
            Some(handed) = handed.recv() => {
                tasks.spawn(spawn_worker(&owners, &options, handed, Arc::clone(&budget)));
            }
            Some(ended) = tasks.join_next() => {
                let WorkerReport { counts: of_one, error } = joined(ended);
                counts.add(&of_one);
                match error {
                    None => (),
                    Some(error) if worker::is_of_a_partition(&error) => {
                        stood_still.get_or_insert(error);
                    }
                    Some(error) => {
                        failed.get_or_insert(error);
                        halt.store(true, Ordering::Release);
                    }
                }
            }
            ended = &mut polling => break ended.unwrap_or(Err(KafkaError::Broken)),
        }
    };
    while let Some(ended) = tasks.join_next().await {
        counts.add(&joined(ended).counts);
    }
    match (failed, drained) {
        (Some(error), _) => Err(error.into()),
        (None, Err(away @ KafkaError::Unreachable { .. })) => {
            Err(DaemonError::BrokeOff { delivered: counts.delivered, away })
        }
        (None, drained) => Ok(Report { counts, drained: drained?, stopped: stopping, stood_still }),
    }
}

fn spawn_worker<O: PartitionStores>(
    owners: &O,
    options: &Options,
    handed: AssignedPartition,
    budget: Arc<Budget>,
) -> impl Future<Output = WorkerReport> + Send + use<O> {
    let store = owners.store(&handed.holding);
    let ask_keys = options.ask_keys.clone();
    worker::run_worker(store, handed, (options.epochs.clone(), ask_keys), (options.pace, budget))
}

/// A task that panicked has ended the process already, by the panic hook; in tests it ends here.
fn joined(ended: Result<WorkerReport, tokio::task::JoinError>) -> WorkerReport {
    ended.expect("an owner does not panic")
}

/// Starts the thread that polls.
fn poll(
    options: &Options,
    reader: RecordReader,
    to: mpsc::UnboundedSender<AssignedPartition>,
    halt: Arc<AtomicBool>,
) -> Result<oneshot::Receiver<Result<DrainResult, KafkaError>>, DaemonError> {
    let (done, ended) = oneshot::channel();
    let (plan, notify) = (options.plan.clone(), Arc::clone(&options.notify));
    let hear: consumer::OnConsumerEvent = Arc::new(move |told| notify(DaemonEvent::Consumer(told)));
    let work = move || {
        let result = consumer::run(&plan, reader, to, &hear, &halt);
        // Nobody waits for it where the daemon itself was dropped.
        done.send(result).ok();
    };
    let thread = std::thread::Builder::new().name("tstar-kafka".into());
    thread.spawn(work).map_err(DaemonError::Thread)?;
    Ok(ended)
}
