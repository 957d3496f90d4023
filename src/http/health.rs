//! Whether the program lives, is ready, and which it is.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{App, ServableStore};

/// One thing that has to be so.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Check {
    /// `store` or `log`.
    name: &'static str,
    /// Whether it is.
    ok: bool,
    /// Why not: in one word, and in full for those who show the token.
    problem: Option<String>,
}

/// Whether the program is ready, and why not.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Ready {
    /// Whether all checks are well.
    ready: bool,
    /// Told with `?verbose`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    checks: Vec<Check>,
}

/// Which program this is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Version {
    /// Of the package.
    version: &'static str,
    /// The commit that it was built from.
    commit: &'static str,
}

/// Whether the program lives. Looks at nothing else: a restart would not help what it waits for.
#[utoipa::path(get, path = "/livez", tag = "health", operation_id = "livez", security(()),
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
pub async fn live() -> &'static str {
    "ok\n"
}

/// Whether requests can be answered, and records read where this process reads them.
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "readyz", security(()),
    params(("verbose" = Option<String>, Query, description = "Tell each check", allow_reserved)),
    responses(
        (status = 200, description = "It is ready", body = Ready),
        (status = 503, description = "It is not", body = Ready),
    ))]
pub async fn ready<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    query: RawQuery,
    headers: HeaderMap,
) -> Response {
    let store = match app.store() {
        Ok(store) => store.is_well().await.err().map(|error| (error.kind(), error.to_string())),
        Err(_) => Some(("not_reached", "it is not reached yet".to_owned())),
    };
    // What is waited for names hosts, files and topics, which are no business of a stranger.
    let is_told_all = app.access(&headers).is_some();
    let check = |name, problem: Option<(&str, String)>| {
        let ok = problem.is_none();
        let problem = problem.map(|(kind, text)| if is_told_all { text } else { kind.to_owned() });
        Check { name, ok, problem }
    };
    let mut checks = vec![check("store", store)];
    let log = app.log.as_ref().map(|log| log.unmet_reason().map(|why| ("waiting", why)));
    checks.extend(log.map(|why| check("log", why)));
    let ready = checks.iter().all(|check| check.ok);
    let is_verbose = query.0.is_some_and(|query| query.split('&').any(|it| is(it, "verbose")));
    if !is_verbose {
        checks.clear();
    }
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, checks })).into_response()
}

fn is(pair: &str, name: &str) -> bool {
    pair.split('=').next() == Some(name)
}

/// Which program this is.
#[utoipa::path(get, path = "/version", tag = "health", operation_id = "version", security(()),
    responses((status = 200, description = "Version and commit", body = Version)))]
pub async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION"), commit: env!("TSTAR_COMMIT") })
}

/// Counters and histograms, in the text form of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses((status = 200,
        description = "The text form of Prometheus", body = String, content_type = "text/plain")))]
pub async fn metrics() -> Response {
    let kind = crate::telemetry::CONTENT_TYPE;
    ([(header::CONTENT_TYPE, kind)], crate::telemetry::render()).into_response()
}
