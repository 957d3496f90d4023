//! What every request is answered from.

use std::collections::BTreeMap;
use std::future::Future;
use std::num::NonZero;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::{Semaphore, watch};

use super::body::MAX_BROUGHT;
use super::budget::Budget;
use super::clients::PerClient;
use super::middleware::policy;
use super::problem::Problem;
use super::sessions::Sessions;
use super::token::Token;
use crate::kafka::consumer::ConsumerEvent;
use crate::kafka::tail::Tail;
use crate::ops::ingest_request::SampleSink;
use crate::pipeline::daemon::DaemonEvent;
use crate::store::{EpochStore, StoreError, TripRow, TripStore};
use crate::views::is_open;

/// Maximum memory of all bodies of requests, in bytes: four of the largest.
const MAX_BODIES: usize = 4 * MAX_BROUGHT;

/// Maximum memory of all answers on their way, in bytes.
const MAX_ANSWERS: usize = 64 << 20;

/// A store that can be served.
pub trait ServableStore: TripStore + EpochStore + 'static {
    /// Which events of the change feed it keeps, as the numbers of the first and of the one after
    /// the last; `None` where it keeps none.
    ///
    /// # Errors
    /// The store cannot be read.
    fn kept_changes(&self) -> Result<Option<(i64, i64)>, StoreError>;

    /// Events after a number, as (number, JSON), oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    fn changes(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, StoreError>;

    /// Why the store cannot be read now, if it cannot.
    fn is_well(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// How the surface behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// What a client has to know; `None` lets everybody in.
    pub token: Option<Token>,
    /// Where map tiles come from, with `{z}`, `{x}` and `{y}` in it.
    pub tiles: Option<String>,
    /// Origins whose pages may read answers.
    pub cors: Vec<String>,
    /// Only requests to this machine by address, or by `localhost`, are answered: a page of another
    /// site could name this machine as its own otherwise.
    pub by_address_only: bool,
    /// A trip that ended less than this and `max_gap` ago may still grow, ms.
    pub settle_ms: i64,
    /// How many requests are worked on at once.
    pub requests: usize,
    /// How many clients may follow the changes at once.
    pub streams: usize,
    /// How many streams one client may follow; 0: an eighth of all, and on this machine all.
    pub streams_per_client: usize,
    /// How many connections there may be.
    pub connections: usize,
    /// How many connections one client may have; 0: an eighth of all, and on this machine all.
    pub connections_per_client: usize,
}

/// How long a wait counts: what waits says so again and again.
const WAIT_COUNTS: Duration = Duration::from_secs(10);

/// Something that has to be so before traffic comes here.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Waits>>);

#[derive(Debug, Default)]
struct Waits {
    /// It was so once.
    came: bool,
    last: Option<(String, Instant)>,
    /// Partitions that have stopped while they are held, and why.
    stopped: BTreeMap<i32, String>,
}

impl Readiness {
    /// Follows what a daemon tells of its log.
    pub fn hear(&self, notice: &DaemonEvent) {
        match notice {
            DaemonEvent::Waiting(what) => self.set_unmet(what),
            DaemonEvent::Consumer(ConsumerEvent::Assigned { partition, .. }) => {
                self.waiting().stopped.remove(partition);
                self.set_met();
            }
            DaemonEvent::Consumer(ConsumerEvent::Stopped { partition, .. }) => {
                self.waiting().stopped.insert(*partition, notice.to_string());
            }
            DaemonEvent::Consumer(
                ConsumerEvent::Revoked { partition, .. } | ConsumerEvent::Lost { partition },
            ) => {
                self.waiting().stopped.remove(partition);
            }
            DaemonEvent::Consumer(_) => (),
        }
    }

    /// It is not so, and why.
    pub fn set_unmet(&self, why: &str) {
        self.waiting().last = Some((why.to_owned(), Instant::now()));
    }

    /// It is so.
    pub fn set_met(&self) {
        let mut waits = self.waiting();
        (waits.came, waits.last) = (true, None);
    }

