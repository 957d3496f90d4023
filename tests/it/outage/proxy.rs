//! Faults between the driver and a real server.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use scylla_proxy::{
    Condition, Node, Proxy, Reaction, RequestFrame, RequestOpcode, RequestReaction, RequestRule,
    ResponseFrame, ResponseOpcode, ResponseReaction, ResponseRule, RunningProxy, ShardAwareness,
    TargetShard, example_db_errors,
};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tstar::internals::model::scalar::Version;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::scylla::{ScyllaStore, ScyllaUrl, ServerOptions};
use tstar::internals::store::{Forget, TripRow, TripStore};
use tstar::internals::timeline::day_of;

use crate::conformance::{MIDNIGHT, at, trip};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::servers::{LIMIT, free_port};

/// The first bytes of a response's body: the response to a write has no others.
const VOID: [u8; 4] = [0, 0, 0, 1];
const ROWS: [u8; 4] = [0, 0, 0, 2];
const PREPARED: [u8; 4] = [0, 0, 0, 4];

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is delayed.
    Delayed,
    /// The request is lost.
    Dropped,
    /// The server replies that it is overloaded.
    Overloaded,
    /// The connection closes before the server has the request.
    Reset,
    /// A write succeeded, and the server reports that it may have failed.
    WriteTimeout,
    /// A write succeeded, and its response is lost.
    Unanswered,
    /// A write succeeded, and the connection closes.
    ResetAfter,
}

impl Fault {
    pub const ALL: [Self; 7] = [
        Self::Delayed,
        Self::Dropped,
        Self::Overloaded,
        Self::Reset,
        Self::WriteTimeout,
        Self::Unanswered,
        Self::ResetAfter,
    ];

    /// The effect on a request before the server has it.
    fn of_request(self) -> Option<RequestReaction> {
        match self {
            Self::Delayed => Some(RequestReaction::delay(Duration::from_millis(700))),
            Self::Dropped => Some(RequestReaction::drop_frame()),
            Self::Overloaded => Some(RequestReaction::forge().overloaded()),
            Self::Reset => Some(RequestReaction::drop_connection()),
            Self::WriteTimeout | Self::Unanswered | Self::ResetAfter => None,
        }
    }

    /// The effect on the response to a write.
    fn of_answer(self) -> ResponseReaction {
        match self {
            Self::Unanswered => ResponseReaction::drop_frame(),
            Self::ResetAfter => ResponseReaction::drop_connection(),
            _ => ResponseReaction::transform_frame(Arc::new(|answer: ResponseFrame| {
                let error = example_db_errors::write_timeout();
                ResponseFrame::forged_error(answer.params, error, None).unwrap()
            })),
        }
    }
}

/// The frames that a fault hit.
pub struct Fired {
    requests: UnboundedReceiver<(RequestFrame, Option<TargetShard>)>,
    answers: UnboundedReceiver<(ResponseFrame, Option<TargetShard>)>,
    count: usize,
}

impl Fired {
    /// Their number, so far.
    pub fn count(&mut self) -> usize {
        while self.requests.try_recv().is_ok() {
            self.count += 1;
        }
        while let Ok((answer, _)) = self.answers.try_recv() {
            assert_eq!(answer.body[..], VOID, "an answer to a write");
            self.count += 1;
        }
        self.count
    }
}

/// A proxy between the driver and a server.
pub struct FaultProxy {
    pub address: SocketAddr,
    proxy: RunningProxy,
    /// The proxy runs here.
    pub runtime: Runtime,
}

impl FaultProxy {
    /// A proxy before a node.
    pub fn start(node: &str) -> Self {
        let real = node.to_socket_addrs().unwrap().next().unwrap();
        // The driver keeps the address that it connects to, as there is only one node.
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let node = Node::new(real, address, ShardAwareness::Unaware, None, None);
        let proxy = runtime.block_on(Proxy::new([node]).run()).unwrap();
        Self { address, proxy, runtime }
    }

    /// Injects a fault into the next `times` requests that read or write trips; faults after a
    /// write hit the next `times` writes.
    pub fn inject(&mut self, fault: Fault, times: usize) -> Fired {
        let (to_requests, requests) = unbounded_channel();
        let (to_answers, answers) = unbounded_channel();
        let ordinary = || Condition::not(Condition::ConnectionRegisteredAnyEvent);
        let limited = Condition::TrueForLimitedTimes(times);
        let node = &mut self.proxy.running_nodes[0];
        if let Some(reaction) = fault.of_request() {
            let opcode = |opcode| Condition::RequestOpcode(opcode);
            let trips = opcode(RequestOpcode::Batch).or(opcode(RequestOpcode::Execute));
            let reaction = reaction.with_feedback_when_performed(to_requests);
            let rule = RequestRule(trips.and(ordinary()).and(limited), reaction);
            node.change_request_rules(Some(vec![rule]));
            node.change_response_rules(None);
        } else {
            let body_is = |body: [u8; 4]| Condition::BodyContainsCaseSensitive(Box::new(body));
            let result = Condition::ResponseOpcode(ResponseOpcode::Result);
            let other = body_is(ROWS).or(body_is(PREPARED));
            let write = result.and(body_is(VOID)).and(Condition::not(other));
            let reaction = fault.of_answer().with_feedback_when_performed(to_answers);
            let rule = ResponseRule(write.and(ordinary()).and(limited), reaction);
            node.change_response_rules(Some(vec![rule]));
            node.change_request_rules(None);
        }
        Fired { requests, answers, count: 0 }
    }

