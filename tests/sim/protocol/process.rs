//! A process: the real polling loop and partition workers over simulated servers, polled by hand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tstar::internals::kafka::KafkaError;
use tstar::internals::kafka::client::Brokers;
use tstar::internals::kafka::consumer::poller::Poller;
use tstar::internals::kafka::consumer::rebalance::RebalanceContext;
use tstar::internals::kafka::consumer::{
    AssignedPartition, Assignment, ConsumerConfig, ConsumerEvent, DrainResult, MemberSettings,
};
use tstar::internals::kafka::partition_handle::{PartitionHandle, WorkerExit};
use tstar::internals::kafka::record::RecordReader;
use tstar::internals::kafka::topics::StartFrom;
use tstar::internals::model::epoch::Epoch;
use tstar::internals::pipeline::daemon::worker::{WorkerShares, run_worker};
use tstar::internals::pipeline::daemon::{LiveWorkers, Options, WorkerReport};
use tstar::internals::pipeline::processor::{FlushSettings, ProcessorConfig};
use tstar::internals::pipeline::schemas::find_known;
use tstar::internals::sink::table::TableTopic;
use tstar::internals::sink::{Outputs, open_workers};

use super::broker::Client;
use super::client::SimClient;
use super::log::TOPIC;
use super::outputs;
use super::schedule::Schedule;
use super::store::SimStore;
use super::table;
use super::world::{Dice, World, at_once, lock};
use crate::nodes::{self, Connection};

struct Worker {
    handle: Arc<PartitionHandle>,
    /// How often offsets were reset before it was assigned its partition.
    resets: u64,
    future: Pin<Box<dyn Future<Output = WorkerReport>>>,
}

/// The polling thread.
struct Polling {
    poller: Poller<SimClient>,
    client: Rc<SimClient>,
    assigned: UnboundedReceiver<AssignedPartition>,
    /// The partitions held when it began to drain, and the resets of offsets before each was
    /// assigned.
    closing: Option<Vec<(Arc<PartitionHandle>, u64)>>,
}

pub struct Process {
    pub id: usize,
    polling: RefCell<Option<Polling>>,
    workers: RefCell<Vec<Worker>>,
    options: Options,
    /// The table topic, with the epoch that is the newest when it starts.
    table: Option<TableTopic>,
    reader: RecordReader,
    shared: WorkerShares,
    /// The newest epoch when it starts.
    epoch: Arc<Epoch>,
    /// It is to drain and end.
    pub stops: Cell<bool>,
    pub is_frozen: Cell<bool>,
    is_dead: Rc<Cell<bool>>,
}

/// Configuration of a process.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub pace: ProcessorConfig,
    pub from: Option<StartFrom>,
    pub instance: Option<usize>,
    pub revoke_timeout: Duration,
    pub drain_timeout: Duration,
}

/// A configuration that the dice choose.
pub fn random_pace(dice: &mut Dice) -> ProcessorConfig {
    ProcessorConfig {
        flush: FlushSettings::new(
            Duration::from_millis(dice.one_of(&[1, 1, 50, 300])),
            Duration::from_millis(dice.one_of(&[100, 500, 500, 5_000])),
        ),
        memory: dice.one_of(&[0, 2_000, 3_000, 100_000, 100_000]),
        by_trip: dice.percent(60),
        gather: dice.one_of(&[1, 2, 3, 8]),
        loads: dice.one_of(&[1, 1, 2, 4]),
    }
}

