//! Reads a topic: one worker for each assigned partition builds its trips.
//!
//! | module | content |
//! |---|---|
//! | [`preflight`] | preflight checks: topic, epoch, start offsets |
//! | [`reader_group`] | the consumer group that reads the log of a store |
//! | `worker` | one partition: batches in, [`crate::pipeline::processor`], flushes out |
//! | `live_workers` | the workers of this process, for questions about their memory |
//!
//! The polling thread ([`crate::kafka::consumer`]) passes on partitions as the group assigns them;
//! each gets a task of its own. A revoked partition's channel is closed: its worker flushes and
//! ends. The worker of a lost partition is cancelled, since another member already owns it.

mod live_workers;
mod owners;
pub mod preflight;
pub(crate) mod reader_group;
pub mod worker;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

pub use live_workers::LiveWorkers;
pub(crate) use owners::Owners;
pub use worker::WorkerReport;

use crate::kafka::KafkaError;
use crate::kafka::consumer::{self, AssignedPartition, ConsumerConfig, ConsumerEvent, DrainResult};
use crate::kafka::control::Authority;
use crate::kafka::record::RecordReader;
use crate::model::control::ControlKeys;
use crate::model::epoch::Epoch;
use crate::pipeline::processor::{ProcessorConfig, SampleCounts};
use crate::pipeline::schemas::FindSchemas;
use crate::sink::{OpenWorker, Sink};
use crate::source::{Decoder, DecoderError};
use crate::store::{AskKeys, StoreError, TripStore};
use crate::telemetry;

/// Time limit for the client to leave its group at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Why the daemon ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The log cannot be read or written.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// The brokers became unreachable. The records read before are processed.
    #[error("{away}; {delivered} samples were read before")]
    BrokeOff {
        /// Number of samples that were read.
        delivered: u64,
        /// The broker error.
        away: KafkaError,
    },
    /// The store failed with an error that retries cannot fix.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A precondition of the start is not met.
    #[error("{0}")]
    Precondition(String),
    /// The system cannot start a thread.
    #[error("cannot start the thread that polls Kafka")]
    Thread(#[source] std::io::Error),
}

/// Events of a running daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DaemonEvent {
    /// What the start needs next, such as an answer of the brokers. Shown only if it takes long.
    Needs(String),
    /// A server does not answer; the request is retried.
    Waiting(String),
    /// What was found at the start.
    Notice(String),
    /// Something works, with a risk, and what helps.
    Warning(String),
    /// The rules hardly suit what the first samples of the process show.
    Rules(String),
    /// A partition was assigned, revoked, lost or stopped, or the client reported a warning.
    Consumer(ConsumerEvent),
}

impl std::fmt::Display for DaemonEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Needs(what) => write!(f, "waiting for {what}"),
            Self::Waiting(what) => write!(f, "waiting: {what}"),
            Self::Notice(what) => f.write_str(what),
            Self::Warning(what) | Self::Rules(what) => write!(f, "warning: {what}"),
            Self::Consumer(event) => match event {
                ConsumerEvent::Assigned { partition, from } => {
                    write!(f, "partition {partition}: reading from offset {from}")
                }
                ConsumerEvent::Revoked { partition, committed, late: false } => {
                    write!(f, "partition {partition}: revoked, committed {committed}")
                }
                ConsumerEvent::Revoked { partition, committed, late: true } => write!(
                    f,
                    "partition {partition}: revoked before everything was stored, committed \
                     {committed}"
                ),
                ConsumerEvent::Stopped { partition, problem } => write!(
                    f,
                    "partition {partition} stopped until restart, the others continue: {problem}; \
                     stop the instances that write to the store, run `tstar verify --repair`, and \
                     start them again"
                ),
                ConsumerEvent::Lost { partition } => {
                    write!(f, "partition {partition}: lost, another member owns it")
                }
                ConsumerEvent::Expired { partition, first, next } => write!(
                    f,
                    "partition {partition}: records {first} to {} expired unread; reading from {next}",
                    next - 1
                ),
                ConsumerEvent::Behind { partition, from, until } => write!(
                    f,
                    "partition {partition}: the group's offset is {until}, but the store has what \
                     was read up to {from}: it was restored; reading again from {from}"
                ),
                ConsumerEvent::CaughtUp { partition } => {
                    write!(f, "partition {partition}: the store has what it had before")
                }
                ConsumerEvent::Denied(what) => write!(f, "waiting: {what}"),
                ConsumerEvent::Warning(what) => write!(f, "kafka: {what}"),
            },
        }
    }
}

/// Callback for events.
pub(crate) type OnEvent = Arc<dyn Fn(DaemonEvent) + Send + Sync>;