    fn waiting(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Why it is not so.
    #[must_use]
    pub fn unmet_reason(&self) -> Option<String> {
        let waits = self.waiting();
        if !waits.stopped.is_empty() {
            let problems: Vec<_> = waits.stopped.values().map(String::as_str).collect();
            return Some(problems.join("; "));
        }
        let (why, at) = waits.last.as_ref()?;
        (!waits.came || at.elapsed() < WAIT_COUNTS).then(|| why.clone())
    }
}

/// What every request is answered from.
pub struct App<S> {
    store: OnceLock<S>,
    max_gap_ms: AtomicI64,
    pub(super) options: Options,
    intake: OnceLock<SampleSink>,
    tail: OnceLock<Tail>,
    /// What the page may load, as a header.
    pub(super) policy: String,
    pub(super) answers: Budget,
    pub(super) bodies: Budget,
    /// Threads for work that would hold up other requests.
    workers: Arc<Semaphore>,
    pub(super) sessions: Sessions,
    pub(super) log: Option<Readiness>,
    pub(super) requests: Arc<Semaphore>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) streams_of: PerClient<String>,
    stopping: watch::Sender<bool>,
    clock: fn() -> i64,
}

impl<S: ServableStore> App<S> {
    /// A surface whose store is not there yet; `clock` tells ms since 1970.
    #[must_use]
    pub fn new(options: Options, clock: fn() -> i64) -> Self {
        let workers = std::thread::available_parallelism().map_or(2, NonZero::get);
        Self {
            store: OnceLock::new(),
            max_gap_ms: AtomicI64::new(0),
            intake: OnceLock::new(),
            tail: OnceLock::new(),
            policy: policy(options.tiles.as_deref()),
            answers: Budget::new(MAX_ANSWERS),
            bodies: Budget::new(MAX_BODIES),
            workers: Arc::new(Semaphore::new(workers)),
            sessions: Sessions::default(),
            log: None,
            requests: Arc::new(Semaphore::new(options.requests)),
            streams: Arc::new(Semaphore::new(options.streams)),
            streams_of: PerClient::default(),
            options,
            stopping: watch::Sender::new(false),
            clock,
        }
    }

    /// Is ready only while a log is read.
    #[must_use]
    pub fn reading(mut self, log: Readiness) -> Self {
        self.log = Some(log);
        self
    }

    /// Samples at most this far apart share a trip, ms.
    pub fn set_max_gap(&self, max_gap_ms: i64) {
        self.max_gap_ms.store(max_gap_ms, Ordering::Relaxed);
    }

    /// The store, once it is there.
    #[must_use]
    pub fn opened(&self) -> Option<&S> {
        self.store.get()
    }

    /// Answers from a store from now on, whose trips were built with `max_gap_ms`.
    pub fn open(&self, store: S, max_gap_ms: i64) {
        self.set_max_gap(max_gap_ms);
        // A second one is not taken: the first is whole.
        self.store.set(store).ok();
    }

    /// Takes samples from now on.
    pub fn set_sink(&self, intake: SampleSink) {
        // A second one is not taken: the first is whole.
        self.intake.set(intake).ok();
    }

    /// What takes samples.
    pub(super) fn intake(&self) -> Option<&SampleSink> {
        self.intake.get()
    }

    /// Tells changes of this topic from now on, where the store keeps none.
    pub fn set_feed(&self, tail: Tail) {
        // A second one is not taken: the first is whole.
        self.tail.set(tail).ok();
    }

    /// The topic of changes.
    pub(super) fn tail(&self) -> Option<&Tail> {
        self.tail.get()
    }

    /// Does work that takes the processor for long on a thread of its own, so that other requests
    /// are answered meanwhile. Work that nobody waits for any more is done all the same.
    pub(super) async fn off_runtime<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let permit = Arc::clone(&self.workers).acquire_owned().await.expect("it is never closed");
        let work = move || {
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work).await.expect("the work does not panic")
    }

    /// Ends streams, so that connections can end.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Is told when streams have to end.
    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// The store, once it is there.
    pub(super) fn store(&self) -> Result<&S, Problem> {
        self.opened().ok_or_else(|| {
            Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "store_unavailable",
                "the store is not reached yet; /readyz?verbose tells what is waited for",
            )
        })
    }

    /// The reader's clock, ms since 1970.
    pub(super) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Samples at most this far apart share a trip, ms.
    pub(super) fn max_gap_ms(&self) -> i64 {
        self.max_gap_ms.load(Ordering::Relaxed)
    }

    /// Whether a trip may still grow at its end.
    pub(super) fn is_open(&self, row: &TripRow) -> bool {
        is_open(row, self.max_gap_ms(), self.options.settle_ms, self.now_ms())
    }
}