impl Process {
    /// Starts a process, which joins the group.
    pub fn start(schedule: &Schedule, this: &Weak<Schedule>, setup: Setup) -> Rc<Self> {
        let script = &schedule.scripts[0];
        let (id, epoch) = {
            let mut world = lock(&schedule.world);
            world.clients.push(Some(Client { instance: setup.instance, ..Client::default() }));
            let id = world.clients.len() - 1;
            world.log(|| format!("{id} starts: {setup:?}"));
            (id, Arc::new(script.epochs[world.epochs - 1].clone()))
        };
        let brokers = Brokers::new("simulated:9092", BTreeMap::new()).expect("no options");
        let plan = ConsumerConfig {
            brokers,
            topic: TOPIC.to_owned(),
            member: MemberSettings {
                instance_id: setup.instance.map(|of| of.to_string()),
                revoke_timeout: setup.revoke_timeout,
                drain_timeout: setup.drain_timeout,
                ..MemberSettings::new("tstar")
            },
            assignment: Assignment::Group { from: setup.from },
            // Before the first commit, the oldest epoch decides where to start.
            epoch: script.epochs[0].clone(),
            memory: 1 << 20,
        };
        let (sender, assigned) = mpsc::unbounded_channel();
        let world = Arc::clone(&schedule.world);
        let on_event = Arc::new(move |event| happens(&mut lock(&world), id, &event));
        let context = RebalanceContext::new(plan.clone(), sender, on_event, Arc::default());
        let is_dead = Rc::new(Cell::new(false));
        let (process, schedule_of) = (id, Weak::clone(this));
        let client = Rc::new(SimClient {
            process,
            context,
            schedule: schedule_of,
            is_dead: is_dead.clone(),
        });
        let poller = Poller::new(Rc::clone(&client));
        poller.start().expect("it subscribes");
        Rc::new(Self {
            id,
            polling: RefCell::new(Some(Polling { poller, client, assigned, closing: None })),
            workers: RefCell::default(),
            options: Options {
                plan,
                epochs: script.epochs.clone(),
                pace: setup.pace,
                notify: Arc::new(|_| ()),
                ask_keys: None,
                find_schemas: find_known(Arc::default()),
                live: Arc::default(),
            },
            table: schedule.kind.table.map(|kinds| table::topic(epoch.division(), kinds)),
            epoch,
            reader: schedule.reader.fork(),
            shared: WorkerShares::new(setup.pace.memory),
            stops: Cell::new(false),
            is_frozen: Cell::new(false),
            is_dead,
        })
    }

    /// The polling thread takes a step, unless it waits for something.
    pub fn step(&self, schedule: &Schedule) {
        let Ok(mut polling) = self.polling.try_borrow_mut() else { return };
        let Some(running) = &mut *polling else { return };
        if self.stops.get() && running.closing.is_none() {
            running.closing = Some(self.held(schedule));
        }
        let result = running.poller.step(self.stops.get());
        self.receive(running, schedule);
        let result = match result {
            Ok(None) => return,
            Ok(Some(result)) => Ok(result),
            Err(error) => Err(error),
        };
        if !self.is_dead.get() {
            self.ends(running, result, schedule);
            running.client.close();
            self.receive(running, schedule);
        }
        *polling = None;
    }

    /// The partitions that it holds, and the resets of offsets before each was assigned.
    fn held(&self, schedule: &Schedule) -> Vec<(Arc<PartitionHandle>, u64)> {
        let world = lock(&schedule.world);
        let holds = |worker: &&Worker| {
            let client = world.clients[self.id].as_ref();
            client.is_some_and(|client| client.fetch.contains_key(&worker.handle.partition()))
        };
        let workers = self.workers.borrow();
        let latest: BTreeMap<i32, _> = workers
            .iter()
            .filter(holds)
            .map(|worker| (worker.handle.partition(), (Arc::clone(&worker.handle), worker.resets)))
            .collect();
        latest.into_values().collect()
    }

    /// Starts the workers of newly assigned partitions.
    fn receive(&self, polling: &mut Polling, schedule: &Schedule) {
        while let Ok(assigned) = polling.assigned.try_recv() {
            let handle = Arc::clone(&assigned.holding);
            let scripts = &schedule.scripts;
            let script = scripts.iter().find(|of| of.log.partition == handle.partition());
            let script = Arc::clone(script.expect("there is such a partition"));
            let world = Arc::clone(&schedule.world);
            let nodes = Arc::clone(&lock(&world).nodes);
            let (of, id) = (Arc::clone(&handle), self.id);
            let owner = move || {
                Arc::new(SimStore {
                    trips: at_once(nodes::store(Connection::live(&nodes, id))),
                    world: Arc::clone(&world),
                    owner: id,
                    script: Arc::clone(&script),
                    handle: Arc::clone(&of),
                })
            };
            let brokers = &self.options.plan.brokers;
            let outputs = outputs::topics(&schedule.world, self.id, brokers, self.table.clone());
            let epoch = Some(Arc::clone(&self.epoch));
            let outputs = Outputs::Topics(Arc::new(outputs), epoch);
            let work = (self.reader.fork(), self.options.clone());
            let opened = open_workers(owner, outputs, None)(&handle);
            let future = Box::pin(run_worker(opened, assigned, work, self.shared.clone()));
            let resets = lock(&schedule.world).resets;
            self.workers.borrow_mut().push(Worker { handle, resets, future });
        }
    }