/// A reader of an epoch's records.
///
/// # Errors
/// The field map of its rules is not valid.
pub fn reader(epoch: &Epoch, keys: &ControlKeys) -> Result<RecordReader, DaemonError> {
    let key_is_device = epoch.rules.is_keyed_by_device();
    let checked = Decoder::check_topic_rules(&epoch.rules);
    let decoder =
        checked.and_then(|()| Decoder::new(&epoch.rules)).map_err(|error: DecoderError| {
            DaemonError::Precondition(format!(
                "the rules of epoch {} are not valid: {error}",
                epoch.epoch
            ))
        })?;
    let authority = Authority {
        topic: epoch.topic.clone(),
        keys: keys.clone(),
        max_future_ms: epoch.rules.max_future_ms,
    };
    Ok(RecordReader::new(decoder, key_is_device).allowing(authority))
}

/// Options of the daemon.
#[derive(Clone)]
pub struct Options {
    /// What to read, and how.
    pub plan: ConsumerConfig,
    /// Every epoch of the log, oldest first.
    pub epochs: Vec<Epoch>,
    /// Settings of each partition worker, except `memory`: all workers share it.
    pub pace: ProcessorConfig,
    /// Receives the events.
    pub notify: OnEvent,
    /// Reads the registered control keys, if other instances may register more.
    pub ask_keys: Option<AskKeys>,
    /// Finds the schemas that records name.
    pub find_schemas: FindSchemas,
    /// Lists the workers while they run.
    pub live: Arc<LiveWorkers>,
}

/// Result of a daemon.
#[derive(Debug)]
pub struct Report {
    /// Counters of the samples, all partitions together.
    pub counts: SampleCounts,
    /// Whether everything that was read is stored.
    pub drained: DrainResult,
    /// Whether it ended because of a stop request.
    pub stopped: bool,
    /// The first error that stopped a partition; the others continued.
    pub partition_error: Option<StoreError>,
}

/// Builds trips until `stop` completes, then stores everything that was read.
///
/// # Errors
/// [`DaemonError`]; everything acknowledged before is committed.
pub async fn run<T: TripStore + 'static, S: Sink + 'static>(
    open: OpenWorker<T, S>,
    options: Options,
    reader: RecordReader,
    stop: impl Future<Output = ()>,
) -> Result<Report, DaemonError> {
    telemetry::register_counters();
    let (sender, mut assignments) = mpsc::unbounded_channel();
    let halt = Arc::new(AtomicBool::new(false));
    let (mut polling, closed) = poll(&options, sender, Arc::clone(&halt))?;
    let shared = worker::WorkerShares::new(options.pace.memory);
    let (mut tasks, mut counts) = (JoinSet::new(), SampleCounts::default());
    let (mut failed, mut partition_error): (Option<StoreError>, _) = (None, None);
    tokio::pin!(stop);
    let mut stopping = false;
    let drained = loop {
        tokio::select! {
            () = &mut stop, if !stopping => {
                stopping = true;
                halt.store(true, Ordering::Release);
            }
            Some(assigned) = assignments.recv() => {
                let work = (reader.fork(), options.clone());
                let opened = open(&assigned.holding);
                tasks.spawn(worker::run_worker(opened, assigned, work, shared.clone()));
            }
            Some(ended) = tasks.join_next() => {
                let WorkerReport { counts: partition_counts, error } = joined(ended);
                counts.add(&partition_counts);
                match error {
                    None => (),
                    Some(error) if worker::is_partition_error(&error) => {
                        partition_error.get_or_insert(error);
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
    if tokio::time::timeout(CLOSE_TIMEOUT, closed).await.is_err() {
        (options.notify)(DaemonEvent::Warning(
            "the group was not left in time: its other instances wait until the session of this \
             one ends, 45 s unless set otherwise"
                .to_owned(),
        ));
    }
    match (failed, drained) {
        (Some(error), _) => Err(error.into()),
        (None, Err(away @ KafkaError::Unreachable { .. })) => {
            Err(DaemonError::BrokeOff { delivered: counts.delivered, away })
        }
        (None, drained) => {
            Ok(Report { counts, drained: drained?, stopped: stopping, partition_error })
        }
    }
}

/// Outside of tests, the panic hook ends the process before a panicked task is joined.
fn joined(ended: Result<WorkerReport, tokio::task::JoinError>) -> WorkerReport {
    ended.expect("a partition worker does not panic")
}

/// How reading ended, once it has, and a message once the client is closed.
type Polling = (oneshot::Receiver<Result<DrainResult, KafkaError>>, oneshot::Receiver<()>);

/// Starts the polling thread.
fn poll(
    options: &Options,
    sender: mpsc::UnboundedSender<AssignedPartition>,
    halt: Arc<AtomicBool>,
) -> Result<Polling, DaemonError> {
    let ((done, ended), (closing, closed)) = (oneshot::channel(), oneshot::channel());
    let (plan, notify) = (options.plan.clone(), Arc::clone(&options.notify));
    let on_event: consumer::OnConsumerEvent =
        Arc::new(move |event| notify(DaemonEvent::Consumer(event)));
    let work = move || {
        // There is no receiver if the daemon was dropped.
        let ended = |result| drop(done.send(result));
        consumer::run(&plan, sender, &on_event, halt, ended);
        closing.send(()).ok();
    };
    let thread = std::thread::Builder::new().name("tstar-kafka".into());
    thread.spawn(work).map_err(DaemonError::Thread)?;
    Ok((ended, closed))
}
