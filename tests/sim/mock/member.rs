//! A member of the group: the polling loop on a thread, and its partition workers.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::consumer::client::RecordClient;
use tstar::internals::kafka::consumer::poller::Poller;
use tstar::internals::kafka::consumer::{
    AssignedPartition, Assignment, ConsumerConfig, ConsumerEvent, DrainResult, MemberSettings,
    new_client,
};
use tstar::internals::kafka::letter_record::Limit;
use tstar::internals::kafka::partition_handle::PartitionHandle;
use tstar::internals::kafka::producer::Producer;
use tstar::internals::pipeline::daemon::worker::{WorkerShares, run_worker};
use tstar::internals::pipeline::daemon::{Options, WorkerReport};
use tstar::internals::pipeline::processor::{FlushSettings, ProcessorConfig};
use tstar::internals::pipeline::schemas::find_known;
use tstar::internals::sink::{OpenWorker, OutputTopics, Outputs, Sink, open_workers};
use tstar::internals::store::TripStore;
use tstar::internals::store::memory::MemoryStore;

use super::cluster::{FEED, GROUP, LETTERS, TOPIC};
use super::log::{epoch, reader};

/// The mock brokers forget a member without an answer if this is not over 3 s, or differs between
/// members.
const SESSION_MS: &str = "3200";
const HEARTBEAT_MS: &str = "300";
const MAX_POLL_MS: &str = "4000";

/// What a member does between two steps of its polling loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Polls,
    /// It does not poll, but its workers continue.
    Frozen,
    /// It drains, and leaves the group.
    Leaves,
    /// It polls no more; its client remains until it is closed.
    Crashed,
    Closed,
}

struct Gate {
    mode: Mutex<Mode>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
        self.changed.notify_all();
    }

    /// The mode, once it is one of those in which something happens.
    fn pass(&self) -> Mode {
        let mode = self.mode.lock().unwrap();
        let waits = |mode: &mut Mode| matches!(mode, Mode::Frozen | Mode::Crashed);
        *self.changed.wait_while(mode, waits).unwrap()
    }
}

/// What all members share.
pub struct Shared {
    pub store: Arc<MemoryStore>,
    seen: Mutex<History>,
}

/// What happened to all members.
#[derive(Default)]
pub struct History {
    /// Each assignment, with its first offset.
    pub handles: Vec<(Arc<PartitionHandle>, i64)>,
    /// Reports of the workers that ended.
    pub reports: Vec<WorkerReport>,
    /// Number of assignments, revocations and losses.
    pub events: BTreeMap<&'static str, u64>,
}

impl Shared {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { store: Arc::default(), seen: Mutex::default() })
    }

    pub fn seen(&self) -> MutexGuard<'_, History> {
        self.seen.lock().unwrap()
    }
}

pub struct Member {
    pub id: usize,
    gate: Arc<Gate>,
    held: Arc<Mutex<BTreeSet<i32>>>,
    polling: JoinHandle<Result<DrainResult, KafkaError>>,
    working: tokio::task::JoinHandle<()>,
}

fn brokers(addresses: &str, options: &[(&str, &str)]) -> Brokers {
    let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    Brokers::new(addresses, options.collect()).unwrap()
}

fn config(addresses: &str, instance: Option<String>) -> ConsumerConfig {
    let options = [
        ("session.timeout.ms", SESSION_MS),
        ("heartbeat.interval.ms", HEARTBEAT_MS),
        ("max.poll.interval.ms", MAX_POLL_MS),
        ("reconnect.backoff.max.ms", "500"),
    ];
    ConsumerConfig {
        brokers: brokers(addresses, &options),
        topic: TOPIC.into(),
        member: MemberSettings {
            instance_id: instance,
            revoke_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(60),
            ..MemberSettings::new(GROUP)
        },
        assignment: Assignment::Group { from: None },
        epoch: epoch(),
        memory: 1 << 20,
    }
}

fn outputs(addresses: &str) -> OutputTopics {
    let brokers = brokers(addresses, &[("reconnect.backoff.max.ms", "500")]);
    let producer = Producer::new(&brokers, Arc::new(|_: &str| ())).unwrap();
    let bytes = producer.max_bytes();
    OutputTopics {
        producer,
        input: TOPIC.into(),
        feed: Some(FEED.into()),
        letters: Some(LETTERS.into()),
        table: None,
        event_bytes: bytes,
        letter_limit: Limit { record: bytes, content: bytes },
    }
}

