//! Questions to the memory of other instances of `run`: of one that asks, and of one that answers.
//!
//! Requests between instances are signed with their tokens, of which they need one in common. The
//! tokens themselves are not sent: the address comes from the consumer group, in which others may
//! be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http_body_util::{BodyExt as _, Full, Limited as LimitedBody};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use metrics::counter;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::access::Denied;
use super::app::App;
use super::body::Limited;
use super::clients::Peer;
use super::params::MAX_LIMIT;
use super::peer_connect::PeerConnector;
use super::phase::Store;
use super::problem::{ParamError, Problem};
use super::tokens::Tokens;
use crate::identity::DeviceId;
use crate::pipeline::daemon::{LiveWorkers, Owners};
use crate::store::fresh::{MemoryAnswer, MemoryQuestion, OwnerMemory};
use crate::store::{TripRow, TripStore as _};
use crate::telemetry::{FORWARDED, MEMORY_QUESTIONS, NOT_FORWARDED};
use crate::tls::Connector;

/// Path of the route. It is not part of the API.
pub const PATH: &str = "/internal/memory";

/// Maximum size of a question, bytes: a device id of which each byte is escaped, and numbers.
const MAX_QUESTION: usize = 4 << 10;

/// Maximum number of trips in an answer: those of a page, and the first one after it.
const MAX_TRIPS: usize = MAX_LIMIT + 1;

/// Maximum size of an answer of another instance, bytes. A longer one is not read.
const MAX_PEER_ANSWER: usize = 8 << 20;

/// Maximum questions to other instances at once; the store answers the others alone. This bounds
/// the memory of their answers.
const MAX_FORWARDS: usize = 8;

/// How long another instance has to answer.
const PEER_TIMEOUT: Duration = Duration::from_millis(300);

/// How long an instance that did not answer is not asked again.
const SILENCE: Duration = Duration::from_secs(5);

/// Maximum number of instances that are known as silent.
const MAX_SILENT: usize = 1024;

/// The other instances of the consumer group.
pub struct Peers {
    owners: Arc<Owners>,
    /// The address that this instance advertises.
    own: String,
    tokens: Option<Arc<Tokens>>,
    client: Client<PeerConnector, Full<Bytes>>,
    slots: Semaphore,
    /// Instances that did not answer, and until when they are not asked.
    silent: Mutex<BTreeMap<String, Instant>>,
}

impl Peers {
    /// The instances that `owners` names. `own` is the address of this one; without `tls`, those
    /// whose address is `https` are not asked.
    #[must_use]
    pub fn new(
        owners: Arc<Owners>,
        own: String,
        tokens: Option<Arc<Tokens>>,
        tls: Option<Connector>,
    ) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(PeerConnector::new(tls));
        let (slots, silent) = (Semaphore::new(MAX_FORWARDS), Mutex::default());
        Self { owners, own, tokens, client, slots, silent }
    }

    /// What another instance has in memory; `None` if none is known to own the device, or it does
    /// not answer in time.
    async fn read_memory(
        &self,
        store: &Store,
        question: &MemoryQuestion,
        now_ms: i64,
    ) -> Option<MemoryAnswer> {
        let partition = self.partition(store, &question.device_id).await?;
        let address = self.owners.address(partition)?;
        if address == self.own || self.is_silent(&address) {
            return None;
        }
        let _slot = self.slots.try_acquire().ok()?;
        let answer = timeout(PEER_TIMEOUT, self.send(&address, question, now_ms)).await;
        let answer = answer.unwrap_or_else(|_| Err("it did not answer in time".into()));
        let result = if answer.is_ok() { FORWARDED } else { NOT_FORWARDED };
        counter!(MEMORY_QUESTIONS, "result" => result).increment(1);
        match answer {
            Ok(answer) => answer.map(|answer| trusted(answer, question)),
            Err(why) => {
                tracing::debug!(address, why, "another instance did not answer");
                self.set_silent(address);
                None
            }
        }
    }

    /// The partition of a device: computed, else claimed.
    async fn partition(&self, store: &Store, device_id: &str) -> Option<i32> {
        let division = self.owners.division()?;
        match division.computed(device_id) {
            Some(partition) => Some(partition),
            None => store.claimed(device_id, division.epoch).await.ok()?,
        }
    }

    /// Sends a question. `None` is an answer, too: that instance reads no such partition.
    async fn send(
        &self,
        address: &str,
        question: &MemoryQuestion,
        now_ms: i64,
    ) -> Result<Option<MemoryAnswer>, String> {
        let body = serde_json::to_vec(question).expect("text and numbers");
        let uri: Uri = format!("{address}{PATH}").parse().map_err(|_| "it is not a URL")?;
        let mut request = Request::post(uri).header(header::CONTENT_TYPE, "application/json");
        let signature = self.tokens.as_ref().and_then(|it| it.current().sign(&body, now_ms));
        if let Some(signature) = signature {
            request = request.header(header::AUTHORIZATION, signature);
        }
        let request = request.body(Full::from(body)).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| error.to_string())?;
        match response.status() {
            StatusCode::OK => (),
            StatusCode::NO_CONTENT => return Ok(None),
            other => return Err(format!("status {other}")),
        }
        let body = LimitedBody::new(response.into_body(), MAX_PEER_ANSWER).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        serde_json::from_slice(&body).map(Some).map_err(|error| error.to_string())
    }

    fn is_silent(&self, address: &str) -> bool {
        let silent = self.silent.lock().expect("no holder of the lock panics");
        silent.get(address).is_some_and(|until| Instant::now() < *until)
    }

    fn set_silent(&self, address: String) {
        let mut silent = self.silent.lock().expect("no holder of the lock panics");
        if silent.len() >= MAX_SILENT {
            silent.clear();
        }
        silent.insert(address, Instant::now() + SILENCE);
    }
}

