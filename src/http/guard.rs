//! What every request passes: whom it names, how much is worked on at once, what is counted.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::app::{App, Served};
use super::problem::Problem;
use crate::metrics as names;

/// Longest time that a request may take, its body included, before it is given up.
const LONGEST: Duration = Duration::from_secs(30);

/// An answer beyond this many bytes counts as a large one.
const LARGE: u64 = 256 << 10;

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
pub async fn name<S: Served>(
    State(app): State<Arc<App<S>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
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

/// Works on so many requests at once, each for so long.
pub async fn limit<S: Served>(
    State(app): State<Arc<App<S>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Ok(permit) = app.requests.try_acquire() else {
        return Err(Problem::busy("too many requests at once"));
    };
    let answered = tokio::time::timeout(LONGEST, next.run(request)).await;
    drop(permit);
    let response = answered.map_err(|_| {
        let detail = format!("the request took more than {} s", LONGEST.as_secs());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", detail)
    })?;
    if response.body().size_hint().lower() < LARGE {
        return Ok(response);
    }
    // It is in memory until the client has taken it.
    let permit = Arc::clone(&app.large).try_acquire_owned();
    let permit = permit.map_err(|_| Problem::busy("too many large answers on their way"))?;
    Ok(response.map(|body| {
        let held = http_body_util::BodyExt::map_frame(body, move |frame| {
            let _held = &permit;
            frame
        });
        Body::new(held)
    }))
}

/// Headers of every answer.
pub async fn dress<S: Served>(
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
pub async fn nothing() -> Response {
    let detail = "there is nothing at this path; /openapi.json lists what there is";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail).into_response()
}

/// There is, but not with this method.
pub async fn not_so() -> Response {
    let detail = "this path does not take this method; /openapi.json lists what there is";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into_response()
}
