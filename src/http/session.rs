//! Authentication: programs send the token, browsers the cookie of a login.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::{Extension, extract::FromRequest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::App;
use super::body::{Limited, MAX_LOGIN};
use super::clients::Peer;
use super::origin;
use super::page::PageSettings;
use super::problem::{ParamError, Problem};
use super::sessions::{MAX_AGE_S, SessionView};
use super::token::{basic_password, bearer};
use super::trips::path_segment;
use crate::model::time::format_time;

/// Name of the cookie without TLS.
const COOKIE: &str = "tstar";

/// Name of the cookie with TLS: browsers accept it from this host only, and only over TLS.
const SECURE_COOKIE: &str = "__Host-tstar";

/// How a request is authorised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The server has no token.
    Open,
    /// By the token.
    Token,
    /// By the cookie of the session with this name.
    Session(String),
}

/// A login request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The token of the server.
    token: String,
}

/// The active sessions.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    /// Sessions, most recently used first.
    sessions: Vec<SessionView>,
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// A cookie of this server. Scripts cannot read it, and requests of other sites do not send it.
fn cookie(id: &str, max_age_s: i64, is_secure: bool) -> String {
    let (name, secure) = if is_secure { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    format!("{name}={id}{secure}; HttpOnly; SameSite=Strict; Path=/; Max-Age={max_age_s}")
}

/// Starts a session and sets its cookie.
#[utoipa::path(post, path = "/v1/login", tag = "session", operation_id = "login",
    request_body = Login, security(()),
    responses(
        (status = 204, description = "The cookie is set"),
        (status = 400, description = "The body is not a valid login, or the server has no token",
            body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "The token is wrong",
            body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The request is from a page of another origin",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn login(
    State(app): State<Arc<App>>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    origin::reject_foreign(&headers)?;
    let Limited { bytes, .. } = Limited::<MAX_LOGIN>::from_request(request, &app).await?;
    let login: Result<Login, _> = serde_json::from_slice(&bytes);
    let login = login.map_err(|error| Problem::faults(vec![ParamError::new("body", error)]))?;
    let Some(token) = &app.options.token else {
        let problem = "this server has no token";
        return Err(Problem::faults(vec![ParamError::new("token", problem)]));
    };
    if !token.matches(&login.token) {
        return Err(unauthorized("the token is wrong"));
    }
    // A browser has one session: a new login ends the former one.
    if let Some(name) = app.session_of(&headers) {
        app.sessions.close(&name);
    }
    let address = peer.map(|Extension(Peer(address))| address);
    let id = app.sessions.open(address, app.now_ms()).map_err(|error| {
        tracing::error!(%error, "cannot read random bytes");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "cannot start a session now")
    })?;
    let cookie = cookie(&id, MAX_AGE_S, origin::is_secure(&headers));
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Ends the session of the cookie and removes the cookie.
#[utoipa::path(post, path = "/v1/logout", tag = "session", operation_id = "logout", security(()),
    responses(
        (status = 204, description = "The session is ended"),
        (status = 403, description = "The request is from a page of another origin",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn logout(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Problem> {
    origin::reject_foreign(&headers)?;
    if let Some(name) = app.session_of(&headers) {
        origin::require_same(&headers)?;
        app.sessions.close(&name);
    }
    let removed = [true, false].map(|is_secure| (header::SET_COOKIE, cookie("", 0, is_secure)));
    Ok((StatusCode::NO_CONTENT, AppendHeaders(removed)).into_response())
}

/// Lists the active sessions.
#[utoipa::path(get, path = "/v1/sessions", tag = "session", operation_id = "sessions",
    responses((status = 200, description = "The sessions; `id` revokes one",
        body = SessionList)))]
pub async fn list(
    State(app): State<Arc<App>>,
    Extension(access): Extension<Access>,
) -> Json<SessionList> {
    let current = match &access {
        Access::Session(name) => Some(&**name),
        Access::Open | Access::Token => None,
    };
    Json(SessionList { sessions: app.sessions.list(current, app.now_ms()) })
}

/// Revokes a session.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "session", operation_id = "revokeSession",
    params(("id" = String, Path, description = "`id` of the session in the list",
        example = "0123456789abcdef")),
    responses(
        (status = 204, description = "The session is revoked"),
        (status = 400, description = "The request is not valid; `faults` lists every fault",
            body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The request is from a page of another origin",
            body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "The session does not exist",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn revoke(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    match app.sessions.close(&path_segment(id)?) {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => {
            let detail = "the session does not exist; GET /v1/sessions lists them";
            Err(Problem::new(StatusCode::NOT_FOUND, "no_session", detail))
        }
    }
}

/// Settings of the map page.
#[utoipa::path(get, path = "/v1/page", tag = "session", operation_id = "page",
    responses((status = 200, description = "The settings", body = PageSettings)))]
pub async fn page(
    State(app): State<Arc<App>>,
    Extension(access): Extension<Access>,
) -> Result<Response, Problem> {
    let opened = app.opened()?;
    let stream = app.feed().is_ok_and(|feed| feed.is_available());
    Ok(Json(PageSettings {
        tiles: app.options.tiles.clone(),
        tiles_attribution: app.options.tiles_attribution.clone(),
        stream,
        version: env!("CARGO_PKG_VERSION"),
        max_gap_ms: opened.max_gap_ms,
        now: format_time(app.now_ms()),
        logged_in: matches!(access, Access::Session(_)),
    })
    .into_response())
}

impl App {
    /// The name of the session whose cookie the request has.
    fn session_of(&self, headers: &HeaderMap) -> Option<String> {
        let text = |value: &HeaderValue| value.to_str().map(str::to_owned).ok();
        let cookies: Vec<_> =
            headers.get_all(header::COOKIE).into_iter().filter_map(text).collect();
        let pairs = cookies.iter().flat_map(|text| text.split(';'));
        let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(name, id)| {
            let is_session = matches!(name.trim(), COOKIE | SECURE_COOKIE);
            is_session.then(|| self.sessions.touch(id.trim(), self.now_ms()))?
        })
    }

    /// How the request is authorised; `None` if it is not.
    pub(super) fn access(&self, headers: &HeaderMap) -> Option<Access> {
        let Some(token) = &self.options.token else { return Some(Access::Open) };
        match bearer(headers) {
            Some(secret) => token.matches(secret).then_some(Access::Token),
            None => self.session_of(headers).map(Access::Session),
        }
    }
}

/// Rejects requests that are not authorised. With a cookie, requests other than reads have to come
/// from a page of this server.
pub async fn require_auth(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let access = app.access(request.headers()).ok_or_else(|| {
        let detail = "this server requires a token: send `Authorization: Bearer TOKEN`, or log in \
            on the page";
        unauthorized(detail)
    })?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if matches!(access, Access::Session(_)) && !is_read {
        origin::require_same(request.headers())?;
    }
    request.extensions_mut().insert(access);
    Ok(next.run(request).await)
}

/// The challenge of routes for apps.
const APP_CHALLENGE: &str = "Basic realm=\"tstar\", charset=\"UTF-8\", Bearer";

/// Rejects requests without the token, as a bearer or as the password of Basic authentication: many
/// apps know no other. A cookie does not count.
pub async fn require_token(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Response> {
    let Some(token) = &app.options.token else { return Ok(next.run(request).await) };
    let headers = request.headers();
    let is_known = match bearer(headers) {
        Some(secret) => token.matches(secret),
        None => basic_password(headers).is_some_and(|password| token.matches(&password)),
    };
    if is_known {
        return Ok(next.run(request).await);
    }
    let detail = "this route requires the token of the server: send it as the password of a user \
        with any name (Basic authentication), or as `Authorization: Bearer TOKEN`";
    let mut rejection = unauthorized(detail).into_response();
    let challenge = HeaderValue::from_static(APP_CHALLENGE);
    rejection.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    Err(rejection)
}