    /// Runs a worker as far as it can.
    pub fn poll_worker(&self, nth: usize, schedule: &Schedule) {
        let mut workers = self.workers.borrow_mut();
        if workers.is_empty() {
            return;
        }
        let nth = nth % workers.len();
        let worker = &mut workers[nth];
        let before = worker.handle.acknowledged().get();
        let mut context = Context::from_waker(Waker::noop());
        let polled = worker.future.as_mut().poll(&mut context);
        let acknowledged = worker.handle.acknowledged().get();
        if acknowledged != before && acknowledged < worker.handle.progress().next() {
            lock(&schedule.world).see("flushes that pass over a trip");
        }
        let Poll::Ready(WorkerReport { counts, error }) = polled else { return };
        // In order: the latest worker of a partition is the one that holds it.
        drop(workers.remove(nth));
        let mut world = lock(&schedule.world);
        let dropped: u64 = counts.dropped.values().sum();
        if counts.delivered != counts.applied + counts.duplicates + dropped + counts.dead() {
            world.bad.insert("I3");
        }
        if let Some(error) = error {
            world.log(|| format!("{}: a worker failed: {error:?}", self.id));
            world.bad.insert("a worker failed");
        }
    }

    /// The offsets that the first worker has processed, and made durable.
    pub fn progress(&self) -> Option<(i64, i64)> {
        let workers = self.workers.borrow();
        let handle = &workers.first()?.handle;
        Some((handle.progress().next(), handle.acknowledged().get()))
    }

    /// Its workers, as its HTTP server asks them.
    pub fn live(&self) -> Arc<LiveWorkers> {
        Arc::clone(&self.options.live)
    }

    pub fn workers(&self) -> usize {
        self.workers.borrow().len()
    }

    /// The polling loop ended. I10: after a clean end, all that was sent is durable and committed.
    fn ends(&self, polling: &Polling, result: Result<DrainResult, KafkaError>, of: &Schedule) {
        let mut world = lock(&of.world);
        world.log(|| format!("{} ends: {result:?}", self.id));
        match result {
            Ok(DrainResult::All) => {
                world.see("clean hand-overs");
                for (handle, resets) in polling.closing.iter().flatten() {
                    let lane = world.lanes.iter().position(|of| of.partition == handle.partition());
                    let committed = world.committed(lane.expect("there is such a partition"));
                    let is_committed = committed >= handle.acknowledged().get();
                    if handle.has_ended() != Some(WorkerExit::Drained) {
                        world.bad.insert("I10 a clean end before all is durable");
                    } else if !is_committed && *resets == world.resets {
                        world.bad.insert("I10 a clean end before all is committed");
                    }
                }
            }
            Ok(_) => world.see("drains that end too late"),
            Err(KafkaError::Expired { .. }) => world.see("starts that are refused"),
            Err(KafkaError::TopicMismatch { .. } | KafkaError::Client { .. }) => {
                world.see("processes that fail");
            }
            Err(_) => {
                world.bad.insert("a process failed");
            }
        }
    }

    /// It is killed: nothing of it continues.
    pub fn die(&self, schedule: &Schedule) {
        self.is_dead.set(true);
        lock(&schedule.world).die(self.id);
        self.workers.borrow_mut().clear();
        if let Ok(mut polling) = self.polling.try_borrow_mut() {
            *polling = None;
        }
    }

    /// Whether nothing of it runs any more.
    pub fn is_gone(&self) -> bool {
        let has_ended = self.polling.try_borrow().is_ok_and(|polling| polling.is_none());
        has_ended && (self.is_dead.get() || self.workers() == 0)
    }

    /// Whether it reads, and continues to.
    pub fn is_live(&self) -> bool {
        let is_off = self.is_dead.get() || self.stops.get() || self.is_frozen.get();
        !is_off && self.polling.try_borrow().map_or(true, |polling| polling.is_some())
    }

    pub fn is_dead(&self) -> bool {
        self.is_dead.get()
    }
}

fn happens(world: &mut World, id: usize, event: &ConsumerEvent) {
    world.log(|| format!("{id}: {event:?}"));
    match event {
        ConsumerEvent::Expired { partition, next, .. } => world.choose_start(*partition, *next),
        ConsumerEvent::Warning(text) if text.contains("starting again") => {
            world.see("workers that start again");
        }
        ConsumerEvent::Revoked { late: true, .. } => world.see("revocations that come too late"),
        ConsumerEvent::Warning(text) if text.contains("do not keep offset") => {
            world.see("commits that are repeated");
        }
        ConsumerEvent::Behind { .. } => world.see("workers that read again what was restored"),
        _ => (),
    }
}
