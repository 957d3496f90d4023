//! State shared by all requests.

use std::num::NonZero;
use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, watch};

use super::audit::Limited;
use super::basemap::Basemap;
use super::budget::{Budget, MAX_ANSWERS, MAX_BODIES};
use super::clients::{ClientKey, PerClient};
use super::phase::{OpenStore, Phase};
use super::problem::Problem;
use super::reloaded::Tls;
use super::sessions::Sessions;
use super::tokens::Tokens;
use crate::ops::readiness::Readiness;
use crate::pipeline::daemon::{LiveWorkers, Owners};
use crate::settings::Settings;
use crate::store::AnyStore;
use crate::store::TripRow;
use crate::views::is_open;

/// Maximum concurrent lookups of many pairs; more wait.
const MAX_BULK_LOOKUPS: usize = 4;

/// Maximum concurrent lists of devices; more wait. The tags of one may take 20 MiB until it is
/// written: 4 as they are, 8 that are read ahead, and 8 as JSON.
const MAX_DEVICE_LISTS: usize = 4;

/// Maximum concurrent summaries.
pub(super) const MAX_SUMMARIES: usize = 4;

/// Options of the HTTP server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tokens that clients may send; `None`: no authentication.
    pub tokens: Option<Arc<Tokens>>,
    /// Certificate of the server; `None`: HTTP without TLS.
    pub tls: Option<Arc<Tls>>,
    /// The base map of the page, if it has one.
    pub basemap: Option<Arc<Basemap>>,
    /// The settings.
    pub settings: Settings,
}

impl Options {
    /// Whether the `Host` header may have only IP addresses and `localhost`: protects against DNS
    /// rebinding.
    pub(super) fn by_address_only(&self) -> bool {
        self.tokens.is_none() && !self.settings.http.insecure
    }
}

/// State shared by all requests.
pub struct App {
    phase: watch::Sender<Phase>,
    pub(super) options: Options,
    pub(super) answers: Budget,
    pub(super) bodies: Budget,
    /// Bounds the threads for work that would delay other requests.
    workers: Arc<Semaphore>,
    /// Bounds the lookups of many pairs, which read one after the other: the reads of other
    /// requests wait for few of theirs.
    pub(super) bulk_lookups: Semaphore,
    pub(super) client_lookups: PerClient<ClientKey>,
    /// Bounds the memory of lists of devices with their tags.
    pub(super) device_lists: Semaphore,
    /// Bounds the summaries, each of which may read for seconds. None waits, or they would take the
    /// places of other requests.
    pub(super) summaries: Semaphore,
    pub(super) client_summaries: PerClient<ClientKey>,
    pub(super) sessions: Sessions,
    /// Limits what is logged of refusals and logins.
    pub(super) audit: Limited,
    pub(super) log: Option<Readiness>,
    /// The partition workers of this process, if it has any.
    pub(super) live: Option<Arc<LiveWorkers>>,
    /// The names of the other instances that read the topic, if they have names.
    pub(super) owners: Option<Arc<Owners>>,
    pub(super) requests: Arc<Semaphore>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) client_streams: PerClient<ClientKey>,
    /// Memory of the answers being sent to each client, bytes.
    pub(super) client_answers: PerClient<ClientKey>,
    clock: fn() -> i64,
}

/// The answer until the store is open.
pub(super) fn store_unavailable() -> Problem {
    let detail = "the store is not connected yet; see /readyz?verbose";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
}

impl App {
    /// An app whose store is not open yet; `clock` returns ms since 1970.
    #[must_use]
    pub fn new(options: Options, clock: fn() -> i64) -> Self {
        let workers = std::thread::available_parallelism().map_or(2, NonZero::get);
        let app = Self {
            phase: watch::Sender::default(),
            answers: Budget::new(MAX_ANSWERS),
            bodies: Budget::new(MAX_BODIES),
            workers: Arc::new(Semaphore::new(workers)),
            bulk_lookups: Semaphore::new(MAX_BULK_LOOKUPS),
            client_lookups: PerClient::default(),
            device_lists: Semaphore::new(MAX_DEVICE_LISTS),
            summaries: Semaphore::new(MAX_SUMMARIES),
            client_summaries: PerClient::default(),
            sessions: Sessions::default(),
            audit: Limited::default(),
            log: None,
            live: None,
            owners: None,
            requests: Arc::new(Semaphore::new(options.settings.http.requests)),
            streams: Arc::new(Semaphore::new(options.settings.http.streams)),
            client_streams: PerClient::default(),
            client_answers: PerClient::default(),
            options,
            clock,
        };
        app.publish_expiry();
        app
    }

    /// Makes readiness depend on a log being read, and answers from the memory of its workers, too.
    /// `owners` names the instances that read the other partitions.
    #[must_use]
    pub fn reading(
        mut self,
        log: Readiness,
        live: Arc<LiveWorkers>,
        owners: Option<Arc<Owners>>,
    ) -> Self {
        self.log = Some(log);
        self.live = Some(live);
        self.owners = owners;
        self
    }

    /// Reads the files again that count without a restart when they change. Blocks on the file
    /// system.
    pub(super) fn check_files(&self) {
        if let Some(tokens) = self.options.tokens.as_ref().filter(|tokens| tokens.check()) {
            if tokens.current().is_empty() {
                tracing::warn!("token_file has no token now: every request is refused");
            }
            self.end_orphaned_sessions();
        }
        if self.options.tls.as_ref().is_some_and(|tls| tls.check()) {
            self.publish_expiry();
        }
    }

    /// Publishes when the certificate of the server expires.
    fn publish_expiry(&self) {
        if let Some(tls) = &self.options.tls {
            crate::telemetry::certificate_expires(tls.current().expires_s());
        }
    }

    /// Whether the server itself speaks TLS.
    pub(super) fn has_tls(&self) -> bool {
        self.options.tls.is_some()
    }

    /// Answers from `opened` from now on.
    pub fn open(&self, opened: OpenStore) {
        self.phase.send_modify(|phase| phase.open(opened));
    }

    /// Ends streams and idle connections, and completes the requests in progress.
    pub(super) fn drain(&self) {
        self.phase.send_modify(Phase::drain);
    }

    /// What the server does now and from now on.
    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// What requests are answered from, or `store_unavailable` until the store is open.
    pub(super) fn opened(&self) -> Result<OpenStore, Problem> {
        self.phase.borrow().opened().cloned().ok_or_else(store_unavailable)
    }

    /// The store, or `store_unavailable` until it is open.
    pub(super) fn store(&self) -> Result<Arc<AnyStore>, Problem> {
        self.opened().map(|opened| opened.store)
    }

    /// Runs CPU-bound work on a blocking thread, so that it does not delay other requests. The work
    /// runs to its end even if the request is cancelled.
    pub(super) async fn run_blocking<T: Send + 'static>(
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

    /// Current time of the reader's clock, ms since 1970.
    pub(super) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Whether a trip may still grow at its end.
    pub(super) fn is_open(&self, row: &TripRow) -> bool {
        let phase = self.phase.borrow();
        let (settle_ms, now_ms) = (self.options.settings.settle_ms, self.now_ms());
        phase
            .opened()
            .is_some_and(|opened| is_open(row, opened.rules.max_gap_ms, settle_ms, now_ms))
    }
}