    /// Ends the injection of faults.
    pub fn calm(&mut self) {
        self.proxy.turn_off_rules();
    }
}

/// Seeded random numbers.
pub struct Seeded(ChaCha8Rng);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0.next_u32() as usize % limit
    }

    /// Each fault `each` times, in random order.
    pub fn faults(&mut self, each: usize) -> Vec<Fault> {
        let mut faults = Fault::ALL.repeat(each);
        for last in (1..faults.len()).rev() {
            faults.swap(last, self.below(last + 1));
        }
        faults
    }
}

/// A store behind a proxy, and one that connects directly.
struct Pair {
    keyspace: Arc<Keyspace>,
    direct: ScyllaStore,
    store: ScyllaStore,
    between: FaultProxy,
    waits: Arc<AtomicUsize>,
}

impl Pair {
    fn new() -> Option<Self> {
        let keyspace = Keyspace::shared(ClusteringOrder::Desc)?;
        let between = FaultProxy::start(&keyspace.url.nodes[0]);
        let nodes = vec![between.address.to_string()];
        let url = ScyllaUrl { nodes, keyspace: keyspace.url.keyspace.clone() };
        let waits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waits);
        let on_waiting = Arc::new(move |_: &str| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let request_timeout = Duration::from_millis(500);
        let options = ServerOptions { request_timeout, on_waiting, ..ServerOptions::default() };
        let connected = ScyllaStore::connect(&url, options);
        let store = between.runtime.block_on(connected).unwrap();
        Some(Self { direct: keyspace.store(), keyspace, store, between, waits })
    }

    /// The rows of a device on the server, read without the proxy.
    fn held(&self, device: &str) -> Vec<TripRow> {
        self.keyspace.runtime.block_on(self.direct.rows_of_day(device, day_of(MIDNIGHT))).unwrap()
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let timely = async { tokio::time::timeout(LIMIT, work).await.expect("an answer in time") };
        self.between.runtime.block_on(timely)
    }
}

#[test]
#[ignore = "at night: tests/nightly/long"]
fn what_is_acknowledged_is_durable_whatever_happens_to_requests() {
    let Some(mut pair) = Pair::new() else { return };
    let mut random = Seeded::new(7);
    let (mut fired, mut rows) = (0, Vec::new());
    for (fault, step) in random.faults(2).into_iter().zip(0..) {
        let times = 1 + random.below(6);
        let mut hits = pair.between.inject(fault, times);
        // A device grows over the steps of a round, so that late writes of older rows would show.
        let minutes: Vec<i64> = (0..=step).collect();
        let device = |nth| format!("proxied-{nth}");
        rows = (0..8).map(|nth| trip(&device(nth), &minutes, 100 + 2 * step)).collect();
        pair.wait(pair.store.apply(&rows)).unwrap();
        for row in &rows {
            assert_eq!(pair.held(&row.device_id), std::slice::from_ref(row), "{fault:?}");
        }
        for row in &rows {
            let found = pair.wait(pair.store.covering(&row.device_id, row.end_ms)).unwrap();
            assert_eq!(found.as_ref(), Some(row), "{fault:?}");
        }
        assert_eq!(hits.count(), times, "{fault:?} of step {step}");
        fired += times;
    }
    // A forget is several writes, one after the other.
    for (fault, row) in Fault::ALL.into_iter().zip(&rows) {
        let mut hits = pair.between.inject(fault, 2);
        let forget = Forget { version: Version(1000), before_ms: at(600) };
        pair.wait(pair.store.forget(&row.device_id, &forget)).unwrap();
        assert_eq!(pair.held(&row.device_id), []);
        let forgets = pair.keyspace.runtime.block_on(pair.direct.forgets(&row.device_id));
        assert_eq!(forgets.unwrap(), [forget], "{fault:?}");
        assert_eq!(hits.count(), 2, "{fault:?} of a forget");
        fired += 2;
    }
    pair.between.calm();
    let waits = pair.waits.load(Ordering::Relaxed);
    println!("{fired} requests with a fault, {waits} waits logged");
    assert!(waits > 0);
}
