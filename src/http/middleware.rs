//! Middleware: host check, limits of requests, time and memory, response headers, metrics.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_body_util::{BodyExt, Collected};
use tokio::sync::OwnedSemaphorePermit;

use super::access::Access;
use super::app::App;
use super::budget::{MAX_ANSWER, MAX_ANSWERS, Share};
use super::clients::{ClientKey, ClientSlot, Peer};
use super::page::policy;
use super::problem::Problem;
use crate::telemetry as names;

/// Maximum time of a request, including its body.
const MAX_TIME: Duration = Duration::from_secs(30);

/// For how long browsers use HTTPS alone for the host of a server that has TLS: a year.
const HSTS: &str = "max-age=31536000";

/// Bytes of an answer that are sent at once.
const CHUNK: usize = 64 << 10;

/// Answers up to this size do not count against the budget: the number of connections bounds them.
const SMALL: usize = 8 << 10;

/// Memory that the compression of an answer takes, in bytes.
const COMPRESSION: usize = 256 << 10;

/// Counts requests by route and status.
pub(crate) async fn measure(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let route = path.as_ref().map_or("none", MatchedPath::as_str).to_owned();
    let began = Instant::now();
    let response = next.run(request).await;
    let code = response.status().as_u16().to_string();
    metrics::counter!(names::HTTP_REQUESTS, "route" => route.clone(), "code" => code).increment(1);
    metrics::histogram!(names::HTTP_REQUEST_DURATION, "route" => route)
        .record(began.elapsed().as_secs_f64());
    response
}

/// Rejects requests with two `Host` headers or a host name that is not allowed.
pub(crate) async fn check_host(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Err(foreign_name("the request has two `Host` headers; send one"));
    }
    if app.options.by_address_only() && !is_by_address(request.headers()) {
        return Err(foreign_name(
            "without a token only an IP address or localhost is valid as host; set --token-file or --insecure",
        ));
    }
    Ok(next.run(request).await)
}

pub(super) fn foreign_name(detail: &str) -> Problem {
    Problem::new(StatusCode::MISDIRECTED_REQUEST, "foreign_name", detail)
}

fn is_by_address(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

/// Aborts requests that take longer than [`MAX_TIME`], on every route.
pub(crate) async fn limit_time(request: Request, next: Next) -> Result<Response, Problem> {
    tokio::time::timeout(MAX_TIME, next.run(request)).await.map_err(|_| {
        let detail = format!("the request took more than {} s", MAX_TIME.as_secs());
        Problem::cut_off(StatusCode::SERVICE_UNAVAILABLE, "slow_request", detail)
    })
}

/// Limits concurrent requests. One with a body counts once the body is complete
/// ([`super::body::Limited`]), so that slow uploads do not block other clients.
pub(crate) async fn limit_requests(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let has_body = [Method::POST, Method::PUT].contains(request.method());
    let _permit = (!has_body).then(|| app.acquire()).transpose()?;
    Ok(next.run(request).await)
}

impl App {
    /// Acquires the permit of a request; fails if as many as the setting `requests` allows
    /// are being answered.
    pub(super) fn acquire(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        permit.map_err(|_| Problem::busy("requests", "too many requests at once"))
    }
}

/// An answer with its share of the memory of all answers, and of those of its client.
struct Accounted {
    bytes: Bytes,
    _shares: (Share, Vec<ClientSlot<ClientKey>>),
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The part of the memory of all answers that one token may take: a half.
const TOKEN_SHARE: usize = 2;

/// The limits of a client's answers, bytes: an eighth of all for its login or address, and a half
/// for its token. So readers that are slow leave place for others, also with many logins or
/// addresses.
fn answer_limits(access: &Access, peer: Peer) -> impl Iterator<Item = (ClientKey, usize)> {
    let token = access.token().map(|it| (ClientKey::Token(it.key()), MAX_ANSWERS / TOKEN_SHARE));
    [(access.client(peer), peer.limit(0, MAX_ANSWERS))].into_iter().chain(token)
}

/// Limits the memory of each answer, of those of a client and of all answers. An answer counts
/// until its client has read it.
pub(crate) async fn limit_memory(
    State(app): State<Arc<App>>,
    Extension(access): Extension<Access>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let limits = answer_limits(&access, peer);
    let response = next.run(request).await;
    // An answer without a length is a stream, which is never completely in memory.
    let length = response.body().size_hint().exact().and_then(|it| usize::try_from(it).ok());
    let Some(length) = length.filter(|length| *length > SMALL) else { return Ok(response) };
    if length > MAX_ANSWER {
        return Err(Problem::large_answer());
    }
    let compression = if length > CHUNK { COMPRESSION } else { 0 };
    let bytes = length + compression;
    let of_client = limits.map(|(client, max)| {
        let slot = app.client_answers.acquire_many(client, bytes, max);
        let detail = "this client has too many answers that it did not read yet";
        slot.ok_or_else(|| Problem::busy("client_answers", detail))
    });
    let of_client = of_client.collect::<Result<Vec<_>, _>>()?;
    let share = app.answers.reserve(bytes)?;
    let (mut parts, body) = response.into_parts();
    parts.headers.entry(header::CONTENT_LENGTH).or_insert(length.into());
    let Ok(bytes) = body.collect().await.map(Collected::to_bytes) else {
        return Err(Problem::busy("memory", "the answer was cut off"));
    };
    // All chunks share one buffer, which is freed with the last.
    let bytes = Bytes::from_owner(Accounted { bytes, _shares: (share, of_client) });
    let chunk = move |at| Ok::<_, Infallible>(bytes.slice(at..length.min(at + CHUNK)));
    let chunks = stream::iter((0..length).step_by(CHUNK).map(chunk));
    Ok(Response::from_parts(parts, Body::from_stream(chunks)))
}

/// The security and cache headers of every answer that has none of its own.
pub(crate) fn headers(app: &App) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let policy = policy(app.options.settings.http.tiles.as_deref());
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "private, no-cache"),
    ];
    let of_tls = app.has_tls().then_some((header::STRICT_TRANSPORT_SECURITY, HSTS));
    let fixed = fixed.into_iter().chain(of_tls);
    let fixed = fixed.map(|(name, value)| (name, HeaderValue::from_static(value)));
    let policy = HeaderValue::from_str(&policy).ok();
    policy.map(|policy| (header::CONTENT_SECURITY_POLICY, policy)).into_iter().chain(fixed)
}

/// Answers requests to unknown paths.
pub(crate) async fn not_found() -> Response {
    let detail = "this path does not exist; see /openapi.json";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail).into_response()
}

/// Answers requests with a method that the path does not support.
pub(crate) async fn method_not_allowed() -> Response {
    let detail = "this path does not support this method; see /openapi.json";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into_response()
}
