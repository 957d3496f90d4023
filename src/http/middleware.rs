//! What every request passes: whom it names, how much is worked on at once, what is counted.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Collected};
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::app::{App, ServableStore};
use super::budget::Share;
use super::problem::Problem;
use crate::telemetry as names;

/// Longest time that a request may take, its body included, before it is given up.
const LONGEST: Duration = Duration::from_secs(30);

/// Maximum bytes of an answer.
pub const MAX_ANSWER: usize = 32 << 20;

/// Bytes of an answer that are handed on at once.
const PIECE: usize = 64 << 10;

/// An answer of no more bytes is not accounted for: connections are few enough.
const SMALL: usize = 8 << 10;

/// What packing an answer takes beside it, until it is taken.
const PACKING: usize = 256 << 10;

/// Counts requests by route and status.
pub async fn measure(path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let route = path.as_ref().map_or("none", MatchedPath::as_str).to_owned();
    let began = Instant::now();
    let response = next.run(request).await;
    let code = response.status().as_u16().to_string();
    metrics::counter!(names::HTTP_REQUESTS, "route" => route.clone(), "code" => code).increment(1);
    metrics::histogram!(names::HTTP_REQUEST_DURATION, "route" => route)
        .record(began.elapsed().as_secs_f64());
    response
}

/// Refuses requests that name this machine by a foreign name.
pub async fn name<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_name",
            "the request names two hosts: send one `Host` header",
        ));
    }
    if app.options.by_address_only && !is_by_address(request.headers()) {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign_name",
            "this server answers to localhost and to addresses alone: set a token, or --insecure",
        ));
    }
    Ok(next.run(request).await)
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

/// Ends a request that takes too long, whatever its route.
pub async fn end_slow(request: Request, next: Next) -> Result<Response, Problem> {
    tokio::time::timeout(LONGEST, next.run(request)).await.map_err(|_| {
        let detail = format!("the request took more than {} s", LONGEST.as_secs());
        Problem::cut_off(StatusCode::SERVICE_UNAVAILABLE, "slow_request", detail)
    })
}

/// Works on so many requests at once. One that brings a body counts once the body is there
/// ([`super::body::Limited`]): clients that send slowly keep nobody else out.
pub async fn limit<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let is_counted_later = request.method() == Method::POST;
    let _permit = (!is_counted_later).then(|| app.acquire()).transpose()?;
    Ok(next.run(request).await)
}

impl<S: ServableStore> App<S> {
    /// One more request that is worked on.
    pub(super) fn acquire(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        permit.map_err(|_| Problem::busy("requests", "too many requests at once"))
    }
}

/// An answer with its share of the memory of all answers.
struct Paid {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer in pieces. Each holds the whole, as it is one memory: it is let go with the last.
struct Pieces(Bytes);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.0.len().min(PIECE);
        let piece = (length > 0).then(|| Ok(Frame::data(self.0.split_to(length))));
        Poll::Ready(piece)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// Bounds the memory of answers, one by one and all together: each counts until its client has
/// taken it.
pub async fn pay<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let response = next.run(request).await;
    // One without a length is a stream, which is never whole in memory.
    let length = response.body().size_hint().exact().and_then(|it| usize::try_from(it).ok());
    let Some(length) = length.filter(|length| *length > SMALL) else { return Ok(response) };
    if length > MAX_ANSWER {
        return Err(Problem::large_answer());
    }
    let packing = if length > PIECE { PACKING } else { 0 };
    let share = app.answers.reserve(length + packing)?;
    let (parts, body) = response.into_parts();
    let Ok(bytes) = body.collect().await.map(Collected::to_bytes) else {
        return Err(Problem::busy("memory", "the answer broke off"));
    };
    let pieces = Pieces(Bytes::from_owner(Paid { bytes, _share: share }));
    Ok(Response::from_parts(parts, Body::new(pieces)))
}

/// Headers of every answer.
pub async fn set_headers<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &str| {
        if let (false, Ok(value)) = (headers.contains_key(&name), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    };
    put(header::CONTENT_SECURITY_POLICY, &app.policy);
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::X_FRAME_OPTIONS, "DENY");
    put(header::REFERRER_POLICY, "no-referrer");
    put(header::CACHE_CONTROL, "private, no-cache");
    response
}

/// What the page may load, and from where: from this server alone, but for tiles where they are
/// named.
pub fn policy(tiles: Option<&str>) -> String {
    let origin = tiles.and_then(|url| {
        let (scheme, rest) = url.split_once("://")?;
        let host = rest.split('/').next()?.replace("{s}", "*");
        let is_host = |it: &str| {
            it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:*[]".contains(&byte))
        };
        is_host(&host).then(|| format!(" {scheme}://{host}"))
    });
    format!(
        "default-src 'self'; img-src 'self' data:{}; object-src 'none'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'",
        origin.unwrap_or_default()
    )
}

/// There is no such route.
pub async fn not_found() -> Response {
    let detail = "there is nothing at this path; /openapi.json lists what there is";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail).into_response()
}

/// There is, but not with this method.
pub async fn method_not_allowed() -> Response {
    let detail = "this path does not take this method; /openapi.json lists what there is";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into_response()
}
