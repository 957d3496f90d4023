//! Row (b): the daemon of tstar over a null store. The only module of this bench that drives the
//! daemon in process.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use tokio::sync::Notify;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::consumer::{
    self, Assignment, ConsumerConfig, DrainResult, MemberSettings,
};
use tstar::internals::kafka::partition_handle::PartitionHandle;
use tstar::internals::kafka::record::RecordReader;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::model::partitioner::Partitioner;
use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{Offset, Version};
use tstar::internals::pipeline::daemon::{self, DaemonEvent, Options};
use tstar::internals::pipeline::processor::ProcessorConfig;
use tstar::internals::pipeline::schemas::find_known;
use tstar::internals::settings::{KeyRule, Settings};
use tstar::internals::sink::{OpenWorker, Sink};
use tstar::internals::source::Decoder;
use tstar::internals::store::{Flush, Position, StoreError};

use crate::log::Log;
use crate::null::NullStore;
use crate::role::RunCounts;

/// Reads a topic into trips until all of them are flushed to the null store.
///
/// # Errors
/// The daemon fails.
pub fn trips(log: &Log) -> anyhow::Result<RunCounts> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let options = options(log, i64::try_from(now.as_micros())?)?;
    let (settings, rules) = (Settings::default(), Rules::default());
    let reader = RecordReader::new(Decoder::new(&rules)?, settings.key == KeyRule::DeviceId);
    let partitions = log.ends.iter().filter(|end| **end > 0).count();
    let left = Arc::new(Left { partitions: AtomicUsize::new(partitions), all: Notify::new() });
    let open = null_workers(log.ends.clone(), Arc::clone(&left));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ran = daemon::run(open, options, reader, left.all.notified());
    let report = runtime.block_on(ran)?;
    ensure!(report.drained == DrainResult::All, "the daemon did not store all that it read");
    let counts = report.counts;
    Ok(RunCounts {
        delivered: counts.delivered,
        trips_written: counts.trips_written,
        flushes: counts.flushes,
    })
}

/// The options of `tstar run` without flags.
fn options(log: &Log, now_us: i64) -> anyhow::Result<Options> {
    let settings = Settings::default();
    let memory = usize::try_from(settings.memory)?;
    let epoch = Epoch {
        epoch: 1,
        topic: log.topic.clone(),
        partitions: i32::try_from(log.ends.len())?,
        start_offsets: (0..).zip(&log.ends).map(|(partition, _)| (partition, 0)).collect(),
        base: Version(now_us),
        rules: Rules::default(),
        partitioner: Partitioner::Murmur2,
        topic_id: None,
        keeps_positions: true,
    };
    let plan = ConsumerConfig {
        brokers: Brokers::new(&log.brokers, BTreeMap::new())?,
        topic: log.topic.clone(),
        member: MemberSettings { group: "tstar-bench-trips".to_owned(), ..settings.member.clone() },
        assignment: Assignment::All(vec![0; log.ends.len()]),
        epoch: epoch.clone(),
        memory: memory / 8,
    };
    let notify = Arc::new(|event: DaemonEvent| match event {
        DaemonEvent::Consumer(consumer::ConsumerEvent::Assigned { .. }) => (),
        event => eprintln!("topic_path: {event}"),
    });
    Ok(Options {
        plan,
        epochs: vec![epoch],
        pace: ProcessorConfig::daemon(&settings),
        notify,
        ask_keys: None,
        find_schemas: find_known(Arc::default()),
        live: Arc::default(),
    })
}

/// Number of partitions that are not yet flushed to their ends.
struct Left {
    partitions: AtomicUsize,
    /// Notified when no partition is left.
    all: Notify,
}

fn null_workers(ends: Vec<i64>, left: Arc<Left>) -> OpenWorker<NullStore, Acknowledged> {
    Arc::new(move |handle| {
        let partition = usize::try_from(handle.partition()).unwrap_or(usize::MAX);
        let sink = Acknowledged {
            handle: Arc::clone(handle),
            end: ends.get(partition).copied().unwrap_or(i64::MAX),
            at_end: AtomicBool::new(false),
            left: Arc::clone(&left),
        };
        (Arc::new(NullStore), sink)
    })
}

/// Acknowledges every flush and discards it.
struct Acknowledged {
    handle: Arc<PartitionHandle>,
    end: i64,
    at_end: AtomicBool,
    left: Arc<Left>,
}

impl Sink for Acknowledged {
    async fn stage(&self, ahead: &Flush) -> Result<(), StoreError> {
        black_box(ahead);
        Ok(())
    }

    async fn commit(&self, flush: &Flush) -> Result<(), StoreError> {
        let delivered = black_box(flush).position.delivered;
        self.handle.acknowledge(delivered);
        if delivered >= Offset(self.end)
            && !self.at_end.swap(true, Ordering::AcqRel)
            && self.left.partitions.fetch_sub(1, Ordering::AcqRel) == 1
        {
            self.left.all.notify_one();
        }
        Ok(())
    }

    async fn position(&self) -> Result<Position, StoreError> {
        Ok(Position { delivered: self.handle.acknowledged() })
    }
}