impl Member {
    /// Starts a member, with a static id or without.
    pub fn start(
        (id, instance): (usize, Option<String>),
        addresses: &str,
        shared: &Arc<Shared>,
        runtime: &Handle,
    ) -> Self {
        println!("member {id} starts: {instance:?}");
        let plan = config(addresses, instance);
        let pace = ProcessorConfig {
            flush: FlushSettings::new(Duration::from_millis(200), Duration::from_millis(600)),
            memory: 20_000,
            by_trip: true,
            loads: 2,
            ..ProcessorConfig::default()
        };
        let options = Options {
            plan: plan.clone(),
            epochs: vec![epoch()],
            pace,
            notify: Arc::new(|_| ()),
            ask_keys: None,
            find_schemas: find_known(Arc::default()),
            live: Arc::default(),
        };
        let gate = Arc::new(Gate { mode: Mode::Polls.into(), changed: Condvar::new() });
        let held = Arc::<Mutex<BTreeSet<i32>>>::default();
        let (sender, assigned) = mpsc::unbounded_channel();
        let (of_gate, of_held, of_shared) = (gate.clone(), held.clone(), shared.clone());
        let polling = std::thread::spawn(move || {
            let on_event = move |event| record_event(id, &event, &of_held, &of_shared);
            let on_event: Arc<dyn Fn(ConsumerEvent) + Send + Sync> = Arc::new(on_event);
            let client = new_client(&plan, sender, &on_event, Arc::default())?;
            poll(Poller::new(Rc::new(client)), &of_gate)
        });
        let (store, outputs) = (Arc::clone(&shared.store), Arc::new(outputs(addresses)));
        let epoch = Some(Arc::new(epoch()));
        let outputs = Outputs::Topics(outputs, epoch);
        let open = open_workers(move || Arc::clone(&store), outputs, None);
        let working = runtime.spawn(work(open, options, assigned, Arc::clone(shared)));
        Self { id, gate, held, polling, working }
    }

    /// The partitions that it holds.
    pub fn held(&self) -> BTreeSet<i32> {
        self.held.lock().unwrap().clone()
    }

    pub fn freeze(&self) {
        self.gate.set(Mode::Frozen);
    }

    pub fn wake(&self) {
        self.gate.set(Mode::Polls);
    }

    pub fn leave(&self) {
        self.gate.set(Mode::Leaves);
    }

    /// Its workers write no more, and it does not poll.
    pub fn crash(&self) {
        self.gate.set(Mode::Crashed);
        self.working.abort();
    }

    /// Closes the client of a crashed member.
    pub fn close(self) {
        self.gate.set(Mode::Closed);
        drop(self.polling.join().unwrap());
    }

    /// Whether it has left.
    pub fn is_gone(&self) -> bool {
        self.polling.is_finished() && self.working.is_finished()
    }

    /// How it has left.
    pub fn result(self) -> Result<DrainResult, KafkaError> {
        self.polling.join().unwrap()
    }
}

fn poll<C: RecordClient>(mut poller: Poller<C>, gate: &Gate) -> Result<DrainResult, KafkaError> {
    poller.start()?;
    loop {
        let mode = gate.pass();
        if mode == Mode::Closed {
            return Ok(DrainResult::NotInTime);
        }
        if let Some(drained) = poller.step(mode == Mode::Leaves)? {
            return Ok(drained);
        }
    }
}

/// Runs the workers of a member until its polling loop has ended.
async fn work<T: TripStore + 'static, S: Sink + 'static>(
    open: OpenWorker<T, S>,
    options: Options,
    mut assigned: UnboundedReceiver<AssignedPartition>,
    shared: Arc<Shared>,
) {
    let (of_all, mut tasks) = (WorkerShares::new(options.pace.memory), JoinSet::new());
    loop {
        tokio::select! {
            next = assigned.recv() => {
                let Some(next) = next else { break };
                let handle = Arc::clone(&next.holding);
                let from = handle.acknowledged().get();
                shared.seen().handles.push((handle, from));
                let work = (reader(), options.clone());
                let opened = open(&next.holding);
                tasks.spawn(run_worker(opened, next, work, of_all.clone()));
            }
            Some(ended) = tasks.join_next() => shared.seen().reports.push(ended.unwrap()),
        }
    }
    while let Some(ended) = tasks.join_next().await {
        shared.seen().reports.push(ended.unwrap());
    }
}

fn record_event(id: usize, event: &ConsumerEvent, held: &Mutex<BTreeSet<i32>>, shared: &Shared) {
    let mut held = held.lock().unwrap();
    let what = match event {
        ConsumerEvent::Assigned { partition, .. } => {
            assert!(held.insert(*partition), "member {id} has {partition} twice");
            "assigned"
        }
        ConsumerEvent::Revoked { partition, late, .. } => {
            held.remove(partition);
            if *late { "revoked before all was stored" } else { "revoked" }
        }
        ConsumerEvent::Lost { partition } => {
            held.remove(partition);
            "lost"
        }
        ConsumerEvent::Stopped { .. } | ConsumerEvent::Expired { .. } => {
            println!("member {id}: {event:?}");
            "stopped or expired"
        }
        _ => "warnings",
    };
    *shared.seen().events.entry(what).or_default() += 1;
}
