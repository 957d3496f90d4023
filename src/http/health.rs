//! Routes for liveness, readiness, version and metrics.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::App;
use super::token::Right;

/// A condition of readiness.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Check {
    /// `store` or `log`.
    name: &'static str,
    /// Whether the condition is met.
    ok: bool,
    /// Why the condition is not met: one word, or the whole message if the request is authorised.
    problem: Option<String>,
}

/// Readiness, and the conditions with `?verbose`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Whether all conditions are met.
    ready: bool,
    /// The conditions; present with `?verbose` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    checks: Vec<Check>,
}

/// Version of the program.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    /// Package version.
    version: &'static str,
    /// Git commit of the build.
    commit: &'static str,
}

/// Liveness: 200 while the process runs. Checks nothing else, as a restart would not help.
#[utoipa::path(get, path = "/livez", tag = "health", operation_id = "livez", security(()),
    responses((status = 200, description = "The process runs", body = String, content_type = "text/plain")))]
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// Readiness: whether the store can be read and, in `tstar run`, the log is read.
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "readyz", security(()),
    params(("verbose" = Option<String>, Query, description = "List each check", allow_reserved)),
    responses(
        (status = 200, description = "Ready", body = Ready, example = json!({"ready": true})),
        (status = 503, description = "Not ready", body = Ready, example = json!({"ready": false})),
    ))]
pub(crate) async fn ready(
    State(app): State<Arc<App>>,
    query: RawQuery,
    headers: HeaderMap,
) -> Response {
    let store = match app.store() {
        Ok(store) => store.check().await.err().map(|error| (error.kind(), error.to_string())),
        Err(_) => Some(("not_reached", "not connected yet".to_owned())),
    };
    // The messages name hosts, files and topics: they are for authorised clients only.
    let is_authorised = app.access(&headers).is_ok_and(|access| access.has(Right::Read));
    let check = |name, problem: Option<(&str, String)>| {
        let ok = problem.is_none();
        let problem =
            problem.map(|(kind, text)| if is_authorised { text } else { kind.to_owned() });
        Check { name, ok, problem }
    };
    let mut checks = vec![check("store", store)];
    let log = app.log.as_ref().map(|log| log.unmet_reason().map(|reason| ("waiting", reason)));
    checks.extend(log.map(|problem| check("log", problem)));
    let ready = checks.iter().all(|check| check.ok);
    let is_verbose =
        query.0.is_some_and(|query| query.split('&').any(|pair| has_name(pair, "verbose")));
    if !is_verbose {
        checks.clear();
    }
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, checks })).into_response()
}

fn has_name(pair: &str, name: &str) -> bool {
    pair.split('=').next() == Some(name)
}

/// Version and commit of the program.
#[utoipa::path(get, path = "/version", tag = "health", operation_id = "version", security(()),
    responses((status = 200, description = "Version and commit", body = Version,
        example = json!({"version": env!("CARGO_PKG_VERSION"), "commit": "50074b4c6b5b"}))))]
pub(crate) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION"), commit: env!("TSTAR_COMMIT") })
}

/// Metrics in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses((status = 200,
        description = "Metrics in the Prometheus text format", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics() -> Response {
    let kind = crate::telemetry::CONTENT_TYPE;
    ([(header::CONTENT_TYPE, kind)], crate::telemetry::render()).into_response()
}