/// What an answer of another instance may contain: trips of the device and span of the question.
fn trusted(mut answer: MemoryAnswer, question: &MemoryQuestion) -> MemoryAnswer {
    let is_asked = |row: &TripRow| {
        row.device_id == question.device_id
            && row.start_ms <= row.end_ms
            && row.start_ms <= question.upto_ms
            && row.end_ms >= question.from_ms
            && row.is_whole()
    };
    answer.rows.retain(is_asked);
    answer.rows.truncate(question.limit);
    answer
}

/// The memory of the owners of devices: of this instance, or else of another one.
pub(super) struct Memory<'a> {
    pub live: Option<Arc<LiveWorkers>>,
    pub peers: Option<(Arc<Peers>, &'a Store)>,
    pub now_ms: i64,
}

impl OwnerMemory for Memory<'_> {
    async fn answer(&self, question: MemoryQuestion) -> Option<MemoryAnswer> {
        let Some((peers, store)) = &self.peers else { return self.live.answer(question).await };
        let own = self.live.answer(question.clone()).await;
        let knows = |own: &MemoryAnswer| own.complete_before.is_some() || !own.rows.is_empty();
        if own.as_ref().is_some_and(knows) {
            return own;
        }
        peers.read_memory(store, &question, self.now_ms).await.or(own)
    }
}

/// Answers a question of another instance from the memory of this one.
pub async fn answer(
    State(app): State<Arc<App>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Limited<MAX_QUESTION>,
) -> Result<Response, Problem> {
    let is_signed =
        |tokens: &Arc<Tokens>| tokens.current().signed(&headers, &body.bytes, app.now_ms());
    if !app.options.tokens.as_ref().is_none_or(is_signed) {
        let client = peer.map(|Extension(peer)| peer);
        app.refusals.unauthorized(Denied::WrongSignature, PATH, client);
        let detail = "the question is not signed with a token of this instance that may read, or \
             its clock is more than a minute off";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
    }
    let invalid = |error: String| Problem::faults(vec![ParamError::new("body", error)]);
    let question: MemoryQuestion =
        serde_json::from_slice(&body.bytes).map_err(|error| invalid(error.to_string()))?;
    DeviceId::new(question.device_id.as_str()).map_err(|error| invalid(error.to_string()))?;
    if question.limit > MAX_TRIPS {
        return Err(invalid(format!("limit is {}, more than {MAX_TRIPS}", question.limit)));
    }
    drop(body);
    Ok(match app.live.answer(question).await {
        Some(answer) => Json(answer).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
